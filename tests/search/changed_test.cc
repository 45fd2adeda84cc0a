// Thousands of problems, of random models and of presets, each changed in random ways whose effect is known: the best plan stays as it is, or
// becomes better or worse and never the other way round. The tests of metamorphic_test.cc look at each relation closely; here many are drawn.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"
#include "cost/evaluate.h"
#include "model/presets.h"
#include "problem.h"
#include "problem_text.h"
#include "test_support/scale.h"

namespace nest::search {
namespace {

using test::Dice;
using test::Problem;

constexpr std::uint32_t kShards = 4, kPerShard = 2'500, kFirst = 4'000'000;  // of random models
constexpr std::uint32_t kPresetShards = 2, kPresetsPerShard = 600, kFirstOfPresets = 5'000'000;
constexpr int kChanges = 4;  // of every problem
constexpr double kSame = 1e-9;
// Collectives are priced as lines of the algorithm that is best for one large exchange: on a faster network that may be another one, with a
// longer latency, and exchanges of layers as small as these are mostly latency.
constexpr double kOtherAlgorithm = 0.1;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double score_of(const Problem& problem, const Plan& plan) {
  const double seconds = plan.prediction.iteration_s;
  const bool hours = problem.objective == PlanObjective::device_hours;
  return hours ? seconds * static_cast<double>(plan.strategy.devices_spanned()) : seconds;
}

double best_of(const Problem& problem, const PlanAnswer& answer) {
  return answer.plans.empty() ? kInfinity : score_of(problem, answer.plans.front());
}

// The best; infinite where nothing fits or the limits admit nothing.
double solve(const Problem& problem) {
  try {
    return best_of(problem, make_plan(problem.request()));
  } catch (const InputError&) {
    return kInfinity;
  }
}

struct Subject {
  Problem problem;
  Plan best;
  double score = 0;
};

std::string line_of(const Plan& plan) { return test::strategy_line(plan.strategy, plan.stages); }

void expect_same(const Subject& subject, double changed, const std::string& what) {
  EXPECT_NEAR(changed / subject.score, 1, kSame) << what << "\n " << line_of(subject.best);
}

void expect_not_worse(const Subject& subject, double changed, const std::string& what, double slack = kSame) {
  EXPECT_LE(changed, subject.score * (1 + slack)) << what << "\n " << line_of(subject.best);
}

void expect_not_better(const Subject& subject, double changed, const std::string& what) {
  EXPECT_GE(changed, subject.score * (1 - kSame)) << what << "\n " << line_of(subject.best);
}

void more_memory(const Subject& subject, Dice& dice) {
  Problem changed = subject.problem;
  std::int64_t& bytes = changed.job.cluster.device.memory_bytes;
  bytes = static_cast<std::int64_t>(static_cast<double>(bytes) * dice.magnitude(1, 8));
  expect_not_worse(subject, solve(changed), "more memory");
}

// Down to what the best plan needs: it stays. Below: it is not better.
void less_memory(const Subject& subject, Dice& dice) {
  Problem changed = subject.problem;
  std::int64_t& bytes = changed.job.cluster.device.memory_bytes;
  const std::int64_t needed = subject.best.stages[subject.best.fullest_stage()].memory.needed;
  bytes = needed;
  expect_same(subject, solve(changed), "as much memory as the best plan needs");
  bytes = static_cast<std::int64_t>(static_cast<double>(needed) * dice.real(0.5, 1)) - 1;
  expect_not_better(subject, solve(changed), "less memory");
}

// Another bandwidth or latency, of one level or of a torus.
void other_network(const Subject& subject, Dice& dice) {
  Problem changed = subject.problem;
  cluster::Cluster& cluster = changed.job.cluster;
  const double factor = dice.magnitude(1, 16);
  const bool latency = dice.one_in(2);
  if (cluster.torus) {
    (latency ? cluster.torus->latency_s : cluster.torus->link_bytes_per_s) *= latency ? 1 / factor : factor;
  } else {
    const std::size_t level = dice.below(cluster.levels.size());
    cluster::Level& one = cluster.levels[level];
    const double below = level > 0 ? cluster.levels[level - 1].latency_s : 0;
    if (latency) one.latency_s = std::max(below, one.latency_s / factor);
    if (!latency) one.bandwidth_bytes_per_s *= factor;
    const double overhead = cluster.fabric.message_overhead_s;
    cluster.fabric = cluster::make_fabric(cluster.levels, cluster.devices);
    cluster.fabric.message_overhead_s = overhead;
  }
  expect_not_worse(subject, solve(changed), fmt::format("a network {:.3g} times as fast", factor), kOtherAlgorithm);
  // The same plan is not slower there, and the best there is not slower than it.
  const Plan same = cost::evaluate(changed.job, subject.best.strategy, subject.best.stages);
  expect_not_worse(subject, score_of(changed, same), "the same plan on it", kOtherAlgorithm);
}

// What everything that the best plan has admits, and little else.
void own_limits(const Subject& subject, Dice& dice) {
  Problem changed = subject.problem;
  const Strategy& best = subject.best.strategy;
  const auto exactly = [](std::int64_t value) { return plan::Limit{value, value, {value}}; };
  plan::PlanLimits& limits = changed.limits;
  limits.tp = exactly(best.split.tp);
  limits.cp = exactly(best.split.cp);
  limits.ep = exactly(best.split.ep);
  limits.etp = exactly(best.split.expert_tp());
  limits.pp = exactly(best.pp);
  limits.dp = exactly(best.dp);
  limits.micro_batch = exactly(best.micro_batch);
  if (dice.one_in(2)) {
    limits.dp_inner = exactly(best.dp_inner);
    limits.vpp = exactly(best.virtual_stages);
    limits.sp = {!best.split.sp, best.split.sp};
    limits.schedule = {};
    limits.more_schedules = false;
    limits.schedule.at(static_cast<std::size_t>(best.schedule)) = true;
  }
  expect_same(subject, solve(changed), "the best plan's own limits");
}

// One limit more: not better, and the same where it admits the best plan.
void one_limit_more(const Subject& subject, Dice& dice) {
  Problem changed = subject.problem;
  const Strategy& best = subject.best.strategy;
  struct Degree {
    plan::Limit plan::PlanLimits::*limit;
    std::int64_t value;
  };
  const std::array degrees = {Degree{&plan::PlanLimits::tp, best.split.tp},
                              Degree{&plan::PlanLimits::cp, best.split.cp},
                              Degree{&plan::PlanLimits::pp, best.pp},
                              Degree{&plan::PlanLimits::dp, best.dp},
                              Degree{&plan::PlanLimits::vpp, best.virtual_stages},
                              Degree{&plan::PlanLimits::dp_inner, best.dp_inner}};
  const Degree& degree = degrees.at(dice.below(degrees.size()));
  plan::Limit& limit = changed.limits.*degree.limit;
  if (dice.one_in(2)) {
    limit.high = std::min(limit.high, degree.value);
    if (limit.high < limit.low) return;
    expect_same(subject, solve(changed), "a limit that admits the best plan");
  } else {
    limit.low = std::max(limit.low, degree.value + 1);
    expect_not_better(subject, solve(changed), "a limit that does not admit the best plan");
  }
}

void without_limits(const Subject& subject, Dice& dice) {
  Problem changed = subject.problem;
  const std::array degrees = {&plan::PlanLimits::tp, &plan::PlanLimits::cp, &plan::PlanLimits::pp,
                              &plan::PlanLimits::dp, &plan::PlanLimits::vpp};
  changed.limits.*degrees.at(dice.below(degrees.size())) = {};
  if (dice.one_in(2)) changed.limits.zero = {true, true, true, true};
  if (dice.one_in(2)) changed.most_devices = 0;
  expect_not_worse(subject, solve(changed), "fewer limits");
}

void other_names(const Subject& subject, Dice& /*dice*/) {
  Problem changed = subject.problem;
  rename(changed);
  expect_same(subject, solve(changed), "other names");
}

void other_threads(const Subject& subject, Dice& dice) {
  PlanRequest request = subject.problem.request();
  request.search.threads = static_cast<int>(2 + dice.below(6));
  const PlanAnswer answer = make_plan(request);
  ASSERT_FALSE(answer.plans.empty());
  EXPECT_EQ(line_of(answer.plans.front()), line_of(subject.best)) << request.search.threads << " threads";
  EXPECT_EQ(score_of(subject.problem, answer.plans.front()), subject.score) << request.search.threads << " threads";
}

// The best of one objective is not better at the other's.
void other_objective(const Subject& subject, Dice& /*dice*/) {
  Problem changed = subject.problem;
  changed.top = 1;
  const bool hours = changed.objective == PlanObjective::device_hours;
  changed.objective = hours ? PlanObjective::time : PlanObjective::device_hours;
  const PlanAnswer answer = make_plan(changed.request());
  ASSERT_FALSE(answer.plans.empty()) << "something fits, whatever is made least";
  expect_not_better(subject, score_of(subject.problem, answer.plans.front()), "the best of another objective");
  EXPECT_LE(score_of(changed, answer.plans.front()), score_of(changed, subject.best) * (1 + kSame));
}

// A ceiling just above what the best takes changes nothing; below, no plan is left.
void a_ceiling(const Subject& subject, Dice& dice) {
  PlanRequest request = subject.problem.request();
  request.search.top = 1;
  if (subject.problem.objective == PlanObjective::device_hours) return;
  request.search.ceiling.step_s = subject.score * (1 + dice.magnitude(1e-8, 1));
  const PlanAnswer above = make_plan(request);
  ASSERT_FALSE(above.plans.empty()) << "a ceiling above the best plan";
  expect_same(subject, score_of(subject.problem, above.plans.front()), "a ceiling above the best plan");
  request.search.ceiling.step_s = subject.score * (1 - dice.magnitude(1e-8, 0.5));
  EXPECT_TRUE(make_plan(request).plans.empty()) << "a ceiling below the best plan";
}

struct Relation {
  const char* name;
  void (*look)(const Subject&, Dice&);
};
constexpr Relation kRelations[] = {{"more memory", more_memory},          {"less memory", less_memory},
                                   {"other networks", other_network},     {"own limits", own_limits},
                                   {"one limit more", one_limit_more},    {"fewer limits", without_limits},
                                   {"other names", other_names},          {"threads", other_threads},
                                   {"other objectives", other_objective}, {"ceilings", a_ceiling}};

// Presets of every kind on clusters of the presets and on random ones, with a few limits that leave the search small.
Problem preset_problem(std::uint32_t seed) {
  Dice dice(seed + (test::draw() << 32));
  Problem problem;
  problem.seed = seed;
  const auto& models = model::model_presets();
  const model::ModelPreset& preset =
      *(models.begin() + static_cast<std::ptrdiff_t>(
                             dice.below(static_cast<std::uint64_t>(std::distance(models.begin(), models.end())))));
  cluster::Cluster cluster;
  if (dice.one_in(2)) {
    cluster =
        test::random_cluster(dice, dice.any({test::Leaning::plain, test::Leaning::irregular, test::Leaning::pitch}));
    cluster.device.memory_bytes *= dice.any<std::int64_t>({1, 4, 32});
  } else {
    const char* name = dice.any({"dgx-h100", "dgx-a100", "h100-spine-leaf", "tpuv4-torus", "dgx-b200"});
    cluster = cluster::find_cluster(name, dice.any<std::int64_t>({8, 16, 32, 64}))
                  .value_or(cluster::find_cluster("dgx-h100", 16).value());
  }
  Run run;
  run.global_batch = cluster.devices * dice.any<std::int64_t>({1, 2, 4});
  run.sequence = dice.any<std::int64_t>({1024, 2048, 4096});
  run.stack = dice.any({"megatron-core", "megatron-core", "torchtitan", "megatron-deepspeed"});
  const std::optional<cost::SoftwareStack> stack = cost::find_stack(run.stack);
  problem.job =
      cost::make_job(preset.architecture, run, stack ? *stack : cost::find_stack("megatron-core").value(), cluster);
  for (const char* setting :
       {dice.any({"mbs=1", "mbs=1,2"}), dice.any({"cp=1", "cp=..2"}), dice.any({"vpp=1", "vpp=..4"}),
        dice.any({"recompute=none,full", "recompute=none,selective,full"})}) {
    problem.settings.emplace_back(setting);
    plan::set_limit(problem.limits, setting);
  }
  problem.objective = dice.one_in(3) ? PlanObjective::device_hours : PlanObjective::time;
  return problem;
}

template <class MakeProblem>
void look_at(std::uint32_t first, std::uint32_t count, const MakeProblem& make_problem) {
  std::map<std::string, int> looked;
  int changes = 0;
  for (std::uint32_t seed = first; seed < first + count && !testing::Test::HasFailure(); ++seed) {
    std::string text = fmt::format("seed {}", seed);
    SCOPED_TRACE(text);
    try {
      Subject subject{make_problem(seed), {}, 0};
      subject.problem.top = 1;
      const PlanAnswer answer = make_plan(subject.problem.request());
      if (answer.plans.empty()) continue;
      subject.best = answer.plans.front();
      subject.score = score_of(subject.problem, subject.best);
      Dice dice(seed + 3'000'000'000ULL);
      for (int k = 0; k < kChanges; ++k) {
        const Relation& relation = kRelations[dice.below(std::size(kRelations))];
        relation.look(subject, dice);
        ++looked[relation.name];
        ++changes;
        if (testing::Test::HasFailure()) {
          ADD_FAILURE() << relation.name << "\n"
                        << subject.problem.job.model.architecture.name << " on " << subject.problem.job.cluster.name
                        << "\n"
                        << (subject.problem.config.empty() ? "" : test::problem_text(subject.problem));
          break;
        }
      }
    } catch (const InputError&) {
      continue;  // no such job, or the limits admit nothing
    }
  }
  testing::Test::RecordProperty("changed", changes);
  for (const auto& [name, times] : looked) testing::Test::RecordProperty(name, times);
  EXPECT_GT(changes, static_cast<int>(count));
}

class Changed : public testing::TestWithParam<std::uint32_t> {};

TEST_P(Changed, RandomProblems) {
  const std::uint32_t count = test::scaled(kPerShard, 24);
  look_at(kFirst + GetParam() * count, count, [](std::uint32_t seed) { return test::tiny_problem(seed); });
}

INSTANTIATE_TEST_SUITE_P(Planner, Changed, testing::Range(0U, kShards));

// With just the memory that its best plan needs it had none: a set of modules that keeps more than everything does.
TEST(ChangedReplay, OnceWrong) {
  Subject subject{test::tiny_problem(4'007'079, 4), {}, 0};
  subject.problem.top = 1;
  subject.best = make_plan(subject.problem.request()).plans.at(0);
  subject.score = score_of(subject.problem, subject.best);
  Dice dice(1);
  less_memory(subject, dice);
}

class ChangedPresets : public testing::TestWithParam<std::uint32_t> {};

TEST_P(ChangedPresets, OnRandomClusters) {
  const std::uint32_t count = test::scaled(kPresetsPerShard, 3);
  look_at(kFirstOfPresets + GetParam() * count, count, preset_problem);
}

INSTANTIATE_TEST_SUITE_P(Planner, ChangedPresets, testing::Range(0U, kPresetShards));

}  // namespace
}  // namespace nest::search
