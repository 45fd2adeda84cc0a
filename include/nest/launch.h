// Somebody's own launch line, priced and compared with the best plan of the same framework.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nest/job.h"
#include "nest/style.h"

namespace nest {

struct LaunchQuestion {
  // The line, or a file with one: script, Megatron arguments or YAML, overrides of Megatron-Bridge or NeMo 2, DeepSpeed
  // JSON, torchtitan TOML. In memory, or what is no file's name: the line itself.
  Input from = {};
  std::vector<std::string> define = {};  // "NAME=value": variables that the line leaves open
  std::string with = {};                 // options added to those of the line
  Question job = {};                     // what the line does not say; no stack, which the line sets
  std::int64_t threads = 0;              // of the searches for the best plan; 0: one per core
  double time_limit_s = 0;               // of each; 0: none
  // By what all of them are compared: the line, every change of it, and the best plan (that of the formula).
  PlanJudge judge = PlanJudge::simulation;
  const std::atomic<bool>* stop = nullptr;
};

struct LaunchComparison;  // internal

struct LaunchAnswer {
  Plan yours;
  std::optional<Plan> best;  // that the framework can run; nothing where none fits
  std::shared_ptr<const LaunchComparison> comparison;
};

// Throws InputError, also where the line and the question contradict each other.
LaunchAnswer evaluate_launch(const LaunchQuestion& question);

// Yours beside the best plan, where the difference is, and what to change first.
std::string to_text(const LaunchAnswer& answer, const Style& style = Style());
std::string to_json(const LaunchAnswer& answer);

}  // namespace nest
