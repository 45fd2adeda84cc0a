#include "simulate/program.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "reference_engine.h"
#include "simulate/program_json.h"

namespace nest::simulate {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Link of 100 bytes/s; a route that loads it three times, one that loads it once.
SimulationProgram shared_link() {
  SimulationProgram program;
  program.links = {{"wire", 100, 1, 1}};
  program.routes = {{{{0, 3}}, 3}, {{{0, 1}}, 1}};
  program.activities = {
      {0.5, {}, {}}, {0, {{0, 0.1, 300}}, {0}}, {0, {{1, 0, 300}}, {0}}, {0, {}, {1, 2}}, {2, {}, {3}}};
  return program;
}

// By hand: flow 2 alone until 0.6 s moves 10 bytes; then both run at 100 / 4 = 25 bytes/s until flow 2 has its 290 at
// 12.2 s; flow 1 has 10 left, at 100 / 3: 0.3 s.
TEST(Program, RunsAsByHand) {
  const Timeline timeline = test::reference_execute(shared_link());
  EXPECT_THAT(timeline.start_s, ::testing::Pointwise(::testing::DoubleNear(1e-9), {0.0, 0.5, 0.5, 12.5, 12.5}));
  EXPECT_THAT(timeline.end_s, ::testing::Pointwise(::testing::DoubleNear(1e-9), {0.5, 12.5, 12.2, 12.5, 14.5}));
  EXPECT_NEAR(timeline.total_s, 14.5, 1e-9);
  EXPECT_THAT(refuse_timeline(shared_link(), timeline), IsEmpty());
}

TEST(Program, SurvivesJson) {
  EXPECT_EQ(read_program(program_to_json(shared_link())), shared_link());
  Timeline timeline = test::reference_execute(shared_link());
  const Timeline again = read_timeline(timeline_to_json(timeline));
  EXPECT_EQ(again.start_s, timeline.start_s);
  EXPECT_EQ(again.end_s, timeline.end_s);
  EXPECT_EQ(again.total_s, timeline.total_s);
  EXPECT_EQ(again.engine, "reference");
}

TEST(Program, RefusesWhatCannotRun) {
  const auto refused = [](auto breakage) {
    SimulationProgram program = shared_link();
    breakage(program);
    return refuse_program(program);
  };
  EXPECT_THAT(refused([](SimulationProgram&) {}), IsEmpty());
  EXPECT_THAT(refused([](SimulationProgram& p) { p.links[0].bytes_per_s = 0; }), HasSubstr("link 0"));
  EXPECT_THAT(refused([](SimulationProgram& p) { p.routes[0].loads[0].link = 1; }), HasSubstr("route 0"));
  EXPECT_THAT(refused([](SimulationProgram& p) { p.routes[0].loads[0].times = 0; }), HasSubstr("0 times"));
  EXPECT_THAT(refused([](SimulationProgram& p) { p.activities[0].seconds = -1; }), HasSubstr("activity 0 lasts -1"));
  EXPECT_THAT(refused([](SimulationProgram& p) { p.activities[1].flows[0].route = 9; }), HasSubstr("no route 9"));
  EXPECT_THAT(refused([](SimulationProgram& p) { p.activities[1].seconds = 1; }), HasSubstr("seconds and flows"));
  EXPECT_THAT(refused([](SimulationProgram& p) { p.activities[1].after = {7}; }), HasSubstr("activity 7"));
}

TEST(Program, RefusesTimelinesThatCannotBe) {
  const auto refused = [](auto breakage) {
    Timeline timeline = test::reference_execute(shared_link());
    breakage(timeline);
    return refuse_timeline(shared_link(), timeline);
  };
  EXPECT_THAT(refused([](Timeline& t) { t.end_s.pop_back(); }), HasSubstr("4 ends for 5 activities"));
  EXPECT_THAT(refused([](Timeline& t) { t.total_s = 1; }), HasSubstr("the end is said"));
  EXPECT_THAT(refused([](Timeline& t) { t.start_s[4] = 1; }), HasSubstr("activity 4 starts before"));
  EXPECT_THAT(refused([](Timeline& t) { t.end_s[0] = 0.4; }), HasSubstr("activity 0 is faster than possible"));
  EXPECT_THAT(refused([](Timeline& t) { t.end_s[2] = 3; }), HasSubstr("activity 2 is faster than possible"));
  EXPECT_THAT(refused([](Timeline& t) { t.end_s[1] = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("activity 1"));
}

TEST(Program, RefusesOtherDocuments) {
  EXPECT_THROW(read_program("garbage"), InputError);
  EXPECT_THROW(read_program("{}"), InputError);
  EXPECT_THROW(read_program(R"({"schema":"nest.timeline/1"})"), InputError);
  EXPECT_THROW(read_program(R"({"schema":"nest.program/1","links":[],"routes":[],"activities":[{"s":-1}]})"),
               InputError);
  EXPECT_THROW(read_timeline(R"({"schema":"nest.timeline/1","engine":"x","total_s":"y"})"), InputError);
  EXPECT_THROW(read_timeline(""), InputError);
}

}  // namespace
}  // namespace nest::simulate
