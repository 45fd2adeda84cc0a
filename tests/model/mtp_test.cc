// Multi-token prediction: parameters, FLOPs and edges, by hand.
#include <gmock/gmock.h>

#include "model/build.h"
#include "model/config.h"
#include "model/count.h"
#include "model/presets.h"

namespace nest::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Model with_depths(const Architecture& architecture, std::int64_t depths) {
  Implementation implementation;
  implementation.mtp_layers = depths;
  return build_model(architecture, implementation);
}

// DeepSeek-V3: h = 7168, 128 heads, latents of 1536 and 512 (+ 64), 256 experts of 2048 and one shared.
TEST(Mtp, ParametersByHand) {
  const Architecture deepseek = find_model_preset("deepseek-v3").value();
  EXPECT_EQ(deepseek.further_tokens, 1);
  const std::int64_t h = 7168, heads = 128;
  const std::int64_t attention =
      h * 1536 + 1536 + 1536 * heads * 192 + h * (512 + 64) + 512 + 512 * heads * 256 + heads * 128 * h;
  const std::int64_t experts = 256 * 3 * h * 2048 + 3 * h * 2048 + 256 * h;
  const std::int64_t layer = attention + experts + 2 * h;
  const std::int64_t before = count_parameters(with_depths(deepseek, 0)).total;
  EXPECT_EQ(count_parameters(with_depths(deepseek, 1)).total - before, layer + 2 * h * h + 3 * h);
  EXPECT_EQ(count_parameters(with_depths(deepseek, 2)).total - before, 2 * (layer + 2 * h * h + 3 * h));
}

TEST(Mtp, StandsAfterTheBlocksAndBeforeTheHead) {
  const Architecture llama = find_model_preset("llama3-8b").value();
  EXPECT_EQ(llama.further_tokens, 0);
  const Model model = with_depths(llama, 2);
  ASSERT_EQ(model.layer_count(), 35);  // embedding, 32 blocks, both depths as one layer, head
  EXPECT_TRUE(model.layer(33).mtp);
  EXPECT_FALSE(model.layer(33).counted_block());
  EXPECT_EQ(model.layer(34).kind, LayerKind::head);
  // The last block is read by the depths and by the head; both depths' results cross to the head together.
  const Edge& last = model.edges[model.edges.size() - 2];
  EXPECT_EQ(last.from, 32);
  EXPECT_THAT(last.to, ElementsAre(33, 34));
  EXPECT_EQ(model.edges.back().from, 33);
  EXPECT_EQ(model.edges.back().width, 2 * 4096);
  const Model without = with_depths(llama, 0);
  EXPECT_EQ(without.layer_count(), 34);
}

TEST(Mtp, OnlyDecodersHaveIt) {
  EXPECT_THAT(refuse_mtp(find_model_preset("bert-large").value(), 1), HasSubstr("only decoders"));
  EXPECT_THAT(refuse_mtp(find_model_preset("t5-11b").value(), 1), HasSubstr("only decoders"));
  EXPECT_EQ(refuse_mtp(find_model_preset("bert-large").value(), 0), "");
  EXPECT_EQ(refuse_mtp(find_model_preset("deepseek-v3").value(), 1), "");
}

}  // namespace
}  // namespace nest::model
