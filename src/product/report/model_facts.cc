#include "report/model_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace nest::report {
namespace {

constexpr std::int64_t kWeightBytes = 2;  // bf16

double recompute_flops(const split::LocalLayer& local, Recompute mode) {
  double flops = 0;
  for (const split::LocalOperator& op : local.operators) {
    if (mode == Recompute::full || (mode == Recompute::selective && op.recomputed)) flops += op.flops_forward;
  }
  return flops;
}

// FLOPs of all layers on a single device: forward, and forward with backward and recomputation.
struct WholeFlops {
  double forward = 0;
  double executed = 0;
};

WholeFlops count_flops(const model::Model& model, const ModelQuestion& question,
                       const model::Implementation& implementation) {
  WholeFlops flops;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    const auto count =
        static_cast<double>(std::count(model.layers.begin(), model.layers.end(), static_cast<int>(kind)));
    const split::LocalLayer whole = split::localise(model.kinds[kind], question.shape, Split{}, implementation);
    const double forward = whole.flops_forward() * count;
    flops.forward += forward;
    flops.executed += forward + (whole.flops_backward() + recompute_flops(whole, question.recompute)) * count;
  }
  return flops;
}

TokenFlops count_token_flops(const model::Model& model, const ModelQuestion& question) {
  // What the mathematics needs is what plain kernels compute: stacks pad vocabularies, for example.
  model::Implementation plain = question.implementation;
  plain.stack = model::Stack::plain;
  plain.flash_attention = true;
  const auto tokens = static_cast<double>(question.shape.micro_batch * question.shape.sequence);
  TokenFlops flops;
  const WholeFlops needed =
      count_flops(model.traced ? model : model::build_model(model.architecture, plain), question, plain);
  flops.forward = needed.forward / tokens;
  flops.training = 3 * flops.forward;
  flops.executed = count_flops(model, question, question.implementation).executed / tokens;
  return flops;
}

// Parameters on this device of weights that an earlier layer has already; `seen` collects the labels met.
std::int64_t shared_parameters(const split::LocalLayer& local, std::set<std::string>& seen) {
  std::int64_t shared = 0;
  for (const split::LocalOperator& op : local.operators) {
    std::int64_t all = 0;
    std::int64_t repeated = 0;
    for (const model::Weight& weight : op.source->weights) {
      all += model::elements(weight);
      if (!weight.tied_to.empty() && !seen.insert(weight.tied_to).second) repeated += model::elements(weight);
    }
    // Weights of one operator are divided alike.
    if (repeated > 0)
      shared +=
          std::llround(static_cast<double>(op.parameters) * static_cast<double>(repeated) / static_cast<double>(all));
  }
  return shared;
}

struct Part {
  int kind;
  int count;
  bool operator==(const Part&) const = default;
};

std::string describe_part(const ModelFacts& facts, const Part& part) {
  const std::string& name = facts.model.kinds[static_cast<std::size_t>(part.kind)].name;
  return part.count == 1 ? name : fmt::format("{} x {}", part.count, name);
}

// How often the `period` parts from `at` on follow one another.
std::size_t repetitions(const std::vector<Part>& parts, std::size_t at, std::size_t period) {
  std::size_t times = 1;
  while (at + (times + 1) * period <= parts.size() &&
         std::equal(parts.begin() + static_cast<std::ptrdiff_t>(at),
                    parts.begin() + static_cast<std::ptrdiff_t>(at + period),
                    parts.begin() + static_cast<std::ptrdiff_t>(at + times * period))) {
    ++times;
  }
  return times;
}

ModelFacts gather(model::Model model, const ModelQuestion& question) {
  if (const std::string refused = split::refuse_split(model, question.shape, question.split); !refused.empty()) {
    throw InputError(fmt::format("{}: {}", model.architecture.name, refused));
  }
  ModelFacts facts;
  facts.model = std::move(model);
  facts.question = question;
  facts.parameters = model::count_parameters(facts.model);
  facts.flops_per_token = count_token_flops(facts.model, question);
  facts.stretches = model::find_stretches(facts.model.layers);
  for (const model::Layer& layer : facts.model.kinds) {
    LayerFacts about;
    about.layer = &layer;
    about.local = split::localise(layer, question.shape, question.split, question.implementation);
    about.recompute_flops = recompute_flops(about.local, question.recompute);
    for (const model::Operator& op : layer.operators) {
      for (const model::Weight& weight : op.weights) about.parameters += model::elements(weight);
    }
    facts.kinds.push_back(std::move(about));
  }
  for (const int kind : facts.model.layers) ++facts.kinds[static_cast<std::size_t>(kind)].count;
  facts.cut_bytes = cut_bytes(facts.model, question.shape, question.split);
  return facts;
}

}  // namespace

std::int64_t LayerFacts::weights_bytes() const {
  return (local.dense_parameters + local.expert_parameters + local.frozen_dense + local.frozen_expert) * kWeightBytes;
}

ModelFacts gather_facts(const model::Architecture& architecture, ModelQuestion question) {
  split::RunShape& shape = question.shape;
  if (shape.sequence == 0) shape.sequence = architecture.default_sequence;
  if (shape.encoder_sequence == 0) shape.encoder_sequence = shape.sequence;
  question.implementation.sequence = shape.sequence;
  return gather(model::build_model(architecture, question.implementation), question);
}

ModelFacts gather_facts(model::Model traced, ModelQuestion question) {
  split::RunShape& shape = question.shape;
  if (shape.sequence == 0) shape.sequence = traced.architecture.default_sequence;
  if (shape.encoder_sequence == 0) shape.encoder_sequence = shape.sequence;
  question.implementation.sequence = shape.sequence;
  return gather(std::move(traced), question);
}
ModelTotals add_up(const ModelFacts& facts) {
  ModelTotals totals;
  std::set<std::string> seen;
  for (const LayerFacts& about : facts.kinds) {
    // The first layer of a kind may be the first to hold a shared weight; the others never are.
    const std::int64_t first = shared_parameters(about.local, seen);
    const std::int64_t others = (about.count - 1) * shared_parameters(about.local, seen);
    totals.weights_bytes += about.weights_bytes() * about.count - (first + others) * kWeightBytes;
    totals.flops_forward += about.local.flops_forward() * about.count;
    totals.flops_backward += about.local.flops_backward() * about.count;
    totals.saved.none += about.local.saved.none * about.count;
    totals.saved.selective += about.local.saved.selective * about.count;
    totals.saved.full += about.local.saved.full * about.count;
  }
  return totals;
}

std::string describe_layers(const ModelFacts& facts) {
  std::vector<Part> parts;
  for (const model::LayerStretch& stretch : facts.stretches) parts.push_back({stretch.kind, stretch.count});
  constexpr std::size_t kLongestPeriod = 16;
  std::vector<std::string> words;
  for (std::size_t at = 0; at < parts.size();) {
    std::size_t best_period = 1;
    std::size_t best_times = 1;
    for (std::size_t period = 2; period <= kLongestPeriod; ++period) {
      const std::size_t times = repetitions(parts, at, period);
      if (times > 1 && times * period > best_times * best_period) {
        best_times = times;
        best_period = period;
      }
    }
    if (best_times == 1) {
      words.push_back(describe_part(facts, parts[at]));
      ++at;
      continue;
    }
    std::string inner;
    for (std::size_t i = at; i < at + best_period; ++i) inner += (i > at ? ", " : "") + describe_part(facts, parts[i]);
    words.push_back(fmt::format("{} x ({})", best_times, inner));
    at += best_times * best_period;
  }
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::size_t main_block(const ModelFacts& facts) {
  const auto weight = [](const LayerFacts& about) { return about.layer->counted_block() ? about.count : 0; };
  const auto best = std::max_element(facts.kinds.begin(), facts.kinds.end(),
                                     [&](const LayerFacts& a, const LayerFacts& b) { return weight(a) < weight(b); });
  NEST_CHECK(best != facts.kinds.end(), "a model has at least one layer");
  return static_cast<std::size_t>(best - facts.kinds.begin());
}

}  // namespace nest::report
