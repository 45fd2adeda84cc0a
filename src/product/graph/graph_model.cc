#include "graph/graph_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "graph/flow.h"
#include "graph/fuse.h"
#include "graph/label_splits.h"
#include "graph/layer_maker.h"
#include "graph/segments.h"
#include "model/training.h"

namespace nest::graph {
namespace {

// What others ask of a model's architecture, as far as a graph can say.
model::Architecture architecture_of(const RawGraph& graph, const Draft& draft) {
  model::Architecture architecture;
  architecture.name = graph.name;
  architecture.family = "graph";
  architecture.position = model::PositionKind::none;
  architecture.default_sequence = draft.has_sequence ? graph.sequence : 1;
  architecture.max_positions = architecture.default_sequence;
  std::set<std::string> tables;
  for (const DraftLayer& kind : draft.kinds) {
    const model::Layer& layer = kind.layer;
    if (layer.kind == model::LayerKind::embedding && layer.operators.front().kind == model::OperatorKind::embedding) {
      const model::Weight& table = layer.operators.front().weights.front();
      if (!table.tied_to.empty()) tables.insert(table.tied_to);
      if (architecture.vocabulary == 0) architecture.vocabulary = table.shape.front().size;
    }
    if (layer.kind == model::LayerKind::head) {
      const model::Weight& projection = layer.operators[at(kind.logits)].weights.front();
      architecture.tied_embeddings = tables.contains(projection.tied_to);
      architecture.vocabulary = projection.shape.front().size;
      if (architecture.tied_embeddings) architecture.embedding_width = elements(projection) / architecture.vocabulary;
    }
  }
  // The width of the stream: of what most layers hand on.
  std::map<std::int64_t, int> widths;
  for (const int kind : draft.layers) {
    const model::Layer& layer = draft.kinds[at(kind)].layer;
    if (layer.kind == model::LayerKind::block && layer.input >= 0) {
      ++widths[model::row_elements(layer.tensors[at(layer.input)])];
    }
  }
  int most = 0;
  for (const auto& [width, count] : widths) {
    if (count <= most) continue;
    most = count;
    architecture.hidden = width;
  }
  if (architecture.embedding_width == architecture.hidden) architecture.embedding_width = 0;
  return architecture;
}

void name_layers(Draft& draft, const std::vector<Segment>& segments) {
  const auto blocks = std::count_if(draft.kinds.begin(), draft.kinds.end(),
                                    [](const DraftLayer& each) { return each.layer.kind == model::LayerKind::block; });
  if (blocks < 2) return;
  std::map<std::string, int> used;
  std::vector<bool> named(draft.kinds.size(), false);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const auto kind = at(draft.layers[s]);
    model::Layer& layer = draft.kinds[kind].layer;
    if (named[kind] || layer.kind != model::LayerKind::block) continue;
    named[kind] = true;
    std::string base = segments[s].prefix.substr(0, segments[s].prefix.rfind('.'));
    base = base.substr(base.rfind('.') == std::string::npos ? 0 : base.rfind('.') + 1);
    const bool number = !base.empty() && base.find_first_not_of("0123456789") == std::string::npos;
    if (base.empty() || number) base = "block";
    const int again = ++used[base];
    layer.name = again == 1 ? base : fmt::format("{} {}", base, again);
  }
}

// Nobody writes layers of so many operators; what is done to them takes quadratic time.
bool too_large(const DraftLayer& kind) {
  constexpr std::size_t kMostOperators = 4096;
  constexpr std::size_t kMostEntries = 65'536;
  std::size_t entries = 0;
  for (const model::Operator& op : kind.layer.operators)
    entries += op.inputs.size() + op.outputs.size() + op.saves.size();
  return kind.layer.operators.size() > kMostOperators || entries > kMostEntries;
}

void refuse_wishes(const DraftLayer& kind, const std::string& source) {
  for (std::size_t i = 0; i < kind.annotations.size(); ++i) {
    if (!kind.linear[i] || kind.annotations[i].empty() || kind.annotations[i] == "whole") continue;
    throw InputError(fmt::format("{}: splits: {} cannot be divided: its layer has {} operators", source,
                                 kind.layer.operators[i].name, kind.layer.operators.size()));
  }
}

}  // namespace

std::int64_t default_sequence(const RawGraph& graph) {
  const Flow flow = make_flow(graph);
  for (const Node& node : flow.nodes) {
    for (const int out : node.outputs) {
      if (flow.size(out).sequence > 0) return graph.sequence;
    }
  }
  return 1;
}

GraphModels build_graph_models(const RawGraph& graph, const model::Implementation& implementation) {
  const Flow flow = make_flow(graph);
  const std::vector<Segment> segments = find_segments(flow);
  if (segments.empty()) {
    throw InputError(fmt::format("{}: the graph has no operator that works on data", graph.origin()));
  }
  Draft draft = make_draft(flow, segments, implementation);
  name_layers(draft, segments);
  GraphModels models;
  for (model::Model* model : {&models.model, &models.fused_model}) {
    model->traced = true;
    model->divisible_sequence = draft.divisible_sequence;
    model->architecture = architecture_of(graph, draft);
    model->layers = draft.layers;
    model->edges = draft.edges;
  }
  for (DraftLayer& kind : draft.kinds) {
    if (too_large(kind)) {
      refuse_wishes(kind, graph.origin());
      draft.notes.push_back(
          fmt::format("the layer \"{}\" has {} operators, too many to look at: its pointwise work is not fused, "
                      "and tensor parallelism does not divide it",
                      kind.layer.name, kind.layer.operators.size()));
      models.model.kinds.push_back(kind.layer);
      models.fused_model.kinds.push_back(kind.layer);
      continue;
    }
    label_splits(kind, graph.origin());
    FusedLayer fused = fuse(kind);
    for (const int index : fused.norms) kind.layer.operators[at(index)].module = model::Module::norm;
    models.model.kinds.push_back(kind.layer);
    models.fused_model.kinds.push_back(std::move(fused.layer));
  }
  const auto is_frozen = [](const RawWeight& weight) { return !weight.trainable; };
  if (std::any_of(graph.weights.begin(), graph.weights.end(), is_frozen)) {
    for (model::Model* model : {&models.model, &models.fused_model}) model::mark_gradients(*model);
  }
  std::vector<std::string> notes = std::move(draft.notes);
  notes.insert(notes.end(), graph.warnings.begin(), graph.warnings.end());
  models.model.notes = models.fused_model.notes = std::move(notes);
  return models;
}

}  // namespace nest::graph
