#include "cost/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "base/units.h"
#include "cluster/rack_use.h"
#include "cost/chunk_times.h"
#include "cost/constants.h"
#include "cost/error_bar.h"
#include "cost/facts.h"
#include "cost/link_load.h"
#include "cost/measured_groups.h"
#include "cost/memory.h"
#include "cost/messages.h"
#include "cost/profile.h"
#include "cost/rates.h"
#include "cost/tables.h"
#include "groups/rank_groups.h"
#include "nest/interval.h"
#include "plan/pipeline_shape.h"
#include "schedule/filled.h"
#include "schedule/step_time.h"

namespace nest::cost {
namespace {

// One stage, priced.
struct PricedStage {
  StageTime time;        // of one micro-batch
  double compute_s = 0;  // forward and backward without exposed collectives
  StageCost once;
  double per_step_s = 0;  // y_s
};

// Model FLOPs of one sequence, forward and backward: what the unsplit model computes, causal attention counted as the
// pairs that the mask leaves.
double sequence_flops(const Job& job) {
  const split::RunShape shape{1, job.run.sequence, job.run.encoder_sequence, 1.0};
  model::Implementation implementation = timed_implementation(job);
  implementation.stack = model::Stack::plain;  // padding of the vocabulary is no work of the model's
  std::vector<double> of_kind;
  for (const model::Layer& layer : job.fused_model.kinds) {
    const split::LocalLayer local = split::localise(layer, shape, Split{}, implementation);
    of_kind.push_back(local.flops_forward() + local.flops_backward());
  }
  double flops = 0;
  for (const int kind : job.fused_model.layers) flops += of_kind[at(kind)];
  return flops;
}

class Evaluator {
 public:
  Evaluator(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages)
      : job_(job),
        strategy_(strategy),
        stages_(stages),
        table_(price_table(job, strategy.split, strategy.micro_batch, treatments_of(stages))),
        rule_(sync_rule(job, strategy.pp)),
        result_(empty_plan(job)) {
    result_.strategy = strategy;
    if (strategy.pp == 1) return;
    const MessageRule rule = message_rule(job, strategy, table_);
    const MessageLines lines = message_lines(job.cluster, strategy, job.law);
    const double least_bytes = *std::min_element(table_.cut_bytes.begin(), table_.cut_bytes.end());
    messages_fill_s_ = rule.fill_s(lines, least_bytes, table_.wrap_bytes);
    const double most_bytes = *std::max_element(table_.cut_bytes.begin(), table_.cut_bytes.end());
    ways_.back_share = least_back_share(job, table_);
    for (const StagePlan& stage : stages) {
      ways_.back_share = std::min(ways_.back_share, least_back_share(rule_.traffic(sharding_row(stage))));
    }
    rule.add_ways(lines, least_bytes, most_bytes, table_.wrap_bytes, ways_);
    const auto v = real(strategy.virtual_stages);
    for (const CostLine& line : lines.hops) sent_s_.push_back(v * rule.sender_s(line.at(least_bytes)));
    const std::int64_t wraps = schedule::rule_of(strategy.schedule).wraps(strategy.virtual_stages);
    sent_s_.push_back(real(wraps) * rule.sender_s(lines.wrap.at(table_.wrap_bytes)));
    if (plan::lists_chunks(stages)) {
      chunks_.emplace(job, strategy, table_, stages);
    } else {
      messages_s_ = message_seconds(rule, lines, strategy, table_, stages);
    }
  }

  Plan price() {
    for (std::size_t s = 0; s < stages_.size(); ++s) price_stage(s);
    compose_time();
    price_memory();
    say_assumptions();
    return std::move(result_);
  }

 private:
  // Stages that treat their state alike share their lines.
  const ShardLines& lines_for(const StagePlan& stage) {
    const std::int64_t degree = stage.zero == 0 ? 0 : stage.zero_degree;  // what is not sharded has no degree
    const int row = sharding_row(stage);
    for (const auto& known : lines_) {
      if (known.zero == row && known.degree == degree) return known.lines;
    }
    lines_.push_back({row, degree, sync_lines(job_, strategy_, table_, row, degree)});
    return lines_.back().lines;
  }

  // What stage s waits for per micro-batch: one message from each neighbour, and at the ends the wrap-around.
  double waits_s(std::size_t s) const {
    if (chunks_) return chunks_->waits_s(static_cast<std::int64_t>(s));
    if (messages_s_.empty()) return 0;
    double seconds = sent_s_[s];
    if (s > 0) seconds += messages_s_[s - 1];
    if (s + 1 < stages_.size()) seconds += messages_s_[s];
    if (s == 0 || s + 1 == stages_.size()) seconds += messages_s_.back();
    return seconds;
  }

  void price_stage(std::size_t s) {
    const StagePlan& stage = stages_[s];
    const StageSums sums = sum_stage(job_, table_, stage, strategy_.pp);
    PricedStage priced;
    const StageAgain again = stage_again(job_, table_, stage, strategy_.virtual_stages);
    priced.once = stage_cost(job_, rule_, strategy_, sums, lines_for(stage), sharding_row(stage), again);
    const auto m = real(micro_batches(strategy_, job_.run.global_batch));
    const double alone = alone_share(job_, strategy_, m, stage.recompute);
    StageTime& time = priced.time;
    time.forward = sums.forward_s + alone * sums.alone_forward_s;
    time.backward = sums.backward_s + alone * sums.alone_backward_s + priced.once.head.micro_s;
    if (strategy_.pp > 1 && schedule::rule_of(strategy_.schedule).is_split()) time.weight = sums.weight_s;
    time.recompute = again.seconds;
    way_s_ = std::max(way_s_, again.way_s);
    deferred_s_ += sums.deferred_s;
    time.tp = sums.tp_s;
    time.cp = sums.cp_s;
    time.ep = sums.ep_s + alone * sums.alone_ep_s;
    time.p2p = waits_s(s);
    time.zero = priced.once.micro_exposed_s;
    time.total = time.forward + time.backward + time.recompute + time.p2p + time.zero;
    priced.compute_s = time.forward + time.backward - time.tp - time.cp - time.ep;
    priced.per_step_s =
        priced.once.sync_exposed_s + priced.once.optimizer_s + priced.once.head.step_s + constants::kStep_s;
    priced_.push_back(priced);
    result_.stages.push_back(stage);
    result_.stages.back().time = time;
    if (chunks_) result_.stages.back().chunks = chunks_->price(static_cast<std::int64_t>(s), alone, time.zero);
    if (stage.zero_degree == 0)
      result_.stages.back().zero_degree = stage.zero == 0 ? 1 : groups::dense_replicas(strategy_);
  }

  void compose_time() {
    const auto slowest =
        std::max_element(priced_.begin(), priced_.end(),
                         [](const PricedStage& a, const PricedStage& b) { return a.time.total < b.time.total; });
    const auto last = std::max_element(priced_.begin(), priced_.end(), [](const PricedStage& a, const PricedStage& b) {
      return a.per_step_s < b.per_step_s;
    });
    double sum_s = 0;
    for (const PricedStage& stage : priced_) sum_s += stage.time.total;
    const std::int64_t micro = micro_batches(strategy_, job_.run.global_batch);
    const auto m = real(micro);
    const auto v = real(strategy_.virtual_stages);
    const StageTime& time = slowest->time;

    Prediction& prediction = result_.prediction;
    auto& parts = prediction.breakdown_s;
    parts.compute = m * slowest->compute_s;
    parts.recompute = m * time.recompute;
    parts.tp = m * time.tp;
    parts.cp = m * time.cp;
    parts.ep = m * time.ep;
    parts.p2p = m * time.p2p;
    parts.zero = m * time.zero;
    if (job_.law == schedule::Law::least) {
      double least_s = chunks_ ? 0 : least_form_s(m);
      for (const PricedStage& stage : priced_) least_s = std::max(least_s, m * stage.time.total + stage.once.reduce_s);
      least_s = std::max(least_s, least_drain_s(m) + constants::kStep_s - last->per_step_s);
      least_s = std::max(least_s, busiest_link_s(m) + constants::kStep_s - last->per_step_s);
      parts.bubble = std::max(0.0, least_s - m * time.total);
    } else {
      const double empty_s = chunks_ ? played_s(job_, strategy_, result_.stages) - m * time.total
                                     : schedule::fill_time(v, time.total, sum_s) - filled_s(micro);
      const double longer_s = std::max(0.0, empty_s + messages_fill_s_);
      const double messages_s = std::min(messages_fill_s_, longer_s);
      parts.p2p += messages_s;
      parts.bubble = longer_s - messages_s;
    }
    parts.grad_sync = last->once.sync_exposed_s;
    parts.optimizer = last->once.optimizer_s;
    parts.other = last->once.head.step_s + constants::kStep_s;
    const double filling_s = parts.p2p - m * time.p2p;
    prediction.iteration_s = m * time.total + parts.bubble + filling_s + last->per_step_s;
    prediction.spread = spread_of(job_, strategy_, prediction);

    const auto batch = real(job_.run.global_batch);
    const auto devices = real(strategy_.devices_used());
    prediction.samples_per_s = batch / prediction.iteration_s;
    prediction.tokens_per_s_per_device = prediction.samples_per_s * real(job_.run.sequence) / devices;
    const double flops = sequence_flops(job_) * batch;
    prediction.flops_per_s_per_device = flops / (prediction.iteration_s * devices);
    const double peak = devices * mfu_peak_flops_per_s(job_.cluster.device, job_.run.precision);
    if (peak > 0) prediction.mfu = flops / (prediction.iteration_s * peak);
  }

  StateLoad load_of(const StagePlan& stage) const {
    const std::int64_t degree = stage.zero == 0 ? 0 : stage.zero_degree;
    return state_load(job_.cluster, strategy_, shard_groups(job_.cluster, strategy_, degree, schedule::Law::least));
  }

  // tau and S of a form, with what the first stages do after their passes.
  double value_of(const schedule::StepForm& form, const std::vector<double>& after_s) const {
    double slowest_s = 0, sum_s = 0;
    for (std::size_t s = 0; s < priced_.size(); ++s) {
      slowest_s = std::max(slowest_s, priced_[s].time.total);
      sum_s += form.share_of_passes(real(s)) * priced_[s].time.total;
      if (s < after_s.size()) sum_s += form.share_of_rest(real(s)) * after_s[s];
    }
    return form.value(slowest_s, sum_s);
  }

  double least_form_s(double micro_batches) const {
    return value_of(least_form(micro_batches), {priced_.front().once.reduce_s});
  }

  // The same until the uplink of the first unit has carried the gradients and weights of its stages.
  double least_drain_s(double micro_batches) const {
    double most_s = 0;
    schedule::StepForm form = least_form(micro_batches);
    if (chunks_ || strategy_.schedule != Schedule::one_f_one_b || form.stages < 2) return most_s;
    for (std::size_t l = 1; l < job_.cluster.fabric.levels; ++l) {
      form.together = load_of(stages_.front()).together[l];
      std::vector<double> after_s;
      for (std::size_t s = 0; real(s) < form.together; ++s) {
        const StageSums sums = sum_stage(job_, table_, stages_[s], strategy_.pp);
        const StepLoad load = step_load(rule_, load_of(stages_[s]), l, sharding_row(stages_[s]), sums.dense_parameters,
                                        sums.expert_parameters);
        const double exposed = priced_[s].once.exposed_share;
        after_s.push_back((rule_.aligned && s > 0 ? 1 : exposed) * load.reduce_s + exposed * load.gather_s);
      }
      if (!after_s.empty()) most_s = std::max(most_s, value_of(form, after_s));
    }
    return most_s;
  }

  // What the busiest uplinks of a step work at least.
  double busiest_link_s(double micro_batches) const {
    LevelSeconds all_s{};
    if (strategy_.pp > 1) {
      const double cut_bytes = *std::min_element(table_.cut_bytes.begin(), table_.cut_bytes.end());
      all_s = message_load(job_.cluster, strategy_, cut_bytes, table_.wrap_bytes);
      for (double& each_s : all_s) each_s *= micro_batches;
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const StageSums sums = sum_stage(job_, table_, stages_[s], strategy_.pp);
      const LevelSeconds stage_s = state_seconds(rule_, load_of(stages_[s]), sharding_row(stages_[s]), micro_batches,
                                                 sums.dense_parameters, sums.expert_parameters);
      for (std::size_t l = 0; l < all_s.size(); ++l) all_s[l] += stage_s[l];
    }
    return *std::max_element(all_s.begin(), all_s.end());
  }

  schedule::StepForm least_form(double micro_batches) const {
    schedule::StepForm form = ways_;
    form.law = schedule::Law::least;
    form.micro_batches = micro_batches;
    form.chunks = real(strategy_.virtual_stages);
    form.stages = real(strategy_.pp);
    form.split = strategy_.pp > 1 && schedule::rule_of(strategy_.schedule).is_split();
    form.short_s = head_short_s(job_, strategy_, deferred_s_);
    form.first_short_s = head_first_short_s(job_, strategy_, deferred_s_);
    const schedule::Shape shape = plan::pipeline_shape(strategy_, job_.run.global_batch);
    form.in_turns = strategy_.virtual_stages > 1 && !form.split && shape.grouped() == strategy_.pp &&
                    shape.micro_batches % strategy_.pp == 0;
    return form;
  }

  // What the order fills of the bubble (schedule/filled.h).
  double filled_s(std::int64_t micro_batches) const {
    if (strategy_.pp == 1 || !schedule::rule_of(strategy_.schedule).is_split()) return 0;
    const auto last = static_cast<int>(job_.model.layer_count()) - 1;
    const schedule::PassSeconds mean = mean_stage(sum_stage(job_, table_, 0, last, strategy_.pp), strategy_.pp);
    const schedule::Shape shape{strategy_.pp, strategy_.virtual_stages, micro_batches};
    return schedule::filled_share(strategy_.schedule, shape, schedule::shares_of(mean)) * mean.total_s();
  }

  void price_memory() {
    const std::int64_t room = job_.cluster.device.memory_bytes;
    const std::int64_t context = context_bytes(job_, strategy_);
    const StageMemoryModel model(job_, strategy_.split, strategy_.micro_batch, table_.treatments);
    std::int64_t worst = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      StagePlan& stage = result_.stages[s];
      stage.memory = model.estimate(strategy_, stage, static_cast<std::int64_t>(s));
      StageMemory& memory = stage.memory;
      const double without_margin = real(memory.needed - context) / (1 + job_.stack.memory_margin);
      memory.out_of_memory = probability_out_of_memory(without_margin, real(room - context), job_.stack.memory_spread);
      result_.prediction.peak_memory_bytes = std::max(result_.prediction.peak_memory_bytes, memory.total);
      if (memory.needed <= room || memory.needed <= worst) continue;
      worst = memory.needed;
      result_.fits = false;
      result_.misfit = fmt::format(
          "stage {} needs {} of {} (weights {}, gradients {}, optimizer states {}, activations {}, workspace {}, "
          "buffers {})",
          s, format_bytes(memory.needed), format_bytes(room), format_bytes(memory.weights),
          format_bytes(memory.gradients), format_bytes(memory.optimizer), format_bytes(memory.activations),
          format_bytes(memory.working), format_bytes(memory.buffers));
    }
  }

  void say_racks();
  void say_assumptions();
  void say_dispatch();
  void say_load();
  void say_host();

  struct KnownLines {
    int zero;
    std::int64_t degree;
    ShardLines lines;
  };

  const Job& job_;
  const Strategy& strategy_;
  const std::vector<StagePlan>& stages_;
  PriceTable table_;
  SyncRule rule_;
  std::vector<double> messages_s_, sent_s_;
  schedule::StepForm ways_;           // what messages and passes say of the least law's
  double messages_fill_s_ = 0;        // by which messages make filling and draining longer
  std::optional<ChunkTimes> chunks_;  // where stages list theirs
  std::vector<KnownLines> lines_;
  std::vector<PricedStage> priced_;
  double way_s_ = 0;       // of one micro-batch, of the stage that waits longest for what is on the host
  double deferred_s_ = 0;  // weight gradients of the head that may wait, of one micro-batch
  Plan result_;
};

std::string module_name(model::Module module) {
  switch (module) {
    case model::Module::other: return "other";
    case model::Module::core_attention: return "attention core";
    case model::Module::norm: return "norms";
    case model::Module::activation: return "activations";
    case model::Module::feed_forward: return "feed-forward";
    case model::Module::moe_activation: return "experts' activations";
    case model::Module::moe: return "experts";
    case model::Module::latent_up: return "latent up-projections";
    case model::Module::shared_experts: return "shared experts";
    case model::Module::shared_activation: return "shared experts' activations";
  }
  return "?";
}

std::string selective_says(const SoftwareStack& stack) {
  switch (stack.selective) {
    case SelectiveKind::every_second_matmul: return "every second GEMM and everything cheap";
    case SelectiveKind::minimal: return "everything but GEMMs";
    case SelectiveKind::modules: break;
  }
  std::string names;
  for (const model::Module module : stack.selective_modules) names += (names.empty() ? "" : ", ") + module_name(module);
  return names.empty() ? "nothing" : names;
}

std::string graphs_say(const SoftwareStack& stack) {
  if (stack.graph_scopes.empty()) return "";
  std::string names;
  for (const GraphScope scope : stack.graph_scopes)
    names += (names.empty() ? "" : ", ") + std::string(to_string(scope));
  return fmt::format(", CUDA graphs ({})", names);
}

const char* travels(DataOverlap overlap) {
  switch (overlap) {
    case DataOverlap::none: return "after the backward pass";
    case DataOverlap::buckets: return "in buckets, behind the backward pass";
    case DataOverlap::fsdp: return "layer by layer, behind the layers around";
    case DataOverlap::per_tensor: return "behind the backward pass, weights tensor by tensor after it";
  }
  return "?";
}

// What is special where hosts share the links of a rack.
void Evaluator::say_racks() {
  const cluster::Cluster& cluster = job_.cluster;
  auto& says = result_.assumptions;
  if (std::string use = cluster::use_text(cluster); !use.empty()) says.push_back(std::move(use));
  if (const std::string links = cluster::assumed_links(cluster); !links.empty()) {
    says.push_back(fmt::format("links reach what they do on DGX H100 where the file does not say it ({})", links));
  }
  if (cluster::devices_per_tray(cluster) == 0 || cluster.fabric.levels < 2) return;
  const groups::RankGroups ranks(strategy_);
  const std::int64_t size = ranks.size(groups::Kind::expert);
  if (size < 2) return;
  for (std::int64_t stage = 0; stage < ranks.stages(); ++stage) {
    if (cluster::place_group(cluster, ranks.groups(groups::Kind::expert, stage)).top == 0) continue;
    says.push_back(
        fmt::format("WARNING: expert groups of {} leave their {} of {} devices: what they exchange takes the network's "
                    "ports, and runs were seen to stall there; groups that divide {} stay inside",
                    size, cluster.levels[0].name, cluster.fabric.unit[1], cluster.fabric.unit[1]));
    return;
  }
}

void Evaluator::say_dispatch() {
  const SoftwareStack& stack = job_.stack;
  auto& says = result_.assumptions;
  says.push_back(fmt::format("routed tokens travel by {}, {}", to_string(stack.dispatch.dispatcher),
                             stack.expert_overlap          ? "behind another micro-batch"
                             : stack.shared_expert_overlap ? "behind shared experts"
                                                           : "exposed"));
  if (!stack.expert_overlap) return;
  if (strategy_.pp > 1 && strategy_.virtual_stages == 1) {
    says.emplace_back("a pipeline without virtual stages cannot overlap its all-to-alls: they are exposed");
  } else if (std::any_of(stages_.begin(), stages_.end(),
                         [&](const StagePlan& stage) { return !can_pair(stack, stage.recompute); })) {
    says.emplace_back("stages that recompute experts cannot overlap their all-to-alls: they are exposed");
  }
}

void Evaluator::say_load() {
  const auto& kinds = job_.model.kinds;
  const auto layer =
      std::find_if(kinds.begin(), kinds.end(), [](const model::Layer& kind) { return kind.experts > 0; });
  if (layer == kinds.end()) return;
  const Split& split = strategy_.split;
  const double tokens = split::stream_tokens(strategy_.micro_batch, job_.run.sequence, split);
  const double busiest = time_imbalance(job_.stack.routing, choice_of(*layer), split, tokens);
  std::string text = "experts' load: " + to_text(job_.stack.routing);
  if (busiest != 1) text += fmt::format(": the busiest rank has {:.3g} x the mean", busiest);
  result_.assumptions.push_back(std::move(text));
}

void Evaluator::say_host() {
  auto& says = result_.assumptions;
  const OffloadSet modules = strategy_.split.offload;
  if (modules != 0) {
    says.push_back(
        fmt::format("what {} keep waits on the host; {} of a micro-batch are exposed, counted with "
                    "recomputation, layer by layer",
                    offload_text(modules), format_duration(way_s_)));
  }
  if (job_.run.optimizer_offload > 0) {
    says.push_back(fmt::format("{} % of the optimizer's state wait on the host, which updates them{}",
                               job_.run.optimizer_offload,
                               job_.stack.offload_overlap ? ", beside their transfers" : ""));
  }
  if (modules == 0 && job_.run.optimizer_offload == 0) return;
  std::int64_t pinned = 0;
  for (const StagePlan& stage : result_.stages) pinned = std::max(pinned, stage.memory.host);
  says.back() += fmt::format(": {} pinned there per device", format_bytes(pinned));
}

void Evaluator::say_assumptions() {
  const SoftwareStack& stack = job_.stack;
  auto& says = result_.assumptions;
  const std::string& reason = job_.run.stack_reason;
  says.push_back(fmt::format("stack {}{}: {} attention, {} row-wise kernels{}{}", stack.name,
                             reason.empty() ? "" : fmt::format(" ({})", reason), to_string(stack.attention),
                             stack.fused_rowwise ? "fused" : "eager", graphs_say(stack),
                             stack.deterministic ? ", deterministic" : ""));
  says.push_back(fmt::format("gradients travel {}; tensor-parallel collectives {}", travels(stack.data_overlap),
                             overlaps_tensor(job_, strategy_.split) ? "overlap with GEMMs" : "are exposed"));
  if (strategy_.split.ep > 1) say_dispatch();
  say_load();
  const bool selective = std::any_of(stages_.begin(), stages_.end(),
                                     [](const StagePlan& stage) { return stage.recompute == Recompute::selective; });
  if (selective) says.push_back("selective recomputation repeats " + selective_says(stack));
  const bool blocks = std::any_of(stages_.begin(), stages_.end(),
                                  [](const StagePlan& stage) { return stage.recompute.kind == Recompute::block; });
  if (blocks && strategy_.virtual_stages > 1 && !chunks_) {
    says.emplace_back("layers that are recomputed as a whole are modelled as the first ones of the stage's run");
  }
  if (defers_head(stack, strategy_)) {
    says.push_back(
        fmt::format("weight gradients of the head wait for the pipeline's drain, {} micro-batches of them at most",
                    constants::kDeferredMicroBatches));
  }
  const schedule::Rule& rule = schedule::rule_of(strategy_.schedule);
  if (chunks_) {
    says.emplace_back(
        "chunks are modelled one by one, and the step as the longest path through the order of their passes");
  } else if (rule.is_v()) {
    says.push_back(
        "a V is modelled as runs of layers, its first stage last: that one holds embedding and head, the time of the "
        "embedding is counted with another");
  } else if (strategy_.virtual_stages > 1) {
    says.push_back("an interleaved stage is modelled as one run of layers");
  }
  if (rule.is_split() && strategy_.pp > 1 && !chunks_) {
    says.push_back("weight gradients fill the bubble as in a pipeline of equal stages; what is kept waits for them");
  }
  const std::int64_t rounds = strategy_.micro_batch * strategy_.dp;
  if (job_.run.global_batch % rounds != 0) {
    says.push_back(fmt::format("the batch of {} is no multiple of {}: the last micro-batches are modelled as full",
                               job_.run.global_batch, rounds));
  }
  say_racks();
  if (strategy_.pp == 1 && stages_.front().recompute == Recompute::none && stack.offloaded_layers > 0) {
    says.push_back(
        job_.cluster.device.host_link_bytes_per_s > 0
            ? fmt::format("activations of the first {} layers wait on the host; {} of a micro-batch are exposed, "
                          "counted with recomputation",
                          stack.offloaded_layers, format_duration(way_s_))
            : fmt::format(
                  "activations of the first {} layers wait on the host; their way there and back is not modelled",
                  stack.offloaded_layers));
  }
  say_host();
  says.insert(says.end(), job_.model.notes.begin(), job_.model.notes.end());
  says.push_back(job_.run.oom_risk.empty()
                     ? fmt::format("a plan fits when {:.0f} % of its memory stay free, the stack's margin",
                                   100 * stack.memory_margin)
                     : fmt::format("a plan fits when {:.1f} % of its memory stay free: the margin for a risk of {}",
                                   100 * stack.memory_margin, job_.run.oom_risk));
  says.push_back("eight of ten measured runs lie within what ± says");
  const bool narrow = facts_of(job_.run.precision).element_bytes < 2;
  if (narrow) {
    const Storage storage = storage_of(job_);
    says.push_back(storage == Storage::bf16
                       ? "what GEMMs keep for backward is counted in 16 bits"
                       : fmt::format("GEMMs keep their inputs for backward as {}", to_string(storage)));
  }
  says.push_back(fmt::format(
      "MFU counts the model's own GEMMs, causal attention by the pairs its mask leaves, against the {} peak",
      narrow ? to_string(job_.run.precision) : "16-bit"));
  result_.unsure = not_calibrated(job_);
  const cluster::Device& device = job_.cluster.device;
  if (const std::string on = device.calibrated_on(); !on.empty()) {
    result_.measured.push_back(fmt::format("the rate of matrix products of {} ({})", device.name, on));
  }
  for (std::size_t kind = 0; kind < table_.kinds.size(); ++kind) {
    if (table_.kinds[kind].measured) result_.measured.push_back(job_.model.kinds[kind].name);
  }
  for (std::string& table : measured_groups(job_.cluster, strategy_, stages_))
    result_.measured.push_back(std::move(table));
}

}  // namespace

Plan evaluate(const Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  NEST_CHECK(static_cast<std::int64_t>(stages.size()) == strategy.pp, "there is one stage plan per stage");
  return Evaluator(job, strategy, stages).price();
}

Plan evaluate_deferring(const Job& job, Strategy strategy, const std::vector<StagePlan>& stages,
                        const std::array<bool, 2>& admitted) {
  strategy.defer_head = true;
  if (!defers_head(job.stack, strategy)) return evaluate(job, strategy, stages);
  strategy.defer_head = admitted[1];
  Plan plan = evaluate(job, strategy, stages);
  if (!admitted[0] || !admitted[1]) return plan;
  strategy.defer_head = false;
  Plan at_once = evaluate(job, strategy, stages);
  return at_once.prediction.iteration_s < plan.prediction.iteration_s ? at_once : plan;
}

}  // namespace nest::cost
