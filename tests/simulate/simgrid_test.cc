// The simulator as a process: what it computes, and what happens when it does not behave.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "reference_engine.h"
#include "simulate/program_json.h"
#include "simulate_client/client.h"
#include "simulation_check/writing.h"
#include "test_support/scale.h"
#include "test_support/temporary_folder.h"

namespace nest::simulate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Links, routes and activities at random, many of which share.
SimulationProgram random_program(std::uint32_t seed) {
  std::mt19937 dice(seed);
  const auto below = [&](std::uint32_t count) { return static_cast<std::int32_t>(dice() % count); };
  SimulationProgram program;
  const std::int32_t links = 2 + below(6);
  for (std::int32_t l = 0; l < links; ++l) program.links.push_back({"link", 1e9 * (1 + below(100)), 1, 1});
  const std::int32_t routes = 2 + below(8);
  for (std::int32_t r = 0; r < routes; ++r) {
    SimulatedRoute& route = program.routes.emplace_back();
    for (std::int32_t l = 0; l < links; ++l) {
      if (below(3) == 0 || l == r % links) route.loads.push_back({l, 1 + below(4)});
    }
  }
  for (std::int32_t i = 0; i < 80; ++i) {
    SimulatedActivity& activity = program.activities.emplace_back();
    const std::int32_t kind = below(5);
    if (kind == 0) activity.seconds = 1e-4 * (1 + below(1000));
    for (std::int32_t f = 0; f < kind / 2; ++f) {
      activity.flows.push_back({below(static_cast<std::uint32_t>(routes)), below(2) * 1e-5, 1e6 * (1 + below(500))});
    }
    for (std::int32_t k = 0; k < below(3) && i > 0; ++k) activity.after.push_back(below(static_cast<std::uint32_t>(i)));
  }
  return program;
}

TEST(SimGrid, AgreesWithTheReferenceEngine) {
  NEST_REQUIRE_SIMGRID();
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const SimulationProgram program = random_program(seed);
    const Timeline expected = test::reference_execute(program);
    const Timeline timeline = run_simulator(NEST_SIMULATE_PROGRAM, program);
    EXPECT_THAT(timeline.engine, HasSubstr("SimGrid"));
    for (std::size_t i = 0; i < program.activities.size(); ++i) {
      ASSERT_NEAR(timeline.start_s[i], expected.start_s[i], 1e-7 * expected.total_s) << "seed " << seed << ", " << i;
      ASSERT_NEAR(timeline.end_s[i], expected.end_s[i], 1e-7 * expected.total_s) << "seed " << seed << ", " << i;
    }
  }
}

TEST(SimGrid, RefusesCirclesAndGarbage) {
  NEST_REQUIRE_SIMGRID();
  SimulationProgram circle;
  circle.activities = {{1, {}, {1}}, {1, {}, {0}}};
  try {
    run_simulator(NEST_SIMULATE_PROGRAM, circle);
    FAIL();
  } catch (const SimulatorError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("exit code 2"), HasSubstr("2 of 2 activities can never start")));
  }
}

TEST(SimGrid, NothingTakesNoTime) {
  NEST_REQUIRE_SIMGRID();
  EXPECT_EQ(run_simulator(NEST_SIMULATE_PROGRAM, {}).total_s, 0);
  SimulationProgram joins;
  joins.activities.resize(20'000);  // a long chain must not need a deep stack
  for (std::int32_t i = 1; i < 20'000; ++i) joins.activities[static_cast<std::size_t>(i)].after = {i - 1};
  EXPECT_EQ(run_simulator(NEST_SIMULATE_PROGRAM, joins).total_s, 0);
}

// The promise about all plans, on a sample; docs/generated/simulation has the full one. NEST_TEST_SCALE makes it smaller, but not
// so small that a percentile means nothing.
TEST(SimGrid, RandomPlansAreClose) {
  NEST_REQUIRE_SIMGRID();
  const std::uint32_t plans = test::scaled(240, 120);
  std::vector<ComparedPlan> rows;
  for (std::uint32_t seed = 0; seed < plans; ++seed) rows.push_back(compare(random_plan(seed), NEST_SIMULATE_PROGRAM));
  EXPECT_LE(difference_quantile(rows, 0.5), 0.02);
  EXPECT_LE(difference_quantile(rows, 0.95), 0.08);
}

// --- a simulator that does not behave

class BadSimulator : public ::testing::Test {
 protected:
  void SetUp() override { program_.activities = {{1, {}, {}}}; }

  std::string failure(const std::string& script, const SimulatorLimits& limits = {}) {
    const std::string path = folder_.file("simulator");
    std::ofstream(path) << "#!/bin/sh\n" << script << '\n';
    ::chmod(path.c_str(), 0755);
    try {
      run_simulator(path, program_, limits);
    } catch (const SimulatorError& error) {
      return error.what();
    }
    return "no error";
  }

  test::TemporaryFolder folder_;
  SimulationProgram program_;
};

TEST_F(BadSimulator, IsKilled) {
  EXPECT_THAT(failure("kill -9 $$"), AllOf(HasSubstr("killed by signal 9"), HasSubstr("Killed")));
  EXPECT_THAT(failure("kill -SEGV $$"), HasSubstr("signal 11"));
}

TEST_F(BadSimulator, Fails) {
  EXPECT_EQ(failure("echo 'nest-simulate: out of paper' >&2; exit 3"),
            "nest-simulate failed with exit code 3: out of paper");
  EXPECT_THAT(failure("exit 1"), HasSubstr("failed with exit code 1"));
}

TEST_F(BadSimulator, Starves) {
  EXPECT_THAT(failure("exec sleep 60", {.seconds = 0.3}), HasSubstr("took more than 0.3 s"));
  EXPECT_THAT(failure("while true; do echo working >&2; sleep 0.01; done", {.seconds = 0.3}),
              HasSubstr("took more than 0.3 s"));
}

TEST_F(BadSimulator, TalksNonsense) {
  EXPECT_THAT(failure("cat >/dev/null; echo hello"), HasSubstr("something else than a timeline"));
  EXPECT_THAT(failure("cat >/dev/null"), HasSubstr("something else than a timeline"));
  EXPECT_THAT(failure("cat"), HasSubstr("the schema is not nest.timeline/1"));
  EXPECT_THAT(failure("cat >/dev/null; head -c 300000 /dev/zero", {.answer_bytes = 100'000}),
              HasSubstr("more than 100000 bytes"));
  const std::string wrong = R"({"schema":"nest.timeline/1","engine":"x","total_s":0.5,"start_s":[0],"end_s":[0.5]})";
  EXPECT_THAT(failure("cat >/dev/null; echo '" + wrong + "'"), HasSubstr("faster than possible"));
  const std::string cut = wrong.substr(0, 40);
  EXPECT_THAT(failure("cat >/dev/null; echo '" + cut + "'"), HasSubstr("something else than a timeline"));
}

// One that does not read, with more to say than a pipe holds.
TEST_F(BadSimulator, DoesNotListen) {
  program_.activities.assign(200'000, {1, {}, {}});
  EXPECT_THAT(failure("exit 4"), HasSubstr("exit code 4"));
}

TEST_F(BadSimulator, IsNotThere) {
  EXPECT_THROW(run_simulator(folder_.file("nothing"), program_), SimulatorError);
  ::setenv("NEST_SIMULATE", folder_.file("nothing").c_str(), 1);
  EXPECT_THROW(find_simulator(), SimulatorError);
  ::unsetenv("NEST_SIMULATE");
}

TEST_F(BadSimulator, GoodAnswersPass) {
  EXPECT_EQ(failure("cat >/dev/null; echo '{\"schema\":\"nest.timeline/1\",\"engine\":\"x\",\"total_s\":1,\"start_s\":"
                    "[0],\"end_s\":[1]}'"),
            "no error");
}

}  // namespace
}  // namespace nest::simulate
