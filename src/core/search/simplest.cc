#include "search/simplest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/index.h"
#include "groups/rank_groups.h"
#include "plan/strategy_text.h"
#include "search/even_cuts.h"
#include "search/kind.h"

namespace nest::search {
namespace {

bool has_idle_devices(const cost::Job& /*job*/, std::int64_t devices, const Plan& plan) {
  return plan.strategy.devices_used() < devices;
}

bool has_own_order(const cost::Job& /*job*/, std::int64_t /*devices*/, const Plan& plan) {
  return plan.strategy.dp_inner != plan.strategy.dp;
}

bool has_uneven_batch(const cost::Job& job, std::int64_t /*devices*/, const Plan& plan) {
  const Strategy& strategy = plan.strategy;
  if (job.run.global_batch % (strategy.micro_batch * strategy.dp) != 0) return true;
  return strategy.schedule == Schedule::interleaved && micro_batches(strategy, job.run.global_batch) % strategy.pp != 0;
}

bool has_unusual_schedule(const cost::Job& /*job*/, std::int64_t /*devices*/, const Plan& plan) {
  return plan.strategy.schedule != Schedule::one_f_one_b && plan.strategy.schedule != Schedule::interleaved;
}

bool has_host_tensors(const cost::Job& /*job*/, std::int64_t /*devices*/, const Plan& plan) {
  return plan.strategy.split.offload != 0;
}

bool has_different_stages(const cost::Job& /*job*/, std::int64_t /*devices*/, const Plan& plan) {
  const StagePlan& first = plan.stages.front();
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& stage) {
    return stage.recompute != first.recompute || stage.zero != first.zero || stage.zero_degree != first.zero_degree ||
           stage.zero_outer != first.zero_outer;
  });
}

bool has_uneven_cuts(const cost::Job& job, std::int64_t /*devices*/, const Plan& plan) {
  const std::vector<std::int64_t> even = even_cuts(job, plan.strategy.pp, plan.strategy.virtual_stages);
  if (even.empty()) return true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].last + 1 != even[s + 1]) return true;
  }
  return false;
}

bool has_shard_groups(const cost::Job& /*job*/, std::int64_t /*devices*/, const Plan& plan) {
  const std::int64_t all = groups::dense_replicas(plan.strategy);
  return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& stage) {
    return stage.zero > 0 && stage.zero_degree > 0 && stage.zero_degree < all;
  });
}

bool has_chunks(const cost::Job& /*job*/, std::int64_t /*devices*/, const Plan& plan) {
  return plan.strategy.schedule == Schedule::interleaved;
}

constexpr std::array kOddities = {
    Oddity{"idle devices", has_idle_devices, [](plan::PlanLimits& limits) { limits.all_devices = true; }},
    Oddity{"own rank order", has_own_order,
           [](plan::PlanLimits& limits) {
             limits.replicas_together = true;
             limits.pitch = false;
           }},
    Oddity{"uneven batch", has_uneven_batch,
           [](plan::PlanLimits& limits) { limits.uneven_batch = limits.any_rounds = false; }},
    Oddity{"unusual schedule", has_unusual_schedule,
           [](plan::PlanLimits& limits) {
             for (std::size_t k = 0; k < limits.schedule.size(); ++k) {
               const auto kind = static_cast<Schedule>(k);
               if (kind != Schedule::one_f_one_b && kind != Schedule::interleaved) limits.refuse(kind);
             }
             limits.more_schedules = false;
           }},
    Oddity{"activations on the host", has_host_tensors,
           [](plan::PlanLimits& limits) {
             limits.offload[1] = false;
             limits.offload_only.clear();
           }},
    Oddity{"different stages", has_different_stages, [](plan::PlanLimits& limits) { limits.uniform = true; }},
    Oddity{"uneven cuts", has_uneven_cuts, [](plan::PlanLimits& limits) { limits.even_cuts = true; }},
    Oddity{"groups that shard", has_shard_groups, [](plan::PlanLimits& limits) { limits.shard_in_node = false; }},
    Oddity{"interleaved chunks", has_chunks, [](plan::PlanLimits& limits) { limits.refuse(Schedule::interleaved); }},
};

class SimplestSearch {
 public:
  SimplestSearch(const PlanRequest& request, double tie, PlanAnswer& answer)
      : request_(request),
        tie_(tie),
        answer_(answer),
        devices_(device_limit(*request.job, request.most_devices)),
        odd_(oddities(request.search.objective)),
        best_(answer.plans.front()) {}

  void run() {
    const auto everything = static_cast<unsigned>((1U << odd_.size()) - 1);
    // Most often one search settles it, without anything odd or with chunks alone.
    if (std::popcount(oddities_of(best_)) > 1 && !take(everything)) take(everything >> 1);
    unsigned without = 0;
    for (unsigned k = 0; k < odd_.size(); ++k) {
      const unsigned next = without | 1U << k;
      if ((oddities_of(best_) & next) == 0 || take(next)) without = next;
    }
    finish();
  }

 private:
  bool has(const Oddity& oddity, const Plan& plan) const { return oddity.has(*request_.job, devices_, plan); }

  // Sets of oddities are bits, the most serious first.
  unsigned oddities_of(const Plan& plan) const {
    unsigned set = 0;
    for (unsigned k = 0; k < odd_.size(); ++k) set |= has(odd_[k], plan) ? 1U << k : 0;
    return set;
  }

  // Whether a plan without these oddities is within the tie; the best such plan is taken.
  bool take(unsigned without) {
    // Where no plan does without some of them, none does without more.
    if (std::any_of(needed_.begin(), needed_.end(), [&](unsigned set) { return (set & ~without) == 0; })) return false;
    if (search(without)) return true;
    needed_.push_back(without);
    return false;
  }

  bool search(unsigned without) {
    PlanRequest other = request_;
    for (unsigned k = 0; k < odd_.size(); ++k) {
      if ((without >> k & 1U) != 0) odd_[k].avoid(other.limits);
    }
    other.search.top = 1;
    other.search.progress = nullptr;
    other.search.first = false;  // nothing will do but a plan within the tie
    other.search.time_limit_s -= answer_.wall_s;
    other.search.known_score = answer_.lower_bound * (1 + tie_);
    PlanAnswer found;
    try {
      found = make_plan(other);
    } catch (const InputError&) {
      return false;  // no such plan at all
    }
    answer_.wall_s += found.wall_s;
    answer_.opened += found.opened;
    if (found.plans.empty()) return false;
    best_ = std::move(found.plans.front());
    return true;
  }

  void finish() {
    Plan& fastest = answer_.plans.front();
    SearchRecord record = *fastest.search;
    record.wall_s = answer_.wall_s;
    record.opened = answer_.opened;
    record.tie = tie_;
    record.fastest_s = fastest.prediction.iteration_s;
    if (best_.strategy == fastest.strategy && same_stages(best_, fastest)) {
      fastest.search = std::move(record);
      return;
    }
    record.fastest = plan::strategy_text(fastest.strategy);
    for (const Oddity& oddity : odd_) {
      if (!has(oddity, fastest) || has(oddity, best_)) continue;
      record.simpler += fmt::format("{}{}", record.simpler.empty() ? "" : ", ", oddity.name);
    }
    if (request_.search.objective == PlanObjective::device_hours) {
      record.lower_bound_s = answer_.lower_bound / real(best_.strategy.devices_spanned());
    }
    best_.search = std::move(record);
    if (request_.search.listing == Listing::kinds) {
      std::erase_if(answer_.plans, [&](const Plan& plan) { return same_kind(plan.strategy, best_.strategy); });
    }
    answer_.plans.insert(answer_.plans.begin(), std::move(best_));
    const auto most = at(std::max(1, request_.search.top));
    if (answer_.plans.size() > most) answer_.plans.resize(most);
  }

  static bool same_stages(const Plan& a, const Plan& b) {
    return std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
                      [](const StagePlan& x, const StagePlan& y) {
                        return x.last == y.last && x.zero == y.zero && x.zero_degree == y.zero_degree &&
                               x.zero_outer == y.zero_outer && x.recompute == y.recompute;
                      });
  }

  const PlanRequest& request_;
  double tie_;
  PlanAnswer& answer_;
  std::int64_t devices_;
  std::span<const Oddity> odd_;
  Plan best_;
  std::vector<unsigned> needed_;  // sets of which every plan within the tie has one
};

}  // namespace

std::span<const Oddity> oddities(PlanObjective objective) {
  const std::span<const Oddity> all = kOddities;
  return objective == PlanObjective::time ? all : all.subspan(1);
}

void prefer_simplest(const PlanRequest& request, double tie, PlanAnswer& answer) {
  if (tie <= 0 || answer.outcome != PlanOutcome::optimal || answer.plans.empty()) return;
  SimplestSearch(request, tie, answer).run();
}

}  // namespace nest::search
