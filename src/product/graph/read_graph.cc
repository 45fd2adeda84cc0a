#include "graph/read_graph.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "doc/reader.h"

namespace nest::graph {
namespace {

constexpr double kMostElements = 0x1p40;  // of one dimension
constexpr int kHighestPower = 4;
constexpr std::size_t kHighestRank = 16;
constexpr std::size_t kMostEntries = 1'000'000;
constexpr std::size_t kMostOperatorEntries = 4096;  // inputs, outputs, weights or saves of one operator
constexpr std::size_t kMostAnnotations = 4096;      // layers, splits
constexpr double kLongest = 0x1p24;                 // batch, sequence

std::optional<double> numeric(const doc::Value& value) {
  if (const std::int64_t* number = value.as_integer()) return real(*number);
  if (const double* number = value.as_real(); number && std::isfinite(*number)) return *number;
  return std::nullopt;
}

Dimension read_dimension(const doc::Reader& reader, std::size_t at, const doc::Value& value) {
  const doc::Array* parts = value.as_array();
  const auto fail = [&](const std::string& message) { reader.fail("shape", fmt::format("[{}]: {}", at, message)); };
  if (!parts || parts->size() != 3) {
    fail(fmt::format("{} is no dimension; expected [coefficient, power of batch, power of sequence]", value.shown()));
  }
  Dimension dimension;
  const auto coefficient = numeric((*parts)[0]);
  if (!coefficient || *coefficient <= 0 || *coefficient > kMostElements) {
    fail(fmt::format("a coefficient of {} is out of range; allowed is above 0 and at most {:.0f}", (*parts)[0].shown(),
                     kMostElements));
  }
  dimension.coefficient = *coefficient;
  for (const std::size_t p : {std::size_t{1}, std::size_t{2}}) {
    const std::int64_t* power = (*parts)[p].as_integer();
    if (!power || *power < 0 || *power > kHighestPower) {
      fail(fmt::format("a power of {} is out of range; allowed is 0 … {}", (*parts)[p].shown(), kHighestPower));
    }
    (p == 1 ? dimension.batch : dimension.sequence) = static_cast<int>(*power);
  }
  return dimension;
}

DataType read_type(doc::Reader& reader) {
  const std::string text = reader.text("dtype");
  const auto type = parse_data_type(text);
  if (!type) {
    reader.fail("dtype",
                fmt::format("\"{}\" is not known; write for example bfloat16, float32, int64 or bool", clip(text, 40)));
  }
  return *type;
}

RawTensor read_tensor(doc::Reader reader) {
  RawTensor tensor;
  tensor.name = reader.text("name");
  const doc::Value* shape = reader.raw("shape");
  const doc::Array* dimensions = shape ? shape->as_array() : nullptr;
  if (!dimensions)
    reader.fail("shape", "is missing or no list; expected one [coefficient, batch, sequence] per dimension");
  if (dimensions->size() > kHighestRank) {
    reader.fail("shape", fmt::format("{} dimensions are too many; allowed are {}", dimensions->size(), kHighestRank));
  }
  for (std::size_t i = 0; i < dimensions->size(); ++i) {
    tensor.shape.push_back(read_dimension(reader, i, (*dimensions)[i]));
  }
  tensor.type = read_type(reader);
  reader.refuse_unknown_keys();
  return tensor;
}

RawWeight read_weight(doc::Reader reader) {
  RawWeight weight;
  weight.name = reader.text("name");
  const auto shape = reader.maybe_integers("shape", {1, kMostElements}, kHighestRank);
  if (!shape) reader.fail("shape", "is missing; expected a list of sizes");
  weight.shape = *shape;
  weight.type = read_type(reader);
  weight.trainable = reader.flag_or("trainable", true);
  reader.refuse_unknown_keys();
  return weight;
}

std::vector<int> read_indices(doc::Reader& reader, std::string_view key, std::size_t count,
                              std::size_t at_most = kMostOperatorEntries) {
  const auto indices = reader.maybe_integers(key, {0, real(count) - 1}, at_most);
  if (!indices) return {};
  return {indices->begin(), indices->end()};
}

RawAttributes read_attributes(doc::Reader reader) {
  RawAttributes a;
  const auto count = [&](const char* key, std::int64_t otherwise) {
    return reader.integer_or(key, otherwise, {0, kMostElements});
  };
  a.transposed = reader.flag_or("transposed", false);
  a.transpose_a = reader.flag_or("transpose_a", false);
  a.transpose_b = reader.flag_or("transpose_b", false);
  a.causal = reader.flag_or("causal", false);
  a.flash = reader.flag_or("flash", true);
  a.heads = count("heads", 0);
  a.kv_heads = count("kv_heads", 0);
  a.groups = reader.integer_or("groups", 1, {1, kMostElements});
  a.kernel = reader.maybe_integers("kernel", {1, kLongest}, kHighestRank).value_or(std::vector<std::int64_t>{});
  a.stride = reader.maybe_integers("stride", {1, kLongest}, kHighestRank).value_or(std::vector<std::int64_t>{});
  a.kind = reader.text_or("kind", "");
  a.experts = count("experts", 0);
  a.top_k = count("top_k", 0);
  a.ffn = count("ffn", 0);
  a.gated = reader.flag_or("gated", false);
  a.activation = reader.text_or("activation", "");
  reader.refuse_unknown_keys();
  return a;
}

RawOperator read_operator(doc::Reader reader, const RawGraph& graph) {
  RawOperator op;
  op.name = reader.text("name");
  const std::string kind = reader.text("op");
  const auto known = parse_raw_op(kind);
  if (!known) {
    reader.fail("op", fmt::format("\"{}\" is not known; allowed are {}{}", clip(kind, 40), join_words(raw_op_names()),
                                  did_you_mean(kind, raw_op_names())));
  }
  op.op = *known;
  op.module = reader.text_or("module", "");
  op.inputs = read_indices(reader, "inputs", graph.tensors.size());
  op.outputs = read_indices(reader, "outputs", graph.tensors.size());
  op.weights = read_indices(reader, "weights", graph.weights.size());
  if (reader.has("saves")) op.saves = read_indices(reader, "saves", graph.tensors.size());
  if (auto attributes = reader.maybe_object("attributes")) op.attributes = read_attributes(std::move(*attributes));
  reader.refuse_unknown_keys();
  return op;
}

void read_annotations(doc::Reader& root, RawGraph& graph) {
  graph.layers = root.maybe_texts("layers", kMostAnnotations).value_or(std::vector<std::string>{});
  if (auto splits = root.maybe_object("splits")) {
    static const std::vector<std::string> kWays = {"column", "row", "heads", "vocabulary", "whole"};
    if (splits->keys().size() > kMostAnnotations) {
      root.fail("splits",
                fmt::format("{} patterns are too many; allowed are {}", splits->keys().size(), kMostAnnotations));
    }
    for (const std::string& path : splits->keys()) graph.splits[path] = splits->choice_or(path, "whole", kWays);
  }
  graph.warnings = root.maybe_texts("warnings", kMostEntries).value_or(std::vector<std::string>{});
}

}  // namespace

bool is_graph(const Document& document) {
  const doc::Object* root = document.root().as_object();
  const doc::Value* schema = root ? root->find("schema") : nullptr;
  const std::string* text = schema ? schema->as_string() : nullptr;
  return text && text->starts_with("nest.graph/");
}

RawGraph read_graph(const Document& document) {
  doc::Reader root(document);
  const std::string schema = root.text("schema");
  if (schema != kGraphSchema) root.fail("schema", fmt::format("expected \"{}\"", kGraphSchema));
  RawGraph graph;
  graph.name = root.text("name");
  if (auto source = root.maybe_object("source")) {
    graph.tool = source->text_or("tool", "");
    graph.module_class = source->text_or("class", "");
    source->refuse_unknown_keys();
  }
  graph.batch = root.integer("batch", {1, kLongest});
  graph.sequence = root.integer("sequence", {1, kLongest});
  for (doc::Reader& tensor : root.objects("tensors")) graph.tensors.push_back(read_tensor(std::move(tensor)));
  for (doc::Reader& weight : root.objects("weights")) graph.weights.push_back(read_weight(std::move(weight)));
  for (doc::Reader& op : root.objects("operators")) graph.operators.push_back(read_operator(std::move(op), graph));
  graph.inputs = read_indices(root, "inputs", graph.tensors.size(), kMostEntries);
  graph.outputs = read_indices(root, "outputs", graph.tensors.size(), kMostEntries);
  read_annotations(root, graph);
  root.refuse_unknown_keys();
  if (graph.operators.empty()) root.fail("operators", "a graph has at least one operator");
  graph.source = document.source ? document.source->name : "";
  validate(graph, graph.origin());
  return graph;
}

}  // namespace nest::graph
