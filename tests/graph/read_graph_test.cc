// Graphs that lie are refused with the place named.
#include "graph/read_graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "test_support/refusal.h"

namespace nest::graph {
namespace {

using ::testing::HasSubstr;

struct Parts {
  std::string tensors = R"({"name": "x", "shape": [[1,1,0],[8,0,0]], "dtype": "bfloat16"},
                           {"name": "y", "shape": [[1,1,0],[4,0,0]], "dtype": "bfloat16"})";
  std::string weights = R"({"name": "w", "shape": [4, 8], "dtype": "bfloat16"})";
  std::string operators = R"({"name": "a", "op": "linear", "inputs": [0], "outputs": [1], "weights": [0]})";
  std::string rest = R"("inputs": [0], "outputs": [1])";
  std::string sizes = R"("batch": 2, "sequence": 1)";
};

std::string text(const Parts& p) {
  return fmt::format(
      R"({{"schema": "nest.graph/1", "name": "g", {}, "tensors": [{}], "weights": [{}], "operators": [{}], {}}})",
      p.sizes, p.tensors, p.weights, p.operators, p.rest);
}

std::string refusal(const Parts& parts) {
  return test::refusal_of([&] { read_graph(doc::parse_json("g.json", text(parts))); });
}

TEST(ReadGraph, AcceptsTheSmallest) {
  const RawGraph graph = read_graph(doc::parse_json("g.json", text({})));
  EXPECT_EQ(graph.operators.front().op, RawOp::linear);
  EXPECT_EQ(graph.weights.front().shape, (std::vector<std::int64_t>{4, 8}));
  EXPECT_FALSE(graph.operators.front().saves.has_value());
}

TEST(ReadGraph, NamesThePlace) {
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "liner", "inputs": [0], "outputs": [1]})"}),
              HasSubstr("operators[0].op: \"liner\" is not known"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "linear", "inputs": [7], "outputs": [1]})"}),
              HasSubstr("operators[0].inputs"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "linear", "inputs": [-1], "outputs": [1]})"}),
              HasSubstr("operators[0].inputs: entry -1"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "linear", "inptus": [0], "outputs": [1]})"}),
              HasSubstr("inptus"));
  EXPECT_THAT(refusal({.tensors = R"({"name": "x", "dtype": "bfloat16"})"}), HasSubstr("tensors[0].shape"));
  EXPECT_THAT(refusal({.tensors = R"({"name": "x", "shape": [[1,1]], "dtype": "bfloat16"})"}),
              HasSubstr("is no dimension"));
  EXPECT_THAT(refusal({.tensors = R"({"name": "x", "shape": [[-4,0,0]], "dtype": "bfloat16"})"}),
              HasSubstr("a coefficient of -4"));
  EXPECT_THAT(refusal({.tensors = R"({"name": "x", "shape": [[1,99,0]], "dtype": "bfloat16"})"}),
              HasSubstr("a power of 99"));
  EXPECT_THAT(refusal({.weights = R"({"name": "w", "shape": [4, -8], "dtype": "bfloat16"})"}),
              HasSubstr("weights[0].shape"));
  EXPECT_THAT(refusal({.weights = R"({"name": "w", "shape": [4, 8], "dtype": "float17"})"}), HasSubstr("float17"));
  EXPECT_THAT(refusal({.rest = R"("inputs": [0], "outputs": [1], "splits": {"a": "diagonal"})"}),
              HasSubstr("splits.a"));
  EXPECT_THAT(refusal({.sizes = R"("batch": 0, "sequence": 1)"}), HasSubstr("batch"));
}

TEST(ReadGraph, RefusesWhatCannotBe) {
  // Sizes whose product no machine holds.
  EXPECT_THAT(refusal({.tensors = R"({"name": "x", "shape": [[1e12,0,0],[1e12,0,0]], "dtype": "bfloat16"},
                                     {"name": "y", "shape": [[4,0,0]], "dtype": "bfloat16"})"}),
              HasSubstr("tensors[0] (x)"));
  EXPECT_THAT(refusal({.weights = R"({"name": "w", "shape": [1000000000000, 1000000000000], "dtype": "bfloat16"})"}),
              HasSubstr("more than 2^50"));
  EXPECT_THAT(refusal({.weights = R"({"name": "w", "shape": [4, 9], "dtype": "bfloat16"})"}),
              HasSubstr("does not fit"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "linear", "inputs": [0], "outputs": [1]})"}),
              HasSubstr("no weights"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "add", "inputs": [1], "outputs": [1]})"}),
              HasSubstr("without cycles"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "add", "inputs": [1], "outputs": [0]})",
                       .rest = R"("inputs": [], "outputs": [])"}),
              HasSubstr("accepted"));  // tensor 1 is a constant
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "copy", "inputs": [0], "outputs": [1]},
                                       {"name": "b", "op": "copy", "inputs": [0], "outputs": [1]})"}),
              HasSubstr("made twice, first by operators[0]"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "copy", "inputs": [0], "outputs": [0]})"}),
              HasSubstr("the graph's inputs"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "attention", "inputs": [0], "outputs": [1]})"}),
              HasSubstr("needs 3"));
  EXPECT_THAT(refusal({.operators = R"({"name": "a", "op": "moe", "inputs": [0], "outputs": [1]})"}),
              HasSubstr("experts, top_k and ffn"));
  EXPECT_THAT(refusal({.operators = ""}), HasSubstr("at least one operator"));
}

TEST(ReadGraph, RefusesLongLists) {
  std::string many = "0";
  for (int i = 0; i < 4096; ++i) many += ",0";
  EXPECT_THAT(
      refusal({.operators = fmt::format(
                   R"({{"name": "a", "op": "linear", "inputs": [{}], "outputs": [1], "weights": [0]}})", many)}),
      HasSubstr("operators[0].inputs"));
  std::string layers = "\"a\"", splits = "\"a\": \"whole\"";
  for (int i = 0; i < 4096; ++i) {
    layers += fmt::format(", \"l{}\"", i);
    splits += fmt::format(", \"l{}\": \"whole\"", i);
  }
  EXPECT_THAT(refusal({.rest = fmt::format(R"("inputs": [0], "outputs": [1], "layers": [{}])", layers)}),
              HasSubstr("layers"));
  EXPECT_THAT(refusal({.rest = fmt::format(R"("inputs": [0], "outputs": [1], "splits": {{{}}})", splits)}),
              HasSubstr("4097 patterns are too many"));
  EXPECT_THAT(refusal({.rest = R"("inputs": [0], "outputs": [1], "splits": {"a": "experts"})"}), HasSubstr("splits.a"));
}

TEST(ReadGraph, KnowsItsOwn) {
  EXPECT_TRUE(is_graph(doc::parse_json("g.json", text({}))));
  EXPECT_FALSE(is_graph(doc::parse_json("c.json", R"({"model_type": "llama"})")));
  EXPECT_FALSE(is_graph(doc::parse_json("c.json", "[1]")));
}

}  // namespace
}  // namespace nest::graph
