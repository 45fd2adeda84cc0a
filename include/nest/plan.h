// A plan: which layers form which pipeline stage, how each is split, where every rank sits, what it costs, and what it
// was made for. Plain data, and complete: whoever wants to judge, price, run or print it needs nothing else.
//
// Files hold plans as JSON, schema nest.plan/3 (docs/formats.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nest/document.h"
#include "nest/strategy.h"

namespace nest {

struct StageTime {  // seconds, one micro-batch of one replica
  double forward = 0;
  double backward = 0;
  double weight = 0;     // of backward, weight gradients that the schedule computes apart; 0 where it does not
  double recompute = 0;  // and waiting for tensors that are on the host
  double tp = 0;
  double cp = 0;
  double ep = 0;
  double p2p = 0;
  double zero = 0;
  double total = 0;
};

struct StageMemory {  // bytes on one device
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;  // of all micro-batches in flight
  std::int64_t working = 0;      // transient: the largest moment of forward, backward or step
  std::int64_t buffers = 0;      // communication and library workspaces, framework reserve
  std::int64_t total = 0;        // what the allocator holds at the fullest moment
  double in_flight = 1;          // micro-batches; 0: not told
  std::int64_t allocated = 0;    // live tensors at that moment, at most `total`
  std::int64_t host = 0;         // pinned on the host, for optimizer state and activations that wait there
  std::int64_t needed = 0;       // total with margin, context and communicators: compared with the device's memory
  double out_of_memory = 0;      // probability that it does not fit (nest/interval.h)
  std::string moment;            // "layer backward", "head", "optimizer step", …
};

// A chunk of a stage.
struct ChunkPlan {
  int first = 0;  // layers, both ends included; none where the last is before the first
  int last = -1;
  double forward_s = 0;   // of one micro-batch, with the message that it waits for and gathered weights
  double backward_s = 0;  // the same, with what is recomputed
  double weight_s = 0;    // of backward, weight gradients that the schedule computes apart
};

struct StagePlan {
  int first = 0;  // layers, both ends included
  int last = 0;
  int zero = 0;
  std::int64_t zero_degree = 1;
  bool zero_outer = false;  // with ZeRO 3 over some of the replicas: the optimizer's state over all of them
  Recomputation recompute;
  StageTime time;
  StageMemory memory;
  std::string device;  // the kind that the stage is on; empty: the cluster's
  // The chunks of a stage whose layers are no run, in their order: first and last are then the ends of all of them, and
  // what lies between two chunks is on other stages. Empty: one run of layers, of which chunks are equal parts.
  std::vector<ChunkPlan> chunks;
};

struct Prediction {
  double iteration_s = 0;
  double spread = 0;  // how sure that is (nest/interval.h); 0: not known
  double samples_per_s = 0;
  double tokens_per_s_per_device = 0;
  double flops_per_s_per_device = 0;  // of the model, as training logs print it
  double mfu = 0;                     // of the precision's own peak; from 16 bits on of the 16-bit peak
  std::int64_t peak_memory_bytes = 0;
  struct Breakdown {  // seconds; sums to iteration_s
    double compute = 0;
    double recompute = 0;
    double bubble = 0;
    double tp = 0;
    double cp = 0;
    double ep = 0;
    double p2p = 0;
    double zero = 0;
    double grad_sync = 0;
    double optimizer = 0;
    double other = 0;
  } breakdown_s;
};

// The parts of a breakdown in the order in which they are shown, with names for programs and for people.
struct BreakdownPart {
  const char* key;
  const char* name;
  double Prediction::Breakdown::*seconds;
};
inline constexpr std::array kBreakdownParts = {
    BreakdownPart{"compute", "compute", &Prediction::Breakdown::compute},
    BreakdownPart{"recompute", "recomputation", &Prediction::Breakdown::recompute},
    BreakdownPart{"bubble", "pipeline bubble", &Prediction::Breakdown::bubble},
    BreakdownPart{"tp", "tensor parallel", &Prediction::Breakdown::tp},
    BreakdownPart{"cp", "context parallel", &Prediction::Breakdown::cp},
    BreakdownPart{"ep", "expert parallel", &Prediction::Breakdown::ep},
    BreakdownPart{"p2p", "stage to stage", &Prediction::Breakdown::p2p},
    BreakdownPart{"zero", "sharded weights", &Prediction::Breakdown::zero},
    BreakdownPart{"grad_sync", "gradient sync", &Prediction::Breakdown::grad_sync},
    BreakdownPart{"optimizer", "optimizer", &Prediction::Breakdown::optimizer},
    BreakdownPart{"other", "other", &Prediction::Breakdown::other}};

// What is trained, and how, apart from the strategy.
struct Run {
  std::int64_t global_batch = 0;  // sequences
  std::int64_t sequence = 0;
  std::int64_t encoder_sequence = 0;  // encoder-decoder models; 0: same as sequence
  std::int64_t mtp_layers = 0;        // depths that predict further tokens, beside the model's layers
  std::string
      routing;         // how evenly tokens choose experts: "forced", "cv=0.3", "overload=1.2"; empty: as the stack says
  std::string freeze;  // patterns of weights that are not trained, commas between them
  std::string lora;    // adapters beside frozen weights: "rank=16,targets=q,v"
  Precision precision = Precision::bf16;
  std::string stack = "megatron-core";  // name of the software
  std::string stack_reason;  // why it was chosen, where nobody named it: "for a dense model in bf16 on hopper"
  Optimizer optimizer = Optimizer::adam;
  std::string oom_risk;  // probability of running out of memory that a stage may have, "1%"; empty: the stack's margin
  std::int64_t optimizer_offload = 0;  // percent of the optimizer's state that waits, and is updated, on the host
};

// Plans of a search that were executed on the simulated network (nest/simulate.h): those of the answer and, where they
// do not take what the formula says, others that it prices below 1.1 times the best executed time, and those that could
// be fastest by a lower bound on all executions.
struct ExecutionRecord {
  double simulated_s = 0;     // a step of this plan
  std::int64_t executed = 0;  // plans
  std::int64_t bounded = 0;   // plans that were not: their lower bounds exceed the best
  bool complete = true;       // none that the formula prices so low was left out
  double least_s = 0;         // no plan takes less, without noise; 0: not worked out
  bool certain = false;       // without noise, least_s leaves no room for a plan that is 1 % faster
  std::int64_t runs = 0;      // executions with noise of which simulated_s is the mean; 0: it is of one without
  // The formula's optimum where that is another plan: its strategy, what it is priced at, what it takes.
  std::string formula;
  double formula_s = 0;
  double formula_simulated_s = 0;
};

// By what plans are compared and predicted: the formula alone, or what they take when they are executed on the simulated
// network. The search is the formula's either way; execution chooses among the plans that it prices below the best
// executed one.
enum class PlanJudge : std::uint8_t { formula, simulation };
inline constexpr std::array kJudgeWords = {Word<PlanJudge>{PlanJudge::formula, "formula"},
                                           Word<PlanJudge>{PlanJudge::simulation, "simulation"}};

// How a plan was found.
struct SearchRecord {
  double wall_s = 0;
  bool optimal = false;
  double lower_bound_s = 0;
  double candidates = 0;
  std::int64_t opened = 0;
  std::string planner;
  // Of equally good plans the simplest is taken (nest/search.h). Times are equally good within `tie`, a fraction of the
  // proven optimum's, which takes `fastest_s`; 0: no preference.
  double tie = 0;
  double fastest_s = 0;
  std::string fastest;  // the optimum's strategy; empty: this plan is it
  std::string simpler;  // what the optimum has that this plan does without: "uneven cuts, idle devices"
  std::optional<ExecutionRecord> execution;  // where plans were judged by it
  // What the question admitted: settings as in SearchOptions::set, and devices. Whoever searches for a plan that is
  // close to this one keeps to them.
  std::vector<std::string> set;
  std::int64_t max_devices = 0;  // 0: all of the cluster
  std::string target;            // plans of this framework were searched for, "megatron"; empty: all there are
  std::string target_version;    // whose rules they keep: "Megatron-Core 0.19"
};

struct ModelReference {
  std::string name;
  std::string title;  // for people: "Llama 3 70B"
  std::string family;
  std::int64_t parameters = 0;
  Document config;  // the config.json, or the traced graph
};

struct ClusterReference {
  std::string name;
  std::string device;
  std::int64_t devices = 0;
  Document description;  // the cluster file, the device in it unless that ships with nest
};

struct Plan {
  ModelReference model;
  ClusterReference cluster;
  Document stack;    // run.stack with every fact spelt out
  Document profile;  // measurements that replaced formulas; may be empty
  Run run;
  Strategy strategy;
  std::vector<StagePlan> stages;
  Prediction prediction;  // by the formula
  // What to expect instead, where a step takes another time (by more than 1 %) when it is executed on the simulated
  // network: nest/simulate.h.
  std::optional<Prediction> executed;
  std::vector<std::string> contended;  // then: which transfers others slow down, on which link, beside what, and when
  std::int64_t device_memory_bytes = 0;
  bool fits = true;
  std::string misfit;  // "stage 0 needs 91.3 GiB of 79.2 GiB (activations 52.1 GiB …)" when it does not
  std::string unsure;  // why it is much less sure than others, said first: the device or the stack was never calibrated
  std::vector<std::string> assumptions;  // what was taken for granted, to be printed
  std::vector<std::string> measured;     // layers or operators whose numbers come from the profile
  std::optional<SearchRecord> search;
  std::string source;  // the file that it was read from, for messages; empty: nest made it

  const Prediction& expected() const { return executed ? *executed : prediction; }
  std::size_t fullest_stage() const;  // the first of those that need most memory
};

}  // namespace nest
