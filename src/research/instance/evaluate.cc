#include "instance/evaluate.h"

#include <algorithm>

#include "base/checked.h"
#include "base/index.h"

namespace nest::instance {
namespace {

struct Link {
  int level;
  double bytes_per_s;  // of the narrowest level on the way
  double latency_s;

  double hop_s(std::int64_t bytes) const {
    const double one_way_s = real(bytes) / bytes_per_s + latency_s;
    return level == 0 ? one_way_s : 2 * one_way_s;
  }
};

// Number of divisions by group sizes that bring two devices together, less one.
int shared_level(const ProfileInstance& instance, std::int64_t x, std::int64_t y) {
  for (std::size_t i = 0; i < instance.levels.size(); ++i) {
    x /= instance.levels[i].group;
    y /= instance.levels[i].group;
    if (x == y) return static_cast<int>(i);
  }
  return static_cast<int>(instance.levels.size()) - 1;  // unreachable where the groups hold all devices
}

Link link_at(const ProfileInstance& instance, int level) {
  Link link{level, instance.levels[0].bandwidth_bytes_per_s, instance.levels[at(level)].latency_s};
  for (int i = 1; i <= level; ++i) {
    link.bytes_per_s = std::min(link.bytes_per_s, instance.levels[at(i)].bandwidth_bytes_per_s);
  }
  return link;
}

// The nodes first … last of one graph as one stage.
class StageJudge {
 public:
  StageJudge(const ProfileInstance& instance, const ProfileGraph& graph, int first, int last)
      : instance_(instance), graph_(graph), first_(first), last_(last) {}

  double forward_s(const Link& in) const {
    double end_s = 0;
    for (int k = first_; k <= last_; ++k) {
      double start_s = end_s;
      for (const ProfileEdge& edge : graph_.edges) {
        if (edge.destination == k && !holds(edge.source)) start_s = std::max(start_s, in.hop_s(edge.bytes));
      }
      end_s = start_s + node(k).forward_s;
    }
    return end_s;
  }

  double backward_s(const Link& out, bool recompute) const {
    double earliest_s = 0;
    for (int k = first_; recompute && k <= last_; ++k) earliest_s += node(k).backward_s;
    double end_s = 0;
    for (int k = last_; k >= first_; --k) {
      double start_s = std::max(earliest_s, end_s);
      for (const ProfileEdge& edge : graph_.edges) {
        if (edge.source == k && !holds(edge.destination)) start_s = std::max(start_s, out.hop_s(edge.bytes));
      }
      end_s = start_s + node(k).backward_s;
    }
    return end_s;
  }

  std::int64_t parameter_bytes() const {
    std::int64_t bytes = 0;
    for (int k = first_; k <= last_; ++k) bytes += node(k).parameter_bytes;
    return bytes;
  }

  std::int64_t memory_bytes(int from_end) const {
    std::int64_t activations = 0;
    for (int k = first_; k <= last_; ++k) activations += node(k).activation_bytes;
    std::int64_t entering = 0;
    for (const ProfileEdge& edge : graph_.edges) {
      if (holds(edge.destination) && !holds(edge.source)) entering += edge.bytes;
    }
    const std::int64_t parameters = parameter_bytes();
    const std::int64_t optimizer = instance_.optimizer == ProfileOptimizer::adam ? 6 * parameters : 0;
    const std::int64_t stash = instance_.recompute ? entering : activations;
    return 2 * parameters + optimizer + activations + (from_end - 1) * stash;
  }

 private:
  bool holds(int k) const { return k >= first_ && k <= last_; }
  const ProfileNode& node(int k) const { return graph_.nodes[at(k)]; }

  const ProfileInstance& instance_;
  const ProfileGraph& graph_;
  int first_;
  int last_;
};

// Gradients of one stage with that many parameters, over replicas whose first devices are `pitch` apart.
double synchronisation_s(const ProfileInstance& instance, std::int64_t parameter_bytes, std::int64_t replicas,
                         std::int64_t pitch) {
  const auto bytes = real(parameter_bytes);
  double total_s = 0;
  double divisor = 1;
  for (std::int64_t reached = 2; reached <= replicas; reached *= 2) {
    total_s += instance.levels[0].latency_s + bytes / divisor / instance.levels[0].bandwidth_bytes_per_s;
    divisor *= 2;
  }
  int top = 0;
  for (std::int64_t r = 1; r < replicas; ++r) top = std::max(top, shared_level(instance, 0, r * pitch));
  double low_s = 0;
  for (int l = 1; l <= top; ++l) {
    const ProfileLevel& level = instance.levels[at(l)];
    total_s += 2 * (level.latency_s + bytes / level.bandwidth_bytes_per_s) + low_s;
    low_s += total_s;
  }
  return total_s;
}

const ProfileGraph* find_graph(const ProfileInstance& instance, std::int64_t width) {
  for (const ProfileGraph& graph : instance.graphs) {
    if (graph.width == width) return &graph;
  }
  return nullptr;
}

bool are_cuts(const std::vector<int>& cuts, std::size_t nodes) {
  if (cuts.empty() || cuts.front() != 0) return false;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i] <= cuts[i - 1]) return false;
  }
  return at(cuts.back()) < nodes;
}

std::vector<ProfileViolation> shape_violations(const ProfileInstance& instance, const ProfilePlan& plan) {
  std::vector<ProfileViolation> violations;
  const ProfileGraph* graph = find_graph(instance, plan.width);
  if (!graph) return {ProfileViolation::unknown_width};
  if (!are_cuts(plan.cuts, graph->nodes.size())) violations.push_back(ProfileViolation::bad_cuts);
  if (plan.replicas < 1 || plan.replicas > std::min(instance.devices, instance.micro_batches)) {
    violations.push_back(ProfileViolation::bad_replicas);
  }
  if (!violations.empty()) return violations;
  const std::int64_t available = instance.devices / plan.replicas / instance.stage_devices(*graph);
  if (static_cast<std::int64_t>(plan.cuts.size()) > available) violations.push_back(ProfileViolation::too_many_devices);
  return violations;
}

ProfileStage judge_stage(const ProfileInstance& instance, const ProfileGraph& graph, const ProfilePlan& plan,
                         std::size_t i) {
  const std::size_t stages = plan.cuts.size();
  const int first = plan.cuts[i];
  const int last = (i + 1 < stages ? plan.cuts[i + 1] : static_cast<int>(graph.nodes.size())) - 1;
  const auto s = static_cast<int>(stages - i);
  const std::int64_t a = instance.stage_devices(graph);

  ProfileStage stage;
  stage.first_node = first;
  stage.node_count = last - first + 1;
  stage.from_end = s;
  stage.in_level = i == 0 ? 0 : shared_level(instance, s * a, s * a - 1);
  stage.out_level = s == 1 ? 0 : shared_level(instance, (s - 1) * a, (s - 1) * a - 1);
  const StageJudge judge(instance, graph, first, last);
  stage.forward_s = judge.forward_s(link_at(instance, stage.in_level));
  stage.backward_s = judge.backward_s(link_at(instance, stage.out_level), instance.recompute && s > 1);
  stage.load_s = stage.forward_s + stage.backward_s;
  stage.parameter_bytes = judge.parameter_bytes();
  stage.memory_bytes = judge.memory_bytes(s);
  stage.fits = stage.memory_bytes <= instance.device_memory_bytes;
  return stage;
}

}  // namespace

std::string describe(ProfileViolation violation) {
  switch (violation) {
    case ProfileViolation::unknown_width: return "the instance has no layers of that tensor width";
    case ProfileViolation::bad_cuts: return "the cuts do not divide the layers into stages";
    case ProfileViolation::bad_replicas:
      return "the number of replicas is not within 1 and min(devices, micro-batches)";
    case ProfileViolation::too_many_devices: return "the plan needs more devices than there are";
    case ProfileViolation::memory: return "a stage needs more memory than a device has";
  }
  return {};
}

ProfileEvaluation evaluate_profile_plan(const ProfileInstance& instance, const ProfilePlan& plan) {
  ProfileEvaluation evaluation;
  evaluation.violations = shape_violations(instance, plan);
  if (!evaluation.valid()) return evaluation;

  const ProfileGraph& graph = *find_graph(instance, plan.width);
  bool all_fit = true;
  for (std::size_t i = 0; i < plan.cuts.size(); ++i) {
    const ProfileStage& stage = evaluation.stages.emplace_back(judge_stage(instance, graph, plan, i));
    evaluation.max_load_s = std::max(evaluation.max_load_s, stage.load_s);
    all_fit = all_fit && stage.fits;
  }
  if (!all_fit) evaluation.violations.push_back(ProfileViolation::memory);

  const auto stages = static_cast<std::int64_t>(plan.cuts.size());
  evaluation.sync_s = synchronisation_s(instance, evaluation.stages.front().parameter_bytes, plan.replicas,
                                        stages * instance.stage_devices(graph));
  const std::int64_t slots = ceil_div(instance.micro_batches, plan.replicas) + stages - 1;
  evaluation.objective_s = evaluation.max_load_s * real(slots) + evaluation.sync_s;
  return evaluation;
}

}  // namespace nest::instance
