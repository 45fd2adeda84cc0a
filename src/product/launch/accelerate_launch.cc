// Hugging Face: accelerate's configuration. Sources: accelerate 1.15 (16cb6eb8): commands/config/config_args.py,
// utils/dataclasses.py, parallelism_config.py.
#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "cost/stack.h"
#include "doc/reader.h"
#include "launch/setup.h"

namespace nest::launch {
namespace {

constexpr doc::Range kProcesses = {1, 1 << 24};

void read_fsdp(doc::Reader& root, LaunchSetup& setup) {
  setup.zero = 3;
  if (auto fsdp = root.maybe_object("fsdp_config")) {
    const std::int64_t version = fsdp->integer_or("fsdp_version", 1, {1, 2});
    if (version == 2) {
      setup.zero = fsdp->flag_or("fsdp_reshard_after_forward", true) ? 3 : 2;
    } else {
      const std::string strategy = fsdp->text_or("fsdp_sharding_strategy", "FULL_SHARD");
      if (strategy == "SHARD_GRAD_OP" || strategy == "2") {
        setup.zero = 2;
      } else if (strategy == "NO_SHARD" || strategy == "3") {
        setup.zero = 0;
      } else if (strategy != "FULL_SHARD" && strategy != "1") {
        fsdp->fail("fsdp_sharding_strategy",
                   fmt::format("{} is not read; FULL_SHARD, SHARD_GRAD_OP and NO_SHARD are, and FSDP2's "
                               "parallelism_config, which says how many ranks shard",
                               clip(strategy, 40)));
      }
    }
    if (fsdp->flag_or("fsdp_activation_checkpointing", false)) setup.recompute = Recompute::full;
    if (fsdp->flag_or("fsdp_offload_params", false)) setup.notes.emplace_back("fsdp_offload_params is not modelled");
    if (fsdp->text_or("fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP") != "TRANSFORMER_BASED_WRAP") {
      setup.notes.emplace_back("fsdp_auto_wrap_policy: modelled as TRANSFORMER_BASED_WRAP, layer by layer");
    }
  }
  if (auto mesh = root.maybe_object("parallelism_config")) {
    const auto size = [&](const char* name) {
      return mesh->integer_or(fmt::format("parallelism_config_{}_size", name), 1, kProcesses);
    };
    setup.tp = size("tp");
    setup.cp = size("cp");
    if (size("dp_replicate") > 1) setup.shard_degree = size("dp_shard") * setup.cp;
  }
}

void read_accelerate_deepspeed(doc::Reader& root, LaunchSetup& setup, const ReadNamedFile& read_file) {
  setup.framework = Framework::deepspeed;
  setup.stack = *cost::find_stack("hf-deepspeed");
  auto section = root.maybe_object("deepspeed_config");
  if (!section) return;
  if (const auto file = section->maybe_text("deepspeed_config_file")) {
    const std::optional<std::string> text = read_file ? read_file(*file) : std::nullopt;
    if (!text) section->fail("deepspeed_config_file", fmt::format("{}: cannot be read here", clip(*file, 60)));
    add_deepspeed_file(setup, *file, *text);
    return;
  }
  setup.zero = static_cast<int>(section->integer_or("zero_stage", 2, {0, 3}));
  setup.accumulation = section->maybe_integer("gradient_accumulation_steps", kProcesses);
  for (const char* key : {"offload_optimizer_device", "offload_param_device"}) {
    if (section->text_or(key, "none") != "none") setup.notes.push_back(fmt::format("{} is not modelled", key));
  }
}

}  // namespace

bool looks_like_accelerate(const std::string& text) {
  return text.starts_with("distributed_type:") || text.find("\ndistributed_type:") != std::string::npos;
}

LaunchSetup read_accelerate_file(std::string_view source, const std::string& text, const std::vector<ShellWord>& more,
                                 const ReadNamedFile& read_file) {
  doc::Reader root(doc::parse_yaml(std::string(source), text));
  LaunchSetup setup;
  setup.framework = Framework::fsdp;
  setup.source = source;
  setup.stack = *cost::find_stack("hf-fsdp");
  setup.world = root.maybe_integer("num_processes", kProcesses);
  const std::string mixed = to_lower(root.text_or("mixed_precision", "no"));
  setup.precision = mixed == "bf16" ? Precision::bf16 : mixed == "fp16" ? Precision::fp16 : Precision::fp32;
  if (mixed != "bf16" && mixed != "fp16" && mixed != "no") {
    root.fail("mixed_precision", fmt::format("{} is not read; bf16, fp16 and no are", clip(mixed, 40)));
  }
  const std::string kind = root.text_or("distributed_type", "");
  if (kind == "FSDP") {
    read_fsdp(root, setup);
  } else if (kind == "DEEPSPEED") {
    read_accelerate_deepspeed(root, setup, read_file);
  } else if (kind == "MULTI_GPU" || kind == "NO") {
    setup.stack = *cost::find_stack("huggingface");
  } else {
    root.fail("distributed_type", fmt::format("{} is not read; FSDP, DEEPSPEED, MULTI_GPU and NO are", clip(kind, 40)));
  }
  add_trainer_arguments(setup, more);
  return setup;
}

}  // namespace nest::launch
