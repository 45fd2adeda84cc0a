#include "nest/map.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "plan/strategy_text.h"
#include "report/json.h"

namespace nest {
namespace {

using Outcome = MappedCell::Outcome;

const char* outcome_word(Outcome outcome) {
  switch (outcome) {
    case Outcome::optimal: return "optimal";
    case Outcome::limit: return "limit";
    case Outcome::no_plan: return "no_plan";
    case Outcome::impossible: break;
  }
  return "impossible";
}

MappedCell map_cell(const TrainingJob& job, const SearchOptions& options, const std::vector<std::string>& set) {
  SearchOptions asked = options;
  asked.why = false;
  asked.larger = false;
  asked.top = 1;
  asked.set.insert(asked.set.end(), set.begin(), set.end());
  Answer answer = find_plan(job, asked);
  MappedCell cell;
  cell.outcome = answer.outcome == PlanOutcome::optimal ? Outcome::optimal
                 : answer.outcome == PlanOutcome::limit ? Outcome::limit
                                                        : Outcome::no_plan;
  if (!answer.plans.empty()) cell.plan = std::move(answer.plans.front());
  if (answer.no_fit && answer.no_fit->closest) {
    cell.missing_bytes = std::max<std::int64_t>(0, answer.no_fit->closest->needed_bytes - job.device_memory_bytes());
  }
  return cell;
}

report::Json cell_json(const MappedCell& cell) {
  report::Json json = {{"outcome", outcome_word(cell.outcome)}};
  if (cell.plan) {
    const Plan& plan = *cell.plan;
    json["iteration_s"] = plan.expected().iteration_s;
    json["spread"] = plan.expected().spread;
    if (plan.search) json["lower_bound_s"] = plan.search->lower_bound_s;
    json["devices"] = plan.cluster.devices;
    json["devices_used"] = plan.strategy.devices_used();
    json["tokens_per_s"] = static_cast<double>(plan.run.global_batch) * static_cast<double>(plan.run.sequence) /
                           plan.expected().iteration_s;
    json["strategy"] = plan::strategy_text(plan.strategy);
    json["memory_bytes"] = plan.stages[plan.fullest_stage()].memory.needed;
  }
  if (cell.missing_bytes > 0) json["missing_bytes"] = cell.missing_bytes;
  if (!cell.reason.empty()) json["reason"] = cell.reason;
  return json;
}

}  // namespace

std::vector<MappedCell> map_cells(const Question& question, const SearchOptions& options,
                                  const std::vector<MapCell>& cells) {
  const Question for_framework = for_target(question, options.target);
  std::vector<MappedCell> mapped;
  std::optional<TrainingJob> job;
  const MapCell* of = nullptr;  // whose job that is
  for (const MapCell& cell : cells) {
    if (options.stop != nullptr && options.stop->load()) break;
    try {
      const bool same =
          of != nullptr && of->devices == cell.devices && of->global_batch == cell.global_batch && of->seq == cell.seq;
      if (!same) {
        Question asked = for_framework;
        if (cell.devices > 0) asked.devices = cell.devices;
        if (cell.global_batch > 0) asked.global_batch = cell.global_batch;
        if (cell.seq > 0) asked.seq = cell.seq;
        of = nullptr;
        job = read_job(asked);
        of = &cell;
      }
      mapped.push_back(map_cell(*job, options, cell.set));
    } catch (const InputError& error) {
      mapped.push_back({Outcome::impossible, {}, 0, error.what()});
    }
  }
  return mapped;
}

std::string to_json(const std::vector<MappedCell>& cells) {
  report::Json listed = report::Json::array();
  for (const MappedCell& cell : cells) listed.push_back(cell_json(cell));
  return report::to_text(report::Json{{"schema", "nest.map/1"}, {"cells", std::move(listed)}});
}

}  // namespace nest
