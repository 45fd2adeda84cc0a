#include "plan/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "doc/reader.h"
#include "doc/to_json.h"
#include "nest/interval.h"
#include "plan/dimensions.h"
#include "plan/limits.h"

namespace nest::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostDevices = 1 << 24;
constexpr double kMostLayers = 1 << 20;
constexpr double kMostBytes = 0x1p62;
constexpr double kMostSeconds = 1e12;
constexpr std::size_t kMostLines = 1 << 16;  // of what pricing says

struct TimeField {
  const char* key;
  double StageTime::*field;
};
constexpr std::array kTimes = {TimeField{"forward", &StageTime::forward},
                               TimeField{"backward", &StageTime::backward},
                               TimeField{"recompute", &StageTime::recompute},
                               TimeField{"tp", &StageTime::tp},
                               TimeField{"cp", &StageTime::cp},
                               TimeField{"ep", &StageTime::ep},
                               TimeField{"p2p", &StageTime::p2p},
                               TimeField{"zero", &StageTime::zero},
                               TimeField{"total", &StageTime::total}};

struct MemoryField {
  const char* key;
  std::int64_t StageMemory::*field;
};
constexpr std::array kMemory = {
    MemoryField{"weights", &StageMemory::weights},     MemoryField{"gradients", &StageMemory::gradients},
    MemoryField{"optimizer", &StageMemory::optimizer}, MemoryField{"activations", &StageMemory::activations},
    MemoryField{"working", &StageMemory::working},     MemoryField{"buffers", &StageMemory::buffers},
    MemoryField{"total", &StageMemory::total}};

Json value_json(const PlanDimension& row, std::int64_t value) {
  switch (row.kind) {
    case DimensionKind::count: return value;
    case DimensionKind::flag: return value != 0;
    case DimensionKind::word: break;
  }
  return value_text(row, value);
}

std::int64_t read_value(doc::Reader& reader, const PlanDimension& row, std::int64_t otherwise) {
  switch (row.kind) {
    case DimensionKind::count:
      return reader.integer_or(row.key, otherwise, {static_cast<double>(row.low), static_cast<double>(row.high)});
    case DimensionKind::flag: return std::int64_t{reader.flag_or(row.key, otherwise != 0)};
    case DimensionKind::word: break;
  }
  const std::string word = reader.text_or(row.key, value_text(row, otherwise));
  if (const auto parsed = parse_word(row, word)) return *parsed;
  reader.fail(row.key, fmt::format("`{}` is not known; allowed are {}", clip(word, 40), allowed_text(row)));
}

Json strategy_json(const Strategy& strategy) {
  Json json;
  for (const PlanDimension& row : plan_dimensions()) {
    if (row.of_strategy == nullptr || (row.is_written != nullptr && !row.is_written(strategy))) continue;
    json[row.key] = value_json(row, row.of_strategy(strategy));
  }
  json["edp"] = strategy.edp();
  return json;
}

Json stage_json(const StagePlan& stage, const Strategy& strategy, std::int64_t index) {
  Json devices = Json::array();
  // Of the first replicas that hold every weight of the stage: neighbours.
  const std::int64_t first = device_of(strategy, 0, index, 0);
  for (std::int64_t q = 0; q < strategy.split.team_devices(); ++q) devices.push_back(first + q);
  Json time;
  for (const TimeField& entry : kTimes) time[entry.key] = stage.time.*entry.field;
  if (stage.time.weight > 0) time["weight"] = stage.time.weight;
  Json memory;
  for (const MemoryField& entry : kMemory) memory[entry.key] = stage.memory.*entry.field;
  memory["in_flight"] = stage.memory.in_flight;
  if (stage.memory.host > 0) memory["host"] = stage.memory.host;
  Json json = {{"layers", {stage.first, stage.last}}, {"devices", std::move(devices)}};
  if (!stage.device.empty()) json["device"] = stage.device;
  for (const ChunkPlan& chunk : stage.chunks) {
    Json one = {
        {"layers", {chunk.first, chunk.last}}, {"forward_s", chunk.forward_s}, {"backward_s", chunk.backward_s}};
    if (chunk.weight_s > 0) one["weight_s"] = chunk.weight_s;
    json["chunks"].push_back(std::move(one));
  }
  for (const PlanDimension& row : plan_dimensions()) {
    if (row.of_stage == nullptr || (row.is_stage_written != nullptr && !row.is_stage_written(stage))) continue;
    json[row.key] = value_json(row, row.of_stage(stage));
  }
  json["time_s"] = std::move(time);
  json["memory_bytes"] = std::move(memory);
  return json;
}

Json prediction_json(const Prediction& p) {
  Json breakdown;
  for (const BreakdownPart& part : kBreakdownParts) breakdown[part.key] = p.breakdown_s.*part.seconds;
  Json json = {{"iteration_s", p.iteration_s},
               {"samples_per_s", p.samples_per_s},
               {"tokens_per_s_per_device", p.tokens_per_s_per_device},
               {"flops_per_s_per_device", p.flops_per_s_per_device},
               {"mfu", p.mfu},
               {"peak_memory_bytes", p.peak_memory_bytes},
               {"breakdown_s", std::move(breakdown)}};
  if (p.spread > 0) {
    const Interval told = interval(p.iteration_s, p.spread);
    json["spread"] = p.spread;
    json["interval_s"] = {told.low, told.high};
  }
  return json;
}

// Until nest.plan/2 `ep` counted ranks taken out of data parallelism, outside the context-parallel ones, and `dp` the
// rest: the experts' reading of a stage was x + etp (t' + tp/etp (c + cp (e + ep r))) with t' and e the experts' rank.
// Where cp or ep is 1 these are today's groups on the same devices, of other names.
Strategy in_todays_words(const doc::Reader& reader, Strategy s) {
  Split& split = s.split;
  if (split.tp % split.expert_tp() != 0) {
    reader.fail("etp", fmt::format("{} does not divide tp={}", split.expert_tp(), split.tp));
  }
  if (split.cp > 1 && split.ep > 1) {
    reader.fail("ep", fmt::format("files before {} replicate experts over the context-parallel ranks (cp={}, ep={}); "
                                  "no strategy has these groups any more: expert groups are neighbouring ranks, those "
                                  "of cp before those of dp. Make the plan again",
                                  kPlanSchema, split.cp, split.ep));
  }
  s.dp *= split.ep;
  s.dp_inner *= split.ep;
  split.ep *= split.tp / split.expert_tp();
  return s;
}

enum class Words : std::uint8_t { todays, before };

Strategy read_strategy(doc::Reader reader, Words words) {
  Strategy s;
  for (const PlanDimension& row : plan_dimensions()) {
    if (row.of_strategy != nullptr) row.set_strategy(s, read_value(reader, row, row.of_strategy(s)));
  }
  if (s.split.etp == s.split.tp) s.split.etp = 0;
  if (words == Words::before) s = in_todays_words(reader, s);
  if (s.pitch == s.pipeline_block()) s.pitch = 0;
  if (s.group == s.pp) s.group = 0;
  if (words == Words::todays) reader.raw("edp");  // for readers; follows from the rest
  reader.refuse_unknown_keys();
  return s;
}

// Stages and chunks: [first, last], both included; a chunk without layers ends before it begins.
template <class Held>
void read_layers(doc::Reader& reader, Held& held) {
  const auto layers = reader.maybe_integers("layers", {-1, kMostLayers}, 2);
  if (!layers || layers->size() != 2 || (*layers)[0] < 0)
    reader.fail("layers", "expected [first, last], both included");
  held.first = static_cast<int>((*layers)[0]);
  held.last = static_cast<int>((*layers)[1]);
}

ChunkPlan read_chunk(doc::Reader reader) {
  ChunkPlan chunk;
  read_layers(reader, chunk);
  chunk.forward_s = reader.maybe_number("forward_s", {0, kMostSeconds}).value_or(0);
  chunk.backward_s = reader.maybe_number("backward_s", {0, kMostSeconds}).value_or(0);
  chunk.weight_s = reader.maybe_number("weight_s", {0, kMostSeconds}).value_or(0);
  reader.refuse_unknown_keys();
  return chunk;
}

StagePlan read_stage(doc::Reader reader, const std::string& device) {
  StagePlan stage;
  read_layers(reader, stage);
  for (doc::Reader& chunk : reader.objects("chunks")) stage.chunks.push_back(read_chunk(std::move(chunk)));
  reader.maybe_integers("devices", {0, kMostDevices}, 1 << 24);
  stage.device = reader.text_or("device", "");
  if (!stage.device.empty() && !device.empty() && stage.device != device) {
    reader.fail("device", fmt::format("is `{}`, and the cluster's devices are `{}`: pipelines across kinds of devices "
                                      "are not planned",
                                      clip(stage.device, 40), clip(device, 40)));
  }
  for (const PlanDimension& row : plan_dimensions()) {
    if (row.of_stage != nullptr) row.set_stage(stage, read_value(reader, row, row.of_stage(stage)));
  }
  if (auto time = reader.maybe_object("time_s")) {
    for (const TimeField& entry : kTimes) {
      stage.time.*entry.field = time->maybe_number(entry.key, {0, kMostSeconds}).value_or(0);
    }
    stage.time.weight = time->maybe_number("weight", {0, kMostSeconds}).value_or(0);
    time->refuse_unknown_keys();
  }
  if (auto memory = reader.maybe_object("memory_bytes")) {
    for (const MemoryField& entry : kMemory) {
      stage.memory.*entry.field = memory->maybe_integer(entry.key, {0, kMostBytes}).value_or(0);
    }
    stage.memory.in_flight = memory->maybe_number("in_flight", {0, kMostBytes}).value_or(0);
    stage.memory.host = memory->integer_or("host", 0, {0, kMostBytes});
    memory->refuse_unknown_keys();
  }
  reader.refuse_unknown_keys();
  return stage;
}

Prediction read_prediction(doc::Reader reader) {
  Prediction p;
  p.iteration_s = reader.maybe_number("iteration_s", {0, kMostSeconds}).value_or(0);
  p.spread = reader.maybe_number("spread", {0, 10}).value_or(0);
  reader.raw("interval_s");  // for readers; follows from the spread
  p.samples_per_s = reader.maybe_number("samples_per_s", {0, 1e15}).value_or(0);
  p.tokens_per_s_per_device = reader.maybe_number("tokens_per_s_per_device", {0, 1e15}).value_or(0);
  p.flops_per_s_per_device = reader.maybe_number("flops_per_s_per_device", {0, 1e21}).value_or(0);
  p.mfu = reader.maybe_number("mfu", {0, 10}).value_or(0);
  p.peak_memory_bytes = reader.maybe_integer("peak_memory_bytes", {0, kMostBytes}).value_or(0);
  if (auto breakdown = reader.maybe_object("breakdown_s")) {
    for (const BreakdownPart& part : kBreakdownParts) {
      p.breakdown_s.*part.seconds = breakdown->maybe_number(part.key, {0, kMostSeconds}).value_or(0);
    }
    breakdown->refuse_unknown_keys();
  }
  reader.refuse_unknown_keys();
  return p;
}

ExecutionRecord read_execution(doc::Reader reader) {
  ExecutionRecord record;
  record.simulated_s = reader.number("simulated_s", {0, kMostSeconds});
  record.executed = reader.integer_or("executed", 0, {0, 0x1p53});
  record.bounded = reader.integer_or("bounded", 0, {0, 0x1p53});
  record.complete = reader.flag_or("complete", true);
  record.least_s = reader.maybe_number("least_s", {0, kMostSeconds}).value_or(0);
  record.certain = reader.flag_or("certain", false);
  record.runs = reader.integer_or("runs", 0, {0, 0x1p53});
  record.formula = reader.text_or("formula", "");
  record.formula_s = reader.maybe_number("formula_s", {0, kMostSeconds}).value_or(0);
  record.formula_simulated_s = reader.maybe_number("formula_simulated_s", {0, kMostSeconds}).value_or(0);
  reader.refuse_unknown_keys();
  return record;
}

std::vector<std::string> read_settings(doc::Reader& reader) {
  constexpr std::size_t kMostSettings = 256;
  std::vector<std::string> settings = reader.maybe_texts("set", kMostSettings).value_or(std::vector<std::string>{});
  PlanLimits scratch;
  for (const std::string& setting : settings) {
    try {
      set_limit(scratch, setting, "a setting of the search");
    } catch (const InputError& error) {
      reader.fail("set", error.what());
    }
  }
  return settings;
}

SearchRecord read_search(doc::Reader reader) {
  SearchRecord record;
  record.wall_s = reader.maybe_number("wall_s", {0, kMostSeconds}).value_or(0);
  record.optimal = reader.flag_or("optimal", false);
  record.lower_bound_s = reader.maybe_number("lower_bound_s", {0, kMostSeconds}).value_or(0);
  record.candidates = reader.maybe_number("candidates", {0, 1e30}).value_or(0);
  record.opened = reader.integer_or("opened", 0, {0, 0x1p53});
  record.planner = reader.text_or("planner", "");
  record.tie = reader.maybe_number("tie", {0, 1}).value_or(0);
  record.fastest_s = reader.maybe_number("fastest_s", {0, kMostSeconds}).value_or(0);
  record.fastest = reader.text_or("fastest", "");
  record.simpler = reader.text_or("simpler", "");
  if (auto execution = reader.maybe_object("execution")) record.execution = read_execution(*execution);
  record.set = read_settings(reader);
  record.max_devices = reader.integer_or("max_devices", 0, {0, 0x1p53});
  record.target = reader.text_or("target", "");
  record.target_version = reader.text_or("target_version", "");
  reader.refuse_unknown_keys();
  return record;
}

Json execution_json(const ExecutionRecord& record) {
  Json json = {{"simulated_s", record.simulated_s},
               {"executed", record.executed},
               {"bounded", record.bounded},
               {"complete", record.complete},
               {"runs", record.runs}};
  if (record.least_s > 0) {
    json["least_s"] = record.least_s;
    json["certain"] = record.certain;
  }
  if (!record.formula.empty()) {
    json["formula"] = record.formula;
    json["formula_s"] = record.formula_s;
    json["formula_simulated_s"] = record.formula_simulated_s;
  }
  return json;
}

Json evaluation_json(const Plan& plan) {
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    stages.push_back({{"allocated_bytes", stage.memory.allocated},
                      {"reserved_bytes", stage.memory.total},
                      {"needed_bytes", stage.memory.needed},
                      {"out_of_memory", stage.memory.out_of_memory},
                      {"moment", stage.memory.moment}});
  }
  Json json = {{"fits", plan.fits}};
  if (!plan.fits) json["misfit"] = plan.misfit;
  if (!plan.unsure.empty()) json["unsure"] = plan.unsure;
  json["device_memory_bytes"] = plan.device_memory_bytes;
  json["stages"] = std::move(stages);
  if (!plan.contended.empty()) json["contended"] = plan.contended;
  json["assumptions"] = plan.assumptions;
  json["measured"] = plan.measured;
  return json;
}

void read_evaluation(doc::Reader reader, Plan& plan) {
  plan.fits = reader.flag_or("fits", true);
  plan.misfit = reader.text_or("misfit", "");
  plan.unsure = reader.text_or("unsure", "");
  plan.device_memory_bytes = reader.integer_or("device_memory_bytes", 0, {0, kMostBytes});
  std::vector<doc::Reader> stages = reader.objects("stages");
  if (!stages.empty() && stages.size() != plan.stages.size()) reader.fail("stages", "expected one for every stage");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    StageMemory& memory = plan.stages[s].memory;
    memory.allocated = stages[s].integer_or("allocated_bytes", 0, {0, kMostBytes});
    stages[s].integer_or("reserved_bytes", 0, {0, kMostBytes});  // the total of memory_bytes
    memory.needed = stages[s].integer_or("needed_bytes", 0, {0, kMostBytes});
    memory.out_of_memory = stages[s].maybe_number("out_of_memory", {0, 1}).value_or(0);
    memory.moment = stages[s].text_or("moment", "");
    stages[s].refuse_unknown_keys();
  }
  plan.contended = reader.maybe_texts("contended", kMostLines).value_or(std::vector<std::string>());
  plan.assumptions = reader.maybe_texts("assumptions", kMostLines).value_or(std::vector<std::string>());
  plan.measured = reader.maybe_texts("measured", kMostLines).value_or(std::vector<std::string>());
  // Written beside for readers; not part of the plan.
  for (const char* beside : {"training", "violations"}) reader.raw(beside);
  reader.refuse_unknown_keys();
}

Document sub_document(const Document& document, const doc::Value* value) {
  if (!value) return {};
  Document found(document.source, *value);
  found.part = true;
  return found;
}

}  // namespace

Json plan_to_json(const Plan& plan) {
  Json stages = Json::array();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    stages.push_back(stage_json(plan.stages[s], plan.strategy, static_cast<std::int64_t>(s)));
  }
  Json run = {{"global_batch", plan.run.global_batch},
              {"seq", plan.run.sequence},
              {"precision", to_string(plan.run.precision)},
              {"stack", plan.run.stack},
              {"optimizer", to_string(plan.run.optimizer)}};
  if (!plan.run.stack_reason.empty()) run["stack_reason"] = plan.run.stack_reason;
  if (plan.run.encoder_sequence > 0) run["encoder_seq"] = plan.run.encoder_sequence;
  if (plan.run.mtp_layers > 0) run["mtp_layers"] = plan.run.mtp_layers;
  if (!plan.run.routing.empty()) run["routing"] = plan.run.routing;
  if (!plan.run.freeze.empty()) run["freeze"] = plan.run.freeze;
  if (!plan.run.lora.empty()) run["lora"] = plan.run.lora;
  if (!plan.run.oom_risk.empty()) run["oom_risk"] = plan.run.oom_risk;
  if (plan.run.optimizer_offload > 0) run["optimizer_offload"] = plan.run.optimizer_offload;
  Json json = {{"schema", kPlanSchema},
               {"model",
                {{"name", plan.model.name},
                 {"title", plan.model.title},
                 {"family", plan.model.family},
                 {"parameters", plan.model.parameters},
                 {"config", doc::to_json(plan.model.config.root())}}},
               {"cluster",
                {{"name", plan.cluster.name},
                 {"device", plan.cluster.device},
                 {"devices", plan.cluster.devices},
                 {"description", doc::to_json(plan.cluster.description.root())}}},
               {"stack", doc::to_json(plan.stack.root())},
               {"profile", doc::to_json(plan.profile.root())},
               {"run", std::move(run)},
               {"strategy", strategy_json(plan.strategy)},
               {"stages", std::move(stages)},
               {"prediction", prediction_json(plan.prediction)}};
  if (plan.executed) json["executed"] = prediction_json(*plan.executed);
  if (plan.search) {
    json["search"] = {{"wall_s", plan.search->wall_s},
                      {"optimal", plan.search->optimal},
                      {"lower_bound_s", plan.search->lower_bound_s},
                      {"candidates", plan.search->candidates},
                      {"opened", plan.search->opened},
                      {"planner", plan.search->planner}};
    if (plan.search->tie > 0) {
      json["search"]["tie"] = plan.search->tie;
      json["search"]["fastest_s"] = plan.search->fastest_s;
    }
    if (!plan.search->fastest.empty()) {
      json["search"]["fastest"] = plan.search->fastest;
      json["search"]["simpler"] = plan.search->simpler;
    }
    if (plan.search->execution) json["search"]["execution"] = execution_json(*plan.search->execution);
    if (!plan.search->set.empty()) json["search"]["set"] = plan.search->set;
    if (plan.search->max_devices > 0) json["search"]["max_devices"] = plan.search->max_devices;
    if (!plan.search->target.empty()) {
      json["search"]["target"] = plan.search->target;
      json["search"]["target_version"] = plan.search->target_version;
    }
  }
  json["evaluation"] = evaluation_json(plan);
  return json;
}

Plan read_plan(const Document& document) {
  doc::Reader root(document);
  const std::string schema = root.text("schema");
  const bool first = schema == kFirstPlanSchema, before = first || schema == kSecondPlanSchema;
  if (schema != kPlanSchema && !before) {
    root.fail("schema", fmt::format("this is not a plan; expected \"{}\", \"{}\" or \"{}\"", kPlanSchema,
                                    kSecondPlanSchema, kFirstPlanSchema));
  }
  Plan plan;
  doc::Reader model = root.object("model");
  plan.model.name = model.text("name");
  plan.model.title = model.text_or("title", plan.model.name);
  plan.model.family = model.text_or("family", "");
  plan.model.parameters = model.integer_or("parameters", 0, {0, kMostBytes});
  plan.model.config = sub_document(document, model.raw("config"));
  model.refuse_unknown_keys();

  doc::Reader cluster = root.object("cluster");
  plan.cluster.name = cluster.text("name");
  plan.cluster.device = cluster.text_or("device", "");
  plan.cluster.devices = cluster.integer("devices", {1, kMostDevices});
  plan.cluster.description = sub_document(document, cluster.raw("description"));
  cluster.refuse_unknown_keys();

  if (!first) {
    plan.stack = sub_document(document, root.raw("stack"));
    plan.profile = sub_document(document, root.raw("profile"));
  }

  doc::Reader run = root.object("run");
  plan.run.global_batch = run.integer("global_batch", {1, 0x1p40});
  plan.run.sequence = run.integer("seq", {1, 0x1p31});
  plan.run.encoder_sequence = run.integer_or("encoder_seq", 0, {0, 0x1p31});
  plan.run.mtp_layers = run.integer_or("mtp_layers", 0, {0, 64});
  plan.run.routing = run.text_or("routing", "");
  plan.run.freeze = run.text_or("freeze", "");
  plan.run.lora = run.text_or("lora", "");
  plan.run.precision = run.word_or("precision", plan.run.precision, kPrecisionWords);
  plan.run.stack = run.text_or("stack", plan.run.stack);
  plan.run.stack_reason = run.text_or("stack_reason", "");
  plan.run.optimizer = run.word_or("optimizer", plan.run.optimizer, kOptimizerWords);
  plan.run.oom_risk = run.text_or("oom_risk", "");
  plan.run.optimizer_offload = run.integer_or("optimizer_offload", 0, {0, 100});
  run.refuse_unknown_keys();

  plan.strategy = read_strategy(root.object("strategy"), before ? Words::before : Words::todays);
  // Stacks said how contexts are exchanged before strategies did.
  if (auto stack = first ? std::nullopt : root.maybe_object("stack")) {
    const bool trades_heads = stack->flag_or("context_all_to_all", false);
    if (trades_heads && plan.strategy.split.cp > 1) plan.strategy.split.cp_comm = ContextExchange::a2a;
  }
  for (doc::Reader& stage : root.objects("stages")) {
    plan.stages.push_back(read_stage(std::move(stage), plan.cluster.device));
  }
  if (plan.stages.empty()) root.fail("stages", "a plan has at least one stage");
  if (auto prediction = root.maybe_object("prediction")) plan.prediction = read_prediction(std::move(*prediction));
  if (auto executed = root.maybe_object("executed")) plan.executed = read_prediction(std::move(*executed));
  if (auto search = root.maybe_object("search")) plan.search = read_search(std::move(*search));
  if (auto evaluation = root.maybe_object("evaluation"); evaluation && !first) {
    read_evaluation(std::move(*evaluation), plan);
  }
  // Written beside a plan for readers; not part of it.
  for (const char* beside : {"why_not", "alternatives", "nearest_runs", "demand", "failures"}) root.raw(beside);
  root.refuse_unknown_keys();
  return plan;
}

}  // namespace nest::plan
