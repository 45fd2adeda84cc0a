// What the evaluation asks: models on clusters of several sizes, networks and memories.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/job.h"
#include "plan/limits.h"

namespace nest::paper {

inline constexpr std::int64_t kGlobalBatch = 4096;            // sequences, at every point
inline constexpr std::int64_t kPaperBertBytes = 120'000'000;  // of memory, in which the paper trains BERT

struct Point {
  std::string group;  // "fat-tree", "micro-batch", "spine-leaf", "v100", "memory", "network", "published-…"
  std::string model;
  std::string cluster;  // a preset
  std::int64_t devices = 0;
  std::int64_t micro_batch = 1;
  std::int64_t memory_bytes = 0;        // 0: the device's own
  double oversubscription = 1;          // of the outermost level
  std::vector<std::string> settings{};  // as --set takes them
  bool published = false;               // every planner within what it published (publications.h), and SGD

  // Everything but the group: points of several groups are run once.
  std::string id() const;
};

// Group by group; a point may be in several.
std::vector<Point> all_points();
// Every point once. With a name, those of this group alone; without, those that are not as published.
std::vector<Point> distinct_points(const std::string& group = {});
std::vector<std::string> group_names();

cost::Job job_of(const Point& point);
std::vector<std::string> settings_of(const Point& point);
plan::PlanLimits limits_of(const std::vector<std::string>& settings);

}  // namespace nest::paper
