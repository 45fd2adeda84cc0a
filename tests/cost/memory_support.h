// Models, stacks and layouts for the tests of memory, by their sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cost/job.h"
#include "cost/memory.h"
#include "model/build.h"

namespace nest::test {

struct Shape {
  std::int64_t layers = 2, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocabulary = 0, sequence = 0;
  bool gated = true;
  bool tied = false;
  std::int64_t learned_positions = 0;
  std::int64_t experts = 0, top_k = 0, expert_ffn = 0, shared_ffn = 0, dense_layers = 0;
  std::int64_t query_rank = -1, kv_rank = 0;  // latent attention when query_rank >= 0, with dims 128 + 64 and 128
  double dropout = 0;
  model::PositionKind position = model::PositionKind::rotary;
};

inline model::Architecture architecture_of(const Shape& s) {
  model::Block block;
  model::Attention& attention = block.attention;
  attention.heads = s.heads;
  attention.kv_heads = s.kv_heads;
  attention.head_dim = s.head_dim;
  if (s.query_rank >= 0) attention.latent = model::LatentAttention{s.query_rank, s.kv_rank, 128, 64, 128};
  const bool plain = !s.gated;
  attention.query_bias = attention.key_bias = attention.value_bias = attention.output_bias = plain;
  block.norm = plain ? model::NormKind::layer : model::NormKind::rms;
  block.norm_bias = plain;
  const model::Activation activation = plain ? model::Activation::gelu : model::Activation::silu;
  block.feed_forward = model::FeedForward{s.ffn, s.gated, activation, plain, plain};

  model::Tower tower;
  tower.name = "decoder";
  tower.final_norm_kind = block.norm;
  tower.final_norm_bias = plain;
  tower.kinds = {block};
  if (s.experts > 0) {
    model::Block moe = block;
    moe.feed_forward.reset();
    model::Mixture mixture;
    mixture.experts = s.experts;
    mixture.top_k = s.top_k;
    mixture.expert = model::FeedForward{s.expert_ffn, true, model::Activation::silu, false, false};
    if (s.shared_ffn > 0)
      mixture.shared = model::FeedForward{s.shared_ffn, true, model::Activation::silu, false, false};
    moe.mixture = mixture;
    tower.kinds.push_back(moe);
  }
  for (std::int64_t i = 0; i < s.layers; ++i) tower.blocks.push_back(s.experts > 0 && i >= s.dense_layers ? 1 : 0);
  if (s.experts > 0 && s.dense_layers == 0) {
    tower.kinds.erase(tower.kinds.begin());
    tower.blocks.assign(static_cast<std::size_t>(s.layers), 0);
  }
  model::Architecture arch;
  arch.name = arch.family = "llama";
  arch.hidden = s.hidden;
  arch.vocabulary = s.vocabulary;
  arch.default_sequence = arch.max_positions = s.sequence;
  arch.position = s.learned_positions > 0 ? model::PositionKind::learned : s.position;
  arch.position_rows = s.learned_positions;
  arch.tied_embeddings = s.tied;
  arch.dropout = arch.attention_dropout = s.dropout;
  arch.towers = {tower};
  return arch;
}

inline cost::Job job_of(const Shape& shape, const cost::SoftwareStack& stack, std::int64_t global_batch,
                        Precision precision = Precision::bf16, Optimizer optimizer = Optimizer::adam) {
  cost::Job job;
  job.stack = stack;
  job.run.precision = precision;
  job.run.optimizer = optimizer;
  job.run.global_batch = global_batch;
  job.run.sequence = shape.sequence;
  job.model = model::build_model(architecture_of(shape), cost::implementation_of(job));
  return job;
}

// Blocks over stages as counted, or evenly with the remainder in front; embedding first, head last.
inline std::vector<StagePlan> stages_of(const cost::Job& job, const Strategy& strategy, Recompute recompute, int zero,
                                        std::int64_t degree = 0, std::vector<std::int64_t> counts = {}) {
  const auto blocks = static_cast<std::int64_t>(job.model.layers.size()) - 2;
  for (std::int64_t s = 0; counts.empty() || s < strategy.pp; ++s) {
    if (s == strategy.pp) break;
    if (static_cast<std::int64_t>(counts.size()) == s)
      counts.push_back(blocks / strategy.pp + (s < blocks % strategy.pp));
  }
  std::vector<StagePlan> stages;
  int next = 0;
  for (std::int64_t s = 0; s < strategy.pp; ++s) {
    StagePlan stage;
    stage.first = next;
    next += static_cast<int>(counts[static_cast<std::size_t>(s)]) + (s == 0) + (s + 1 == strategy.pp);
    stage.last = next - 1;
    stage.recompute = recompute;
    stage.zero = zero;
    stage.zero_degree = degree;
    stages.push_back(stage);
  }
  return stages;
}

inline std::vector<StageMemory> all_memory(const cost::Job& job, const Strategy& strategy,
                                           const std::vector<StagePlan>& stages) {
  std::vector<StageMemory> memory;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    memory.push_back(cost::stage_memory(job, strategy, stages[s], static_cast<std::int64_t>(s)));
  }
  return memory;
}

inline const StageMemory& most_allocated(const std::vector<StageMemory>& memory) {
  return *std::max_element(memory.begin(), memory.end(),
                           [](const auto& a, const auto& b) { return a.allocated < b.allocated; });
}

inline std::int64_t most_reserved(const std::vector<StageMemory>& memory) {
  std::int64_t most = 0;
  for (const StageMemory& estimate : memory) most = std::max(most, estimate.total);
  return most;
}

// The stacks of the measured runs.
inline cost::SoftwareStack megatron_fused() {  // distributed optimizer, fused cross entropy, balanced routing
  cost::SoftwareStack stack;
  stack.loss = cost::LossKernel::fused;
  stack.routing_imbalance = 1;
  return stack;
}

inline cost::SoftwareStack megatron_deterministic() {  // unfused loss, dropout, no fused accumulation
  cost::SoftwareStack stack;
  stack.loss = cost::LossKernel::unfused;
  stack.weight_gradient_buffers = false;
  stack.dropout = true;
  return stack;
}

inline cost::SoftwareStack megatron_bridge(std::vector<model::Module> modules) {
  cost::SoftwareStack stack;
  stack.loss = cost::LossKernel::fused;
  stack.gradient_bytes = 2;
  stack.selective_modules = std::move(modules);
  return stack;
}

inline cost::SoftwareStack bridge_moonlight(std::vector<model::Module> modules) {
  cost::SoftwareStack stack = megatron_bridge(std::move(modules));
  stack.moments_bytes = 4;
  stack.shared_expert_overlap = true;
  return stack;
}

inline cost::SoftwareStack fsdp2(cost::LossKernel loss) {
  cost::SoftwareStack stack;
  stack.kernels = model::Stack::torchtitan;
  stack.memory = cost::MemoryModel::fsdp;
  stack.selective = cost::SelectiveKind::every_second_matmul;
  stack.weight_bytes = 4;
  stack.gradient_bytes = 4;
  stack.master_bytes = 0;
  stack.loss = loss;
  stack.weight_gradient_buffers = false;
  return stack;
}

inline cost::SoftwareStack one_gpu_huggingface() {
  cost::SoftwareStack stack;
  stack.kernels = model::Stack::huggingface;
  stack.memory = cost::MemoryModel::plain;
  stack.gradient_bytes = 2;
  stack.loss = cost::LossKernel::eager_fp32;
  stack.weight_gradient_buffers = false;
  return stack;
}

inline cost::SoftwareStack nanotron() {
  cost::SoftwareStack stack;
  stack.kernels = model::Stack::plain;
  stack.memory = cost::MemoryModel::nanotron;
  stack.weight_gradient_buffers = false;
  return stack;
}

inline cost::SoftwareStack megatron_deepspeed(double gradient_bytes) {
  cost::SoftwareStack stack;
  stack.memory = cost::MemoryModel::megatron_deepspeed;
  stack.attention = cost::AttentionKernel::unfused;
  stack.dropout = true;
  stack.gradient_bytes = gradient_bytes;
  stack.weight_gradient_buffers = false;
  return stack;
}

inline cost::SoftwareStack internevo() {
  cost::SoftwareStack stack;
  stack.kernels = model::Stack::plain;
  stack.memory = cost::MemoryModel::internevo;
  stack.weight_gradient_buffers = false;
  return stack;
}

// Models of the measured runs, by their published sizes.
inline Shape llama3_70b(std::int64_t layers, std::int64_t sequence) {
  return {.layers = layers,
          .hidden = 8192,
          .heads = 64,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn = 28672,
          .vocabulary = 128256,
          .sequence = sequence};
}
inline Shape llama3_8b(std::int64_t sequence) {
  return {.layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn = 14336,
          .vocabulary = 128256,
          .sequence = sequence};
}
inline Shape llama3_405b_slice() {
  return {.layers = 4,
          .hidden = 16384,
          .heads = 128,
          .kv_heads = 16,
          .head_dim = 128,
          .ffn = 53248,
          .vocabulary = 128256,
          .sequence = 4096};
}
inline Shape llama32_1b() {
  return {.layers = 16,
          .hidden = 2048,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 64,
          .ffn = 8192,
          .vocabulary = 128256,
          .sequence = 4096};
}
inline Shape deepseek_v3_slice() {
  return {.layers = 4,
          .hidden = 7168,
          .heads = 128,
          .kv_heads = 128,
          .head_dim = 128,
          .ffn = 18432,
          .vocabulary = 129280,
          .sequence = 4096,
          .experts = 256,
          .top_k = 8,
          .expert_ffn = 2048,
          .shared_ffn = 2048,
          .dense_layers = 1,
          .query_rank = 1536,
          .kv_rank = 512};
}
inline Shape deepseek_v2_slice() {
  return {.layers = 4,
          .hidden = 5120,
          .heads = 128,
          .kv_heads = 128,
          .head_dim = 128,
          .ffn = 12288,
          .vocabulary = 102400,
          .sequence = 4096,
          .experts = 160,
          .top_k = 6,
          .expert_ffn = 1536,
          .shared_ffn = 3072,
          .dense_layers = 1,
          .query_rank = 1536,
          .kv_rank = 512};
}
inline Shape moonlight() {
  return {.layers = 27,
          .hidden = 2048,
          .heads = 16,
          .kv_heads = 16,
          .head_dim = 128,
          .ffn = 11264,
          .vocabulary = 163840,
          .sequence = 4096,
          .experts = 64,
          .top_k = 6,
          .expert_ffn = 1408,
          .shared_ffn = 2816,
          .dense_layers = 1,
          .query_rank = 0,
          .kv_rank = 512};
}
inline Shape gpt3_7b(std::int64_t vocabulary) {
  return {.layers = 32,
          .hidden = 4096,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .ffn = 16384,
          .vocabulary = vocabulary,
          .sequence = 8192,
          .gated = false,
          .learned_positions = 8192,
          .dropout = 0.1};
}

}  // namespace nest::test
