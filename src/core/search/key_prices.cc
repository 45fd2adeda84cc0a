#include "search/key_prices.h"

#include <algorithm>

#include "base/index.h"
#include "cost/constants.h"
#include "schedule/rules.h"
#include "schedule/step_time.h"

namespace nest::search {
namespace {

constexpr double kBelow = 1 - PartitionSolver::kEqual;  // a bound stays one when sums are rounded

}  // namespace

double KeyPrices::exposed_share(std::int64_t chunks) const {
  if (!messages_count_) return 0;
  return chunks > 1 && space_->job().stack.pipeline_overlap ? cost::constants::kMessageExposed : 1;
}

LeastWaiting KeyPrices::least_waiting(const Key& key, const PairPrices& pair) const {
  if (key.stages < 2) return {};
  const std::int64_t chunks = space_->schedule(key).chunks;
  LeastWaiting least = message_floor_.waiting(key.stages, chunks, space_->stage_devices(key), pair.least_cut_bytes(),
                                              pair.table().wrap_bytes);
  const double share = exposed_share(chunks);
  least.each_s *= share;
  least.sum_s *= share;
  return least;
}

double KeyPrices::message_bound_s(const Key& key, const PairPrices& pair) {
  const Strategy strategy = space_->strategy(key);
  const auto m = real(space_->micro_batch_count(key)), v = real(strategy.virtual_stages);
  double sum = pair.total_s(key.stages > 1) + alone_share(key, strategy) * pair.alone_s();
  double slowest = std::max(pair.slowest_s(key.stages), sum / real(key.stages));
  if (key.stages > 1) {
    const Messages& messages = placements_.messages(key);
    const double share = exposed_share(strategy.virtual_stages);
    double least = std::numeric_limits<double>::infinity();
    for (const cost::CostLine& line : messages.hops) {
      const double hop = share * v * line.at(pair.least_cut_bytes());
      sum += 2 * hop;
      least = std::min(least, hop);
    }
    sum += 2 * share * (v - 1) * messages.wrap.at(pair.table().wrap_bytes);
    slowest = std::max(slowest + least, sum / real(key.stages));
  }
  return schedule::step_time(m, v, slowest, sum, cost::constants::kStep_s) * kBelow;
}

// What the network charges, and the bounds that follow from it.
double KeyPrices::begin(const Key& key, const PairPrices& pair) {
  key_ = key;
  pair_ = &pair;
  strategy_ = space_->strategy(key);
  sync_ = &placements_.sync(key, pair.table());
  messages_ = &placements_.messages(key);
  const std::int64_t p = strategy_.pp;
  const auto v = real(strategy_.virtual_stages), stages = real(p);
  const double share = exposed_share(strategy_.virtual_stages);
  problem_.micro_batches = real(space_->micro_batch_count(key));
  problem_.chunks = v;
  problem_.stages.assign(at(p), {});
  alone_share_ = alone_share(key, strategy_);
  double& sum_low_s = problem_.sum_low_s = pair.total_s(p > 1) + alone_share_ * pair.alone_s();
  for (std::int64_t s = 0; s + 1 < p; ++s) {
    const double least = share * v * messages_->hops[at(s)].at(pair.least_cut_bytes());
    problem_.stages[at(s)].waiting_low_s += least;
    problem_.stages[at(s + 1)].waiting_low_s += least;
    sum_low_s += 2 * least;
  }
  if (p > 1) {
    const double wrap_s = share * (v - 1) * messages_->wrap.at(pair.table().wrap_bytes);
    for (PartitionStage* stage : {&problem_.stages.front(), &problem_.stages.back()}) {
      stage->extra_s = wrap_s;
      stage->waiting_low_s += wrap_s;
    }
    sum_low_s += 2 * wrap_s;
  }
  problem_.slowest_low_s = pair.slowest_s(p);
  problem_.step_low_s = cost::constants::kStep_s;
  double waiting_s = problem_.stages.front().waiting_low_s;
  for (const PartitionStage& stage : problem_.stages) waiting_s = std::min(waiting_s, stage.waiting_low_s);
  const double slowest = problem_.slowest_low_s + waiting_s, even = sum_low_s / stages;
  const TrafficFloor traffic(space_->limits(), rule_, pair, *sync_, strategy_, groups::zero_degrees(strategy_, 0),
                             floor_);
  problem_.once_low_s = traffic.seconds(stages / v);
  return std::max(problem_.value(std::max(slowest, even), sum_low_s) + problem_.once_low_s,
                  problem_.value(even, sum_low_s) + traffic.seconds(problem_.micro_batches - 1 / v + stages / v)) *
         kBelow;
}

PartitionProblem& KeyPrices::problem() {
  const cost::Job& job = space_->job();
  const std::int64_t p = strategy_.pp, n = space_->layers(), chunks = strategy_.virtual_stages;
  context_bytes_ = cost::context_bytes(job, strategy_);
  constexpr std::size_t kMostNames = 60'000;
  if (known_names_ > kMostNames) {
    known_fits_.clear();
    known_names_ = 0;
  }
  fits_ = &known_fits_[{key_.split, key_.micro_batch, p, key_.replicas, sync_->degrees[1]}];
  problem_.layers = n;
  problem_.names = space_->intervals();
  problem_.options = static_cast<int>(space_->choices().size());
  problem_.uniform = space_->limits().uniform;
  problem_.may_cut = space_->limits().even_cuts ? space_->even_cuts(p, chunks) : space_->cuts(chunks > 1);
  const std::vector<double>* prefix = &pair_->prefix(p > 1);
  if (alone_share_ > 0 && pair_->alone_s() > 0) {
    prefix_ = *prefix;
    for (std::size_t i = 0; i < prefix_.size(); ++i) prefix_[i] += alone_share_ * pair_->alone()[i];
    prefix = &prefix_;
  }
  const schedule::Shape shape{p, chunks, space_->micro_batch_count(key_)};
  for (std::int64_t s = 0; s < p; ++s) {
    PartitionStage& stage = problem_.stages[at(s)];
    stage.prefix = prefix->data();
    stage.names = space_->interval_table().data();
    stage.pressure = cost::in_flight(space_->job(), strategy_.split, strategy_.schedule, shape, s);
    stage.fewest_layers = space_->fewest_layers(s, p, chunks);
  }
  const double share = exposed_share(strategy_.virtual_stages);
  problem_.boundary_s.resize(at(p - 1));
  for (std::int64_t s = 0; s + 1 < p; ++s) {
    std::vector<double>& seconds = problem_.boundary_s[at(s)];
    if (s > 0 && messages_->hops[at(s)] == messages_->hops[at(s - 1)]) {  // most are alike
      seconds = problem_.boundary_s[at(s - 1)];
      continue;
    }
    seconds.assign(at(n + 1), 0);
    for (std::int64_t i = 1; i < n; ++i) {
      seconds[at(i)] = share * problem_.chunks * messages_->hops[at(s)].at(pair(s).table().cut_bytes[at(i - 1)]);
    }
  }
  return problem_;
}

void KeyPrices::price_options(std::int64_t stage, std::int64_t begin, std::int64_t end,
                              std::vector<OptionPrice>& prices) {
  const std::vector<StageChoice>& choices = space_->choices();
  const cost::StageSums sums = pair(stage).sums(begin, end, strategy_.pp > 1);
  const auto [place, fresh] = fits_->try_emplace(space_->interval(begin, end), choices.size());
  if (fresh) ++known_names_;
  // By ZeRO stage, over all replicas or inside a node; what is recomputed does not matter to them.
  std::array<std::array<cost::StateCost, 2>, 4> states;
  for (const StageChoice& choice : choices) {
    if (choice.recompute != choices.front().recompute) break;
    if (choice.in_node && !sync_->has_inner) continue;
    states[at(choice.zero)][choice.in_node ? 1 : 0] =
        cost::state_cost(rule_, strategy_, sums, sync_->of(choice), choice.zero);
  }
  std::array<double, 3> deferred{}, recompute{};  // by what is recomputed
  for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
    deferred[at(mode)] = cost::deferred_s(space_->job(), strategy_, sums, mode);
    // The layers' own times say what runs alone in stages that pair.
    const double more = cost::alone_share(space_->job(), strategy_, problem_.micro_batches, mode) - alone_share_;
    recompute[at(mode)] = sums.recompute_s[at(mode)];
    if (more > 0) recompute[at(mode)] += more * (sums.alone_forward_s + sums.alone_backward_s);
  }
  for (std::size_t option = 0; option < choices.size(); ++option) {
    const StageChoice& choice = choices[option];
    if (choice.in_node && !sync_->has_inner) continue;
    const cost::StateCost& state = states[at(choice.zero)][choice.in_node ? 1 : 0];
    const std::size_t mode = at(choice.recompute);
    prices.push_back({recompute[mode] + cost::micro_exposed_s(rule_, sums, state, choice.zero, choice.recompute),
                      state.sync_exposed_s + state.optimizer_s + deferred[mode] + cost::constants::kStep_s,
                      static_cast<int>(option), &place->second[option]});
  }
}

bool KeyPrices::fits(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) const {
  const StageChoice& choice = space_->choices()[at(option)];
  const cost::ShardLines& lines = sync_->of(choice);
  const cost::StageSetting setting{
      {lines.dense_degree, lines.expert_degree}, problem_.stages[at(stage)].pressure, context_bytes_};
  const double floor = floor_.bytes(pair(stage), begin, end, choice.zero, setting.degrees, choice.recompute,
                                    setting.in_flight, strategy_.pp > 1);
  if (floor > real(device(stage).memory_bytes - context_bytes_)) return false;
  const StagePlan plan = stage_of(begin, end, choice, sync_->degrees[1]);
  return pair(stage).memory().estimate(strategy_, plan, setting).needed <= device(stage).memory_bytes;
}

}  // namespace nest::search
