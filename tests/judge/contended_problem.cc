#include "contended_problem.h"

#include <fmt/format.h>

#include "model/config.h"
#include "oracle.h"

namespace nest::test {
namespace {

std::string level(const char* name, std::int64_t group, double bytes_per_s, const std::string& more = "") {
  return fmt::format("  - {{name: {}, group: {}, bandwidth: {:.0f}MB/s, latency: 5us{}}}\n", name, group,
                     bytes_per_s / 1e6, more);
}

// A pass of a layer takes about a millisecond, and a message as many megabytes as that: 2 to 50 GB/s are slow and fast.
std::string contended_cluster(Dice& dice, std::uint32_t kind) {
  const double uplink = dice.magnitude(2e9, 50e9);
  std::string text = "name: contended\ndevice: h100\n";
  // Nodes of four are full meshes now and then, of links about as fast as what leaves the node.
  const auto node_of = [&](std::int64_t devices) {
    return devices == 4 && dice.one_in(2) ? level("node", 4, dice.magnitude(5e9, 100e9), ", full_mesh: true")
                                          : level("node", devices, 400e9);
  };
  const auto oversubscribed = [&] { return fmt::format(", oversubscription: {}", dice.any({2, 4, 8})); };
  switch (kind) {
    case 0:  // an uplink per node
      text += "levels:\n" + node_of(dice.any<std::int64_t>({2, 2, 4}));
      return text + level("pod", dice.any<std::int64_t>({2, 3, 4}), uplink);
    case 1:  // leaves of two nodes
      text += "levels:\n" + level("node", 2, 400e9) + level("leaf", 2, uplink);
      return text + level("spine", dice.any<std::int64_t>({2, 3, 4}), 2 * uplink, oversubscribed());
    case 2:  // a port per device
      text += "levels:\n" + node_of(dice.any<std::int64_t>({2, 4}));
      text += level("leaf", 2, uplink, ", rails: true");
      return text + level("spine", 2, 4 * uplink, oversubscribed());
    default:
      return text + fmt::format("torus: {{dims: {}, wrap: true, bandwidth: {:.0f}MB/s, latency: 1us}}\n",
                                dice.any({"[4]", "[8]", "[4, 2]", "[4, 4]", "[2, 2, 2]"}), uplink / 1e6);
  }
}

void use_settings(Problem& problem) {
  problem.limits = {};
  for (const std::string& setting : problem.settings) plan::set_limit(problem.limits, setting);
}

// Leaves out one thing after the other until every plan can be executed.
void narrow_to_few(Dice& dice, Problem& problem) {
  const std::vector<std::string> narrower = {"mbs=1",  "uniform=1", "pp=..4",     "zero=1", "tp=1,2",
                                             "tp=1",   "vpp=..2",   "pitch=0",    "sp=1",   "pp=2..",
                                             "dp=..4", "vpp=2",     "dp_inner=1", "pp=..2", "pp=4"};
  for (use_settings(problem); count_plans(problem) > kMostContendedPlans; use_settings(problem)) {
    const std::vector<std::string> before = problem.settings;
    problem.settings.push_back(dice.any(narrower));
    use_settings(problem);
    if (all_strategies(problem.job, problem.limits, problem.devices()).empty()) problem.settings = before;
  }
}

}  // namespace

std::int64_t count_plans(const Problem& problem) {
  struct Enough {};
  std::int64_t plans = 0;
  try {
    visit_plans(problem.job, problem.limits, problem.devices(), [&](const auto&, const auto&, double) {
      if (++plans > kMostContendedPlans) throw Enough();
    });
  } catch (const Enough&) {
    return plans;
  }
  return plans;
}

Problem contended_problem(std::uint32_t seed) {
  Dice dice(seed);
  Problem problem;
  problem.seed = seed;
  problem.leaning = dice.any({Leaning::plain, Leaning::interleaved, Leaning::interleaved, Leaning::experts});
  problem.config = random_config(dice, problem.leaning);
  const model::Architecture architecture = model::read_config(doc::parse_json("model.json", problem.config), "model");
  const cluster::Cluster cluster =
      cluster::read_cluster(doc::parse_yaml("cluster.yaml", contended_cluster(dice, seed % 4)), "contended");
  Run run;
  run.global_batch = dice.any<std::int64_t>({4, 8, 8, 12, 16, 24});
  run.sequence = dice.any<std::int64_t>({1024, 2048, 4096});
  run.precision = Precision::bf16;
  run.stack = dice.any({"megatron-core", "megatron-core", "megatron-core-plain", "nanotron"});
  problem.job = cost::make_job(architecture, run, cost::find_stack(run.stack).value(), cluster);
  problem.settings = {"recompute=none",
                      "cp=1",
                      "uneven_batch=0",
                      dice.any({"zero=1", "zero=0,1", "zero=2", "zero=1,3"}),
                      dice.any({"pp=..4", "pp=2..", "pp=2..4"}),
                      dice.any({"vpp=..2", "vpp=..3", "vpp=1"})};
  narrow_to_few(dice, problem);
  return problem;
}

}  // namespace nest::test
