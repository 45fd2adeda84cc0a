// A plan: which layers form which pipeline stage, how each is split, and where every rank sits. Plain data; whoever
// wants to judge, price, run or print it starts from here.
//
// Ranks and devices. With a = tp * cp * ep devices per stage of one replica, p stages and d = d_in * d_out replicas,
// rank q of stage s of replica (r_out, r_in) sits on device
//     r_out * pitch + (s * d_in + r_in) * a + q,            pitch >= p * d_in * a
// d_in = 1 keeps a pipeline together, d_in = d keeps the replicas of a stage together (Megatron's default). Inside the
// a devices tensor-parallel ranks are innermost, then context, then expert.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "doc/value.h"
#include "schedule/kind.h"
#include "split/local_layer.h"
#include "split/split.h"

namespace nest {

struct Strategy {
  Split split;
  std::int64_t pp = 1;
  std::int64_t dp = 1;  // replicas of the whole pipeline; experts' ranks are not counted here
  std::int64_t micro_batch = 1;
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t virtual_stages = 1;  // chunks per stage; more than 1 only when interleaved
  std::int64_t dp_inner = 1;        // d_in
  std::int64_t pitch = 0;           // 0: tight, p * d_in * a

  std::int64_t devices_per_stage() const { return split.tp * split.cp * split.ep; }
  std::int64_t pipeline_block() const { return pp * dp_inner * devices_per_stage(); }
  std::int64_t effective_pitch() const { return pitch == 0 ? pipeline_block() : pitch; }
  // Devices from the first to the last, idle ones between pipelines included.
  std::int64_t devices_spanned() const { return (dp / dp_inner - 1) * effective_pitch() + pipeline_block(); }
  std::int64_t devices_used() const { return pp * dp * devices_per_stage(); }
  // Sequences per optimizer step are spread over this many data-parallel ranks: experts' ranks read their own.
  std::int64_t batch_ranks() const { return dp * split.ep; }
  bool operator==(const Strategy&) const = default;
};

// Device of rank `inner` of stage `stage` of replica `replica` = r_out * d_in + r_in.
std::int64_t device_of(const Strategy& strategy, std::int64_t replica, std::int64_t stage, std::int64_t inner);

struct StageTime {  // seconds, one micro-batch of one replica
  double forward = 0;
  double backward = 0;
  double recompute = 0;
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
  std::int64_t total = 0;
  double in_flight = 1;  // micro-batches
};

struct StagePlan {
  int first = 0;  // layers, both ends included
  int last = 0;
  int zero = 0;
  std::int64_t zero_degree = 1;
  Recompute recompute = Recompute::none;
  StageTime time;
  StageMemory memory;
};

struct Prediction {
  double iteration_s = 0;
  double samples_per_s = 0;
  double tokens_per_s_per_device = 0;
  double mfu = 0;
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
  std::int64_t encoder_sequence = 0;
  std::string precision = "bf16";
  std::string stack = "megatron-core";
  std::string optimizer = "adam";
};

struct SearchRecord {
  double wall_s = 0;
  bool optimal = false;
  double lower_bound_s = 0;
  double candidates = 0;
  std::int64_t opened = 0;
  std::string planner;
};

// What the plan is for, complete enough to judge, price or run it without any other file.
struct ModelReference {
  std::string name;
  std::string family;
  std::int64_t parameters = 0;
  Document config;  // the config.json
};

struct ClusterReference {
  std::string name;
  std::string device;
  std::int64_t devices = 0;
  Document description;  // the cluster file
};

struct Plan {
  ModelReference model;
  ClusterReference cluster;
  Run run;
  Strategy strategy;
  std::vector<StagePlan> stages;
  Prediction prediction;
  std::optional<SearchRecord> search;
};

// Micro-batches per replica and step: ceil(B / (b * batch_ranks)).
std::int64_t micro_batches(const Strategy& strategy, std::int64_t global_batch);

const char* to_string(Schedule schedule);

}  // namespace nest
