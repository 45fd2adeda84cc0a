// Shapes that no known family has: work, exchanges and memory against counts by hand.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "cost/memory_parts.h"
#include "graph/graph_model.h"
#include "model/count.h"
#include "search/planner.h"
#include "sketch.h"
#include "split/local_layer.h"
#include "test_support/refusal.h"

namespace nest::graph {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const model::Implementation kPlain{.stack = model::Stack::plain};

std::vector<Dimension> stream(double width) { return {kB, kS, fixed(width)}; }

const model::Layer& layer_at(const model::Model& model, std::size_t position) {
  return model.kinds[static_cast<std::size_t>(model.layers[position])];
}

std::string refusal(const RawGraph& graph) {
  return test::refusal_of([&] {
    validate(graph, "g.json");
    build_graph_models(graph, kPlain);
  });
}

// An embedding, two layers that `body` writes, and a projection to logits.
template <class Body>
RawGraph model_of(std::int64_t batch, std::int64_t sequence, std::int64_t hidden, Body body) {
  Sketch s("odd", batch, sequence);
  const int ids = s.input({kB, kS}, DataType::int64);
  int x = s.add(RawOp::embedding, "embed", {ids}, stream(static_cast<double>(hidden)),
                {s.weight("embed.weight", {64, hidden})});
  for (int l = 0; l < 2; ++l) x = body(s, "layers." + std::to_string(l), x);
  s.graph.outputs = {s.linear("head", x, 64, hidden)};
  return s.graph;
}

RawGraph two_pairs() {
  return model_of(2, 8, 16, [](Sketch& s, const std::string& module, int x) {
    x = s.linear(module + ".a", x, 32, 16);
    x = s.linear(module + ".b", x, 16, 32);
    x = s.linear(module + ".c", x, 32, 16);
    return s.linear(module + ".d", x, 16, 32);
  });
}

std::map<std::string, double> exchanged(const split::LocalLayer& layer) {
  std::map<std::string, double> sums;
  for (const split::LayerCollective& c : layer.collectives) {
    EXPECT_LT(static_cast<std::size_t>(c.operator_index), layer.operators.size());
    sums[fmt::format("{} {}", to_string(c.kind), c.phase == split::Phase::forward ? "forward" : "backward")] += c.bytes;
  }
  return sums;
}

TEST(TracedWork, PairsOfProductsPayForEverySum) {
  for (const model::Model& model :
       {build_graph_models(two_pairs(), kPlain).model, build_graph_models(two_pairs(), kPlain).fused_model}) {
    const split::RunShape shape{.micro_batch = 1, .sequence = 8};
    ASSERT_EQ(model.layers.size(), 4U);
    const split::LocalLayer whole = split::localise(layer_at(model, 1), shape, {}, kPlain);
    const split::LocalLayer half = split::localise(layer_at(model, 1), shape, {.tp = 2}, kPlain);
    EXPECT_EQ(whole.dense_parameters, 4 * 16 * 32);
    EXPECT_EQ(half.dense_parameters, 4 * 16 * 32 / 2);
    EXPECT_DOUBLE_EQ(half.flops_forward(), whole.flops_forward() / 2);
    // Results of b and d are sums; the gradients of what a and c read are, too.
    const double bytes = 8 * 16 * 2;
    const std::map<std::string, double> sums = {{"all-reduce forward", 2 * bytes}, {"all-reduce backward", 2 * bytes}};
    EXPECT_EQ(exchanged(half), sums);
    // Divided along the sequence: gathered before a and c, scattered after b and d; backward the inputs of a and c are
    // gathered once more and their gradients scattered, the gradients of b and d gathered.
    const split::LocalLayer parts = split::localise(layer_at(model, 1), shape, {.tp = 2, .sp = true}, kPlain);
    const std::map<std::string, double> scattered = {{"all-gather forward", 2 * bytes},
                                                     {"reduce-scatter forward", 2 * bytes},
                                                     {"all-gather backward", 4 * bytes},
                                                     {"reduce-scatter backward", 2 * bytes}};
    EXPECT_EQ(exchanged(parts), scattered);
    EXPECT_DOUBLE_EQ(parts.output_bytes, bytes / 2);
  }
}

double work_of_layer(const RawGraph& graph, const split::RunShape& shape, model::OperatorKind kind) {
  const model::Model model = build_graph_models(graph, kPlain).model;
  double flops = 0;
  const split::LocalLayer local = split::localise(layer_at(model, 1), shape, {}, kPlain);
  for (const split::LocalOperator& op : local.operators) {
    const bool weights = !op.source->weights.empty();
    if (op.kind == kind && !weights) flops += op.flops_forward;
  }
  return flops;
}

// Attention over 4 places of 2 heads of 8, for every position of the sequence.
RawGraph attention_per_position(bool joined) {
  return model_of(2, 16, 64, [joined](Sketch& s, const std::string& module, int x) {
    const Dimension both{1, 1, 1};
    const std::vector<Dimension> apart = {kB, kS, fixed(2), fixed(4), fixed(8)};
    const std::vector<Dimension> shape = joined ? std::vector<Dimension>{both, fixed(2), fixed(4), fixed(8)} : apart;
    std::vector<int> parts;
    for (const char* name : {".q", ".k", ".v"}) parts.push_back(s.view(s.linear(module + name, x, 64, 64), shape));
    const int o = s.add(RawOp::attention, module, parts, shape);
    return s.linear(module + ".o", s.view(o, stream(64)), 64, 64);
  });
}

TEST(TracedWork, AttentionForEveryPositionIsCountedForEveryPosition) {
  for (const bool joined : {false, true}) {
    const RawGraph graph = attention_per_position(joined);
    // 3 sequences of 16 positions: 4 x 4 pairs of 2 heads, 2 (8 + 8) FLOPs each.
    EXPECT_DOUBLE_EQ(work_of_layer(graph, {.micro_batch = 3, .sequence = 16}, model::OperatorKind::attention),
                     3.0 * 16 * 4 * 4 * 2 * 2 * (8 + 8));
    EXPECT_THAT(build_graph_models(graph, kPlain).model.notes,
                Contains(HasSubstr("traced batch of 2 and sequence of 16")));
  }
}

TEST(TracedWork, ProductsForEveryPositionAreCountedForEveryPosition) {
  const RawGraph graph = model_of(2, 16, 64, [](Sketch& s, const std::string& module, int x) {
    const int y = s.linear(module + ".a", x, 64, 64);
    const int scores = s.add(RawOp::matmul, module, {y, x}, {kB, kS, kS});
    s.last().attributes.transpose_b = true;
    const int spread = s.add(RawOp::elementwise, module, {scores, y}, {kB, kS, kS, fixed(64)});
    const int mixed =
        s.add(RawOp::matmul, module, {spread, s.view(y, {kB, kS, fixed(64), fixed(1)})}, {kB, kS, kS, fixed(1)});
    const int sum = s.add(RawOp::reduce, module, {mixed}, {kB, kS, fixed(1)});
    return s.add(RawOp::elementwise, module, {sum, y}, stream(64));
  });
  // [16, 64] x [64, 16] per sequence; then [16, 64] x [64, 1] for each of its positions.
  EXPECT_DOUBLE_EQ(work_of_layer(graph, {.micro_batch = 3, .sequence = 16}, model::OperatorKind::matmul),
                   3.0 * 2 * 16 * 16 * 64 + 3.0 * 16 * 2 * 16 * 64);
}

TEST(TracedWork, HeadsInTheColumnsAreHeads) {
  const RawGraph graph = model_of(2, 16, 64, [](Sketch& s, const std::string& module, int x) {
    const int q = s.linear(module + ".q", x, 64, 64);
    const int k = s.linear(module + ".k", x, 32, 64), v = s.linear(module + ".v", x, 32, 64);
    const int o = s.add(RawOp::attention, module, {q, k, v}, stream(64));
    s.last().attributes.heads = 8;
    s.last().attributes.kv_heads = 4;
    return s.linear(module + ".o", o, 64, 64);
  });
  ASSERT_EQ(refusal(graph), "accepted");
  const model::Model model = build_graph_models(graph, kPlain).model;
  for (const model::Operator& op : layer_at(model, 1).operators) {
    if (op.kind != model::OperatorKind::attention) continue;
    EXPECT_EQ(op.attention.heads.size, 8);
    EXPECT_EQ(op.attention.kv_heads.size, 4);
    EXPECT_EQ(op.attention.qk_dim, 8);
  }
  EXPECT_DOUBLE_EQ(work_of_layer(graph, {.micro_batch = 1, .sequence = 16}, model::OperatorKind::attention),
                   16.0 * 16 * 8 * 2 * (8 + 8));
  EXPECT_EQ(split::refuse_split(model, {.micro_batch = 1, .sequence = 16}, {.tp = 4}), "");
  EXPECT_THAT(build_graph_models(graph, kPlain).model.notes, ::testing::Not(Contains(HasSubstr("traced batch"))));
}

TEST(TracedWork, ASequenceThatNothingHasIsNone) {
  RawGraph images = sketch_unet();
  images.sequence = 128;
  EXPECT_EQ(default_sequence(images), 1);
  EXPECT_EQ(build_graph_models(images, kPlain).model.architecture.default_sequence, 1);
  EXPECT_EQ(default_sequence(sketch_llama({.sequence = 32})), 32);
}

TEST(TracedWork, WeightsOfOneNameAreSharedOnlyWhereTheyAreOne) {
  RawGraph graph = two_pairs();
  for (RawWeight& weight : graph.weights) weight.name = "w";
  // The products of the second layer share their weights with each other, and so do those of the first.
  for (const std::size_t first : {std::size_t{1}, std::size_t{5}}) {
    graph.operators[first + 2].weights = graph.operators[first].weights;
    graph.operators[first + 3].weights = graph.operators[first + 1].weights;
  }
  EXPECT_EQ(model::count_parameters(build_graph_models(graph, kPlain).model).total, 2 * 64 * 16 + 2 * 2 * 16 * 32);
}

cost::Job job_of(const RawGraph& graph) {
  Run run;
  run.global_batch = 256;
  run.sequence = graph.sequence;
  GraphModels models = build_graph_models(graph, kPlain);
  return cost::make_job(std::move(models.model), std::move(models.fused_model), run,
                        cost::find_stack("pytorch").value(), cluster::find_cluster("dgx-h100", 8).value());
}

TEST(TracedWork, AHeadOverSamplesHoldsOneRowPerSample) {
  Sketch s("classifier", 2, 16);
  int x = s.input(stream(64));
  for (int l = 0; l < 2; ++l) {
    const std::string module = "layers." + std::to_string(l);
    x = s.linear(module + ".b", s.linear(module + ".a", x, 256, 64), 64, 256);
  }
  const int pooled = s.add(RawOp::reduce, "layers.1", {x}, {kB, fixed(64)});
  s.graph.outputs = {s.linear("head", pooled, 10, 64)};
  const cost::Job job = job_of(s.graph);
  const cost::LayerView view = cost::view_layer(job, job.model.layers.back(), {}, 4);
  ASSERT_TRUE(view.head());
  EXPECT_DOUBLE_EQ(view.whole_bytes, 4 * 64 * 2);
  EXPECT_DOUBLE_EQ(view.stream_bytes, 4 * 64 * 2);
  EXPECT_DOUBLE_EQ(view.logits(), 4 * 10);
  EXPECT_DOUBLE_EQ(view.logit_rows(), 4);
}

TEST(TracedWork, PatternsMustMeanSomething) {
  RawGraph graph = two_pairs();
  graph.source = "file.json";
  graph.splits = {{"layers.*.e", "whole"}};
  EXPECT_THAT(refusal(graph), HasSubstr("file.json: splits: no operator belongs to a module that matches"));
  graph.splits = {{"layers.*.b", "column"}};
  EXPECT_THAT(refusal(graph), HasSubstr("file.json: splits: "));
  graph.splits = {{"layers.*.b", "row"}};
  EXPECT_EQ(refusal(graph), "accepted");
}

TEST(TracedWork, SizesThatNothingHoldsAreRefused) {
  RawGraph graph = two_pairs();
  graph.tensors[2].shape[2] = {0.25, 0, 0};
  EXPECT_THAT(refusal(graph), HasSubstr("shape[2]: 0.25 is no size"));
  graph = sketch_unet();
  graph.operators.front().attributes.groups = 5;
  EXPECT_THAT(refusal(graph), HasSubstr("5 groups do not divide 32 channels"));
  graph = two_pairs();
  graph.operators.front().module = std::string(1025, 'm');
  EXPECT_THAT(refusal(graph), HasSubstr("a path of 1025 bytes is too long"));
  graph = two_pairs();
  graph.operators.resize(200'001, graph.operators.back());
  EXPECT_THAT(refusal(graph), HasSubstr("200001 are too many"));
}

// As many operators as are allowed, that all read and keep one tensor, in a module each; slices of slices besides.
// Work in proportion to the square of this does not end.
TEST(TracedWork, TheLargestGraphIsReadInTime) {
  constexpr int kHalf = 100'000;
  Sketch s("large", 1, 1);
  const double width = kHalf + 2;
  const int x = s.input({kB, fixed(width)});
  int slice = s.add(RawOp::elementwise, "first", {x}, {kB, fixed(width)});
  for (int i = 1; i < kHalf; ++i) slice = s.view(slice, {kB, fixed(width - i)});
  const int kept = s.add(RawOp::elementwise, "second", {slice}, {kB, fixed(width - kHalf)});
  for (int i = 2; i < kHalf; ++i) {
    s.add(RawOp::softmax, fmt::format("m.{}", i), {kept}, {kB, fixed(width - kHalf)}, {}, {kept, slice});
  }
  s.graph.outputs = {s.last().outputs.front()};
  ASSERT_LE(s.graph.operators.size(), 200'000U);
  ASSERT_EQ(refusal(s.graph), "accepted");
  const model::Model model = build_graph_models(s.graph, kPlain).model;
  EXPECT_THAT(model.notes, Contains(HasSubstr("operators, too many to look at")));
  double saved = 0;
  std::size_t operators = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const split::LocalLayer local = split::localise(layer_at(model, i), {.micro_batch = 1, .sequence = 1}, {}, kPlain);
    saved += local.saved.none;
    operators += local.operators.size();
  }
  EXPECT_EQ(operators, static_cast<std::size_t>(kHalf));
  // The first result, whole because something keeps a slice of it, and what all read: once each.
  EXPECT_DOUBLE_EQ(saved, 2 * (width + 2));
}

}  // namespace
}  // namespace nest::graph
