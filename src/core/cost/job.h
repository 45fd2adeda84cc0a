// Everything about a training run except how it is divided: the input, beside a strategy, of every price.
#pragma once

#include <memory>
#include <string>

#include "cluster/cluster.h"
#include "cost/stack.h"
#include "model/build.h"
#include "plan/plan.h"
#include "schedule/step_time.h"

namespace nest::cost {

class MeasuredProfile;  // cost/profile.h

struct Job {
  model::Model model;        // as the stack's kernels run it: what is kept in memory
  model::Model fused_model;  // with fused kernels: what times are calibrated on (eager stacks pay a factor)
  Run run;
  SoftwareStack stack;
  cluster::Cluster cluster;
  std::string title;                               // of the model, for people; its name unless told
  std::int64_t parameters = 0;                     // of the model
  std::shared_ptr<const MeasuredProfile> profile;  // measured operators or layers; may be null
  // By what plans are priced. `least`: no plan takes less when it is executed (simulate/engine.h). What is exchanged then
  // is alone on the network, in the place where that takes least; of gradients in a pipeline, and of what is exchanged
  // behind compute, no more counts than every stage waits for.
  schedule::Law law = schedule::Law::formula;
};

// Builds both graphs. Throws InputError when the device has no such arithmetic.
Job make_job(const model::Architecture& architecture, const Run& run, const SoftwareStack& stack,
             const cluster::Cluster& cluster);

// The same for models that were read from a graph: as traced, and fused. Both have the same chain of layers.
Job make_job(model::Model model, model::Model fused_model, const Run& run, const SoftwareStack& stack,
             const cluster::Cluster& cluster);

// What every plan of this job says, whatever it decides: model, cluster, stack and profile with their documents, and
// the run. No strategy, no stages, no price.
Plan empty_plan(const Job& job);

// The stack's where products are of 8 or 4 bits, else 16 bits.
Storage storage_of(const Job& job);

model::Implementation implementation_of(const Job& job);  // of `model`
model::Implementation timed_implementation(
    const Job& job);  // the kernels whose sizes are timed: those of `fused_model`
Precision parse_precision(std::string_view text);

}  // namespace nest::cost
