// Hand-computed figures of a model small enough for paper: hidden 8, 2 heads of 4, plain feed-forward of 32, vocabulary
// 100, two blocks, rotary positions, no biases, RMS norms, untied head.
#include "report/model_facts.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "report/model_report.h"

namespace nest::report {
namespace {

using ::testing::HasSubstr;

model::Architecture tiny() {
  model::Block block;
  block.attention.heads = 2;
  block.attention.kv_heads = 2;
  block.attention.head_dim = 4;
  block.feed_forward = model::FeedForward{32, false, model::Activation::gelu, false, false};
  model::Tower tower;
  tower.name = "decoder";
  tower.kinds = {block};
  tower.blocks = {0, 0};
  model::Architecture architecture;
  architecture.name = "tiny";
  architecture.family = "llama";
  architecture.hidden = 8;
  architecture.vocabulary = 128;
  architecture.max_positions = 16;
  architecture.default_sequence = 16;
  architecture.towers = {tower};
  return architecture;
}

TEST(ModelFacts, CountsAreThoseOnPaper) {
  const ModelFacts facts = gather_facts(tiny(), {});
  // Per block: q, k, v, o 4*8*8, up and down 2*8*32, two norms 2*8. Besides: two tables of 128*8, the final norm 8.
  EXPECT_EQ(facts.parameters.total, 2 * (256 + 512 + 16) + 2048 + 8);
  EXPECT_EQ(facts.question.shape.sequence, 16);
  EXPECT_EQ(facts.tokens(), 16);
  // Two FLOPs per weight and token in products, and causal attention: 16*17/2 pairs, 2 heads, 2*(4+4) FLOPs each.
  const double products = 2.0 * (2 * 768 + 1024);
  const double attention = 2.0 * 136 * 2 * 16 / 16;
  EXPECT_DOUBLE_EQ(facts.flops_per_token.forward, products + attention);
  EXPECT_DOUBLE_EQ(facts.flops_per_token.training, 3 * (products + attention));
  ASSERT_EQ(facts.cut_bytes.size(), facts.model.layers.size() - 1);
  EXPECT_DOUBLE_EQ(facts.cut_bytes.front(), 16.0 * 8 * 2);
  EXPECT_EQ(add_up(facts).weights_bytes, 2 * facts.parameters.total);
}

// Weights that layers share are held once, however many layers of a kind run them.
TEST(ModelFacts, SharedBlocksAreHeldOnce) {
  model::Architecture architecture = tiny();
  model::Block& block = architecture.towers.front().kinds.front();
  model::SharedBlock shared;
  shared.attention = block.attention;
  shared.attention.head_dim = 8;
  shared.feed_forward = *block.feed_forward;
  block.shared = shared;
  architecture.towers.front().blocks = {0, 0, 0};
  const ModelFacts facts = gather_facts(architecture, {});
  // q, k and v from 16 elements to 16, o to 8, the feed-forward, norms of 16 and 8; every layer has its 8 x 8 besides.
  const std::int64_t once = 3 * 16 * 16 + 16 * 8 + 512 + 24;
  EXPECT_EQ(facts.parameters.total, once + 3 * (256 + 512 + 16 + 64) + 2048 + 8);
  EXPECT_EQ(add_up(facts).weights_bytes, 2 * facts.parameters.total);
}

TEST(ModelFacts, FullRecomputationRunsTheForwardTwice) {
  ModelQuestion question;
  const double without = gather_facts(tiny(), question).flops_per_token.executed;
  question.recompute = Recompute::full;
  const ModelFacts facts = gather_facts(tiny(), question);
  EXPECT_DOUBLE_EQ(facts.flops_per_token.executed - without, facts.flops_per_token.forward);
}

// Megatron pads the vocabulary to a multiple of 128: that takes memory, but a token is no harder to train.
TEST(ModelFacts, PaddingIsNoWork) {
  model::Architecture architecture = tiny();
  architecture.vocabulary = 100;
  const ModelFacts facts = gather_facts(architecture, {});
  EXPECT_DOUBLE_EQ(facts.flops_per_token.forward, 2.0 * (2 * 768 + 800) + 2.0 * 136 * 2 * 16 / 16);
  EXPECT_EQ(add_up(facts).weights_bytes, 2 * (facts.parameters.total + 2 * 28 * 8));
}

TEST(ModelFacts, SharedTablesWeighOnce) {
  model::Architecture architecture = tiny();
  architecture.tied_embeddings = true;
  const ModelFacts facts = gather_facts(architecture, {});
  EXPECT_EQ(facts.parameters.total, 2 * (256 + 512 + 16) + 1024 + 8);
  EXPECT_EQ(add_up(facts).weights_bytes, 2 * facts.parameters.total);
}

TEST(ModelFacts, RefusedSplitIsAnInputError) {
  ModelQuestion question;
  question.split.tp = 3;
  try {
    gather_facts(tiny(), question);
    FAIL() << "tp=3 was accepted for two heads";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tiny: tp=3"));
  }
}

ModelFacts with_layers(const std::vector<int>& kinds) {
  model::Architecture architecture = tiny();
  model::Block window = architecture.towers[0].kinds[0];
  window.attention.window = 4;
  architecture.towers[0].kinds.push_back(window);
  architecture.towers[0].blocks = kinds;
  return gather_facts(architecture, {});
}

TEST(DescribeLayers, FoldsRepetitions) {
  const auto name = [](const ModelFacts& facts, std::size_t layer) {
    return facts.model.kinds[static_cast<std::size_t>(facts.model.layers[layer])].name;
  };
  EXPECT_EQ(describe_layers(gather_facts(tiny(), {})), "embedding, 2 x block, head");
  const ModelFacts alternating = with_layers({0, 1, 0, 1, 0, 1});
  const std::string a = name(alternating, 1);
  const std::string b = name(alternating, 2);
  EXPECT_EQ(describe_layers(alternating), "embedding, 3 x (" + a + ", " + b + "), head");
  EXPECT_EQ(describe_layers(with_layers({1, 1, 0, 1, 1, 0, 1})),
            "embedding, 2 x (2 x " + b + ", " + a + "), " + b + ", head");
}

TEST(ModelJson, HasTheSameFigures) {
  const ModelFacts facts = gather_facts(tiny(), {});
  const Json json = model_json(facts);
  EXPECT_EQ(json["schema"], "nest.show.model/1");
  EXPECT_EQ(json["parameters"]["total"], facts.parameters.total);
  std::int64_t parameters = 0;
  double forward = 0;
  for (const Json& layer : json["layers"]) {
    parameters += layer["parameters"].get<std::int64_t>() * layer["count"].get<std::int64_t>();
    forward += layer["flops_forward"].get<double>() * layer["count"].get<double>();
  }
  EXPECT_EQ(parameters, facts.parameters.total);
  EXPECT_DOUBLE_EQ(forward, facts.flops_per_token.forward * 16);
  EXPECT_EQ(json["total"]["flops_forward"].get<double>(), forward);
}

}  // namespace
}  // namespace nest::report
