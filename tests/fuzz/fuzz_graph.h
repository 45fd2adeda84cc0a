// What is done with a graph, whoever read it.
#pragma once

#include "graph/graph_model.h"
#include "graph/read_graph.h"
#include "model/count.h"
#include "split/local_layer.h"

namespace nest {

inline void use_graph(const RawGraph& graph) {
  const Implementation implementation{.stack = Stack::plain};
  const GraphModels models = build_graph_models(graph, implementation);
  count_parameters(models.model);
  read_graph(write_graph(graph));
  const std::int64_t sequence = models.model.architecture.default_sequence;
  // As traced; then much longer, where sizes that are refused may end it.
  for (const RunShape& shape : {RunShape{.micro_batch = 2, .sequence = sequence},
                                RunShape{.micro_batch = 64, .sequence = sequence * (1 << 20)}}) {
    for (const Split& split : {Split{}, Split{.tp = 2}, Split{.tp = 2, .sp = true, .cp = 2}, Split{.ep = 2}}) {
      if (!refuse_split(models.model, shape, split).empty()) continue;
      for (const Model* model : {&models.model, &models.fused_model}) {
        for (const Layer& layer : model->kinds) localise(layer, shape, split, implementation);
        cut_bytes(*model, shape, split);
      }
    }
  }
}

}  // namespace nest
