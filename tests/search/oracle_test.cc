// The search against exhaustive enumeration: the whole list of keys with their scores, for every way to run the search.
#include "oracle.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "search/evaluate.h"
#include "search/search.h"

namespace nest::search::test {
namespace {

std::string text(Score value) {
  std::string digits;
  for (bool negative = value < 0; value != 0 || digits.empty(); value /= 10) {
    digits.insert(digits.begin(),
                  static_cast<char>('0' + static_cast<int>(value % 10 < 0 ? -(value % 10) : value % 10)));
    if (negative && value / 10 == 0) digits.insert(digits.begin(), '-');
  }
  return digits;
}

std::string text(const Key& key) {
  std::string result = "(";
  for (std::int64_t field :
       {static_cast<std::int64_t>(key.split), static_cast<std::int64_t>(key.micro_batch), key.stages,
        static_cast<std::int64_t>(key.schedule), key.replicas, key.inner_replicas, key.pitch}) {
    result += std::to_string(field) + " ";
  }
  result.back() = ')';
  return result;
}

// Empty when the result is the head of the ranking.
std::string compare(const World& setup, const Result& result, const Ranking& ranking, int top) {
  const std::size_t expected = std::min(ranking.size(), static_cast<std::size_t>(top));
  if (result.outcome != (ranking.empty() ? Outcome::infeasible : Outcome::optimal)) return "wrong outcome";
  if (result.plans.size() != expected) {
    return "found " + std::to_string(result.plans.size()) + " keys, expected " + std::to_string(expected);
  }
  for (std::size_t i = 0; i < expected; ++i) {
    const Plan& plan = result.plans[i];
    const Score score =
        setup.problem().objective == Objective::time ? plan.time_ps : static_cast<Score>(plan.time_ps) * plan.devices;
    if (score != ranking[i].first || plan.key != ranking[i].second) {
      return "place " + std::to_string(i) + ": found " + text(score) + " " + text(plan.key) + ", expected " +
             text(ranking[i].first) + " " + text(ranking[i].second);
    }
    if (time_by_hand(setup.instance(), plan) != plan.time_ps) return "the plan does not cost what it claims";
  }
  if (!ranking.empty() && result.lower_bound != ranking[0].first) return "the lower bound is not the optimum";
  return {};
}

std::string check(const Instance& instance, const Ranking& ranking) {
  World setup{Instance(instance)};
  for (const int top : {1, 3, 1 << 20}) {
    Settings settings;
    settings.top = top;
    for (const int mode : {0, 1, 2, 3}) {
      settings.quick = mode % 2 == 0;
      settings.dive = mode < 2;
      const std::string error = compare(setup, find_plans(setup.problem(), settings), ranking, top);
      if (!error.empty()) return error + ", K=" + std::to_string(top) + " mode=" + std::to_string(mode);
    }
    if (ranking.size() >= static_cast<std::size_t>(top)) {
      settings.known = ranking[static_cast<std::size_t>(top) - 1].first;
      const std::string error = compare(setup, find_plans(setup.problem(), settings), ranking, top);
      if (!error.empty()) return error + ", K=" + std::to_string(top) + " started with the answer";
      settings.quick = settings.dive = true;
      settings.threads = 2;
      const std::string again = compare(setup, find_plans(setup.problem(), settings), ranking, top);
      if (!again.empty()) return again + ", K=" + std::to_string(top) + " two threads";
    }
  }
  World lazy(Instance(instance), true);
  const std::string error = compare(lazy, find_plans(lazy.problem(), {}), ranking, 1);
  return error.empty() ? error : error + ", priced lazily";
}

TEST(Oracle, AgreesOnRandomProblems) {
  const char* first = std::getenv("NEST_TEST_SEED");
  const std::uint64_t begin = first == nullptr ? 1 : std::strtoull(first, nullptr, 10);
  const int wanted = scaled(5000);
  int done = 0, feasible = 0, wrong = 0, interleaved = 0;
  for (std::uint64_t seed = begin; done < wanted; ++seed) {
    const Instance instance = random_instance(seed);
    const std::optional<Ranking> ranking = rank_all(instance, 3e5);
    if (!ranking) continue;
    ++done;
    feasible += !ranking->empty();
    if (!ranking->empty())
      interleaved += instance.problem.schedules[static_cast<std::size_t>(ranking->front().second.schedule)].chunks > 1;
    std::string error;
    try {
      error = check(instance, *ranking);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    if (error.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << error << "\ninstance: " << dump(instance);
    if (++wrong == 5) break;
  }
  RecordProperty("feasible", feasible);
  EXPECT_GT(feasible, wanted / 3);
  std::cout << done << " problems, " << feasible << " feasible, " << interleaved << " with an interleaved optimum\n";
}

// A failing instance is pasted here or into a file named by NEST_TEST_INSTANCE.
TEST(Oracle, TextFormRoundTrips) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Instance instance = random_instance(seed);
    EXPECT_EQ(dump(load(dump(instance))), dump(instance));
  }
}

}  // namespace
}  // namespace nest::search::test
