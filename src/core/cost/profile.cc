#include "cost/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "doc/reader.h"

namespace nest::cost {
namespace {

constexpr std::string_view kSchema = "nest.profile/1";
constexpr doc::Range kCount = {1, 1e12};
constexpr doc::Range kSeconds = {0, 1e6};
constexpr doc::Range kBytes = {0, 1e18};

constexpr std::array kOperatorKinds = {
    model::OperatorKind::matmul,   model::OperatorKind::grouped_matmul, model::OperatorKind::attention,
    model::OperatorKind::norm,     model::OperatorKind::elementwise,    model::OperatorKind::add,
    model::OperatorKind::copy,     model::OperatorKind::embedding,      model::OperatorKind::router,
    model::OperatorKind::dispatch, model::OperatorKind::combine,        model::OperatorKind::loss};

bool close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

Split read_split(doc::Reader& reader) {
  constexpr doc::Range kRanks = {1, 1 << 20};
  Split split;
  split.tp = reader.integer_or("tp", 1, kRanks);
  split.sp = reader.flag_or("sp", false);
  split.cp = reader.integer_or("cp", 1, kRanks);
  std::vector<std::string> exchanges;
  exchanges.reserve(kContextWords.size());
  for (const auto& word : kContextWords) exchanges.emplace_back(word.text);
  const std::string exchange = reader.choice_or("cp_comm", exchanges.front(), exchanges);
  split.cp_comm =
      static_cast<ContextExchange>(std::find(exchanges.begin(), exchanges.end(), exchange) - exchanges.begin());
  split.cp_inner = reader.integer_or("cp_inner", 1, kRanks);
  split.ep = reader.integer_or("ep", 1, kRanks);
  split.etp = reader.integer_or("etp", 0, {0, 1 << 20});
  return split;
}

MeasuredLayer read_layer(doc::Reader& reader) {
  MeasuredLayer layer;
  layer.model = reader.text("model");
  layer.layer = reader.text("layer");
  layer.split = read_split(reader);
  layer.micro_batch = reader.integer("micro_batch", kCount);
  layer.sequence = reader.integer("sequence", kCount);
  layer.parameters = reader.integer("parameters", {0, 1e15});
  layer.forward_s = reader.number("forward_s", kSeconds);
  layer.backward_s = reader.number("backward_s", kSeconds);
  layer.saved_bytes = reader.maybe_number("saved_bytes", kBytes);
  reader.refuse_unknown_keys();
  return layer;
}

model::OperatorKind read_kind(doc::Reader& reader) {
  std::vector<std::string> names;
  names.reserve(std::size(kOperatorKinds));
  for (const model::OperatorKind kind : kOperatorKinds) names.emplace_back(to_string(kind));
  const std::string name = reader.text("operator");
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    reader.fail("operator", fmt::format("\"{}\" is no operator; allowed are {}{}", clip(name, 40), join_words(names),
                                        did_you_mean(name, names)));
  }
  return kOperatorKinds[at(found - names.begin())];
}

void read_attention(doc::Reader& reader, AttentionSize& size) {
  size.sequences = reader.number("sequences", kCount);
  size.heads = reader.number("heads", kCount);
  size.queries = reader.number("queries", kCount);
  size.keys = reader.number("keys", kCount);
  size.qk_dim = reader.integer("qk_dim", kCount);
  size.value_dim = reader.integer("value_dim", kCount);
  size.window = reader.integer_or("window", 0, {0, 1e12});
  size.causal = reader.flag_or("causal", true);
}

MeasuredOperator read_operator(doc::Reader& reader) {
  MeasuredOperator op;
  op.kind = read_kind(reader);
  if (op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul) {
    op.m = reader.number("m", kCount);
    op.n = reader.integer("n", kCount);
    op.k = reader.integer("k", kCount);
    op.groups = reader.integer_or("groups", 1, kCount);
  } else if (op.kind == model::OperatorKind::attention) {
    read_attention(reader, op.attention);
  } else {
    op.bytes = reader.number("bytes", kBytes);
  }
  op.forward_s = reader.number("forward_s", kSeconds);
  op.backward_s = reader.number("backward_s", kSeconds);
  reader.refuse_unknown_keys();
  return op;
}

bool same_size(const AttentionSize& a, const AttentionSize& b) {
  return close(a.sequences, b.sequences) && close(a.heads, b.heads) && close(a.queries, b.queries) &&
         close(a.keys, b.keys) && a.qk_dim == b.qk_dim && a.value_dim == b.value_dim && a.window == b.window &&
         a.causal == b.causal;
}

std::int64_t parameters_of(const model::Layer& layer) {
  std::int64_t sum = 0;
  for (const model::Operator& op : layer.operators) {
    for (const model::Weight& weight : op.weights) sum += elements(weight);
  }
  return sum;
}

void check_layer(const MeasuredProfile& profile, const MeasuredLayer& measured, const model::Model& model) {
  if (measured.model != model.architecture.name) return;
  std::vector<std::string> names;
  for (const model::Layer& layer : model.kinds) {
    if (layer.name == measured.layer) {
      const std::int64_t expected = parameters_of(layer);
      if (expected == measured.parameters) return;
      throw InputError(
          fmt::format("{}: layers: {} of {} was measured with {} parameters; here it has {}. Measure again",
                      profile.name, measured.layer, measured.model, measured.parameters, expected));
    }
    names.push_back(layer.name);
  }
  throw InputError(fmt::format("{}: layers: {} has no layer \"{}\"; its layers are {}", profile.name, measured.model,
                               clip(measured.layer, 40), join_words(names)));
}

}  // namespace

const MeasuredLayer* MeasuredProfile::find_layer(const std::string& model, const std::string& layer, const Split& split,
                                                 std::int64_t micro_batch, std::int64_t sequence) const {
  Split here = split;
  here.offload = 0;  // layers are measured with all that they keep
  for (const MeasuredLayer& entry : layers) {
    if (entry.model == model && entry.layer == layer && entry.split == here && entry.micro_batch == micro_batch &&
        entry.sequence == sequence) {
      return &entry;
    }
  }
  return nullptr;
}

const MeasuredOperator* MeasuredProfile::find_operator(const split::LocalOperator& op,
                                                       const AttentionSize& attention) const {
  for (const MeasuredOperator& entry : operators) {
    if (entry.kind != op.kind) continue;
    bool same = false;
    if (op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul) {
      same = close(entry.m, op.m) && entry.n == op.n && entry.k == op.k && entry.groups == op.groups;
    } else if (op.kind == model::OperatorKind::attention) {
      same = same_size(entry.attention, attention);
    } else {
      same = close(entry.bytes, op.bytes_forward);
    }
    if (same) return &entry;
  }
  return nullptr;
}

MeasuredProfile read_profile(const Document& document) {
  doc::Reader root(document);
  const std::string schema = root.text("schema");
  if (schema != kSchema) {
    root.fail("schema", fmt::format("\"{}\" is not understood; this version reads {}", clip(schema, 40), kSchema));
  }
  MeasuredProfile profile;
  profile.document = document;
  profile.name = document.name();
  profile.device = root.text("device");
  profile.stack = root.text("stack");
  profile.precision = parse_precision(root.text_or("precision", "bf16"));
  root.text_or("measured", "");  // when and how, for people
  for (doc::Reader& entry : root.objects("layers")) profile.layers.push_back(read_layer(entry));
  for (doc::Reader& entry : root.objects("operators")) profile.operators.push_back(read_operator(entry));
  if (profile.layers.empty() && profile.operators.empty())
    root.fail("there is nothing in it: neither layers nor operators");
  root.refuse_unknown_keys();
  return profile;
}

void attach_profile(Job& job, MeasuredProfile profile) {
  const auto differ = [&](const char* what, const std::string& theirs, const std::string& ours) {
    throw InputError(fmt::format("{}: {}: measured on {}, but this run uses {}", profile.name, what, theirs, ours));
  };
  if (to_lower(profile.device) != to_lower(job.cluster.device.name)) {
    differ("device", profile.device, job.cluster.device.name);
  }
  if (to_lower(profile.stack) != to_lower(job.stack.name)) differ("stack", profile.stack, job.stack.name);
  if (profile.precision != job.run.precision) {
    differ("precision", to_string(profile.precision), to_string(job.run.precision));
  }
  for (const MeasuredLayer& layer : profile.layers) check_layer(profile, layer, job.model);
  job.profile = std::make_shared<const MeasuredProfile>(std::move(profile));
}

}  // namespace nest::cost
