// What is done with a graph, whoever read it.
#pragma once

#include "graph/graph_model.h"
#include "graph/read_graph.h"
#include "model/count.h"
#include "split/local_layer.h"

namespace nest {

inline void use_graph(const graph::RawGraph& graph) {
  const model::Implementation implementation{.stack = model::Stack::plain};
  const graph::GraphModels models = graph::build_graph_models(graph, implementation);
  model::count_parameters(models.model);
  graph::read_graph(graph::write_graph(graph));
  const std::int64_t sequence = models.model.architecture.default_sequence;
  // As traced; then much longer, where sizes that are refused may end it.
  for (const split::RunShape& shape : {split::RunShape{.micro_batch = 2, .sequence = sequence},
                                       split::RunShape{.micro_batch = 64, .sequence = sequence * (1 << 20)}}) {
    for (const Split& split : {Split{}, Split{.tp = 2}, Split{.tp = 2, .sp = true, .cp = 2}, Split{.ep = 2}}) {
      if (!split::refuse_split(models.model, shape, split).empty()) continue;
      for (const model::Model* model : {&models.model, &models.fused_model}) {
        for (const model::Layer& layer : model->kinds) split::localise(layer, shape, split, implementation);
        split::cut_bytes(*model, shape, split);
      }
    }
  }
}

}  // namespace nest
