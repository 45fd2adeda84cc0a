#include "html/network_use.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "cost/chunk_times.h"
#include "cost/group_time.h"
#include "cost/tables.h"
#include "plan/pipeline_shape.h"
#include "split/local_layer.h"

namespace nest::html {
namespace {

constexpr std::int64_t kDevicesCounted = std::int64_t{1} << 17;  // positions repeat long before

// What a layer's exchanges amount to, one micro-batch on one device.
struct GroupBytes {
  double tensor_ring = 0;  // from a member to the next one
  double expert_tensor_ring = 0;
  double context_ring = 0;
  double expert_ring = 0;
  double expert_exchange = 0;  // to all others

  void add(const GroupBytes& other, double times) {
    tensor_ring += times * other.tensor_ring;
    expert_tensor_ring += times * other.expert_tensor_ring;
    context_ring += times * other.context_ring;
    expert_ring += times * other.expert_ring;
    expert_exchange += times * other.expert_exchange;
  }
};

struct LayerExchanges {
  GroupBytes tensor, context, expert;  // by what they are for
  double tensor_s = 0, context_s = 0, expert_s = 0;
  std::int64_t top_k = 1;

  void add(const LayerExchanges& other, double times) {
    tensor.add(other.tensor, times);
    context.add(other.context, times);
    expert.add(other.expert, times);
    tensor_s += times * other.tensor_s;
    context_s += times * other.context_s;
    expert_s += times * other.expert_s;
    top_k = std::max(top_k, other.top_k);
  }
};

double ring_bytes(const split::LayerCollective& exchange) {
  const auto n = static_cast<double>(exchange.ranks);
  switch (exchange.kind) {
    case split::CollectiveKind::all_reduce: return 2 * exchange.bytes * (n - 1) / n;
    case split::CollectiveKind::all_gather:
    case split::CollectiveKind::reduce_scatter: return exchange.bytes * (n - 1) / n;
    case split::CollectiveKind::ring_exchange: return exchange.bytes * (n - 1);
    case split::CollectiveKind::all_to_all: return 0;
  }
  return 0;
}

bool of_experts(const split::LayerCollective& exchange, const split::LocalOperator& op) {
  return exchange.group == split::Group::expert || exchange.group == split::Group::expert_tensor ||
         op.kind == model::OperatorKind::dispatch || op.kind == model::OperatorKind::combine ||
         op.kind == model::OperatorKind::grouped_matmul;
}

// How often an exchange of the forward pass happens: again where it is recomputed.
double repeats(const cost::Job& job, const split::LayerCollective& exchange, const split::LocalOperator& op,
               int treatment) {
  if (exchange.phase == split::Phase::backward || treatment == cost::kNothing) return 1;
  if (treatment == cost::kEverything) return 2;
  if (treatment == cost::kSelective && job.stack.selective == cost::SelectiveKind::every_second_matmul)
    return exchange.group == split::Group::tensor || exchange.group == split::Group::expert_tensor ? 1.5 : 1;
  const bool named = treatment >= cost::kFirstSet || job.stack.selective == cost::SelectiveKind::modules;
  const bool waits = exchange.group == split::Group::context && exchange.kind != split::CollectiveKind::ring_exchange;
  return named && (of_experts(exchange, op) || waits) && cost::runs_again(op, treatment) ? 2 : 1;
}

LayerExchanges layer_exchanges(const cost::Job& job, const Strategy& strategy, const cost::StageGroups& groups,
                               const model::Layer& layer, const cost::Treatments& treatments, int treatment) {
  const split::RunShape shape{strategy.micro_batch, job.run.sequence, job.run.encoder_sequence, 1.0};
  const split::LocalLayer local =
      split::localise(layer, shape, strategy.split, cost::timed_implementation(job),
                      {.modules = job.stack.selective_modules, .count_saved = false, .sets = treatments.sets});
  LayerExchanges sum;
  sum.top_k = std::max<std::int64_t>(1, layer.top_k);
  for (const split::LayerCollective& exchange : local.collectives) {
    if (exchange.ranks < 2) continue;
    const split::LocalOperator& op = local.operators[static_cast<std::size_t>(exchange.operator_index)];
    const bool experts = of_experts(exchange, op);
    const bool context = exchange.group == split::Group::context;
    const double times = repeats(job, exchange, op, treatment);
    GroupBytes& bytes = context ? sum.context : experts ? sum.expert : sum.tensor;
    double& ring = exchange.group == split::Group::tensor          ? bytes.tensor_ring
                   : exchange.group == split::Group::expert_tensor ? bytes.expert_tensor_ring
                   : context                                       ? bytes.context_ring
                                                                   : bytes.expert_ring;
    ring += times * ring_bytes(exchange);
    if (exchange.kind == split::CollectiveKind::all_to_all) {
      const auto n = static_cast<double>(exchange.ranks);
      (context ? bytes.context_ring : bytes.expert_exchange) += times * exchange.bytes * (context ? (n - 1) / n : 1);
    }
    (context ? sum.context_s : experts ? sum.expert_s : sum.tensor_s) += times * groups.seconds(local, exchange);
  }
  return sum;
}

// Bytes and seconds of a stage's gradients and sharded weights.
struct SyncTraffic {
  double shard_step = 0, shard_micro = 0, between = 0;  // times the parameters: bytes
  double step_s = 0, micro_s = 0, per_step_s = 0;
  double dense = 0, expert = 0;  // parameters
  cost::ShardLines lines;
};

class Counter {
 public:
  Counter(const cost::Job& job, const Strategy& strategy, const Plan& evaluation)
      : job_(job),
        strategy_(strategy),
        ranks_(strategy),
        stages_(evaluation.stages),
        prediction_(evaluation.prediction),
        table_(cost::price_table(job, strategy.split, strategy.micro_batch, cost::treatments_of(evaluation.stages))),
        m_(static_cast<double>(micro_batches(strategy, job.run.global_batch))),
        teams_(std::clamp<std::int64_t>(kDevicesCounted / (strategy.pp * strategy.split.team_devices()), 1,
                                        strategy.teams())),
        team_weight_(static_cast<double>(strategy.teams()) / static_cast<double>(teams_)) {
    pace_ = static_cast<std::size_t>(
        std::max_element(stages_.begin(), stages_.end(),
                         [](const StagePlan& a, const StagePlan& b) { return a.time.total < b.time.total; }) -
        stages_.begin());
  }

  NetworkUse run() {
    NetworkUse use;
    use.links = link_kinds(job_.cluster, strategy_);
    count_layers(use);
    count_messages(use);
    count_sync(use);
    return use;
  }

 private:
  std::int64_t a() const { return strategy_.split.team_devices(); }

  Traffic start(TrafficKind kind, std::int64_t ranks, double waited_s) const {
    Traffic traffic;
    traffic.kind = kind;
    traffic.ranks = ranks;
    traffic.waited_s = waited_s;
    return traffic;
  }

  void finish(NetworkUse& use, Traffic traffic, const LinkLoad& load) const {
    if (!load.reach().any()) return;
    traffic.reach = load.reach().text(job_.cluster, kLongestLevelName);
    traffic.link_bytes = load.bytes();
    use.traffic.push_back(std::move(traffic));
  }

  // The groups of one stage, of the teams of replicas that are looked at.
  template <class Visit>
  void visit_groups(groups::Kind kind, std::size_t stage, const Visit& visit) const {
    const GroupSpec spec = ranks_.groups(kind, static_cast<std::int64_t>(stage));
    std::vector<std::vector<std::int64_t>> all = list_groups(spec);
    all.resize(static_cast<std::size_t>(spec.groups() / strategy_.teams() * teams_));
    for (const std::vector<std::int64_t>& members : all) visit(members);
  }

  void load_groups(LinkLoad& load, std::size_t stage, const GroupBytes& bytes, std::int64_t top_k) const {
    LinkLoad one(job_.cluster);
    if (bytes.tensor_ring > 0) {
      visit_groups(groups::Kind::tensor, stage, [&](const auto& members) { one.ring(members, bytes.tensor_ring); });
    }
    if (bytes.context_ring > 0) {
      visit_groups(groups::Kind::context, stage, [&](const auto& members) { one.ring(members, bytes.context_ring); });
    }
    if (bytes.expert_tensor_ring > 0) {
      visit_groups(groups::Kind::expert_tensor, stage,
                   [&](const auto& members) { one.ring(members, bytes.expert_tensor_ring); });
    }
    if (bytes.expert_ring > 0 || bytes.expert_exchange > 0) {
      visit_groups(groups::Kind::expert, stage, [&](const auto& members) {
        one.ring(members, bytes.expert_ring);
        one.exchange(members, bytes.expert_exchange, top_k);
      });
    }
    load.add(one, m_ * team_weight_);
  }

  double sent(const GroupBytes& bytes) const {
    const auto ranks = static_cast<double>(strategy_.split.ep);
    return m_ * (bytes.tensor_ring + bytes.expert_tensor_ring + bytes.context_ring + bytes.expert_ring +
                 bytes.expert_exchange * (ranks - 1) / ranks);
  }

  void count_layers(NetworkUse& use) {
    const Split& split = strategy_.split;
    if (a() == 1) return;
    const cost::StageGroups groups(job_.cluster, split, job_.stack.dispatch);
    const auto& parts = prediction_.breakdown_s;
    Traffic tensor = start(TrafficKind::tensor, split.tp, parts.tp);
    Traffic context = start(TrafficKind::context, split.cp, parts.cp);
    Traffic expert = start(TrafficKind::expert, split.ep, parts.ep);
    LinkLoad tensor_load(job_.cluster), context_load(job_.cluster), expert_load(job_.cluster);
    std::map<std::pair<int, int>, LayerExchanges> known;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      LayerExchanges sum;
      const cost::StageTreatment treated = cost::stage_treatment(
          table_.treatments, stages_[s].recompute, plan::chunks_per_run(stages_[s], strategy_.virtual_stages));
      for (const ChunkPlan& run : plan::runs_of(stages_[s])) {
        std::int64_t block = 0;
        for (int i = run.first; i <= run.last; ++i) {
          const int kind = job_.fused_model.layers[static_cast<std::size_t>(i)];
          const model::Layer& layer = job_.fused_model.kinds[static_cast<std::size_t>(kind)];
          const int treatment = layer.kind == model::LayerKind::block ? treated.of_block(block++) : cost::kNothing;
          auto found = known.find({kind, treatment});
          if (found == known.end()) {
            found = known
                        .emplace(std::pair(kind, treatment),
                                 layer_exchanges(job_, strategy_, groups, layer, table_.treatments, treatment))
                        .first;
          }
          sum.add(found->second, 1);
        }
      }
      load_groups(tensor_load, s, sum.tensor, sum.top_k);
      load_groups(context_load, s, sum.context, sum.top_k);
      load_groups(expert_load, s, sum.expert, sum.top_k);
      if (s != pace_) continue;
      tensor.sent_bytes = sent(sum.tensor);
      context.sent_bytes = sent(sum.context);
      expert.sent_bytes = sent(sum.expert);
      tensor.exchange_s = m_ * sum.tensor_s;
      context.exchange_s = m_ * sum.context_s;
      expert.exchange_s = m_ * sum.expert_s;
    }
    finish(use, tensor, tensor_load);
    finish(use, context, context_load);
    finish(use, expert, expert_load);
  }

  // From stage `from` to `to` and back, `bytes` each way.
  void load_messages(LinkLoad& load, std::int64_t from, std::int64_t to, double bytes) const {
    LinkLoad one(job_.cluster);
    for (std::int64_t rank = 0; rank < teams_ * a(); ++rank) {
      const std::int64_t here = ranks_.device_of(groups::StageRank{from, rank});
      const std::int64_t there = ranks_.device_of(groups::StageRank{to, rank});
      one.send(here, there, bytes);
      one.send(there, here, bytes);
    }
    load.add(one, team_weight_);
  }

  void count_messages(NetworkUse& use) const {
    if (strategy_.pp < 2) return;
    const auto chunks = static_cast<double>(strategy_.virtual_stages);
    Traffic traffic = start(TrafficKind::pipeline, strategy_.pp, prediction_.breakdown_s.p2p);
    LinkLoad load(job_.cluster);
    const auto pace = static_cast<std::int64_t>(pace_);
    const auto count = [&](std::int64_t from, std::int64_t to, double times, double bytes) {
      load_messages(load, from, to, m_ * times * bytes);
      if (from != pace && to != pace) return;
      traffic.sent_bytes += m_ * times * bytes;
      traffic.exchange_s += m_ * times * cost::message_line(job_.cluster, strategy_, from, to).at(bytes);
    };
    if (plan::lists_chunks(stages_)) {
      const schedule::Chain chain(schedule::rule_of(strategy_.schedule),
                                  plan::pipeline_shape(strategy_, job_.run.global_batch));
      const std::vector<double> bytes = cost::ChunkTimes(job_, strategy_, table_, stages_).link_bytes();
      for (std::size_t k = 0; k < bytes.size(); ++k) {
        const auto link = static_cast<std::int64_t>(k);
        if (bytes[k] > 0) count(chain.place(link).stage, chain.place(link + 1).stage, 1, bytes[k]);
      }
      return finish(use, traffic, load);
    }
    for (std::int64_t s = 0; s + 1 < strategy_.pp; ++s) {
      count(s, s + 1, chunks, table_.cut_bytes[static_cast<std::size_t>(stages_[static_cast<std::size_t>(s)].last)]);
    }
    if (strategy_.schedule == Schedule::interleaved) count(strategy_.pp - 1, 0, chunks - 1, table_.wrap_bytes);
    finish(use, traffic, load);
  }

  SyncTraffic sync_of(const StagePlan& stage) const {
    SyncTraffic sync;
    const cost::SyncRule rule = cost::sync_rule(job_, strategy_.pp);
    const int row = cost::sharding_row(stage);
    sync.lines = cost::sync_lines(job_, strategy_, table_, row, stage.zero == 0 ? 0 : stage.zero_degree);
    const cost::StageSums sums = cost::sum_stage(job_, table_, stage, strategy_.pp);
    sync.dense = sums.dense_parameters;
    sync.expert = sums.expert_parameters;
    const double g = rule.gradient_bytes, w = rule.weight_bytes;
    const cost::ShardingTraffic often = rule.traffic(row);
    sync.shard_step = often.step_scatters * g + often.step_gathers * w;
    sync.shard_micro = often.backward_scatters * g + often.micro_gathers() * w;
    sync.between = often.between * g + often.across * w;
    const cost::StageTraffic traffic = cost::stage_traffic(rule, sums, sync.lines, row);
    sync.step_s = traffic.reduce_s + traffic.gather_s;
    sync.micro_s = traffic.micro_s;
    const cost::StageCost cost = cost::stage_cost(job_, rule, strategy_, sums, sync.lines, row,
                                                  cost::stage_again(job_, table_, stage, strategy_.virtual_stages));
    sync.per_step_s = cost.sync_exposed_s + cost.optimizer_s + cost.head.step_s;
    return sync;
  }

  // Replicas of the same parameters: rings inside each `degree` of them, and across.
  void load_replicas(LinkLoad& load, groups::Weights weights, std::size_t stage, std::int64_t degree,
                     double shard_bytes, double between_bytes) const {
    const GroupSpec spec = ranks_.groups(groups::replicas_of(weights), static_cast<std::int64_t>(stage));
    const std::int64_t sampled =
        std::clamp<std::int64_t>(kDevicesCounted / (spec.size() * strategy_.pp), 1, spec.groups());
    std::vector<std::vector<std::int64_t>> replicas = list_groups(spec);
    replicas.resize(static_cast<std::size_t>(sampled));
    LinkLoad one(job_.cluster);
    for (const std::vector<std::int64_t>& all : replicas) {
      const auto size = static_cast<std::size_t>(degree), groups = all.size() / size;
      const double share = static_cast<double>(size - 1) / static_cast<double>(size);
      const double across = static_cast<double>(groups - 1) / static_cast<double>(groups) / static_cast<double>(size);
      for (std::size_t i = 0; size > 1 && i < groups; ++i) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * size);
        one.ring({begin, begin + static_cast<std::ptrdiff_t>(size)}, shard_bytes * share);
      }
      for (std::size_t i = 0; groups > 1 && i < size; ++i) {
        std::vector<std::int64_t> members;
        for (std::size_t j = i; j < all.size(); j += size) members.push_back(all[j]);
        one.ring(members, between_bytes * across);
      }
    }
    load.add(one, static_cast<double>(spec.groups()) / static_cast<double>(sampled));
  }

  void load_sync(LinkLoad& load, std::size_t stage, const SyncTraffic& sync, double shard, double between) const {
    using groups::Weights;
    load_replicas(load, groups::Weights::dense, stage, sync.lines.dense_degree, shard * sync.dense,
                  between * sync.dense);
    if (sync.expert > 0) {
      load_replicas(load, groups::Weights::expert, stage, sync.lines.expert_degree, shard * sync.expert,
                    between * sync.expert);
    }
  }

  double sent(const SyncTraffic& sync, double shard, double between) const {
    const auto one = [&](double parameters, std::int64_t degree, std::int64_t replicas) {
      const auto n = static_cast<double>(degree), groups = static_cast<double>(replicas) / n;
      return parameters * (shard * (n - 1) / n + between / n * (groups - 1) / groups);
    };
    return one(sync.dense, sync.lines.dense_degree, groups::dense_replicas(strategy_)) +
           one(sync.expert, sync.lines.expert_degree, groups::expert_replicas(strategy_));
  }

  void count_sync(NetworkUse& use) const {
    if (groups::dense_replicas(strategy_) < 2) return;
    const auto& parts = prediction_.breakdown_s;
    Traffic weights = start(TrafficKind::weights, 1, parts.zero);
    Traffic gradients = start(TrafficKind::gradients, groups::dense_replicas(strategy_), parts.grad_sync);
    LinkLoad weight_load(job_.cluster), gradient_load(job_.cluster);
    double latest_s = -1;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const SyncTraffic sync = sync_of(stages_[s]);
      load_sync(gradient_load, s, sync, sync.shard_step, sync.between);
      if (sync.shard_micro > 0) load_sync(weight_load, s, sync, m_ * sync.shard_micro, 0);
      if (s == pace_) {
        weights.ranks = sync.lines.dense_degree;
        weights.sent_bytes = sent(sync, m_ * sync.shard_micro, 0);
        weights.exchange_s = m_ * sync.micro_s;
      }
      if (sync.per_step_s <= latest_s) continue;
      latest_s = sync.per_step_s;
      gradients.sent_bytes = sent(sync, sync.shard_step, sync.between);
      gradients.exchange_s = sync.step_s;
    }
    finish(use, weights, weight_load);
    finish(use, gradients, gradient_load);
  }

  const cost::Job& job_;
  const Strategy& strategy_;
  groups::RankGroups ranks_;
  const std::vector<StagePlan>& stages_;
  const Prediction& prediction_;
  cost::PriceTable table_;
  double m_;
  std::int64_t teams_;    // looked at
  double team_weight_;    // the others count as these
  std::size_t pace_ = 0;  // the slowest stage
};

}  // namespace

double NetworkUse::busy_s(std::size_t link, const Traffic& t) const {
  const double capacity = links[link].links * links[link].bytes_per_s;
  return capacity > 0 ? t.link_bytes[link] / capacity : 0;
}

NetworkUse network_use(const cost::Job& job, const Strategy& strategy, const Plan& evaluation) {
  return Counter(job, strategy, evaluation).run();
}

const char* to_string(TrafficKind kind) {
  switch (kind) {
    case TrafficKind::tensor: return "tensor parallel";
    case TrafficKind::context: return "context parallel";
    case TrafficKind::expert: return "expert parallel";
    case TrafficKind::pipeline: return "stage to stage";
    case TrafficKind::weights: return "sharded weights";
    case TrafficKind::gradients: return "gradient sync";
  }
  return "?";
}

}  // namespace nest::html
