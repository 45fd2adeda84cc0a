#include "plan/dimensions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace nest::plan {
namespace {

constexpr std::int64_t kMostRanks = 1 << 24;

// The words of an enumeration (nest/strategy.h), whose values are their indices.
template <class Enum, std::size_t N>
constexpr std::array<const char*, N> texts_of(const std::array<Word<Enum>, N>& words) {
  std::array<const char*, N> texts{};
  for (const Word<Enum>& word : words) texts[static_cast<std::size_t>(word.value)] = word.text;
  return texts;
}

constexpr std::array kScheduleNames = texts_of(kScheduleWords);
constexpr std::array kRecomputeNames = texts_of(kRecomputeWords);
constexpr std::array kContextNames = texts_of(kContextWords);
constexpr std::array kOffloadNames = {"none", "modules"};
constexpr std::array kZeroNames = {"0", "1", "2", "3"};

template <std::int64_t Strategy::*Field>
std::int64_t get(const Strategy& s) {
  return s.*Field;
}
template <std::int64_t Strategy::*Field>
void set(Strategy& s, std::int64_t value) {
  s.*Field = value;
}
template <std::int64_t Strategy::*Field>
bool above_one(const Strategy& s) {
  return s.*Field > 1;
}
template <std::int64_t Split::*Field>
std::int64_t get(const Strategy& s) {
  return s.split.*Field;
}
template <std::int64_t Split::*Field>
void set(Strategy& s, std::int64_t value) {
  s.split.*Field = value;
}
template <std::int64_t Split::*Field>
bool above_one(const Strategy& s) {
  return s.split.*Field > 1;
}

// A count of the whole plan whose default is 1.
template <auto Field>
constexpr PlanDimension degree(const char* name, std::array<const char*, 2> other_names, const char* key,
                               const char* label, const char* noun, const char* meaning, Limit PlanLimits::*limit) {
  PlanDimension row{};
  row.name = name;
  row.other_names = other_names;
  row.key = key;
  row.label = label;
  row.noun = noun;
  row.meaning = meaning;
  row.otherwise = "1";
  row.kind = DimensionKind::count;
  row.low = 1;
  row.high = kMostRanks;
  row.of_strategy = get<Field>;
  row.set_strategy = set<Field>;
  row.is_shown = above_one<Field>;
  row.limit = limit;
  return row;
}

constexpr PlanDimension sequence_parallel() {
  PlanDimension row{};
  row.name = row.key = "sp";
  row.label = "sequence parallel";
  row.meaning = "what lies between the tensor-parallel parts is divided along the sequence";
  row.otherwise = "0";
  row.kind = DimensionKind::flag;
  row.high = 1;
  row.of_strategy = [](const Strategy& s) { return std::int64_t{s.split.sp}; };
  row.set_strategy = [](Strategy& s, std::int64_t value) { s.split.sp = value != 0; };
  row.is_shown = [](const Strategy& s) { return s.split.sp; };
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.sp); };
  return row;
}

constexpr PlanDimension context_exchange() {
  PlanDimension row{};
  row.name = row.key = "cp_comm";
  row.label = "exchange of contexts";
  row.meaning = "how the ranks of a sequence exchange keys and values, or heads";
  row.otherwise = "the stack's first";
  row.kind = DimensionKind::word;
  row.high = kContextNames.size() - 1;
  row.words = kContextNames;
  row.of_strategy = [](const Strategy& s) { return static_cast<std::int64_t>(s.split.cp_comm); };
  row.set_strategy = [](Strategy& s, std::int64_t value) { s.split.cp_comm = static_cast<ContextExchange>(value); };
  row.is_shown = [](const Strategy& s) { return s.split.cp_comm != ContextExchange::p2p; };
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.cp_comm); };
  return row;
}

constexpr PlanDimension offload() {
  PlanDimension row{};
  row.name = row.key = "offload";
  row.label = "activations on the host";
  row.meaning = "modules whose saved tensors wait on the host for their backward pass";
  row.otherwise = "none";
  row.kind = DimensionKind::word;
  row.high = kOffloadNames.size() - 1;
  row.words = kOffloadNames;
  row.text = [](std::int64_t value) { return offload_text(static_cast<OffloadSet>(value)); };
  row.parse = [](std::string_view text) {
    const std::optional<OffloadSet> found = parse_offload(text);
    return found ? std::optional(std::int64_t{*found}) : std::nullopt;
  };
  row.allowed = "none or modules such as core_attn+attn_proj+expert_fc1";
  row.of_strategy = [](const Strategy& s) { return std::int64_t{s.split.offload}; };
  row.set_strategy = [](Strategy& s, std::int64_t value) { s.split.offload = static_cast<OffloadSet>(value); };
  row.is_shown = [](const Strategy& s) { return s.split.offload != 0; };
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.offload); };
  return row;
}

constexpr PlanDimension expert_tensor_parallel() {
  PlanDimension row = degree<&Split::etp>("etp", {}, "etp", "tensor parallel inside experts", nullptr,
                                          "ranks that share one routed expert", &PlanLimits::etp);
  row.otherwise = "as `tp`";
  row.of_strategy = [](const Strategy& s) { return s.split.expert_tp(); };
  row.is_shown = [](const Strategy& s) { return s.split.expert_tp() != s.split.tp; };
  return row;
}

constexpr PlanDimension schedule() {
  PlanDimension row{};
  row.name = row.key = row.label = "schedule";
  row.meaning = "the order in which a pipeline works off its micro-batches";
  row.otherwise = "interleaved where `vpp` is more than 1, else 1f1b";
  row.kind = DimensionKind::word;
  row.high = kScheduleNames.size() - 1;
  row.words = kScheduleNames;
  row.of_strategy = [](const Strategy& s) { return static_cast<std::int64_t>(s.schedule); };
  row.set_strategy = [](Strategy& s, std::int64_t value) { s.schedule = static_cast<Schedule>(value); };
  row.is_shown = [](const Strategy& s) {
    return s.schedule != Schedule::one_f_one_b && s.schedule != Schedule::interleaved;
  };
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.schedule); };
  return row;
}

constexpr PlanDimension micro_batch_group() {
  PlanDimension row{};
  row.name = "group";
  row.key = "micro_batch_group";
  row.other_names = {"micro_batch_group"};
  row.label = "micro-batch group";
  row.meaning = "micro-batches that pass one chunk before the next chunk's turn, in interleaved schedules";
  row.otherwise = "as `pp`";
  row.kind = DimensionKind::count;
  row.low = 1;
  row.high = kMostRanks;
  row.of_strategy = [](const Strategy& s) { return s.grouped(); };
  row.set_strategy = set<&Strategy::group>;
  row.is_shown = [](const Strategy& s) { return s.group != 0; };
  row.is_written = row.is_shown;
  return row;
}

constexpr PlanDimension defer_head() {
  PlanDimension row{};
  row.name = row.key = "defer_head";
  row.label = "head gradients in the drain";
  row.meaning = "weight gradients of the LM head wait for the pipeline's drain";
  row.otherwise = "1 where the stack can";
  row.kind = DimensionKind::flag;
  row.high = 1;
  row.of_strategy = [](const Strategy& s) { return std::int64_t{s.defer_head}; };
  row.set_strategy = [](Strategy& s, std::int64_t value) { s.defer_head = value != 0; };
  row.is_shown = [](const Strategy& s) { return !s.defer_head; };
  row.is_written = row.is_shown;
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.defer_head); };
  return row;
}

constexpr PlanDimension replicas() {
  PlanDimension row = degree<&Strategy::dp>("dp", {}, "dp", "data parallel", "replicas",
                                            "replicas that read different sequences", &PlanLimits::dp);
  row.otherwise = "what fills the devices";
  return row;
}

constexpr PlanDimension micro_batch() {
  PlanDimension row =
      degree<&Strategy::micro_batch>("mbs", {"micro_batch", "b"}, "micro_batch", "micro-batch", "micro-batch",
                                     "sequences of one micro-batch of one replica", &PlanLimits::micro_batch);
  row.is_shown = [](const Strategy& /*s*/) { return true; };
  return row;
}

constexpr PlanDimension inner_replicas() {
  PlanDimension row = degree<&Strategy::dp_inner>(
      "dp_inner", {}, "dp_inner", "replicas side by side", nullptr,
      "neighbouring replicas of one stage: 1 keeps pipelines together, `dp` the replicas", &PlanLimits::dp_inner);
  row.is_shown = nullptr;
  row.otherwise = "as `dp`";
  return row;
}

constexpr PlanDimension pitch() {
  PlanDimension row{};
  row.name = row.key = row.label = "pitch";
  row.meaning = "devices from the start of one block of pipelines to the next; a search is limited by 0 (tight) or 1";
  row.otherwise = "tight";
  row.kind = DimensionKind::count;
  row.high = kMostRanks;
  row.of_strategy = [](const Strategy& s) { return s.effective_pitch(); };
  row.set_strategy = set<&Strategy::pitch>;
  row.toggle = &PlanLimits::pitch;
  return row;
}

constexpr PlanDimension zero() {
  PlanDimension row{};
  row.name = row.key = "zero";
  row.label = "ZeRO stage";
  row.meaning = "what replicas shard: nothing, optimizer, gradients too, weights too";
  row.otherwise = "the stack's";
  row.kind = DimensionKind::count;
  row.high = kZeroNames.size() - 1;
  row.words = kZeroNames;
  row.of_stage = [](const StagePlan& stage) { return std::int64_t{stage.zero}; };
  row.set_stage = [](StagePlan& stage, std::int64_t value) { stage.zero = static_cast<int>(value); };
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.zero); };
  return row;
}

constexpr PlanDimension zero_degree() {
  PlanDimension row{};
  row.name = row.key = "zero_degree";
  row.label = "ranks that shard";
  row.meaning = "ranks over which ZeRO shards";
  row.otherwise = "all replicas";
  row.kind = DimensionKind::count;
  row.low = 1;
  row.high = kMostRanks;
  row.of_stage = [](const StagePlan& stage) { return stage.zero_degree; };
  row.set_stage = [](StagePlan& stage, std::int64_t value) { stage.zero_degree = value; };
  return row;
}

constexpr PlanDimension zero_outer() {
  PlanDimension row{};
  row.name = row.key = "zero_outer";
  row.label = "optimizer over all replicas";
  row.meaning = "with ZeRO 3 over some ranks: the optimizer's state over all replicas (Megatron's hybrid FSDP)";
  row.otherwise = "no";
  row.kind = DimensionKind::flag;
  row.high = 1;
  row.of_stage = [](const StagePlan& stage) { return std::int64_t{stage.zero_outer}; };
  row.set_stage = [](StagePlan& stage, std::int64_t value) { stage.zero_outer = value != 0; };
  row.is_stage_written = [](const StagePlan& stage) { return stage.zero_outer; };
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.zero_outer); };
  return row;
}

// A recomputation as a whole number: its kind, then modules, then layers.
std::int64_t packed(const Recomputation& recomputation) {
  return static_cast<std::int64_t>(recomputation.kind) + (std::int64_t{recomputation.modules} << 8) +
         (std::int64_t{recomputation.layers} << 16);
}

Recomputation unpacked(std::int64_t value) {
  Recomputation recomputation(static_cast<Recompute>(value & 0xff));
  recomputation.modules = static_cast<RecomputeSet>(value >> 8 & 0xff);
  recomputation.layers = static_cast<std::int32_t>(value >> 16);
  return recomputation;
}

constexpr PlanDimension recompute() {
  PlanDimension row{};
  row.name = row.key = "recompute";
  row.other_names = {"recomputation"};
  row.label = "recomputation";
  row.meaning = "what is computed again in the backward pass instead of kept";
  row.otherwise = "none";
  row.kind = DimensionKind::word;
  row.high = kRecomputeNames.size() - 1;
  row.words = kRecomputeNames;
  row.text = [](std::int64_t value) { return to_string(unpacked(value)); };
  row.parse = [](std::string_view text) {
    const std::optional<Recomputation> found = parse_recomputation(text);
    return found ? std::optional(packed(*found)) : std::nullopt;
  };
  row.allowed = "none, selective, full, modules such as moe_act+layernorm, block:N or uniform:N";
  row.of_stage = [](const StagePlan& stage) { return packed(stage.recompute); };
  row.set_stage = [](StagePlan& stage, std::int64_t value) { stage.recompute = unpacked(value); };
  row.admitted = [](PlanLimits& limits) { return std::span<bool>(limits.recompute); };
  return row;
}

constexpr std::array kDimensions = {
    degree<&Split::tp>("tp", {}, "tp", "tensor parallel", "tensor",
                       "heads, feed-forward columns and vocabulary are divided", &PlanLimits::tp),
    sequence_parallel(),
    degree<&Split::cp>("cp", {}, "cp", "context parallel", "context", "the sequence is divided", &PlanLimits::cp),
    context_exchange(),
    degree<&Split::cp_inner>("cp_inner", {}, "cp_inner", "context ranks that trade heads", nullptr,
                             "neighbours that trade tokens for heads under a2a+p2p; rings join the others",
                             &PlanLimits::cp_inner),
    degree<&Split::ep>("ep", {}, "ep", "expert parallel", "expert",
                       "routed experts are spread over so many ranks of `tp`, `cp`, `dp`", &PlanLimits::ep),
    expert_tensor_parallel(),
    degree<&Strategy::pp>("pp", {}, "pp", "pipeline stages", "pipeline", "the layers are cut into so many stages",
                          &PlanLimits::pp),
    degree<&Strategy::virtual_stages>(
        "vpp", {"virtual_stages", "v"}, "virtual_stages", "virtual stages", "virtual stages",
        "interleaved schedules give every stage several chunks of layers", &PlanLimits::vpp),
    schedule(),
    micro_batch_group(),
    defer_head(),
    replicas(),
    micro_batch(),
    zero(),
    zero_degree(),
    zero_outer(),
    recompute(),
    offload(),
    inner_replicas(),
    pitch(),
};

}  // namespace

std::span<const PlanDimension> plan_dimensions() { return kDimensions; }

const PlanDimension* find_dimension(std::string_view name) {
  for (const PlanDimension& row : kDimensions) {
    if (name == row.name) return &row;
    for (const char* other : row.other_names) {
      if (other != nullptr && name == other) return &row;
    }
  }
  return nullptr;
}

std::vector<std::string> dimension_names() {
  std::vector<std::string> names;
  names.reserve(kDimensions.size());
  for (const PlanDimension& row : kDimensions) names.emplace_back(row.name);
  return names;
}

std::string value_text(const PlanDimension& dimension, std::int64_t value) {
  if (dimension.kind != DimensionKind::word) return fmt::format("{}", value);
  return dimension.text != nullptr ? dimension.text(value) : dimension.words[static_cast<std::size_t>(value)];
}

std::optional<std::int64_t> parse_word(const PlanDimension& dimension, std::string_view text) {
  if (dimension.parse != nullptr) return dimension.parse(text);
  for (std::size_t i = 0; i < dimension.words.size(); ++i) {
    if (text == dimension.words[i]) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

std::string allowed_text(const PlanDimension& dimension) {
  switch (dimension.kind) {
    case DimensionKind::count: return fmt::format("a whole number in {} … {}", dimension.low, dimension.high);
    case DimensionKind::flag: return "0 or 1";
    case DimensionKind::word: break;
  }
  if (dimension.allowed != nullptr) return dimension.allowed;
  const std::vector<std::string> words(dimension.words.begin(), dimension.words.end());
  return join_words(words, "or");
}

std::string strategy_help() {
  std::string text;
  for (const PlanDimension& row : kDimensions) {
    std::string example = row.kind == DimensionKind::flag ? "1" : fmt::format("{}…{}", row.low, row.high);
    if (row.kind == DimensionKind::word) {
      constexpr std::size_t kShown = 4;
      const auto shown = row.words.first(std::min(kShown, row.words.size()));
      example = fmt::format("{}{}", fmt::join(shown, "|"), row.words.size() > kShown ? "|…" : "");
    }
    if (row.kind == DimensionKind::count && row.high == kMostRanks) example = "N";
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", row.name, example);
  }
  return text;
}

}  // namespace nest::plan
