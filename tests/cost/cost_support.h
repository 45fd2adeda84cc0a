// Jobs on clusters of 8-device nodes with one port per device, for the tests of times.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "cost/evaluate.h"
#include "model/presets.h"

namespace nest::cost {

struct JobSpec {
  std::string model = "llama3-8b";
  std::string device = "h100";
  std::string stack = "megatron-core";
  std::int64_t devices = 8;
  double port_bytes_per_s = 50e9;
  std::int64_t batch = 128;
  std::int64_t sequence = 8192;
  Precision precision = Precision::bf16;
};

inline cluster::Cluster rail_cluster(const std::string& device, std::int64_t devices, double port_bytes_per_s = 50e9) {
  cluster::Cluster cluster;
  cluster.name = "nodes of 8";
  cluster.device = cluster::find_device(device).value();
  cluster.devices = devices;
  const std::int64_t node = std::min<std::int64_t>(8, devices);
  cluster.levels.push_back({.name = "node",
                            .group = node,
                            .counts = {},
                            .bandwidth_bytes_per_s = cluster.device.link_bytes_per_s,
                            .latency_s = 3.2e-6,
                            .efficiency = 0.788});
  if (devices > node)
    cluster.levels.push_back({.name = "pod",
                              .group = devices / node,
                              .counts = {},
                              .bandwidth_bytes_per_s = port_bytes_per_s,
                              .latency_s = 8e-6,
                              .efficiency = 0.647,
                              .rails = true});
  cluster.fabric = cluster::make_fabric(cluster.levels, devices);
  return cluster;
}

inline Job test_job(const JobSpec& spec) {
  Run run;
  run.global_batch = spec.batch;
  run.sequence = spec.sequence;
  run.precision = spec.precision;
  return make_job(model::find_model_preset(spec.model).value(), run, find_stack(spec.stack).value(),
                  rail_cluster(spec.device, spec.devices, spec.port_bytes_per_s));
}

struct Layout {
  std::int64_t tp = 1, cp = 1, ep = 1, pp = 1, dp = 1, virtual_stages = 1, micro_batch = 1;
  bool sp = false;
  std::int64_t etp = 0;
};

inline Strategy strategy_of(const Layout& layout) {
  Strategy strategy;
  strategy.split = {layout.tp, layout.sp, layout.cp, layout.ep, layout.etp};
  strategy.pp = layout.pp;
  strategy.dp = strategy.dp_inner = layout.dp;
  strategy.micro_batch = layout.micro_batch;
  strategy.virtual_stages = layout.virtual_stages;
  strategy.schedule = layout.virtual_stages > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
  return strategy;
}

inline Plan evaluate_even(const Job& job, const Layout& layout, Recompute recompute = Recompute::none, int zero = 1) {
  const Strategy strategy = strategy_of(layout);
  return evaluate(job, strategy, even_stages(job, strategy, recompute, zero));
}

}  // namespace nest::cost
