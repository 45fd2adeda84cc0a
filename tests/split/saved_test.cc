// What is kept where products are of 8 or 4 bits: bytes per token and layer, as sums that a reader can redo.
#include "split/saved.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/presets.h"

namespace nest::split {
namespace {

constexpr double kMxfp8 = 33.0 / 32;
constexpr std::int64_t kTokens = 4096;

model::Implementation quantised(double input_bytes, double attention_bytes = 0) {
  return {.kept_input_bytes = input_bytes, .kept_attention_bytes = attention_bytes};
}

// The kept tensors of the last block of a preset, per token.
SavedBytes saved_per_token(const char* preset, const model::Implementation& implementation,
                           const std::vector<model::Module>& recomputed = {}, const Split& split = {}) {
  const model::Model model = model::build_model(model::find_model_preset(preset).value());
  const auto block = std::find_if(model.layers.rbegin(), model.layers.rend(), [&](int kind) {
    return model.kinds[static_cast<std::size_t>(kind)].kind == model::LayerKind::block;
  });
  const RunShape shape{.micro_batch = 1, .sequence = kTokens, .routing_imbalance = 1};
  const LocalLayer local = localise(model.kinds[static_cast<std::size_t>(*block)], shape, split, implementation,
                                    RecomputePolicy{.modules = recomputed});
  return {local.saved.none / kTokens, local.saved.selective / kTokens, local.saved.full / kTokens};
}

double kept(const char* preset, const model::Implementation& implementation) {
  return saved_per_token(preset, implementation).none;
}

// Latent attention and a mixture: h 7168, 128 heads, latents 1536 and 512 + 64, 256 experts of 2048 and a shared one.
// Beside what the sums count, the permutation keeps a map of 4 (2E + 1), and the latents' norms 4 bytes each.
TEST(Quantised, DeepSeek) {
  const double map = 4 * (2 * 256 + 1), statistics = 2 * 4;
  EXPECT_DOUBLE_EQ(kept("deepseek-v3", {}), 201'348 + 258'052 + map + statistics);
  EXPECT_DOUBLE_EQ(kept("deepseek-v3", quantised(kMxfp8)), 199'812 + 184'644 + map + statistics);
}

// Norms of every query's and key's head keep their inputs, 2 (a + k) d, and statistics, 4 (a + k).
TEST(Quantised, Qwen3Mixture) {
  const double map = 4 * (2 * 128 + 1), head_norms = 2 * (32 + 4) * 128 + 4 * (32 + 4);
  EXPECT_DOUBLE_EQ(kept("qwen3-30b-a3b", {}), 26'756 + 79'876 + map + head_norms);
  EXPECT_DOUBLE_EQ(kept("qwen3-30b-a3b", quantised(kMxfp8)), 24'772 + 58'052 + map + head_norms);
}

TEST(Quantised, Llama) {
  EXPECT_DOUBLE_EQ(kept("llama3-70b", {}), 274'696);
  EXPECT_DOUBLE_EQ(kept("llama3-70b", quantised(kMxfp8)), 231'048);
  // Inputs of qkv and of the feed-forward, h each, and of its second product, f: 2 bytes or what the format takes.
  for (const double bytes : {1.0, 1 + 4.0 / 128, 0.5625}) {
    EXPECT_DOUBLE_EQ(kept("llama3-70b", quantised(bytes)), 274'696 - (2 - bytes) * (2 * 8192 + 28'672));
  }
  // Attention in 8 bits: queries, keys, values and its result, and the result in 16 bits for the projection after it.
  const double operands = (64 + 2 * 8) * 128, result = 64 * 128;
  EXPECT_DOUBLE_EQ(kept("llama3-70b", quantised(1, 1)),
                   274'696 - (2 * 8192 + 28'672) - 2 * (operands + result) + (operands + result) + 2 * result);
}

// Divided over the sequence, a linear's copy is of this rank's tokens; over the feed-forward, of its share.
TEST(Quantised, CopiesLiveWhereTheirTensorsDo) {
  Split split;
  split.tp = 4;
  split.sp = true;
  const double plain = saved_per_token("llama3-70b", {}, {}, split).none;
  EXPECT_DOUBLE_EQ(saved_per_token("llama3-70b", quantised(1), {}, split).none, plain - (2 * 8192.0 + 28'672) / 4);
}

// h 4096, f 14336, 32 heads of 128 and 8 of keys: 8h + 2 (48 + 32) 128 + 4 32 + 2 4 + 6f.
TEST(Recomputed, DenseFeedForward) {
  using model::Module;
  EXPECT_DOUBLE_EQ(kept("llama3-8b", {}), 139'400);
  const SavedBytes saved = saved_per_token("llama3-8b", {}, {Module::feed_forward});
  // The norm runs inside the first product: its result goes, 2h, and its statistics, 4; gate, up and product, 6f.
  EXPECT_DOUBLE_EQ(saved.selective, 139'400 - 6 * 14'336 - 2 * 4096 - 4);
  EXPECT_DOUBLE_EQ(saved.full, 8192);
  // With 8 bits: (4 + c) f + c h.
  EXPECT_DOUBLE_EQ(saved_per_token("llama3-8b", quantised(1), {Module::feed_forward}).selective,
                   kept("llama3-8b", quantised(1)) - 5 * 14'336 - 4096 - 4);
}

TEST(Recomputed, ModulesOfAMixtureWithLatents) {
  using model::Module;
  constexpr double h = 7168, heads = 128, c = kMxfp8, rows = 8, width = 2048;
  const auto saved = [&](const std::vector<Module>& modules, double bytes) {
    const model::Implementation implementation = bytes > 0 ? quantised(bytes) : model::Implementation{};
    const SavedBytes all = saved_per_token("deepseek-v3", implementation, modules);
    return all.none - all.selective;
  };
  // Log-sum-exp alone.
  EXPECT_DOUBLE_EQ(saved({Module::core_attention}, 0), 4 * heads);
  // Norms before latents and before the router with their statistics; what the two latent projections quantised.
  EXPECT_DOUBLE_EQ(saved({Module::norm}, 0), 2 * (2 * h + 4));
  EXPECT_DOUBLE_EQ(saved({Module::norm}, c), 2 * c * h + 2 * h + 2 * 4);
  // Keys and values; the projection starts from its latent in 16 bits.
  EXPECT_DOUBLE_EQ(saved({Module::latent_up}, 0), 2 * heads * (128 + 64 + 128));
  EXPECT_DOUBLE_EQ(saved({Module::latent_up}, c), 2 * heads * (128 + 64 + 128) - (2 - c) * 512);
  // What the second product of the experts reads, less the tensor that Megatron then keeps besides.
  EXPECT_DOUBLE_EQ(saved({Module::moe_activation}, 0), rows * 2 * width - 2 * h);
  EXPECT_DOUBLE_EQ(saved({Module::moe_activation}, c), rows * c * width - 2 * h);
  EXPECT_DOUBLE_EQ(saved({Module::shared_experts}, c), (4 + c) * width);
  const double maps = 16 * 256 + 4 * (2 * 256 + 1);
  EXPECT_DOUBLE_EQ(saved({Module::moe}, c), rows * (c * h + (4 + c) * width) + maps + (4 + c) * width);
}

}  // namespace
}  // namespace nest::split
