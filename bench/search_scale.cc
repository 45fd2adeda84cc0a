// How long the search takes on models and clusters of real size.
//
// Usage: search_scale [--top K] [--threads T] [--limit SECONDS] [--only TEXT] [--network A|B]
// Prices are synthetic (H100-like rates, transformer shapes) so that the search is measured alone.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "search/search.h"

namespace {

using namespace nest::search;

struct Model {
  std::string name;
  int blocks = 0;  // between embedding and head
  double hidden = 0, feed_forward = 0, key_value = 0, vocabulary = 0, sequence = 4096;
  int experts = 0, active = 0, dense_blocks = 0;  // mixture of experts after the dense blocks
  double expert_width = 0;
  bool all_different = false;
};

const std::vector<Model> kModels{
    {"Llama-70B", 80, 8192, 28672, 1024, 32000},
    {"GPT-175B", 96, 12288, 49152, 12288, 50257, 2048},
    {"Llama-405B", 126, 16384, 53248, 1024, 128256},
    {"DeepSeek-MoE", 61, 7168, 18432, 1024, 129280, 4096, 256, 9, 3, 2048},
    {"200-different", 198, 6144, 24576, 6144, 50257, 2048, 0, 0, 0, 0, true},
};

// Rates of one device.
constexpr double kFlops = 989e12 * 0.6, kMemoryRate = 3.35e12 * 0.85, kLinkRate = 450e9 * 0.78;

std::int64_t ps(double seconds) { return std::llround(seconds * 1e12); }

class Synthetic : public Pricer {
 public:
  Synthetic(const Model& model, const std::vector<SplitChoice>& splits, const std::vector<std::int64_t>& sizes)
      : model_(model), splits_(splits), sizes_(sizes) {}

  int types() const { return model_.all_different ? model_.blocks + 2 : 4; }
  int type(int layer) const {
    if (model_.all_different) return layer;
    if (layer == 0) return 0;
    if (layer == model_.blocks + 1) return 1;
    return model_.experts > 0 && layer > model_.dense_blocks ? 3 : 2;
  }
  int kinds() const { return model_.all_different ? model_.blocks + 3 : 1; }

  LayerTable price(int split, int size) const override {
    LayerTable table;
    for (int t = 0; t < types(); ++t) table.layers.push_back(layer(t, split, size));
    const SplitChoice& choice = splits_[static_cast<std::size_t>(split)];
    const double tokens = static_cast<double>(sizes_[static_cast<std::size_t>(size)]) * model_.sequence;
    const double bytes = 4 * tokens * model_.hidden / static_cast<double>(choice.tensor * choice.context);
    for (int k = 0; k < kinds(); ++k) {
      const double wave = model_.all_different ? 1 + 0.5 * std::sin(1.7 * k) : 1;
      table.cut_bytes.push_back(static_cast<std::int64_t>(bytes * wave));
    }
    table.wrap_bytes = static_cast<std::int64_t>(bytes);
    return table;
  }

 private:
  LayerCost layer(int type, int split, int size) const {
    const SplitChoice& choice = splits_[static_cast<std::size_t>(split)];
    const auto tp = static_cast<double>(choice.tensor), cp = static_cast<double>(choice.context);
    const auto ep = static_cast<double>(choice.expert);
    const double tokens = static_cast<double>(sizes_[static_cast<std::size_t>(size)]) * model_.sequence / cp;
    const double h = model_.hidden;
    double dense = h * (2 * h + 2 * model_.key_value) + 3 * h * model_.feed_forward, expert = 0, active = dense;
    double scale = 1;
    const bool moe = model_.experts > 0 && type == 3;
    if (moe) {
      dense = h * (2 * h + 2 * model_.key_value);
      expert = 3.0 * h * model_.expert_width * model_.experts;
      active = dense + 3.0 * h * model_.expert_width * model_.active;
    }
    if (model_.all_different) scale = 1 + 0.4 * std::sin(2.3 * type) + 0.1 * std::cos(0.7 * type);
    const bool embedding = type == 0, head = model_.all_different ? type == model_.blocks + 1 : type == 1;
    if (embedding || head) dense = active = h * model_.vocabulary, scale = 1;
    dense *= scale;
    active *= scale;
    const double attention = embedding || head ? 0 : 4 * tokens * model_.sequence / 2 * h * scale;
    const double flops = embedding ? 0 : 3 * (2 * tokens * active + attention) / tp;
    const double rows = tokens * h * (embedding || head ? 4 : 60) / tp;
    const double small = std::min(1.0, tokens / tp / 512);  // short matrices run slower
    double time = flops / kFlops / (0.6 + 0.4 * small) + rows / kMemoryRate + 60e-6;
    if (tp > 1 && !embedding) time += 4 * (2 * tokens * h * (tp - 1) / tp * 2 / kLinkRate + (tp - 1) * 3e-6);
    if (cp > 1 && !embedding && !head)
      time += 0.1 * (cp - 1) * 4 * tokens * model_.key_value / tp / kLinkRate + cp * 6e-6;
    if (moe) time += 4 * (2 * tokens * h * model_.active * (ep - 1) / ep / (0.5 * kLinkRate) + ep * 2e-6);
    LayerCost cost;
    cost.time_ps = ps(time);
    cost.selective_ps = ps(attention / 3 / tp / kFlops + 0.1 * rows / kMemoryRate);
    cost.full_ps = ps(time / 3);
    cost.hide_ps = ps(0.5 * time);
    const double kept = embedding ? 2 * tokens * h
                        : head    ? tokens * (2 * h + 6 * model_.vocabulary / tp)
                                  : tokens * (34 * h * (moe ? 1.6 : 1)) / tp * scale;
    cost.kept_bytes = {static_cast<std::int64_t>(kept), static_cast<std::int64_t>(kept * 0.7),
                       static_cast<std::int64_t>(2 * tokens * h / tp)};
    if (head) cost.kept_bytes[2] = cost.kept_bytes[1] = cost.kept_bytes[0];
    cost.working_bytes = {static_cast<std::int64_t>(0.2 * kept), static_cast<std::int64_t>(0.4 * kept),
                          static_cast<std::int64_t>(1.1 * kept)};
    cost.dense_parameters = static_cast<std::int64_t>(dense / tp);
    cost.expert_parameters = static_cast<std::int64_t>(expert / tp / ep);
    cost.gather_bytes = 4 * (cost.dense_parameters + cost.expert_parameters);
    return cost;
  }

  const Model& model_;
  const std::vector<SplitChoice>& splits_;
  const std::vector<std::int64_t>& sizes_;
};

std::vector<NetworkLevel> network(char name) {
  if (name == 'A') return {{1, 450e9, 3'000'000}, {8, 400e9, 8'000'000}, {256, 400e9 * 32 / 2, 12'000'000}};
  return {{1, 450e9, 3'000'000}, {8, 12.5e9, 8'000'000}, {32, 25e9, 12'000'000}};
}

std::vector<SplitChoice> splits(const Model& model) {
  std::vector<SplitChoice> result;
  for (std::int64_t tp : {1, 2, 4, 8, 16}) {
    for (std::int64_t cp : {1, 2, 4, 8}) {
      for (std::int64_t ep : {1, 2, 4, 8, 16, 32, 64}) {
        if (model.experts == 0 && ep > 1) continue;
        result.push_back({tp, cp, ep, 0});
      }
    }
  }
  return result;
}

struct Arguments {
  int top = 1, threads = 1;
  double limit = 60;
  std::string only, networks = "AB";
  std::int64_t devices = 0;
};

// Of this process: what a shared machine leaves comparable.
double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) * 1e-6;
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void run(const Model& model, char net, std::int64_t devices, std::int64_t batch, const Arguments& arguments) {
  const LevelNetwork fabric(network(net));
  Problem problem;
  problem.splits = splits(model);
  problem.micro_batches = {1, 2, 4, 8, 16};
  for (std::int64_t v : {2, 3, 4, 6, 8}) problem.schedules.push_back({ScheduleKind::interleaved, v});
  const Synthetic pricer(model, problem.splits, problem.micro_batches);
  for (int i = 0; i < model.blocks + 2; ++i) problem.chain.layer_type.push_back(pricer.type(i));
  for (int i = 0; i < model.blocks + 3; ++i) problem.chain.cut_kind.push_back(model.all_different ? i : 0);
  problem.global_batch = batch;
  problem.devices = devices;
  problem.memory_bytes = 74'000'000'000;
  problem.state.step_ps_per_mi_sharded = ps(30.0 * (1 << 20) / kMemoryRate);
  problem.state.step_ps_per_mi_local = ps(6.0 * (1 << 20) / kMemoryRate);
  problem.network = &fabric;
  problem.pricer = &pricer;
  Settings settings;
  settings.top = arguments.top;
  settings.threads = arguments.threads;
  settings.time_limit_s = arguments.limit;
  const double begin = cpu_s();
  const Result result = find_plans(problem, settings);
  const double spent = cpu_s() - begin;
  std::string plan = "none fits";
  if (!result.plans.empty()) {
    const Plan& best = result.plans.front();
    const SplitChoice& split = problem.splits[static_cast<std::size_t>(best.key.split)];
    plan = fmt::format("{:.3f} s tp{} cp{} ep{} b{} p{} v{} d{} din{} P{}", static_cast<double>(best.time_ps) * 1e-12,
                       split.tensor, split.context, split.expert,
                       problem.micro_batches[static_cast<std::size_t>(best.key.micro_batch)], best.key.stages,
                       problem.schedules[static_cast<std::size_t>(best.key.schedule)].chunks, best.key.replicas,
                       best.key.inner_replicas, best.key.pitch);
  }
  const Counters& c = result.counters;
  fmt::print("{:13} {} {:6} {:5} {:8.3f} {:8.3f} {:>5} {:10.2e} {:7} {:7} {:5} {:7} {:6.0f} {}\n", model.name, net,
             devices, batch, result.wall_s, spent,
             result.outcome == Outcome::limit ? fmt::format("{:.0f}%", result.gap * 100) : "exact",
             static_cast<double>(c.keys), c.opened, c.relaxed, c.leaves, c.passes, peak_mib(), plan);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--top") arguments.top = std::atoi(value.c_str());
    if (name == "--threads") arguments.threads = std::atoi(value.c_str());
    if (name == "--limit") arguments.limit = std::atof(value.c_str());
    if (name == "--only") arguments.only = value;
    if (name == "--network") arguments.networks = value;
    if (name == "--devices") arguments.devices = std::atoll(value.c_str());
  }
  fmt::print("{:13} {} {:>6} {:>5} {:>8} {:>8} {:>5} {:>10} {:>7} {:>7} {:>5} {:>7} {:>6} {}\n", "model", "n", "N", "B",
             "seconds", "cpu_s", "proof", "keys", "opened", "relaxed", "leaf", "passes", "MiB", "best plan");
  constexpr std::array<std::array<std::int64_t, 2>, 4> kSizes{
      {{64, 1024}, {1024, 1024}, {16384, 4096}, {131072, 16384}}};
  for (const Model& model : kModels) {
    if (model.name.find(arguments.only) == std::string::npos) continue;
    for (char net : arguments.networks) {
      for (const auto& [devices, batch] : kSizes) {
        if (arguments.devices == 0 || arguments.devices == devices) run(model, net, devices, batch, arguments);
      }
    }
  }
}
