#include "paper/points.h"

#include <fmt/format.h>

#include <array>
#include <set>

#include "base/error.h"
#include "base/units.h"
#include "model/presets.h"

namespace nest::paper {
namespace {

constexpr std::array kModels = {"bert-large", "llama2-7b", "llama3-70b", "gpt3-175b", "mixtral-8x7b"};
constexpr std::int64_t kGigabyte = 1'000'000'000;

void add_fat_tree(std::vector<Point>& points) {
  for (const char* model : kModels) {
    for (const std::int64_t devices : {64, 128, 256, 512, 1024}) {
      points.push_back({"fat-tree", model, "tpuv4-fat-tree", devices});
    }
  }
}

void add_micro_batches(std::vector<Point>& points) {
  for (const char* model : kModels) {
    for (const std::int64_t devices : {256, 512}) {
      for (const std::int64_t size : {1, 2, 4, 8}) {
        points.push_back({"micro-batch", model, "tpuv4-fat-tree", devices, size});
      }
    }
  }
}

void add_other_clusters(std::vector<Point>& points) {
  for (const std::int64_t devices : {128, 256, 512, 1024}) {
    points.push_back({"spine-leaf", "gpt3-35b", "h100-spine-leaf", devices});
  }
  for (const char* model : kModels) points.push_back({"spine-leaf", model, "h100-spine-leaf", 1024});
  for (const std::int64_t devices : {8, 16}) {
    points.push_back({"v100", "mixtral-790m", "v100-cluster", devices});
  }
}

// With and without sharding, where memory is scarce.
void add_memory(std::vector<Point>& points) {
  const auto add = [&](const char* model, std::int64_t devices, std::int64_t bytes) {
    Point point{"memory", model, "tpuv4-fat-tree", devices};
    point.memory_bytes = bytes;
    points.push_back(point);
    point.settings = {"zero=0"};
    points.push_back(point);
  };
  add("llama3-70b", 256, 24 * kGigabyte);
  add("llama3-70b", 1024, 24 * kGigabyte);
  add("bert-large", 64, kPaperBertBytes);
  for (const std::int64_t gigabytes : {2, 3, 4}) add("bert-large", 64, gigabytes * kGigabyte);
}

void add_networks(std::vector<Point>& points) {
  for (const char* model : {"llama3-70b", "gpt3-175b", "mixtral-8x7b"}) {
    for (const double factor : {1.0, 2.0, 4.0, 8.0}) {
      Point point{"network", model, "tpuv4-fat-tree", 512};
      point.oversubscription = factor;
      points.push_back(point);
    }
    points.push_back({"network", model, "tpuv4-torus", 512});
  }
}

// The two groups for which the paper gives means.
void add_published(std::vector<Point>& points) {
  const std::vector<Point> all = points;
  for (const Point& point : all) {
    if (point.group != "fat-tree" && point.group != "spine-leaf") continue;
    points.push_back(point);
    points.back().group = "published-" + point.group;
    points.back().published = true;
  }
}

}  // namespace

std::string Point::id() const {
  std::string text = fmt::format("{} {} {} mbs={}", model, cluster, devices, micro_batch);
  if (memory_bytes > 0) text += fmt::format(" memory={:g}GB", static_cast<double>(memory_bytes) * 1e-9);
  if (oversubscription != 1) text += fmt::format(" oversubscription={:g}", oversubscription);
  for (const std::string& setting : settings) text += " " + setting;
  if (published) text += " as published";
  return text;
}

std::vector<Point> all_points() {
  std::vector<Point> points;
  add_fat_tree(points);
  add_other_clusters(points);
  add_micro_batches(points);
  add_memory(points);
  add_networks(points);
  add_published(points);
  return points;
}

std::vector<Point> distinct_points(const std::string& group) {
  std::vector<Point> points;
  std::set<std::string> known;
  for (const Point& point : all_points()) {
    if (group.empty() ? point.published : point.group != group) continue;
    if (known.insert(point.id()).second) points.push_back(point);
  }
  return points;
}

std::vector<std::string> group_names() {
  return {"fat-tree",           "spine-leaf",          "v100", "micro-batch", "memory", "network",
          "published-fat-tree", "published-spine-leaf"};
}

cost::Job job_of(const Point& point) {
  const auto architecture = model::find_model_preset(point.model);
  auto cluster = cluster::find_cluster(point.cluster, point.devices);
  NEST_CHECK(architecture && cluster, "the evaluation names presets: " + point.id());
  if (point.memory_bytes > 0) cluster->device.memory_bytes = point.memory_bytes;
  if (point.oversubscription != 1) {
    cluster->levels.back().oversubscription = point.oversubscription;
    cluster->fabric = cluster::make_fabric(cluster->levels, cluster->devices);
  }
  Run run;
  run.global_batch = kGlobalBatch;
  run.sequence = architecture->default_sequence;
  if (point.published) run.optimizer = Optimizer::sgd;
  const bool old = cluster->device.peak(Precision::bf16) <= 0;  // before 16-bit brain floats
  run.precision = old ? Precision::fp16 : Precision::bf16;
  return cost::make_job(*architecture, run, cost::find_stack(run.stack).value(), *cluster);
}

std::vector<std::string> settings_of(const Point& point) {
  std::vector<std::string> settings = {fmt::format("mbs={}", point.micro_batch)};
  settings.insert(settings.end(), point.settings.begin(), point.settings.end());
  return settings;
}

plan::PlanLimits limits_of(const std::vector<std::string>& settings) {
  plan::PlanLimits limits;
  for (const std::string& setting : settings) plan::set_limit(limits, setting);
  return limits;
}

}  // namespace nest::paper
