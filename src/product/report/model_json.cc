#include <algorithm>
#include <string_view>

#include "cost/attention_size.h"
#include "report/model_report.h"

namespace nest::report {
namespace {

std::string_view module_name(model::Module module) {
  switch (module) {
    case model::Module::other: return "other";
    case model::Module::core_attention: return "core_attention";
    case model::Module::norm: return "norm";
    case model::Module::activation: return "activation";
    case model::Module::feed_forward: return "feed_forward";
    case model::Module::moe_activation: return "moe_activation";
    case model::Module::moe: return "moe";
    case model::Module::latent_up: return "latent_up";
    case model::Module::shared_experts: return "shared_experts";
    case model::Module::shared_activation: return "shared_activation";
  }
  return "other";
}

Json saved_json(const split::SavedBytes& saved) {
  return {{"none", json_number(saved.none)},
          {"selective", json_number(saved.selective)},
          {"full", json_number(saved.full)}};
}

Json attention_json(const cost::AttentionSize& size) {
  return {{"sequences", json_number(size.sequences)},
          {"heads", json_number(size.heads)},
          {"queries", json_number(size.queries)},
          {"keys", json_number(size.keys)},
          {"qk_dim", size.qk_dim},
          {"value_dim", size.value_dim},
          {"window", size.window},
          {"causal", size.causal}};
}

Json operator_json(const split::LocalOperator& op, const model::Layer& layer, const ModelQuestion& asked) {
  Json weights = Json::array();
  for (const model::Weight& weight : op.source->weights) {
    Json shape = Json::array();
    for (const model::Extent& extent : weight.shape) shape.push_back(extent.size);
    Json entry = {{"name", weight.name}, {"shape", std::move(shape)}};
    if (!weight.tied_to.empty()) entry["tied_to"] = weight.tied_to;
    weights.push_back(std::move(entry));
  }
  Json json = {{"name", op.source->name},
               {"kind", to_string(op.kind)},
               {"module", module_name(op.module)},
               {"m", json_number(op.m)},
               {"n", op.n},
               {"k", op.k},
               {"groups", op.groups},
               {"flops_forward", json_number(op.flops_forward)},
               {"flops_backward", json_number(op.flops_backward)},
               {"bytes_forward", json_number(op.bytes_forward)},
               {"bytes_backward", json_number(op.bytes_backward)},
               {"recomputed_selective", op.recomputed},
               {"parameters_local", op.parameters},
               {"expert_weights", op.expert_weights},
               {"weights", std::move(weights)}};
  if (op.kind == model::OperatorKind::attention) {
    json["attention"] = attention_json(cost::attention_size(op, layer, asked.shape, asked.split.cp));
  }
  return json;
}

Json collective_json(const split::LayerCollective& collective, const split::LocalLayer& local) {
  return {{"kind", to_string(collective.kind)},
          {"group", to_string(collective.group)},
          {"phase", collective.phase == split::Phase::forward ? "forward" : "backward"},
          {"ranks", collective.ranks},
          {"bytes", json_number(collective.bytes)},
          {"tensor", collective.tensor},
          {"operator", local.operators.at(static_cast<std::size_t>(collective.operator_index)).source->name}};
}

Json layer_json(const LayerFacts& about, const model::LayerStretch& stretch, const ModelQuestion& asked) {
  Json operators = Json::array();
  for (const split::LocalOperator& op : about.local.operators)
    operators.push_back(operator_json(op, *about.layer, asked));
  Json collectives = Json::array();
  for (const split::LayerCollective& each : about.local.collectives)
    collectives.push_back(collective_json(each, about.local));
  Json saved = Json::array();
  for (const split::SavedTensor& tensor : about.local.saved_tensors) {
    saved.push_back({{"name", tensor.name},
                     {"bytes", json_number(tensor.bytes)},
                     {"none", !tensor.only_selective},
                     {"selective", tensor.selective}});
  }
  return {{"kind", to_string(about.layer->kind)},
          {"name", about.layer->name},
          {"first", stretch.first},
          {"count", stretch.count},
          {"parameters", about.parameters},
          {"parameters_local", about.local.dense_parameters + about.local.expert_parameters + about.local.frozen_dense +
                                   about.local.frozen_expert},
          {"weights_bytes", about.weights_bytes()},
          {"saved_bytes", saved_json(about.local.saved)},
          {"output_bytes", json_number(about.local.output_bytes)},
          {"flops_forward", json_number(about.local.flops_forward())},
          {"flops_backward", json_number(about.local.flops_backward())},
          {"flops_recompute", json_number(about.recompute_flops)},
          {"operators", std::move(operators)},
          {"collectives", std::move(collectives)},
          {"saved_tensors", std::move(saved)}};
}

Json run_json(const ModelFacts& facts) {
  const ModelQuestion& asked = facts.question;
  return {{"sequence", asked.shape.sequence},
          {"micro_batch", asked.shape.micro_batch},
          {"tokens", facts.tokens()},
          {"stack", to_string(asked.implementation.stack)},
          {"attention", asked.implementation.flash_attention ? "flash" : "unfused"},
          {"dropout", asked.implementation.dropout},
          {"recompute", to_string(asked.recompute)},
          {"tp", asked.split.tp},
          {"sp", asked.split.sp},
          {"cp", asked.split.cp},
          {"ep", asked.split.ep},
          {"etp", asked.split.expert_tp()}};
}

}  // namespace

Json model_json(const ModelFacts& facts) {
  const model::Architecture& architecture = facts.model.architecture;
  const ModelTotals totals = add_up(facts);
  Json layers = Json::array();
  for (const model::LayerStretch& stretch : facts.stretches)
    layers.push_back(layer_json(facts.kinds[static_cast<std::size_t>(stretch.kind)], stretch, facts.question));
  const auto blocks =
      static_cast<std::int64_t>(std::count_if(facts.model.layers.begin(), facts.model.layers.end(), [&](int kind) {
        return facts.model.kinds[static_cast<std::size_t>(kind)].counted_block();
      }));
  Json cuts = Json::array();
  for (const double bytes : facts.cut_bytes) cuts.push_back(json_number(bytes));
  return {{"schema", "nest.show.model/1"},
          {"model",
           {{"name", architecture.name},
            {"title", facts.title},
            {"origin", facts.origin},
            {"family", architecture.family},
            {"hidden", architecture.hidden},
            {"vocabulary", architecture.vocabulary},
            {"blocks", facts.model.traced ? blocks : architecture.layers()},
            {"max_positions", architecture.max_positions},
            {"position", to_string(architecture.position)},
            {"tied_embeddings", architecture.tied_embeddings}}},
          {"run", run_json(facts)},
          {"parameters",
           {{"total", facts.parameters.total},
            {"active", facts.parameters.active},
            {"by_kind", facts.parameters.by_kind},
            {"by_weight", facts.parameters.by_weight}}},
          {"flops_per_token",
           {{"forward", json_number(facts.flops_per_token.forward)},
            {"training", json_number(facts.flops_per_token.training)},
            {"executed", json_number(facts.flops_per_token.executed)}}},
          {"total",
           {{"weights_bytes", totals.weights_bytes},
            {"flops_forward", json_number(totals.flops_forward)},
            {"flops_backward", json_number(totals.flops_backward)},
            {"saved_bytes", saved_json(totals.saved)}}},
          {"layers", std::move(layers)},
          {"cut_bytes", std::move(cuts)}};
}

}  // namespace nest::report
