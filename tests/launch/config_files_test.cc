// TOML, torchtitan and DeepSpeed files.
#include <gmock/gmock.h>

#include "base/error.h"
#include "doc/reader.h"
#include "launch/setup.h"
#include "launch/toml.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

std::string toml_message(const std::string& text) {
  return refusal_of([&] { launch::parse_toml("f.toml", text); }, "");
}

std::string launch_message(const std::string& text) {
  return refusal_of([&] { launch::read_launch("f", text, {}, "", nullptr); }, "");
}

TEST(Toml, ReadsWhatConfigurationFilesHold) {
  const Document document =
      launch::parse_toml("f.toml",
                         "top = 1\n# comment\n[a]\nx = -3 # end\ny = 1_000\nz = 2.5e3\n"
                         "t = \"q\\\"\\n\"\nl = 'raw\\n'\nb = true\n"
                         "list = [\n  [\"p\", \"q\"],  # first\n  [],\n]\n[a.s]\nc.d = {e = 5, f = [1, 2]}\n");
  doc::Reader root(document);
  EXPECT_EQ(root.integer("top", {0, 9}), 1);
  doc::Reader a = root.object("a");
  EXPECT_EQ(a.integer("x", {-9, 9}), -3);
  EXPECT_EQ(a.integer("y", {0, 9999}), 1000);
  EXPECT_EQ(a.number("z", {0, 9999}), 2500);
  EXPECT_EQ(a.text("t"), "q\"\n");
  EXPECT_EQ(a.text("l"), "raw\\n");
  EXPECT_TRUE(a.flag_or("b", false));
  EXPECT_EQ(a.raw("list")->as_array()->size(), 2U);
  EXPECT_EQ(a.object("s").object("c").object("d").integer("e", {0, 9}), 5);
}

TEST(Toml, NamesTheLine) {
  EXPECT_THAT(toml_message("a = 1\nb = \n"), HasSubstr("f.toml: line 2"));
  EXPECT_THAT(toml_message("a = 1\na = 2\n"), HasSubstr("line 2: cannot redefine existing integer 'a'"));
  EXPECT_THAT(toml_message("[a]\n[a]\n"), HasSubstr("line 2: cannot redefine existing table 'a'"));
  EXPECT_THAT(toml_message("a = 1\n[a]\n"), HasSubstr("line 2: cannot redefine existing integer 'a' as table"));
  EXPECT_THAT(toml_message("a = \"x\n"), HasSubstr("line 1: "));
  EXPECT_THAT(toml_message("a = 1 b = 2\n"), HasSubstr("saw 'b'"));
  EXPECT_THAT(toml_message("a = [1, 2\n"), HasSubstr("end-of-file"));
  EXPECT_THAT(toml_message("\na = 2020-01-01\n"), HasSubstr("line 2: a date"));
  EXPECT_THAT(toml_message("a = nan\n"), HasSubstr("not finite"));
  EXPECT_THAT(toml_message("a b = 1\n"), HasSubstr("expected '='"));
  EXPECT_THAT(toml_message("[=a]\n"), HasSubstr("saw '='"));
}

// Beside ASCII some characters are blanks, which TOML does not allow where it allows others, and most are none.
TEST(Toml, LettersAreNoBlanks) {
  const Document document = launch::parse_toml("f.toml", "a = 1 # é、ɓ\nc = \"é、\"\n");
  doc::Reader root(document);
  EXPECT_EQ(root.integer("a", {0, 9}), 1);
  EXPECT_EQ(root.text("c"), "é、");
  for (const std::string blank : {"\u00A0", "\u2003", "\u3000"}) {
    EXPECT_THAT(toml_message("a = 1\n" + blank + "b = 2\n"), HasSubstr("line 2: expected space or tab")) << blank;
  }
  for (const std::string letter : {"é", "ɓ", "ÿ", "、", "\uFE70"}) {
    EXPECT_THAT(toml_message(letter + " = 1\n"), HasSubstr("line 1: ")) << letter;
    EXPECT_THAT(toml_message("a = 1\nb " + letter + "= 1\n"), HasSubstr("line 2: expected '='")) << letter;
    EXPECT_THAT(toml_message("a = " + letter + "\n"), HasSubstr("line 1: ")) << letter;
  }
}

TEST(Toml, BoundsNesting) {
  EXPECT_THAT(toml_message("a = " + std::string(200000, '[')), HasSubstr("maximum nested value depth of 16"));
  std::string key = "a";
  for (int i = 0; i < 90; ++i) key += ".a";
  EXPECT_THAT(toml_message("\n" + key + " = 1\n"), HasSubstr("line 2: values are nested too deeply"));
  for (int i = 0; i < 200000; ++i) key += ".a";
  EXPECT_THAT(toml_message("\n" + key + " = 1\n"), HasSubstr("line 2: more than 100 dots"));
  EXPECT_EQ(toml_message("# " + key + "\n"), "");
}

constexpr const char* kTitan =
    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
    "[training]\nlocal_batch_size = 8\nglobal_batch_size = 128\nseq_len = 8192\n"
    "[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\ntensor_parallel_degree = 2\n"
    "pipeline_parallel_degree = 4\npipeline_parallel_schedule = \"Interleaved1F1B\"\n"
    "[activation_checkpoint]\nmode = \"full\"\n";

TEST(TorchtitanFile, IsRead) {
  const launch::LaunchSetup setup = launch::read_launch("t.toml", kTitan, {}, "", nullptr);
  EXPECT_EQ(setup.framework, launch::Framework::torchtitan);
  EXPECT_EQ(setup.model_name, "llama3-8b");
  EXPECT_EQ(setup.world, 64);
  EXPECT_EQ(setup.micro_batch, 1);
  EXPECT_EQ(setup.local_batch, 8);
  EXPECT_EQ(setup.vpp, 2);
  EXPECT_EQ(setup.zero, 2);  // a pipeline keeps weights after forward
  EXPECT_EQ(setup.shard_instances, 2);
  EXPECT_TRUE(setup.sp);
  EXPECT_EQ(setup.recompute, Recompute::full);
}

// Both ends of the model are on the first rank, whose layers are those of the last stage.
TEST(TorchtitanFile, SchedulesInAV) {
  const std::string text =
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 8\nseq_len = 8192\n"
      "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"zbvzerobubble\"\n";
  const launch::LaunchSetup setup = launch::read_launch("t.toml", text, {}, "", nullptr);
  EXPECT_EQ(setup.schedule, Schedule::zbv);
  EXPECT_EQ(setup.vpp, 2);
  EXPECT_THAT(launch_message(text + "module_fqns_per_model_part = [[\"tok_embeddings\"], [\"output\"]]\n"),
              HasSubstr("a V has two for each"));
}

TEST(TorchtitanFile, OptionsOverrideIt) {
  const auto read = [](const std::string& path) -> std::optional<std::string> {
    return path == "t.toml" ? std::optional<std::string>(kTitan) : std::nullopt;
  };
  const launch::LaunchSetup setup =
      launch::read_launch("line",
                          "torchrun --nnodes 8 --nproc-per-node 8 -m torchtitan.train --job.config_file t.toml "
                          "--parallelism.tensor_parallel_degree 4 --parallelism.data_parallel_shard_degree=2 "
                          "--activation_checkpoint.mode none",
                          {}, "", read);
  EXPECT_EQ(setup.tp, 4);
  EXPECT_EQ(setup.world, 64);
  EXPECT_EQ(setup.recompute, Recompute::none);
  EXPECT_THROW(launch::read_launch("line", "torchrun -m torchtitan.train --job.config_file none.toml", {}, "", read),
               InputError);
}

TEST(TorchtitanFile, NamesTheKey) {
  const std::string text = kTitan;
  EXPECT_THAT(launch_message(text + "[compile]\nenable = 3\n"), HasSubstr("compile.enable"));
  EXPECT_THAT(launch_message("[parallelism]\ntensor_parallel_degree = 0\n"),
              HasSubstr("parallelism.tensor_parallel_degree"));
  EXPECT_THAT(
      launch_message("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Looped\"\n"),
      HasSubstr("`Looped` is not modelled; understood are 1F1B, GPipe, Interleaved1F1B, ZBVZeroBubble and DualPipeV"));
  EXPECT_THAT(launch_message("[activation_checkpoint]\nmode = \"sometimes\"\n"),
              HasSubstr("activation_checkpoint.mode"));
}

TEST(DeepspeedFile, IsRead) {
  const launch::LaunchSetup setup = launch::read_launch(
      "ds.json",
      R"({"train_batch_size": 128, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": "auto",
      "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "mics_shard_size": 8, "offload_param": {"device": "cpu"}},
      "tensor_parallel": {"autotp_size": 2}, "sequence_parallel_size": 1})",
      {}, "", nullptr);
  EXPECT_EQ(setup.framework, launch::Framework::deepspeed);
  EXPECT_EQ(setup.global_batch, 128);
  EXPECT_EQ(setup.zero, 3);
  EXPECT_EQ(setup.shard_degree, 8);
  EXPECT_EQ(setup.tp, 2);
  EXPECT_EQ(setup.precision, Precision::bf16);
  EXPECT_EQ(setup.stack.data_overlap, cost::DataOverlap::fsdp);
  EXPECT_THAT(setup.notes, Contains(HasSubstr("offload_param")));
  EXPECT_THAT(launch_message(R"({"zero_optimization": {"stage": 4}})"), HasSubstr("zero_optimization.stage"));
  EXPECT_THAT(launch_message(R"({"pipeline": {"stages": 4}, "zero_optimization": {"stage": 2}})"),
              HasSubstr("takes 0 or 1"));
  EXPECT_THAT(launch_message(R"({"zero_optimization": )"), HasSubstr("f:"));
}

TEST(MegatronDeepspeed, TakesItsFile) {
  const auto read = [](const std::string& path) -> std::optional<std::string> {
    if (path != "ds.json") return std::nullopt;
    return R"({"zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 4, "train_micro_batch_size_per_gpu": 2})";
  };
  const std::string line =
      "deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
      "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 2 --tensor-model-parallel-size 2 "
      "--deepspeed "
      "--zero-stage 1 --deepspeed_config ";
  const launch::LaunchSetup setup = launch::read_launch("line", line + "ds.json", {}, "", read);
  EXPECT_EQ(setup.framework, launch::Framework::deepspeed);
  EXPECT_EQ(setup.accumulation, 4);
  EXPECT_EQ(setup.zero, 1);
  EXPECT_EQ(setup.world, 16);
  EXPECT_THAT(launch::read_launch("line", line + "other.json", {}, "", read).notes,
              Contains(HasSubstr("other.json cannot be read")));
}

TEST(YamlArguments, AreOptions) {
  const std::string yaml =
      "ENV_VARS:\n  A: 1\nMODEL_ARGS:\n  --tensor-model-parallel-size: 4\n  --sequence-parallel: true\n"
      "  --use-distributed-optimizer: false\n  --recompute-granularity: selective\n"
      "  --recompute-modules: \"[core_attn layernorm]\"\n  --micro-batch-size: ${MBS}\n";
  const launch::LaunchSetup setup = launch::read_launch("c.yaml", yaml, {{"MBS", {{"3", {}, 0}}}}, "", nullptr);
  EXPECT_EQ(setup.tp, 4);
  EXPECT_TRUE(setup.sp);
  EXPECT_EQ(setup.zero, 0);
  EXPECT_EQ(setup.micro_batch, 3);
  EXPECT_EQ(setup.stack.selective_modules.size(), 2U);
  EXPECT_THAT(launch_message(yaml), HasSubstr("line 9: --micro-batch-size: $MBS is not set"));
  // PyYAML takes the last of several.
  const std::string twice =
      "MODEL_ARGS:\n  --tensor-model-parallel-size: 4\n  --micro-batch-size: 1\n"
      "  --tensor-model-parallel-size: 2\n";
  EXPECT_EQ(launch::read_launch("c.yaml", twice, {}, "", nullptr).tp, 2);
  EXPECT_THAT(launch_message("MODEL_ARGS:\n  tensor: 4\n"), HasSubstr("options begin with --"));
  EXPECT_THAT(launch_message("MODEL_ARGS: 4\n"), HasSubstr("is no map"));
}

}  // namespace
}  // namespace nest::test
