// How a training run is divided over devices: the decisions of a plan that hold for all stages.
//
//   tp   tensor parallel: heads, feed-forward columns and vocabulary are divided (Megatron column -> row)
//   sp   with tp: what lies between the tensor-parallel regions is divided along the sequence
//   cp   context parallel: the sequence is divided; how attention sees all of it is ContextExchange
//   dp   data parallel: replicas that read different sequences, all of them
//   pp   stages of the pipeline
//   etp  tensor parallelism inside a routed expert; unless said, that of everything else
//   ep   expert parallel: the routed experts are spread over ep ranks
//
// Two grids over the same ranks, with Megatron's meaning of every word. The N = tp cp dp ranks of a stage, numbered
// t + tp (c + cp d), hold everything but the routed experts; for these the same ranks are numbered x + etp (e + ep f)
// with edp = N / (etp ep) replicas f. So etp ep neighbouring ranks hold one set of experts: they take the ranks of tp
// first, then those of cp, then those of dp. ep multiplies no devices.
//
// Ranks and devices. With p stages, d = d_in d_out replicas and A = tp cp d_in, rank q of stage s of replica
// (r_out, r_in) sits on device
//     r_out * pitch + s * A + r_in * tp cp + q,            pitch >= p A,   etp ep divides A
// d_in = 1 keeps a pipeline together, d_in = d keeps the replicas of a stage together (Megatron's default).
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace nest {

// The words of an enumeration, as files, options and messages write them. What is listed is what may be asked for.
template <class Enum>
struct Word {
  Enum value;
  const char* text;
};

// In what order a stage of a pipeline works (schedule/rules.h): the classical three, and those that compute gradients
// of weights apart, which fill what would be idle.
enum class Schedule : std::uint8_t { one_f_one_b, interleaved, gpipe, zb_h1, zbv, v_half, v_min, dualpipev };
inline constexpr std::array kScheduleWords = {
    Word<Schedule>{Schedule::one_f_one_b, "1f1b"}, Word<Schedule>{Schedule::interleaved, "interleaved"},
    Word<Schedule>{Schedule::gpipe, "gpipe"},      Word<Schedule>{Schedule::zb_h1, "zb-h1"},
    Word<Schedule>{Schedule::zbv, "zbv"},          Word<Schedule>{Schedule::v_half, "v-half"},
    Word<Schedule>{Schedule::v_min, "v-min"},      Word<Schedule>{Schedule::dualpipev, "dualpipev"}};

// What a stage recomputes in its backward pass.
//   none       nothing
//   selective  some modules of every layer, which ones is the stack's choice
//   full       every layer, from its input
//   modules    a set of modules of every layer
//   block      of every chunk the first n layers, each from its input; the others nothing
//   uniform    every layer; inputs are kept of every n-th only
enum class Recompute : std::uint8_t { none, selective, full, modules, block, uniform };
inline constexpr std::array kRecomputeWords = {
    Word<Recompute>{Recompute::none, "none"},   Word<Recompute>{Recompute::selective, "selective"},
    Word<Recompute>{Recompute::full, "full"},   Word<Recompute>{Recompute::modules, "modules"},
    Word<Recompute>{Recompute::block, "block"}, Word<Recompute>{Recompute::uniform, "uniform"}};

// Modules of a layer that can be recomputed apart, in Megatron-Core's words. What comes out of a norm, of the
// projections of latent attention and of experts' activations is dropped as well: whoever needs it in backward waits for
// the recomputed copy. The others keep what goes in and what comes out.
enum class RecomputeModule : std::uint8_t { core_attn, layernorm, mla_up_proj, moe_act, mlp, moe, shared_experts };
inline constexpr std::array kRecomputeModuleWords = {
    Word<RecomputeModule>{RecomputeModule::core_attn, "core_attn"},
    Word<RecomputeModule>{RecomputeModule::layernorm, "layernorm"},
    Word<RecomputeModule>{RecomputeModule::mla_up_proj, "mla_up_proj"},
    Word<RecomputeModule>{RecomputeModule::moe_act, "moe_act"},
    Word<RecomputeModule>{RecomputeModule::mlp, "mlp"},
    Word<RecomputeModule>{RecomputeModule::moe, "moe"},
    Word<RecomputeModule>{RecomputeModule::shared_experts, "shared_experts"}};

using RecomputeSet = std::uint8_t;  // of modules: bit i for the i-th
constexpr RecomputeSet set_of(RecomputeModule module) {
  return static_cast<RecomputeSet>(1u << static_cast<unsigned>(module));
}

struct Recomputation {
  Recompute kind = Recompute::none;
  RecomputeSet modules = 0;  // of kind `modules`: some
  std::int32_t layers = 0;   // of kinds `block` and `uniform`: n, at least 1

  constexpr Recomputation() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): three of the kinds say everything
  constexpr Recomputation(Recompute simple) : kind(simple) {}
  static constexpr Recomputation of_modules(RecomputeSet modules) {
    Recomputation made(Recompute::modules);
    made.modules = modules;
    return made;
  }
  static constexpr Recomputation of_layers(Recompute kind, std::int32_t layers) {
    Recomputation made(kind);
    made.layers = layers;
    return made;
  }

  bool every_layer() const { return kind == Recompute::full || kind == Recompute::uniform; }  // from its input
  bool whole_layers() const { return every_layer() || kind == Recompute::block; }
  bool some_modules() const { return kind == Recompute::selective || kind == Recompute::modules; }
  bool operator==(const Recomputation&) const = default;
  bool operator<(const Recomputation& other) const {
    return std::tie(kind, modules, layers) < std::tie(other.kind, other.modules, other.layers);
  }
};

// Modules of a layer whose saved tensors may wait on the host for their backward pass, in Megatron-Core's words. What a
// module keeps leaves the device only where nobody else keeps it: attention's result with core_attn and attn_proj. The
// last stands for expert_fc1, moe_act and the product behind them, where the experts' kernels are fused into one.
enum class OffloadModule : std::uint8_t {
  attn_norm,
  qkv_linear,
  core_attn,
  attn_proj,
  mlp_norm,
  expert_fc1,
  moe_act,
  fused_group_mlp
};
inline constexpr std::array kOffloadModuleWords = {
    Word<OffloadModule>{OffloadModule::attn_norm, "attn_norm"},
    Word<OffloadModule>{OffloadModule::qkv_linear, "qkv_linear"},
    Word<OffloadModule>{OffloadModule::core_attn, "core_attn"},
    Word<OffloadModule>{OffloadModule::attn_proj, "attn_proj"},
    Word<OffloadModule>{OffloadModule::mlp_norm, "mlp_norm"},
    Word<OffloadModule>{OffloadModule::expert_fc1, "expert_fc1"},
    Word<OffloadModule>{OffloadModule::moe_act, "moe_act"},
    Word<OffloadModule>{OffloadModule::fused_group_mlp, "fused_group_mlp"}};

using OffloadSet = std::uint8_t;  // of modules: bit i for the i-th
constexpr OffloadSet set_of(OffloadModule module) {
  return static_cast<OffloadSet>(1u << static_cast<unsigned>(module));
}

// How the ranks of a sequence exchange what attention needs (Megatron's --cp-comm-type).
//   p2p         keys and values travel around a ring, behind the attention of what is there already
//   all_gather  keys and values are gathered before attention, their gradients scattered after it
//   a2a         all-to-alls trade tokens for heads and back (Ulysses): every rank attends whole sequences with some heads
//   a2a+p2p     all-to-alls among cp_inner neighbours, rings of cp / cp_inner ranks among those of equal heads
enum class ContextExchange : std::uint8_t { p2p, all_gather, a2a, a2a_p2p };
inline constexpr std::array kContextWords = {Word<ContextExchange>{ContextExchange::p2p, "p2p"},
                                             Word<ContextExchange>{ContextExchange::all_gather, "all_gather"},
                                             Word<ContextExchange>{ContextExchange::a2a, "a2a"},
                                             Word<ContextExchange>{ContextExchange::a2a_p2p, "a2a+p2p"}};

// Of matrix products. Nobody asks for tf32: it is the arithmetic with which some devices compute fp32.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16, fp8, fp4 };
inline constexpr std::array kPrecisionWords = {
    Word<Precision>{Precision::bf16, "bf16"}, Word<Precision>{Precision::fp16, "fp16"},
    Word<Precision>{Precision::fp8, "fp8"}, Word<Precision>{Precision::fp4, "fp4"},
    Word<Precision>{Precision::fp32, "fp32"}};

// Whose state is kept.
//   adam      two moments, as wide as the stack says
//   sgd       one momentum
//   muon      one momentum of the matrices of blocks, which are orthogonalised (cost/muon.h); Adam for everything else
//   adam8bit  two moments of one byte
enum class Optimizer : std::uint8_t { adam, sgd, muon, adam8bit };
inline constexpr std::array kOptimizerWords = {
    Word<Optimizer>{Optimizer::adam, "adam"}, Word<Optimizer>{Optimizer::sgd, "sgd"},
    Word<Optimizer>{Optimizer::muon, "muon"}, Word<Optimizer>{Optimizer::adam8bit, "adam8bit"}};

const char* to_string(Schedule schedule);
const char* to_string(Recompute kind);
const char* to_string(RecomputeModule module);
// "none", "selective", "full", "moe_act+layernorm", "block:4", "uniform:2", and back; nothing where it is none of these.
std::string to_string(const Recomputation& recomputation);
std::optional<Recomputation> parse_recomputation(std::string_view text);
// "none", "core_attn+attn_proj", and back.
std::string offload_text(OffloadSet modules);
std::optional<OffloadSet> parse_offload(std::string_view text);
const char* to_string(ContextExchange exchange);
const char* to_string(Precision precision);
const char* to_string(Optimizer optimizer);

// How one layer is divided, and what of it waits on the host.
struct Split {
  std::int64_t tp = 1;
  bool sp = false;
  std::int64_t cp = 1;
  std::int64_t ep = 1;
  std::int64_t etp = 0;                            // 0: same as tp
  ContextExchange cp_comm = ContextExchange::p2p;  // where cp is 1 there is nothing to exchange
  std::int64_t cp_inner = 1;                       // more only for a2a+p2p: a divisor of cp between 1 and cp
  OffloadSet offload = 0;                          // modules whose saved tensors wait on the host, in every block

  // Context ranks that trade tokens for heads, and those of one ring.
  std::int64_t context_heads() const { return cp_comm == ContextExchange::a2a ? cp : cp_inner; }
  std::int64_t context_ring() const {
    return cp_comm == ContextExchange::p2p || cp_comm == ContextExchange::a2a_p2p ? cp / cp_inner : 1;
  }
  std::int64_t expert_tp() const { return etp == 0 ? tp : etp; }
  std::int64_t replica_devices() const { return tp * cp; }          // of one stage
  std::int64_t expert_devices() const { return expert_tp() * ep; }  // that hold one set of routed experts
  // Replicas that must stand side by side so that they hold whole sets of experts: dp_inner is a multiple of it. Their
  // devices are lcm(tp cp, etp ep).
  std::int64_t team() const { return expert_devices() / std::gcd(replica_devices(), expert_devices()); }
  std::int64_t team_devices() const { return replica_devices() * team(); }
  bool operator==(const Split&) const = default;
};

struct Strategy {
  Split split;
  std::int64_t pp = 1;
  std::int64_t dp = 1;
  std::int64_t micro_batch = 1;  // sequences
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t virtual_stages = 1;  // chunks per stage; more than 1 only when interleaved, 2 in a V
  std::int64_t dp_inner = 1;        // d_in
  std::int64_t pitch = 0;           // 0: tight, p * A
  // Micro-batches that pass one chunk before the next chunk's turn, when interleaved (Megatron's
  // --microbatch-group-size-per-virtual-pipeline-stage); 0: as many as stages.
  std::int64_t group = 0;
  // Weight gradients of the head wait for the pipeline's drain, where the stack can do that.
  bool defer_head = true;

  std::int64_t block() const { return dp_inner * split.replica_devices(); }  // A
  std::int64_t pipeline_block() const { return pp * block(); }
  std::int64_t effective_pitch() const { return pitch == 0 ? pipeline_block() : pitch; }
  // Devices from the first to the last, idle ones between pipelines included.
  std::int64_t devices_spanned() const { return (dp / dp_inner - 1) * effective_pitch() + pipeline_block(); }
  std::int64_t devices_used() const { return pp * dp * split.replica_devices(); }
  std::int64_t grouped() const { return group == 0 ? pp : group; }
  std::int64_t edp() const { return dp * split.replica_devices() / split.expert_devices(); }
  std::int64_t teams() const { return dp / split.team(); }
  bool operator==(const Strategy&) const = default;
};

// Device of rank `inner` of stage `stage` of replica `replica` = r_out * d_in + r_in.
std::int64_t device_of(const Strategy& strategy, std::int64_t replica, std::int64_t stage, std::int64_t inner);

// Micro-batches per replica and step: ceil(B / (b dp)).
std::int64_t micro_batches(const Strategy& strategy, std::int64_t global_batch);

}  // namespace nest
