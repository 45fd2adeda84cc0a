// The simulator as a process: what it computes, and what happens when it does not behave.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "random_program.h"
#include "reference_engine.h"
#include "simulate/engine.h"
#include "simulate/lower.h"
#include "simulate/program_json.h"
#include "simulate_client/client.h"
#include "simulation_check/random_plan.h"
#include "test_support/scale.h"
#include "test_support/temporary_folder.h"

namespace nest::simulate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SimGrid, AgreesWithTheReferenceEngine) {
  NEST_REQUIRE_SIMGRID();
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const SimulationProgram program = test::random_program(seed);
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

// The largest difference of a start or an end, as a share of the whole.
double largest_difference(const Timeline& a, const Timeline& b) {
  double apart_s = 0;
  for (std::size_t i = 0; i < a.start_s.size(); ++i) {
    apart_s = std::max({apart_s, std::abs(a.start_s[i] - b.start_s[i]), std::abs(a.end_s[i] - b.end_s[i])});
  }
  return a.total_s > 0 ? apart_s / a.total_s : apart_s;
}

// Every pass and every flow a little longer or shorter, by 1e-13 of it at most.
SimulationProgram shaken(SimulationProgram program, std::uint32_t seed) {
  std::mt19937 dice(seed);
  const auto share = [&] { return 1 + 1e-13 * (static_cast<double>(dice() % 2001) / 1000 - 1); };
  for (SimulatedActivity& activity : program.activities) {
    activity.seconds *= share();
    for (SimulatedFlow& flow : activity.flows) flow.bytes *= share();
  }
  return program;
}

TEST(SimGrid, AgreesWithOurEngineOnRandomPrograms) {
  NEST_REQUIRE_SIMGRID();
  for (std::uint32_t seed = 100; seed < 140; ++seed) {
    const SimulationProgram program = test::random_program(seed);
    EXPECT_LE(largest_difference(run_simulator(NEST_SIMULATE_PROGRAM, program), execute(program)), 1e-12) << seed;
  }
}

// Every activity of plans on all kinds of networks. A plan that makes 1e-13 to more than 1e-10 has no time that two
// engines could agree on: few are like that.
TEST(SimGrid, AgreesWithOurEngineOnRandomPlans) {
  NEST_REQUIRE_SIMGRID();
  const std::uint32_t plans = test::scaled(240, 48);
  std::uint32_t unstable = 0;
  for (std::uint32_t seed = 0; seed < plans; ++seed) {
    const RandomPlan plan = random_plan(seed / 2, seed % 2 == 0 ? DrawnFrom::presets : DrawnFrom::slow);
    SimulationProgram program = lower_plan(plan.job, plan.strategy, plan.stages).program;
    for (SimulatedActivity& activity : program.activities) {
      for (SimulatedFlow& flow : activity.flows)
        flow.bytes = std::round(flow.bytes * 1024) / 1024;  // as SimGrid counts
    }
    const Timeline own = execute(program);
    ASSERT_EQ(refuse_timeline(program, own), "") << "seed " << seed;
    if (largest_difference(own, execute(shaken(program, seed))) > 1e-10) {
      ++unstable;
      continue;
    }
    const Timeline judge = run_simulator(NEST_SIMULATE_PROGRAM, program);
    EXPECT_LE(largest_difference(judge, own), 1e-9) << "seed " << seed;
  }
  EXPECT_LE(unstable, plans / 10);
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

// One that has nothing more to say and does not end.
TEST_F(BadSimulator, OutlivesItsStreams) {
  EXPECT_THAT(failure("exec <&- >&- 2>&-; exec sleep 60", {.seconds = 0.3}), HasSubstr("took more than 0.3 s"));
}

// Whoever kills nest kills what it started.
TEST_F(BadSimulator, EndsWithWhoeverStartedIt) {
  const std::string path = folder_.file("simulator"), started = folder_.file("started");
  std::ofstream(path) << "#!/bin/sh\necho $$ >" << started << ".new; mv " << started << ".new " << started
                      << "; exec sleep 60\n";
  ::chmod(path.c_str(), 0755);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    try {
      run_simulator(path, program_);
    } catch (const SimulatorError&) {}
    ::_exit(0);
  }
  pid_t engine = 0;
  for (int tries = 0; tries < 1000 && !(std::ifstream(started) >> engine); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_GT(engine, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  const auto is_gone = [&] {
    std::string word, state;  // a zombie that nobody collects counts: "12 (sleep) Z"
    std::ifstream(fmt::format("/proc/{}/stat", engine)) >> word >> word >> state;
    return state.empty() || state == "Z";
  };
  for (int tries = 0; tries < 500 && !is_gone(); ++tries) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(is_gone());
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
