#include "cost/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "doc/reader.h"
#include "preset_data/preset_data.h"

namespace nest {
namespace {

constexpr std::string_view kDefault = "megatron-core";

// Names of an enumeration's values, as files and messages write them.
template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, const char*>, N>;

constexpr Names<Stack, 4> kKernels = {{{Stack::megatron, "megatron"},
                                       {Stack::plain, "plain"},
                                       {Stack::huggingface, "huggingface"},
                                       {Stack::torchtitan, "torchtitan"}}};
constexpr Names<AttentionKernel, 4> kAttention = {{{AttentionKernel::unfused, "unfused"},
                                                   {AttentionKernel::triton, "triton"},
                                                   {AttentionKernel::flash2, "flash2"},
                                                   {AttentionKernel::native, "native"}}};
constexpr Names<DataOverlap, 4> kOverlap = {{{DataOverlap::none, "none"},
                                             {DataOverlap::buckets, "buckets"},
                                             {DataOverlap::fsdp, "fsdp"},
                                             {DataOverlap::per_tensor, "per_tensor"}}};
constexpr Names<SelectiveKind, 3> kSelective = {{{SelectiveKind::modules, "modules"},
                                                 {SelectiveKind::every_second_matmul, "every_second_matmul"},
                                                 {SelectiveKind::minimal, "minimal"}}};
constexpr Names<LossKernel, 5> kLoss = {{{LossKernel::fused, "fused"},
                                         {LossKernel::unfused, "unfused"},
                                         {LossKernel::eager_fp32, "eager_fp32"},
                                         {LossKernel::loss_parallel, "loss_parallel"},
                                         {LossKernel::compiled, "compiled"}}};
constexpr Names<MemoryModel, 6> kMemory = {{{MemoryModel::megatron, "megatron"},
                                            {MemoryModel::fsdp, "fsdp"},
                                            {MemoryModel::plain, "plain"},
                                            {MemoryModel::megatron_deepspeed, "megatron_deepspeed"},
                                            {MemoryModel::nanotron, "nanotron"},
                                            {MemoryModel::internevo, "internevo"}}};
constexpr Names<Module, 9> kModules = {{{Module::core_attention, "core_attention"},
                                        {Module::norm, "norm"},
                                        {Module::activation, "activation"},
                                        {Module::feed_forward, "feed_forward"},
                                        {Module::moe_activation, "moe_activation"},
                                        {Module::moe, "moe"},
                                        {Module::latent_up, "latent_up"},
                                        {Module::shared_experts, "shared_experts"},
                                        {Module::shared_activation, "shared_activation"}}};

template <class Enum, std::size_t N>
const char* name_of(const Names<Enum, N>& names, Enum value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  return "?";
}

template <class Enum, std::size_t N>
std::vector<std::string> words(const Names<Enum, N>& names) {
  std::vector<std::string> list;
  for (const auto& entry : names) list.emplace_back(entry.second);
  return list;
}

template <class Enum, std::size_t N>
void read_choice(Reader& reader, std::string_view key, const Names<Enum, N>& names, Enum& value) {
  const std::vector<std::string> allowed = words(names);
  const std::string chosen = reader.choice_or(key, name_of(names, value), allowed);
  for (const auto& [known, name] : names) {
    if (chosen == name) value = known;
  }
}

void read_flag(Reader& reader, std::string_view key, bool& value) { value = reader.flag_or(key, value); }

void read_number(Reader& reader, std::string_view key, Range range, double& value) {
  value = reader.maybe_number(key, range).value_or(value);
}

void read_modules(Reader& reader, SoftwareStack& stack) {
  constexpr std::string_view kKey = "selective_modules";
  const auto texts = reader.maybe_texts(kKey, kModules.size());
  if (!texts) return;
  stack.selective_modules.clear();
  const std::vector<std::string> allowed = words(kModules);
  for (const std::string& text : *texts) {
    const auto found = std::find(allowed.begin(), allowed.end(), text);
    if (found == allowed.end()) {
      reader.fail(kKey, fmt::format("\"{}\" is no module; allowed are {}{}", clip(text, 40), join_words(allowed),
                                    did_you_mean(text, allowed)));
    }
    stack.selective_modules.push_back(kModules[static_cast<std::size_t>(found - allowed.begin())].first);
  }
}

void read_kernels(Reader& reader, SoftwareStack& stack) {
  read_choice(reader, "kernels", kKernels, stack.kernels);
  read_choice(reader, "attention", kAttention, stack.attention);
  read_flag(reader, "fused_rowwise", stack.fused_rowwise);
  read_flag(reader, "dropout", stack.dropout);
  read_flag(reader, "deterministic", stack.deterministic);
  read_flag(reader, "eager_loss", stack.eager_loss);
  read_flag(reader, "padded_vocabulary", stack.padded_vocabulary);
  read_flag(reader, "unfused_accumulation", stack.unfused_accumulation);
  if (const auto host_s = reader.maybe_duration("host_kernel")) {
    if (*host_s < 0 || *host_s > 1) reader.fail("host_kernel", "must lie between 0 and 1 s; write for example 32us");
    stack.host_kernel_s = *host_s;
  }
  read_flag(reader, "cuda_graphs", stack.cuda_graphs);
  read_flag(reader, "blocking_launches", stack.blocking_launches);
}

void read_overlap(Reader& reader, SoftwareStack& stack) {
  read_choice(reader, "data_overlap", kOverlap, stack.data_overlap);
  read_flag(reader, "tensor_overlap", stack.tensor_overlap);
  read_flag(reader, "pipeline_overlap", stack.pipeline_overlap);
  read_flag(reader, "expert_overlap", stack.expert_overlap);
  read_flag(reader, "scatter_messages", stack.scatter_messages);
  read_flag(reader, "defer_head_gradient", stack.defer_head_gradient);
  read_flag(reader, "all_reduce_zero1", stack.all_reduce_zero1);
  read_choice(reader, "selective", kSelective, stack.selective);
  read_modules(reader, stack);
}

void read_state(Reader& reader, SoftwareStack& stack) {
  constexpr Range kBytes = {0, 64};
  read_number(reader, "weight_bytes", kBytes, stack.weight_bytes);
  read_number(reader, "gradient_bytes", kBytes, stack.gradient_bytes);
  read_number(reader, "optimizer_bytes", kBytes, stack.optimizer_bytes);
  read_number(reader, "gradient_traffic_bytes", kBytes, stack.gradient_traffic_bytes);
  read_number(reader, "weight_traffic_bytes", kBytes, stack.weight_traffic_bytes);
  stack.default_zero = static_cast<int>(reader.integer_or("default_zero", stack.default_zero, {0, 3}));
  read_choice(reader, "memory", kMemory, stack.memory);
  read_choice(reader, "loss", kLoss, stack.loss);
  read_flag(reader, "weight_gradient_buffers", stack.weight_gradient_buffers);
  read_flag(reader, "shared_expert_overlap", stack.shared_expert_overlap);
  read_flag(reader, "context_all_to_all", stack.context_all_to_all);
  read_number(reader, "routing_imbalance", {1, 1000}, stack.routing_imbalance);
  read_number(reader, "memory_margin", {0, 1}, stack.memory_margin);
}

void read_all(Reader& reader, std::string_view name, SoftwareStack& stack) {
  stack.name = reader.text_or("name", name);
  stack.description = reader.text_or("description", stack.name);
  stack.source = reader.text_or("source", "");
  read_kernels(reader, stack);
  read_overlap(reader, stack);
  read_state(reader, stack);
  reader.refuse_unknown_keys();
}

const EmbeddedFile* shipped(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files("stacks")) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

constexpr int kLongestChain = 8;  // of `like`, so that files which name each other end

SoftwareStack read_with_base(const Document& document, std::string_view name, int depth) {
  Reader reader(document);
  SoftwareStack stack;
  if (const auto base = reader.maybe_text("like")) {
    const EmbeddedFile* file = shipped(to_lower(*base));
    if (!file) {
      std::vector<std::string> known;
      for (const EmbeddedFile& other : embedded_files("stacks")) known.emplace_back(other.name);
      reader.fail("like", fmt::format("\"{}\" is no stack that ships; those are {}{}", clip(*base, 40),
                                      join_words(known), did_you_mean(*base, known)));
    }
    if (depth == kLongestChain) reader.fail("like", "stacks that are like each other go round in a circle");
    stack = read_with_base(parse_yaml(fmt::format("stacks/{}.yaml", file->name), std::string(file->text)), file->name,
                           depth + 1);
  }
  read_all(reader, name, stack);
  return stack;
}

}  // namespace

SoftwareStack read_stack(const Document& document, std::string_view name) { return read_with_base(document, name, 0); }

const Shelf<SoftwareStack>& stack_presets() {
  static const Shelf<SoftwareStack> kStacks = [] {
    std::vector<SoftwareStack> stacks;
    for (const EmbeddedFile& file : embedded_files("stacks")) {
      stacks.push_back(
          read_stack(parse_yaml(fmt::format("stacks/{}.yaml", file.name), std::string(file.text)), file.name));
    }
    std::stable_partition(stacks.begin(), stacks.end(),
                          [](const SoftwareStack& stack) { return stack.name == kDefault; });
    return Shelf<SoftwareStack>(std::move(stacks));
  }();
  return kStacks;
}

std::optional<SoftwareStack> find_stack(std::string_view name) {
  const SoftwareStack* found = stack_presets().find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

const char* to_string(AttentionKernel kernel) { return name_of(kAttention, kernel); }
const char* to_string(DataOverlap overlap) { return name_of(kOverlap, overlap); }

}  // namespace nest
