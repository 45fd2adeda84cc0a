// What must not change, or only in one direction, when a problem is changed in a known way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "cost/constants.h"
#include "cost/eager_time.h"
#include "cost/profile.h"
#include "model/presets.h"
#include "problem.h"
#include "problem_text.h"
#include "schedule/rules.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

using test::Dice;
using test::Problem;

constexpr double kSame = 1e-12, kNotWorse = 1e-9;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr double kWithPresets = 0.1;  // of test::scale()

std::uint32_t scaled(std::uint32_t count) { return test::scaled(count, 24); }

Problem preset_problem(const char* model, const char* cluster, std::int64_t devices, std::int64_t batch) {
  Problem problem;
  Run run;
  run.global_batch = batch;
  run.sequence = 2048;
  problem.job = cost::make_job(model::find_model_preset(model).value(), run, cost::find_stack("megatron-core").value(),
                               cluster::find_cluster(cluster, devices).value());
  return problem;
}

const std::vector<Problem>& presets() {
  static const std::vector<Problem> kProblems = {
      preset_problem("llama3-8b", "dgx-h100", 16, 64), preset_problem("mixtral-8x7b", "dgx-h100", 16, 32),
      preset_problem("t5-11b", "dgx-a100", 16, 32), preset_problem("gemma2-9b", "tpuv4-torus", 16, 32)};
  return kProblems;
}

// A search in which something fits.
struct Subject {
  Problem problem;
  PlanAnswer answer;
};

double score_of(const Problem& problem, const Plan& plan) {
  const double time = plan.prediction.iteration_s;
  if (problem.objective == PlanObjective::time) return time;
  return time * static_cast<double>(plan.strategy.devices_spanned());
}

double best_score(const Problem& problem, const PlanAnswer& answer) {
  return answer.plans.empty() ? kInfinity : score_of(problem, answer.plans.front());
}

PlanAnswer solve(const Problem& problem) { return make_plan(problem.request()); }

void for_subjects(std::uint32_t first_seed, std::uint32_t count, const std::function<void(const Subject&)>& visit) {
  int visited = 0;
  const auto look = [&](const Problem& problem) {
    SCOPED_TRACE(problem.seed > 0 ? test::problem_text(problem) : problem.job.model.architecture.name);
    try {
      Subject subject{problem, solve(problem)};
      if (subject.answer.plans.empty()) return;
      ++visited;
      visit(subject);
    } catch (const InputError&) {
      return;  // the limits admit nothing
    }
  };
  for (std::uint32_t seed = first_seed; seed < first_seed + scaled(count); ++seed) {
    look(test::random_problem(seed));
    if (testing::Test::HasFailure()) return;
  }
  // Real models take long under sanitizers, where the random ones do.
  if (test::scale() >= kWithPresets) {
    for (const Problem& problem : presets()) look(problem);
  }
  EXPECT_GT(visited, static_cast<int>(scaled(count)) / 2);
}

void expect_same_plan(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.strategy, b.strategy);
  EXPECT_NEAR(a.prediction.iteration_s / b.prediction.iteration_s, 1, kSame);
  EXPECT_EQ(test::strategy_line(a.strategy, a.stages), test::strategy_line(b.strategy, b.stages));
}

void expect_same_plans(const PlanAnswer& a, const PlanAnswer& b) {
  EXPECT_EQ(a.outcome, b.outcome);
  ASSERT_EQ(a.plans.size(), b.plans.size());
  for (std::size_t k = 0; k < a.plans.size(); ++k) expect_same_plan(a.plans[k], b.plans[k]);
}

void expect_not_worse(const Subject& subject, const Problem& changed, const std::string& what) {
  const double before = best_score(subject.problem, subject.answer);
  EXPECT_LE(best_score(changed, solve(changed)), before * (1 + kNotWorse))
      << what << "\n before: " << test::strategy_line(subject.answer.plans[0].strategy, subject.answer.plans[0].stages);
}

TEST(Metamorphic, NamesDoNotMatter) {
  for_subjects(100'001, 120, [](const Subject& subject) {
    Problem renamed = subject.problem;
    rename(renamed);
    expect_same_plans(solve(renamed), subject.answer);
  });
}

TEST(Metamorphic, NumbersOfKindsDoNotMatter) {
  for_subjects(101'001, 120, [](const Subject& subject) {
    Problem numbered = subject.problem;
    cost::Job& job = numbered.job;
    Dice dice(numbered.seed + 7);
    std::vector<int> place(job.model.kinds.size());  // new number of every kind
    std::iota(place.begin(), place.end(), 0);
    for (std::size_t k = place.size(); k > 1; --k) std::swap(place[k - 1], place[dice.below(k)]);
    ASSERT_EQ(job.model.kinds.size(), job.fused_model.kinds.size());
    for (model::Model* model : {&job.model, &job.fused_model}) {
      const std::vector<model::Layer> kinds = model->kinds;
      for (std::size_t k = 0; k < kinds.size(); ++k) model->kinds[static_cast<std::size_t>(place[k])] = kinds[k];
      for (int& kind : model->layers) kind = place[static_cast<std::size_t>(kind)];
    }
    expect_same_plans(solve(numbered), subject.answer);
  });
}

TEST(Metamorphic, OrderOfListedValuesDoesNotMatter) {
  for_subjects(102'001, 80, [](const Subject& subject) {
    Problem listed = subject.problem;
    for (plan::Limit plan::PlanLimits::*field :
         {&plan::PlanLimits::tp, &plan::PlanLimits::cp, &plan::PlanLimits::pp, &plan::PlanLimits::dp,
          &plan::PlanLimits::dp_inner, &plan::PlanLimits::vpp, &plan::PlanLimits::micro_batch}) {
      std::reverse((listed.limits.*field).only.begin(), (listed.limits.*field).only.end());
    }
    expect_same_plans(solve(listed), subject.answer);
  });
}

// Everything k times slower. What a step costs beside its work (kStep_s) is a constant, so it is subtracted; layers are
// measured, because some of their host constants are constants too, and so are gradients of the head that wait and
// selective recomputation, which are left out.
TEST(Metamorphic, TimesScale) {
  int compared = 0;
  for (std::uint32_t seed = 103'001; seed < 103'001 + scaled(150); ++seed) {
    Problem problem = test::random_problem(seed);
    SCOPED_TRACE(test::problem_text(problem));
    cost::Job& job = problem.job;
    if (!job.run.freeze.empty() || !job.run.lora.empty()) continue;  // no profile is of layers that are frozen
    if (cost::runs_as_written(job.stack)) continue;  // casts of small tensors take a time of their own in every step
    problem.objective = PlanObjective::time;
    job.stack.defer_head_gradient = false;
    problem.limits.recompute = {true, false, true};
    job.run.optimizer_offload = 0;  // the host stays as fast as it is
    problem.limits.offload = {true, false};
    problem.limits.offload_only.clear();
    problem.limits.cp_comm = {true, false, false, false};  // profiles know the ring
    // Nor is the share of weight gradients measured.
    problem.limits.more_schedules = false;
    for (const schedule::Rule& rule : schedule::rules()) {
      if (rule.is_split()) problem.limits.refuse(rule.kind);
    }
    const double factor = 4;
    try {
      cost::MeasuredProfile profile = test::own_profile(job, problem.limits, problem.devices());
      for (cost::MeasuredLayer& layer : profile.layers) layer.saved_bytes.reset();
      job.profile = std::make_shared<cost::MeasuredProfile>(profile);
      const PlanAnswer fast = solve(problem);
      for (cost::MeasuredLayer& layer : profile.layers) {
        layer.forward_s *= factor;
        layer.backward_s *= factor;
      }
      job.profile = std::make_shared<cost::MeasuredProfile>(profile);
      cluster::Cluster& cluster = job.cluster;
      for (double& peak : cluster.device.peak_flops_per_s) peak /= factor;
      cluster.device.memory_bytes_per_s /= factor;
      for (cluster::Level& level : cluster.levels) {
        level.bandwidth_bytes_per_s /= factor;
        level.latency_s *= factor;
      }
      if (cluster.torus) {
        cluster.torus->link_bytes_per_s /= factor;
        cluster.torus->latency_s *= factor;
      } else {
        const double overhead = cluster.fabric.message_overhead_s;
        cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
        cluster.fabric.message_overhead_s = overhead * factor;
      }
      const PlanAnswer slow = solve(problem);
      ASSERT_EQ(fast.plans.size(), slow.plans.size());
      for (std::size_t k = 0; k < fast.plans.size(); ++k) {
        const double before = fast.plans[k].prediction.iteration_s - cost::constants::kStep_s;
        const double after = slow.plans[k].prediction.iteration_s - cost::constants::kStep_s;
        ASSERT_NEAR(after / before, factor, factor * kNotWorse);
        ++compared;
      }
    } catch (const InputError&) {
      continue;
    }
  }
  EXPECT_GT(compared, static_cast<int>(scaled(150)) / 2);
}

TEST(Metamorphic, MemoryThatNobodyNeedsDoesNotMatter) {
  for_subjects(104'001, 120, [](const Subject& subject) {
    Problem more = subject.problem;
    more.job.cluster.device.memory_bytes = more.job.cluster.device.memory_bytes * 5 / 4;
    expect_not_worse(subject, more, "a quarter more memory");
    // Exactly what the best plan needs is enough for it.
    Problem just = subject.problem;
    just.top = 1;
    const Plan& best = subject.answer.plans.front();
    just.job.cluster.device.memory_bytes = best.stages[best.fullest_stage()].memory.needed;
    expect_same_plan(solve(just).plans.front(), best);
    // Beyond what any plan needs, memory changes nothing.
    Problem much = subject.problem;
    much.job.cluster.device.memory_bytes = std::int64_t{1} << 50;
    const PlanAnswer plenty = solve(much);
    much.job.cluster.device.memory_bytes *= 2;
    expect_same_plans(solve(much), plenty);
  });
}

// Prices of a split are those of the worst of its groups on the whole cluster. Groups that do not divide the units
// would lie differently in the larger one, so all sizes are powers of two here.
TEST(Metamorphic, AnUnusedNodeDoesNotMatter) {
  const auto power_of_two = [](std::int64_t value) { return (value & (value - 1)) == 0; };
  int compared = 0;
  for_subjects(105'001, 300, [&](const Subject& subject) {
    Problem larger = subject.problem;
    cluster::Cluster& cluster = larger.job.cluster;
    if (cluster.torus || !cluster.fabric.regular || cluster.levels.size() < 2) return;
    const Split& split = subject.answer.plans.front().strategy.split;
    for (const std::int64_t size : {split.tp, split.cp, split.ep, split.expert_tp()}) {
      if (!power_of_two(size)) return;
    }
    for (const cluster::Level& level : cluster.levels) {
      if (!power_of_two(level.group)) return;
    }
    ++compared;
    std::int64_t full = 1;
    for (const cluster::Level& level : cluster.levels) full *= level.group;
    if (full != cluster.devices) return;
    larger.most_devices = larger.devices();
    cluster.devices += cluster.devices / cluster.levels.back().group;
    ++cluster.levels.back().group;
    const double overhead = cluster.fabric.message_overhead_s;
    cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
    cluster.fabric.message_overhead_s = overhead;
    expect_not_worse(subject, larger, "one more unit of the outermost level");
  });
  EXPECT_GT(compared, static_cast<int>(scaled(300)) / 12);
}

// A plan is not slower on a faster network, and so the best is not. Collectives are priced as lines of the algorithm
// that is best for one large exchange; a faster network may make that another one, with a longer latency, so that many
// small exchanges become a little slower.
TEST(Metamorphic, AFasterNetworkIsNotWorse) {
  constexpr double kOtherAlgorithm = 0.01;
  for_subjects(106'001, 120, [](const Subject& subject) {
    Problem faster = subject.problem;
    cluster::Cluster& cluster = faster.job.cluster;
    const Plan& best = subject.answer.plans.front();
    std::vector<StagePlan> stages = best.stages;
    const auto compare = [&](const std::string& what) {
      const Plan same = cost::evaluate(faster.job, best.strategy, stages);
      EXPECT_LE(score_of(faster, same), score_of(faster, best) * (1 + kOtherAlgorithm)) << what;
      EXPECT_LE(best_score(faster, solve(faster)), score_of(faster, same) * (1 + kNotWorse)) << what;
    };
    if (cluster.torus) {
      cluster.torus->link_bytes_per_s *= 2;
      compare("links of twice the bandwidth");
      cluster.torus->latency_s /= 2;
      compare("and half the latency");
      return;
    }
    for (std::size_t l = 0; l < cluster.levels.size(); ++l) {
      const cluster::Level level = cluster.levels[l];
      const double overhead = cluster.fabric.message_overhead_s;
      const auto rebuild = [&] {
        cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
        cluster.fabric.message_overhead_s = overhead;
      };
      cluster.levels[l].bandwidth_bytes_per_s *= 2;
      rebuild();
      compare(fmt::format("level {}: twice the bandwidth", l));
      cluster.levels[l] = level;
      cluster.levels[l].latency_s = std::max(l > 0 ? cluster.levels[l - 1].latency_s : 0, level.latency_s / 2);
      rebuild();
      compare(fmt::format("level {}: half the latency", l));
      cluster.levels[l] = level;
    }
  });
}

TEST(Metamorphic, WiderLimitsAreNotWorse) {
  for_subjects(107'001, 100, [](const Subject& subject) {
    const auto widened = [&](const char* what, const auto& widen) {
      Problem wider = subject.problem;
      wider.top = 1;
      widen(wider.limits);
      expect_not_worse(subject, wider, what);
    };
    const std::pair<const char*, plan::Limit plan::PlanLimits::*> degrees[] = {
        {"tp", &plan::PlanLimits::tp}, {"cp", &plan::PlanLimits::cp},   {"pp", &plan::PlanLimits::pp},
        {"dp", &plan::PlanLimits::dp}, {"vpp", &plan::PlanLimits::vpp}, {"dp_inner", &plan::PlanLimits::dp_inner}};
    for (const auto& [name, field] : degrees) widened(name, [f = field](plan::PlanLimits& limits) { limits.*f = {}; });
    // Without a limit the unusual is left out; asked for, everything is looked at.
    for (plan::Limit plan::PlanLimits::*field : {&plan::PlanLimits::ep, &plan::PlanLimits::etp}) {
      widened("experts", [f = field](plan::PlanLimits& limits) { limits.*f = {1, 1 << 20, {}}; });
    }
    widened("micro-batch", [](plan::PlanLimits& limits) {
      if (limits.micro_batch.only.empty()) {
        limits.micro_batch = {};
        return;
      }
      limits.micro_batch.only.push_back(4);
      limits.micro_batch.high = std::max<std::int64_t>(4, limits.micro_batch.high);
    });
    widened("sp", [](plan::PlanLimits& limits) { limits.sp = {true, true}; });
    widened("recompute", [](plan::PlanLimits& limits) { limits.recompute.fill(true); });
    widened("zero", [](plan::PlanLimits& limits) { limits.zero = {true, true, true, true}; });
    widened("zero outer", [](plan::PlanLimits& limits) { limits.zero_outer = {true, true}; });
    for (std::size_t kind = 0; kind < 3; ++kind) {
      widened(to_string(static_cast<Schedule>(kind)),
              [=](plan::PlanLimits& limits) { limits.schedule.at(kind) = true; });
    }
    const std::pair<const char*, bool plan::PlanLimits::*> on[] = {{"pitch", &plan::PlanLimits::pitch},
                                                                   {"shard in node", &plan::PlanLimits::shard_in_node},
                                                                   {"uneven batch", &plan::PlanLimits::uneven_batch},
                                                                   {"any rounds", &plan::PlanLimits::any_rounds}};
    for (const auto& [name, flag] : on) widened(name, [f = flag](plan::PlanLimits& limits) { limits.*f = true; });
    for (bool plan::PlanLimits::*flag :
         {&plan::PlanLimits::uniform, &plan::PlanLimits::whole_blocks_only, &plan::PlanLimits::replicas_together}) {
      widened("restriction", [&](plan::PlanLimits& limits) { limits.*flag = false; });
    }
    Problem devices = subject.problem;
    devices.most_devices = 0;
    expect_not_worse(subject, devices, "all devices");
  });
}

TEST(Metamorphic, ShorterListsAreTheBeginningOfLongerOnes) {
  for_subjects(108'001, 100, [](const Subject& subject) {
    Problem longer = subject.problem;
    longer.top = subject.problem.top + 7;
    const PlanAnswer more = solve(longer);
    ASSERT_GE(more.plans.size(), subject.answer.plans.size());
    for (std::size_t k = 0; k < subject.answer.plans.size(); ++k) {
      expect_same_plan(more.plans[k], subject.answer.plans[k]);
    }
    for (std::size_t k = 1; k < more.plans.size(); ++k) {
      EXPECT_LE(score_of(longer, more.plans[k - 1]), score_of(longer, more.plans[k]) * (1 + kSame));
      EXPECT_FALSE(more.plans[k - 1].strategy == more.plans[k].strategy);
    }
  });
}

TEST(Metamorphic, ThreadsDoNotMatter) {
  for_subjects(109'001, 80, [](const Subject& subject) {
    for (const int threads : {2, 3}) {
      PlanRequest request = subject.problem.request();
      request.search.threads = threads;
      const PlanAnswer answer = make_plan(request);
      expect_same_plans(answer, subject.answer);
      EXPECT_EQ(answer.opened, subject.answer.opened);
      EXPECT_EQ(answer.leaves, subject.answer.leaves);
      EXPECT_EQ(answer.priced, subject.answer.priced);
      EXPECT_EQ(answer.keys, subject.answer.keys);
      EXPECT_EQ(answer.lower_bound, subject.answer.lower_bound);
    }
  });
}

TEST(Metamorphic, AKnownScoreOnlySavesWork) {
  for_subjects(110'001, 100, [](const Subject& subject) {
    const double best = best_score(subject.problem, subject.answer);
    PlanRequest request = subject.problem.request();
    request.search.top = 1;
    for (const double known : {subject.answer.lower_bound, best * (1 + 1e-6), best * 1.5}) {
      request.search.known_score = known;
      const PlanAnswer answer = make_plan(request);
      ASSERT_EQ(answer.plans.size(), 1U) << known / best;
      expect_same_plan(answer.plans.front(), subject.answer.plans.front());
    }
    request.search.known_score = best * (1 - 1e-6);
    EXPECT_TRUE(make_plan(request).plans.empty());
  });
}

TEST(Metamorphic, PricesMayBeKept) {
  for_subjects(111'001, 60, [](const Subject& subject) {
    PlanRequest request = subject.problem.request();
    PriceCache prices(*request.job);
    request.prices = &prices;
    expect_same_plans(make_plan(request), subject.answer);
    expect_same_plans(make_plan(request), subject.answer);
  });
}

TEST(Metamorphic, AnEarlyStopLeavesAValidBound) {
  int stopped = 0;
  for_subjects(112'001, 60, [&](const Subject& subject) {
    const double best = best_score(subject.problem, subject.answer);
    for (const double limit : {0.0, 1e-5, 1e-4, 1e-3}) {
      PlanRequest request = subject.problem.request();
      request.search.time_limit_s = limit;
      const PlanAnswer answer = make_plan(request);
      EXPECT_LE(answer.lower_bound, best * (1 + kSame));
      if (answer.outcome == PlanOutcome::optimal) expect_same_plans(answer, subject.answer);
      if (answer.outcome != PlanOutcome::limit) continue;
      ++stopped;
      for (const Plan& plan : answer.plans) {
        EXPECT_TRUE(plan.fits);
        EXPECT_GE(score_of(subject.problem, plan), best * (1 - kSame));
      }
    }
  });
  EXPECT_GT(stopped, 10);
}

}  // namespace
}  // namespace nest::search
