// What each framework can run, one row each: the rules behind obstacles() and every search for plans that it runs.
//
// A new framework is a word in launch/frameworks.h, a row in framework_rules.cc, and a file that defines the row's
// functions; what several frameworks have in common is below.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cost/job.h"
#include "launch/frameworks.h"
#include "plan/limits.h"

namespace nest::exporter {

using Obstacles = std::vector<std::string>;

struct FrameworkRules {
  launch::Framework framework;
  const char* words;                  // for people: whose program it is
  const char* version;                // whose rules these are
  const char* usual_stack;            // whose prices are those of the framework as people run it
  bool knows_memory;                  // and whose memory is: what does not fit there is not written
  bool counts_stages_first;           // it also knows the order of ranks in which stages come before replicas
  bool cuts_evenly;                   // it gives all stages of a pipeline as many blocks, whatever it is told
  bool (*is_own)(cost::MemoryModel);  // a stack that accounts for memory like this is the framework's own
  bool (*computes_in)(Precision);
  // Adds what it cannot do, beyond what no framework can (batches that do not divide, placements that cannot be started):
  // of a strategy whose stages are treated like `like`, and of cuts between layers.
  void (*refuse)(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found);
  void (*refuse_cuts)(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                      Obstacles& found);
  // Takes from limits what it never does; what it does only sometimes is left to the two above.
  void (*restrict)(const cost::Job& job, plan::PlanLimits& limits);
};

// In the order of the enumeration.
const std::array<FrameworkRules, launch::kFrameworkNames.size()>& framework_rules();
const FrameworkRules& rules_of(launch::Framework framework);

// How a stage shards its state: ZeRO stage and over how many ranks, the optimizer's perhaps over all; {0, 1} where there
// is nothing to divide by.
struct Sharding {
  int zero = 0;
  std::int64_t degree = 1;
  bool outer = false;
  bool operator==(const Sharding&) const = default;
};
Sharding sharding_of(const Strategy& strategy, const StagePlan& stage);

// --- what rows are made of

// For frameworks that recompute layers as a whole, by habit or not: sets of modules and numbers of layers are Megatron's.
void refuse_megatron_recomputation(const StagePlan& like, Obstacles& found);
void admit_common_recomputation(bool selective, plan::PlanLimits& limits);

// Interleaving: micro-batches are a multiple of the stages; every chunk has layers, and as many of each kind as was priced.
void refuse_rounds(const cost::Job& job, const Strategy& strategy, Obstacles& found);
void refuse_chunks(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                   Obstacles& found);

// Optimizer state over more ranks than weights: Megatron's alone.
void refuse_hybrid(const Sharding& sharding, Obstacles& found);

// Orders with weight gradients apart, of a framework that has none.
void refuse_split_gradients(const Strategy& strategy, Obstacles& found);

// Activations on the host, of a framework that keeps them all on the device.
void refuse_host_activations(const Strategy& strategy, Obstacles& found);

// The functions of the rows, each in its framework's file.
void refuse_megatron(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found);
void restrict_megatron(const cost::Job& job, plan::PlanLimits& limits);
void refuse_deepspeed(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found);
void refuse_deepspeed_cuts(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                           Obstacles& found);
void restrict_to_deepspeed(const cost::Job& job, plan::PlanLimits& limits);
void refuse_torchtitan(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found);
void refuse_torchtitan_chunks(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                              Obstacles& found);
void restrict_to_torchtitan(const cost::Job& job, plan::PlanLimits& limits);
void refuse_titan_main(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found);
void restrict_to_titan_main(const cost::Job& job, plan::PlanLimits& limits);
void refuse_accelerate(const cost::Job& job, const Strategy& strategy, const StagePlan& like, Obstacles& found);
void restrict_to_accelerate(const cost::Job& job, plan::PlanLimits& limits);

}  // namespace nest::exporter
