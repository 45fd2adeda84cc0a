#include "cost/offload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/index.h"

namespace nest::cost {
namespace {

constexpr double kWeightBytes = 2;       // that come back, in 16 bits
constexpr double kHostUpdateBytes = 32;  // set: read and written per parameter by the host's Adam
constexpr double kPinnedBytes = 16;      // weight, gradient and two moments in fp32
constexpr double kGatheredWeights =
    3;  // bytes of weights and their copies; below it they are kept in 8 or 4 bits alone

double share_of(const Job& job) { return real(job.run.optimizer_offload) / 100; }

}  // namespace

std::string refuse_offload(const Job& job) {
  if (job.stack.memory != MemoryModel::megatron) {
    return fmt::format("stack {} keeps all state on the device; Megatron-Core's stacks can offload", job.stack.name);
  }
  if (job.run.optimizer != Optimizer::adam) {
    return fmt::format("the host updates with adam, not with {}", to_string(job.run.optimizer));
  }
  if (storage_of(job) != Storage::bf16 && job.stack.weight_bytes < kGatheredWeights) {
    return fmt::format("stack {} gathers its weights in {}, which the host cannot update", job.stack.name,
                       to_string(job.stack.storage));
  }
  if (job.cluster.device.host_link_bytes_per_s <= 0) {
    return fmt::format("the rate of {}'s link to its host is not known (host_link in its file)",
                       job.cluster.device.name);
  }
  return {};
}

double OffloadRule::seconds(double parameters, double tensors) const {
  const double link_s = share * parameters * link_s_per_parameter, host_s = share * parameters * host_s_per_parameter;
  if (!overlaps) return link_s + host_s;
  return std::max(link_s, host_s) + link_s / std::max(1.0, tensors);
}

OffloadRule offload_rule(const Job& job) {
  OffloadRule rule;
  rule.share = share_of(job);
  if (rule.share <= 0) return rule;
  const cluster::Device& device = job.cluster.device;
  rule.link_s_per_parameter = (job.stack.gradient_bytes + kWeightBytes) / device.host_link_bytes_per_s;
  rule.host_s_per_parameter = kHostUpdateBytes / device.host_memory_bytes_per_s;
  rule.overlaps = job.stack.offload_overlap;
  return rule;
}

double pinned_bytes(const Job& job, double parameters) { return kPinnedBytes * share_of(job) * parameters; }

}  // namespace nest::cost
