#include "html/drawing.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "html/device_map.h"
#include "html/network_use.h"
#include "html/pipeline_schedule.h"

namespace nest::html {
namespace {

using report::Json;

struct LiveChange {
  double second = 0;
  std::int64_t live = 0;
};

// Chunks of micro-batches whose activations a stage keeps, after every change.
std::vector<LiveChange> live_over_time(const std::vector<ScheduleCell>& cells) {
  std::map<std::pair<std::int64_t, std::int64_t>, double> last_end;  // of backward, by micro-batch and chunk
  std::vector<std::pair<double, std::int64_t>> steps;
  for (const ScheduleCell& cell : cells) {
    if (!cell.backward) {
      steps.emplace_back(cell.begin_s, 1);
      continue;
    }
    double& end = last_end[{cell.micro_batch, cell.chunk}];
    end = std::max(end, cell.end_s);
  }
  for (const auto& [which, end] : last_end) steps.emplace_back(end, -1);
  std::sort(steps.begin(), steps.end());  // at one moment what ends comes first
  std::vector<LiveChange> changes;
  std::int64_t live = 0;
  for (const auto& [second, step] : steps) {
    live += step;
    if (!changes.empty() && changes.back().second == second) {
      changes.back().live = live;
    } else {
      changes.push_back({second, live});
    }
  }
  return changes;
}

Json stage_drawing(const StagePlan& stage, const std::vector<ScheduleCell>& cells) {
  Json drawn = Json::array();
  for (const ScheduleCell& cell : cells) {
    drawn.push_back({cell.begin_s, cell.end_s, cell.weights ? 2 : cell.backward ? 1 : 0, cell.micro_batch, cell.chunk});
  }
  std::int64_t most = 1;
  Json live = Json::array();
  for (const LiveChange& change : live_over_time(cells)) {
    most = std::max(most, change.live);
    live.push_back({change.second, change.live});
  }
  const StageMemory& memory = stage.memory;
  return {{"cells", std::move(drawn)},
          {"live", std::move(live)},
          {"base_bytes", memory.needed - memory.activations},
          {"unit_bytes", static_cast<double>(memory.activations) / static_cast<double>(most)},
          {"peak_bytes", memory.needed}};
}

Json links_drawing(const NetworkUse& network, double step_s) {
  Json links = Json::array();
  for (std::size_t l = 0; l < network.links.size(); ++l) {
    const LinkKind& link = network.links[l];
    Json load = Json::array();
    double busy_s = 0;
    for (const Traffic& traffic : network.traffic) {
      const double seconds = network.busy_s(l, traffic);
      if (seconds <= 0) continue;
      busy_s += seconds;
      load.push_back({{"traffic", to_string(traffic.kind)}, {"bytes", traffic.link_bytes[l]}, {"busy_s", seconds}});
    }
    links.push_back({{"name", link.name},
                     {"links", link.links},
                     {"bytes_per_s", link.bytes_per_s},
                     {"busy_s", busy_s},
                     {"busy_share", step_s > 0 ? busy_s / step_s : 0},
                     {"load", std::move(load)}});
  }
  return links;
}

Json tiers_drawing(const cluster::Cluster& cluster) {
  Json tiers = Json::array();
  for (const Tier& tier : make_device_map(cluster).tiers) {
    tiers.push_back({{"name", tier.name}, {"made_up", tier.made_up}, {"starts", tier.starts}});
  }
  return tiers;
}

}  // namespace

Json pipeline_drawing(const cost::Job& job, const Plan& plan) {
  std::vector<PassTimes> times;
  for (const StagePlan& stage : plan.stages) times.push_back(pass_times(stage));
  const Strategy& strategy = plan.strategy;
  const PipelineSchedule played = play_schedule(strategy.schedule, strategy.virtual_stages, times,
                                                nest::micro_batches(strategy, plan.run.global_batch), strategy.group);
  Json stages = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    stages.push_back(stage_drawing(plan.stages[s], played.stages[s]));
  const auto& parts = plan.prediction.breakdown_s;
  return {{"schedule", to_string(strategy.schedule)},
          {"virtual_stages", strategy.virtual_stages},
          {"micro_batches", played.micro_batches},
          {"played", played.played},
          {"played_s", played.played_s},
          {"skipped_s", played.skipped_s},
          {"warm_up_s", played.warm_up_s},
          {"drain_s", played.drain_s},
          {"after_s", parts.grad_sync + parts.optimizer + parts.other},
          {"iteration_s", plan.prediction.iteration_s},
          {"bubble_s", parts.bubble},
          {"device_memory_bytes", job.cluster.device.memory_bytes},
          {"stages", std::move(stages)}};
}

Json placement_drawing(const cost::Job& job, const Plan& plan) {
  const groups::RankGroups ranks(plan.strategy);
  Json runs = Json::array();
  for (const DeviceRun& run : stage_runs(ranks, 0, job.cluster.devices)) {
    const auto place = ranks.place_of(run.begin);
    runs.push_back({run.begin, run.end, run.stage, place ? place->replica : -1});
  }
  const NetworkUse network = network_use(job, plan.strategy, plan);
  Json traffic = Json::array();
  for (const Traffic& kind : network.traffic) {
    traffic.push_back({{"kind", to_string(kind.kind)},
                       {"ranks", kind.ranks},
                       {"reach", kind.reach},
                       {"sent_bytes", kind.sent_bytes},
                       {"exchange_s", kind.exchange_s},
                       {"waited_s", kind.waited_s}});
  }
  Json drawing = {{"devices", job.cluster.devices},
                  {"used", plan.strategy.devices_used()},
                  {"tp", plan.strategy.split.tp},
                  {"stages", plan.strategy.pp},
                  {"replicas", plan.strategy.dp},
                  {"columns", make_device_map(job.cluster).columns},
                  {"tiers", tiers_drawing(job.cluster)},
                  {"node_names", job.cluster.node_names},
                  {"runs", std::move(runs)},
                  {"links", links_drawing(network, plan.prediction.iteration_s)},
                  {"traffic", std::move(traffic)}};
  if (job.cluster.torus) drawing["torus"] = {{"dims", job.cluster.torus->dims}, {"wrap", job.cluster.torus->wrap}};
  return drawing;
}

}  // namespace nest::html
