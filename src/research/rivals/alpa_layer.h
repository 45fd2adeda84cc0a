// One layer on a logical mesh, as the integer program of alpa_ilp.h.
//
// A tensor of rows (tokens) and columns (its width) lies along each axis of the mesh whole on every device, divided by
// rows, divided by columns, or (rows that go to experts) divided by experts. An operator chooses per axis how it works:
//     data            rows -> rows            per step the gradients of its weights are all-reduced
//     column          whole -> columns        weights divided by columns; backward all-reduces the input's gradient
//     gather_column   rows -> columns         the same from divided rows: all-gather, backward reduce-scatter
//     contraction     columns -> whole        weights divided by rows; all-reduce
//     scatter         columns -> rows         the same: reduce-scatter, backward all-gather
//     along           columns -> columns      attention by heads, losses by vocabulary, norms of heads
//     experts         experts -> experts      grouped products: whole experts on every device
//     replicate       whole -> whole          work not divided; for products only where nothing else is possible
// Between operators a tensor that lies differently is resharded: all-gather, all-to-all, or nothing (a slice), and the
// same way back for its gradient. Cheap operators (activations, rotations, copies, routing) follow the one before them,
// as Alpa merges them. The layer's output must lie as its input does, or pays for it. Columns are divided where the
// model says that they can be (Axis of model/graph.h); rows of products by whole sequences, of norms and sums by
// tokens.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cost/job.h"
#include "rivals/alpa_ilp.h"
#include "rivals/alpa_mesh.h"

namespace nest::rivals {

// What products do along an axis: whatever is cheapest, or data or tensor parallelism wherever that is possible.
enum class AxisRule : std::uint8_t { open, data, tensor };
using AxisRules = std::array<AxisRule, 2>;

// Floating-point operations of one sequence, forward and backward, by how they are divided along one axis.
struct AxisWork {
  double data = 0, tensor = 0, replicated = 0;                  // of dense operators
  double expert_data = 0, expert_tensor = 0, expert_whole = 0;  // of grouped products; the last: divided by experts

  void add(const AxisWork& other, double times);
};

struct MeshedLayer {
  double cost_s = 0;  // of one micro-batch: the program's value
  std::array<AxisWork, 2> work;
};

struct MeshAnswer {
  std::optional<MeshedLayer> layer;  // nothing: no solution was found
  bool proven = false;               // that the solution is optimal, or that there is none
};

// `kind` is an index into Model::kinds; a micro-batch has `sequences` over all devices of the mesh.
MeshAnswer mesh_layer(const cost::Job& job, int kind, const LogicalMesh& mesh, std::int64_t sequences,
                      const AxisRules& rules, double time_limit_s);

}  // namespace nest::rivals
