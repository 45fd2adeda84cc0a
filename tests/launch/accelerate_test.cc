// Hugging Face configurations as people write them.
#include <gmock/gmock.h>

#include "base/error.h"
#include "launch/setup.h"

namespace nest::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LaunchSetup hugging_face(const std::string& text, const std::string& with = "", const ReadNamedFile& read = nullptr) {
  return read_launch("config", text, {}, with, read);
}

std::string hf_complaint(const std::string& text, const std::string& with = "") {
  try {
    hugging_face(text, with);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

// transformers' documented ds_config_zero3.json, shortened.
constexpr const char* kAuto = R"({"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": "auto",
                          "stage3_prefetch_bucket_size": "auto"},
    "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto"})";

TEST(HuggingFace, TrainerSaysWhatIsAuto) {
  const LaunchSetup setup = hugging_face(
      kAuto, "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --bf16 true --gradient_checkpointing");
  EXPECT_EQ(setup.framework, Framework::deepspeed);
  EXPECT_EQ(setup.stack.name, "hf-deepspeed");
  EXPECT_EQ(setup.stack.attention, cost::AttentionKernel::flash2);
  EXPECT_EQ(setup.stack.data_overlap, cost::DataOverlap::fsdp);
  EXPECT_EQ(setup.micro_batch, 2);
  EXPECT_EQ(setup.accumulation, 4);
  EXPECT_EQ(setup.precision, Precision::bf16);
  EXPECT_EQ(setup.recompute, Recompute::full);
  EXPECT_EQ(hugging_face(kAuto).micro_batch, std::nullopt);
  EXPECT_EQ(hugging_face(R"({"pipeline": {"stages": 2}})").stack.name, "megatron-deepspeed");
}

TEST(HuggingFace, RefusesWhatItCannotUse) {
  EXPECT_THAT(hf_complaint(kAuto, "--learning_rate 3"), HasSubstr("`--learning_rate` is no argument of the Trainer"));
  EXPECT_THAT(hf_complaint(kAuto, "--bf16 maybe"), HasSubstr("--bf16: maybe is neither true nor false"));
  EXPECT_THAT(hf_complaint(kAuto, "--per_device_train_batch_size 0"), HasSubstr("is no number from 1"));
  EXPECT_THAT(hf_complaint(R"({"train_micro_batch_size_per_gpu": 4})", "--per_device_train_batch_size 2"),
              HasSubstr("2 is given, and config says 4"));
  EXPECT_THAT(hf_complaint("distributed_type: TPU\n"), HasSubstr("TPU is not read"));
  EXPECT_THAT(hf_complaint("distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n"),
              HasSubstr("HYBRID_SHARD is not read"));
  EXPECT_THAT(hf_complaint("distributed_type: FSDP\nmixed_precision: fp8\n"), HasSubstr("fp8 is not read"));
}

// accelerate's examples/config_yaml_templates/fsdp.yaml.
TEST(HuggingFace, ReadsAccelerateOfBothVersions) {
  const LaunchSetup first = hugging_face(
      "# Since we are doing FSDP\ndistributed_type: FSDP\nmixed_precision: 'bf16'\nnum_processes: 2\nfsdp_config:\n"
      "  fsdp_activation_checkpointing: false\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_offload_params: true\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n");
  EXPECT_EQ(first.framework, Framework::fsdp);
  EXPECT_EQ(first.zero, 2);
  EXPECT_EQ(first.world, 2);
  EXPECT_EQ(first.recompute, Recompute::none);
  EXPECT_THAT(first.notes, ElementsAre("fsdp_offload_params is not modelled"));
  const LaunchSetup second = hugging_face(
      "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\nfsdp_config:\n  fsdp_version: 2\n"
      "  fsdp_reshard_after_forward: true\n  fsdp_activation_checkpointing: true\nparallelism_config:\n"
      "  parallelism_config_dp_replicate_size: 2\n  parallelism_config_dp_shard_size: 8\n");
  EXPECT_EQ(second.zero, 3);
  EXPECT_EQ(second.shard_degree, 8);
  EXPECT_EQ(second.recompute, Recompute::full);
  const LaunchSetup third = hugging_face(
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 3\n"
      "  gradient_accumulation_steps: 4\n  offload_optimizer_device: cpu\n");
  EXPECT_EQ(third.framework, Framework::deepspeed);
  EXPECT_EQ(third.zero, 3);
  EXPECT_EQ(third.accumulation, 4);
  EXPECT_THAT(third.notes, ElementsAre("offload_optimizer_device is not modelled"));
  const auto beside = [](const std::string& /*name*/) { return std::optional<std::string>(kAuto); };
  EXPECT_EQ(
      hugging_face("distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n", "", beside)
          .zero,
      3);
  EXPECT_EQ(hugging_face("distributed_type: MULTI_GPU\nnum_processes: 8\n").stack.name, "huggingface");
}

}  // namespace
}  // namespace nest::launch
