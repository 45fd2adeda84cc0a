// How a training run is divided over devices: the decisions of a plan that hold for all stages.
//
//   tp   tensor parallel: heads, feed-forward columns and vocabulary are divided (Megatron column -> row)
//   sp   with tp: what lies between the tensor-parallel regions is divided along the sequence
//   cp   context parallel: the sequence is divided; keys and values travel around a ring
//   ep   expert parallel: the routed experts are spread over ep devices
//   etp  tensor parallelism inside an expert: tp (Megatron's default), or 1: experts stay whole and are spread over the
//        tensor-parallel ranks as well, ep * tp ranks in all
//   pp   stages of the pipeline
//   dp   replicas of the whole pipeline; experts' ranks are not counted here
//
// Ranks and devices. With a = tp * cp * ep devices per stage of one replica, p stages and d = d_in * d_out replicas,
// rank q of stage s of replica (r_out, r_in) sits on device
//     r_out * pitch + (s * d_in + r_in) * a + q,            pitch >= p * d_in * a
// d_in = 1 keeps a pipeline together, d_in = d keeps the replicas of a stage together (Megatron's default). Inside the
// a devices tensor-parallel ranks are innermost, then context, then expert.
#pragma once

#include <array>
#include <cstdint>

namespace nest {

// The words of an enumeration, as files, options and messages write them. What is listed is what may be asked for.
template <class Enum>
struct Word {
  Enum value;
  const char* text;
};

enum class Schedule : std::uint8_t { one_f_one_b, interleaved, gpipe };
inline constexpr std::array kScheduleWords = {Word<Schedule>{Schedule::one_f_one_b, "1f1b"},
                                              Word<Schedule>{Schedule::interleaved, "interleaved"},
                                              Word<Schedule>{Schedule::gpipe, "gpipe"}};

// What is recomputed in the backward pass.
//   none       nothing
//   selective  some modules, which ones is the stack's choice
//   full       the whole layer, from its input
enum class Recompute : std::uint8_t { none, selective, full };
inline constexpr std::array kRecomputeWords = {Word<Recompute>{Recompute::none, "none"},
                                               Word<Recompute>{Recompute::selective, "selective"},
                                               Word<Recompute>{Recompute::full, "full"}};

// Of matrix products. Nobody asks for tf32: it is the arithmetic with which some devices compute fp32.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16, fp8, fp4 };
inline constexpr std::array kPrecisionWords = {
    Word<Precision>{Precision::bf16, "bf16"}, Word<Precision>{Precision::fp16, "fp16"},
    Word<Precision>{Precision::fp8, "fp8"}, Word<Precision>{Precision::fp4, "fp4"},
    Word<Precision>{Precision::fp32, "fp32"}};

// Whose state is kept.
enum class Optimizer : std::uint8_t { adam, sgd };
inline constexpr std::array kOptimizerWords = {Word<Optimizer>{Optimizer::adam, "adam"},
                                               Word<Optimizer>{Optimizer::sgd, "sgd"}};

const char* to_string(Schedule schedule);
const char* to_string(Recompute mode);
const char* to_string(Precision precision);
const char* to_string(Optimizer optimizer);

// How one layer is divided.
struct Split {
  std::int64_t tp = 1;
  bool sp = false;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 0;  // 0: same as tp

  std::int64_t expert_tp() const { return etp == 0 ? tp : etp; }
  // Ranks that hold different experts: what Megatron calls the expert-parallel size.
  std::int64_t expert_ranks() const { return ep * (tp / expert_tp()); }
  bool operator==(const Split&) const = default;
};

struct Strategy {
  Split split;
  std::int64_t pp = 1;
  std::int64_t dp = 1;
  std::int64_t micro_batch = 1;  // sequences
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

// Micro-batches per replica and step: ceil(B / (b * batch_ranks)).
std::int64_t micro_batches(const Strategy& strategy, std::int64_t global_batch);

}  // namespace nest
