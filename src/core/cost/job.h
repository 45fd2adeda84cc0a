// Everything about a training run except how it is divided: the input, beside a strategy, of every price.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster.h"
#include "cost/stack.h"
#include "model/build.h"
#include "plan/plan.h"

namespace nest {

enum class ComputePrecision : std::uint8_t { bf16, fp16, fp8, fp4, fp32 };
enum class Optimizer : std::uint8_t { adam, sgd };

class MeasuredProfile;  // cost/profile.h

struct Job {
  Model model;        // as the stack's kernels run it: what is kept in memory
  Model fused_model;  // with fused kernels: what times are calibrated on (eager stacks pay a factor)
  Run run;
  SoftwareStack stack;
  ComputePrecision precision = ComputePrecision::bf16;
  Optimizer optimizer = Optimizer::adam;
  Cluster cluster;
  std::shared_ptr<const MeasuredProfile> profile;  // measured operators or layers; may be null
};

// Builds both graphs. Throws InputError when the device has no such arithmetic.
Job make_job(const Architecture& architecture, const Run& run, const SoftwareStack& stack, ComputePrecision precision,
             Optimizer optimizer, const Cluster& cluster);

// The same for models that were read from a graph: as traced, and fused. Both have the same chain of layers.
Job make_job(Model model, Model fused_model, const Run& run, const SoftwareStack& stack, ComputePrecision precision,
             Optimizer optimizer, const Cluster& cluster);

Implementation implementation_of(const Job& job);     // of `model`
Implementation timed_implementation(const Job& job);  // the kernels whose sizes are timed: those of `fused_model`
ComputePrecision parse_precision(std::string_view text);
const char* to_string(ComputePrecision precision);
const char* to_string(Optimizer optimizer);

}  // namespace nest
