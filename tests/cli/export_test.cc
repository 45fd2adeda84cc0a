// nest export, as people and scripts call it.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "golden.h"
#include "program.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Json = nlohmann::json;

class Export : public ::testing::Test {
 protected:
  Export() : folder_(std::filesystem::temp_directory_path() / ("nest-export-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Export() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string text_of(const std::string& file) {
    std::ifstream stream(file);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  // A plan by strategy, written to plan.json.
  std::string plan(const std::string& strategy, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"eval",      "--model", "llama3-8b",      "--cluster", "dgx-h100",
                                          "--devices", "64",      "--global-batch", "128",       "--seq",
                                          "4096",      "--json",  "--strategy",     strategy};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = nest(arguments);
    EXPECT_TRUE(result.code == 0 || result.code == 3) << result.err;
    std::ofstream(path("plan.json")) << result.out;
    return path("plan.json");
  }

  std::filesystem::path folder_;
};

TEST_F(Export, WritesWhatTheFrameworkRunsAndSaysSo) {
  const std::string file = plan("tp=2,sp=1,pp=2,mbs=1");
  const Result result = nest({"export", file, "--to", "megatron", "-o", path("args")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("megatron runs this plan as it is: "));
  EXPECT_THAT(result.out, HasSubstr("Set CUDA_DEVICE_MAX_CONNECTIONS=1."));
  EXPECT_THAT(result.out, HasSubstr("Written to "));
  EXPECT_THAT(text_of(path("args")), HasSubstr("--tensor-model-parallel-size 2\n"));
  expect_fits_screen(result.out.substr(0, result.out.find("Written")));
  EXPECT_EQ(files(), 2U);  // the plan and the arguments, no temporary file
}

TEST_F(Export, WithoutAFileTheResultIsStandardOutput) {
  const std::string file = plan("tp=2,sp=1,pp=2,mbs=1");
  const Result result = nest({"export", file, "--to", "megatron"});
  EXPECT_THAT(result.out, StartsWith("--num-layers 32\n"));
  EXPECT_THAT(result.err, HasSubstr("runs this plan as it is"));
}

TEST_F(Export, GivesTheNearestPlanAndItsCost) {
  // Hand-written: the last stage shards less than the others.
  const std::string file = plan("tp=2,sp=1,pp=4,mbs=1,zero=1");
  Json json = Json::parse(text_of(file));
  json["stages"][3]["zero"] = 0;
  json["stages"][3]["zero_degree"] = 1;
  std::ofstream(path("uneven.json")) << json.dump();
  const Result result = nest({"export", path("uneven.json"), "--to", "megatron", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  const Json exported = Json::parse(result.out);
  EXPECT_FALSE(exported.at("as_asked").get<bool>());
  EXPECT_EQ(exported.at("cannot").size(), 1U);
  EXPECT_THAT(exported.at("cannot")[0].get<std::string>(), StartsWith("cannot shard stage 3 alone"));
  EXPECT_TRUE(exported.at("proven").get<bool>());
  EXPECT_NEAR(exported.at("excess").get<double>(),
              exported.at("iteration_s").get<double>() / exported.at("asked_iteration_s").get<double>() - 1, 1e-12);
  // The plan that was written is the one that is priced.
  std::ofstream(path("near.json")) << exported.at("plan").dump();
  const Result priced = nest({"eval", path("near.json"), "--json"});
  ASSERT_EQ(priced.code, 0) << priced.err;
  EXPECT_DOUBLE_EQ(Json::parse(priced.out).at("prediction").at("iteration_s"), exported.at("iteration_s"));
  const Result text = nest({"export", path("uneven.json"), "--to", "megatron"});
  EXPECT_THAT(text.err, StartsWith("megatron cannot shard stage 3 alone"));
  EXPECT_THAT(text.err, HasSubstr("%"));
}

TEST_F(Export, EveryFrameworkAndFormatGivesSomething) {
  const std::string file = plan("tp=2,sp=1,pp=4,mbs=1,zero=1");
  for (const auto& [target, format, has] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"megatron", "args", "--micro-batch-size 1"},
           {"megatron", "script", "torchrun --nnodes 8"},
           {"nemo", "bridge", "model.tensor_model_parallel_size="},
           {"nemo", "nemo2", "trainer.strategy."},
           {"deepspeed", "json", "\"zero_optimization\""},
           {"torchtitan", "toml", "[parallelism]"},
           {"torchtitan-main", "python", "parallelism=ParallelismConfig("},
           {"sbatch", "megatron", "#SBATCH --nodes=8"},
           {"rankfile", "slurm", "node0007"},
           {"rankfile", "slurm-hosts", "node0007"},
           {"rankfile", "openmpi", "rank 63=node0007"},
           {"rankfile", "torchrun", "7 node0007"},
           {"rankfile", "json", "nest.ranks/1"}}) {
    const Result result = nest({"export", file, "--to", target, "--format", format});
    EXPECT_EQ(result.code, 0) << target << result.err;
    EXPECT_THAT(result.out, HasSubstr(has)) << target << " " << format;
  }
}

TEST_F(Export, WhatIsWrittenComesBackFromALaunchLine) {
  const std::string file = plan("tp=2,sp=1,pp=4,vpp=2,mbs=1,zero=1");
  ASSERT_EQ(nest({"export", file, "--to", "megatron", "--format", "script", "-o", path("run.sh")}).code, 0);
  const Result result = nest({"eval", "--from", path("run.sh"), "--cluster", "dgx-h100", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json yours = Json::parse(result.out).at("yours"), asked = Json::parse(text_of(file));
  EXPECT_EQ(yours.at("strategy"), asked.at("strategy"));
}

TEST_F(Export, LeavesNothingBehindWhenItFails) {
  const std::string file = plan("tp=2,sp=1,pp=2,mbs=1");
  const auto fails = [&](const std::vector<std::string>& arguments, const std::string& says) {
    const std::size_t before = files();
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(files(), before);
  };
  fails({"export", file, "--to", "megatro", "-o", path("x")}, "--to");
  fails({"export", file}, "--to: is missing");
  fails({"export", "--to", "megatron"}, "PLAN: a plan file is missing");
  fails({"export", file, "--to", "megatron", "--format", "toml", "-o", path("x")}, "is none of args and script");
  fails({"export", path("none.json"), "--to", "megatron"}, "none.json: cannot be read");
  fails({"export", file, "--to", "megatron", "-o", path("no/such/folder")}, "cannot be written");
  fails({"export", file, "--to", "rankfile", "--per-host", "3", "-o", path("x")}, "not a multiple of 3");
  std::ofstream(path("bad.json")) << "{\"schema\": \"nest.plan/1\",\n \"strategy\": {\"tp\": 0}}";
  fails({"export", path("bad.json"), "--to", "megatron", "-o", path("x")}, "bad.json");
  std::ofstream(path("other.json")) << R"({"schema": "other/1"})";
  fails({"export", path("other.json"), "--to", "megatron", "-o", path("x")}, "schema");
  // A model that pretrain_gpt.py does not have.
  const Result bert = nest(
      {"eval", "--model", "bert-large", "--devices", "8", "--global-batch", "64", "--strategy", "mbs=1", "--json"});
  std::ofstream(path("bert.json")) << bert.out;
  fails({"export", path("bert.json"), "--to", "megatron", "-o", path("x")}, "--no-model");
  EXPECT_EQ(nest({"export", path("bert.json"), "--to", "megatron", "--no-model", "-o", path("x")}).code, 0);
}

TEST_F(Export, AFullDiskIsNoSuccess) {
  const std::string file = plan("tp=2,sp=1,pp=2,mbs=1");
  const Result result = nest({"export", file, "--to", "megatron", "-o", "/dev/full"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("/dev/full: cannot be written"));
}

TEST_F(Export, NodeNamesAreThoseOfTheCluster) {
  std::ofstream(path("c.yaml")) << "device: h100\nnode_names: [rack7-a, rack7-b]\nlevels:\n"
                                   "  - {name: node, group: 4, bandwidth: 450GB/s, latency: 3us}\n"
                                   "  - {name: pod, group: 2, bandwidth: 50GB/s, latency: 8us}\n";
  const Result priced = nest({"eval", "--model", "llama3-8b", "--cluster", path("c.yaml"), "--global-batch", "16",
                              "--seq", "2048", "--strategy", "tp=4,mbs=1", "--json"});
  ASSERT_EQ(priced.code, 0) << priced.err;
  std::ofstream(path("named.json")) << priced.out;
  const Result ranks = nest({"export", path("named.json"), "--to", "rankfile", "--format", "torchrun"});
  EXPECT_THAT(ranks.out, HasSubstr("0 rack7-a\n1 rack7-b\n"));
}

}  // namespace
}  // namespace nest::test
