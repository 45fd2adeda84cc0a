// Recipes that NVIDIA publishes and runs (Megatron-Bridge 26.08, MXFP8) fit with the stack that is chosen for them.
#include <gtest/gtest.h>

#include "nest/evaluate.h"
#include "nest/job.h"

namespace nest {
namespace {

TEST(Recipes, OfMixturesFitWithTheirPreset) {
  struct Recipe {
    const char *model, *cluster;
    std::int64_t devices, global_batch, mtp_layers;
    const char* strategy;
  };
  const Recipe recipes[] = {
      {"deepseek-v3", "gb300-nvl72", 256, 4096, 1, "pp=2,vpp=8,ep=32,mbs=1"},
      {"deepseek-v3", "gb200-nvl72", 256, 4096, 1, "pp=4,vpp=4,ep=64,mbs=1,recompute=selective"},
      {"gpt-oss-120b", "gb300-nvl72", 64, 1280, 0, "ep=16,mbs=4"},
      {"gpt-oss-120b", "gb200-nvl72", 64, 1280, 0, "ep=64,mbs=4"},
      {"qwen3-30b-a3b", "gb300-nvl72", 8, 512, 0, "ep=8,mbs=8"},
      {"qwen3-30b-a3b", "gb200-nvl72", 8, 512, 0, "ep=8,mbs=4"},
      {"qwen3-235b-a22b", "gb300-nvl72", 256, 8192, 0, "pp=4,vpp=12,ep=32,mbs=2"},
      {"qwen3-235b-a22b", "gb200-nvl72", 256, 8192, 0, "pp=8,vpp=3,ep=32,mbs=1"},
  };
  for (const Recipe& recipe : recipes) {
    SCOPED_TRACE(std::string(recipe.model) + " on " + recipe.cluster);
    Question question;
    question.model = recipe.model;
    question.cluster = recipe.cluster;
    question.devices = recipe.devices;
    question.global_batch = recipe.global_batch;
    question.seq = 4096;
    question.mtp_layers = recipe.mtp_layers;
    question.precision = Precision::fp8;
    const Plan plan = evaluate_plan(read_job(question), recipe.strategy);
    EXPECT_TRUE(plan.fits) << plan.misfit;
    // MFU is of the 8-bit peak, 4.9 PFLOP/s or more on these devices.
    EXPECT_LT(plan.prediction.mfu, 0.5);
    EXPECT_GT(plan.prediction.flops_per_s_per_device, 4.5e15 * plan.prediction.mfu);
  }
}

}  // namespace
}  // namespace nest
