// What crosses the cuts of a pipeline.
#include "base/index.h"
#include "model/linearise.h"
#include "split/local_layer.h"

namespace nest::split {
namespace {

// Rows of a tensor that flows between layers, before anything is divided.
double edge_rows(const model::Edge& edge, const RunShape& shape, std::int64_t sequence) {
  const auto samples = real(shape.micro_batch);
  const auto length = real(sequence);
  switch (edge.rows) {
    case model::Rows::tokens:
    case model::Rows::memory:
    case model::Rows::routed: return samples * length * edge.rows_per_unit;
    case model::Rows::pairs: return samples * length * length * edge.rows_per_unit;
    case model::Rows::squared: return length * length * edge.rows_per_unit;
    case model::Rows::positions: return length * edge.rows_per_unit;
    case model::Rows::samples: return samples * edge.rows_per_unit;
    case model::Rows::single: return edge.rows_per_unit;
  }
  return 0;
}

bool divisible(const model::Edge& edge) {
  return edge.rows != model::Rows::single && edge.rows != model::Rows::samples;
}

}  // namespace

std::vector<double> cut_bytes(const model::Model& model, const RunShape& shape, const Split& split) {
  const auto crossing = model::crossing_edges(static_cast<int>(model.layers.size()), model.edges);
  const double ranks = real(split.cp) * (split.sp ? real(split.tp) : 1.0);
  std::vector<double> bytes;
  for (const auto& edges : crossing) {
    double sum = 0;
    for (const int e : edges) {
      const model::Edge& edge = model.edges[at(e)];
      const model::Layer& producer = model.layer(edge.from);
      const bool own_length = producer.encoder && shape.encoder_sequence > 0;
      const double rows = edge_rows(edge, shape, own_length ? shape.encoder_sequence : shape.sequence);
      sum += rows * real(edge.width) * edge.element_bytes / (divisible(edge) ? ranks : 1.0);
    }
    bytes.push_back(sum);
  }
  return bytes;
}

}  // namespace nest::split
