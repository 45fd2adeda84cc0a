#include "search/key_prices.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/index.h"
#include "cost/constants.h"
#include "schedule/rules.h"

namespace nest::search {
namespace {

constexpr double kBelow = 1 - PartitionSolver::kEqual;  // a bound stays one when sums are rounded

}  // namespace

schedule::StepForm KeyPrices::form(const Key& key, const PairPrices& pair) const {
  const ScheduleChoice& choice = space_->schedule(key);
  const schedule::Shape shape{key.stages, choice.chunks, space_->micro_batch_count(key)};
  schedule::StepForm form;
  form.law = space_->job().law;
  form.micro_batches = real(shape.micro_batches);
  form.chunks = real(shape.chunks);
  form.stages = real(shape.stages);
  form.split = key.stages > 1 && choice.is_split;
  if (form.law == schedule::Law::least && key.stages > 1 && choice.chunks > 1 && !choice.is_split) {
    // Without overlap what the first stage waits for its wrap-arounds may be more than all else: known of a placement alone.
    form.in_turns = !space_->limits().any_rounds && overlaps(key);
    form.end_s = form.in_turns ? -least_waiting(key, pair).wraps_s / form.chunks : 0;
  }
  if (form.split && form.law == schedule::Law::formula) {
    const schedule::PassSeconds mean = pair.mean_stage(key.stages);
    form.filled_s = filled_.of(choice.kind, shape, schedule::shares_of(mean)) * mean.total_s();
  }
  return form;
}

bool KeyPrices::overlaps(const Key& key) const {
  return cost::sends_of(space_->job().stack, space_->strategy(key)).overlapped;
}

void KeyPrices::follow_messages(const cost::MessageRule& rule, const cost::MessageLines& messages,
                                const PairPrices& pair, schedule::StepForm& form) const {
  if (form.law != schedule::Law::least) return;
  form.in_turns = !form.split && form.chunks > 1 && std::fmod(form.micro_batches, form.stages) == 0;
  form.back_share = std::min(pair.least_back_share(), back_share_of_state_);
  rule.add_ways(messages, pair.least_cut_bytes(), pair.most_cut_bytes(), pair.table().wrap_bytes, form);
}

LeastWaiting KeyPrices::least_waiting(const Key& key, const PairPrices& pair) const {
  if (key.stages < 2) return {};
  const std::int64_t chunks = space_->schedule(key).chunks;
  LeastWaiting least =
      message_floor_.waiting(key.stages, chunks, space_->schedule(key).wraps, space_->stage_devices(key),
                             pair.least_cut_bytes(), pair.table().wrap_bytes);
  const double share = messages_count_ ? message_rule(space_->strategy(key), pair).least_share() : 0;
  least.each_s *= share;
  least.sum_s *= share;
  least.wraps_s *= share;
  return least;
}

double KeyPrices::message_bound_s(const Key& key, const PairPrices& pair) {
  const Strategy strategy = space_->strategy(key);
  const auto v = real(strategy.virtual_stages);
  double sum = pair.total_s(key.stages > 1) + alone_share(key, strategy) * pair.alone_s();
  double slowest = std::max(pair.slowest_s(key.stages), sum / real(key.stages));
  schedule::StepForm form = this->form(key, pair);
  if (key.stages > 1 && messages_count_) {
    const cost::MessageLines& messages = placements_.messages(key);
    const cost::MessageRule rule = message_rule(strategy, pair);
    double least = std::numeric_limits<double>::infinity();
    for (const cost::CostLine& line : messages.hops) {
      const double message_s = line.at(pair.least_cut_bytes());
      const double hop = v * rule.exposed_s(message_s), sent = v * rule.sender_s(message_s);
      sum += 2 * hop + sent;
      least = std::min(least, hop + sent);
    }
    const auto wraps = real(space_->schedule(key).wraps);
    const double wrap_s = messages.wrap.at(pair.table().wrap_bytes), sent = wraps * rule.sender_s(wrap_s);
    sum += 2 * wraps * rule.exposed_s(wrap_s) + sent;
    if (rule.sender_s(1) > 0) least = std::min(least, sent);
    slowest = std::max(slowest + least, sum / real(key.stages));
    form.filled_s -= rule.fill_s(messages, pair.least_cut_bytes(), pair.table().wrap_bytes);
    follow_messages(rule, messages, pair, form);
  }
  double low_s = form.low(slowest, sum);
  if (form.law == schedule::Law::least) low_s = std::max(low_s, busiest_link_s(key, pair));
  return (low_s + cost::constants::kStep_s) * kBelow;
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
  const cost::MessageRule messages_rule = message_rule(strategy_, pair);
  const auto waited_s = [&](const cost::CostLine& line, double bytes) {
    return messages_count_ ? messages_rule.exposed_s(line.at(bytes)) : 0;
  };
  const auto sent_s = [&](const cost::CostLine& line, double bytes) {
    return messages_count_ ? messages_rule.sender_s(line.at(bytes)) : 0;
  };
  problem_.form = form(key, pair);
  problem_.stages.assign(at(p), {});
  uplink_ = 0;
  alone_share_ = alone_share(key, strategy_);
  double& sum_low_s = problem_.sum_low_s = pair.total_s(p > 1) + alone_share_ * pair.alone_s();
  const auto add_extra = [&](std::int64_t s, double seconds) {
    problem_.stages[at(s)].extra_s += seconds;
    problem_.stages[at(s)].waiting_low_s += seconds;
    sum_low_s += seconds;
  };
  for (std::int64_t s = 0; s + 1 < p; ++s) {
    const double least = v * waited_s(messages_->hops[at(s)], pair.least_cut_bytes());
    problem_.stages[at(s)].waiting_low_s += least;
    problem_.stages[at(s + 1)].waiting_low_s += least;
    sum_low_s += 2 * least;
    add_extra(s, v * sent_s(messages_->hops[at(s)], pair.least_cut_bytes()));
  }
  if (p > 1) {
    const auto wraps = real(space_->schedule(key).wraps);
    const double wrap_s = wraps * waited_s(messages_->wrap, pair.table().wrap_bytes);
    add_extra(0, wrap_s);
    add_extra(p - 1, wrap_s + wraps * sent_s(messages_->wrap, pair.table().wrap_bytes));
    if (messages_count_) {
      problem_.form.filled_s -= messages_rule.fill_s(*messages_, pair.least_cut_bytes(), pair.table().wrap_bytes);
      follow_messages(messages_rule, *messages_, pair, problem_.form);
    }
  }
  problem_.slowest_low_s = pair.slowest_s(p);
  problem_.step_low_s = cost::constants::kStep_s;
  double waiting_s = problem_.stages.front().waiting_low_s;
  for (const PartitionStage& stage : problem_.stages) waiting_s = std::min(waiting_s, stage.waiting_low_s);
  const double slowest = problem_.slowest_low_s + waiting_s, even = sum_low_s / stages;
  schedule::StepForm& form = problem_.form;
  const TrafficFloor traffic(space_->shardings(), rule(), pair, *sync_, strategy_, groups::zero_degrees(strategy_, 0),
                             floor_);
  if (form.law == schedule::Law::least) {
    choose_uplink();
    const double deferred_s = pair.total_s(false) - pair.total_s(true);
    form.short_s = cost::head_short_s(space_->job(), strategy_, deferred_s);
    form.first_short_s = cost::head_first_short_s(space_->job(), strategy_, deferred_s);
    problem_.once_low_s = cost::constants::kStep_s;
    // T >= max_s (m t_s + r_s) + max_s z_s, y_s = r_s + z_s: no less than the mean over stages.
    return std::max({form.low(std::max(slowest, even), sum_low_s) + problem_.once_low_s,
                     form.micro_batches * even + traffic.seconds(form.micro_batches),
                     busiest_link_s(key, pair) + problem_.once_low_s}) *
           kBelow;
  }
  problem_.once_low_s = traffic.seconds(stages / v);
  return std::max(form.low(std::max(slowest, even), sum_low_s) + problem_.once_low_s,
                  form.low(even, sum_low_s) + traffic.seconds(form.micro_batches - 1 / v + stages / v)) *
         kBelow;
}

double KeyPrices::busiest_link_s(const Key& key, const PairPrices& pair) {
  const Strategy strategy = space_->strategy(key);
  const SyncPrices& sync = placements_.sync(key, pair.table());
  const auto m = real(space_->micro_batch_count(key));
  cost::LevelSeconds least_s;  // of state, by level: stages may choose differently
  least_s.fill(std::numeric_limits<double>::infinity());
  for (const StageChoice& sharding : space_->shardings()) {
    if (sharding.in_node && !sync.has_inner) continue;
    const cost::LevelSeconds state_s =
        cost::state_seconds(rules_[strategy.pp > 1 ? 1 : 0], sync.loads[sharding.in_node ? 1 : 0], sharding.row(), m,
                            pair.dense_parameters(), pair.expert_parameters());
    for (std::size_t l = 0; l < state_s.size(); ++l) least_s[l] = std::min(least_s[l], state_s[l]);
  }
  cost::LevelSeconds messages_s{};
  if (messages_count_) {
    messages_s = cost::message_load(space_->job().cluster, strategy, pair.least_cut_bytes(), pair.table().wrap_bytes);
  }
  double busiest_s = 0;
  for (std::size_t l = 0; l < least_s.size(); ++l) busiest_s = std::max(busiest_s, least_s[l] + m * messages_s[l]);
  return busiest_s;
}

// Where more of the first stages' gradients leave through one uplink than the way back through these stages takes. By GPipe a
// stage ends before most backward passes of those before it.
void KeyPrices::choose_uplink() {
  schedule::StepForm& form = problem_.form;
  uplink_ = 0;
  if (strategy_.schedule != Schedule::one_f_one_b || strategy_.pp < 2) return;
  const double p = form.stages, dense = pair_->dense_parameters() / p, expert = pair_->expert_parameters() / p;
  double most_s = 0;
  for (std::size_t l = 1; l < space_->job().cluster.fabric.levels; ++l) {
    double reduce_s = 0, together = 1;
    for (const StageChoice& sharding : space_->shardings()) {
      if (sharding.in_node && !sync_->has_inner) continue;
      const cost::StateLoad& load = sync_->loads[sharding.in_node ? 1 : 0];
      together = std::max(1.0, load.together[l]);
      reduce_s = std::max(reduce_s, cost::step_load(rule(), load, l, sharding.row(), dense, expert).reduce_s);
    }
    const double gain_s = (together - 1) * (reduce_s - problem_.sum_low_s / p);
    if (gain_s <= most_s) continue;
    most_s = gain_s;
    uplink_ = l;
    form.together = together;
  }
}

PartitionProblem& KeyPrices::problem() {
  const cost::Job& job = space_->job();
  const std::int64_t p = strategy_.pp, n = space_->layers(), chunks = strategy_.virtual_stages;
  context_bytes_ = cost::context_bytes(job, strategy_);
  constexpr std::size_t kMostKnown = 1'260'000;
  if (known_fits_count_ > kMostKnown) {
    known_fits_.clear();
    known_blocks_.clear();
    known_reach_.clear();
    known_treated_.clear();
    known_fits_count_ = 0;
  }
  const std::array<bool, 4>& zero = space_->limits().zero;
  const bool buffers = job.stack.memory == cost::MemoryModel::megatron && (zero[2] || zero[3]);
  const MemoryContext context{
      key_.split,          key_.micro_batch,  p,
      key_.replicas,       sync_->degrees[1], schedule::rule_of(strategy_.schedule).is_v() ? 1 : 0,
      buffers ? chunks : 1};
  fits_ = &known_fits_[context];
  blocks_ = &known_blocks_[{context, chunks}];
  problem_.layers = n;
  problem_.names = space_->intervals();
  problem_.options = space_->options();
  only_.reset();
  const auto [offers, fresh] = known_offers_.try_emplace({key_.split, key_.micro_batch});
  if (fresh) offers->second = list_offers(key_);
  offers_ = &offers->second;
  problem_.uniform = space_->limits().uniform;
  if (problem_.uniform) {
    const auto verdicts = [&](Verdicts& known, std::size_t size) {
      if (known.empty()) {
        known.assign(size, Verdict::unknown);
        known_fits_count_ += known.size() / 16;  // as large as a FitRange
      }
      return &known;
    };
    const std::size_t options = at(problem_.options), ways = space_->shardings().size();
    reach_ = verdicts(known_reach_[{context, {key_.schedule, chunks, context_bytes_}}], options + ways);
    treated_ = verdicts(known_treated_[key_], options);
  }
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
    least_pressure_ = s > 0 ? std::min(least_pressure_, stage.pressure) : stage.pressure;
  }
  const cost::MessageRule messages_rule = message_rule(strategy_, *pair_);
  problem_.boundary_s.resize(at(p - 1));
  for (std::int64_t s = 0; s + 1 < p; ++s) {
    std::vector<double>& seconds = problem_.boundary_s[at(s)];
    if (s > 0 && messages_->hops[at(s)] == messages_->hops[at(s - 1)]) {  // most are alike
      seconds = problem_.boundary_s[at(s - 1)];
      continue;
    }
    seconds.assign(at(n + 1), 0);
    for (std::int64_t i = 1; i < n && messages_count_; ++i) {
      const double message_s = messages_->hops[at(s)].at(pair(s).table().cut_bytes[at(i - 1)]);
      seconds[at(i)] = problem_.form.chunks * messages_rule.exposed_s(message_s);
    }
  }
  return problem_;
}

KeyPrices::PlainFits& KeyPrices::fits_of(std::int64_t begin, std::int64_t end) {
  const auto [place, fresh] = fits_->try_emplace(space_->interval(begin, end));
  if (fresh) {
    place->second.resize(offers_->recomputations.size() * space_->shardings().size());
    known_fits_count_ += place->second.size();
  }
  return place->second;
}

KeyPrices::BlockFits& KeyPrices::blocks_of(std::int64_t begin, std::int64_t end) {
  BlockFits& known = (*blocks_)[space_->interval(begin, end)];
  known.numbers.resize(space_->shardings().size());
  known.groups.resize(space_->shardings().size());
  return known;
}

std::array<bool, 2> KeyPrices::deferrals(const cost::StageSums& sums) const {
  if (sums.deferred_s <= 0) return {false, true};  // nothing to put off: one price
  const std::array<bool, 2>& admitted = space_->limits().defer_head;
  // By the least law putting off is never slower.
  return {admitted[0] && (space_->job().law == schedule::Law::formula || !admitted[1]), admitted[1]};
}

void KeyPrices::price_options(std::int64_t stage, std::int64_t begin, std::int64_t end,
                              std::vector<OptionPrice>& prices) {
  const std::vector<StageChoice>& shardings = space_->shardings();
  const cost::StageSums sums = pair(stage).sums(begin, end, strategy_.pp > 1);
  PlainFits& known = fits_of(begin, end);
  const bool grows = offers_blocks() && !problem_.uniform;
  const auto plain = static_cast<int>(space_->choices().size());
  const bool only_blocks = only_ && *only_ >= plain;
  BlockFits* const looked_at = grows || only_blocks ? &blocks_of(begin, end) : nullptr;
  // Of uniform problems the one that is looked at.
  const auto is_offered = [&](std::size_t z) {
    if (only_ && at(*only_ - (only_blocks ? plain : 0)) % shardings.size() != z) return false;
    return !shardings[z].in_node || sync_->has_inner;
  };
  states_.resize(shardings.size());  // what is recomputed does not matter to them
  for (std::size_t z = 0; z < shardings.size(); ++z) {
    if (!is_offered(z)) continue;
    states_[z] = cost::state_cost(rule(), strategy_, sums, sync_->of(shardings[z]), shardings[z].row());
  }
  struct Again {  // what a recomputation costs, whatever the sharding
    double seconds, alone_s;
    cost::HeadCost head;
  };
  // Stages with the head may put its gradients off, or not.
  const std::array<bool, 2> may_defer = deferrals(sums);
  const auto again_of = [&](const Recomputation& recompute, bool defers) {
    const bool on_host = strategy_.pp == 1 && recompute == Recompute::none;
    const double again_s =
        pair(stage).again_s(begin, end, treatment(recompute)) + (on_host ? pair(stage).table().layers_way_s : 0);
    // The layers' own times say what runs alone in stages that pair.
    const double more =
        cost::alone_share(space_->job(), strategy_, problem_.form.micro_batches, recompute) - alone_share_;
    const double drain_s = recompute.kind == Recompute::block ? 0 : again_s;
    Strategy deferring = strategy_;
    deferring.defer_head = defers;
    return Again{again_s, more > 0 ? more * (sums.alone_forward_s + sums.alone_backward_s) : 0,
                 cost::head_cost(space_->job(), deferring, sums, drain_s)};
  };
  const auto price = [&](const Again& again, std::size_t z) {
    const cost::StateCost& state = states_[z];
    OptionPrice made;
    made.micro_s = again.seconds + again.alone_s + again.head.micro_s +
                   cost::micro_exposed_s(rule(), sums, state, shardings[z].row(), again.seconds);
    if (problem_.form.split) made.micro_s += state.reduce_s / problem_.form.micro_batches;
    made.first_after_s = made.after_s = state.reduce_s;
    made.step_s = state.sync_exposed_s + state.optimizer_s + again.head.step_s + cost::constants::kStep_s;
    if (uplink_ == 0) return made;
    // Weights come back through the uplink too, after the update of some stage.
    const cost::StepLoad load = cost::step_load(rule(), sync_->loads[shardings[z].in_node ? 1 : 0], uplink_,
                                                shardings[z].row(), sums.dense_parameters, sums.expert_parameters);
    made.first_after_s = state.exposed_share * (load.reduce_s + load.gather_s);
    made.after_s = (rule().aligned ? 1 : state.exposed_share) * load.reduce_s + state.exposed_share * load.gather_s;
    made.step_s = again.head.step_s + cost::constants::kStep_s;
    return made;
  };
  const std::int64_t blocks = pair(stage).blocks(begin, end), most = most_whole(blocks);
  const auto add_blocks = [&](std::int64_t n, std::size_t z) {
    const Recomputation recompute = Recomputation::of_layers(Recompute::block, static_cast<std::int32_t>(n));
    for (const bool defers : {true, false}) {
      if (!may_defer[defers ? 1 : 0]) continue;
      OptionPrice made = price(again_of(recompute, defers), z);
      made.option = space_->block_option(n, static_cast<int>(z));
      std::deque<FitRange>& numbers = looked_at->numbers[z];
      made.fit = &numbers[at(n - 1)];
      made.grows = !only_ && n == std::ssize(numbers) && n < most;
      prices.push_back(made);
    }
  };
  if (only_blocks) {
    const std::int64_t n = space_->choice(*only_).recompute.layers;
    const std::size_t z = at(*only_ - plain) % shardings.size();
    if (std::ssize(looked_at->numbers[z]) < n) looked_at->numbers[z].resize(at(n));
    return add_blocks(n, z);
  }
  const std::vector<int>& offered = offers_->recomputations;
  for (std::size_t k = 0; k < offered.size(); ++k) {
    if (only_ && *only_ / static_cast<int>(shardings.size()) != offered[k]) continue;
    const Recomputation& recompute = space_->recomputations()[at(offered[k])];
    // As slow as full recomputation: only where that does not fit.
    const bool later = grows && recompute.kind == Recompute::uniform && space_->limits().recompute[at(Recompute::full)];
    for (const bool defers : {true, false}) {
      if (!may_defer[defers ? 1 : 0]) continue;
      const Again again = again_of(recompute, defers);
      for (std::size_t z = 0; z < shardings.size(); ++z) {
        if (!is_offered(z) || (later && looked_at->groups[z] == 0)) continue;
        OptionPrice made = price(again, z);
        made.option = offered[k] * static_cast<int>(shardings.size()) + static_cast<int>(z);
        made.fit = &known[k * shardings.size() + z];
        made.grows = grows && blocks > 0 &&
                     ((recompute == Recompute::none && looked_at->numbers[z].empty()) ||
                      (recompute == Recompute::full && looked_at->groups[z] == 0));
        prices.push_back(made);
      }
    }
  }
  if (!grows) return;
  const bool may_do_nothing = space_->limits().recompute[at(Recompute::none)];
  for (std::size_t z = 0; z < shardings.size(); ++z) {
    if (!is_offered(z)) continue;
    if (!may_do_nothing && looked_at->numbers[z].empty()) {
      extend(stage, begin, end, space_->block_option(1, static_cast<int>(z)));
    }
    for (std::int64_t n = 1; n <= std::ssize(looked_at->numbers[z]); ++n) {
      if (space_->limits().admits(space_->choice(space_->block_option(n, 0)).recompute)) add_blocks(n, z);
    }
  }
}

std::int64_t KeyPrices::most_whole(std::int64_t blocks) const {
  const std::int64_t all = std::max<std::int64_t>(1, ceil_div(blocks, strategy_.virtual_stages));
  for (std::int64_t n = all; n <= space_->most_blocks(); ++n) {
    if (space_->limits().admits(Recomputation::of_layers(Recompute::block, static_cast<std::int32_t>(n)))) return n;
  }
  return all;
}

bool KeyPrices::extend(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) {
  StageChoice choice = space_->choice(option);
  const std::int64_t most = most_whole(pair(stage).blocks(begin, end));
  const auto same = [&](const StageChoice& way) { return way.row() == choice.row() && way.in_node == choice.in_node; };
  const auto& shardings = space_->shardings();
  const auto z = at(std::find_if(shardings.begin(), shardings.end(), same) - shardings.begin());
  BlockFits& looked_at = blocks_of(begin, end);
  if (choice.recompute == Recompute::full) {
    looked_at.groups[z] = 1;
    return true;
  }
  std::deque<FitRange>& known = looked_at.numbers[z];
  // As many at once as the floor asks for.
  do {
    known.emplace_back();
    ++known_fits_count_;
    choice.recompute = Recomputation::of_layers(Recompute::block, static_cast<std::int32_t>(known.size()));
  } while (std::ssize(known) < most &&
           (!space_->limits().admits(choice.recompute) || !within_floor(stage, begin, end, choice)));
  return true;
}

bool KeyPrices::restrict_to(int option, double limit_s) {
  const StageChoice choice = space_->choice(option);
  const auto shardings = static_cast<int>(space_->shardings().size());
  const std::int64_t chunks = strategy_.virtual_stages, p = strategy_.pp, layers = space_->layers();
  if (choice.in_node && !sync_->has_inner) return false;
  double again_s = 0;  // of all stages, at least
  if (choice.recompute.kind == Recompute::block) {
    const std::int64_t n = choice.recompute.layers, all = pair_->blocks(0, layers);
    if (!offers_blocks() || !space_->limits().admits(choice.recompute) || n > most_whole(all)) return false;
    double least_s = std::numeric_limits<double>::infinity();
    for (std::size_t kind = 0; kind < space_->job().model.kinds.size(); ++kind) {
      if (space_->job().model.kinds[kind].kind != model::LayerKind::block) continue;
      least_s = std::min(least_s, pair_->table().kinds[kind].recompute_s[cost::kEverything]);
    }
    // Every stage recomputes so many blocks, or all that it has; one of them has as many as the mean.
    again_s = real(std::min(n * chunks, ceil_div(all, p))) * least_s;
  } else {
    const auto index = option / shardings;
    const std::vector<int>& offered = offers_->recomputations;
    if (std::find(offered.begin(), offered.end(), index) == offered.end()) return false;
    again_s = pair_->again_s(0, layers, treatment(choice.recompute).rest);
  }
  const double sum_s = problem_.sum_low_s + again_s;
  const double slowest_s = std::max(problem_.slowest_low_s, sum_s / real(p));
  if (problem_.form.value(slowest_s, problem_.least_sum_s(sum_s, limit_s)) + problem_.once_low_s >
      limit_s * (1 + 2 * PartitionSolver::kEqual))
    return false;
  if (!reaches_end(option) || !is_treated(option)) return false;
  only_ = option;
  return true;
}

bool KeyPrices::is_treated(int option) {
  Verdict& known = (*treated_)[at(option)];
  if (known == Verdict::unknown) {
    known = space_->treats(strategy_, space_->choice(option), sync_->degrees[1]) ? Verdict::yes : Verdict::no;
  }
  return known == Verdict::yes;
}

MemoryFloor::Sharded KeyPrices::floor_of(const StageChoice& choice) const {
  const cost::ShardLines& lines = sync_->of(choice);
  return floor_.sharded(choice.row(), {lines.dense_degree, lines.expert_degree}, lines.updated(choice.row()));
}

bool KeyPrices::within_floor(std::int64_t stage, std::int64_t begin, std::int64_t end,
                             const StageChoice& choice) const {
  return within_floor(stage, begin, end, floor_of(choice), treatment(choice.recompute));
}

bool KeyPrices::within_floor(std::int64_t stage, std::int64_t begin, std::int64_t end,
                             const MemoryFloor::Sharded& state, const cost::StageTreatment& treatment) const {
  const double pressure = problem_.stages[at(stage)].pressure;
  return floor_.bytes(pair(stage), begin, end, state, treatment, pressure, strategy_.pp > 1) <=
         real(device(stage).memory_bytes - context_bytes_);
}

bool KeyPrices::fits(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) const {
  const StageChoice choice = space_->choice(option);
  if (!within_floor(stage, begin, end, choice)) return false;
  const cost::ShardLines& lines = sync_->of(choice);
  const cost::StageSetting setting{
      {lines.dense_degree, lines.expert_degree}, lines.replicas, problem_.stages[at(stage)].pressure, context_bytes_};
  const StagePlan plan = stage_of(begin, end, choice, sync_->degrees[1]);
  return pair(stage).memory().estimate(strategy_, plan, setting).needed <= device(stage).memory_bytes;
}

}  // namespace nest::search
