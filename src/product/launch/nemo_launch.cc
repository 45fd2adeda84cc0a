// Overrides of Megatron-Bridge's recipes and of NeMo 2's factories -> Megatron's options, read as those are.
//
// Rules of Megatron-Bridge 067f987d (training/config.py, comm_overlap.py, mixed_precision.py) and NeMo 8cfedd72. What a
// recipe sets and no override says is not known here: it is priced as most recipes have it, and named.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "launch/nemo_fields.h"
#include "launch/nemo_launch.h"
#include "launch/options.h"
#include "launch/setup.h"

namespace nest::launch {
namespace {

const KnownOption* option_named(std::string_view name) {
  const std::vector<KnownOption>& table = megatron_option_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const KnownOption& row) { return row.name == name; });
  return found == table.end() ? nullptr : &*found;
}

template <class Table>
std::optional<std::string_view> spelled(const Table& table, std::string_view key) {
  for (const Spelling& row : table) {
    if (row.from == key) return row.to;
  }
  return std::nullopt;
}

template <class Table>
bool is_listed(const Table& table, std::string_view key) {
  return std::find(table.begin(), table.end(), key) != table.end();
}

class RecipeReader {
 public:
  RecipeReader(std::string_view source, const Overrides& given) : source_(source) {
    for (const Override& each : given.all()) {
      Override moved = each;
      if (!take_target(given, moved)) continue;
      for (const Spelling& place : kNemoPlaces) {
        if (!moved.key.starts_with(place.from)) continue;
        moved.key = std::string(place.to) + moved.key.substr(place.from.size());
        nemo2_ = true;
        break;
      }
      nemo2_ = nemo2_ || each.key.starts_with("trainer.");
      if (moved.key == "trainer.plugins") moved.key = "mixed_precision";
      written_[moved.key] = each.key;
      overrides_.put(std::move(moved));
    }
  }

  LaunchSetup run(TrainingCommand command, const ReadNamedFile& read_file) {
    read_counts(command);
    translate();
    command.program.clear();
    command.arguments = std::move(arguments_);
    LaunchSetup setup;
    try {
      setup = read_megatron_launch(source_, command, read_file);
    } catch (const InputError& error) {
      throw InputError(in_own_words(error.what()));
    }
    for (std::string& note : setup.notes) note = in_own_words(note);
    std::erase_if(setup.notes, [](const std::string& note) { return note.starts_with("the text gives only some of"); });
    setup.notes.insert(setup.notes.end(), notes_.begin(), notes_.end());
    setup.framework = Framework::nemo;
    setup.overlap_object = overrides_.has_below("comm_overlap");
    check_chunks(setup);
    return setup;
  }

 private:
  // {_target_: torch.bfloat16, _call_: false} is the thing that it names; names of classes say nothing. False for both
  // members of an object that are no field.
  static bool take_target(const Overrides& given, Override& each) {
    constexpr std::string_view kTarget = "._target_", kCall = "._call_";
    if (each.key.ends_with(kCall)) return false;
    if (!each.key.ends_with(kTarget)) return true;
    each.key.resize(each.key.size() - kTarget.size());
    const Override* call = given.find(each.key + std::string(kCall));
    return call != nullptr && to_lower(call->value) == "false";
  }

  [[noreturn]] void fail(const Override& about, const std::string& message) const {
    throw InputError(fmt::format("{}: line {}: {}: {}", source_, about.line, own_key(about.key), message));
  }
  std::string own_key(const std::string& key) const {
    const auto found = written_.find(key);
    return found == written_.end() ? key : found->second;
  }

  // Options are Megatron's only here: people wrote keys.
  std::string in_own_words(std::string text) const {
    for (std::size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 1)) {
      std::size_t end = at + 2;
      while (end < text.size() && ((text[end] >= 'a' && text[end] <= 'z') || (text[end] >= '0' && text[end] <= '9') ||
                                   text[end] == '-' || text[end] == '_')) {
        ++end;
      }
      const auto found = keys_.find(text.substr(at, end - at));
      if (found != keys_.end()) text.replace(at, end - at, found->second);
    }
    return text;
  }

  const Override* value_of(std::string_view key) const {
    const Override* found = overrides_.find(key);
    return found == nullptr || found->is_null ? nullptr : found;
  }

  std::optional<bool> toggle(std::string_view key) const {
    const Override* found = value_of(key);
    if (found == nullptr) return std::nullopt;
    const std::string word = to_lower(found->value);
    if (word != "true" && word != "false" && found->unknown.empty()) {
      fail(*found, fmt::format("found `{}`; expected true or false", clip(found->value, 40)));
    }
    if (!found->unknown.empty()) {
      fail(*found, fmt::format("{} is not set in the text; give it with --define", found->unknown.front()));
    }
    return word == "true";
  }

  std::int64_t count_or(std::string_view key, std::int64_t otherwise) const {
    const Override* found = value_of(key);
    std::int64_t count = otherwise;
    if (found != nullptr) std::from_chars(found->value.data(), found->value.data() + found->value.size(), count);
    return count;
  }

  // What an option came from, and the option itself.
  void option(std::string_view name, const Override* from, std::vector<std::string> values = {}) {
    const int line = from == nullptr ? 0 : from->line;
    if (from != nullptr) keys_[std::string(name)] = own_key(from->key);
    arguments_.push_back({std::string(name), {}, line});
    for (std::string& value : values) {
      arguments_.push_back({std::move(value), from == nullptr ? std::vector<std::string>{} : from->unknown, line});
    }
  }
  void option_if(bool wanted, std::string_view name, std::string_view key) {
    if (wanted) option(name, overrides_.find(key));
  }

  // --- counts of ranks: NeMo 2's are fields of the trainer
  void read_counts(TrainingCommand& command) const {
    const auto read = [&](const char* key, LaunchCount& count) {
      const Override* found = value_of(key);
      if (found == nullptr) return;
      std::int64_t value = 0;
      const char* end = found->value.data() + found->value.size();
      const auto [rest, error] = std::from_chars(found->value.data(), end, value);
      if (error == std::errc() && rest == end && value > 0) {
        count = {value, ""};
      } else {
        count = {std::nullopt, found->unknown.empty() ? found->value : found->unknown.front()};
      }
    };
    if (!nemo2_ || command.world()) return;
    read("trainer.num_nodes", command.hosts);
    read("trainer.devices", command.ranks_per_host);
  }

  void translate() {
    add_precision();
    add_overlap();
    add_sharding();
    add_pipeline();
    add_model();
    add_kernels();
    for (const Override& each : overrides_.all()) add_field(each);
    name_what_recipes_decide();
  }

  // --- precision: written over model, optimizer and ddp when training starts
  void add_precision() {
    const Override* const word = overrides_.find("mixed_precision");
    const bool is_object = overrides_.has_below("mixed_precision");
    PrecisionRecipe recipe = kPrecisions.front();
    if (word != nullptr && word->is_null && !is_object) {
      option_if(!toggle("ddp.grad_reduce_in_fp32").value_or(true), "--grad-reduce-in-bf16", "ddp.grad_reduce_in_fp32");
      return;
    }
    if (word != nullptr && !word->is_null) {
      std::string name = word->value;
      std::replace(name.begin(), name.end(), '-', '_');
      const auto* const known = std::find_if(kPrecisions.begin(), kPrecisions.end(),
                                             [&](const PrecisionRecipe& row) { return row.name == name; });
      if (known == kPrecisions.end()) {
        std::vector<std::string> names;
        names.reserve(kPrecisions.size());
        for (const PrecisionRecipe& row : kPrecisions) names.emplace_back(row.name);
        fail(*word, fmt::format("`{}` is no recipe of precision{}", clip(word->value, 60), did_you_mean(name, names)));
      }
      recipe = *known;
    }
    add_precision_fields(recipe, word);
  }

  void add_precision_fields(const PrecisionRecipe& recipe, const Override* word) {
    const auto text = [&](const char* key, std::string_view otherwise) {
      const Override* found = overrides_.find(key);
      return found == nullptr ? std::string(otherwise) : found->is_null ? std::string() : found->value;
    };
    const bool half = toggle("mixed_precision.fp16").value_or(recipe.half);
    option(half ? "--fp16" : "--bf16", word);
    const std::string eight = text("mixed_precision.fp8", recipe.format == "fp8" ? "hybrid" : "");
    const std::string four = text("mixed_precision.fp4", recipe.format == "fp4" ? "e2m1" : "");
    const auto from = [&](const char* key) { return overrides_.find(key) == nullptr ? word : overrides_.find(key); };
    if (!eight.empty()) {
      option("--fp8-format", from("mixed_precision.fp8"), {eight});
      const std::string_view scaling = recipe.format == "fp8" ? recipe.scaling : nemo2_ ? "delayed" : "tensorwise";
      option("--fp8-recipe", from("mixed_precision.fp8_recipe"), {text("mixed_precision.fp8_recipe", scaling)});
      const bool gathered = toggle("mixed_precision.fp8_param_gather")
                                .value_or(toggle("mixed_precision.fp8_param").value_or(recipe.gathered));
      if (gathered) option("--fp8-param-gather", from("mixed_precision.fp8_param_gather"));
      option_if(toggle("mixed_precision.fp8_dot_product_attention").value_or(false), "--fp8-dot-product-attention",
                "mixed_precision.fp8_dot_product_attention");
    }
    if (!four.empty()) {
      option("--fp4-format", from("mixed_precision.fp4"), {four});
      if (toggle("mixed_precision.fp4_param_gather").value_or(recipe.gathered)) {
        option("--fp4-param-gather", from("mixed_precision.fp4_param_gather"));
      }
    }
    if (toggle("mixed_precision.first_last_layers_bf16").value_or(recipe.ends_wide)) {
      notes_.emplace_back("the first and the last layers, which stay in 16 bits, are modelled like the others");
    }
    const bool wide = toggle("mixed_precision.grad_reduce_in_fp32").value_or(!half);
    if (!wide) option("--grad-reduce-in-bf16", from("mixed_precision.grad_reduce_in_fp32"));
    for (const char* key : {"ddp.grad_reduce_in_fp32", "model.fp8_dot_product_attention"}) {
      const bool counts = std::string_view(key).starts_with("ddp") ? wide : false;
      if (toggle(key).value_or(counts) != counts) {
        notes_.push_back(fmt::format("{} says nothing: the recipe of precision is written over it", own_key(key)));
      }
    }
  }

  // --- overlap: comm_overlap decides where there is one
  void add_overlap() {
    const bool decides = overrides_.has_below("comm_overlap");
    const bool shards = is_sharded();
    const auto field = [&](const char* name, const char* without, bool otherwise) {
      const std::string key = (decides ? std::string("comm_overlap.") : std::string(without)) + name;
      return std::pair(toggle(key).value_or(otherwise), key);
    };
    const bool wide = count_or("model.tensor_model_parallel_size", 1) > 1;
    const auto [tensor, tensor_key] = field("tp_comm_overlap", "model.", nemo2_);
    option_if(tensor && wide && toggle("model.sequence_parallel").value_or(false), "--tp-comm-overlap", tensor_key);
    const auto [messages, messages_key] = field("overlap_p2p_comm", "model.", decides || nemo2_);
    option_if(!messages, "--no-overlap-p2p-communication", messages_key);
    const auto [defers, defers_key] = field("defer_embedding_wgrad_compute", "model.", false);
    option_if(defers, "--defer-embedding-wgrad-compute", defers_key);
    const auto [experts, experts_key] = field("overlap_moe_expert_parallel_comm", "model.", false);
    option_if(experts, "--overlap-moe-expert-parallel-comm", experts_key);
    const auto [delays, delays_key] = field("delay_wgrad_compute", "model.", false);
    option_if(delays, "--delay-wgrad-compute", delays_key);
    const bool asks = decides && shards;  // without a distributed optimizer ddp's own fields stay
    const auto reduces = toggle(asks ? "comm_overlap.overlap_grad_reduce" : "ddp.overlap_grad_reduce").value_or(true);
    const auto gathers =
        toggle(asks ? "comm_overlap.overlap_param_gather" : "ddp.overlap_param_gather").value_or(reduces);
    option_if(reduces, "--overlap-grad-reduce", asks ? "comm_overlap.overlap_grad_reduce" : "ddp.overlap_grad_reduce");
    option_if(gathers && shards, "--overlap-param-gather",
              asks ? "comm_overlap.overlap_param_gather" : "ddp.overlap_param_gather");
    if (nemo2_ && wide && toggle("model.sequence_parallel").value_or(false) && !toggle(tensor_key)) {
      notes_.emplace_back(
          "overlap of tensor parallelism is a callback of the recipe: taken as on (--with "
          "model.config.tp_comm_overlap=false)");
    }
  }

  // --- sharding: what one of the two fields says holds for both
  bool is_sharded() const {
    const auto ddp = toggle("ddp.use_distributed_optimizer"), optimizer = toggle("optimizer.use_distributed_optimizer");
    return !ddp && !optimizer ? true : ddp.value_or(false) || optimizer.value_or(false);
  }

  void add_sharding() {
    const char* key = overrides_.find("ddp.use_distributed_optimizer") != nullptr
                          ? "ddp.use_distributed_optimizer"
                          : "optimizer.use_distributed_optimizer";
    option_if(is_sharded(), "--use-distributed-optimizer", key);
  }

  // --- stages: a layout, which may be a list of lists, or how many chunks
  void add_pipeline() {
    const Override* layout = value_of("model.pipeline_model_parallel_layout");
    const Override* chunks = value_of("model.virtual_pipeline_model_parallel_size");
    if (layout != nullptr) {
      option("--pipeline-model-parallel-layout", layout, {layout->is_list ? letters_of(*layout) : layout->value});
    } else if (chunks != nullptr && chunks->value != "1") {
      option("--num-virtual-stages-per-pipeline-rank", chunks, {chunks->value});
    }
  }

  // [[embedding,decoder],[decoder,loss]] as Et|tL.
  std::string letters_of(const Override& layout) const {
    static const std::map<std::string, char, std::less<>> kLetters = {
        {"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
    std::string text;
    for (const std::string& stage : layout.items) {
      if (!text.empty()) text += '|';
      std::string word;
      for (const char c : stage + ",") {
        if (c >= 'a' && c <= 'z') {
          word += c;
        } else if (!word.empty()) {
          const auto letter = kLetters.find(word);
          if (letter == kLetters.end()) {
            fail(layout, fmt::format("`{}` is none of embedding, decoder, mtp and loss", clip(word, 40)));
          }
          text += letter->second;
          word.clear();
        }
      }
    }
    return text;
  }

  void check_chunks(const LaunchSetup& setup) const {
    const Override* chunks = value_of("model.virtual_pipeline_model_parallel_size");
    if (chunks == nullptr || value_of("model.pipeline_model_parallel_layout") == nullptr) return;
    if (count_or(chunks->key, 0) != setup.vpp) {
      fail(*chunks, fmt::format("{} chunks a stage; the layout has {}", clip(chunks->value, 20), setup.vpp));
    }
  }

  // --- the model, where it is all there
  bool has_sizes() const {
    return value_of("model.num_layers") != nullptr && value_of("model.hidden_size") != nullptr &&
           value_of("model.num_attention_heads") != nullptr &&
           (value_of("model.vocab_size") != nullptr || value_of("tokenizer.vocab_size") != nullptr);
  }

  void add_model() {
    if (!has_sizes()) {
      std::vector<std::string> left;
      for (const char* key : kSizes) {
        if (value_of(key) != nullptr) left.push_back(own_key(key));
      }
      if (left.empty()) return;
      const std::size_t more = left.size() - 1;
      notes_.push_back(fmt::format("{}{} not read: without model.vocab_size the model is the one that is named",
                                   left.front(),
                                   more == 0   ? std::string(" is")
                                   : more == 1 ? " and 1 other size are"
                                               : fmt::format(" and {} other sizes are", more)));
      return;
    }
    const Override* vocabulary = value_of("model.vocab_size");
    if (vocabulary == nullptr) vocabulary = value_of("tokenizer.vocab_size");
    option("--vocab-size", vocabulary, {vocabulary->value});
    if (const Override* groups = value_of("model.num_query_groups");
        groups != nullptr && !toggle("model.multi_latent_attention").value_or(false)) {
      option("--group-query-attention", groups);
      option("--num-query-groups", groups, {groups->value});
    }
    option_if(toggle("model.gated_linear_unit").value_or(false), "--swiglu", "model.gated_linear_unit");
    const Override* activation = value_of("model.activation_func");
    option_if(activation != nullptr && activation->value.find("squared_relu") != std::string::npos, "--squared-relu",
              "model.activation_func");
  }

  // --- what recipes set unless they are told otherwise
  void add_kernels() {
    option_if(toggle("model.cross_entropy_loss_fusion").value_or(true), "--cross-entropy-loss-fusion",
              "model.cross_entropy_loss_fusion");
    option("--no-create-attention-mask-in-dataloader", nullptr);
    for (const auto& [key, name] : {std::pair{"model.hidden_dropout", "--hidden-dropout"},
                                    std::pair{"model.attention_dropout", "--attention-dropout"}}) {
      if (value_of(key) == nullptr) option(name, nullptr, {"0"});
    }
    if (value_of("model.moe_token_dispatcher_type") == nullptr) {
      option("--moe-token-dispatcher-type", nullptr, {"alltoall"});
    }
    if (const Override* backend = value_of("model.attention_backend")) {
      option("--attention-backend", backend, {backend->value.substr(backend->value.rfind('.') + 1)});
    }
  }

  // --- everything else: fields named like options
  bool is_done(std::string_view key) const {
    return is_listed(kReadApart, key) || is_listed(kWithoutCost, key) || (!has_sizes() && is_listed(kSizes, key));
  }

  void add_field(const Override& given) {
    if (given.is_null || is_done(given.key)) return;
    const std::size_t dot = given.key.find('.');
    const std::string_view key = given.key, part = key.substr(0, dot);
    if (key == "peft" || part == "peft") {
      notes_.emplace_back("peft is not read: modelled as training of all weights");
      return;
    }
    // Of these only what has an option of its own matters.
    const bool narrow = part == "train" || part == "dataset" || part == "dist";
    if (dot == std::string::npos || (!narrow && part != "model" && part != "ddp" && part != "optimizer")) return;
    if (const auto inverted = spelled(kInverted, key)) return option_if(!toggle(key).value_or(true), *inverted, key);
    std::string name = "--" + std::string(key.substr(dot + 1));
    std::replace(name.begin(), name.end(), '_', '-');
    if (const auto renamed = spelled(kRenamed, key)) name = *renamed;
    const KnownOption* known = option_named(name);
    if (narrow && (known == nullptr || !known->read)) return;
    add_option(name, known, given);
  }

  void add_option(const std::string& name, const KnownOption* known, const Override& given) {
    if (known == nullptr) {
      if (given.value != "false" && given.value != "False") option(name, &given);  // nobody's option: it is named
      return;
    }
    switch (known->kind) {
      case OptionKind::flag: option_if(*toggle(given.key), name, given.key); return;
      case OptionKind::value: {
        // Types of torch, and lists that are one value.
        std::string value = given.value;
        if (name.ends_with("-dtype")) value = type_word(given);
        option(name, &given, {std::move(value)});
        return;
      }
      case OptionKind::list:
        option(name, &given, given.is_list ? given.items : std::vector<std::string>{given.value});
        return;
    }
  }

  static std::string type_word(const Override& given) {
    const std::string name = given.value.substr(given.value.rfind('.') + 1);
    constexpr std::array kTypes = {Spelling{"float32", "fp32"}, Spelling{"float16", "fp16"},
                                   Spelling{"bfloat16", "bf16"}, Spelling{"uint8", "fp8"}};
    const auto word = spelled(kTypes, name);
    return word ? std::string(*word) : name;
  }

  void name_what_recipes_decide() {
    std::vector<std::string> left;
    const auto name = [&](const char* bridge, const char* nemo2) { left.emplace_back(nemo2_ ? nemo2 : bridge); };
    const auto misses = [&](const char* key) { return overrides_.find(key) == nullptr; };
    for (const char* field : {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"}) {
      if (misses(fmt::format("model.{}", field).c_str())) {
        name(fmt::format("model.{}", field).c_str(), fmt::format("trainer.strategy.{}", field).c_str());
      }
    }
    if (misses("model.recompute_granularity"))
      name("model.recompute_granularity", "model.config.recompute_granularity");
    if (misses("ddp.use_distributed_optimizer") && misses("optimizer.use_distributed_optimizer")) {
      name("ddp.use_distributed_optimizer", "optim.config.use_distributed_optimizer");
    }
    if (misses("mixed_precision") && !overrides_.has_below("mixed_precision"))
      name("mixed_precision", "trainer.plugins");
    if (left.empty()) return;
    notes_.push_back(fmt::format(
        "the recipe decides {}, which the text does not say: modelled with degrees of 1, a sharded optimizer, bf16 and "
        "nothing recomputed unless it says so",
        join_words(left)));
  }

  std::string_view source_;
  Overrides overrides_;
  bool nemo2_ = false;
  std::map<std::string, std::string, std::less<>> written_;  // a key as people wrote it
  std::map<std::string, std::string, std::less<>> keys_;     // the key that an option came from
  std::vector<ShellWord> arguments_;
  std::vector<std::string> notes_;
};

}  // namespace

LaunchSetup read_overrides(std::string_view source, const Overrides& overrides, const TrainingCommand& command,
                           const ReadNamedFile& read_file) {
  return RecipeReader(source, overrides).run(command, read_file);
}

}  // namespace nest::launch
