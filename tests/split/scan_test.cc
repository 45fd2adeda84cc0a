// Mixers that carry states, attention in chunks and over chosen keys: arithmetic and bytes, summed by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "doc/value.h"
#include "model/build.h"
#include "model/config.h"
#include "split/attention_work.h"
#include "split/local_layer.h"

namespace nest::split {
namespace {

model::Model hybrid(const std::string& config) {
  return model::build_model(model::read_config(doc::parse_json("config.json", config), "hybrid"));
}

constexpr const char* kDelta = R"({"model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 96,
  "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128,
  "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 6, "linear_value_head_dim": 10,
  "layer_types": ["linear_attention"]})";

constexpr const char* kMamba = R"({"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 1, "num_heads": 8,
  "head_dim": 16, "n_groups": 4, "state_size": 12, "vocab_size": 128})";

const model::Layer& block_of(const model::Model& model) { return model.layer(1); }

double flops_of(const LocalLayer& local, const std::string& name) {
  double sum = 0;
  for (const LocalOperator& op : local.operators) {
    if (op.source->name == name) sum += op.flops_forward;
  }
  return sum;
}

// K 24, V 80, 8 heads, 4 taps, h 64.
TEST(Scan, GatedDeltaRuleAsMegatronCountsIt) {
  const model::Model model = hybrid(kDelta);
  const LocalLayer local = localise(block_of(model), {.micro_batch = 1, .sequence = 32}, {}, {});
  EXPECT_DOUBLE_EQ(flops_of(local, "state in"), 32 * 2.0 * 64 * (2 * 24 + 2 * 80 + 2 * 8));
  EXPECT_DOUBLE_EQ(flops_of(local, "convolution"), 32 * 2.0 * 4 * (2 * 24 + 80));
  EXPECT_DOUBLE_EQ(flops_of(local, "gated delta rule"), 32 * 2.0 * 4 * 8 * 6 * 10);
  EXPECT_DOUBLE_EQ(flops_of(local, "state out"), 32 * 2.0 * 80 * 64);
  for (const LocalOperator& op : local.operators) {
    if (op.kind == model::OperatorKind::scan) {
      EXPECT_DOUBLE_EQ(op.flops_backward, 2 * op.flops_forward);
      EXPECT_GT(op.bytes_forward, 0);
    }
  }
}

double saved_before_feed_forward(const LocalLayer& local) {
  double sum = 0;
  for (const SavedTensor& saved : local.saved_tensors) sum += saved.bytes;
  return sum;
}

TEST(Scan, GatedDeltaRuleKeepsWhatItsKernelsRead) {
  const model::Model model = hybrid(kDelta);
  for (const std::int64_t tp : {1, 2, 4}) {
    const LocalLayer local = localise(block_of(model), {.micro_batch = 1, .sequence = 32}, {.tp = tp}, {});
    const double t = static_cast<double>(tp);
    // 4h + 4 of the norm and the projection's input, projections, what is convolved, the result, what leaves the gate.
    const double mixer = 4 * 64 + 4 + 2 * (2 * 24 + 2 * 80 + 2 * 8) / t + 2 * (2 * 24 + 80) / t + 4 * 80 / t;
    // The feed-forward: the stream, its norm, gate, up and product.
    const double feed = 4 * 64 + 4 + 3 * 2 * 96 / t;
    EXPECT_DOUBLE_EQ(saved_before_feed_forward(local), 32 * (mixer + feed)) << tp;
  }
}

// d 128, N 12, G 4, H 8.
TEST(Scan, Mamba2KeepsItsProjectionAndItsResults) {
  const model::Model model = hybrid(kMamba);
  for (const std::int64_t tp : {1, 2, 4}) {
    const LocalLayer local = localise(block_of(model), {.micro_batch = 1, .sequence = 32}, {.tp = tp}, {});
    const double t = static_cast<double>(tp);
    EXPECT_DOUBLE_EQ(saved_before_feed_forward(local),
                     32 * (4 * 64 + 4 + 2 * (2 * 128 + 2 * 4 * 12 + 8) / t + 4 * 128 / t))
        << tp;
    EXPECT_DOUBLE_EQ(flops_of(local, "mamba2 scan"), 32 * 7.0 * 128 * 12 / t);
  }
}

TEST(Scan, StatesTradeHeadsForPositions) {
  const model::Model model = hybrid(kDelta);
  const Split split{.tp = 2, .cp = 2};
  EXPECT_EQ(refuse_split(model, {.micro_batch = 1, .sequence = 32}, split), "");
  const LocalLayer local = localise(block_of(model), {.micro_batch = 1, .sequence = 32}, split, {});
  double sent = 0;
  for (const LayerCollective& one : local.collectives) {
    if (one.group == Group::context && one.phase == Phase::forward) sent += one.bytes;
  }
  // q, k, v, decay, beta and the result, of half the tokens and half the heads.
  EXPECT_DOUBLE_EQ(sent, 16 * 2 * (2 * 24 + 80 + 8 + 8 + 80) / 2.0);
}

TEST(Scan, SplitsThatDoNotDivideAStateAreRefused) {
  const model::Model model = hybrid(kMamba);
  const RunShape shape{.micro_batch = 1, .sequence = 96};
  EXPECT_EQ(refuse_split(model, shape, {.tp = 4}), "");
  EXPECT_THAT(refuse_split(model, shape, {.tp = 8}),
              testing::HasSubstr("tp=8 does not divide the 4 heads or groups of a state"));
  EXPECT_THAT(refuse_split(model, shape, {.tp = 3}), testing::HasSubstr("tp=3 does not divide the"));
  EXPECT_THAT(refuse_split(model, shape, {.tp = 4, .cp = 4}),
              testing::HasSubstr("cp=4 divides the 8 heads of a state"));
}

TEST(Scan, ChunksSeeThemselves) {
  const model::Model model = hybrid(R"({"model_type": "llama4_text", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128,
    "attention_chunk_size": 8, "layer_types": ["chunked_attention"]})");
  const LocalLayer local = localise(block_of(model), {.micro_batch = 1, .sequence = 20}, {}, {});
  // Two chunks of 8 and a rest of 4, causal.
  EXPECT_DOUBLE_EQ(flops_of(local, "attention"), 2.0 * (2 * 36 + 10) * 4 * (16 + 16));
}

TEST(Scan, ChosenKeysBoundTheSpan) {
  const model::Model model = hybrid(R"({"model_type": "deepseek_v32", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 128, "n_routed_experts": null, "q_lora_rank": 24,
    "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "index_n_heads": 2,
    "index_head_dim": 10, "index_topk": 2048})");
  const LocalLayer local = localise(block_of(model), {.micro_batch = 1, .sequence = 4096}, {}, {});
  // A query sees 1,536.25 keys in the mean, on latents of 32 + 8 and 32.
  EXPECT_DOUBLE_EQ(flops_of(local, "attention"), 2.0 * 4096 * 1536.25 * 4 * (32 + 8 + 32));
  // The indexer scores the causal half of all keys.
  EXPECT_DOUBLE_EQ(flops_of(local, "indexer scores"), 2.0 * 4096 * 2048 * 10 * 2);
}

}  // namespace
}  // namespace nest::split
