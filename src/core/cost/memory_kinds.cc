#include "cost/memory_kinds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/index.h"
#include "cost/muon.h"

namespace nest::cost {
namespace {

double rotary_table(const Job& job, const model::Layer& layer) {
  if (job.model.architecture.position != model::PositionKind::rotary) return 0;
  for (const model::Operator& op : layer.operators) {
    if (op.kind == model::OperatorKind::attention) return 4.0 * (real(job.run.sequence) * real(op.attention.qk_dim));
  }
  return 0;
}

// The encoder's output, where a layer reads it beside the stream.
double encoder_output(const Job& job, const LayerView& view, std::int64_t micro_batch) {
  if (view.layer->memory < 0) return 0;
  const std::int64_t sequence = job.run.encoder_sequence > 0 ? job.run.encoder_sequence : job.run.sequence;
  const double tokens = real(micro_batch) / real(view.split.cp) * real(sequence);
  return view.stream_bytes / view.tokens * tokens;
}

// Transformer Engine keeps one weight-gradient buffer per distinct shape of its linears; the router is none of them.
bool has_weight_buffer(const split::LocalOperator& op) {
  return op.kind == model::OperatorKind::grouped_matmul ||
         (op.kind == model::OperatorKind::matmul && op.module != model::Module::moe);
}

// Tables, norms, biases, the router and the head: of 16 bits in every recipe.
struct PlainParameters {
  double trained = 0, frozen = 0;
};
PlainParameters plain_parameters(const LayerView& view) {
  PlainParameters sum;
  for (const split::LocalOperator& op : view.local.operators) {
    if (op.expert_weights) continue;
    const bool narrow = view.block() && has_weight_buffer(op) && op.source->product.batches == 0;
    const double matrix = narrow ? std::min(real(op.n) * real(op.k), real(op.parameters)) : 0;
    sum.trained += real(op.parameters - op.frozen_parameters) - op.weight_gradient * matrix;
    sum.frozen += real(op.frozen_parameters) - (1 - op.weight_gradient) * matrix;
  }
  return sum;
}

// Elements on this device of a weight that other layers share.
std::int64_t tied_elements(const split::LocalOperator& op, const model::Weight& weight) {
  const auto& all = op.source->weights;
  const auto tied =
      std::count_if(all.begin(), all.end(), [](const model::Weight& each) { return !each.tied_to.empty(); });
  const bool matrix = op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul;
  if (op.kind == model::OperatorKind::embedding) return op.parameters;
  if (matrix && tied == 1 && op.source->taps == 1) return checked_product({op.n, op.k});
  std::int64_t sum = 0;
  for (const model::Weight& each : all) sum = checked_sum({sum, elements(each)});
  // Weights of one operator are divided alike.
  const double share = sum == 0 ? 0 : real(elements(weight)) / real(sum);
  return std::llround(real(op.parameters) * share);
}

KindMemory memory_of(const Job& job, const LayerView& view, std::int64_t micro_batch) {
  KindMemory kind;
  kind.block = view.block();
  kind.head = view.head();
  kind.experts = view.first_grouped() != nullptr;
  kind.element_bytes = view.element_bytes;
  kind.stream_bytes = view.stream_bytes;
  kind.whole_bytes = view.whole_bytes;
  kind.head_parameters = view.head_gradient();
  kind.feed_forward_parameters = view.feed_forward_parameters();
  const PlainParameters plain = plain_parameters(view);
  kind.plain_parameters = plain.trained;
  kind.frozen_plain = plain.frozen;
  kind.rest_parameters = rest_parameters(*view.layer, view.local);
  if (view.layer->kind == model::LayerKind::embedding) {
    const split::LocalOperator& table = view.local.operators.front();
    kind.embedding_parameters = real(table.parameters - table.frozen_parameters);
  }
  kind.rotary_bytes = rotary_table(job, *view.layer);
  kind.encoder_bytes = encoder_output(job, view, micro_batch);
  return kind;
}

}  // namespace

MemoryKinds::MemoryKinds(const Job& job, const Split& split, std::int64_t micro_batch, Treatments treatments)
    : job_(&job), treatments_(std::move(treatments)) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> shapes;
  std::map<std::string, std::size_t> tied;
  for (std::size_t i = 0; i < job.model.kinds.size(); ++i) {
    const LayerView view = view_layer(job, static_cast<int>(i), split, micro_batch, treatments_);
    KindMemory kind = memory_of(job, view, micro_batch);
    price_viewed_memory(job, view, kind.price);
    if (const auto measured = measured_saved_bytes(job, static_cast<int>(i), split, micro_batch)) {
      keep_measured(*measured, kind.price);
    }
    for (const split::LocalOperator& op : view.local.operators) {
      if (kind.block && has_weight_buffer(op) && op.weight_gradient > 0) {
        const auto [place, fresh] = shapes.try_emplace({op.n, op.k}, shapes.size());
        if (fresh) shape_elements_.push_back(real(op.n) * real(op.k));
        kind.shapes.push_back(place->second);
      }
      for (const model::Weight& weight : op.source->weights) {
        if (weight.tied_to.empty()) continue;
        const std::size_t number = tied.try_emplace(weight.tied_to, tied.size()).first->second;
        kind.tied.push_back({number, tied_elements(op, weight), weight.frozen});
      }
    }
    if (static_cast<int>(i) == job.model.layers.back()) logits_ = view.logits();
    kinds_.push_back(std::move(kind));
  }
  tied_weights_ = tied.size();
  std::vector<bool> held(tied_weights_, false);
  for (const int layer : job.model.layers) {
    for (const KindMemory::Tied& weight : kinds_[at(layer)].tied) {
      if (held[weight.weight]) (weight.frozen ? shared_frozen_ : shared_) += real(weight.elements);
      held[weight.weight] = true;
    }
  }
}

double MemoryKinds::weight_buffers(const StagePlan& stage, double element_bytes) const {
  std::vector<bool> counted(shape_elements_.size(), false);
  double elements = 0;
  const KindMemory* before = nullptr;
  for (const ChunkPlan& run : plan::runs_of(stage)) {
    for (int i = run.first; i <= run.last; ++i) {
      const KindMemory* kind = &of_layer(i);
      if (kind == before) continue;
      before = kind;
      for (const std::size_t shape : kind->shapes) {
        if (counted[shape]) continue;
        counted[shape] = true;
        elements += shape_elements_[shape];
      }
    }
  }
  return elements * element_bytes;
}

}  // namespace nest::cost
