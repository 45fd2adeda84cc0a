// nest eval --from: somebody's own launch line.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

const std::string kLine =
    "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 16 --nproc-per-node 8 --node-rank $RANK --master-addr $HOST "
    "pretrain_gpt.py --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
    "--group-query-attention --num-query-groups 8 --seq-length 4096 --max-position-embeddings 4096 "
    "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear "
    "--untie-embeddings-and-output-weights --vocab-size 128256 --hidden-dropout 0 --attention-dropout 0 "
    "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 8 --micro-batch-size 1 --global-batch-size 128 "
    "--bf16 --use-distributed-optimizer --data-path $DATA";

TEST(EvalFrom, AnswersOnOneScreen) {
  const Result result = nest({"eval", "--cluster", "dgx-h100", "--from", kLine});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out, HasSubstr("Yours: "));
  EXPECT_THAT(result.out, HasSubstr("to spare on stage"));
  EXPECT_THAT(result.out, HasSubstr("Best:  "));
  EXPECT_THAT(result.out, HasSubstr("x faster (> 99 % sure), proven"));
  EXPECT_THAT(result.out, HasSubstr("Binds: "));
  EXPECT_THAT(result.out, HasSubstr("pipeline bubble"));
  EXPECT_THAT(result.out, HasSubstr("Smallest change with the largest gain:"));
  expect_fits_screen(result.out);
}

TEST(EvalFrom, JsonAddsUp) {
  const Result result = nest({"eval", "--cluster", "dgx-h100", "--from", kLine, "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("schema"), "nest.why/1");
  EXPECT_EQ(json.at("yours").at("strategy").at("tp"), 4);
  EXPECT_EQ(json.at("yours").at("strategy").at("dp"), 4);
  double yours = 0, best = 0;
  for (const Json& term : json.at("terms")) {
    yours += term.at("yours_s").get<double>();
    best += term.at("best_s").get<double>();
  }
  EXPECT_NEAR(yours, json.at("yours").at("prediction").at("iteration_s").get<double>(), 1e-9);
  EXPECT_NEAR(best, json.at("best").at("prediction").at("iteration_s").get<double>(), 1e-9);
  EXPECT_LE(best, yours);
  const double recommended = json.at("recommended").at("iteration_s");
  EXPECT_LT(recommended, yours);
  EXPECT_GE(recommended, best * (1 - 1e-9));
  for (const Json& change : json.at("changes")) EXPECT_GE(change.at("iteration_s").get<double>(), best * (1 - 1e-9));
}

// A recommended change, made, has the time that was promised.
// A setup's own time by the judge that was asked for.
double own_seconds(const Json& answer) {
  const Json& yours = answer.at("yours");
  return yours.at(yours.contains("executed") ? "executed" : "prediction").at("iteration_s");
}

TEST(EvalFrom, AChangeThatIsMadeKeepsItsPromise) {
  int otherwise = 0;  // than by the formula
  for (const char* judge : {"formula", "simulation"}) {
    const Json before = Json::parse(nest({"eval", "--from", kLine, "--judge", judge, "--json"}).out);
    int tried = 0;
    for (const Json& change : before.at("changes")) {
      const std::string options = change.at("options");
      if (!options.starts_with("--") || options.find("layout") != std::string::npos) continue;
      const Result after = nest({"eval", "--from", kLine, "--with", options, "--judge", judge, "--json"});
      ASSERT_EQ(after.code, 0) << options << after.err;
      const Json made = Json::parse(after.out);
      EXPECT_NEAR(own_seconds(made), change.at("iteration_s").get<double>(), 1e-9) << judge << " " << options;
      otherwise += made.at("yours").contains("executed") ? 1 : 0;
      ++tried;
    }
    EXPECT_GE(tried, 4) << judge;
    // Nothing that was judged is faster than what is called the best.
    const Json& best = before.at("best");
    const double least = best.at(best.contains("executed") ? "executed" : "prediction").at("iteration_s");
    EXPECT_LE(least, own_seconds(before)) << judge;
    for (const Json& change : before.at("changes")) EXPECT_LE(least, change.at("iteration_s").get<double>() + 1e-9);
  }
  EXPECT_GT(otherwise, 0);
}

// The same for overrides, in whose words changes are proposed, with an object for overlap and without.
TEST(EvalFrom, ChangesOfOverridesAreOverrides) {
  const std::string line =
      "torchrun --nnodes 8 --nproc-per-node 8 run_recipe.py --recipe llama3_8b_pretrain_config -tp 4 -pp 4 -cp 1 "
      "-mb 1 -gb 128 -sl 4096 model.recompute_granularity=null ddp.use_distributed_optimizer=true "
      "mixed_precision=bf16_mixed ";
  for (const char* overlap : {"ddp.overlap_grad_reduce=false", "++comm_overlap={tp_comm_overlap:false}"}) {
    const Result first =
        nest({"eval", "--from", line + overlap, "--cluster", "dgx-h100", "--judge", "formula", "--json"});
    ASSERT_EQ(first.code, 0) << first.err;
    const Json before = Json::parse(first.out);
    int tried = 0;
    for (const Json& change : before.at("changes")) {
      const std::string options = change.at("options");
      EXPECT_THAT(options, ::testing::Not(HasSubstr("--"))) << options;
      if (options.find("layout") != std::string::npos) continue;
      const Result after = nest({"eval", "--from", line + overlap, "--cluster", "dgx-h100", "--judge", "formula",
                                 "--with", options, "--json"});
      ASSERT_EQ(after.code, 0) << options << after.err;
      EXPECT_NEAR(own_seconds(Json::parse(after.out)), change.at("iteration_s").get<double>(), 1e-9) << options;
      ++tried;
    }
    EXPECT_GE(tried, 4);
  }
}

TEST(EvalFrom, SaysWhatDoesNotFitAndWhatWould) {
  const std::string line =
      kLine + " --tensor-model-parallel-size 1 --pipeline-model-parallel-size 8 --micro-batch-size 2 --seq-length 4096";
  const Result result = nest({"eval", "--from", line});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_THAT(result.out, HasSubstr("does not fit: stage"));
  EXPECT_THAT(result.out, HasSubstr("makes it fit"));
  expect_fits_screen(result.out);
}

TEST(EvalFrom, ReadsFilesAndVariables) {
  const auto folder = std::filesystem::temp_directory_path() / ("nest-from-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string script = (folder / "run.sh").string();
  std::ofstream(script)
      << "NODES=$SLURM_NNODES\ntorchrun --nnodes $NODES --nproc-per-node 8 pretrain_gpt.py "
         "--tensor-model-parallel-size 2 --sequence-parallel --micro-batch-size 1 --global-batch-size 64 "
         "--bf16 --seq-length 2048 --use-distributed-optimizer\n";
  const Result unknown = nest({"eval", "--from", script, "--model", "llama3-8b"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("$SLURM_NNODES is not known"));
  EXPECT_EQ(nest({"eval", "--from", script, "--model", "llama3-8b", "--define", "SLURM_NNODES=2"}).code, 0);
  EXPECT_EQ(nest({"eval", "--from", script, "--model", "llama3-8b", "--devices", "16"}).code, 0);
  const std::string toml = (folder / "t.toml").string();
  std::ofstream(toml)
      << "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 1\nglobal_batch_size = 32\n"
         "seq_len = 4096\n[parallelism]\ndata_parallel_shard_degree = 16\n[compile]\nenable = true\n";
  const Result titan = nest({"eval", "--from", toml, "--json"});
  EXPECT_EQ(titan.code, 0) << titan.err;
  EXPECT_EQ(Json::parse(titan.out).at("framework"), "torchtitan");
  const std::string deepspeed = (folder / "ds.json").string();
  std::ofstream(deepspeed)
      << R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                                  "zero_optimization": {"stage": 3}})";
  const Result ds =
      nest({"eval", "--from", deepspeed, "--model", "llama3-8b", "--devices", "16", "--seq", "2048", "--json"});
  EXPECT_TRUE(ds.code == 0 || ds.code == 3) << ds.err;
  EXPECT_EQ(Json::parse(ds.out).at("framework"), "deepspeed");
  std::filesystem::remove_all(folder);
}

TEST(EvalFrom, ExplainsMistakes) {
  const auto message = [](const std::vector<std::string>& arguments) {
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, IsEmpty());
    return result.err;
  };
  EXPECT_THAT(message({"eval", "--from", "no-such-script.sh"}), HasSubstr("no such file"));
  EXPECT_THAT(message({"eval", "--from", "echo hello"}), HasSubstr("nothing in it starts a training program"));
  EXPECT_THAT(message({"eval", "--from", kLine + " --hidden-size x"}),
              HasSubstr("launch line: line 1: --hidden-size: found `x`"));
  EXPECT_THAT(message({"eval", "--from", kLine + " --pipeline-model-parallel-size $PP"}), HasSubstr("$PP is not set"));
  EXPECT_THAT(message({"eval", "--from", kLine, "--devices", "64"}), HasSubstr("starts 128 ranks"));
  EXPECT_THAT(message({"eval", "--from", kLine, "--define", "X"}), HasSubstr("--define"));
  EXPECT_THAT(message({"eval", "--from", kLine, "--strategy", "tp=2"}), HasSubstr("--strategy: contradicts --from"));
  EXPECT_THAT(message({"eval", "--from", kLine, "--global-batch", "64"}), HasSubstr("says 128"));
  EXPECT_THAT(message({"eval", "--from", kLine, "--seq", "64"}), HasSubstr("says 4096"));
  EXPECT_THAT(message({"eval", "--from", kLine + " 'open"}), HasSubstr("never closed"));
  EXPECT_THAT(message({"eval", "--from", kLine + " --global-batch-size 130"}), HasSubstr("no multiple"));
  EXPECT_THAT(message({"eval", "--from", "torchrun --nproc-per-node 8 pretrain_gpt.py --micro-batch-size 1"}),
              HasSubstr("--model"));
  std::string without = kLine;
  without.erase(without.find("--vocab-size 128256"), 19);
  EXPECT_THAT(message({"eval", "--from", without}), HasSubstr("--vocab-size is missing"));
}

}  // namespace
}  // namespace nest::test
