#include "cost/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "doc/reader.h"
#include "preset_data/preset_data.h"

namespace nest::cost {
namespace {

constexpr std::string_view kDefault = "megatron-core";

// Names of an enumeration's values, as files and messages write them.
template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, const char*>, N>;

constexpr Names<model::Stack, 4> kKernels = {{{model::Stack::megatron, "megatron"},
                                              {model::Stack::plain, "plain"},
                                              {model::Stack::huggingface, "huggingface"},
                                              {model::Stack::torchtitan, "torchtitan"}}};
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
constexpr Names<Storage, 5> kStorage = {{{Storage::bf16, "bf16"},
                                         {Storage::fp8_tensor, "fp8_tensor"},
                                         {Storage::fp8_block, "fp8_block"},
                                         {Storage::mxfp8, "mxfp8"},
                                         {Storage::nvfp4, "nvfp4"}}};
constexpr Names<MemoryModel, 6> kMemory = {{{MemoryModel::megatron, "megatron"},
                                            {MemoryModel::fsdp, "fsdp"},
                                            {MemoryModel::plain, "plain"},
                                            {MemoryModel::megatron_deepspeed, "megatron_deepspeed"},
                                            {MemoryModel::nanotron, "nanotron"},
                                            {MemoryModel::internevo, "internevo"}}};
constexpr Names<model::Module, 9> kModules = {{{model::Module::core_attention, "core_attention"},
                                               {model::Module::norm, "norm"},
                                               {model::Module::activation, "activation"},
                                               {model::Module::feed_forward, "feed_forward"},
                                               {model::Module::moe_activation, "moe_activation"},
                                               {model::Module::moe, "moe"},
                                               {model::Module::latent_up, "latent_up"},
                                               {model::Module::shared_experts, "shared_experts"},
                                               {model::Module::shared_activation, "shared_activation"}}};

constexpr Names<Dispatcher, 5> kDispatchers = {{{Dispatcher::alltoall, "alltoall"},
                                                {Dispatcher::allgather, "allgather"},
                                                {Dispatcher::deepep, "deepep"},
                                                {Dispatcher::hybridep, "hybridep"},
                                                {Dispatcher::ncclep, "ncclep"}}};
constexpr Names<ContextExchange, 4> kContexts = {{{ContextExchange::p2p, "p2p"},
                                                  {ContextExchange::all_gather, "all_gather"},
                                                  {ContextExchange::a2a, "a2a"},
                                                  {ContextExchange::a2a_p2p, "a2a+p2p"}}};
constexpr Names<GraphScope, 5> kScopes = {{{GraphScope::attention, "attn"},
                                           {GraphScope::feed_forward, "mlp"},
                                           {GraphScope::router, "router"},
                                           {GraphScope::preprocess, "preprocess"},
                                           {GraphScope::full, "full"}}};

constexpr Names<Runner, 6> kRunners = {{{Runner::usual, "usual"},
                                        {Runner::none, "none"},
                                        {Runner::megatron, "megatron"},
                                        {Runner::deepspeed, "deepspeed"},
                                        {Runner::torchtitan, "torchtitan"},
                                        {Runner::fsdp, "fsdp"}}};

constexpr Names<Schedule, 5> kSplitSchedules = {{{Schedule::zb_h1, "zb-h1"},
                                                 {Schedule::zbv, "zbv"},
                                                 {Schedule::v_half, "v-half"},
                                                 {Schedule::v_min, "v-min"},
                                                 {Schedule::dualpipev, "dualpipev"}}};

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

constexpr doc::Range kStateBytes = {0, 64};

// Takes every fact from a document; what is absent stays.
class FactReader {
 public:
  explicit FactReader(doc::Reader& reader) : reader_(reader) {}

  void flag(const char* key, bool& value) const { value = reader_.flag_or(key, value); }
  void number(const char* key, doc::Range range, double& value) const {
    value = reader_.maybe_number(key, range).value_or(value);
  }
  // Switched off by 0.
  void factor(const char* key, doc::Range range, double& value) const {
    const auto given = reader_.maybe_number(key, {0, range.high});
    if (!given) return;
    if (*given != 0 && *given < range.low) {
      reader_.fail(key, fmt::format("is {}; allowed are 0 (none) and {} … {}", *given, range.low, range.high));
    }
    value = *given;
  }
  void count(const char* key, doc::Range range, int& value) const {
    value = static_cast<int>(reader_.integer_or(key, value, range));
  }
  void routing(const char* key, Routing& value) const {
    const doc::Value* written = reader_.raw(key);
    if (written == nullptr) return;
    const char* const allowed = "must be forced, {cv: 0.18} or {overload: 1.2}";
    if (written->as_object() == nullptr) {
      const std::string* text = written->as_string();
      if (text == nullptr || *text != "forced") reader_.fail(key, allowed);
      value.kind = RoutingKind::forced;
      value.value = 0;
      return;
    }
    doc::Reader object = *reader_.maybe_object(key);
    const auto variation = object.maybe_number("cv", {0, kMostVariation}),
               overload = object.maybe_number("overload", {1, kMostOverload});
    object.refuse_unknown_keys();
    if (variation.has_value() == overload.has_value()) reader_.fail(key, allowed);
    value.kind = variation ? RoutingKind::variation : RoutingKind::overload;
    value.value = variation ? *variation : *overload;
  }
  // `optimizer_bytes` is both at once, with a master copy of fp32 wherever the weights are narrower.
  void optimizer(double weight, double& master, double& moments) const {
    const auto sum = reader_.maybe_number("optimizer_bytes", kStateBytes);
    if (sum) {
      constexpr double kSingle = 4;
      master = weight < kSingle ? std::min(kSingle, *sum) : 0;
      moments = *sum - master;
    }
    number("master_bytes", kStateBytes, master);
    number("moments_bytes", kStateBytes, moments);
    if (sum && std::abs(master + moments - *sum) > 1e-9) {
      reader_.fail("optimizer_bytes",
                   fmt::format("is {}, but master_bytes and moments_bytes add up to {}", *sum, master + moments));
    }
  }
  void duration(const char* key, double& value) const {
    const auto seconds = reader_.maybe_duration(key);
    if (!seconds) return;
    if (*seconds < 0 || *seconds > 1) reader_.fail(key, "must lie between 0 and 1 s; write for example 32us");
    value = *seconds;
  }
  template <class Enum, std::size_t N>
  void choice(const char* key, const Names<Enum, N>& names, Enum& value) const {
    const std::string chosen = reader_.choice_or(key, name_of(names, value), words(names));
    for (const auto& [known, name] : names) {
      if (chosen == name) value = known;
    }
  }
  template <class Enum, std::size_t N>
  void choices(const char* key, const Names<Enum, N>& names, std::vector<Enum>& values) const {
    const auto texts = reader_.maybe_texts(key, N);
    if (!texts) return;
    values.clear();
    const std::vector<std::string> allowed = words(names);
    for (const std::string& text : *texts) {
      const auto found = std::find(allowed.begin(), allowed.end(), text);
      if (found == allowed.end()) {
        reader_.fail(key, fmt::format("\"{}\" is not known; allowed are {}{}", clip(text, 40), join_words(allowed),
                                      did_you_mean(text, allowed)));
      }
      values.push_back(names[static_cast<std::size_t>(found - allowed.begin())].first);
    }
  }

  // `context_all_to_all` is what files said when there were two kinds.
  template <class Enum, std::size_t N>
  void context(const char* key, const Names<Enum, N>& names, std::vector<Enum>& values) const {
    if (reader_.flag_or("context_all_to_all", false)) values = {ContextExchange::a2a};
    choices(key, names, values);
    if (values.empty()) reader_.fail(key, "names none; one at least is needed");
  }

 private:
  doc::Reader& reader_;
};

// Writes every fact down.
class FactWriter {
 public:
  explicit FactWriter(doc::Object& object) : object_(object) {}

  void text(const char* key, const std::string& value) const { add(key, value); }
  void flag(const char* key, bool value) const { add(key, value); }
  void number(const char* key, doc::Range /*range*/, double value) const { add(key, value); }
  void factor(const char* key, doc::Range /*range*/, double value) const { add(key, value); }
  void count(const char* key, doc::Range /*range*/, int value) const { add(key, std::int64_t{value}); }
  void optimizer(double /*weight*/, double master, double moments) const {
    add("optimizer_bytes", master + moments);
    add("master_bytes", master);
    add("moments_bytes", moments);
  }
  void duration(const char* key, double value) const { add(key, value); }
  void routing(const char* key, const Routing& value) const {
    if (value.kind == RoutingKind::forced) return add(key, std::string("forced"));
    auto object = std::make_shared<doc::Object>();
    object->add(value.kind == RoutingKind::variation ? "cv" : "overload", doc::Value(value.value, 0));
    add(key, std::move(object));
  }
  template <class Enum, std::size_t N>
  void choice(const char* key, const Names<Enum, N>& names, Enum value) const {
    add(key, std::string(name_of(names, value)));
  }
  template <class Enum, std::size_t N>
  void choices(const char* key, const Names<Enum, N>& names, const std::vector<Enum>& values) const {
    auto list = std::make_shared<doc::Array>();
    for (const Enum value : values) list->emplace_back(std::string(name_of(names, value)), 0);
    add(key, std::move(list));
  }

  template <class Enum, std::size_t N>
  void context(const char* key, const Names<Enum, N>& names, const std::vector<Enum>& values) const {
    choices(key, names, values);
  }

 private:
  void add(const char* key, doc::Value::Data data) const { object_.add(key, doc::Value(std::move(data), 0)); }

  doc::Object& object_;
};

// Every key of a stack's file after its name, description and source, with the fact that it states.
template <class Visitor, class AnyStack>
void visit_facts(const Visitor& facts, AnyStack& stack) {
  facts.choice("framework", kRunners, stack.framework);
  facts.choice("kernels", kKernels, stack.kernels);
  facts.choice("attention", kAttention, stack.attention);
  facts.flag("fp8_attention", stack.fp8_attention);
  facts.flag("fp8_head", stack.fp8_head);
  facts.flag("fused_experts", stack.fused_experts);
  facts.flag("fused_router", stack.fused_router);
  facts.flag("fused_rowwise", stack.fused_rowwise);
  facts.flag("dropout", stack.dropout);
  facts.flag("deterministic", stack.deterministic);
  facts.flag("eager_loss", stack.eager_loss);
  facts.flag("padded_vocabulary", stack.padded_vocabulary);
  facts.flag("unfused_accumulation", stack.unfused_accumulation);
  facts.duration("host_kernel", stack.host_kernel_s);
  facts.choices("graph_scopes", kScopes, stack.graph_scopes);
  facts.flag("blocking_launches", stack.blocking_launches);
  facts.choice("data_overlap", kOverlap, stack.data_overlap);
  facts.flag("tensor_overlap", stack.tensor_overlap);
  facts.flag("pipeline_overlap", stack.pipeline_overlap);
  facts.flag("forward_sends_block", stack.forward_sends_block);
  facts.flag("flush_overlap", stack.flush_overlap);
  facts.flag("aligned_gradients", stack.aligned_gradients);
  facts.flag("expert_overlap", stack.expert_overlap);
  facts.flag("delay_wgrad", stack.delay_wgrad);
  facts.choice("dispatcher", kDispatchers, stack.dispatch.dispatcher);
  facts.count("dispatcher_sms", {0, 1024}, stack.dispatch.multiprocessors);
  facts.routing("routing", stack.routing);
  facts.number("expert_capacity", {0, 1000}, stack.routing.capacity);
  facts.flag("pad_to_capacity", stack.routing.padded);
  facts.count("expert_rows", {1, 4096}, stack.routing.rows);
  facts.flag("scatter_messages", stack.scatter_messages);
  facts.flag("defer_head_gradient", stack.defer_head_gradient);
  facts.flag("all_reduce_zero1", stack.all_reduce_zero1);
  facts.choices("schedules", kSplitSchedules, stack.schedules);
  facts.choice("selective", kSelective, stack.selective);
  facts.choices("selective_modules", kModules, stack.selective_modules);
  facts.flag("recompute_modules", stack.recompute_modules);
  facts.flag("recompute_layers", stack.recompute_layers);
  facts.flag("offload_modules", stack.offload_modules);
  facts.choice("storage", kStorage, stack.storage);
  facts.number("weight_bytes", kStateBytes, stack.weight_bytes);
  facts.number("gradient_bytes", kStateBytes, stack.gradient_bytes);
  facts.optimizer(stack.weight_bytes, stack.master_bytes, stack.moments_bytes);
  facts.number("update_bytes", {0, 256}, stack.update_bytes);
  facts.number("gradient_traffic_bytes", kStateBytes, stack.gradient_traffic_bytes);
  facts.number("weight_traffic_bytes", kStateBytes, stack.weight_traffic_bytes);
  facts.flag("offload_overlap", stack.offload_overlap);
  facts.count("default_zero", {0, 3}, stack.default_zero);
  facts.flag("hybrid_sharding", stack.hybrid_sharding);
  facts.choice("memory", kMemory, stack.memory);
  facts.choice("loss", kLoss, stack.loss);
  facts.flag("weight_gradient_buffers", stack.weight_gradient_buffers);
  facts.flag("shared_expert_overlap", stack.shared_expert_overlap);
  facts.context("context_exchange", kContexts, stack.context_exchange);
  facts.flag("expandable_segments", stack.expandable_segments);
  facts.number("routing_imbalance", {1, 1000}, stack.routing_imbalance);
  facts.factor("rank_capacity", {1, 1000}, stack.rank_capacity);
  facts.factor("paged_stash", {1, 1000}, stack.paged_stash);
  facts.count("offloaded_layers", {0, 100'000}, stack.offloaded_layers);
  facts.number("memory_margin", {0, 1}, stack.memory_margin);
  facts.number("memory_spread", {0, 1}, stack.memory_spread);
  facts.flag("calibrated", stack.calibrated);
}

// What Megatron refuses.
void refuse_together(const doc::Reader& reader, const SoftwareStack& stack) {
  if (stack.expert_overlap && stack.shared_expert_overlap) {
    reader.fail("shared_expert_overlap", "excludes expert_overlap: both would use the same exchanges");
  }
  if (stack.expert_overlap && stack.dispatch.dispatcher == Dispatcher::allgather) {
    reader.fail("expert_overlap", "needs another dispatcher than allgather");
  }
  const auto recomputes = [&](model::Module module) {
    const auto& modules = stack.selective_modules;
    return std::find(modules.begin(), modules.end(), module) != modules.end();
  };
  if (stack.shared_expert_overlap && recomputes(model::Module::shared_experts)) {
    reader.fail("selective_modules", "cannot have shared_experts with shared_expert_overlap");
  }
  const auto& scopes = stack.graph_scopes;
  const bool router = std::find(scopes.begin(), scopes.end(), GraphScope::router) != scopes.end();
  if (router && recomputes(model::Module::moe)) {
    reader.fail("selective_modules", "cannot have moe where a graph captures the router (graph_scopes)");
  }
  if (stack.delay_wgrad && !stack.expert_overlap) reader.fail("delay_wgrad", "needs expert_overlap");
  if (stack.routing.padded && stack.routing.capacity == 0) reader.fail("pad_to_capacity", "needs expert_capacity");
  if (stack.routing.capacity > 0 && stack.dispatch.dispatcher == Dispatcher::ncclep) {
    reader.fail("expert_capacity", "needs another dispatcher than ncclep");
  }
}

void read_all(doc::Reader& reader, std::string_view name, SoftwareStack& stack) {
  stack.name = reader.text_or("name", name);
  stack.description = reader.text_or("description", stack.name);
  stack.source = reader.text_or("source", "");
  // Before scopes had names: everything that static shapes allow.
  if (const auto graphs = reader.maybe_flag("cuda_graphs")) {
    stack.graph_scopes = *graphs ? static_scopes() : std::vector<GraphScope>{};
  }
  visit_facts(FactReader(reader), stack);
  reader.refuse_unknown_keys();
  refuse_together(reader, stack);
  // Pages are filled from a buffer of known size.
  if (stack.paged_stash > 0 && stack.rank_capacity == 0) reader.fail("paged_stash", "needs rank_capacity");
  if (stack.paged_stash > stack.rank_capacity) {
    reader.fail("paged_stash",
                fmt::format("is {}, more than the rank_capacity of {}", stack.paged_stash, stack.rank_capacity));
  }
}

Document parse_shipped(const EmbeddedFile& file) {
  return doc::parse_yaml(fmt::format("stacks/{}.yaml", file.name), std::string(file.text));
}

constexpr int kLongestChain = 8;  // of `like`, so that files which name each other end

SoftwareStack read_with_base(const Document& document, std::string_view name, int depth) {
  doc::Reader reader(document);
  SoftwareStack stack;
  if (const auto base = reader.maybe_text("like")) {
    const EmbeddedFile* file = embedded_file("stacks", to_lower(*base));
    if (!file) {
      std::vector<std::string> known;
      for (const EmbeddedFile& other : embedded_files("stacks")) known.emplace_back(other.name);
      reader.fail("like", fmt::format("\"{}\" is no stack that ships; those are {}{}", clip(*base, 40),
                                      join_words(known), did_you_mean(*base, known)));
    }
    if (depth == kLongestChain) reader.fail("like", "stacks that are like each other go round in a circle");
    // What ships is read once, but not from inside another that ships: those may go round in a circle.
    stack = depth == 0 ? *find_stack(*base) : read_with_base(parse_shipped(*file), file->name, depth + 1);
  }
  read_all(reader, name, stack);
  return stack;
}

}  // namespace

SoftwareStack read_stack(const Document& document, std::string_view name) { return read_with_base(document, name, 0); }

Document write_stack(const SoftwareStack& stack) {
  auto object = std::make_shared<doc::Object>();
  const FactWriter facts(*object);
  facts.text("name", stack.name);
  facts.text("description", stack.description);
  facts.text("source", stack.source);
  visit_facts(facts, stack);
  return {std::make_shared<const doc::SourceText>(doc::SourceText{stack.name, ""}), doc::Value(std::move(object), 0)};
}

const Shelf<SoftwareStack>& stack_presets() {
  static const Shelf<SoftwareStack> kStacks = [] {
    std::vector<SoftwareStack> stacks;
    for (const EmbeddedFile& file : embedded_files("stacks"))
      stacks.push_back(read_stack(parse_shipped(file), file.name));
    std::stable_partition(stacks.begin(), stacks.end(),
                          [](const SoftwareStack& stack) { return stack.name == kDefault; });
    return Shelf<SoftwareStack>(std::move(stacks));
  }();
  return kStacks;
}

std::optional<SoftwareStack> find_stack(std::string_view name) {
  static const std::span<const EmbeddedFile> kFiles = embedded_files("stacks");
  static ReadOnce<SoftwareStack> shipped(kFiles.size());
  const EmbeddedFile* file = embedded_file("stacks", to_lower(name));
  if (file == nullptr) return std::nullopt;
  return shipped.at(static_cast<std::size_t>(file - kFiles.data()),
                    [&] { return read_with_base(parse_shipped(*file), file->name, 1); });
}

void use_stack_exchange(const SoftwareStack& stack, Split& split) {
  const ContextExchange first = stack.context_exchange.front();
  const bool unclear = first == ContextExchange::a2a_p2p && split.cp_inner == 1;
  if (split.cp > 1) split.cp_comm = unclear ? ContextExchange::p2p : first;
}

const char* to_string(AttentionKernel kernel) { return name_of(kAttention, kernel); }
const char* to_string(DataOverlap overlap) { return name_of(kOverlap, overlap); }
const char* to_string(Dispatcher dispatcher) { return name_of(kDispatchers, dispatcher); }
const char* to_string(GraphScope scope) { return name_of(kScopes, scope); }
const char* to_string(Storage storage) { return name_of(kStorage, storage); }

std::optional<Dispatcher> find_dispatcher(std::string_view name) {
  for (const auto& [dispatcher, known] : kDispatchers) {
    if (name == known) return dispatcher;
  }
  return std::nullopt;
}

std::string refuse_modules(const SoftwareStack& stack, RecomputeSet modules) {
  const std::string text = to_string(Recomputation::of_modules(modules));
  if (modules == 0) return "recompute names no modules";
  if (!stack.recompute_modules) {
    return fmt::format("stack {} cannot be told which modules to recompute (recompute={})", stack.name, text);
  }
  const auto has = [&](RecomputeModule module) { return (modules & set_of(module)) != 0; };
  if (stack.shared_expert_overlap && has(RecomputeModule::shared_experts)) {
    return fmt::format("recompute={} excludes shared_expert_overlap: what overlaps cannot run again", text);
  }
  const auto& scopes = stack.graph_scopes;
  if (has(RecomputeModule::moe) && std::find(scopes.begin(), scopes.end(), GraphScope::router) != scopes.end()) {
    return fmt::format("recompute={} runs routers again, which a graph captures (graph_scopes)", text);
  }
  return {};
}

std::vector<GraphScope> static_scopes() {
  return {GraphScope::attention, GraphScope::feed_forward, GraphScope::router, GraphScope::preprocess};
}

}  // namespace nest::cost
