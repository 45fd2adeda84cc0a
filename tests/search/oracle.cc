#include "oracle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "cost/activation_offload.h"
#include "cost/constants.h"
#include "cost/memory.h"
#include "cost/messages.h"
#include "cost/tables.h"
#include "schedule/pipeline.h"

namespace nest::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Choice {
  double time_s = 0, once_s = 0;  // t without messages, y
  Recomputation recompute;
  int zero = 0;
  std::int64_t degree = 0;
  bool outer = false;  // the optimizer's state over all replicas
  bool defers = true;  // head gradients wait for the drain
};

cost::Treatments treatments_for(const std::vector<Recomputation>& recomputations) {
  cost::Treatments treatments;
  for (const Recomputation& one : recomputations) {
    if (one.kind == Recompute::modules) treatments.sets.push_back(one.modules);
  }
  return treatments;
}

bool is_block(const cost::Job& job, int layer) {
  return job.model.kinds[static_cast<std::size_t>(layer)].kind == model::LayerKind::block;
}

bool is_own(const cost::SoftwareStack& stack, RecomputeSet set) {
  const std::vector<model::Module> modules = split::modules_of(set);
  return stack.selective == cost::SelectiveKind::modules &&
         std::is_permutation(modules.begin(), modules.end(), stack.selective_modules.begin(),
                             stack.selective_modules.end());
}

// Whether a layer keeps at least half a percent less with this module recomputed.
bool spares_enough(const cost::Job& job, RecomputeSet module) {
  for (std::size_t kind = 0; kind < job.model.kinds.size(); ++kind) {
    if (!is_block(job, static_cast<int>(kind))) continue;
    cost::LayerPrice price;
    cost::price_layer_memory(job, static_cast<int>(kind), {}, 1, price, {{module}});
    if (price.kept_bytes[0] > 0 && price.kept_bytes[3] <= 0.995 * price.kept_bytes[0]) return true;
  }
  return false;
}

class Looker {
 public:
  Looker(const cost::Job& job, const plan::PlanLimits& limits, Dominated dominated)
      : job_(job),
        limits_(limits),
        dominated_(dominated),
        n_(static_cast<std::int64_t>(job.model.layers.size())),
        pattern_(chain_pattern(job.model.layers)),
        rules_{cost::sync_rule(job, 1), cost::sync_rule(job, 2)},
        recomputations_(all_recomputations(job, limits)),
        treatments_(treatments_for(recomputations_)) {}

  void look(const Strategy& strategy) {
    enter(strategy);
    best_.time_s = kInfinity;
    best_.strategy = strategy;
    const auto p = static_cast<std::size_t>(strategy.pp);
    stages_.assign(p, {});
    // Uniform plans: one option for all stages, after the other.
    const std::size_t rounds = limits_.uniform ? options_.size() : 1;
    for (std::size_t round = 0; round < rounds; ++round) {
      only_ = limits_.uniform ? static_cast<int>(round) : -1;
      choices_.assign(p * static_cast<std::size_t>((n_ + 1) * (n_ + 1)), {});
      priced_.assign(choices_.size(), false);
      next_stage(0, 0, 0, 0, 0);
    }
    if (best_.time_s < kInfinity) answer_.keys.push_back(best_);
  }

  void tell(VisitPlan visit) { visit_ = std::move(visit); }

  OracleAnswer take() { return std::move(answer_); }

 private:
  std::size_t cell(std::int64_t stage, std::int64_t begin, std::int64_t end) const {
    return static_cast<std::size_t>((stage * (n_ + 1) + begin) * (n_ + 1) + end);
  }

  void enter(const Strategy& strategy) {
    const bool first = table_ == nullptr;
    Strategy bare = strategy;
    bare.dp_inner = 1;
    bare.pitch = 0;
    if (first || !(strategy.split == strategy_.split) || strategy.micro_batch != strategy_.micro_batch) {
      table_ = std::make_unique<cost::PriceTable>(
          cost::price_table(job_, strategy.split, strategy.micro_batch, treatments_));
      memory_ = std::make_unique<cost::StageMemoryModel>(job_, strategy.split, strategy.micro_batch, treatments_);
      groups_known_.clear();
    }
    if (first || !(bare == bare_)) fits_.clear();
    if (first || strategy.pp != strategy_.pp || !(strategy.split == strategy_.split)) groups_known_.clear();
    bare_ = bare;
    strategy_ = strategy;
    options_.clear();
    lines_.clear();
    const std::vector<std::int64_t> degrees = sharding_degrees(job_, limits_, strategy);
    for (const Recomputation& recompute : recomputations_) {
      if (!may_offload(job_.stack, strategy.split.offload, recompute)) continue;
      for (int zero = 0; zero < 4; ++zero) {
        for (const std::int64_t degree : degrees) {
          if (!limits_.zero[static_cast<std::size_t>(zero)] || (zero == 0 && degree != 0)) continue;
          for (const bool outer : {false, true}) {
            const bool wider = zero == 3 && degree != 0 && job_.stack.hybrid_sharding;
            if (!limits_.zero_outer[outer ? 1 : 0] || (outer && !wider)) continue;
            options_.push_back({0, 0, recompute, zero, degree, outer});
            lines_.push_back(lines_for(zero, degree));
          }
        }
      }
    }
    price_messages();
    filled_s_ = filled_s();
  }

  // How much earlier the orders end than the closed form says, in a pipeline whose stages are all the mean one.
  double filled_s() const {
    const schedule::Rule& rule = schedule::rule_of(strategy_.schedule);
    if (strategy_.pp == 1 || !rule.is_split()) return 0;
    const cost::StageSums all = cost::sum_stage(job_, *table_, 0, static_cast<int>(n_) - 1, strategy_.pp);
    const auto p = static_cast<double>(strategy_.pp), v = static_cast<double>(strategy_.virtual_stages);
    const double whole_s = all.forward_s + all.backward_s;
    const double forward = std::round(512 * all.forward_s / whole_s) / 512;
    const double weight = std::round(512 * all.weight_s / whole_s) / 512;
    const schedule::Pipeline pipeline(
        rule, {strategy_.pp, strategy_.virtual_stages, micro_batches(strategy_, job_.run.global_batch)});
    schedule::PipelineSeconds seconds;
    seconds.chunks.assign(static_cast<std::size_t>(pipeline.shape().positions()),
                          {forward / v, (1 - forward - weight) / v, weight / v});
    const auto m = static_cast<double>(pipeline.shape().micro_batches);
    return (m + (p - 1) / v - schedule::play(pipeline, seconds).total_s) * whole_s / p;
  }

  // Groups of ranks do not depend on micro-batch and schedule.
  cost::ShardLines lines_for(int zero, std::int64_t degree) {
    const std::array<std::int64_t, 4> name{strategy_.dp, strategy_.dp_inner, strategy_.pitch, degree};
    const auto [place, fresh] = groups_known_.try_emplace(name);
    if (fresh) place->second = cost::shard_groups(job_.cluster, strategy_, degree);
    return cost::sync_lines(job_, rule(), *table_, zero, place->second);
  }

  // hop_s_[i * p + s]: the message after stage s when it ends with layer i; the wrap-around last.
  void price_messages() {
    hop_s_.clear();
    fill_s_ = 0;
    if (strategy_.pp == 1) return;
    const cost::StageSums all = cost::sum_stage(job_, *table_, 0, static_cast<int>(n_) - 1, strategy_.pp);
    const cost::MessageRule rule(job_, strategy_, all.forward_s / static_cast<double>(strategy_.pp));
    const cost::MessageLines lines = cost::message_lines(job_.cluster, strategy_, job_.law);
    const auto least = std::min_element(table_->cut_bytes.begin(), table_->cut_bytes.end());
    fill_s_ = rule.fill_s(lines, *least, table_->wrap_bytes);
    std::vector<StagePlan> stages(static_cast<std::size_t>(strategy_.pp));
    for (std::int64_t i = 0; i + 1 < n_; ++i) {
      for (StagePlan& stage : stages) stage.last = static_cast<int>(i);
      const std::vector<double> seconds = cost::message_seconds(rule, lines, strategy_, *table_, stages);
      hop_s_.insert(hop_s_.end(), seconds.begin(), seconds.end());
    }
  }

  double messages_s(std::int64_t stage, std::int64_t begin, std::int64_t end) const {
    const std::int64_t p = strategy_.pp;
    if (p == 1) return 0;
    const auto hop = [&](std::int64_t after, std::int64_t layer) {
      return hop_s_[static_cast<std::size_t>(layer * p + after)];
    };
    double seconds = 0;
    if (stage > 0) seconds += hop(stage - 1, begin - 1);
    if (stage + 1 < p) seconds += hop(stage, end - 1);
    if (stage == 0 || stage + 1 == p) seconds += hop(p - 1, 0);
    return seconds;
  }

  bool fits(const Choice& choice, std::int64_t stage, std::int64_t begin, std::int64_t end) {
    const FitName name{stage, begin, end, choice.zero, choice.degree, choice.outer, choice.recompute};
    const auto [place, fresh] = fits_.try_emplace(name, false);
    if (fresh) {
      StagePlan plan = stage_plan(choice, begin, end);
      place->second = memory_->estimate(strategy_, plan, stage).needed <= job_.cluster.device.memory_bytes;
    }
    return place->second;
  }

  static StagePlan stage_plan(const Choice& choice, std::int64_t begin, std::int64_t end) {
    StagePlan plan;
    plan.first = static_cast<int>(begin);
    plan.last = static_cast<int>(end - 1);
    plan.zero = choice.zero;
    plan.zero_degree = choice.degree;
    plan.zero_outer = choice.outer;
    plan.recompute = choice.recompute;
    return plan;
  }

  // Options of a stage that fit and, unless all are wanted, of which no other is as good in both times.
  const std::vector<Choice>& choices(std::int64_t stage, std::int64_t begin, std::int64_t end) {
    const std::size_t at = cell(stage, begin, end);
    std::vector<Choice>& list = choices_[at];
    if (priced_[at]) return list;
    priced_[at] = true;
    const cost::StageSums sums =
        cost::sum_stage(job_, *table_, static_cast<int>(begin), static_cast<int>(end - 1), strategy_.pp);
    std::vector<Choice> all;
    for (std::size_t k = 0; k < options_.size(); ++k) {
      if (only_ >= 0 && static_cast<int>(k) != only_) continue;
      const cost::StageAgain again =
          cost::stage_again(job_, *table_, stage_plan(options_[k], begin, end), strategy_.virtual_stages);
      for (const bool defers : {true, false}) {
        if (sums.deferred_s > 0 ? !limits_.defer_head[defers ? 1 : 0] : !defers) continue;
        Strategy strategy = strategy_;
        strategy.defer_head = defers;
        Choice choice = options_[k];
        choice.defers = defers;
        const cost::StageCost cost = cost::stage_cost(job_, rule(), strategy, sums, lines_[k],
                                                      cost::sharding_row(choice.zero, choice.outer), again);
        const auto m = static_cast<double>(micro_batches(strategy_, job_.run.global_batch));
        const double alone = cost::alone_share(job_, strategy_, m, choice.recompute);
        choice.time_s = sums.forward_s + sums.backward_s + cost.head.micro_s + again.seconds +
                        alone * (sums.alone_forward_s + sums.alone_backward_s) + cost.micro_exposed_s;
        choice.once_s = cost.sync_exposed_s + cost.optimizer_s + cost.head.step_s + cost::constants::kStep_s;
        all.push_back(choice);
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Choice& a, const Choice& b) {
      return a.time_s != b.time_s ? a.time_s < b.time_s : a.once_s < b.once_s;
    });
    double least_once_s = kInfinity;
    for (const Choice& choice : all) {
      if (dominated_ == Dominated::skipped && choice.once_s >= least_once_s) continue;
      if (!fits(choice, stage, begin, end)) continue;
      least_once_s = std::min(least_once_s, choice.once_s);
      list.push_back(choice);
    }
    return list;
  }

  void next_stage(std::int64_t stage, std::int64_t begin, double slowest_s, double sum_s, double once_s) {
    const bool last = stage + 1 == strategy_.pp;
    for (std::int64_t end = last ? n_ : begin + 1; end <= n_; ++end) {
      if (!last && end == n_) break;
      if (!may_be_stage(pattern_, strategy_, stage, begin, end)) continue;
      const double wait_s = messages_s(stage, begin, end);
      for (const Choice& choice : choices(stage, begin, end)) {
        const double time_s = choice.time_s + wait_s;
        const double slowest = std::max(slowest_s, time_s), once = std::max(once_s, choice.once_s);
        stages_[static_cast<std::size_t>(stage)] = stage_plan(choice, begin, end);
        if (last) {
          strategy_.defer_head = choice.defers;
          finish(slowest, sum_s + time_s, once);
          strategy_.defer_head = true;
        } else {
          next_stage(stage + 1, end, slowest, sum_s + time_s, once);
        }
      }
    }
  }

  void finish(double slowest_s, double sum_s, double once_s) {
    ++answer_.plans;
    const auto m = static_cast<double>(micro_batches(strategy_, job_.run.global_batch));
    const auto v = static_cast<double>(strategy_.virtual_stages);
    const double time_s = m * slowest_s + std::max(0.0, (sum_s - slowest_s) / v - filled_s_ + fill_s_) + once_s;
    if (visit_) visit_(strategy_, stages_, time_s);
    if (time_s >= best_.time_s) return;
    best_.time_s = time_s;
    best_.strategy.defer_head = strategy_.defer_head;
    best_.stages = stages_;
  }

  const cost::Job& job_;
  const plan::PlanLimits& limits_;
  Dominated dominated_;
  std::int64_t n_;
  ChainPattern pattern_;
  const cost::SyncRule& rule() const { return rules_[strategy_.pp > 1 ? 1 : 0]; }
  std::array<cost::SyncRule, 2> rules_;
  Strategy strategy_, bare_;
  std::unique_ptr<cost::PriceTable> table_;
  std::unique_ptr<cost::StageMemoryModel> memory_;
  std::vector<Choice> options_;          // without times
  std::vector<cost::ShardLines> lines_;  // of each option
  std::map<std::array<std::int64_t, 4>, cost::ShardGroups> groups_known_;
  using FitName = std::tuple<std::int64_t, std::int64_t, std::int64_t, int, std::int64_t, bool, Recomputation>;
  std::vector<Recomputation> recomputations_;
  cost::Treatments treatments_;
  std::map<FitName, bool> fits_;  // of strategies that differ in their placement only
  std::vector<double> hop_s_;
  std::vector<std::vector<Choice>> choices_;
  std::vector<bool> priced_;
  int only_ = -1;
  double filled_s_ = 0, fill_s_ = 0;  // by the order, and by messages
  std::vector<StagePlan> stages_;
  OracleBest best_;
  OracleAnswer answer_;
  VisitPlan visit_;
};

}  // namespace

std::vector<Recomputation> all_recomputations(const cost::Job& job, const plan::PlanLimits& limits) {
  std::vector<Recomputation> all = {Recompute::none, Recompute::selective, Recompute::full};
  const cost::SoftwareStack& stack = job.stack;
  if (stack.recompute_modules) {
    RecomputeSet worthwhile = 0;
    for (const auto& word : kRecomputeModuleWords) {
      if (spares_enough(job, set_of(word.value))) worthwhile |= set_of(word.value);
    }
    constexpr RecomputeSet kExperts = set_of(RecomputeModule::moe);
    constexpr RecomputeSet kShared = set_of(RecomputeModule::shared_experts);
    constexpr RecomputeSet kParts = kShared | set_of(RecomputeModule::moe_act);
    const auto& scopes = stack.graph_scopes;
    const bool router = std::find(scopes.begin(), scopes.end(), cost::GraphScope::router) != scopes.end();
    for (unsigned bits = 1; bits < 128; ++bits) {
      const auto set = static_cast<RecomputeSet>(bits);
      const bool experts = (set & kExperts) != 0;
      if ((set & ~worthwhile) != 0 || (experts && (router || (set & kParts) != 0))) continue;
      if (stack.shared_expert_overlap && (set & kShared) != 0) continue;
      if (is_own(stack, set)) continue;  // that is selective recomputation
      all.push_back(Recomputation::of_modules(set));
    }
  }
  if (stack.recompute_layers) {
    const auto blocks = std::count_if(job.model.layers.begin(), job.model.layers.end(),
                                      [&](int layer) { return is_block(job, layer); });
    for (const int group : {2, 4, 8}) all.push_back(Recomputation::of_layers(Recompute::uniform, group));
    for (int n = 1; n <= blocks; ++n) all.push_back(Recomputation::of_layers(Recompute::block, n));
  }
  std::erase_if(all, [&](const Recomputation& one) {
    if (!limits.recompute[static_cast<std::size_t>(one.kind)]) return true;
    const auto& only = limits.recompute_only;
    const bool named = std::any_of(only.begin(), only.end(), [&](const auto& name) { return name.kind == one.kind; });
    return named && std::find(only.begin(), only.end(), one) == only.end();
  });
  return all;
}

std::vector<OffloadSet> all_offloads(const cost::Job& job, const plan::PlanLimits& limits) {
  std::vector<OffloadSet> list;
  if (limits.offload[0]) list.push_back(0);
  if (limits.offload[1]) {
    struct Part {
      OffloadSet set;
      double freed;
    };
    std::vector<Part> parts;
    // Attention with its projection; the others alone.
    for (const char* name :
         {"core_attn+attn_proj", "fused_group_mlp", "moe_act", "expert_fc1", "qkv_linear", "mlp_norm", "attn_norm"}) {
      const OffloadSet set = *parse_offload(name);
      if (!cost::refuse_offload(job, set).empty()) continue;
      double freed = 0;
      bool enough = false;
      for (const int kind : job.model.layers) {
        if (!is_block(job, kind)) continue;
        cost::LayerPrice with, without;
        cost::price_layer_memory(job, kind, Split{.offload = set}, 1, with);
        cost::price_layer_memory(job, kind, {}, 1, without);
        freed += without.kept_bytes[0] - with.kept_bytes[0];
        enough = enough || (without.kept_bytes[0] > 0 && with.kept_bytes[0] <= 0.98 * without.kept_bytes[0]);
      }
      if (enough) parts.push_back({set, freed});
    }
    // Each alone, and the largest ones together.
    std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.freed > b.freed; });
    for (std::size_t k = 0; k < parts.size(); ++k) {
      list.push_back(parts[k].set);
      OffloadSet largest = 0;
      for (std::size_t i = 0; i <= k; ++i) largest |= parts[i].set;
      if (k > 0) list.push_back(largest);
    }
  }
  for (const OffloadSet named : limits.offload_only) {
    const bool there = std::find(list.begin(), list.end(), named) != list.end();
    if (!there && cost::refuse_offload(job, named).empty()) list.push_back(named);
  }
  return list;
}

bool may_offload(const cost::SoftwareStack& stack, OffloadSet modules, const Recomputation& recompute) {
  if (modules == 0) return true;
  if (recompute != Recompute::none && !recompute.some_modules()) return false;  // layers from their inputs
  const auto& own = stack.selective_modules;
  const bool experts = recompute == Recompute::selective
                           ? std::find(own.begin(), own.end(), model::Module::moe) != own.end()
                           : (recompute.modules & set_of(RecomputeModule::moe)) != 0;
  const OffloadSet inside = *parse_offload("expert_fc1+moe_act+fused_group_mlp");
  return !experts || (modules & inside) == 0;
}

OracleAnswer try_everything(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices,
                            Dominated dominated) {
  Looker looker(job, limits, dominated);
  for (const Strategy& strategy : all_strategies(job, limits, devices)) looker.look(strategy);
  return looker.take();
}

void visit_plans(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices, const VisitPlan& visit) {
  Looker looker(job, limits, Dominated::looked_at);
  looker.tell(visit);
  for (const Strategy& strategy : all_strategies(job, limits, devices)) looker.look(strategy);
}

}  // namespace nest::test
