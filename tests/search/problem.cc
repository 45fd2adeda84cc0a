#include "problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cost/memory.h"
#include "cost/offload.h"
#include "cost/profile.h"
#include "cost/rates.h"
#include "cost/tables.h"
#include "model/config.h"
#include "oracle.h"

namespace nest::test {
namespace {

constexpr std::size_t kMostKeys = 500, kMostKeysOfLongChains = 40, kMostKeysOfTiny = 8;
constexpr std::int64_t kDevicesOfTiny = 8;

std::int64_t parameters_of(const model::Layer& layer) {
  std::int64_t sum = 0;
  for (const model::Operator& op : layer.operators) {
    for (const model::Weight& weight : op.weights) sum += model::elements(weight);
  }
  return sum;
}

std::vector<std::string> named_subset(Dice& dice, const std::vector<std::string>& words) {
  std::vector<std::string> chosen;
  for (const std::string& word : words) {
    if (dice.one_in(2)) chosen.push_back(word);
  }
  if (chosen.empty()) chosen.push_back(dice.any(words));
  return chosen;
}

std::string joined(const std::string& key, const std::vector<std::string>& words) {
  std::string text = key + "=";
  for (std::size_t k = 0; k < words.size(); ++k) text += (k > 0 ? "," : "") + words[k];
  return text;
}

void apply_settings(Problem& problem) {
  problem.limits = {};
  if (problem.megatron) plan::restrict_to_megatron(problem.limits);
  for (const std::string& setting : problem.settings) plan::set_limit(problem.limits, setting);
}

void choose_degrees(Dice& dice, Problem& problem) {
  std::vector<std::string>& set = problem.settings;
  const Leaning leaning = problem.leaning;
  const bool deep = leaning == Leaning::interleaved || leaning == Leaning::motif;
  set.push_back(dice.any({"mbs=1", "mbs=1", "mbs=1,2", "mbs=..2", "mbs=2", "mbs=1,3", "mbs=..4"}));
  set.push_back(deep ? dice.any({"pp=2", "pp=2..3", "pp=..3", "pp=2..4"})
                     : dice.any({"pp=..2", "pp=..3", "pp=..4", "pp=1", "pp=1,3", "pp=2..4", "pp=..6", "pp=3.."}));
  if (dice.one_in(3)) set.push_back(dice.any({"tp=1,2", "tp=..2", "tp=2..", "tp=1", "tp=1,3"}));
  if (leaning != Leaning::context && dice.one_in(2)) set.push_back("cp=1");
  if (leaning == Leaning::context) set.push_back(dice.any({"cp=..4", "cp=..2", "cp=2.."}));
  if (leaning == Leaning::context && !dice.one_in(3)) {
    set.push_back(dice.any({"cp_comm=a2a", "cp_comm=p2p,a2a,a2a+p2p", "cp_comm=all_gather,a2a", "cp_comm=all_gather",
                            "cp_comm=a2a+p2p", "cp_comm=p2p,all_gather"}));
    if (dice.one_in(4)) set.push_back(dice.any({"cp_inner=..2", "cp_inner=2", "cp_inner=1"}));
  }
  if (dice.one_in(4)) set.push_back(dice.any({"dp=1,2,4", "dp=2..", "dp=..4", "dp=1,3", "dp=1"}));
  if (dice.one_in(5)) set.push_back(dice.any({"dp_inner=1", "dp_inner=..2", "dp_inner=2", "dp_inner=2.."}));
  set.push_back(deep ? dice.any({"vpp=1..3", "vpp=1,2", "vpp=2..4"}) : dice.any({"vpp=1", "vpp=1,2", "vpp=..3"}));
  const bool experts = std::any_of(problem.job.model.kinds.begin(), problem.job.model.kinds.end(),
                                   [](const model::Layer& layer) { return layer.experts > 0; });
  if (experts && dice.one_in(3)) set.push_back(dice.any({"ep=2..", "ep=..2", "ep=1", "ep=2,3,4,6", "ep=1.."}));
  if (experts && dice.one_in(3)) set.push_back(dice.any({"etp=1", "etp=2..", "etp=1,3,4", "etp=1,2"}));
  if (leaning == Leaning::pitch && dice.one_in(2)) set.push_back("tp=2");
  if (leaning == Leaning::node_shards) {
    for (const char* setting : {dice.any({"tp=1", "tp=..2"}), dice.any({"pp=1", "pp=..2"}), "cp=1", "dp=2.."}) {
      set.emplace_back(setting);
    }
  }
}

void choose_options(Dice& dice, Problem& problem) {
  std::vector<std::string>& set = problem.settings;
  if (dice.one_in(2)) {
    set.push_back(
        joined("recompute", named_subset(dice, {"none", "selective", "full", "modules", "block", "uniform"})));
  }
  if (dice.one_in(2)) set.push_back(joined("zero", named_subset(dice, {"0", "1", "2", "3"})));
  if (problem.leaning == Leaning::node_shards) set.push_back(dice.any({"zero=1,2,3", "zero=2,3", "zero=2", "zero=3"}));
  if (dice.one_in(3)) set.push_back(dice.any({"sp=0", "sp=1"}));
  if (dice.one_in(5)) set.push_back("uniform=1");
  if (dice.one_in(6)) set.push_back("pitch=0");
  if (problem.leaning != Leaning::node_shards && dice.one_in(6)) set.push_back("shard_in_node=0");
  const bool uneven = problem.leaning == Leaning::uneven || dice.one_in(4);
  set.emplace_back(uneven ? "uneven_batch=1" : "uneven_batch=0");
  set.emplace_back(dice.one_in(2) ? "any_rounds=1" : "any_rounds=0");
  const bool deep = problem.leaning == Leaning::interleaved || problem.leaning == Leaning::motif;
  if (dice.one_in(6)) set.push_back(dice.any({"schedule=1f1b", "schedule=1f1b,gpipe", "schedule=gpipe,interleaved"}));
  if (deep && dice.one_in(3)) set.push_back("schedule=interleaved");
  problem.megatron = dice.one_in(10);
  // Without a throw of its own, so that problems of other seeds stay as they are.
  if (problem.seed % 5 == 3 && problem.job.stack.offload_modules) {
    const std::vector<std::string> words = {"offload=none,modules", "offload=none,core_attn+attn_proj",
                                            "offload=none,qkv_linear+moe_act", "offload=modules",
                                            "offload=none,core_attn+attn_proj+expert_fc1+moe_act"};
    set.push_back(words[problem.seed / 5 % words.size()]);
  }
  if (dice.one_in(4)) {
    set.push_back(dice.any({"schedule=1f1b,zb-h1", "schedule=zb-h1,zbv", "schedule=zbv,interleaved", "schedule=v-half",
                            "schedule=v-min", "schedule=v-min", "schedule=dualpipev", "schedule=zbv",
                            "schedule=dualpipev,zb-h1,v-min"}));
  }
}

// Problems stay small enough to try everything.
void narrow(Dice& dice, Problem& problem) {
  const std::vector<std::string> narrower = {"mbs=1",        "tp=1,2", "cp=1",   "sp=1",    "pp=..2",
                                             "pp=..3",       "dp=..4", "dp=1,2", "vpp=1,2", "ep=..2",
                                             "dp_inner=..2", "tp=..3", "mbs=1,2"};
  const bool long_chain = problem.leaning == Leaning::long_chain;
  const std::size_t most = problem.tiny ? kMostKeysOfTiny : long_chain ? kMostKeysOfLongChains : kMostKeys;
  if (long_chain) problem.settings.push_back(dice.any({"pp=2..4", "pp=3", "pp=4", "pp=2..3"}));
  for (int k = 0; k < 40; ++k) {
    apply_settings(problem);
    const std::size_t keys = all_strategies(problem.job, problem.limits, problem.devices()).size();
    if (keys <= most) return;
    if (k < (problem.tiny ? 20 : long_chain ? 12 : 6)) {
      const std::string& next = dice.any(narrower);
      if (!long_chain || next.substr(0, 2) != "pp") problem.settings.push_back(next);
    } else {
      problem.most_devices = std::max<std::int64_t>(1, problem.devices() * 3 / 4);
    }
  }
}

// Never faster than the device can be.
void measure_layers(Dice& dice, Problem& problem) {
  cost::MeasuredProfile profile = own_profile(problem.job, problem.limits, problem.devices());
  const bool memory = dice.one_in(3);
  std::erase_if(profile.layers, [&](const cost::MeasuredLayer&) { return dice.one_in(5); });
  for (cost::MeasuredLayer& layer : profile.layers) {
    layer.forward_s *= dice.magnitude(1, 6);
    layer.backward_s *= dice.magnitude(1, 6);
    if (memory) layer.saved_bytes = std::round(*layer.saved_bytes * dice.magnitude(0.5, 3));
    if (!memory) layer.saved_bytes.reset();
  }
  if (!profile.layers.empty()) cost::attach_profile(problem.job, std::move(profile));
}

void add_edges(Dice& dice, Problem& problem) {
  const auto n = static_cast<std::uint64_t>(problem.job.model.layers.size());
  for (std::uint64_t k = 0; k < 1 + dice.below(3); ++k) {
    const std::uint64_t from = dice.below(n - 1), to = from + 1 + dice.below(n - 1 - from);
    model::Edge edge;
    edge.from = static_cast<int>(from);
    edge.to = {static_cast<int>(to)};
    edge.width = dice.any<std::int64_t>({64, 1000, 4096, 30000, 100000});
    edge.element_bytes = dice.any({1, 2, 4});
    problem.more_edges.push_back(edge);
    problem.job.model.edges.push_back(edge);
    problem.job.fused_model.edges.push_back(edge);
  }
}

// As much as some plan needs, to the byte or nearly; much; or less than any.
void choose_memory(Dice& dice, Problem& problem) {
  cost::Job& job = problem.job;
  const std::vector<Strategy> strategies = all_strategies(job, problem.limits, problem.devices());
  std::vector<std::int64_t> needs;
  for (int k = 0; k < 8 && !strategies.empty(); ++k) {
    const Strategy& strategy = dice.any(strategies);
    const std::vector<StagePlan> stages = random_stages(dice, job, problem.limits, strategy);
    const cost::StageMemoryModel memory(job, strategy.split, strategy.micro_batch, cost::treatments_of(stages));
    std::int64_t need = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      need = std::max(need, memory.estimate(strategy, stages[s], static_cast<std::int64_t>(s)).needed);
    }
    if (need > 0) needs.push_back(need);
  }
  if (needs.empty()) return;
  std::sort(needs.begin(), needs.end());
  // Shards of a node need more than shards of all.
  const bool upper = problem.leaning == Leaning::node_shards;
  const std::int64_t low = needs[(upper ? needs.size() / 2 : 0) + dice.below((needs.size() + 1) / 2)];
  switch (dice.below(10)) {
    case 0: job.cluster.device.memory_bytes = low - 1; break;
    case 1: job.cluster.device.memory_bytes = needs.front() * 7 / 10; break;
    case 2: job.cluster.device.memory_bytes = needs.back() * 2; break;
    case 3:
    case 4: job.cluster.device.memory_bytes = low * 11 / 10; break;
    case 5: job.cluster.device.memory_bytes = needs.front(); break;
    default: job.cluster.device.memory_bytes = low; break;
  }
}

// What is trained. Without a throw of its own.
void choose_training(std::uint32_t number, const model::Architecture& architecture, Run& run) {
  const bool towers = architecture.towers.size() > 1;
  switch (number % 4) {
    case 0: run.freeze = towers ? "embedding,encoder" : "embedding,blocks.0"; break;
    case 1: run.lora = "rank=8,targets=all"; break;
    case 2: run.lora = "rank=64,targets=o,base=nf4"; break;
    default: run.freeze = towers ? "decoder.blocks" : "blocks"; break;
  }
}

void choose_run(Dice& dice, Problem& problem, const model::Architecture& architecture, cluster::Cluster cluster) {
  Run run;
  run.global_batch = dice.any<std::int64_t>({4, 6, 8, 8, 12, 16, 24});
  if (problem.leaning == Leaning::uneven) run.global_batch = dice.any<std::int64_t>({5, 7, 9, 11, 13, 15});
  if (problem.leaning == Leaning::interleaved || problem.leaning == Leaning::motif) {
    run.global_batch = dice.any<std::int64_t>({4, 6, 8, 12});
  }
  run.sequence = dice.any<std::int64_t>({512, 1024, 2048, 4096});
  if (problem.leaning == Leaning::context) run.sequence = dice.any<std::int64_t>({16384, 32768, 65536});
  if (architecture.towers.size() > 1 && dice.one_in(2)) {
    run.encoder_sequence = dice.any<std::int64_t>({256, 1024, 3072, 8192});
  }
  // Without a throw of its own, so that problems of other seeds stay as they are.
  if (run.sequence == 1024 && model::refuse_mtp(architecture, 1).empty())
    run.mtp_layers = run.global_batch % 3 == 0 ? 2 : 1;
  if (problem.seed % 7 == 3) choose_training(problem.seed / 7, architecture, run);
  const std::vector<cost::SoftwareStack> stacks(cost::stack_presets().begin(), cost::stack_presets().end());
  cost::SoftwareStack stack = dice.one_in(2) ? stacks.front() : dice.any(stacks);
  run.stack = stack.name;
  std::vector<Precision> precisions;
  for (const auto precision :
       {Precision::bf16, Precision::bf16, Precision::bf16, Precision::fp16, Precision::fp8, Precision::fp32}) {
    if (cost::peak_flops_per_s(cluster.device, precision) > 0) precisions.push_back(precision);
  }
  run.precision = dice.any(precisions);
  run.optimizer = dice.one_in(5) ? Optimizer::sgd : Optimizer::adam;
  if (run.optimizer == Optimizer::sgd && run.global_batch % 3 > 0) {  // of those that seeds knew as sgd
    run.optimizer = run.global_batch % 3 == 1 ? Optimizer::muon : Optimizer::adam8bit;
  }
  const auto has_experts = [](const model::Block& block) { return block.mixture.has_value(); };
  const std::vector<model::Block>& kinds = architecture.towers.back().kinds;
  if (std::any_of(kinds.begin(), kinds.end(), has_experts)) {
    stack.dispatch.dispatcher =
        dice.any<cost::Dispatcher>({cost::Dispatcher::alltoall, cost::Dispatcher::deepep, cost::Dispatcher::hybridep});
    stack.expert_overlap = dice.one_in(2);
    stack.delay_wgrad = stack.expert_overlap && dice.one_in(2);
  }
  cluster.device.host_link_bytes_per_s = problem.seed % 2 == 0 ? 55e9 : 150e9;
  problem.job = cost::make_job(architecture, run, stack, cluster);
}

// State on the host, which is sharded as ZeRO 1. Without a throw of its own.
void choose_offload(Problem& problem) {
  plan::PlanLimits& limits = problem.limits;
  if (problem.seed % 4 != 1 || !limits.zero[1] || !cost::refuse_offload(problem.job).empty()) return;
  problem.job.run.optimizer_offload = 25 * (1 + problem.seed / 4 % 4);
  limits.zero = {false, true, false, false};
}

// Head gradients at once, or in the drain, nothing else. Without a throw of its own.
void choose_deferral(Problem& problem) {
  if (problem.seed % 7 == 3) problem.limits.defer_head = {true, false};
  if (problem.seed % 7 == 5) problem.limits.defer_head = {false, true};
}

// Optimizer state over all replicas, nothing else. Without a throw of its own.
void choose_outer(Problem& problem) {
  plan::PlanLimits& limits = problem.limits;
  const bool wider = problem.job.stack.hybrid_sharding && limits.zero[3] && limits.shard_in_node;
  if (wider && problem.leaning == Leaning::node_shards && problem.seed % 3 == 2) limits.zero_outer = {false, true};
}

// Two at a time of what stages may recompute and of degrees of ZeRO.
void choose_few_options(Dice& dice, Problem& problem) {
  const std::vector<Recomputation> all = all_recomputations(problem.job, problem.limits);
  if (all.size() > 2) {
    problem.settings.push_back(joined("recompute", {to_string(dice.any(all)), to_string(dice.any(all))}));
  }
  std::vector<std::string> zeros;
  for (std::size_t zero = 0; zero < problem.limits.zero.size(); ++zero) {
    if (problem.limits.zero[zero]) zeros.push_back(std::to_string(zero));
  }
  if (zeros.size() > 2) problem.settings.push_back(joined("zero", {dice.any(zeros), dice.any(zeros)}));
  apply_settings(problem);
}

// All but seed, draw, leaning and size, which are there.
void fill(Problem& problem) {
  const Leaning leaning = problem.leaning;
  Dice dice(problem.seed + (problem.draw << 32) + (problem.tiny ? 1ULL << 60 : 0));
  problem.config = random_config(dice, leaning);
  if (problem.tiny) problem.config = shortened(problem.config, dice.any<std::int64_t>({1, 2, 2, 3}));
  const model::Architecture architecture = model::read_config(doc::parse_json("model.json", problem.config), "model");
  cluster::Cluster cluster = random_cluster(dice, leaning);
  choose_run(dice, problem, architecture, cluster);
  if (cluster.devices > 2 && dice.one_in(6)) problem.most_devices = cluster.devices - 1;
  if (problem.tiny && problem.devices() > kDevicesOfTiny)
    problem.most_devices = dice.any({kDevicesOfTiny, kDevicesOfTiny - 2});
  choose_degrees(dice, problem);
  choose_options(dice, problem);
  narrow(dice, problem);
  if (problem.tiny) choose_few_options(dice, problem);
  if (dice.one_in(12)) problem.limits.replicas_together = true;
  if (dice.one_in(8) || (leaning == Leaning::crossing && dice.one_in(2))) add_edges(dice, problem);
  if (leaning == Leaning::measured || dice.one_in(10)) measure_layers(dice, problem);
  choose_offload(problem);
  choose_outer(problem);
  choose_deferral(problem);
  choose_memory(dice, problem);
  problem.top = dice.any({1, 1, 1, 2, 3, 5, 20});
  problem.objective = dice.one_in(3) ? PlanObjective::device_hours : PlanObjective::time;
}

}  // namespace

double Dice::magnitude(double low, double high) { return low * std::exp(real(0, std::log(high / low))); }

search::PlanRequest Problem::request() const {
  search::PlanRequest request;
  request.job = &job;
  request.limits = limits;
  request.most_devices = most_devices;
  request.search.top = top;
  request.search.objective = objective;
  return request;
}

cost::MeasuredProfile own_profile(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices) {
  cost::MeasuredProfile profile;
  profile.name = "profile.json";
  profile.device = job.cluster.device.name;
  profile.stack = job.stack.name;
  profile.precision = job.run.precision;
  Split split;
  std::int64_t size = 0;
  for (const Strategy& strategy : all_strategies(job, limits, devices)) {
    Split bare = strategy.split;
    bare.offload = 0;
    if (bare == split && strategy.micro_batch == size) continue;
    split = bare;
    size = strategy.micro_batch;
    const cost::PriceTable table = cost::price_table(job, split, size);
    std::set<std::pair<std::string, std::int64_t>> known;
    for (std::size_t kind = 0; kind < table.kinds.size(); ++kind) {
      const model::Layer& layer = job.model.kinds[kind];
      cost::MeasuredLayer measured;
      measured.model = job.model.architecture.name;
      measured.layer = layer.name;
      measured.split = split;
      measured.micro_batch = size;
      measured.sequence = layer.encoder && job.run.encoder_sequence > 0 ? job.run.encoder_sequence : job.run.sequence;
      measured.parameters = parameters_of(layer);
      measured.forward_s = table.kinds[kind].forward_s;
      measured.backward_s = table.kinds[kind].backward_s;
      measured.saved_bytes = table.kinds[kind].kept_bytes[0];
      if (known.emplace(layer.name, measured.sequence).second) profile.layers.push_back(measured);
    }
  }
  return profile;
}

std::vector<StagePlan> random_stages(Dice& dice, const cost::Job& job, const plan::PlanLimits& limits,
                                     const Strategy& strategy) {
  const ChainPattern pattern = chain_pattern(job.model.layers);
  const auto n = static_cast<std::int64_t>(job.model.layers.size());
  const std::vector<std::int64_t> degrees = sharding_degrees(job, limits, strategy);
  std::vector<Recomputation> recomputations = all_recomputations(job, limits);
  std::erase_if(recomputations,
                [&](const Recomputation& one) { return !may_offload(job.stack, strategy.split.offload, one); });
  if (recomputations.empty()) return {};
  for (int attempt = 0; attempt < 50; ++attempt) {
    std::vector<StagePlan> stages;
    std::int64_t begin = 0;
    for (std::int64_t s = 0; s < strategy.pp; ++s) {
      const std::int64_t left = strategy.pp - s;
      const auto room = static_cast<std::uint64_t>(std::max<std::int64_t>(1, (n - begin) * 2 / left - 1));
      const std::int64_t end = left == 1 ? n : std::min(n, begin + 1 + static_cast<std::int64_t>(dice.below(room)));
      if (!may_be_stage(pattern, strategy, s, begin, end) || (left > 1 && end == n)) break;
      StagePlan stage;
      stage.first = static_cast<int>(begin);
      stage.last = static_cast<int>(end - 1);
      const auto pick = [&](const auto& admitted) {
        std::vector<int> list;
        for (std::size_t k = 0; k < admitted.size(); ++k) {
          if (admitted[k]) list.push_back(static_cast<int>(k));
        }
        return dice.any(list);
      };
      stage.recompute = dice.any(recomputations);
      stage.zero = pick(limits.zero);
      stage.zero_degree = stage.zero == 0 ? 0 : dice.any(degrees);
      const bool wider = stage.zero == 3 && stage.zero_degree != 0 && job.stack.hybrid_sharding;
      // Without a throw of its own.
      stage.zero_outer = wider && limits.zero_outer[1] && (begin % 2 == 0 || !limits.zero_outer[0]);
      if (!stage.zero_outer && !limits.zero_outer[0]) break;
      if (limits.uniform && s > 0) {
        stage.recompute = stages.front().recompute;
        stage.zero = stages.front().zero;
        stage.zero_degree = stages.front().zero_degree;
        stage.zero_outer = stages.front().zero_outer;
      }
      stages.push_back(stage);
      begin = end;
    }
    if (static_cast<std::int64_t>(stages.size()) == strategy.pp) return stages;
  }
  return {};
}

Problem random_problem(std::uint32_t seed, std::uint64_t draw) {
  return random_problem(seed, static_cast<Leaning>(seed % kLeanings), draw);
}

Problem random_problem(std::uint32_t seed, Leaning leaning, std::uint64_t draw) {
  Problem problem;
  problem.seed = seed;
  problem.draw = draw;
  problem.leaning = leaning;
  fill(problem);
  return problem;
}

Problem tiny_problem(std::uint32_t seed, std::uint64_t draw) {
  Problem problem;
  problem.seed = seed;
  problem.draw = draw;
  problem.leaning = static_cast<Leaning>(seed % kLeanings);
  problem.tiny = true;
  fill(problem);
  return problem;
}

void rename(Problem& problem) {
  cost::Job& job = problem.job;
  std::shared_ptr<cost::MeasuredProfile> profile;
  if (job.profile) profile = std::make_shared<cost::MeasuredProfile>(*job.profile);
  for (model::Model* model : {&job.model, &job.fused_model}) {
    model->architecture.name = "another";
    for (model::Layer& layer : model->kinds) layer.name = "a " + layer.name;
  }
  for (std::size_t k = 0; profile && k < profile->layers.size(); ++k) {
    profile->layers[k].model = "another";
    profile->layers[k].layer = "a " + profile->layers[k].layer;
  }
  job.profile = profile;
  job.cluster.name = "elsewhere";
  for (cluster::Level& level : job.cluster.levels) level.name = "the " + level.name;
}

}  // namespace nest::test
