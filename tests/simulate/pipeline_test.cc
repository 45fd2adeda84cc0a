// The passes and messages of lowered plans, with seeded times on a network without contention: what the engine finds is
// the longest path through the schedule's orders.
#include <gmock/gmock.h>

#include <random>

#include "model/presets.h"
#include "reference_engine.h"
#include "schedule/pipeline.h"
#include "simulate/lower.h"
#include "simulate_client/client.h"

namespace nest::simulate {
namespace {

constexpr std::int64_t kMostStages = 6;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }
  double seconds() { return 0.05 + 0.001 * static_cast<double>(below(1000)); }

 private:
  std::mt19937_64 random_;
};

// Deferred gradients of the head and the like are not part of the schedule: their time becomes 0.
struct RandomSchedule {
  schedule::Pipeline pipeline;
  schedule::PipelineSeconds seconds;
  LoweredPlan lowered;
};

cost::Job make_job_with(const std::string& stack) {
  Run run;
  run.sequence = 512;
  run.global_batch = 1;
  return cost::make_job(model::find_model_preset("bert-large").value(), run, cost::find_stack(stack).value(),
                        cluster::find_cluster("dgx-h100", 8).value());
}

Strategy random_strategy(Dice& dice) {
  Strategy s;
  s.pp = 1 + dice.below(kMostStages);
  s.schedule = dice.below(3) == 0 ? Schedule::gpipe : Schedule::one_f_one_b;
  if (s.pp > 1 && dice.below(2) == 0) {
    s.schedule = Schedule::interleaved;
    s.virtual_stages = 2 + dice.below(2);
    if (dice.below(2) == 0) s.group = s.pp + dice.below(4);
  }
  if (s.pp > 1 && dice.below(3) == 0) {
    constexpr Schedule kSplit[] = {Schedule::zb_h1, Schedule::zbv, Schedule::v_half, Schedule::v_min};
    s.schedule = kSplit[dice.below(4)];
    s.virtual_stages = s.schedule == Schedule::zb_h1 ? 1 : 2;
    s.group = 0;
  }
  return s;
}

// Every message has a link of its own, so that none meets another.
void send(SimulationProgram& program, SimulatedActivity& activity, double seconds, Dice& dice) {
  activity.flows.clear();
  activity.seconds = 0;
  if (dice.below(4) > 0) {
    activity.seconds = seconds;
    return;
  }
  const auto index = static_cast<std::int32_t>(program.links.size());
  program.links.push_back({"own", 1e9, 1, 1});
  program.routes.push_back({{{index, 1}}, 1});
  activity.flows.push_back({static_cast<std::int32_t>(program.routes.size()) - 1, seconds / 4, 0.75e9 * seconds});
}

RandomSchedule random_schedule(cost::Job& job, Dice& dice) {
  const Strategy s = random_strategy(dice);
  job.run.global_batch = 1 + dice.below(10);
  const schedule::Shape shape{s.pp, s.virtual_stages, job.run.global_batch, s.group};
  RandomSchedule made{{s.schedule, shape}, {}, lower_plan(job, s, cost::even_stages(job, s, Recompute::none, 0, 1))};
  schedule::PipelineSeconds& seconds = made.seconds;
  const bool overlapped = made.lowered.work.sends.overlapped;
  seconds.sends = made.lowered.work.sends;
  for (std::int64_t g = 0; g < shape.positions(); ++g) {
    seconds.chunks.push_back({dice.seconds(), dice.seconds(), dice.seconds()});
    for (auto* messages : {&seconds.forward, &seconds.backward}) {
      const double taken_s = dice.seconds();
      messages->push_back({overlapped ? taken_s : 0, overlapped ? 0 : taken_s});
    }
  }
  SimulationProgram& program = made.lowered.program;
  program.links.clear();
  program.routes.clear();
  std::vector<std::size_t> next(static_cast<std::size_t>(s.pp), 0);  // pass of every stage
  for (std::size_t i = 0; i < made.lowered.labels.size(); ++i) {
    const ActivityLabel& label = made.lowered.labels[i];
    SimulatedActivity& activity = program.activities[i];
    if (label.part == Part::forward || label.part == Part::backward) {
      const auto& chunk = seconds.chunks[static_cast<std::size_t>(made.pipeline.position(label.stage, label.chunk))];
      const auto stage = static_cast<std::size_t>(label.stage);
      switch (made.pipeline.orders()[stage][next[stage]++].pass) {
        case schedule::Pass::forward: activity.seconds = chunk.forward_s; break;
        case schedule::Pass::backward: activity.seconds = chunk.input_s + chunk.weight_s; break;
        case schedule::Pass::input_gradient: activity.seconds = chunk.input_s; break;
        case schedule::Pass::weight_gradient: activity.seconds = chunk.weight_s; break;
      }
    } else if (label.part == Part::message) {
      const std::int64_t from = made.pipeline.position(label.from_stage, label.chunk);
      const auto& message = label.backward ? seconds.backward[static_cast<std::size_t>(from - 1)]
                                           : seconds.forward[static_cast<std::size_t>(from)];
      send(program, activity, label.hidden ? message.travel_s : message.wait_s, dice);
    } else {
      activity.seconds = 0;
      activity.flows.clear();
    }
  }
  return made;
}

// When every pass ends, in the order of the program.
void expect_longest_path(const RandomSchedule& made, const Timeline& timeline, std::size_t offset, double near) {
  const schedule::PlayedPipeline played = schedule::play(made.pipeline, made.seconds);
  std::vector<std::size_t> next(made.pipeline.orders().size(), 0);
  double last_s = 0;
  for (std::size_t i = 0; i < made.lowered.labels.size(); ++i) {
    const ActivityLabel& label = made.lowered.labels[i];
    last_s = std::max(last_s, timeline.end_s[offset + i]);
    if (label.part != Part::forward && label.part != Part::backward) continue;
    const auto stage = static_cast<std::size_t>(label.stage);
    const schedule::Operation& operation = made.pipeline.orders()[stage][next[stage]];
    ASSERT_EQ(operation.micro_batch, label.micro_batch);
    ASSERT_EQ(operation.chunk, label.chunk);
    const schedule::Span& span = played.stages[stage][next[stage]++];
    ASSERT_NEAR(timeline.start_s[offset + i], span.begin_s, near);
    ASSERT_NEAR(timeline.end_s[offset + i], span.end_s, near);
  }
  EXPECT_NEAR(last_s, played.total_s, near);
}

TEST(SimulatedPipeline, IsTheLongestPath) {
  Dice dice(13);
  for (const char* stack : {"megatron-core-plain", "megatron-core"}) {
    cost::Job job = make_job_with(stack);
    for (int k = 0; k < 600; ++k) {
      const RandomSchedule made = random_schedule(job, dice);
      expect_longest_path(made, test::reference_execute(made.lowered.program), 0, 1e-9);
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << stack << ", case " << k;
    }
  }
}

// All at once, side by side in one program.
TEST(SimulatedPipeline, IsTheLongestPathForSimGrid) {
  NEST_REQUIRE_SIMGRID();
  Dice dice(14);
  cost::Job job = make_job_with("megatron-core");
  std::vector<RandomSchedule> all;
  SimulationProgram together;
  std::vector<std::size_t> offsets;
  for (int k = 0; k < 200; ++k) {
    const SimulationProgram& program = all.emplace_back(random_schedule(job, dice)).lowered.program;
    const auto activities = static_cast<std::int32_t>(together.activities.size());
    const auto links = static_cast<std::int32_t>(together.links.size());
    const auto routes = static_cast<std::int32_t>(together.routes.size());
    offsets.push_back(together.activities.size());
    together.links.insert(together.links.end(), program.links.begin(), program.links.end());
    for (SimulatedRoute route : program.routes) {
      for (RouteLoad& load : route.loads) load.link += links;
      together.routes.push_back(std::move(route));
    }
    for (SimulatedActivity activity : program.activities) {
      for (SimulatedFlow& flow : activity.flows) flow.route += routes;
      for (std::int32_t& before : activity.after) before += activities;
      together.activities.push_back(std::move(activity));
    }
  }
  const Timeline timeline = run_simulator(NEST_SIMULATE_PROGRAM, together);
  for (std::size_t k = 0; k < all.size(); ++k) {
    expect_longest_path(all[k], timeline, offsets[k], 1e-9);
    if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "case " << k;
  }
}

}  // namespace
}  // namespace nest::simulate
