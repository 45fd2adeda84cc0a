// What waits on the host: bytes per token of every module, as sums that a reader can redo.
#include "split/offload_modules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/presets.h"
#include "split/local_layer.h"

namespace nest::split {
namespace {

constexpr std::int64_t kRows = 4096;

struct Away {
  double moved, freed, group;
  bool operator==(const Away&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Away& away) {
  return out << away.moved << " moved, " << away.freed << " freed, " << away.group << " at most of one";
}

Away per_row(const HostBytes& host) { return {host.moved / kRows, host.freed / kRows, host.group / kRows}; }

SavedBytes saved_with(const char* preset, const char* offload, RecomputeSet again = 0, double input_bytes = 0) {
  const model::Model model = model::build_model(model::find_model_preset(preset).value());
  const auto block = std::find_if(model.layers.rbegin(), model.layers.rend(), [&](int kind) {
    return model.kinds[static_cast<std::size_t>(kind)].kind == model::LayerKind::block;
  });
  const RunShape shape{.micro_batch = 1, .sequence = kRows, .routing_imbalance = 1};
  return localise(model.kinds[static_cast<std::size_t>(*block)], shape, Split{.offload = *parse_offload(offload)},
                  {.kept_input_bytes = input_bytes}, RecomputePolicy{.modules = {}, .sets = {again}})
      .saved;
}

Away away(const char* preset, const char* offload) { return per_row(saved_with(preset, offload).none_host); }

// h 4096, 32 heads of 128 and 8 of keys. The norm runs inside the first projection; statistics and log-sum-exp have
// fewer than 1 Mi elements and stay.
TEST(OffloadModules, DenseByHand) {
  constexpr double h = 4096, d = 128, heads = 32, kv = 8;
  EXPECT_EQ(away("llama3-8b", "none"), (Away{0, 0, 0}));
  EXPECT_EQ(away("llama3-8b", "attn_norm+mlp_norm"), (Away{0, 0, 0}));
  EXPECT_EQ(away("llama3-8b", "qkv_linear"), (Away{2 * h + 2 * h, 4 * h, 4 * h}));
  // The projection keeps attention's result too: a copy goes, and the tensor stays.
  constexpr double qkv = 2 * (heads + 2 * kv) * d, out = 2 * heads * d;
  EXPECT_EQ(away("llama3-8b", "core_attn"), (Away{qkv + out, qkv, qkv}));
  EXPECT_EQ(away("llama3-8b", "core_attn+attn_proj"), (Away{qkv + out, qkv + out, qkv + out}));
  EXPECT_EQ(away("llama3-8b", "expert_fc1+moe_act"), (Away{0, 0, 0}));
  // All of it is still counted as kept by the layer.
  EXPECT_EQ(saved_with("llama3-8b", "qkv_linear").none, saved_with("llama3-8b", "none").none);
}

// h 2048, 8 of 128 experts of width 768.
TEST(OffloadModules, ExpertsByHand) {
  constexpr double h = 2048, f = 768, k = 8;
  EXPECT_EQ(away("qwen3-30b-a3b", "expert_fc1"), (Away{k * 2 * h, k * 2 * h, k * 2 * h}));
  EXPECT_EQ(away("qwen3-30b-a3b", "moe_act"), (Away{k * 4 * f, k * 4 * f, k * 4 * f}));
  EXPECT_EQ(away("qwen3-30b-a3b", "mlp_norm"), (Away{2 * h, 2 * h, 2 * h}));
  EXPECT_EQ(away("qwen3-30b-a3b", "attn_norm"), (Away{0, 0, 0}));
  constexpr double all = k * (2 * h + 6 * f);
  EXPECT_EQ(away("qwen3-30b-a3b", "fused_group_mlp"), (Away{all, all, all}));
  // 8 bits with a scale per 32: what the first product quantised for itself.
  constexpr double mx = 33.0 / 32;
  EXPECT_EQ(per_row(saved_with("qwen3-30b-a3b", "expert_fc1", 0, mx).none_host),
            (Away{k * mx * h, k * mx * h, k * mx * h}));
  const Away two = away("qwen3-30b-a3b", "expert_fc1+moe_act");
  EXPECT_EQ(two, (Away{k * (2 * h + 4 * f), k * (2 * h + 4 * f), k * 2 * h}));
}

// h 7168, latents of 1536 and 512 + 64, 128 heads of 192 and 128.
TEST(OffloadModules, LatentsByHand) {
  constexpr double h = 7168, q = 1536, kv = 512, rope = 64, a = 128;
  EXPECT_EQ(away("deepseek-v3", "attn_norm"), (Away{2 * h, 2 * h, 2 * h}));
  constexpr double projections = 2 * h + 2 * q + 2 * q + 2 * (kv + rope) + 2 * kv;
  EXPECT_EQ(away("deepseek-v3", "qkv_linear"), (Away{projections, projections, projections}));
  constexpr double attention = 2 * a * (192 + 192 + 128) + 2 * a * 128;
  EXPECT_EQ(away("deepseek-v3", "core_attn+attn_proj").freed, attention);
  // Keys and values that are projected again are not there to be moved.
  const SavedBytes again = saved_with("deepseek-v3", "core_attn+attn_proj", set_of(RecomputeModule::mla_up_proj));
  EXPECT_EQ(per_row(again.sets_host[0]).freed, 2 * a * 192 + 2 * a * 128);
}

// A checkpoint keeps its inputs itself; what a recomputed norm or activation starts from moves.
TEST(OffloadModules, BesideRecomputation) {
  const SavedBytes core = saved_with("llama3-8b", "core_attn+attn_proj", set_of(RecomputeModule::core_attn));
  EXPECT_EQ(per_row(core.sets_host[0]), (Away{2 * 4096, 2 * 4096, 2 * 4096}));  // its result, for the projection
  const SavedBytes act = saved_with("qwen3-30b-a3b", "moe_act", set_of(RecomputeModule::moe_act));
  EXPECT_EQ(per_row(act.sets_host[0]).freed, 8 * 4 * 768);
  const SavedBytes norm = saved_with("qwen3-30b-a3b", "mlp_norm", set_of(RecomputeModule::layernorm));
  EXPECT_EQ(per_row(norm.sets_host[0]).freed, 2 * 2048);
}

TEST(OffloadModules, Words) {
  EXPECT_EQ(offload_text(0), "none");
  EXPECT_EQ(parse_offload("none"), OffloadSet{0});
  for (unsigned bits = 1; bits < 256; ++bits) {
    const auto set = static_cast<OffloadSet>(bits);
    EXPECT_EQ(parse_offload(offload_text(set)), set);
  }
  for (const char* wrong : {"", "core_attention", "core_attn+", "core_attn+core_attn", "core_attn,attn_proj"}) {
    EXPECT_EQ(parse_offload(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace nest::split
