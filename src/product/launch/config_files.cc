// DeepSpeed's JSON, torchtitan's TOML and Python.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/error.h"
#include "base/real.h"
#include "base/text.h"
#include "doc/reader.h"
#include "launch/setup.h"
#include "launch/titan_flavors.h"
#include "launch/titan_main.h"
#include "launch/titan_python.h"
#include "launch/titan_schedules.h"
#include "launch/toml.h"
#include "schedule/rules.h"

namespace nest::launch {
namespace {

constexpr doc::Range kRanks = {1, 1 << 24};
constexpr doc::Range kBatch = {1, 4294967296.0};

// --- DeepSpeed

// Values that are to be found out by the program ("auto") say nothing.
std::optional<std::int64_t> maybe_count(doc::Reader& reader, std::string_view key, doc::Range range) {
  const doc::Value* value = reader.raw(key);
  if (value != nullptr && value->as_string() != nullptr && *value->as_string() == "auto") return std::nullopt;
  return reader.maybe_integer(key, range);
}

// The same for switches. What the Trainer's arguments say of them comes later.
std::optional<bool> maybe_switch(doc::Reader& reader, std::string_view key) {
  const doc::Value* value = reader.raw(key);
  if (value != nullptr && value->as_string() != nullptr && *value->as_string() == "auto") return std::nullopt;
  return reader.maybe_flag(key);
}

void read_deepspeed_zero(doc::Reader& root, LaunchSetup& setup) {
  auto zero = root.maybe_object("zero_optimization");
  if (!zero) return;
  setup.zero = static_cast<int>(zero->integer_or("stage", 0, {0, 3}));
  const bool overlaps = maybe_switch(*zero, "overlap_comm").value_or(setup.zero == 3);
  setup.stack.data_overlap = !overlaps         ? cost::DataOverlap::none
                             : setup.zero == 3 ? cost::DataOverlap::fsdp
                                               : cost::DataOverlap::buckets;
  if (const auto group = maybe_count(*zero, "mics_shard_size", {-1, 1 << 24}); group.value_or(-1) > 0) {
    setup.shard_degree = *group;
  }
  if (maybe_count(*zero, "zero_hpz_partition_size", kRanks).value_or(1) > 1) {
    setup.notes.emplace_back("zero_hpz_partition_size is not modelled: weights are gathered over all ranks");
  }
  for (const char* key : {"offload_param", "offload_optimizer"}) {
    if (zero->has(key)) setup.notes.push_back(fmt::format("{} is not modelled", key));
  }
  for (const char* key : {"zero_quantized_weights", "zero_quantized_gradients"}) {
    if (zero->flag_or(key, false)) setup.notes.push_back(fmt::format("{} is not modelled", key));
  }
}

void read_deepspeed(doc::Reader& root, LaunchSetup& setup) {
  const auto batch = maybe_count(root, "train_batch_size", kBatch);
  const auto micro = maybe_count(root, "train_micro_batch_size_per_gpu", kRanks);
  const auto accumulation = maybe_count(root, "gradient_accumulation_steps", kBatch);
  if (batch) setup.global_batch = batch;
  if (micro) setup.micro_batch = micro;
  if (accumulation) setup.accumulation = accumulation;
  read_deepspeed_zero(root, setup);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    auto section = root.maybe_object(to_string(precision));
    if (section && maybe_switch(*section, "enabled").value_or(false)) setup.precision = precision;
  }
  if (auto tensor = root.maybe_object("tensor_parallel")) {
    if (const auto size = maybe_count(*tensor, "autotp_size", {0, 1 << 24}); size.value_or(0) > 0) setup.tp = *size;
  }
  if (auto experts = root.maybe_object("expert_parallel"); experts && experts->flag_or("enabled", true)) {
    setup.ep = maybe_count(*experts, "autoep_size", kRanks).value_or(setup.ep);
  }
  if (const auto ulysses = maybe_count(root, "sequence_parallel_size", kRanks); ulysses.value_or(1) > 1) {
    setup.cp = *ulysses;
    setup.cp_comm = ContextExchange::a2a;
  }
  if (auto pipeline = root.maybe_object("pipeline")) {
    if (const auto stages = maybe_count(*pipeline, "stages", kRanks)) setup.pp = *stages;
    if (maybe_count(*pipeline, "activation_checkpoint_interval", {0, 1 << 24}).value_or(0) > 0) {
      setup.recompute = Recompute::full;
    }
  }
  if (setup.pp > 1 && setup.zero > 1) {
    root.fail("zero_optimization",
              fmt::format("stage {} with a pipeline of {} stages; DeepSpeed takes 0 or 1", setup.zero, setup.pp));
  }
}

// --- torchtitan

class TitanReader {
 public:
  TitanReader(std::string_view source, const Document& document, Framework version) : root_(document) {
    setup_.framework = version;
    setup_.source = source;
    setup_.stack = *cost::find_stack("fsdp2");
  }

  LaunchSetup run() {
    setup_.micro_batch = setup_.local_batch = local_batch_;
    setup_.sequence = 2048;
    setup_.recompute = Recompute::selective;
    if (auto model = root_.maybe_object("model")) read_model(*model);
    if (auto training = root_.maybe_object("training")) read_training(*training);
    if (auto parallel = root_.maybe_object("parallelism")) read_parallelism(*parallel);
    if (auto checkpoint = root_.maybe_object("activation_checkpoint")) read_checkpointing(*checkpoint);
    bool model = false, loss = false;
    if (auto compile = root_.maybe_object("compile"); compile && compile->flag_or("enable", false)) {
      const auto parts = compile->maybe_texts("components", 64);
      model = !parts || std::find(parts->begin(), parts->end(), "model") != parts->end();
      loss = !parts || std::find(parts->begin(), parts->end(), "loss") != parts->end();
    }
    if (!model) setup_.stack.fused_rowwise = false;
    if (!loss) setup_.stack.loss = cost::LossKernel::eager_fp32;
    return std::move(setup_);
  }

 private:
  void read_model(doc::Reader& model) {
    const std::string name = model.text_or("name", ""), flavor = model.text_or("flavor", "");
    for (const TitanFlavor& known : kTitanFlavors) {
      if (name == known.name && to_lower(flavor) == to_lower(known.flavor)) setup_.model_name = known.preset;
    }
    for (const TitanMainFlavor& known : kTitanMainFlavors) {
      if (setup_.framework != Framework::torchtitan_main || name != known.module) continue;
      if (to_lower(flavor) == to_lower(known.flavor)) setup_.model_name = known.preset;
    }
    if (const auto converters = model.maybe_texts("converters", 64)) {
      for (const std::string& converter : *converters) {
        if (converter == "quantize.linear.float8" || converter == "float8") setup_.precision = Precision::fp8;
        if (converter == "quantize.linear.mx") setup_.precision = Precision::fp8;
      }
    }
  }

  void read_training(doc::Reader& training) {
    local_batch_ = training.integer_or("local_batch_size", 8, kBatch);
    const std::int64_t global = training.integer_or("global_batch_size", -1, {-1, 4294967296.0});
    if (global > 0) setup_.global_batch = global;
    setup_.sequence = training.integer_or("seq_len", 2048, {1, 2147483648.0});
    setup_.micro_batch = setup_.local_batch = local_batch_;
    if (training.text_or("mixed_precision_param", "bfloat16") == "float32" && setup_.precision == Precision::bf16) {
      setup_.precision = Precision::fp32;
    }
  }

  void read_parallelism(doc::Reader& parallel) {
    setup_.tp = parallel.integer_or("tensor_parallel_degree", 1, kRanks);
    setup_.cp = parallel.integer_or("context_parallel_degree", 1, kRanks);
    setup_.pp = parallel.integer_or("pipeline_parallel_degree", 1, kRanks);
    setup_.ep = parallel.integer_or("expert_parallel_degree", 1, kRanks);
    setup_.expert_tp = parallel.integer_or("expert_tensor_parallel_degree", 1, kRanks);
    setup_.sp = setup_.tp > 1 && parallel.flag_or("enable_sequence_parallel", true);
    setup_.stack.tensor_overlap = parallel.flag_or("enable_async_tensor_parallel", false);
    // Its all-to-all passes blocks on to the next rank, a ring; the other method gathers all of them.
    const std::vector<std::string> methods = {"allgather", "alltoall"};
    const bool ring = parallel.choice_or("context_parallel_rotate_method", "allgather", methods) == "alltoall";
    setup_.cp_comm = ring ? ContextExchange::p2p : ContextExchange::all_gather;
    const std::int64_t replicate = parallel.integer_or("data_parallel_replicate_degree", 1, kRanks);
    const std::int64_t shard = parallel.integer_or("data_parallel_shard_degree", -1, {-1, 1 << 24});
    const std::vector<std::string> policies = {"default", "always", "never"};
    const std::string reshard = parallel.choice_or("fsdp_reshard_after_forward", "default", policies);
    const bool gathers = reshard == "always" || (reshard == "default" && setup_.pp == 1);
    const bool shards = shard != 1 || setup_.cp > 1;
    setup_.zero = !shards ? 0 : gathers ? 3 : 2;
    setup_.shard_instances = shards ? replicate : 1;
    if (shard > 0) setup_.world = checked_product({replicate, shard, setup_.tp, setup_.cp, setup_.pp});
    if (setup_.pp > 1) read_pipeline(parallel);
  }

  void read_pipeline(doc::Reader& parallel) {
    const std::string schedule = parallel.text_or("pipeline_parallel_schedule", "1F1B");
    const TitanSchedule* const known = titan_schedule(schedule);
    if (known == nullptr) {
      std::vector<std::string> names;
      names.reserve(kTitanSchedules.size());
      for (const TitanSchedule& one : kTitanSchedules) names.emplace_back(one.name);
      parallel.fail("pipeline_parallel_schedule",
                    fmt::format("`{}` is not modelled; understood are {}", clip(schedule, 40), join_words(names)));
    }
    setup_.schedule = known->kind;
    read_order(parallel, *known);
    setup_.micro_batch = parallel.integer_or("pipeline_parallel_microbatch_size", 1, kBatch);
    if (local_batch_ % *setup_.micro_batch != 0) {
      parallel.fail(
          "pipeline_parallel_microbatch_size",
          fmt::format("{} does not divide training.local_batch_size = {}", *setup_.micro_batch, local_batch_));
    }
    setup_.vpp = schedule::rule_of(setup_.schedule).interleaves() ? 2 : 1;
    setup_.stack.pipeline_overlap = false;
    read_parts(parallel);
  }

  // pipeline_parallel_schedule_csv: an order in a file of its own, which is known by its name.
  void read_order(doc::Reader& parallel, const TitanSchedule& named) {
    constexpr const char* kKey = "pipeline_parallel_schedule_csv";
    const std::string path = parallel.text_or(kKey, "");
    if (path.empty()) return;
    const std::string file = path.substr(path.find_last_of('/') + 1);
    std::vector<std::string> names;
    names.reserve(kTitanFiles.size());
    for (const TitanSchedule& one : kTitanFiles) {
      names.push_back(titan_file_name(one.kind));
      if (file != names.back()) continue;
      if (titan_schedule(one.name)->kind != named.kind) {
        parallel.fail("pipeline_parallel_schedule", fmt::format("{} goes with {}", file, one.name));
      }
      setup_.schedule = one.kind;
      setup_.notes.push_back(fmt::format("{} is not opened: modelled as the order that nest writes", file));
      return;
    }
    parallel.fail(kKey,
                  fmt::format("`{}` is not read; orders that nest writes are {}", clip(file, 40), join_words(names)));
  }

  // module_fqns_per_model_part: what every stage holds, in order.
  void read_parts(doc::Reader& parallel) {
    const doc::Value* parts = parallel.raw("module_fqns_per_model_part");
    const doc::Array* list = parts == nullptr ? nullptr : parts->as_array();
    if (list == nullptr) {
      setup_.notes.emplace_back("stages are cut as nest cuts them evenly; torchtitan's own rule may differ by a layer");
      return;
    }
    if (static_cast<std::int64_t>(list->size()) % setup_.pp != 0) {
      parallel.fail("module_fqns_per_model_part",
                    fmt::format("{} parts do not divide over {} stages", list->size(), setup_.pp));
    }
    setup_.vpp = static_cast<std::int64_t>(list->size()) / setup_.pp;
    if (schedule::rule_of(setup_.schedule).is_v() && setup_.vpp != 2) {
      parallel.fail("module_fqns_per_model_part",
                    fmt::format("{} parts for {} stages; a V has two for each", list->size(), setup_.pp));
    }
    for (const doc::Value& part : *list) {
      const doc::Array* names = part.as_array();
      if (names == nullptr) parallel.fail("module_fqns_per_model_part", "every part is a list of names");
      LaunchChunk chunk;
      for (const doc::Value& name : *names) {
        const std::string* text = name.as_string();
        if (text == nullptr) parallel.fail("module_fqns_per_model_part", "every part is a list of names");
        chunk.embedding = chunk.embedding || *text == "tok_embeddings";
        chunk.head = chunk.head || *text == "output" || *text == "lm_head";
        if (text->starts_with("layers.")) ++chunk.blocks;
      }
      setup_.chunks.push_back(chunk);
    }
  }

  void read_checkpointing(doc::Reader& checkpoint) {
    const std::vector<std::string> modes = {"selective", "full", "memory_budget", "none"};
    const std::string mode = checkpoint.choice_or("mode", "selective", modes);
    if (mode == "memory_budget") {
      checkpoint.fail("mode", "`memory_budget` is not modelled; understood are selective, full and none");
    }
    setup_.recompute = mode == "full" ? Recompute::full : mode == "none" ? Recompute::none : Recompute::selective;
    if (mode == "selective" && checkpoint.text_or("selective_ac_option", "2") != "op") {
      setup_.notes.emplace_back("checkpointing whole layers now and then is modelled as the policy per operator");
    }
  }

  doc::Reader root_;
  LaunchSetup setup_;
  std::int64_t local_batch_ = 8;
};

// Values as TOML writes them: what is no number, switch or list is a text.
std::string toml_value(const std::string& value) {
  double number = 0;
  const auto [rest, error] = real_from_chars(value.data(), value.data() + value.size(), number);
  const bool plain = value == "true" || value == "false" || value.starts_with('[') ||
                     (error == std::errc() && rest == value.data() + value.size() && !value.empty());
  if (plain) return value;
  std::string quoted;
  for (const char c : value) quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return "\"" + quoted + "\"";
}

// Overrides from the command line by section: --parallelism.tensor_parallel_degree 4; the last one wins.
TitanSections override_sections(std::string_view source, const std::vector<ShellWord>& words) {
  TitanSections sections;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const ShellWord& word = words[i];
    if (!word.text.starts_with("--")) {
      throw InputError(fmt::format("{}: line {}: `{}` is no option", source, word.line, clip(word.text, 40)));
    }
    const std::size_t equals = word.text.find('=');
    const std::string key = word.text.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    std::string value = "true";
    const ShellWord* from = &word;
    if (equals != std::string::npos) {
      value = word.text.substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].text.starts_with("--")) {
      from = &words[++i];
      value = from->text;
    }
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos) continue;
    const std::string section = key.substr(0, dot);
    if (!from->unknown.empty() && (section == "parallelism" || section == "training")) {
      throw InputError(fmt::format("{}: line {}: --{}: {} is not set in the text; give it with --define", source,
                                   word.line, key, from->unknown.front()));
    }
    sections[section][key.substr(dot + 1)] = toml_value(value);
  }
  return sections;
}

// The file with what the command line says instead.
Document with_overrides(const Document& document, const std::vector<ShellWord>& words) {
  if (words.empty()) return document;
  std::string extra;
  for (const auto& [section, keys] : override_sections(document.source->name, words)) {
    extra += "[" + section + "]\n";
    for (const auto& [key, value] : keys) extra += fmt::format("{} = {}\n", key, value);
  }
  const Document added = parse_toml("--from", extra);
  const doc::Object* base = document.root().as_object();
  const doc::Object* over = added.root().as_object();
  auto root = std::make_shared<doc::Object>();
  for (const doc::Object::Member& member : base->members()) {
    const doc::Value* changed = over->find(member.key);
    if (changed == nullptr || changed->as_object() == nullptr || member.value.as_object() == nullptr) {
      root->add(member.key, member.value);
      continue;
    }
    auto merged = std::make_shared<doc::Object>();
    for (const doc::Object::Member& inner : member.value.as_object()->members()) {
      if (changed->as_object()->find(inner.key) == nullptr) merged->add(inner.key, inner.value);
    }
    for (const doc::Object::Member& inner : changed->as_object()->members()) merged->add(inner.key, inner.value);
    root->add(member.key, doc::Value(std::move(merged), member.value.offset()));
  }
  for (const doc::Object::Member& member : over->members()) {
    if (base->find(member.key) == nullptr) root->add(member.key, member.value);
  }
  return {document.source, doc::Value(std::move(root), 0)};
}

}  // namespace

// Pipelines are Megatron-DeepSpeed's; without one, models are mostly transformers'.
LaunchSetup read_deepspeed_file(std::string_view source, const std::string& text, const std::vector<ShellWord>& more) {
  LaunchSetup setup;
  setup.framework = Framework::deepspeed;
  setup.source = source;
  const Document document = doc::parse_json(std::string(source), text);
  const doc::Object* const root = document.root().as_object();
  const bool pipeline = root != nullptr && root->find("pipeline") != nullptr;
  setup.stack = *cost::find_stack(pipeline ? "megatron-deepspeed" : "hf-deepspeed");
  setup.precision = Precision::fp32;
  add_deepspeed_file(setup, source, text);
  add_trainer_arguments(setup, more);
  return setup;
}

void add_deepspeed_file(LaunchSetup& setup, std::string_view source, const std::string& text) {
  doc::Reader root(doc::parse_json(std::string(source), text));
  read_deepspeed(root, setup);
}

LaunchSetup read_torchtitan_file(std::string_view source, const std::string& text,
                                 const std::vector<ShellWord>& overrides) {
  const Document document = with_overrides(parse_toml(std::string(source), text), overrides);
  return TitanReader(source, document, Framework::torchtitan).run();
}

namespace {

// Main's sections with what the command line says instead, its negations (--no-) as switches.
LaunchSetup read_titan_sections(std::string_view source, TitanSections sections,
                                const std::vector<ShellWord>& overrides) {
  for (const auto& [section, keys] : override_sections(source, overrides)) {
    for (const auto& [key, value] : keys) {
      if (key.starts_with("no-") || key.starts_with("no_")) {
        sections[section][key.substr(3)] = "false";
      } else {
        sections[section][key] = value;
      }
    }
  }
  const Document document = parse_toml(std::string(source), titan_toml(source, std::move(sections)));
  return TitanReader(source, document, Framework::torchtitan_main).run();
}

// What to read of a command: the file of 0.2.2, or main's module and configuration.
struct TitanCommand {
  std::string file, module, config;
  std::vector<ShellWord> overrides;
};

TitanCommand titan_command(const TrainingCommand& command) {
  TitanCommand found;
  const std::array<std::pair<std::string_view, std::string*>, 3> names = {
      {{"--job.config_file", &found.file}, {"--module", &found.module}, {"--config", &found.config}}};
  for (std::size_t i = 0; i < command.arguments.size(); ++i) {
    const std::string& word = command.arguments[i].text;
    bool taken = false;
    for (const auto& [name, value] : names) {
      if (word == name && i + 1 < command.arguments.size()) {
        *value = command.arguments[++i].text;
        taken = true;
      } else if (word.starts_with(std::string(name) + "=")) {
        *value = word.substr(name.size() + 1);
        taken = true;
      }
      if (taken) break;
    }
    if (!taken) found.overrides.push_back(command.arguments[i]);
  }
  return found;
}

// Main's configuration: torchtitan's own, or one in a module that can be read here (its dots are folders).
TitanSections titan_main_sections(std::string_view source, const TitanCommand& command,
                                  const ReadNamedFile& read_file) {
  if (TitanSections own = titan_main_config(command.config); !own.empty()) return own;
  std::string path = command.module;
  std::replace(path.begin(), path.end(), '.', '/');
  for (const std::string& file : {path + ".py", path + "/config_registry.py"}) {
    const std::optional<std::string> text = read_file ? read_file(file) : std::nullopt;
    if (text) return read_titan_python(file, *text, command.config);
  }
  throw InputError(fmt::format("{}: --module {} --config {}: neither torchtitan's own nor a file that can be read here",
                               source, clip(command.module, 60), clip(command.config, 60)));
}

}  // namespace

LaunchSetup read_titan_main_file(std::string_view source, const std::string& text,
                                 const std::vector<ShellWord>& overrides) {
  return read_titan_sections(source, read_titan_python(source, text), overrides);
}

LaunchSetup read_torchtitan_launch(std::string_view source, const TrainingCommand& command,
                                   const ReadNamedFile& read_file) {
  const TitanCommand titan = titan_command(command);
  LaunchSetup setup;
  if (!titan.module.empty() || !titan.config.empty()) {
    setup = read_titan_sections(source, titan_main_sections(source, titan, read_file), titan.overrides);
  } else {
    std::optional<std::string> text = std::string();
    if (!titan.file.empty()) text = read_file ? read_file(titan.file) : std::nullopt;
    if (!text) {
      throw InputError(fmt::format("{}: --job.config_file {}: cannot be read here", source, clip(titan.file, 60)));
    }
    setup = read_torchtitan_file(titan.file.empty() ? std::string(source) : titan.file, *text, titan.overrides);
  }
  setup.source = source;
  setup.notes.insert(setup.notes.begin(), command.notes.begin(), command.notes.end());
  if (const auto world = command.world()) setup.world = world;
  return setup;
}

}  // namespace nest::launch
