// Models from operator graphs: against counts by hand, and against the same models built from their configs.
#include "graph/graph_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "cost/eager_time.h"
#include "graph/read_graph.h"
#include "model/config.h"
#include "model/count.h"
#include "search/planner.h"
#include "sketch.h"
#include "split/local_layer.h"

namespace nest::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const model::Layer& layer_at(const model::Model& model, std::size_t position) {
  return model.kinds[static_cast<std::size_t>(model.layers[position])];
}

struct Whole {
  double flops = 0;
  double saved = 0;
};

Whole add_up(const model::Model& model, const split::RunShape& shape, const model::Implementation& implementation) {
  Whole whole;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const split::LocalLayer local = split::localise(layer_at(model, i), shape, {}, implementation);
    whole.flops += local.flops_forward();
    whole.saved += local.saved.none;
  }
  return whole;
}

TEST(GraphModel, CountsOfASmallTransformerByHand) {
  const Sizes z{.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .vocabulary = 512, .sequence = 128};
  const GraphModels models = build_graph_models(sketch_llama(z), {.stack = model::Stack::plain});
  const model::Model& model = models.model;
  ASSERT_THAT(model.layers, ElementsAre(0, 1, 1, 2));
  EXPECT_EQ(model.kinds[0].kind, model::LayerKind::embedding);
  EXPECT_EQ(model.kinds[1].kind, model::LayerKind::block);
  EXPECT_EQ(model.kinds[2].kind, model::LayerKind::head);
  // Two tables, and per layer two norms, q and o, k and v (half as wide), three of the feed-forward; the last norm.
  const std::int64_t per_layer = 2 * 64 + 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96;
  EXPECT_EQ(model::count_parameters(model).total, 2 * 512 * 64 + 2 * per_layer + 64);

  const split::RunShape shape{.micro_batch = 3, .sequence = 128};
  const split::LocalLayer local = split::localise(model.kinds[1], shape, {}, {.stack = model::Stack::plain});
  const double tokens = 3 * 128;
  const double pairs = 3 * 128 * 129 / 2.0;  // causal
  EXPECT_DOUBLE_EQ(local.flops_forward(), 2 * tokens * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 96) + 4 * pairs * 64);
  // Norms: fp32 input, root, normalised and result; q, k, v, out and a sum per head; gate, its silu, up, product.
  const double norms = 2 * (4 * 64 + 4 + 2 * 64 + 2 * 64);
  const double attention = 2 * (64 + 32 + 32 + 64) + 4 * 4;
  const double feed_forward = 2 * 4 * 96;
  EXPECT_DOUBLE_EQ(local.saved.none, tokens * (norms + attention + feed_forward));
  EXPECT_DOUBLE_EQ(local.saved.full, tokens * 64 * 2);
  EXPECT_EQ(split::cut_bytes(model, shape, {}), std::vector<double>(3, tokens * 64 * 2));

  // Fused: norm, q+k+v, two rotations, attention, o, sum, norm, gate+up, activation, down, sum.
  const model::Layer& fused = models.fused_model.kinds[1];
  std::vector<model::OperatorKind> kinds;
  for (const model::Operator& op : fused.operators) kinds.push_back(op.kind);
  using K = model::OperatorKind;
  EXPECT_THAT(kinds, ElementsAre(K::norm, K::matmul, K::elementwise, K::elementwise, K::attention, K::matmul, K::add,
                                 K::norm, K::matmul, K::elementwise, K::matmul, K::add));
  EXPECT_EQ(fused.operators[1].outputs.size(), 3U);
  EXPECT_EQ(fused.operators[8].outputs.size(), 2U);
}

TEST(GraphModel, TensorParallelismDividesHeadsAndColumns) {
  const Sizes z{.layers = 2, .hidden = 64, .heads = 4, .kv_heads = 2, .ffn = 96, .vocabulary = 512, .sequence = 128};
  const model::Model model = build_graph_models(sketch_llama(z), {.stack = model::Stack::plain}).model;
  const split::RunShape shape{.micro_batch = 1, .sequence = 128};
  const Split split{.tp = 2};
  ASSERT_EQ(split::refuse_split(model, shape, split), "");
  const split::LocalLayer whole = split::localise(model.kinds[1], shape, {}, {.stack = model::Stack::plain});
  const split::LocalLayer half = split::localise(model.kinds[1], shape, split, {.stack = model::Stack::plain});
  EXPECT_DOUBLE_EQ(half.flops_forward(), whole.flops_forward() / 2);
  EXPECT_EQ(half.dense_parameters, (whole.dense_parameters - 128) / 2 + 128);  // norms stay
  // One sum after attention and one after the feed-forward, and the same backward.
  ASSERT_EQ(half.collectives.size(), 4U);
  for (const split::LayerCollective& exchange : half.collectives) {
    EXPECT_EQ(exchange.kind, split::CollectiveKind::all_reduce);
    EXPECT_DOUBLE_EQ(exchange.bytes, 128 * 64 * 2);
  }
  EXPECT_EQ(split::refuse_split(model, shape, {.tp = 2, .sp = true, .cp = 2}), "");
  EXPECT_THAT(split::refuse_split(model, shape, {.tp = 3}), HasSubstr("tp=3 divides no block"));
}

struct Pair {
  cost::Job config;
  cost::Job graph;
};

Pair jobs(const RawGraph& graph, const std::string& config, model::Stack kernels, std::int64_t sequence) {
  cost::SoftwareStack stack = cost::find_stack("pytorch").value();
  stack.kernels = kernels;
  const cluster::Cluster cluster = cluster::find_cluster("dgx-h100", 64).value();
  Run run;
  run.global_batch = 256;
  run.sequence = sequence;
  GraphModels models = build_graph_models(graph, {.stack = kernels});
  return {cost::make_job(model::read_config(doc::parse_json("config.json", config), "model"), run, stack, cluster),
          cost::make_job(std::move(models.model), std::move(models.fused_model), run, stack, cluster)};
}

void expect_same(const Pair& pair) {
  EXPECT_EQ(model::count_parameters(pair.config.model).total, model::count_parameters(pair.graph.model).total);
  const split::RunShape shape{.micro_batch = 2, .sequence = pair.config.run.sequence};
  const Whole a = add_up(pair.config.model, shape, cost::implementation_of(pair.config));
  const Whole b = add_up(pair.graph.model, shape, cost::implementation_of(pair.graph));
  EXPECT_NEAR(b.flops / a.flops, 1, 0.01);
  EXPECT_NEAR(b.saved / a.saved, 1, 0.05);
  ASSERT_EQ(pair.config.model.layers.size(), pair.graph.model.layers.size());
  const auto plan = [](const cost::Job& job) {
    search::PlanRequest request;
    request.job = &job;
    request.search.threads = 1;
    return search::make_plan(request);
  };
  const search::PlanAnswer first = plan(pair.config), second = plan(pair.graph);
  ASSERT_EQ(first.outcome, PlanOutcome::optimal);
  ASSERT_EQ(second.outcome, PlanOutcome::optimal);
  const Plan &x = first.plans.front(), &y = second.plans.front();
  EXPECT_EQ(x.strategy, y.strategy);
  // As written, a norm is one operator that was measured here and its kernels one by one there.
  const double apart = cost::runs_as_written(pair.config.stack) ? 0.05 : 0.02;
  EXPECT_NEAR(y.prediction.iteration_s / x.prediction.iteration_s, 1, apart);
}

TEST(GraphModel, LlamaByConfigAndByTraceAreTheSame) {
  const Sizes z{
      .layers = 24, .hidden = 5120, .heads = 40, .kv_heads = 40, .ffn = 13824, .vocabulary = 32000, .sequence = 4096};
  expect_same(jobs(sketch_llama(z), R"({"model_type": "llama", "hidden_size": 5120, "num_hidden_layers": 24,
      "num_attention_heads": 40, "num_key_value_heads": 40, "intermediate_size": 13824, "vocab_size": 32000,
      "max_position_embeddings": 4096, "tie_word_embeddings": false, "hidden_act": "silu"})",
                   model::Stack::huggingface, 4096));
}

TEST(GraphModel, Gpt2ByConfigAndByTraceAreTheSame) {
  const Sizes z{
      .layers = 32, .hidden = 4096, .heads = 32, .kv_heads = 32, .ffn = 16384, .vocabulary = 50304, .sequence = 2048};
  expect_same(jobs(sketch_gpt2(z), R"({"model_type": "gpt2", "n_embd": 4096, "n_layer": 32, "n_head": 32,
      "vocab_size": 50304, "n_positions": 2048, "activation_function": "gelu"})",
                   model::Stack::plain, 2048));
}

TEST(GraphModel, SharedWeightsAreCountedOnce) {
  const Sizes z{.layers = 3, .hidden = 64, .heads = 4, .ffn = 256, .vocabulary = 1000, .sequence = 32};
  const model::Model model = build_graph_models(sketch_gpt2(z), {}).model;
  const std::int64_t per_layer = 4 * 64 + (64 * 192 + 192) + (64 * 64 + 64) + (64 * 256 + 256) + (256 * 64 + 64);
  EXPECT_EQ(model::count_parameters(model).total, 1000 * 64 + 32 * 64 + 3 * per_layer + 2 * 64);
  EXPECT_TRUE(model.architecture.tied_embeddings);
}

TEST(GraphModel, EverySkipIsPaidAtEveryCut) {
  const model::Model model = build_graph_models(sketch_unet(), {}).model;
  ASSERT_EQ(model.layers.size(), 5U);
  const split::RunShape shape{.micro_batch = 2, .sequence = 1};
  const double first = 32 * 64 * 64, second = 64 * 32 * 32;
  // After down.0 and up.0 one tensor crosses beside the first skip; elsewhere both skips do.
  const double deepest = 128 * 16 * 16, up = 64 * 32 * 32;
  const std::vector<double> bytes = split::cut_bytes(model, shape, {});
  EXPECT_THAT(bytes, ElementsAre(2 * 2 * first, 2 * 2 * (first + second), 2 * 2 * (deepest + first + second),
                                 2 * 2 * (up + first)));
  EXPECT_THAT(split::refuse_split(model, shape, {.cp = 2}), HasSubstr("cp=2 divides the sequence"));
  EXPECT_THAT(split::refuse_split(model, shape, {.tp = 2}), HasSubstr("divides no block"));
  // A convolution is a product whose contraction is nine times its input's channels.
  const split::LocalLayer local = split::localise(layer_at(model, 0), shape, {}, {});
  EXPECT_DOUBLE_EQ(local.flops_forward(), 2.0 * 2 * 64 * 64 * (27 * 32 + 288 * 32));
  EXPECT_EQ(local.dense_parameters, 27 * 32 + 288 * 32);
}

// Blocks of 3 and of 4 heads in turn: two tensor-parallel ranks divide the latter and repeat the former.
TEST(GraphModel, ALayerThatCannotBeDividedStaysWhole) {
  RawGraph graph = sketch_llama(
      {.layers = 2, .hidden = 48, .heads = 3, .kv_heads = 3, .ffn = 96, .vocabulary = 512, .sequence = 64});
  const RawGraph four = sketch_llama(
      {.layers = 2, .hidden = 48, .heads = 4, .kv_heads = 4, .ffn = 96, .vocabulary = 512, .sequence = 64});
  std::size_t changed = 0;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    if (!graph.operators[i].module.starts_with("model.layers.1")) continue;
    for (const int out : graph.operators[i].outputs) {
      graph.tensors[static_cast<std::size_t>(out)] = four.tensors[static_cast<std::size_t>(out)];
      ++changed;
    }
  }
  ASSERT_GT(changed, 10U);
  const model::Model model = build_graph_models(graph, {.stack = model::Stack::plain}).model;
  const split::RunShape shape{.micro_batch = 1, .sequence = 64};
  const Split split{.tp = 2};
  ASSERT_EQ(split::refuse_split(model, shape, split), "");
  ASSERT_EQ(model.layers.size(), 4U);
  const model::Layer& odd = layer_at(model, 1);
  const model::Layer& even = layer_at(model, 2);
  EXPECT_TRUE(split::stays_whole(odd, split));
  EXPECT_FALSE(split::stays_whole(even, split));
  const split::LocalLayer whole = split::localise(odd, shape, split, {.stack = model::Stack::plain});
  EXPECT_TRUE(whole.collectives.empty());
  EXPECT_DOUBLE_EQ(whole.flops_forward(),
                   split::localise(odd, shape, {}, {.stack = model::Stack::plain}).flops_forward());
  const split::LocalLayer half = split::localise(even, shape, split, {.stack = model::Stack::plain});
  EXPECT_EQ(half.collectives.size(), 4U);
  EXPECT_THAT(split::refuse_split(model, shape, {.tp = 2, .sp = true}), HasSubstr("sp needs every attention"));
}

TEST(GraphModel, LayersAreFoundWithoutModulePaths) {
  const Sizes z{.layers = 6, .hidden = 64, .heads = 4, .kv_heads = 4, .ffn = 96, .vocabulary = 512, .sequence = 128};
  RawGraph graph = sketch_llama(z);
  const model::Model named = build_graph_models(graph, {}).model;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    graph.operators[i].module.clear();
    graph.operators[i].name = fmt::format("node{}", i);
  }
  const model::Model model = build_graph_models(graph, {}).model;
  EXPECT_EQ(model.layers, named.layers);
  const split::RunShape shape{.micro_batch = 1, .sequence = 128};
  for (std::size_t i = 0; i < model.kinds.size(); ++i) {
    const split::LocalLayer a = split::localise(model.kinds[i], shape, {}, {}),
                            b = split::localise(named.kinds[i], shape, {}, {});
    EXPECT_DOUBLE_EQ(a.flops_forward(), b.flops_forward());
    EXPECT_DOUBLE_EQ(a.saved.none, b.saved.none);
  }
}

// One module that runs six times, as ALBERT's does: six layers that share every weight.
TEST(GraphModel, ALayerThatRunsAgainIsSeveralLayersOfOneWeight) {
  const Sizes z{.layers = 6, .hidden = 64, .heads = 4, .kv_heads = 4, .ffn = 96, .vocabulary = 512, .sequence = 128};
  RawGraph graph = sketch_llama(z);
  std::map<std::string, int> first;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    RawOperator& op = graph.operators[i];
    if (!op.module.starts_with("model.layers.")) continue;
    op.module.replace(0, std::string("model.layers.0").size(), "model.layers.0");
    op.name = fmt::format("{}.{}#{}", op.module, to_string(op.op), i);
    for (int& weight : op.weights) weight = first.try_emplace(op.module, weight).first->second;
  }
  const model::Model model = build_graph_models(graph, {}).model;
  EXPECT_THAT(model.layers, ElementsAre(0, 1, 1, 1, 1, 1, 1, 2));
  const std::int64_t per_layer = 2 * 64 + 4 * 64 * 64 + 3 * 64 * 96;
  EXPECT_EQ(model::count_parameters(model).total, 2 * 512 * 64 + per_layer + 64);
}

TEST(GraphModel, AnnotationsDecide) {
  RawGraph graph = sketch_llama({});
  graph.splits["model.layers.*.mlp*"] = "whole";
  const model::Model model = build_graph_models(graph, {}).model;
  const split::RunShape shape{.micro_batch = 1, .sequence = 128};
  const split::LocalLayer half = split::localise(model.kinds[1], shape, {.tp = 2}, {});
  EXPECT_EQ(half.collectives.size(), 2U);  // of attention alone
  graph.splits["model.layers.0.self_attn.q_proj"] = "row";
  EXPECT_THROW(build_graph_models(graph, {}), InputError);
  graph.splits.clear();
  graph.layers = {"model.layers.0", "model.layers.1"};
  EXPECT_EQ(build_graph_models(graph, {}).model.layers.size(), 4U);
  graph.layers = {"model.blocks.0"};
  EXPECT_THROW(build_graph_models(graph, {}), InputError);
}

TEST(GraphModel, AMixtureTracedAsOneOperatorIsWrittenOut) {
  Sketch s("moe", 2, 64);
  const int ids = s.input({kB, kS}, DataType::int64);
  int x = s.add(RawOp::embedding, "embed", {ids}, {kB, kS, fixed(32)}, {s.weight("embed.weight", {256, 32})});
  for (int l = 0; l < 2; ++l) {
    const std::string module = "layers." + std::to_string(l) + ".moe";
    std::vector<int> weights = {s.weight(module + ".gate.weight", {8, 32})};
    for (int e = 0; e < 8; ++e) {
      for (const char* part : {"w1", "w3"})
        weights.push_back(s.weight(fmt::format("{}.{}.{}", module, e, part), {48, 32}));
      weights.push_back(s.weight(fmt::format("{}.{}.w2", module, e), {32, 48}));
    }
    const int y = s.add(RawOp::moe, module, {x}, {kB, kS, fixed(32)}, weights);
    s.last().saves.reset();
    s.last().attributes.experts = 8;
    s.last().attributes.top_k = 2;
    s.last().attributes.ffn = 48;
    s.last().attributes.gated = true;
    x = s.add(RawOp::add, "layers." + std::to_string(l), {x, y}, {kB, kS, fixed(32)});
  }
  s.graph.outputs = {s.linear("head", x, 256, 32)};
  const model::Model model = build_graph_models(s.graph, {}).model;
  const model::ParameterCount count = model::count_parameters(model);
  EXPECT_EQ(count.total, 2 * 256 * 32 + 2 * (8 * 32 + 8 * 3 * 48 * 32));
  EXPECT_EQ(count.active, 2 * 256 * 32 + 2 * (8 * 32 + 2 * 3 * 48 * 32));
  const split::RunShape shape{.micro_batch = 1, .sequence = 64};
  EXPECT_EQ(split::refuse_split(model, shape, {.ep = 4}), "");
  const split::LocalLayer local = split::localise(layer_at(model, 1), shape, {.ep = 4}, {});
  EXPECT_EQ(local.expert_parameters, 8 / 4 * 3 * 48 * 32);
  EXPECT_EQ(std::count_if(local.collectives.begin(), local.collectives.end(),
                          [](const split::LayerCollective& c) { return c.kind == split::CollectiveKind::all_to_all; }),
            4);
}

TEST(GraphModel, GraphsSurviveBeingWritten) {
  const RawGraph graph = sketch_llama({});
  const RawGraph again = read_graph(write_graph(graph));
  const GraphModels a = build_graph_models(graph, {}), b = build_graph_models(again, {});
  EXPECT_EQ(a.model.kinds, b.model.kinds);
  EXPECT_EQ(a.fused_model.kinds, b.fused_model.kinds);
  EXPECT_EQ(a.model.layers, b.model.layers);
}

}  // namespace
}  // namespace nest::graph
