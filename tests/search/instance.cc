#include "instance.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sstream>

namespace nest::search::test {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<std::int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

constexpr std::int64_t kMi = 1 << 20;

LayerCost random_layer(Dice& dice, std::int64_t unit, std::int64_t devices, bool experts) {
  LayerCost layer;
  const bool heavy = dice.chance(15);
  layer.time_ps = dice.between(dice.chance(10) ? 0 : 3, 20) * unit * (heavy ? 5 : 1) / devices + dice.between(0, 2);
  layer.selective_ps = dice.between(0, 3) * unit;
  layer.full_ps = layer.selective_ps + dice.between(0, 6) * unit;
  layer.hide_ps = dice.chance(30) ? 0 : layer.time_ps / dice.between(1, 4);
  layer.kept_bytes[2] = dice.between(0, 2) * 4;
  layer.kept_bytes[1] = layer.kept_bytes[2] + dice.between(0, 12);
  layer.kept_bytes[0] = layer.kept_bytes[1] + dice.between(0, 20);
  for (std::int64_t& bytes : layer.working_bytes) bytes = dice.between(0, 12);
  layer.gather_bytes = dice.between(0, 6);
  layer.dense_parameters = dice.chance(10) ? 0 : dice.between(1, 24) / devices;
  layer.expert_parameters = experts && dice.chance(50) ? dice.between(1, 24) : 0;
  return layer;
}

void random_options(Dice& dice, Problem& problem) {
  for (bool& allowed : problem.options.recompute) allowed = dice.chance(60);
  if (std::none_of(problem.options.recompute.begin(), problem.options.recompute.end(), [](bool b) { return b; })) {
    problem.options.recompute[static_cast<std::size_t>(dice.between(0, 2))] = true;
  }
  for (bool& allowed : problem.options.zero) allowed = dice.chance(50);
  if (dice.chance(40) ||
      std::none_of(problem.options.zero.begin(), problem.options.zero.end(), [](bool b) { return b; })) {
    problem.options.zero[0] = true;
  }
  problem.options.group = {dice.chance(90), dice.chance(50)};
}

void random_limits(Dice& dice, Problem& problem) {
  const auto narrow = [&](Limit& limit, std::int64_t most) {
    if (dice.chance(85)) return;
    limit.low = dice.between(1, 2);
    limit.high = dice.between(limit.low, most);
    if (dice.chance(30)) limit.only = {limit.low, limit.high};
  };
  narrow(problem.stages, 5);
  narrow(problem.replicas, 8);
  narrow(problem.inner_replicas, 4);
  problem.padding = dice.chance(85);
  problem.even_batch = dice.chance(10);
  problem.interleave_multiple = dice.chance(20);
  problem.objective = dice.chance(75) ? Objective::time : Objective::device_time;
}

}  // namespace

Instance random_instance(std::uint64_t seed) {
  Dice dice(seed);
  Instance instance;
  Problem& problem = instance.problem;
  const std::int64_t n = dice.between(1, 6), types = dice.between(1, n);
  for (std::int64_t i = 0; i < n; ++i) {
    const bool same = i > 0 && dice.chance(50);
    problem.chain.layer_type.push_back(same ? problem.chain.layer_type.back()
                                            : static_cast<int>(dice.between(0, types - 1)));
  }
  const std::int64_t kinds = dice.between(1, 3);
  for (std::int64_t i = 0; i <= n; ++i) problem.chain.cut_kind.push_back(static_cast<int>(dice.between(0, kinds - 1)));
  problem.devices = dice.between(1, 24);
  problem.global_batch = dice.pick<std::int64_t>({1, 2, 5, 7, 8, 12, 13, 16, 24, 31});
  const std::int64_t splits = dice.between(1, 3);
  const bool experts = dice.chance(30);
  for (std::int64_t k = 0; k < splits; ++k) {
    SplitChoice split;
    split.tensor = dice.pick<std::int64_t>({1, 1, 2, 3, 4});
    split.context = dice.pick<std::int64_t>({1, 1, 1, 2});
    split.expert = experts ? dice.pick<std::int64_t>({1, 2}) : 1;
    problem.splits.push_back(split);
  }
  problem.micro_batches = {dice.between(1, 2)};
  if (dice.chance(40)) problem.micro_batches.push_back(dice.between(3, 4));
  problem.schedules.clear();
  if (dice.chance(90)) problem.schedules.push_back({});
  if (dice.chance(50)) problem.schedules.push_back({ScheduleKind::interleaved, 2});
  if (dice.chance(15)) problem.schedules.push_back({ScheduleKind::interleaved, 3});
  if (problem.schedules.empty() || dice.chance(10)) problem.schedules.push_back({ScheduleKind::gpipe, 1});
  // Small numbers make ties, large ones make rounding matter.
  const std::int64_t unit = dice.pick<std::int64_t>({1, 10, 1000, 1'000'000'007});
  const std::int64_t levels = dice.between(1, 3);
  std::int64_t size = 1;
  for (std::int64_t l = 0; l < levels; ++l) {
    const double rate = 1e12 * static_cast<double>(kMi) / static_cast<double>(unit * dice.between(1, 12)) / 8;
    instance.levels.push_back(
        {size, rate * static_cast<double>(dice.between(1, 3 * size)), dice.between(0, 2) * unit / 4});
    size *= dice.between(2, 4);
    size += dice.chance(20) ? 1 : 0;
  }
  problem.state.weight_bytes = dice.between(0, 2);
  problem.state.gradient_bytes = dice.between(0, 4);
  problem.state.optimizer_bytes = dice.between(0, 6);
  problem.state.gradient_traffic_bytes = dice.between(0, 4) * kMi / 16;
  problem.state.weight_traffic_bytes = dice.between(0, 2) * kMi / 16;
  problem.state.step_ps_per_mi_sharded = dice.between(0, 2) * unit * kMi / 8;
  problem.state.step_ps_per_mi_local = dice.chance(50) ? 0 : unit * kMi / 16;
  problem.state.exposed_1024ths = dice.chance(70) ? 0 : dice.between(1, 512);
  problem.memory_bytes = dice.chance(25) ? 100'000 : dice.between(30, 400);
  for (const SplitChoice& split : problem.splits) {
    for (std::int64_t b : problem.micro_batches) {
      LayerTable table;
      for (std::int64_t t = 0; t < types; ++t)
        table.layers.push_back(random_layer(dice, unit * b, split.devices(), experts));
      for (std::int64_t k = 0; k < kinds; ++k)
        table.cut_bytes.push_back(dice.chance(15) ? 0 : dice.between(0, 3 * kMi) * b);
      table.wrap_bytes = dice.between(0, kMi);
      instance.tables.push_back(table);
    }
  }
  random_options(dice, problem);
  random_limits(dice, problem);
  return instance;
}

const LayerTable& Instance::table(int split, int micro_batch) const {
  return tables[static_cast<std::size_t>(split) * problem.micro_batches.size() + static_cast<std::size_t>(micro_batch)];
}

class World::TablePricer : public Pricer {
 public:
  TablePricer(const Instance& instance, bool lazy) : instance_(instance), lazy_(lazy) {}
  LayerTable price(int split, int micro_batch) const override { return instance_.table(split, micro_batch); }
  bool has_bounds() const override { return lazy_; }
  WorkBound bound(int split, int micro_batch) const override {
    WorkBound bound;
    for (int type : instance_.problem.chain.layer_type) {
      const std::int64_t time = instance_.table(split, micro_batch).layers[static_cast<std::size_t>(type)].time_ps;
      bound.total_time_ps += time / 2;
      bound.largest_time_ps = std::max(bound.largest_time_ps, time / 2);
    }
    return bound;
  }

 private:
  const Instance& instance_;
  bool lazy_;
};

World::World(Instance instance, bool lazy)
    : instance_(std::move(instance)),
      network_(instance_.levels),
      pricer_(std::make_unique<TablePricer>(instance_, lazy)) {
  instance_.problem.network = &network_;
  instance_.problem.pricer = pricer_.get();
}

int scaled(int count) {
  const char* scale = std::getenv("NEST_TEST_SCALE");
  return scale == nullptr ? count : std::max(1, static_cast<int>(count * std::atof(scale)));
}

// --- text: every number of the instance in a fixed order, visited by one function for writing and reading
// -------------
namespace {

template <typename Visitor, typename T>
void visit_list(Visitor& visit, std::vector<T>& list, const auto& each) {
  auto size = static_cast<std::int64_t>(list.size());
  visit(size);
  list.resize(static_cast<std::size_t>(size));
  for (T& value : list) each(value);
}

template <typename Visitor>
void visit_all(Visitor& visit, Instance& instance) {
  Problem& p = instance.problem;
  const auto number = [&](auto& value) { visit(value); };
  visit_list(visit, p.chain.layer_type, number);
  visit_list(visit, p.chain.cut_kind, number);
  visit_list(visit, p.splits, [&](SplitChoice& s) { visit(s.tensor), visit(s.context), visit(s.expert); });
  visit_list(visit, p.micro_batches, number);
  visit_list(visit, p.schedules, [&](Schedule& s) {
    auto kind = static_cast<int>(s.kind);
    visit(kind), visit(s.chunks);
    s.kind = static_cast<ScheduleKind>(kind);
  });
  visit(p.global_batch), visit(p.devices), visit(p.memory_bytes);
  StateRecipe& s = p.state;
  visit(s.weight_bytes), visit(s.gradient_bytes), visit(s.optimizer_bytes), visit(s.gradient_traffic_bytes);
  visit(s.weight_traffic_bytes), visit(s.step_ps_per_mi_sharded), visit(s.step_ps_per_mi_local),
      visit(s.exposed_1024ths);
  for (bool& value : p.options.recompute) visit(value);
  for (bool& value : p.options.zero) visit(value);
  for (bool& value : p.options.group) visit(value);
  for (Limit* limit : {&p.stages, &p.replicas, &p.inner_replicas}) {
    visit(limit->low), visit(limit->high);
    visit_list(visit, limit->only, number);
  }
  visit(p.padding), visit(p.even_batch), visit(p.interleave_multiple);
  auto objective = static_cast<int>(p.objective);
  visit(objective);
  p.objective = static_cast<Objective>(objective);
  visit_list(visit, instance.levels,
             [&](NetworkLevel& l) { visit(l.unit), visit(l.bytes_per_s), visit(l.latency_ps); });
  visit_list(visit, instance.tables, [&](LayerTable& table) {
    visit_list(visit, table.layers, [&](LayerCost& layer) {
      visit(layer.time_ps), visit(layer.selective_ps), visit(layer.full_ps), visit(layer.hide_ps);
      for (std::int64_t& bytes : layer.kept_bytes) visit(bytes);
      for (std::int64_t& bytes : layer.working_bytes) visit(bytes);
      visit(layer.gather_bytes), visit(layer.dense_parameters), visit(layer.expert_parameters);
    });
    visit_list(visit, table.cut_bytes, number);
    visit(table.wrap_bytes);
  });
}

}  // namespace

std::string dump(const Instance& instance) {
  std::ostringstream text;
  text.precision(17);
  Instance copy = instance;
  const auto write = [&](auto& value) { text << value << ' '; };
  visit_all(write, copy);
  return text.str();
}

Instance load(const std::string& text) {
  std::istringstream stream(text);
  Instance instance;
  const auto read = [&](auto& value) { stream >> value; };
  visit_all(read, instance);
  return instance;
}

}  // namespace nest::search::test
