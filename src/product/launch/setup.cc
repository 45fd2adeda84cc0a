#include "launch/setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cost/evaluate.h"
#include "cost/group_time.h"
#include "launch/override_text.h"
#include "launch/titan_python.h"
#include "launch/titan_schedules.h"
#include "plan/chunk_blocks.h"
#include "plan/pipeline_shape.h"

namespace nest::launch {
namespace {

// --- what kind of text it is

bool looks_like_json(std::string_view text) { return trim(text).starts_with('{'); }

// A table header of torchtitan's at the beginning of a line.
bool looks_like_toml(std::string_view text) {
  for (const std::string_view line : split_text(text, '\n')) {
    const std::string_view bare = trim(line);
    for (const char* table : {"[parallelism]", "[training]", "[model]", "[job]", "[activation_checkpoint]"}) {
      if (bare.starts_with(table)) return true;
    }
  }
  return false;
}

bool looks_like_yaml(std::string_view text) {
  for (const std::string_view line : split_text(text, '\n')) {
    if (line.starts_with("MODEL_ARGS:") || line.starts_with("MODEL_ARGS_2:")) return true;
  }
  return false;
}

bool looks_like_arguments(std::string_view text) {
  for (const std::string_view line : split_text(text, '\n')) {
    const std::string_view bare = trim(line);
    if (!bare.empty() && !bare.starts_with('#')) return bare.starts_with("--");
  }
  return false;
}

// --- MODEL_ARGS of Megatron's test and model-zoo files

std::string substituted(const std::string& text, const ShellVariables& variables, std::vector<std::string>& unknown) {
  const ShellScript script = read_shell("yaml", "x \"" + text + "\"", variables);
  if (script.commands.size() != 1 || script.commands.front().words.size() != 2) return text;
  const ShellWord& word = script.commands.front().words[1];
  unknown = word.unknown;
  return word.text;
}

void add_yaml_option(const doc::Object::Member& member, const ShellVariables& variables, std::vector<ShellWord>& words,
                     const Document& document) {
  const int line = 1 + static_cast<int>(std::count(
                           document.source->text.begin(),
                           document.source->text.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                               member.value.offset(), document.source->text.size())),
                           '\n'));
  const doc::Value& value = member.value;
  if (value.is_null() || (value.as_bool() != nullptr && !*value.as_bool())) return;
  words.push_back({member.key, {}, line});
  if (value.as_bool() != nullptr) return;
  const auto add = [&](const std::string& text) {
    ShellWord word{text, {}, line};
    if (text.find('$') != std::string::npos && text.find('"') == std::string::npos) {
      word.text = substituted(text, variables, word.unknown);
    }
    words.push_back(std::move(word));
  };
  if (value.as_integer() != nullptr) {
    add(fmt::format("{}", *value.as_integer()));
  } else if (value.as_real() != nullptr) {
    add(fmt::format("{}", *value.as_real()));
  } else if (const std::string* text = value.as_string(); text != nullptr) {
    // "[a b]" is a list of words.
    if (text->starts_with('[') && text->ends_with(']') && text->find_first_of("*+,") == std::string::npos) {
      for (const std::string_view part : split_text(std::string_view(*text).substr(1, text->size() - 2), ' ')) {
        if (!trim(part).empty()) add(std::string(trim(part)));
      }
    } else {
      add(*text);
    }
  } else if (const doc::Array* list = value.as_array(); list != nullptr) {
    for (const doc::Value& entry : *list) {
      if (entry.as_string() != nullptr) add(*entry.as_string());
      if (entry.as_integer() != nullptr) add(fmt::format("{}", *entry.as_integer()));
    }
  } else {
    throw InputError(fmt::format("{}: line {}: MODEL_ARGS.{}: a value, a list or true is expected",
                                 document.source->name, line, clip(member.key, 60)));
  }
}

TrainingCommand read_yaml_arguments(std::string_view source, const std::string& text, const ShellVariables& variables) {
  doc::Limits limits;
  limits.last_key_counts = true;
  const Document document = doc::parse_yaml(std::string(source), text, limits);
  TrainingCommand command;
  const doc::Object* root = document.root().as_object();
  if (root == nullptr) throw InputError(fmt::format("{}: the top level is no map", source));
  for (const doc::Object::Member& section : root->members()) {
    if (!section.key.starts_with("MODEL_ARGS")) continue;
    const doc::Object* options = section.value.as_object();
    if (options == nullptr) throw InputError(fmt::format("{}: {}: is no map", source, section.key));
    for (const doc::Object::Member& option : options->members()) {
      if (!option.key.starts_with("--")) {
        throw InputError(fmt::format("{}: {}.{}: options begin with --", source, section.key, clip(option.key, 40)));
      }
      add_yaml_option(option, variables, command.arguments, document);
    }
  }
  return command;
}

// --- laying out

std::int64_t block_count(const cost::Job& job) {
  std::int64_t blocks = 0;
  for (const int kind : job.model.layers) {
    blocks += job.model.kinds[static_cast<std::size_t>(kind)].counted_block() ? 1 : 0;
  }
  return blocks;
}

bool is_v(const LaunchSetup& setup) { return schedule::rule_of(setup.schedule).is_v(); }

// A V is priced with its first rank, where both ends of the model are, as the last stage.
std::size_t stage_of_chunk(const LaunchSetup& setup, std::size_t chunk) {
  const auto p = static_cast<std::size_t>(setup.pp);
  if (!is_v(setup)) return chunk % p;
  return chunk < p ? p - 1 - chunk : chunk - p;
}

// Chunks as the model's layers have them.
std::vector<plan::StageBlocks> blocks_of(const std::vector<LaunchChunk>& chunks) {
  std::vector<plan::StageBlocks> blocks;
  blocks.reserve(chunks.size());
  for (const LaunchChunk& chunk : chunks) {
    blocks.push_back({chunk.embedding, chunk.blocks, chunk.mtp > 0, chunk.head});
  }
  return blocks;
}

void check_chunk_ends(const LaunchSetup& setup, std::int64_t blocks) {
  std::int64_t given = 0;
  for (const LaunchChunk& chunk : setup.chunks) given += chunk.blocks;
  if (given != blocks) {
    throw InputError(fmt::format("{}: the stages hold {} layers; the model has {}", setup.source, given, blocks));
  }
  if (!setup.chunks.front().embedding || !setup.chunks.back().head) {
    throw InputError(
        fmt::format("{}: the embedding is in the first and the head in the last chunk of a pipeline", setup.source));
  }
}

// Stages as runs of layers: the blocks of all chunks of a stage together. Nothing where a stage would hold none.
std::vector<StagePlan> runs_from_chunks(const LaunchSetup& setup, const cost::Job& job) {
  std::vector<LaunchChunk> stages(static_cast<std::size_t>(setup.pp));
  for (std::size_t i = 0; i < setup.chunks.size(); ++i) {
    LaunchChunk& stage = stages[stage_of_chunk(setup, i)];
    stage.blocks += setup.chunks[i].blocks;
    stage.mtp += setup.chunks[i].mtp;
  }
  const std::vector<int>& layers = job.model.layers;
  const auto kind_of = [&](std::size_t i) { return job.model.kinds[static_cast<std::size_t>(layers[i])].kind; };
  std::vector<StagePlan> plans;
  std::size_t next = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    StagePlan plan;
    plan.first = static_cast<int>(next);
    if (s == 0) {
      while (next < layers.size() && kind_of(next) != model::LayerKind::block) ++next;
    }
    for (std::int64_t taken = 0; taken < stages[s].blocks; ++taken) ++next;
    if (stages[s].mtp > 0 && next < layers.size() && job.model.layer(static_cast<std::int64_t>(next)).mtp) ++next;
    if (s + 1 == stages.size()) next = layers.size();
    plan.last = static_cast<int>(next) - 1;
    if (plan.last < plan.first) return {};
    plans.push_back(plan);
  }
  return plans;
}

// Runs of layers where they stand for these chunks: as even as blocks go, which is what an interleaved stage is priced
// as and what an exported plan comes back as. Else the chunks, one by one.
std::vector<StagePlan> stages_from_chunks(const LaunchSetup& setup, const cost::Job& job, const Strategy& strategy) {
  check_chunk_ends(setup, block_count(job));
  const std::vector<plan::StageBlocks> blocks = blocks_of(setup.chunks);
  std::vector<StagePlan> runs = runs_from_chunks(setup, job);
  const bool all_hold = std::none_of(blocks.begin(), blocks.end(),
                                     [](const plan::StageBlocks& chunk) { return chunk == plan::StageBlocks{}; });
  if (!runs.empty() && all_hold) {
    const bool even =
        blocks == (is_v(setup) ? plan::v_blocks(job.model, runs) : plan::chunk_blocks(job.model, runs, setup.vpp));
    if (even && plan::keeps_priced_layers(job.model, runs, blocks, is_v(setup))) return runs;
  }
  const schedule::Rule& rule = schedule::rule_of(strategy.schedule);
  const schedule::Shape shape = plan::pipeline_shape(strategy, job.run.global_batch);
  if (const std::string reason = schedule::refuse(rule, shape); !reason.empty()) {
    throw InputError(fmt::format("{}: {}", setup.source, reason));
  }
  return plan::stages_of_chunks(job.model, schedule::Chain(rule, shape), blocks);
}

// What Megatron is told, or PyTorch's own rule.
std::int64_t group_of(const LaunchSetup& setup, std::int64_t micro_batches) {
  const bool titan = is_torchtitan(setup.framework);
  const std::int64_t group = titan ? titan_group(setup.pp, micro_batches) : setup.group;
  return group == setup.pp ? 0 : group;
}

// Pipeline, placement and micro-batch, once the split and the replicas are known.
Strategy finish_strategy(const LaunchSetup& setup, const cost::Job& job, Strategy strategy) {
  const std::int64_t expert_tp = setup.expert_tp == 0 ? setup.tp : setup.expert_tp;
  if (setup.replicas_last && setup.pp > 1 && expert_tp * setup.ep != setup.tp * setup.cp) {
    throw InputError(
        fmt::format("{}: --use-tp-pp-dp-mapping needs as many data-parallel ranks for experts as for the "
                    "rest: etp·ep = {}·{}, tp·cp = {}·{}",
                    setup.source, expert_tp, setup.ep, setup.tp, setup.cp));
  }
  strategy.pp = setup.pp;
  strategy.virtual_stages = setup.vpp;
  strategy.schedule = setup.vpp > 1 && !is_v(setup) ? Schedule::interleaved : setup.schedule;
  strategy.dp_inner = setup.replicas_last && setup.pp > 1 ? 1 : strategy.dp;
  strategy.micro_batch = setup.micro_batch.value_or(0);
  if (strategy.micro_batch == 0) {
    const std::int64_t steps = setup.accumulation.value_or(0);
    if (steps == 0) throw InputError(fmt::format("{}: the micro-batch size is missing", setup.source));
    strategy.micro_batch = job.run.global_batch / std::max<std::int64_t>(1, steps * strategy.dp);
  }
  if (strategy.schedule == Schedule::interleaved && strategy.micro_batch > 0) {
    strategy.group = group_of(setup, micro_batches(strategy, job.run.global_batch));
  }
  return strategy;
}

Strategy strategy_of(const LaunchSetup& setup, const cost::Job& job) {
  const auto fail = [&](const std::string& message) { throw InputError(fmt::format("{}: {}", setup.source, message)); };
  Strategy strategy;
  Split& split = strategy.split;
  split.tp = setup.tp;
  split.sp = setup.sp;
  split.cp = setup.cp;
  split.cp_inner = setup.cp_inner;
  split.offload = setup.offload;
  if (setup.cp > 1) split.cp_comm = setup.cp_comm;
  const std::int64_t world = setup.world.value_or(job.cluster.devices);
  const double one = static_cast<double>(setup.tp) * static_cast<double>(setup.cp) * static_cast<double>(setup.pp);
  const auto pipeline = static_cast<std::int64_t>(std::min(one, 1e15));
  if (world % pipeline != 0) {
    fail(fmt::format("{} ranks are no multiple of tp·cp·pp = {}·{}·{} = {}", world, setup.tp, setup.cp, setup.pp,
                     pipeline));
  }
  const std::int64_t data = world / pipeline;
  const bool experts = std::any_of(job.model.kinds.begin(), job.model.kinds.end(),
                                   [](const model::Layer& layer) { return layer.experts > 0; });
  if (!experts) {
    if (setup.ep > 1) fail(fmt::format("expert parallelism of {} needs a mixture of experts", setup.ep));
    strategy.dp = data;
    return finish_strategy(setup, job, strategy);
  }
  const std::int64_t expert_tp = setup.expert_tp == 0 ? setup.tp : setup.expert_tp;
  const std::int64_t stage = world / setup.pp;
  if (expert_tp > stage || setup.ep > stage || stage % (expert_tp * setup.ep) != 0) {
    fail(fmt::format("etp·ep = {}·{} does not divide the {} ranks of a stage (tp·cp·dp = {}·{}·{})", expert_tp,
                     setup.ep, stage, setup.tp, setup.cp, data));
  }
  split.ep = setup.ep;
  split.etp = expert_tp == setup.tp ? 0 : expert_tp;
  strategy.dp = data;
  return finish_strategy(setup, job, strategy);
}

}  // namespace

LaunchSetup read_launch(std::string_view source, const std::string& text, const ShellVariables& variables,
                        std::string_view more_arguments, const ReadNamedFile& read_file) {
  const std::vector<ShellWord> more = read_arguments("--with", more_arguments);
  if (looks_like_json(text)) return read_deepspeed_file(source, text, more);
  if (looks_like_accelerate(text)) return read_accelerate_file(source, text, more, read_file);
  if (looks_like_toml(text)) return read_torchtitan_file(source, text, more);
  if (looks_like_titan_python(text)) return read_titan_main_file(source, text, more);
  if (looks_like_overrides(text) || looks_like_override_yaml(text)) {
    return read_recipe_file(source, text, more, read_file);
  }
  TrainingCommand command;
  if (looks_like_yaml(text)) {
    command = read_yaml_arguments(source, text, variables);
  } else if (looks_like_arguments(text)) {
    command.arguments = read_arguments(source, text);
  } else {
    command = find_training_command(source, text, variables, read_file);
  }
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  if (command.program.find("torchtitan") != std::string::npos)
    return read_torchtitan_launch(source, command, read_file);
  if (is_recipe_command(command)) return read_recipe_launch(source, command, read_file);
  if (is_trainer_command(command)) return read_trainer_launch(source, command, read_file);
  return read_megatron_launch(source, command, read_file);
}

LaunchedPlan lay_out(const LaunchSetup& setup, const cost::Job& job) {
  LaunchedPlan plan;
  plan.strategy = strategy_of(setup, job);
  const std::int64_t step = plan.strategy.micro_batch * plan.strategy.dp;
  if (step == 0 || job.run.global_batch % step != 0) {
    throw InputError(
        fmt::format("{}: a global batch of {} is no multiple of micro-batch x data-parallel ranks = {} x {}",
                    setup.source, job.run.global_batch, plan.strategy.micro_batch, plan.strategy.dp));
  }
  const std::int64_t replicas = groups::dense_replicas(plan.strategy);
  if (setup.zero > 0 && setup.shard_instances > 1 && replicas % setup.shard_instances != 0) {
    throw InputError(fmt::format("{}: {} groups that shard on their own do not divide {} ranks", setup.source,
                                 setup.shard_instances, replicas));
  }
  const std::int64_t degree = setup.shard_degree > 0      ? setup.shard_degree
                              : setup.shard_instances > 1 ? replicas / setup.shard_instances
                                                          : 0;
  if (setup.chunks.empty()) {
    const std::int64_t blocks = block_count(job);
    if (setup.pp > blocks + 2 || setup.vpp > blocks + 2 || setup.pp * setup.vpp > blocks + 2) {
      throw InputError(fmt::format("{}: {} stages of {} chunks are more than the {} layers", setup.source, setup.pp,
                                   setup.vpp, blocks));
    }
    if (blocks % (setup.pp * setup.vpp) != 0 &&
        (setup.framework == Framework::megatron || setup.framework == Framework::nemo)) {
      throw InputError(fmt::format("{}: {} layers do not divide over {} stages of {} chunks", setup.source, blocks,
                                   setup.pp, setup.vpp));
    }
    plan.stages = cost::even_stages(job, plan.strategy, setup.recompute, setup.zero, degree);
  } else {
    plan.stages = stages_from_chunks(setup, job, plan.strategy);
  }
  for (StagePlan& stage : plan.stages) {
    stage.recompute = setup.recompute;
    stage.zero = setup.zero;
    stage.zero_degree = setup.zero == 0 ? 0 : degree;
    stage.zero_outer = setup.shard_outer;
  }
  const auto block_kinds = std::count_if(job.model.kinds.begin(), job.model.kinds.end(),
                                         [](const model::Layer& layer) { return layer.counted_block(); });
  if (setup.vpp > 1 && block_kinds > 1 && !plan::lists_chunks(plan.stages)) {
    plan.notes.emplace_back("layers differ: an interleaved stage is modelled as one run of as many layers");
  }
  if (const std::string reason = cost::refuse_strategy(job, plan.strategy, plan.stages); !reason.empty()) {
    throw InputError(fmt::format("{}: {}", setup.source, reason));
  }
  return plan;
}

}  // namespace nest::launch
