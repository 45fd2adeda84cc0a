// A second judge of plans, ours or hand-written. It knows the model, the cluster and arithmetic, and believes no number
// in the plan that it can work out itself. With the cost model and the search it shares what a plan is (plan/) and what
// one layer becomes on one device (localise() of split/: parameters, kept tensors, FLOPs), and nothing else: ranks and
// groups, sharding, what is in flight, the pipeline's law and the network's levels are worked out here once more.
//
// Memory is judged by a floor from first principles: weights, gradients and optimizer state after sharding, plus the
// tensors that autograd keeps for the micro-batches in flight (of a recomputed layer its input). A plan whose floor
// exceeds the device cannot run under any allocator; a plan that passes may still be too large by transient buffers,
// which is the cost model's business.
//
// Time is judged by consistency: parts must sum to the claimed total, the total must follow from the stages by the
// pipeline's law, no plan may be faster than the device's peak allows, and no message faster than the level of the
// network that it crosses (levels.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "model/graph.h"
#include "plan/plan.h"

namespace nest::check {

enum class ViolationCode : std::uint8_t {
  stage_count,     // as many stages as pp
  layer_range,     // stages name layers that exist, first <= last
  layer_missing,   // every layer is in a stage
  layer_twice,     // and in one only
  layer_order,     // in order
  virtual_stages,  // interleaving: vpp > 1, pp > 1, at least vpp layers per stage; groups of micro-batches
  split_heads,     // tp divides heads, and key/value heads or is a multiple of them
  split_width,     // tp divides feed-forward widths, etp experts' widths
  split_experts,   // ep divides the experts; with tp they need sp
  split_sequence,  // cp and sp divide the sequence
  device_count,    // all ranks fit on the cluster
  device_twice,    // no device holds two ranks
  device_list,     // the devices listed for a stage are those of its ranks
  replica_groups,  // dp_inner divides dp
  expert_groups,   // etp ep divides tp cp dp_inner
  batch_idle,      // no replica without work
  zero_degree,     // sharding degree divides its group
  memory,          // the floor fits
  memory_sum,      // claimed parts sum to the claimed total
  time_sum,        // claimed breakdown sums to the claimed total
  time_law,        // the total follows from the stages
  time_peak,       // not faster than peak arithmetic
  time_level,      // messages between stages not faster than the level they cross
  throughput,      // samples/s and tokens/s follow from the total
  memory_device,   // claimed tensors are on the device, and memory is no less than the floor
  memory_claims,   // the peak is the fullest stage's, what fits and what is in flight follows
  stage_time,      // parts of a stage's time sum to its total
  breakdown,       // the breakdown is that of the slowest stage
  work,            // FLOP/s are the model's, MFU is their share of the peak
  lower_bound,     // bounds do not exceed what they bound
  parameters,      // the model has as many
  repeated,        // what a file repeats for its readers is what follows from the rest
};

struct Violation {
  ViolationCode code;
  std::string text;  // one line, with the numbers
};

// What the plan's software keeps per parameter at least, bytes: the smallest of all recipes unless told.
struct StateFloor {
  double weights = 2;
  double gradients = 2;
  double optimizer = 8;
  bool activations = true;      // false: what layers keep was measured, and is not known here
  double kept_input_bytes = 0;  // as model::Implementation says
  double kept_attention_bytes = 0;
};

// The least for this run: momentum alone takes half of Adam's state, two moments of one byte a quarter.
StateFloor state_floor(const Run& run);

// Devices that a file lists for the stages of the first replicas that hold all weights, in rank order; empty where it
// lists none.
using ListedDevices = std::vector<std::vector<std::int64_t>>;

// Seconds that all devices together take at least for a step: its FLOPs at the device's peak.
double least_device_seconds(const Run& run, const model::Model& model, const cluster::Device& device);

// All violations, in the order of the codes; empty for a sound plan. Claims (time, memory, prediction) that a
// hand-written plan leaves at 0 are not judged.
std::vector<Violation> check_plan(const Plan& plan, const model::Model& model, const cluster::Cluster& cluster,
                                  const StateFloor& state, const ListedDevices& listed = {});
std::vector<Violation> check_plan(const Plan& plan, const model::Model& model, const cluster::Cluster& cluster);

// The floor of every stage's memory, bytes on one device. The plan's shape must be sound.
std::vector<double> memory_floors(const Plan& plan, const model::Model& model, const StateFloor& state);

inline constexpr int kViolationCodes = 32;

const char* to_string(ViolationCode code);

}  // namespace nest::check
