// Lines that start transformers' Trainer, by torchrun, deepspeed and accelerate.
#include <gmock/gmock.h>

#include "launch/setup.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::optional<std::string> trainer_file(const std::string& path) {
  if (path == "fsdp.yaml") {
    return "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 16\n"
           "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: false\n";
  }
  if (path == "ds.json") {
    return R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
               "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 3}})";
  }
  if (path == "fsdp.json") return R"({"activation_checkpointing": true, "reshard_after_forward": false})";
  return std::nullopt;
}

launch::LaunchSetup read_trainer(const std::string& line) {
  return launch::read_launch("line", line, {}, "", trainer_file);
}

std::string trainer_refusal(const std::string& line) {
  return refusal_of([&] { read_trainer(line); }, "");
}

TEST(TrainerLaunch, Torchrun) {
  const launch::LaunchSetup setup = read_trainer(
      "torchrun --nproc_per_node 8 --nnodes=2 run_clm.py --model_name_or_path llama3-8b --block_size 4096 "
      "--fsdp \"full_shard auto_wrap\" --bf16 --per_device_train_batch_size 2 --gradient-accumulation-steps=4 "
      "--report_to wandb tensorboard --do_train --learning_rate 2e-5");
  EXPECT_EQ(setup.framework, launch::Framework::fsdp);
  EXPECT_EQ(setup.stack.name, "hf-fsdp");
  EXPECT_EQ(setup.model_name, "llama3-8b");
  EXPECT_EQ(setup.world, 16);
  EXPECT_EQ(setup.micro_batch, 2);
  EXPECT_EQ(setup.accumulation, 4);
  EXPECT_EQ(setup.sequence, 4096);
  EXPECT_EQ(setup.zero, 3);
  EXPECT_EQ(setup.precision, Precision::bf16);
  EXPECT_EQ(setup.recompute, Recompute::none);
  EXPECT_THAT(setup.notes, IsEmpty());
}

TEST(TrainerLaunch, WaysToShard) {
  const auto of = [](const std::string& more) {
    return read_trainer("torchrun --nproc_per_node 4 --nnodes 2 t.py --per_device_train_batch_size 1 " + more);
  };
  EXPECT_EQ(of("").zero, 0);
  EXPECT_EQ(of("").stack.name, "huggingface");
  EXPECT_EQ(of("").precision, Precision::fp32);
  EXPECT_EQ(of("--fsdp shard_grad_op").zero, 2);
  EXPECT_EQ(of("--fsdp no_shard").zero, 0);
  EXPECT_EQ(of("--fsdp hybrid_shard").shard_degree, 4);
  EXPECT_EQ(of("--fsdp hybrid_shard_zero2").zero, 2);
  const launch::LaunchSetup config = of("--fsdp full_shard --fsdp_config fsdp.json");
  EXPECT_EQ(config.zero, 2);
  EXPECT_EQ(config.recompute, Recompute::full);
  EXPECT_THAT(of("--fsdp 'full_shard offload'").notes, ElementsAre("--fsdp offload is not modelled"));
}

// 8 sequences are TrainingArguments' default.
TEST(TrainerLaunch, Deepspeed) {
  const launch::LaunchSetup setup = read_trainer(
      "deepspeed --num_gpus=8 run_clm.py --deepspeed ds.json --bf16 True --per_device_train_batch_size 8 "
      "--optim paged_adamw_8bit --attn_implementation eager --gradient_checkpointing");
  EXPECT_EQ(setup.framework, launch::Framework::deepspeed);
  EXPECT_EQ(setup.stack.name, "hf-deepspeed");
  EXPECT_EQ(setup.zero, 3);
  EXPECT_EQ(setup.world, 8);
  EXPECT_EQ(setup.micro_batch, 8);
  EXPECT_EQ(setup.precision, Precision::bf16);
  EXPECT_EQ(setup.recompute, Recompute::full);
  EXPECT_THAT(setup.notes, ElementsAre("--optim paged_adamw_8bit is not modelled",
                                       "--attn_implementation eager: modelled with flash attention"));
  EXPECT_EQ(read_trainer("torchrun --nproc_per_node 8 t.py --fsdp full_shard").micro_batch, 8);
}

TEST(TrainerLaunch, Accelerate) {
  const launch::LaunchSetup file = read_trainer(
      "accelerate launch --config_file fsdp.yaml --num-processes 32 --main_process_ip $HEAD -m trainer.sft "
      "--per_device_train_batch_size 2 --max_seq_length 2048");
  EXPECT_EQ(file.framework, launch::Framework::fsdp);
  EXPECT_EQ(file.world, 32);
  EXPECT_EQ(file.zero, 2);
  EXPECT_EQ(file.precision, Precision::bf16);
  EXPECT_EQ(file.sequence, 2048);
  const launch::LaunchSetup options =
      read_trainer("accelerate launch --use_deepspeed --zero_stage=2 --num_processes 8 --mixed_precision fp16 t.py");
  EXPECT_EQ(options.framework, launch::Framework::deepspeed);
  EXPECT_EQ(options.zero, 2);
  EXPECT_EQ(options.world, 8);
  EXPECT_EQ(options.precision, Precision::fp16);
  EXPECT_EQ(options.micro_batch, std::nullopt);  // a script of its own
  const launch::LaunchSetup sharded = read_trainer(
      "accelerate launch --use_fsdp --fsdp_version 2 --fsdp_activation_checkpointing true --num_processes 8 t.py");
  EXPECT_EQ(sharded.zero, 3);
  EXPECT_EQ(sharded.recompute, Recompute::full);
  EXPECT_EQ(read_trainer("accelerate launch --multi_gpu --num_processes 4 t.py").stack.name, "huggingface");
  // A word that is no option says nothing.
  EXPECT_EQ(read_trainer("accelerate launch - --num_processes=8 t.py").stack.name, "huggingface");
}

// Megatron-DeepSpeed's own words: activations are checkpointed as a whole, one expert is none, flash attention is a switch.
TEST(MegatronDeepspeed, HasItsOwnWords) {
  const std::string line =
      "deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed --zero-stage 1 --num-layers 8 --hidden-size 512 "
      "--num-attention-heads 8 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --fp16 "
      "--num-experts 1 --normalization rmsnorm --checkpoint-activations --deepspeed-activation-checkpointing";
  const launch::LaunchSetup setup = read_trainer(line);
  EXPECT_EQ(setup.framework, launch::Framework::deepspeed);
  EXPECT_EQ(setup.recompute, Recompute::full);
  EXPECT_EQ(setup.stack.attention, cost::AttentionKernel::unfused);
  EXPECT_EQ(setup.model_config.at("normalization"), "RMSNorm");
  EXPECT_FALSE(setup.model_config.contains("num_experts"));
  EXPECT_EQ(read_trainer(line + " --use-flash-attn").stack.attention, cost::AttentionKernel::triton);
  EXPECT_EQ(read_trainer(line + " --use-flash-attn-v2").stack.attention, cost::AttentionKernel::flash2);
  EXPECT_THAT(trainer_refusal("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --checkpoint-activations"),
              HasSubstr("--checkpoint-activations: Megatron refuses it; it is --recompute-activations now"));
}

TEST(TrainerLaunch, SaysWhatItCannotKnow) {
  EXPECT_THAT(trainer_refusal("accelerate launch --config_file other.yaml t.py"),
              HasSubstr("--config_file other.yaml: cannot be read here"));
  EXPECT_THAT(trainer_refusal("accelerate launch --num_processes $N t.py"),
              HasSubstr("--num_processes: $N is not set in the text; give it with --define"));
  EXPECT_THAT(trainer_refusal("accelerate launch --config_file fsdp.yaml --fsdp_version 1 t.py"),
              HasSubstr("--fsdp_version beside --config_file: write it into the file"));
  EXPECT_THAT(trainer_refusal("torchrun --nproc_per_node 8 t.py --per_device_train_batch_size $B"),
              HasSubstr("--per_device_train_batch_size: $B is not set in the text; give it with --define"));
  EXPECT_THAT(trainer_refusal("torchrun --nproc_per_node 8 t.py --per_device_train_batch_size x"),
              HasSubstr("--per_device_train_batch_size: x is no number from 1 to 16777216"));
  EXPECT_THAT(trainer_refusal("deepspeed --num_gpus 8 t.py --per_device_train_batch_size 1 --deepspeed no.json"),
              HasSubstr("--deepspeed no.json: cannot be read here"));
}

}  // namespace
}  // namespace nest::test
