#include "small_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/checked.h"
#include "cost/group_time.h"

namespace nest::test {
namespace {

std::int64_t pick(std::mt19937& random, std::initializer_list<std::int64_t> values) {
  return values.begin()[random() % values.size()];
}

Cluster small_cluster(std::mt19937& random) {
  Cluster cluster;
  cluster.name = "small";
  cluster.device = find_device(random() % 2 == 0 ? "h100" : "a100-40").value();
  const std::int64_t node = pick(random, {1, 2, 2, 3, 4}), nodes = pick(random, {1, 2, 2, 3});
  cluster.devices = node * nodes;
  const bool rails = random() % 2 == 0;
  cluster.levels.push_back({"node", node, {}, 300e9, 3e-6, 1, 0.8, false, false});
  if (nodes > 1) {
    const double port = std::array{2e9, 12.5e9, 50e9}[random() % 3];
    cluster.levels.push_back({"pod", nodes, {}, port, 8e-6, 1, 0.7, rails, false});
  }
  cluster.fabric = make_fabric(cluster.levels, cluster.devices);
  return cluster;
}

struct Looked {
  const SmallCase* small;
  Exhaustive result;

  void price(const Strategy& strategy, const std::vector<StagePlan>& stages) {
    if (!refuse_strategy(small->job, strategy, stages).empty()) return;
    const Evaluation evaluation = evaluate(small->job, strategy, stages);
    ++result.plans;
    if (!evaluation.fits) return;
    const double time = evaluation.prediction.iteration_s;
    result.best_s = std::min(result.best_s, time);
    result.best_device_s = std::min(result.best_device_s, time * static_cast<double>(strategy.devices_spanned()));
  }

  // All options of stage s, then the next stage.
  void options(const Strategy& strategy, std::vector<StagePlan>& stages, std::size_t s,
               const std::vector<std::int64_t>& degrees) {
    if (s == stages.size()) {
      price(strategy, stages);
      return;
    }
    const PlanLimits& limits = small->limits;
    for (int recompute = 0; recompute < 3; ++recompute) {
      if (!limits.recompute[static_cast<std::size_t>(recompute)]) continue;
      for (int zero = 0; zero < 4; ++zero) {
        if (!limits.zero[static_cast<std::size_t>(zero)]) continue;
        for (const std::int64_t degree : degrees) {
          if (zero == 0 && degree != 0) continue;
          stages[s].recompute = static_cast<Recompute>(recompute);
          stages[s].zero = zero;
          stages[s].zero_degree = degree;
          if (limits.uniform && s > 0 &&
              (stages[s].zero != stages[0].zero || stages[s].recompute != stages[0].recompute ||
               stages[s].zero_degree != stages[0].zero_degree)) {
            continue;
          }
          options(strategy, stages, s + 1, degrees);
        }
      }
    }
  }

  // All cuts of the layers from `first` on into the stages from s on.
  void cuts(const Strategy& strategy, std::vector<StagePlan>& stages, int first, std::size_t s,
            const std::vector<std::int64_t>& degrees) {
    const int n = static_cast<int>(small->job.model.layers.size());
    if (s + 1 == stages.size()) {
      stages[s].first = first;
      stages[s].last = n - 1;
      if (first < n) options(strategy, stages, 0, degrees);
      return;
    }
    for (int last = first; last + 1 < n; ++last) {
      stages[s].first = first;
      stages[s].last = last;
      cuts(strategy, stages, last + 1, s + 1, degrees);
    }
  }
};

// The node's part of the data-parallel group, found by looking at devices one by one.
std::vector<std::int64_t> sharding_degrees(const Job& job, const PlanLimits& limits, const Strategy& strategy) {
  std::vector<std::int64_t> degrees{0};
  if (!limits.shard_in_node || job.cluster.fabric.levels < 2) return degrees;
  const std::int64_t all = strategy.dp * strategy.split.cp * strategy.split.ep;
  for (std::int64_t degree = all - 1; degree > 1; --degree) {
    if (all % degree != 0 || !can_shard(strategy, degree)) continue;
    bool inside = true;
    for (std::int64_t k = 0; k < degree; ++k) {
      const std::int64_t per_replica = strategy.split.cp * strategy.split.ep;
      const std::int64_t device = device_of(strategy, k / per_replica, 0, k % per_replica * strategy.split.tp);
      inside = inside && device + strategy.split.tp <= job.cluster.fabric.unit[1];
    }
    if (!inside) continue;
    degrees.push_back(degree);
    break;
  }
  return degrees;
}

}  // namespace

SmallCase small_case(std::uint32_t seed) {
  std::mt19937 random(seed);
  SmallCase small;
  const bool mixture = random() % 4 == 0;
  Architecture model = find_model_preset(mixture             ? "mixtral-790m"
                                         : random() % 3 == 0 ? "bert-large"
                                                             : "llama3-8b")
                           .value();
  model.towers.front().blocks.resize(1 + random() % 3);
  Run run;
  run.global_batch = pick(random, {4, 6, 8, 12});
  run.sequence = pick(random, {256, 512});
  const auto stacks = stack_presets();
  const SoftwareStack& stack = random() % 2 == 0 ? stacks.front() : stacks[random() % stacks.size()];
  run.stack = stack.name;
  Cluster cluster = small_cluster(random);
  small.job = make_job(model, run, stack, ComputePrecision::bf16, Optimizer::adam, cluster);
  PlanLimits& limits = small.limits;
  limits.micro_batch.only = {1, 2};
  limits.micro_batch.high = 2;
  limits.pp.high = 3;
  limits.tp.only = {1, 2};
  limits.tp.high = 2;
  limits.cp.high = random() % 3 == 0 ? 2 : 1;
  limits.vpp.only = {1, 2};
  for (std::size_t r = 0; r < 3; ++r) limits.recompute[r] = r == random() % 3 || random() % 3 == 0;
  for (std::size_t z = 0; z < 4; ++z) limits.zero[z] = z == 1 || random() % 3 == 0;
  if (!limits.recompute[0] && !limits.recompute[1] && !limits.recompute[2]) limits.recompute[0] = true;
  limits.uniform = random() % 4 == 0;
  limits.pitch = random() % 3 != 0;
  limits.uneven_batch = random() % 3 == 0;
  limits.any_rounds = random() % 2 == 0;
  // Between "nothing fits" and "everything fits".
  const double scale = std::array{1.0, 0.5, 0.25, 0.12}[random() % 4];
  small.job.cluster.device.memory_bytes =
      static_cast<std::int64_t>(scale * static_cast<double>(small.job.cluster.device.memory_bytes));
  small.text = fmt::format("seed {}: {} x {} layers, {} devices, batch {}, stack {}", seed, model.name,
                           small.job.model.layers.size(), cluster.devices, run.global_batch, run.stack);
  return small;
}

Exhaustive try_everything(const SmallCase& small) {
  const PlanLimits& limits = small.limits;
  const Job& job = small.job;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Looked looked{&small, {kInfinity, kInfinity, 0}};
  const std::int64_t devices = job.cluster.devices, batch = job.run.global_batch;
  const auto n = static_cast<std::int64_t>(job.model.layers.size());
  std::int64_t blocks_in_a_row = 0, blocks = 0;
  for (std::size_t i = 0; i < job.model.layers.size(); ++i) {
    const bool block = job.model.kinds[static_cast<std::size_t>(job.model.layers[i])].kind == LayerKind::block;
    blocks += block;
    if (block && (i == 0 || job.model.layers[i] != job.model.layers[i - 1])) ++blocks_in_a_row;
  }
  for (std::int64_t tp = 1; tp <= devices; ++tp) {
    for (std::int64_t cp = 1; tp * cp <= devices; cp *= 2) {
      for (std::int64_t ep = 1; tp * cp * ep <= devices; ++ep) {
        for (int sp = 0; sp < 2; ++sp) {
          for (const std::int64_t etp : {std::int64_t{0}, std::int64_t{1}}) {
            if (!limits.tp.admits(tp) || !limits.cp.admits(cp) || (sp == 1 && tp == 1)) continue;
            const bool experts =
                job.model.kinds.size() > 2 && job.model.architecture.name.find("ixtral") != std::string::npos;
            if ((etp == 1 && (tp == 1 || !experts)) || (ep > 1 && !experts)) continue;
            const Split split{tp, sp == 1, cp, ep, etp};
            for (const std::int64_t size : limits.micro_batch.only) {
              for (std::int64_t pp = 1; pp <= std::min(n, limits.pp.high); ++pp) {
                for (const std::int64_t v : limits.vpp.only) {
                  if (v > 1 && (pp == 1 || pp * v > n || blocks_in_a_row != 1 || blocks == 0)) continue;
                  for (std::int64_t dp = 1; dp * pp * tp * cp * ep <= devices; ++dp) {
                    const std::int64_t round = size * dp * ep;
                    if (round > batch || (!limits.uneven_batch && batch % round != 0)) continue;
                    if (v > 1 && !limits.any_rounds && ceil_div(batch, round) % pp != 0) continue;
                    for (std::int64_t inner = 1; inner <= dp; ++inner) {
                      if (dp % inner != 0) continue;
                      Strategy strategy;
                      strategy.split = split;
                      strategy.pp = pp;
                      strategy.dp = dp;
                      strategy.dp_inner = inner;
                      strategy.micro_batch = size;
                      strategy.virtual_stages = v;
                      strategy.schedule = v > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
                      std::vector<std::int64_t> pitches{0};
                      if (limits.pitch && dp > inner && job.cluster.fabric.levels > 1) {
                        pitches.push_back(round_up(strategy.pipeline_block(), job.cluster.fabric.unit[1]));
                      }
                      for (const std::int64_t pitch : pitches) {
                        strategy.pitch = pitch;
                        std::vector<StagePlan> stages(static_cast<std::size_t>(pp));
                        looked.cuts(strategy, stages, 0, 0, sharding_degrees(job, limits, strategy));
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return looked.result;
}

}  // namespace nest::test
