// Alpa (Zheng et al., "Alpa: Automating Inter- and Intra-Operator Parallelism for Distributed Deep Learning", OSDI
// 2022): the devices are a mesh of nodes; a dynamic program gives every stage of one pipeline layers and a submesh, and
// an integer program decides for the operators of a stage how each is divided on its submesh.
//
// Here:
//   submeshes     a part of a node that divides it, or whole nodes. Our plans have one split for all stages, so all
//                 submeshes are equal: as many stages as there are submeshes of a size (fewer only where nothing else
//                 fits). The stages are the pipeline's; data parallelism is what happens inside a submesh.
//   views         every logical mesh x * y of a submesh (alpa_mesh.h)
//   operators     the integer program of every kind of layer on every view (alpa_layer.h), once per kind, view and
//                 micro-batch. A plan has one (dp, tp, ep) for all operators: each axis of the view becomes what most
//                 of the floating-point operations chose along it, data, tensor or expert parallelism; a view most of
//                 whose work is replicated along an axis is dropped. Tensor-parallel ranks are neighbours whichever
//                 axis they were found on. Norms divided by rows are sp; with and without is tried.
//   stages        priced as Alpa profiles them: seconds and memory of a stage alone, messages between stages left out.
//                 Stages that do not fit are repaired by recomputation and by sharding optimizer, gradients and
//                 weights over their data-parallel ranks, the cheapest that fits (Alpa rewrites all-reduces so).
//   layers        are first joined to l groups of about equal time, and cut between groups only; l = 8, 16, 32, 64, 128
//                 and all layers are tried, and so is every number of micro-batches: the publication leaves both to the
//                 user. For each its best plan is priced on the real network, and the fastest kept.
//   limits        one integer program may take 10 s; the best solution found by then is taken. Of a time limit 80 % are
//                 for integer programs, the rest for stages. Either kind of stop is told.
#pragma once

#include "rivals/rival.h"

namespace nest::rivals {

// Needs a solver (alpa_ilp.h).
RivalAnswer plan_alpa(const RivalRequest& request);

}  // namespace nest::rivals
