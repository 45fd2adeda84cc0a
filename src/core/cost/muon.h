// Muon (momentum, orthogonalised by Newton–Schulz), as Megatron runs it: every matrix of a block by Muon; tables, the
// head, norms and biases by Adam.
//
// One matrix of m x n, m <= n, takes in five steps of X <- a X + (b A + c A A) X with A = X X^T
//     5 (4 m^2 n + 2 m^3) FLOPs
// in 16-bit products: 5.50 TFLOP for 4096 x 14336. Queries, keys and values are matrices of their own although one
// product computes them (muon_split_qkv); gate and up are one.
//
// Ranks that hold shards of a matrix (tp, etp) gather it and repeat the whole work (muon_tp_mode=duplicated); what they
// gather is not priced. Where the optimizer's state is sharded, whole matrices are dealt out to the data-parallel ranks
// (layer-wise distributed optimizer), the largest first, each to the rank with the least work; the busiest counts.
// Megatron deals out bucket by bucket, here all of a stage at once. Experts have ranks of their own. Memory is counted
// as if shares were equal.
#pragma once

#include <cstdint>
#include <vector>

#include "cost/job.h"
#include "split/local_layer.h"

namespace nest::cost {

double newton_schulz_flops(double rows, double columns);

struct Pieces {
  double size = 0;
  std::int64_t count = 0;
};
// Of the fullest of `ranks` bins when pieces, sorted from the largest on, go one by one into the emptiest.
double fullest_bin(const std::vector<Pieces>& pieces, std::int64_t ranks);

// Dense parameters on one device that are no matrices of a block.
double rest_parameters(const model::Layer& layer, const split::LocalLayer& local);

// The matrices of a model's layers under one split.
class MatrixTable {
 public:
  MatrixTable(const Job& job, const Split& split);

  // Newton–Schulz of layers first … last on the busiest of so many ranks.
  double seconds(int first, int last, std::int64_t dense_ranks, std::int64_t expert_ranks) const;
  double seconds(const std::vector<ChunkPlan>& runs, std::int64_t dense_ranks, std::int64_t expert_ranks) const;
  // Sum of rest_parameters().
  double rest_parameters(int first, int last) const;

 private:
  struct Kind {
    std::vector<std::int64_t> dense, expert;  // by index into sizes_: matrices of that many FLOPs
    double rest = 0;
  };
  std::vector<Pieces> pieces(const std::vector<std::int64_t>& layers_of_kind,
                             std::vector<std::int64_t> Kind::*counts) const;

  const std::vector<int>* layers_;
  std::vector<double> sizes_;  // FLOPs, falling
  std::vector<Kind> kinds_;
  double flops_per_s_ = 1;
};

}  // namespace nest::cost
