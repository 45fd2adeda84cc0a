#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"
#include "test_support/data.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

#ifdef NEST_HAS_SIMULATOR
#define NEST_REQUIRE_SIMULATOR() static_cast<void>(0)
#else
#define NEST_REQUIRE_SIMULATOR() GTEST_SKIP() << "nest-simulate was not built: SimGrid is not installed"
#endif

class SimulateCommand : public ::testing::Test {
 protected:
  std::string plan(const std::vector<std::string>& arguments) const {
    std::vector<std::string> words = {"eval", "--json"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const Result result = nest(words);
    EXPECT_EQ(result.code, 0) << result.err;
    std::ofstream(folder_.file("plan.json")) << result.out;
    return folder_.file("plan.json");
  }
  std::string small_plan() const {
    return plan({"--model", "llama3-8b", "--cluster", "h100-spine-leaf", "--devices", "32", "--global-batch", "64",
                 "--strategy", "tp=4,sp=1,pp=4,mbs=1"});
  }
  // nest with a script in the simulator's place, asked for a trace.
  Result with_simulator(const std::string& script) const {
    const std::string path = folder_.file("simulator");
    std::ofstream(path) << "#!/bin/sh\n" << script << '\n';
    ::chmod(path.c_str(), 0755);
    return run({.arguments = {"simulate", small_plan(), "--trace", folder_.file("trace.json"), "--time-limit", "2",
                              "--engine", "simgrid"},
                .environment = {{"NEST_SIMULATE", path}}});
  }
  bool trace_exists() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().find("trace") != std::string::npos) return true;
    }
    return false;
  }

  TemporaryFolder folder_;
};

TEST_F(SimulateCommand, WritesAPageThatStartsWithTheSimulation) {
  const std::string page = folder_.file("report.html");
  const Result result = nest({"simulate", small_plan(), "--html", page});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Report in " + page));
  const std::string text = read_file(page);
  EXPECT_THAT(text,
              AllOf(HasSubstr("The simulation"), HasSubstr("On the cluster"), HasSubstr("Executed event by event")));
  EXPECT_LT(text.find("The simulation"), text.find("On the cluster"));
  EXPECT_THAT(text, Not(HasSubstr("<script")));
  EXPECT_EQ(nest({"simulate", small_plan(), "--html", folder_.file("no/such/report.html")}).code, 2);
}

TEST_F(SimulateCommand, AnswersOnOneScreen) {
  const Result result = nest({"simulate", small_plan()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  EXPECT_THAT(result.out, AllOf(HasSubstr("simulated, "), HasSubstr("predicted: "), HasSubstr("pipeline bubble")));
  EXPECT_THAT(result.out, HasSubstr("busiest links"));
  EXPECT_THAT(result.out, HasSubstr("2 replicas behave in 1 way"));
  expect_fits_screen(result.out);
}

TEST_F(SimulateCommand, JsonHasBothTimesAndPartsThatSum) {
  const Result result = nest({"simulate", small_plan(), "--json", "--steps", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["schema"], "nest.simulation/1");
  for (const char* side : {"simulated", "predicted"}) {
    double parts = 0;
    for (const auto& [name, seconds] : json[side]["breakdown_s"].items()) parts += seconds.get<double>();
    EXPECT_NEAR(parts, json[side]["iteration_s"].get<double>(), 1e-9) << side;
  }
  EXPECT_NEAR(json["simulated"]["iteration_s"].get<double>() / json["predicted"]["iteration_s"].get<double>() - 1,
              json["difference"].get<double>(), 1e-12);
  EXPECT_LT(std::abs(json["difference"].get<double>()), 0.08);
  EXPECT_EQ(json["simulated"]["stages"].size(), 4U);
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["symmetry"]["replicas_simulated"], 1);
  // The same answer every time.
  EXPECT_EQ(nest({"simulate", small_plan(), "--json", "--steps", "2"}).out, result.out);
}

TEST_F(SimulateCommand, WithoutContentionAndOverlapAsPredicted) {
  const std::string file =
      plan({"--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "64", "--global-batch", "32", "--stack",
            "megatron-core-plain", "--strategy", "tp=8,sp=1,pp=8,mbs=1,recompute=full"});
  const Json json = Json::parse(nest({"simulate", file, "--json"}).out);
  EXPECT_LT(std::abs(json["difference"].get<double>()), 1e-6);
}

TEST_F(SimulateCommand, NamesTheCause) {
  const std::string file = plan({"--model", "mixtral-8x7b", "--cluster", "h100-spine-leaf", "--devices", "64",
                                 "--global-batch", "1024", "--strategy", "ep=8,pp=8,vpp=2,mbs=1,recompute=full"});
  const Result result = nest({"simulate", file});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("cause: messages from stage"));
  EXPECT_THAT(result.out, HasSubstr("link of node"));
  expect_fits_screen(result.out);
}

TEST_F(SimulateCommand, WritesATrace) {
  const Result result = nest({"simulate", small_plan(), "--trace", folder_.file("trace.json")});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Trace written to"));
  std::ifstream file(folder_.file("trace.json"));
  const Json trace = Json::parse(file);
  EXPECT_GT(trace["traceEvents"].size(), 200U);
  const Result unwritable = nest({"simulate", small_plan(), "--trace", folder_.file("no/such/trace.json")});
  EXPECT_EQ(unwritable.code, 2);
  EXPECT_THAT(unwritable.out, IsEmpty());
}

TEST_F(SimulateCommand, SurvivesItsSimulator) {
  const auto failure = [&](const std::string& script) {
    const Result result = with_simulator(script);
    EXPECT_EQ(result.code, 1) << script;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_FALSE(trace_exists()) << script;
    return result.err;
  };
  EXPECT_THAT(failure("kill -9 $$"), StartsWith("nest: nest-simulate was killed by signal 9"));
  EXPECT_THAT(failure("exec sleep 30"), HasSubstr("took more than 2 s"));
  EXPECT_THAT(failure("cat"), HasSubstr("something else than a timeline"));
  EXPECT_THAT(failure("head -c 20000 /dev/urandom"), HasSubstr("something else than a timeline"));
  EXPECT_THAT(failure("echo 'nest-simulate: no' >&2; exit 2"), HasSubstr("exit code 2: no"));
}

TEST_F(SimulateCommand, SaysWhatToInstall) {
  // A copy of nest with nothing beside it.
  std::filesystem::copy_file(program_path(), folder_.file("nest"));
  const Result result = run({.arguments = {"simulate", small_plan(), "--engine", "simgrid"},
                             .environment = {{"PATH", "/nonexistent"}},
                             .program = folder_.file("nest")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("install libsimgrid-dev"));
  EXPECT_THAT(result.out, IsEmpty());
  // Its own engine needs nothing.
  const Result own = run({.arguments = {"simulate", small_plan(), "--json"},
                          .environment = {{"PATH", "/nonexistent"}},
                          .program = folder_.file("nest")});
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(Json::parse(own.out)["engine"], "nest");
}

TEST_F(SimulateCommand, JudgesAgree) {
  NEST_REQUIRE_SIMULATOR();
  const Json own = Json::parse(nest({"simulate", small_plan(), "--json", "--engine", "nest"}).out);
  const Json judge = Json::parse(nest({"simulate", small_plan(), "--json", "--engine", "simgrid"}).out);
  EXPECT_EQ(own["engine"], "nest");
  EXPECT_THAT(judge["engine"], StartsWith("SimGrid"));
  const double seconds = judge["simulated"]["iteration_s"];
  EXPECT_NEAR(own["simulated"]["iteration_s"].get<double>(), seconds, 1e-9 * seconds);
  EXPECT_EQ(own["predicted"], judge["predicted"]);
  EXPECT_EQ(own["symmetry"], judge["symmetry"]);
}

TEST_F(SimulateCommand, TellsHowMuchIsChance) {
  const Result result = nest({"simulate", small_plan(), "--json", "--runs", "3", "--noise", "2", "--seed", "5"});
  ASSERT_EQ(result.code, 0) << result.err;
  const Json noise = Json::parse(result.out)["noise"];
  EXPECT_EQ(noise["percent"], 2);
  EXPECT_EQ(noise["seed"], 5);
  ASSERT_EQ(noise["iteration_s"].size(), 3U);
  EXPECT_LE(noise["low_s"], noise["mean_s"]);
  EXPECT_GE(noise["high_s"], noise["mean_s"]);
  EXPECT_GT(noise["deviation_s"].get<double>(), 0);
  const Result text = nest({"simulate", small_plan(), "--runs", "3"});
  EXPECT_THAT(text.out, HasSubstr("in 3 runs with 1 % noise"));
  expect_fits_screen(text.out);
  EXPECT_TRUE(Json::parse(nest({"simulate", small_plan(), "--json"}).out)["noise"].is_null());
  EXPECT_EQ(nest({"simulate", small_plan(), "--noise", "2"}).code, 2);
  const Result loud = nest({"simulate", small_plan(), "--runs", "3", "--noise", "30"});
  EXPECT_EQ(loud.code, 2);
  EXPECT_THAT(loud.err, HasSubstr("--noise: 30 is no number of percent in 0 … 25"));
}

TEST_F(SimulateCommand, ExplainsMistakes) {
  EXPECT_EQ(nest({"simulate"}).code, 2);
  const Result missing = nest({"simulate", "no-such.json"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, StartsWith("nest: no-such.json: cannot be read"));
  EXPECT_EQ(nest({"simulate", small_plan(), "--steps", "0"}).code, 2);
  const Result engine = nest({"simulate", small_plan(), "--engine", "simgird"});
  EXPECT_EQ(engine.code, 2);
  EXPECT_THAT(engine.err, AllOf(HasSubstr("--engine"), HasSubstr("did you mean `simgrid`?")));
  Json broken = Json::parse(std::ifstream(small_plan()));
  broken["strategy"]["tp"] = broken["strategy"]["etp"] = 3;
  std::ofstream(folder_.file("plan.json")) << broken;
  const Result refused = nest({"simulate", folder_.file("plan.json")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("tp=3 does not divide"));
}

// The promised speed, with a wide margin for slow machines: 1,024 devices and 64 micro-batches within 5 s.
TEST_F(SimulateCommand, LargePlansAreQuick) {
  const std::string file = plan({"--model", "llama3-70b", "--cluster", "dgx-h100", "--devices", "1024",
                                 "--global-batch", "1024", "--strategy", "tp=8,sp=1,pp=8,mbs=1"});
  EXPECT_EQ(nest({"simulate", file, "--time-limit", "5"}).code, 0);
}

}  // namespace
}  // namespace nest::test
