// One layer on one device: sizes that every accounting starts from.
#include <algorithm>

#include "base/index.h"
#include "cost/activation_offload.h"
#include "cost/imbalance.h"
#include "cost/memory.h"
#include "cost/memory_parts.h"
#include "split/sizes.h"

namespace nest::cost {
namespace {

bool is_matmul(const split::LocalOperator& op) {
  return op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul;
}

bool has_axis(const model::Layer& layer, model::TensorId tensor, model::Axis axis) {
  const auto& width = layer.tensors[at(tensor)].width;
  return std::any_of(width.begin(), width.end(), [axis](const model::Extent& e) { return e.axis == axis; });
}

// An input projection of the dense feed-forward: its outputs have the feed-forward's width.
bool widens(const model::Layer& layer, const split::LocalOperator& op) {
  return !op.source->adapter && op.kind == model::OperatorKind::matmul && op.module == model::Module::feed_forward &&
         has_axis(layer, op.source->outputs.front(), model::Axis::ffn);
}

const split::LocalOperator* head_projection(const LayerView& view) {
  for (const split::LocalOperator& op : view.local.operators) {
    if (is_matmul(op) && has_axis(*view.layer, op.source->outputs.front(), model::Axis::vocabulary)) return &op;
  }
  return nullptr;
}

split::RecomputePolicy policy_of(const SoftwareStack& stack, const Treatments& treatments) {
  split::RecomputePolicy policy;
  policy.sets = treatments.sets;
  switch (stack.selective) {
    case SelectiveKind::modules: policy.modules = stack.selective_modules; break;
    case SelectiveKind::every_second_matmul: policy.every_second_matmul = true; break;
    case SelectiveKind::minimal:
      policy.modules = {model::Module::core_attention, model::Module::norm, model::Module::activation,
                        model::Module::moe_activation};
  }
  return policy;
}

}  // namespace

const split::LocalOperator* LayerView::first_grouped() const {
  for (const split::LocalOperator& op : local.operators) {
    if (op.kind == model::OperatorKind::grouped_matmul) return &op;
  }
  return nullptr;
}

double LayerView::projected_bytes() const {
  double sum = 0;
  for (const split::LocalOperator& op : local.operators) {
    if (widens(*layer, op)) sum += op.m * real(op.n) * element_bytes;
  }
  return sum;
}

double LayerView::wide_bytes() const {
  double widest = 0;
  for (const split::LocalOperator& op : local.operators) {
    if (!widens(*layer, op)) continue;
    const double one = op.m * real(op.n) / real(op.source->outputs.size());
    widest = std::max(widest, 2 * one * element_bytes);
  }
  if (const split::LocalOperator* experts = first_grouped()) {
    widest = std::max(widest, spread * experts->m * real(experts->n + experts->k) * element_bytes);
  }
  return widest;
}

double LayerView::routed_kept_bytes() const {
  double sum = 0;
  for (const split::SavedTensor& saved : local.saved_tensors) {
    const bool known = saved.tensor >= 0 && !saved.only_selective;
    if (known && layer->tensors[at(saved.tensor)].rows == model::Rows::routed) sum += saved.bytes;
  }
  return sum;
}

double LayerView::feed_forward_parameters() const {
  double sum = 0;
  for (const split::LocalOperator& op : local.operators) {
    if (op.kind == model::OperatorKind::matmul && op.module == model::Module::feed_forward) {
      sum += op.weight_gradient * real(op.n) * real(op.k);
    }
  }
  return sum;
}

double LayerView::kept_after(std::size_t operator_index) const {
  std::vector<bool> earlier(layer->tensors.size(), false);
  if (layer->input >= 0) earlier[at(layer->input)] = true;
  for (std::size_t i = 0; i <= operator_index; ++i) {
    const model::Operator& op = layer->operators[i];
    for (const auto* list : {&op.inputs, &op.outputs, &op.saves}) {
      for (const model::TensorId id : *list) earlier[at(id)] = true;
    }
  }
  double sum = 0;
  for (const split::SavedTensor& saved : local.saved_tensors) {
    const bool known = saved.tensor >= 0 && !saved.only_selective;
    if (known && !earlier[at(saved.tensor)]) sum += saved.bytes;
  }
  return sum;
}

double LayerView::attention_bytes() const {
  double widest = 0;
  for (std::size_t i = 0; i < layer->operators.size(); ++i) {
    const model::Operator& op = layer->operators[i];
    if (op.kind != model::OperatorKind::attention) continue;
    const model::AttentionShape& a = op.attention;
    const bool divided = a.heads.axis != model::Axis::none && !split::stays_whole(*layer, split);
    const auto width = [&](const model::Extent& heads, std::int64_t dim, const model::Length& length) {
      const std::int64_t mine = divided ? std::max<std::int64_t>(1, heads.size / split.tp) : heads.size;
      const double rows = length.per_sequence ? tokens * length.size : tokens / sequence * length.size;
      return rows * a.batches * (real(mine) * real(dim)) * element_bytes;
    };
    const double q = width(a.heads, a.qk_dim, a.queries);
    const double k = width(a.kv_heads, a.qk_dim, a.keys);
    const double v = width(a.kv_heads, a.value_dim, a.keys);
    const double out = width(a.heads, a.value_dim, a.queries);
    const double freed = kept_after(i);
    widest = std::max(widest, (q + k + v) + out + 2 * q - freed);
    const bool exchanged =
        std::any_of(local.saved_tensors.begin(), local.saved_tensors.end(),
                    [](const split::SavedTensor& s) { return s.tensor < 0 && s.name.starts_with("attention out"); });
    if (exchanged) widest = std::max(widest, 2 * (q + k + v) + 3 * out + q + k - freed);
  }
  return widest;
}

double LayerView::logit_rows() const {
  const split::LocalOperator* op = head_projection(*this);
  return op == nullptr ? tokens : op->m;
}

double LayerView::logits() const {
  const split::LocalOperator* op = head_projection(*this);
  return op == nullptr ? 0 : op->m * real(op->n);
}

double LayerView::further_logits() const {
  double sum = 0;
  const split::LocalOperator* first = head_projection(*this);
  for (const split::LocalOperator& op : local.operators) {
    const bool projects = is_matmul(op) && has_axis(*layer, op.source->outputs.front(), model::Axis::vocabulary);
    if (projects && &op != first) sum += op.m * real(op.n);
  }
  return sum;
}

double LayerView::head_weight() const {
  const split::LocalOperator* op = head_projection(*this);
  return op == nullptr ? 0 : real(op->n) * real(op->k);
}

double LayerView::head_gradient() const {
  const split::LocalOperator* op = head_projection(*this);
  return op == nullptr ? 0 : op->weight_gradient * head_weight();
}

double LayerView::head_kept_bytes() const {
  double sum = 0;
  for (const split::SavedTensor& saved : local.saved_tensors) {
    if (saved.tensor >= 0 && !has_axis(*layer, saved.tensor, model::Axis::vocabulary)) sum += saved.bytes;
  }
  return sum;
}

// Rows of the fullest expert rank over the mean: what lives for a short time, and what is kept for backward. Where the
// stack says how unevenly tokens are routed, memory follows it as time does; a stage's layers may be uneven in different
// ways, which is not counted on.
struct ExpertRows {
  double transient = 1, kept = 1;
};
ExpertRows expert_rows(const Job& job, const model::Layer& layer, const Split& split, std::int64_t micro_batch) {
  const SoftwareStack& stack = job.stack;
  ExpertRows rows{stack.routing_imbalance, 1};
  if (stack.rank_capacity > 0) {
    rows.transient = stack.rank_capacity;
  } else if (stack.routing.kind != RoutingKind::forced && layer.experts > 0) {
    const double tokens = split::stream_tokens(micro_batch, job.run.sequence, split);
    rows.transient = time_imbalance(stack.routing, choice_of(layer), split, tokens);
  }
  rows.kept = stack.paged_stash > 0 ? stack.paged_stash : rows.transient;
  return rows;
}

LayerView view_layer(const Job& job, int layer, const Split& split, std::int64_t micro_batch,
                     const Treatments& treatments) {
  LayerView view;
  view.layer = &job.model.kinds[at(layer)];
  view.split = split;
  model::Implementation implementation = implementation_of(job);
  implementation.shared_expert_overlap = job.stack.shared_expert_overlap;
  const ExpertRows rows = expert_rows(job, *view.layer, split, micro_batch);
  const split::RunShape shape{.micro_batch = micro_batch,
                              .sequence = job.run.sequence,
                              .encoder_sequence = job.run.encoder_sequence,
                              .routing_imbalance = rows.kept};
  view.spread = rows.transient / rows.kept;
  view.stashed = job.stack.paged_stash > 0;
  view.local = split::localise(*view.layer, shape, split, implementation, policy_of(job.stack, treatments));

  const bool own_length = view.layer->encoder && job.run.encoder_sequence > 0;
  const std::int64_t sequence = own_length ? job.run.encoder_sequence : job.run.sequence;
  view.tokens = real(micro_batch) * real(sequence) / real(split.cp);
  view.sequence = real(sequence);
  view.element_bytes = implementation.activation_bytes;
  const model::TensorId stream = view.layer->input >= 0 ? view.layer->input : view.layer->output;
  if (stream >= 0) {
    const model::Tensor& tensor = view.layer->tensors[at(stream)];
    const split::LocalSizes sizes(*view.layer, shape, split, implementation);
    view.whole_bytes = sizes.bytes(tensor, split::Place::sharded);
    const bool divided = sizes.rows(tensor, split::Place::stream) < sizes.rows(tensor, split::Place::sharded);
    view.stream_bytes = view.whole_bytes / (divided ? real(split.tp) : 1.0);
  }
  return view;
}

void fill_kept(const LayerView& view, LayerPrice& price) {
  const split::SavedBytes& saved = view.local.saved;
  price.kept_bytes = {saved.none, saved.selective, saved.full};
  price.kept_bytes.insert(price.kept_bytes.end(), saved.sets.begin(), saved.sets.end());
  if (view.split.offload != 0 && view.block()) {
    for (std::size_t mode = 0; mode < price.kept_bytes.size(); ++mode) {
      const split::HostBytes& away = price.host.emplace_back(host_bytes(saved, static_cast<int>(mode)));
      price.kept_bytes[mode] -= away.freed;
    }
  }
  // What the head keeps lives only from its forward to its backward: it is part of that moment.
  if (view.head()) std::fill(price.kept_bytes.begin(), price.kept_bytes.end(), 0);
  price.working_bytes.assign(price.kept_bytes.size(), 0);
}

void price_layer_memory(const Job& job, int layer, const Split& split, std::int64_t micro_batch, LayerPrice& price,
                        const Treatments& treatments) {
  price_viewed_memory(job, view_layer(job, layer, split, micro_batch, treatments), price);
}

namespace {

// Layers of no known structure: the gradients of the results and operands of the widest operator are alive at once.
void widen_unstructured(const Job& job, const LayerView& view, LayerPrice& price) {
  if (!job.model.traced || !view.block() || view.projected_bytes() > 0 || view.first_grouped()) return;
  double widest = 0, largest = 0;
  for (const split::LocalOperator& op : view.local.operators) {
    widest = std::max(widest, op.bytes_forward);
    if (op.kind == model::OperatorKind::matmul) largest = std::max(largest, op.m * real(op.n) * view.element_bytes);
  }
  for (std::size_t mode = 0; mode < price.kept_bytes.size(); ++mode) {
    const double again = view.local.saved.none - price.kept_bytes[mode];
    price.working_bytes[mode] = std::max(price.working_bytes[mode], widest + again);
  }
  price.largest_block_bytes = std::max(price.largest_block_bytes, largest);
}

// The largest matrix that is stored in fewer bits, written out for the product that reads it.
void add_unpacked(const LayerView& view, LayerPrice& price) {
  if (!view.block()) return;
  std::int64_t largest = 0;
  for (const split::LocalOperator& op : view.local.operators) {
    if (is_matmul(op)) largest = std::max(largest, op.frozen_parameters);
  }
  for (double& bytes : price.working_bytes) bytes += view.element_bytes * real(largest);
}

// Keys and values of the whole sequence and their gradients, beside those of the attention, where they are gathered.
void add_gathered_context(const LayerView& view, LayerPrice& price) {
  double gathered = 0;
  for (const split::LayerCollective& exchange : view.local.collectives) {
    const bool here = exchange.group == split::Group::context && exchange.phase == split::Phase::backward;
    if (here && exchange.kind != split::CollectiveKind::all_to_all &&
        exchange.kind != split::CollectiveKind::ring_exchange) {
      gathered += exchange.bytes;
    }
  }
  if (gathered == 0) return;
  for (std::size_t mode = 0; mode < price.working_bytes.size(); ++mode) {
    const double again = view.local.saved.none - price.kept_bytes[mode];
    price.working_bytes[mode] =
        std::max(price.working_bytes[mode], gathered + view.attention_bytes() + view.stream_bytes + again);
  }
}

}  // namespace

void price_viewed_memory(const Job& job, const LayerView& view, LayerPrice& price) {
  price.dense_parameters = view.local.dense_parameters;
  price.expert_parameters = view.local.expert_parameters;
  price.frozen_dense = view.local.frozen_dense;
  price.frozen_expert = view.local.frozen_expert;
  fill_kept(view, price);
  const double parameters = real(price.dense_parameters + price.expert_parameters);
  // The layer at work, the one fetched ahead, and the gradient before it is scattered. Weights come as they travel.
  const bool narrow = storage_of(job) != Storage::bf16;
  const double gathered = narrow ? std::min(view.element_bytes, job.stack.weight_traffic_bytes) : view.element_bytes;
  price.gather_bytes = (2 * gathered + view.element_bytes) * parameters;
  price.scatter_bytes = view.element_bytes * parameters;
  const double frozen = job.model.frozen_matrix_bytes > 0 ? job.model.frozen_matrix_bytes : gathered;
  price.gather_bytes += 2 * frozen * real(price.frozen_dense + price.frozen_expert);
  switch (job.stack.memory) {
    case MemoryModel::megatron: price_megatron(view, job, price); break;
    case MemoryModel::fsdp: price_fsdp(view, job, price); break;
    case MemoryModel::plain: price_plain(view, job, price); break;
    case MemoryModel::megatron_deepspeed: price_megatron_deepspeed(view, job, price); break;
    case MemoryModel::nanotron: price_nanotron(view, price); break;
    case MemoryModel::internevo: price_internevo(view, price); break;
  }
  if (job.model.frozen_matrix_bytes > 0) add_unpacked(view, price);
  widen_unstructured(job, view, price);
  add_gathered_context(view, price);
  // Of the layer before, one group is on its way back already.
  for (std::size_t mode = 0; mode < price.host.size(); ++mode) price.working_bytes[mode] += price.host[mode].group;
}

}  // namespace nest::cost
