#include "exporter/changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "base/text.h"
#include "cost/group_time.h"
#include "exporter/gpt.h"
#include "exporter/megatron.h"
#include "exporter/pipeline_layout.h"
#include "schedule/rules.h"

namespace nest::exporter {
namespace {

constexpr std::size_t kPaired = 12;  // of the single changes

// A change: how it is written, and what it does. False when it is not applicable.
struct Change {
  std::string options;
  TimeTerm term = TimeTerm::compute;
  std::function<bool(SetupVariant&)> apply;
};

std::int64_t block_count(const model::Model& model) {
  std::int64_t blocks = 0;
  for (const int kind : model.layers) {
    blocks += model.kinds[static_cast<std::size_t>(kind)].counted_block() ? 1 : 0;
  }
  return blocks;
}

class ChangeFinder {
 public:
  ChangeFinder(launch::Framework framework, const cost::Job& job, const SetupVariant& mine,
               const search::SearchSettings& search, search::PriceCache* prices)
      : framework_(framework),
        job_(job),
        mine_(mine),
        search_(search),
        prices_(prices),
        megatron_(is_megatron(framework)),
        own_obstacles_(obstacles(framework, job, mine.strategy, mine.stages)) {}

  ChangeList run() {
    list_degrees();
    list_schedules();
    list_memory();
    if (megatron_) list_switches();
    list_cut();
    ChangeList result;
    std::vector<std::pair<double, const Change*>> useful;
    for (const Change& change : changes_) {
      SetupVariant variant = mine_;
      if (!change.apply(variant)) continue;
      if (auto priced = price(change.options, change.term, variant)) {
        useful.emplace_back(priced->evaluation.prediction.iteration_s, &change);
        result.single.push_back(std::move(*priced));
      }
    }
    const auto faster = [](const PricedChange& a, const PricedChange& b) {
      return a.evaluation.prediction.iteration_s < b.evaluation.prediction.iteration_s;
    };
    std::stable_sort(result.single.begin(), result.single.end(), faster);
    result.pair = best_pair(useful);
    return result;
  }

 private:
  static bool is_megatron(launch::Framework framework) {
    return framework == launch::Framework::megatron || framework == launch::Framework::nemo;
  }

  void add(std::string options, TimeTerm term, std::function<bool(SetupVariant&)> apply) {
    changes_.push_back({std::move(options), term, std::move(apply)});
  }

  // How the framework writes a degree.
  struct Degree {
    const char* megatron;
    const char* titan;
    const char* deepspeed;
    const char* accelerate;
    TimeTerm term;
    std::function<std::int64_t&(Strategy&)> of;
  };
  std::string degree_text(const Degree& degree, std::int64_t value) const {
    switch (framework_) {
      case launch::Framework::torchtitan:
      case launch::Framework::torchtitan_main: return fmt::format("{} = {}", degree.titan, value);
      case launch::Framework::deepspeed: return fmt::format("{}: {}", degree.deepspeed, value);
      case launch::Framework::fsdp: return fmt::format("{}: {}", degree.accelerate, value);
      case launch::Framework::megatron:
      case launch::Framework::nemo: break;
    }
    return fmt::format("{} {}", degree.megatron, value);
  }

  // Stages as the framework cuts them by itself, or as they were where their number stays.
  bool recut(SetupVariant& variant) const {
    const Strategy& s = variant.strategy;
    const StagePlan first = variant.stages.front();
    const std::int64_t blocks = block_count(job_.model);
    if (s.pp == mine_.strategy.pp && s.virtual_stages == mine_.strategy.virtual_stages) {
      variant.stages = mine_.stages;
    } else {
      if (s.pp * s.virtual_stages > blocks) return false;
      if (blocks % (s.pp * s.virtual_stages) != 0 && !is_torchtitan(framework_)) return false;
      variant.stages = cost::even_stages(job_, s, first.recompute, first.zero);
    }
    const bool partly =
        first.zero > 0 && first.zero_degree > 0 && first.zero_degree < groups::dense_replicas(mine_.strategy);
    for (StagePlan& stage : variant.stages) {
      stage.recompute = first.recompute;
      stage.zero = first.zero;
      stage.zero_degree = partly ? first.zero_degree : 0;
    }
    return true;
  }

  // Replicas that are left when the other degrees are these.
  bool refill(SetupVariant& variant) const {
    Strategy& s = variant.strategy;
    const std::int64_t world = mine_.strategy.devices_used(), one = s.pp * s.split.replica_devices();
    if (one < 1 || world % one != 0) return false;
    const bool together = s.dp_inner == s.dp;
    s.dp = world / one;
    s.dp_inner = together ? s.dp : std::min<std::int64_t>(s.dp_inner, s.dp);
    s.pitch = 0;
    return s.dp >= 1 && recut(variant);
  }

  void list_degrees() {
    const std::array<Degree, 4> degrees = {
        Degree{"--tensor-model-parallel-size", "parallelism.tensor_parallel_degree", "tensor_parallel.autotp_size",
               "parallelism_config_tp_size", TimeTerm::tensor, [](Strategy& s) -> std::int64_t& { return s.split.tp; }},
        Degree{"--pipeline-model-parallel-size", "parallelism.pipeline_parallel_degree", "pipeline.stages",
               "parallelism_config_pp_size", TimeTerm::bubble, [](Strategy& s) -> std::int64_t& { return s.pp; }},
        Degree{"--context-parallel-size", "parallelism.context_parallel_degree", "sequence_parallel_size",
               "parallelism_config_cp_size", TimeTerm::context,
               [](Strategy& s) -> std::int64_t& { return s.split.cp; }},
        Degree{"--expert-model-parallel-size", "parallelism.expert_parallel_degree", "expert_parallel.autoep_size",
               "parallelism_config_ep_size", TimeTerm::expert,
               [](Strategy& s) -> std::int64_t& { return s.split.ep; }}};
    for (const Degree& degree : degrees) {
      Strategy own = mine_.strategy;
      const std::int64_t now = degree.of(own);
      for (const std::int64_t value : {now * 2, now / 2}) {
        if (value < 1 || (&degree == &degrees[3] && !has_experts(job_.model))) continue;
        add(degree_text(degree, value), degree.term, [this, degree, value](SetupVariant& variant) {
          degree.of(variant.strategy) = value;
          Strategy& s = variant.strategy;
          if (s.split.tp == 1) s.split.sp = false;
          if (s.split.etp == s.split.tp) s.split.etp = 0;
          if (s.pp == 1) s.virtual_stages = 1;
          if (s.virtual_stages < schedule::rule_of(s.schedule).fewest_chunks) s.schedule = Schedule::one_f_one_b;
          return refill(variant);
        });
      }
    }
    for (const std::int64_t size : {mine_.strategy.micro_batch * 2, mine_.strategy.micro_batch / 2}) {
      if (size < 1) continue;
      const std::string text =
          framework_ == launch::Framework::deepspeed ? fmt::format("train_micro_batch_size_per_gpu: {}", size)
          : framework_ == launch::Framework::fsdp    ? fmt::format("--per_device_train_batch_size {}", size)
          : megatron_                                ? fmt::format("--micro-batch-size {}", size)
                                                     : fmt::format("micro-batches of {}", size);
      add(text, TimeTerm::compute, [size](SetupVariant& variant) {
        variant.strategy.micro_batch = size;
        return true;
      });
    }
  }

  void list_schedules() {
    if (mine_.strategy.pp == 1 || framework_ == launch::Framework::deepspeed) return;
    for (const std::int64_t chunks : {1, 2, 3, 4, 5, 6, 8, 10, 12}) {
      if (chunks == mine_.strategy.virtual_stages) continue;
      std::string text = fmt::format("--num-virtual-stages-per-pipeline-rank {}", chunks);
      if (!megatron_) text = chunks == 1 ? "1F1B" : fmt::format("Interleaved1F1B, {} stages per rank", chunks);
      add(text, TimeTerm::bubble, [this, chunks](SetupVariant& variant) {
        Strategy& s = variant.strategy;
        if (micro_batches(s, job_.run.global_batch) % s.pp != 0 || s.pp == 1) return false;
        s.virtual_stages = chunks;
        s.schedule = chunks > 1 ? Schedule::interleaved : Schedule::one_f_one_b;
        if (megatron_ && mine_.strategy.virtual_stages == 1) variant.stack.pipeline_overlap = true;  // its default
        return recut(variant);
      });
    }
  }

  void set_all(SetupVariant& variant, const std::function<void(StagePlan&)>& set) const {
    for (StagePlan& stage : variant.stages) set(stage);
  }

  std::string recompute_text(Recompute mode) const {
    if (is_torchtitan(framework_)) return fmt::format("activation_checkpoint.mode = \"{}\"", to_string(mode));
    if (framework_ == launch::Framework::fsdp)
      return fmt::format("fsdp_activation_checkpointing: {}", mode == Recompute::full);
    if (framework_ == launch::Framework::deepspeed)
      return fmt::format("{} activation checkpoints", mode == Recompute::none ? "no" : "full");
    switch (mode) {
      case Recompute::none: return "no recomputation";
      case Recompute::selective: return "--recompute-granularity selective";
      default: break;
    }
    return "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1";
  }

  std::string zero_text(int zero) const {
    if (framework_ == launch::Framework::deepspeed) return fmt::format("zero_optimization.stage: {}", zero);
    if (framework_ == launch::Framework::fsdp) return fmt::format("fsdp_reshard_after_forward: {}", zero == 3);
    if (is_torchtitan(framework_)) {
      return zero == 0 ? "data_parallel_shard_degree = 1"
                       : fmt::format("fsdp_reshard_after_forward = \"{}\"", zero == 3 ? "always" : "never");
    }
    return zero == 1 ? "--use-distributed-optimizer"
                     : fmt::format("ZeRO {} instead of {}", zero, mine_.stages.front().zero);
  }

  void list_memory() {
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (mode == mine_.stages.front().recompute) continue;
      if (mode == Recompute::selective && framework_ == launch::Framework::deepspeed) continue;
      add(recompute_text(mode), TimeTerm::recompute, [this, mode](SetupVariant& variant) {
        set_all(variant, [mode](StagePlan& stage) { stage.recompute = mode; });
        return true;
      });
    }
    for (int zero = 0; zero <= 3; ++zero) {
      if (zero == mine_.stages.front().zero || (megatron_ && zero != 1)) continue;
      if (is_torchtitan(framework_) && zero == 1) continue;
      add(zero_text(zero), TimeTerm::optimizer, [this, zero](SetupVariant& variant) {
        set_all(variant, [zero](StagePlan& stage) {
          stage.zero = zero;
          stage.zero_degree = 0;
        });
        return true;
      });
    }
  }

  void list_switches() {
    const bool sharded = mine_.stages.front().zero >= 1;
    add("--sequence-parallel", TimeTerm::tensor, [](SetupVariant& variant) {
      Split& split = variant.strategy.split;
      if (split.tp == 1 || split.sp) return false;
      split.sp = true;
      return true;
    });
    add("--tp-comm-overlap", TimeTerm::tensor, [](SetupVariant& variant) {
      if (!variant.strategy.split.sp || variant.stack.tensor_overlap) return false;
      return variant.stack.tensor_overlap = true;
    });
    add(sharded ? "--overlap-grad-reduce --overlap-param-gather" : "--overlap-grad-reduce", TimeTerm::gradients,
        [](SetupVariant& variant) {
          if (variant.stack.data_overlap != cost::DataOverlap::none || groups::dense_replicas(variant.strategy) == 1)
            return false;
          variant.stack.data_overlap = cost::DataOverlap::buckets;
          return true;
        });
    add("--defer-embedding-wgrad-compute", TimeTerm::imbalance, [](SetupVariant& variant) {
      if (variant.strategy.pp == 1 || variant.stack.defer_head_gradient) return false;
      return variant.stack.defer_head_gradient = true;
    });
    add("no --defer-embedding-wgrad-compute", TimeTerm::other, [](SetupVariant& variant) {
      if (!cost::defers_head(variant.stack, variant.strategy)) return false;
      variant.stack.defer_head_gradient = false;
      return true;
    });
    add("--use-tp-pp-dp-mapping", TimeTerm::messages, [](SetupVariant& variant) {
      if (!can_put_replicas_last(variant.strategy) || variant.strategy.dp_inner == 1) return false;
      variant.strategy.dp_inner = 1;
      return true;
    });
    add("--overlap-moe-expert-parallel-comm", TimeTerm::expert, [](SetupVariant& variant) {
      const Strategy& s = variant.strategy;
      const bool full = variant.stages.front().recompute.whole_layers();
      if (variant.stack.expert_overlap || s.split.ep == 1 || full) return false;
      if (s.pp > 1 && s.virtual_stages == 1) return false;
      if (variant.stack.dispatch.dispatcher == cost::Dispatcher::allgather) return false;
      variant.stack.shared_expert_overlap = false;
      return variant.stack.expert_overlap = true;
    });
    add("--cross-entropy-loss-fusion", TimeTerm::compute, [](SetupVariant& variant) {
      if (variant.stack.loss == cost::LossKernel::fused) return false;
      variant.stack.loss = cost::LossKernel::fused;
      return true;
    });
  }

  // The best cut of the same strategy, where the framework can be told one.
  void list_cut() {
    const Strategy& s = mine_.strategy;
    if (s.pp == 1 || framework_ == launch::Framework::deepspeed) return;
    search::PlanRequest request;
    request.job = &job_;
    request.search = search_;
    request.prices = prices_;
    const StagePlan& first = mine_.stages.front();
    const auto set = [&](const char* key, std::int64_t value) {
      plan::set_limit(request.limits, fmt::format("{}={}", key, value));
    };
    set("tp", s.split.tp);
    set("cp", s.split.cp);
    set("ep", s.split.ep);
    set("etp", s.split.expert_tp());
    set("pp", s.pp);
    set("dp", s.dp);
    set("dp_inner", s.dp_inner);
    set("vpp", s.virtual_stages);
    set("mbs", s.micro_batch);
    set("zero", first.zero);
    request.limits.sp = {!s.split.sp, s.split.sp};
    plan::set_limit(request.limits, std::string("recompute=") + to_string(first.recompute));
    request.limits.uniform = true;
    request.limits.uneven_batch = false;
    request.limits.pitch = false;
    request.limits.any_rounds = true;
    request.limits.schedule[static_cast<std::size_t>(Schedule::gpipe)] = s.schedule == Schedule::gpipe;
    if (schedule::rule_of(s.schedule).is_split()) {
      plan::set_limit(request.limits, std::string("schedule=") + to_string(s.schedule));
    }
    search::PlanAnswer answer;
    try {
      answer = search::make_plan(request);
    } catch (const InputError&) {
      return;
    }
    if (answer.plans.empty()) return;
    const std::vector<StagePlan> stages = answer.plans.front().stages;
    std::string text = "other cuts between stages";
    if (megatron_) {
      text = "--pipeline-model-parallel-layout " +
             shell_quoted(pipeline_layout(chunk_blocks(job_.model, stages, s.virtual_stages), job_.run.mtp_layers));
    }
    add(text, TimeTerm::imbalance, [this, stages](SetupVariant& variant) {
      const Strategy& own = mine_.strategy;
      if (variant.strategy.pp != own.pp || variant.strategy.virtual_stages != own.virtual_stages) return false;
      for (std::size_t i = 0; i < stages.size(); ++i) {
        variant.stages[i].first = stages[i].first;
        variant.stages[i].last = stages[i].last;
        variant.stages[i].chunks.clear();
      }
      return true;
    });
  }

  std::optional<PricedChange> price(const std::string& options, TimeTerm term, const SetupVariant& variant) const {
    cost::Job job = job_;
    job.stack = variant.stack;
    if (job.run.global_batch % (variant.strategy.micro_batch * variant.strategy.dp) != 0) return std::nullopt;
    if (!cost::refuse_strategy(job, variant.strategy, variant.stages).empty()) return std::nullopt;
    // Obstacles that the setup has already are no reason against a change.
    for (const std::string& obstacle : obstacles(framework_, job, variant.strategy, variant.stages)) {
      if (std::find(own_obstacles_.begin(), own_obstacles_.end(), obstacle) == own_obstacles_.end())
        return std::nullopt;
    }
    PricedChange priced{options, term, variant, cost::evaluate(job, variant.strategy, variant.stages)};
    if (!priced.evaluation.fits) return std::nullopt;
    return priced;
  }

  std::optional<PricedChange> best_pair(std::vector<std::pair<double, const Change*>> useful) const {
    std::stable_sort(useful.begin(), useful.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (useful.size() > kPaired) useful.resize(kPaired);
    // Switches that need another one first are worth a try beside every change.
    std::vector<const Change*> seconds;
    seconds.reserve(useful.size() + 1);
    for (const auto& entry : useful) seconds.push_back(entry.second);
    for (const Change& change : changes_) {
      if (change.options == "--tp-comm-overlap") seconds.push_back(&change);
    }
    std::optional<PricedChange> best;
    for (const auto& [time, first] : useful) {
      for (const Change* second : seconds) {
        if (second == first) continue;
        SetupVariant variant = mine_;
        if (!first->apply(variant) || !second->apply(variant)) continue;
        auto priced = price(first->options + " " + second->options, first->term, variant);
        if (!priced) continue;
        if (!best || priced->evaluation.prediction.iteration_s < best->evaluation.prediction.iteration_s)
          best = std::move(priced);
      }
    }
    return best;
  }

  launch::Framework framework_;
  const cost::Job& job_;
  const SetupVariant& mine_;
  search::SearchSettings search_;
  search::PriceCache* prices_;
  bool megatron_;
  std::vector<std::string> own_obstacles_;
  std::vector<Change> changes_;
};

}  // namespace

std::vector<double> time_terms(const Strategy& strategy, std::int64_t global_batch, const Plan& evaluation) {
  const Prediction::Breakdown& b = evaluation.expected().breakdown_s;
  double slowest = 0, sum = 0;
  for (const StagePlan& stage : evaluation.stages) {
    slowest = std::max(slowest, stage.time.total);
    sum += stage.time.total;
  }
  const double mean = sum / static_cast<double>(evaluation.stages.size());
  const double waiting = static_cast<double>(micro_batches(strategy, global_batch)) * (slowest - mean);
  return {b.compute - waiting, waiting,     b.recompute, b.bubble, b.tp, b.cp, b.ep, b.p2p, b.zero,
          b.grad_sync,         b.optimizer, b.other};
}

ChangeList price_changes(launch::Framework framework, const cost::Job& job, const SetupVariant& mine,
                         const search::SearchSettings& search, search::PriceCache* prices) {
  return ChangeFinder(framework, job, mine, search, prices).run();
}

cost::SoftwareStack best_stack(launch::Framework framework, const cost::SoftwareStack& mine) {
  if (framework != launch::Framework::megatron && framework != launch::Framework::nemo) return mine;
  const cost::SoftwareStack usual = *cost::find_stack(rules_of(framework).usual_stack);
  cost::SoftwareStack best = mine;
  best.name = usual.name;
  if (best.data_overlap == cost::DataOverlap::none) best.data_overlap = usual.data_overlap;
  best.tensor_overlap = best.tensor_overlap || usual.tensor_overlap;
  best.pipeline_overlap = best.pipeline_overlap || usual.pipeline_overlap;
  best.defer_head_gradient = best.defer_head_gradient || usual.defer_head_gradient;
  return best;
}

}  // namespace nest::exporter
