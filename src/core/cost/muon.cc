#include "cost/muon.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "base/index.h"
#include "cost/rates.h"

namespace nest::cost {
namespace {

constexpr double kNewtonSchulzSteps = 5;  // muon_num_ns_steps

bool is_block_matrix(const model::Layer& layer, const split::LocalOperator& op) {
  return layer.kind == model::LayerKind::block && op.source->product.batches == 0 &&
         (op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul);
}

// FLOPs of the matrices of one product whose sizes are whole: columns n, contraction k.
std::vector<double> matrices_of(const split::LocalOperator& op) {
  const auto n = real(op.n), k = real(op.k);
  std::vector<double> flops;
  const bool attention = std::any_of(op.source->weights.begin(), op.source->weights.end(), [](const auto& weight) {
    return weight.name.find("attention.") != std::string::npos;
  });
  if (attention) {  // one per weight with an input side
    for (const model::Weight& weight : op.source->weights) {
      const double rows = real(model::elements(weight)) / k;
      if (!weight.frozen && weight.shape.size() > 1 && rows >= 1 && real(model::elements(weight)) > n) {
        flops.push_back(newton_schulz_flops(rows, k));
      }
    }
  }
  if (flops.size() < 2 && op.frozen_parameters == 0) flops = {newton_schulz_flops(n, k)};
  return flops;
}

}  // namespace

double newton_schulz_flops(double rows, double columns) {
  const double m = std::min(rows, columns), n = std::max(rows, columns);
  return kNewtonSchulzSteps * (4 * m * m * n + 2 * m * m * m);
}

double fullest_bin(const std::vector<Pieces>& pieces, std::int64_t ranks) {
  std::int64_t all = 0;
  double largest = 0, sum = 0;
  for (const Pieces& piece : pieces) {
    all += piece.count;
    if (piece.count > 0) largest = std::max(largest, piece.size);
    sum += piece.size * real(piece.count);
  }
  if (all <= ranks) return largest;
  if (ranks <= 1) return sum;
  std::priority_queue<double, std::vector<double>, std::greater<>> bins(std::greater<>(),
                                                                        std::vector<double>(at(ranks), 0.0));
  double fullest = 0;
  double everywhere = 0;  // in every bin, beside what the queue says
  for (const Pieces& piece : pieces) {
    std::int64_t left = piece.count;
    while (left > 0) {
      // Bins no farther apart than a piece get one each before any gets a second.
      if (left >= ranks && fullest - bins.top() <= piece.size) {
        everywhere += piece.size * real(left / ranks);
        left %= ranks;
        continue;
      }
      const double filled = bins.top() + piece.size;
      bins.pop();
      bins.push(filled);
      fullest = std::max(fullest, filled);
      --left;
    }
  }
  return everywhere + fullest;
}

double rest_parameters(const model::Layer& layer, const split::LocalLayer& local) {
  double rest = 0;
  for (const split::LocalOperator& op : local.operators) {
    if (op.expert_weights) continue;
    const double matrix = is_block_matrix(layer, op) ? std::min(real(op.n) * real(op.k), real(op.parameters)) : 0;
    rest += real(op.parameters - op.frozen_parameters) - op.weight_gradient * matrix;
  }
  return rest;
}

MatrixTable::MatrixTable(const Job& job, const Split& split) : layers_(&job.model.layers) {
  const split::RunShape shape{1, job.run.sequence, job.run.encoder_sequence, 1.0};
  const model::Implementation implementation = implementation_of(job);
  Split whole;  // every matrix, of the experts that are here
  whole.ep = split.ep;
  std::vector<std::vector<double>> dense, expert;
  for (const model::Layer& layer : job.model.kinds) {
    kinds_.emplace_back().rest = cost::rest_parameters(layer, split::localise(layer, shape, split, implementation));
    std::vector<double>& dense_flops = dense.emplace_back();
    std::vector<double>& expert_flops = expert.emplace_back();
    const split::LocalLayer local = split::localise(layer, shape, whole, implementation);
    for (const split::LocalOperator& op : local.operators) {
      if (!is_block_matrix(layer, op) || op.parameters == op.frozen_parameters) continue;
      if (op.expert_weights) {
        expert_flops.insert(expert_flops.end(), at(std::max<std::int64_t>(1, op.groups)),
                            newton_schulz_flops(real(op.n), real(op.k)));
      } else {
        for (const double flops : matrices_of(op)) dense_flops.push_back(flops);
      }
    }
  }
  for (const auto* lists : {&dense, &expert}) {
    for (const std::vector<double>& flops : *lists) sizes_.insert(sizes_.end(), flops.begin(), flops.end());
  }
  std::sort(sizes_.begin(), sizes_.end(), std::greater<>());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
  const auto count = [&](const std::vector<double>& flops) {
    std::vector<std::int64_t> counts(sizes_.size(), 0);
    for (const double size : flops) {
      ++counts[at(std::lower_bound(sizes_.begin(), sizes_.end(), size, std::greater<>()) - sizes_.begin())];
    }
    return counts;
  };
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    kinds_[kind].dense = count(dense[kind]);
    kinds_[kind].expert = count(expert[kind]);
  }
  flops_per_s_ = sustained_rates(job.cluster.device, job.run.precision, job.stack).matrix16_flops_per_s;
}

std::vector<Pieces> MatrixTable::pieces(const std::vector<std::int64_t>& layers_of_kind,
                                        std::vector<std::int64_t> Kind::*counts) const {
  std::vector<Pieces> all;
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    std::int64_t count = 0;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
      count += layers_of_kind[kind] * (kinds_[kind].*counts)[size];
    if (count > 0) all.push_back({sizes_[size], count});
  }
  return all;
}

double MatrixTable::seconds(int first, int last, std::int64_t dense_ranks, std::int64_t expert_ranks) const {
  ChunkPlan run;
  run.first = first;
  run.last = last;
  return seconds({run}, dense_ranks, expert_ranks);
}

double MatrixTable::seconds(const std::vector<ChunkPlan>& runs, std::int64_t dense_ranks,
                            std::int64_t expert_ranks) const {
  std::vector<std::int64_t> layers_of_kind(kinds_.size(), 0);
  for (const ChunkPlan& run : runs) {
    for (int i = run.first; i <= run.last; ++i) ++layers_of_kind[at((*layers_)[at(i)])];
  }
  return (fullest_bin(pieces(layers_of_kind, &Kind::dense), dense_ranks) +
          fullest_bin(pieces(layers_of_kind, &Kind::expert), expert_ranks)) /
         flops_per_s_;
}

double MatrixTable::rest_parameters(int first, int last) const {
  double rest = 0;
  for (int i = first; i <= last; ++i) rest += kinds_[at((*layers_)[at(i)])].rest;
  return rest;
}

}  // namespace nest::cost
