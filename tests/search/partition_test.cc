// The partition solver with prices out of tables: by hand, and against every cut and every option.
#include "search/partition.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "base/index.h"

namespace nest::search {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct FakeOption {
  bool offered = true;
  double micro_s = 0, step_s = 0;
  double state_bytes = 0, kept_bytes = 0;  // needs state + pressure * kept
  double first_after_s = 0, after_s = 0;
};

// Prices by name and option; stages of one kind share prefix sums, names and memory.
class FakePrices final : public StagePrices {
 public:
  struct Kind {
    std::vector<double> prefix;
    std::vector<int> names;  // [i * (n + 1) + j]
    double memory_bytes = kNever;
  };

  std::vector<Kind> kinds;
  std::vector<int> kind_of;                      // of every stage
  std::vector<std::vector<FakeOption>> of_name;  // [name][option]
  PartitionProblem problem;

  int name(std::int64_t stage, std::int64_t begin, std::int64_t end) const {
    return kinds[at(kind_of[at(stage)])].names[at(begin * (problem.layers + 1) + end)];
  }
  const FakeOption& option(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) const {
    return of_name[at(name(stage, begin, end))][at(option)];
  }

  void price_options(std::int64_t stage, std::int64_t begin, std::int64_t end,
                     std::vector<OptionPrice>& prices) override {
    const int here = name(stage, begin, end);
    for (int o = problem.options - 1; o >= 0; --o) {
      const FakeOption& offer = of_name[at(here)][at(o)];
      if (problem.uniform && o != only_) continue;
      if (!offer.offered) continue;
      prices.push_back({offer.micro_s, offer.step_s, offer.first_after_s, offer.after_s, o, false, &known_[{here, o}]});
    }
  }
  bool extend(std::int64_t, std::int64_t, std::int64_t, int) override { return false; }
  bool restrict_to(int o, double) override {
    only_ = o;
    return true;
  }
  bool fits(std::int64_t stage, std::int64_t begin, std::int64_t end, int o) const override {
    ++asked;
    const FakeOption& offer = option(stage, begin, end, o);
    const double pressure = problem.stages[at(stage)].pressure;
    return offer.state_bytes + pressure * offer.kept_bytes <= kinds[at(kind_of[at(stage)])].memory_bytes;
  }

  // Lets the problem point at the tables.
  void connect() {
    for (std::size_t s = 0; s < problem.stages.size(); ++s) {
      problem.stages[s].prefix = kinds[at(kind_of[s])].prefix.data();
      problem.stages[s].names = kinds[at(kind_of[s])].names.data();
    }
    problem.names = static_cast<int>(of_name.size());
  }

  mutable int asked = 0;

 private:
  int only_ = 0;  // of uniform problems
  std::map<std::pair<int, int>, FitRange> known_;
};

// Layers of these seconds on stages of one kind, cut anywhere for nothing, one option that costs nothing.
void fill_plain(FakePrices& fake, const std::vector<double>& layers_s, std::int64_t stages, double micro_batches) {
  const std::int64_t n = std::ssize(layers_s);
  FakePrices::Kind kind;
  kind.prefix = {0};
  for (const double seconds : layers_s) kind.prefix.push_back(kind.prefix.back() + seconds);
  for (int name = 0; name < (n + 1) * (n + 1); ++name) kind.names.push_back(name);
  fake.of_name.assign(kind.names.size(), {FakeOption{}});
  fake.kinds = {kind};
  fake.kind_of.assign(at(stages), 0);
  PartitionProblem& problem = fake.problem;
  problem.layers = n;
  problem.form.micro_batches = micro_batches;
  problem.options = 1;
  problem.stages.assign(at(stages), {});
  problem.boundary_s.assign(at(stages - 1), std::vector<double>(at(n + 1), 0));
  problem.may_cut.assign(at(n + 1), 1);
  fake.connect();
}

std::optional<PartitionPlan> solve(FakePrices& fake, double limit_s = kNever) {
  PartitionSolver solver;
  return solver.solve(fake.problem, fake, limit_s);
}

using Cuts = std::vector<std::int64_t>;

TEST(Partition, BalancesTheSlowestStage) {
  FakePrices fake;
  fill_plain(fake, {1, 2, 3, 4}, 2, 10);
  // Cut after 3 layers: 10 * 6 + 4. After 2: 10 * 7 + 3.
  const auto plan = solve(fake);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->cuts, (Cuts{0, 3, 4}));
  EXPECT_DOUBLE_EQ(plan->time_s, 64);
  EXPECT_FALSE(solve(fake, 63.9));
  EXPECT_TRUE(solve(fake, 64));
}

TEST(Partition, BothNeighboursWaitAtABoundary) {
  FakePrices fake;
  fill_plain(fake, {1, 2, 3, 4}, 2, 10);
  fake.problem.boundary_s[0][3] = 2;
  // After 3 layers: stages of 6 + 2 and 4 + 2, 10 * 8 + 6. After 2: 73.
  EXPECT_EQ(solve(fake)->cuts, (Cuts{0, 2, 4}));
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 73);
  // The first stage waits for a wrap-around besides: 10 * max(3 + 5, 7) + 7.
  fake.problem.stages[0].extra_s = 5;
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 87);
}

TEST(Partition, ChunksFillThePipelineFaster) {
  FakePrices fake;
  fill_plain(fake, {1, 1, 1, 1, 1, 1}, 3, 4);
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 4 * 2 + (6 - 2));
  fake.problem.form.chunks = 2;
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 4 * 2 + (6 - 2) / 2.0);
  fake.problem.stages[1].fewest_layers = 4;  // 1, 4, 1
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 4 * 4 + (6 - 4) / 2.0);
}

TEST(Partition, CutsOnlyWhereItMay) {
  FakePrices fake;
  fill_plain(fake, {1, 2, 3, 4}, 2, 10);
  fake.problem.may_cut[3] = 0;
  EXPECT_EQ(solve(fake)->cuts, (Cuts{0, 2, 4}));
  fake.problem.may_cut[2] = fake.problem.may_cut[1] = 0;
  EXPECT_FALSE(solve(fake));
}

// Option 0 costs nothing per micro-batch and 10 s per step, option 1 one second per micro-batch and nothing per step.
TEST(Partition, WeighsWhatHappensOncePerStep) {
  FakePrices fake;
  fill_plain(fake, {3, 3}, 2, 5);
  for (auto& options : fake.of_name) options = {{true, 0, 10, 0, 0}, {true, 1, 0, 0, 0}};
  fake.problem.options = 2;
  // Option 1 on both stages: 5 * 4 + 4. Option 0 on either: 10 more, no less than 5 * 3 + 3 + 10.
  EXPECT_EQ(solve(fake)->options, (std::vector<int>{1, 1}));
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 24);
  fake.problem.form.micro_batches = 15;  // 15 * 3 + 3 + 10 < 15 * 4 + 4
  EXPECT_EQ(solve(fake)->options, (std::vector<int>{0, 0}));
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 58);
}

// Option 1 keeps nothing and takes two seconds more.
TEST(Partition, StagesUnderPressureTakeWhatFits) {
  FakePrices fake;
  fill_plain(fake, {4, 4, 4}, 3, 6);
  for (auto& options : fake.of_name) options = {{true, 0, 1, 2, 1}, {true, 2, 1, 2, 0}};
  fake.problem.options = 2;
  fake.kinds[0].memory_bytes = 4;
  for (const int s : {0, 1, 2}) fake.problem.stages[at(s)].pressure = 3 - s;
  // State 2 and pressure times 1: 5, 4, 3 of 4. The first stage takes option 1: 6 * 6 + 4 + 4 + 1.
  EXPECT_EQ(solve(fake)->options, (std::vector<int>{1, 0, 0}));
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 45);
  fake.problem.uniform = true;  // 6 * 6 + 6 + 6 + 1
  EXPECT_EQ(solve(fake)->options, (std::vector<int>{1, 1, 1}));
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 49);
  FakePrices other;
  fill_plain(other, {4, 4, 4}, 3, 6);
  for (auto& options : other.of_name) options = {{true, 0, 1, 2, 1}};
  other.kinds[0].memory_bytes = 1;
  EXPECT_FALSE(solve(other));
}

// The second device is twice as fast: it gets twice the layers.
TEST(Partition, StagesMayDifferInSpeed) {
  FakePrices fake;
  fill_plain(fake, {2, 2, 2, 2, 2, 2}, 2, 100);
  fake.kinds.push_back(fake.kinds.front());
  for (double& seconds : fake.kinds[1].prefix) seconds /= 2;
  for (int& name : fake.kinds[1].names) name += static_cast<int>(fake.kinds[0].names.size());
  fake.of_name.resize(2 * fake.of_name.size(), {FakeOption{}});
  fake.kind_of = {0, 1};
  fake.connect();
  EXPECT_EQ(solve(fake)->cuts, (Cuts{0, 2, 6}));
  EXPECT_DOUBLE_EQ(solve(fake)->time_s, 100 * 4 + 4);
}

// Equal cost: the option that is listed first.
TEST(Partition, PrefersTheSmallerOption) {
  FakePrices fake;
  fill_plain(fake, {1, 1}, 2, 2);
  for (auto& options : fake.of_name) options.assign(3, FakeOption{});
  fake.problem.options = 3;
  EXPECT_EQ(solve(fake)->options, (std::vector<int>{0, 0}));
}

// Stages that differ in pressure only are bisected: 64 stages of one layer, the first 40 of which do not fit.
TEST(Partition, AsksForMemoryRarely) {
  FakePrices fake;
  fill_plain(fake, std::vector<double>(64, 1), 64, 8);
  for (int& name : fake.kinds[0].names) name = 0;
  fake.of_name = {{{true, 0, 0, 0, 1}, {true, 1, 0, 0, 0}}};
  fake.problem.options = 2;
  fake.kinds[0].memory_bytes = 24;
  for (int s = 0; s < 64; ++s) fake.problem.stages[at(s)].pressure = 64 - s;
  fake.connect();
  const auto plan = solve(fake);
  ASSERT_TRUE(plan);
  EXPECT_EQ(std::count(plan->options.begin(), plan->options.end(), 1), 40);
  EXPECT_LT(fake.asked, 20);
}

class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  std::int64_t upto(std::int64_t most) { return static_cast<std::int64_t>(random_() % at(most + 1)); }
  bool one_in(std::int64_t count) { return upto(count - 1) == 0; }
  // Small whole numbers, which tie often, or any.
  double seconds(bool whole, double most) {
    return whole ? real(upto(std::llround(most))) : most * real(random_()) / 4294967295.0;
  }

 private:
  std::mt19937 random_;
};

void fill_random(FakePrices& fake, Draw& draw) {
  const std::int64_t n = 1 + draw.upto(6), p = 1 + draw.upto(std::min<std::int64_t>(3, n - 1));
  const bool whole = draw.one_in(2), by_length = draw.one_in(3);
  PartitionProblem& problem = fake.problem;
  problem.layers = n;
  problem.form.micro_batches = real(1 + draw.upto(draw.one_in(3) ? 0 : 7));
  problem.form.chunks = real(1 + (draw.one_in(2) ? draw.upto(2) : 0));
  problem.form.stages = real(p);
  problem.form.law = draw.one_in(3) ? schedule::Law::least : schedule::Law::formula;
  problem.form.split = draw.one_in(4);
  const bool least = problem.form.law == schedule::Law::least;
  if (least && draw.one_in(2)) problem.form.short_s = draw.seconds(whole, 2);
  if (least && draw.one_in(2)) problem.form.way_s = draw.seconds(whole, 2);
  if (least && draw.one_in(2)) problem.form.first_short_s = draw.seconds(whole, 2);
  if (least && draw.one_in(2)) problem.form.end_s = draw.seconds(whole, 2) - 1;
  if (least && draw.one_in(2)) problem.form.back_share = 0.5;
  if (least && draw.one_in(2)) problem.form.waits_s = draw.seconds(whole, 1);
  problem.form.in_turns = least && std::fmod(problem.form.micro_batches, problem.form.stages) == 0 && draw.one_in(2) &&
                          problem.form.chunks > 1;
  if (least && problem.form.chunks == 1) problem.form.together = real(1 + draw.upto(p - 1));
  problem.options = static_cast<int>(1 + draw.upto(3));
  problem.uniform = draw.one_in(4);
  problem.may_cut.assign(at(n + 1), 1);
  for (char& may : problem.may_cut) may = draw.one_in(6) ? 0 : 1;
  const int kinds = static_cast<int>(1 + draw.upto(1));
  for (int k = 0; k < kinds; ++k) {
    FakePrices::Kind& kind = fake.kinds.emplace_back();
    kind.prefix = {0};
    for (std::int64_t i = 0; i < n; ++i) kind.prefix.push_back(kind.prefix.back() + draw.seconds(whole, 5));
    kind.memory_bytes = draw.one_in(3) ? kNever : 4 + real(draw.upto(12));
    const int first = static_cast<int>(fake.of_name.size());
    for (std::int64_t i = 0; i <= n; ++i) {
      for (std::int64_t j = 0; j <= n; ++j) {
        kind.names.push_back(first + static_cast<int>(by_length ? std::max<std::int64_t>(0, j - i) : i * (n + 1) + j));
      }
    }
    fake.of_name.resize(at(1 + *std::max_element(kind.names.begin(), kind.names.end())));
  }
  for (auto& options : fake.of_name) {
    for (int o = 0; o < problem.options; ++o) {
      options.push_back(
          {!draw.one_in(8), draw.seconds(whole, 4), draw.seconds(whole, 6), real(draw.upto(5)), real(draw.upto(3))});
      if (!least) continue;
      options.back().first_after_s = draw.seconds(whole, 4);
      options.back().after_s = draw.seconds(whole, 4);
    }
  }
  problem.boundary_s.assign(at(p - 1), std::vector<double>(at(n + 1), 0));
  for (auto& boundary : problem.boundary_s) {
    for (double& seconds : boundary) seconds = draw.one_in(2) ? 0 : draw.seconds(whole, 3);
  }
  const bool falling = draw.one_in(2);
  for (std::int64_t s = 0; s < p; ++s) {
    fake.kind_of.push_back(static_cast<int>(draw.upto(kinds - 1)));
    PartitionStage& stage = problem.stages.emplace_back();
    stage.extra_s = draw.one_in(3) ? draw.seconds(whole, 2) : 0;
    stage.pressure = falling ? real(p - s) : real(draw.upto(4));
    stage.fewest_layers = 1 + (draw.one_in(6) ? draw.upto(2) : 0);
  }
  fake.connect();
}

struct Priced {
  double time_s = 0, slowest_s = 0, sum_s = 0, step_s = 0;
  // Of the stages whose gradients leave together, but the last of them; and what all of these do after their passes.
  double before_s = 0, after_s = 0;
};

// m tau and the ways of schedule/step_time.h, as they are written there.
double least_s(const schedule::StepForm& form, const Priced& of) {
  const double m = form.micro_batches, p = form.stages, v = form.chunks, busy_s = m * of.slowest_s;
  if (form.split) return busy_s;
  if (v == 1 && m > p) {
    return std::max(busy_s, (m - p - 1) * of.slowest_s + 2 * of.sum_s - of.before_s - form.short_s + of.after_s);
  }
  const bool is_long = form.in_turns && m >= 2 * p;
  const double sum_s = of.sum_s - of.before_s + (is_long ? v : 1) * of.after_s;
  double way_s = is_long ? 0 : sum_s + form.way_s;
  if (v == 1 ? form.together == 1 : form.in_turns) {
    const double r = is_long ? 2 * (p - 1) : std::min(p, m) - 1, g = form.back_share;
    way_s = std::max(way_s, (m - (1 + r * (1 - g)) / v) * of.slowest_s +
                                (sum_s - form.first_short_s - r * g * form.waits_s) / v + form.end_s);
  }
  return std::max(busy_s, way_s);
}

// By the definition; nothing for what is not offered, does not fit or may not be cut there.
std::optional<Priced> price(const FakePrices& fake, const Cuts& cuts, const std::vector<int>& options) {
  const PartitionProblem& problem = fake.problem;
  Priced priced;
  for (std::int64_t s = 0; s < std::ssize(options); ++s) {
    const std::int64_t i = cuts[at(s)], j = cuts[at(s + 1)];
    const PartitionStage& stage = problem.stages[at(s)];
    if (j - i < stage.fewest_layers || (s > 0 && problem.may_cut[at(i)] == 0)) return std::nullopt;
    const FakeOption& option = fake.option(s, i, j, options[at(s)]);
    if (!option.offered || !fake.fits(s, i, j, options[at(s)])) return std::nullopt;
    if (problem.uniform && options[at(s)] != options.front()) return std::nullopt;
    double time = stage.prefix[j] - stage.prefix[i] + stage.extra_s + option.micro_s;
    if (s > 0) time += problem.boundary_s[at(s - 1)][at(i)];
    if (s + 1 < std::ssize(options)) time += problem.boundary_s[at(s)][at(j)];
    priced.slowest_s = std::max(priced.slowest_s, time);
    priced.sum_s += time;
    priced.step_s = std::max(priced.step_s, option.step_s);
    if (real(s) < problem.form.together - 1) priced.before_s += time;
    if (real(s) < problem.form.together) priced.after_s += s == 0 ? option.first_after_s : option.after_s;
  }
  const schedule::StepForm& form = problem.form;
  priced.time_s = form.law == schedule::Law::least
                      ? least_s(form, priced)
                      : form.micro_batches * priced.slowest_s + (priced.sum_s - priced.slowest_s) / form.chunks;
  priced.time_s += priced.step_s;
  return priced;
}

// Every plan there is.
std::vector<Priced> price_all(const FakePrices& fake) {
  std::vector<Priced> all;
  const std::int64_t p = std::ssize(fake.problem.stages);
  Cuts cuts(at(p + 1), 0);
  cuts.back() = fake.problem.layers;
  std::vector<int> options(at(p), 0);
  const std::function<void(std::int64_t)> choose = [&](std::int64_t s) {
    if (s == p) {
      if (const auto priced = price(fake, cuts, options)) all.push_back(*priced);
      return;
    }
    for (options[at(s)] = 0; options[at(s)] < fake.problem.options; ++options[at(s)]) choose(s + 1);
  };
  const std::function<void(std::int64_t)> cut = [&](std::int64_t s) {
    if (s == p) return choose(0);
    for (cuts[at(s)] = cuts[at(s - 1)] + 1; cuts[at(s)] <= fake.problem.layers - (p - s); ++cuts[at(s)]) cut(s + 1);
  };
  cut(1);
  return all;
}

// Bounds that hold, tight or not.
void set_bounds(FakePrices& fake, Draw& draw, const std::vector<Priced>& all) {
  PartitionProblem& problem = fake.problem;
  const double share = draw.one_in(2) ? 1 : 0.5;
  const std::int64_t p = std::ssize(problem.stages);
  for (std::int64_t s = 0; s < p; ++s) {
    double low = problem.stages[at(s)].extra_s;
    for (const std::int64_t b : {s - 1, s}) {
      if (b < 0 || b + 1 >= p) continue;
      low += *std::min_element(problem.boundary_s[at(b)].begin(), problem.boundary_s[at(b)].end());
    }
    problem.stages[at(s)].waiting_low_s = share * low;
  }
  double sum = kNever, slowest = kNever, once = kNever;
  for (const Priced& plan : all) {
    sum = std::min(sum, share * plan.sum_s);
    slowest = std::min(slowest, share * plan.slowest_s);
  }
  problem.sum_low_s = sum;
  problem.slowest_low_s = slowest;
  for (const Priced& plan : all) once = std::min(once, plan.time_s - problem.form.value(plan.slowest_s, sum));
  problem.once_low_s = share * once;
  double step = kNever;
  for (const auto& options : fake.of_name) {
    for (const FakeOption& option : options) step = std::min(step, option.step_s);
  }
  problem.step_low_s = step;
}

TEST(Partition, EqualsEveryCutAndOption) {
  const char* scale = std::getenv("NEST_TEST_SCALE");
  const auto seeds = static_cast<std::uint32_t>(6000 * (scale != nullptr ? std::atof(scale) : 1.0));
  int found = 0, none = 0, mixed = 0, chunked = 0, uniform = 0, bounded = 0;
  PartitionSolver solver;  // one for all: nothing of a problem may survive it
  for (std::uint32_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Draw draw(seed);
    FakePrices fake;
    fill_random(fake, draw);
    const std::vector<Priced> all = price_all(fake);
    if (!all.empty() && draw.one_in(2)) {
      set_bounds(fake, draw, all);
      ++bounded;
    }
    const auto plan = solver.solve(fake.problem, fake, kNever);
    ASSERT_EQ(plan.has_value(), !all.empty());
    if (!plan) {
      ++none;
      continue;
    }
    ++found;
    double least_s = kNever;
    for (const Priced& priced : all) least_s = std::min(least_s, priced.time_s);
    ASSERT_NEAR(plan->time_s, least_s, 1e-9 * least_s);
    ASSERT_EQ(plan->cuts.front(), 0);
    ASSERT_EQ(plan->cuts.back(), fake.problem.layers);
    const auto priced = price(fake, plan->cuts, plan->options);
    ASSERT_TRUE(priced) << "the plan is one of those";
    ASSERT_NEAR(priced->time_s, least_s, 1e-9 * least_s);
    EXPECT_TRUE(solver.solve(fake.problem, fake, least_s * (1 + 1e-9) + 1e-9));
    EXPECT_TRUE(least_s == 0 || !solver.solve(fake.problem, fake, least_s * (1 - 1e-6)));
    mixed +=
        std::adjacent_find(plan->options.begin(), plan->options.end(), std::not_equal_to<>()) != plan->options.end();
    chunked += fake.problem.form.chunks > 1;
    uniform += fake.problem.uniform;
  }
  for (const int seen : {found, mixed, chunked, uniform, bounded}) EXPECT_GT(seen, static_cast<int>(seeds) / 20);
  EXPECT_GT(none, static_cast<int>(seeds) / 50);
}

}  // namespace
}  // namespace nest::search
