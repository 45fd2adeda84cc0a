// Several pools of devices, each of one kind: which of them to use for what.
//
//   question.cluster = "fleet.yaml";                // that names pools (docs/formats.md)
//   if (has_pools(question.cluster)) std::cout << to_text(plan_pools(question));
//
// Every pool is planned alone, with all of its devices, and told are
//     fastest    the fewest seconds per token
//     cheapest   the least cost per token at the pools' prices, or device-hours where not all of them have one
//     fits       on which there is a plan at all
// A plan says of every stage which kind of device it is on (StagePlan::device). Today that is one kind for all stages;
// files with several are refused by name, and no plan of a pipeline across kinds is looked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nest/job.h"
#include "nest/report.h"
#include "nest/search.h"

namespace nest {

// Whether it is a file, or text, that names pools. Throws InputError where it is one and is wrong.
bool has_pools(const Input& cluster);

struct PlannedPool {
  std::string name;
  std::string device;
  std::int64_t devices = 0;          // that it has
  double price_per_device_hour = 0;  // 0: not told
  std::optional<Answer> answer;      // nothing where the job cannot be on it: `note` says why
  std::string note;                  // where there is no plan
  // Where there is a plan, for a billion tokens:
  double tokens_per_s = 0;
  double device_hours_per_gtoken = 0;  // of the devices that it spans
  double cost_per_gtoken = 0;          // 0: no price

  const Plan* plan() const { return answer && !answer->plans.empty() ? &answer->plans.front() : nullptr; }
};

struct PoolsAnswer {
  std::string name;  // of the file
  std::vector<PlannedPool> pools;
  bool is_priced = false;  // all pools with a plan have a price: `cheapest` is of money, else of device-hours
  std::optional<std::size_t> fastest, cheapest;
  std::optional<std::size_t> chosen;  // by the objective: one of the two; its plan has everything that is told of one
  bool is_stopped = false;            // some search was: what is told of it is the best so far
};

// `question.devices` and `nodes` must not be given: a pool has the devices that it has. One time limit for all. Throws
// InputError where the file is wrong, or the job cannot be on any pool.
PoolsAnswer plan_pools(const Question& question, const SearchOptions& options = {});

std::string to_text(const PoolsAnswer& answer, const ReportOptions& options = {});
// The chosen plan's file with `pools`; or nest.no-plan/1 with `pools`.
std::string to_json(const PoolsAnswer& answer, const ReportOptions& options = {});
// The chosen plan's page with a section of its own; or what would make one fit on the pool with most memory.
std::string to_html(const PoolsAnswer& answer, const ReportOptions& options = {});

}  // namespace nest
