// nest-regret: does the plan that nest gives stay the best when everything else that is known is executed too?
//
// Regret of a case = step of nest's plan / least step of all plans that were executed - 1: nest's own, the formula's best
// of every kind, what rivals plan, and random neighbours of the best. All are executed alike, once, in lockstep
// (simulate/step_judge.h); plans whose lower bound is above the best are not. Where another plan is 1 % faster so, both
// are executed again with noise, every replica for itself, and the mean counts.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include "door/job_data.h"
#include "nest/compare.h"
#include "nest/error.h"
#include "nest/search.h"
#include "nest/simulate.h"
#include "plan/strategy_text.h"
#include "row.h"
#include "simulate/step_judge.h"
#include "simulation_check/networks.h"

namespace {

constexpr double kWorth = 0.01;

struct Options {
  std::vector<std::string> models = {"llama3-8b", "llama2-13b",   "llama3-70b",    "gpt3-35b",
                                     "gpt3-175b", "mixtral-8x7b", "mixtral-8x22b", "deepseek-v3"};
  std::vector<std::int64_t> devices = {16, 64, 256, 1024};
  std::vector<std::int64_t> tokens = {4, 1};  // per step, millions
  std::string only;
  nest::RegretEffort effort;
  std::uint32_t seed = 1;
  std::int64_t sample = 0;  // 0: all
  std::string records;
  std::string markdown;
  bool only_page = false;
};

// Of this thread: wall time says how busy the machine was.
double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double noisy_s(const nest::Plan& plan) {
  constexpr std::int64_t kRuns = 4;
  const std::vector<double> seconds = nest::simulate_plan(plan, {.runs = kRuns}).noisy_s;
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / kRuns;
}

class Case {
 public:
  Case(const nest::TrainingJob& job, const nest::RegretEffort& effort, nest::RegretRow& row)
      : job_(job), effort_(effort), row_(row) {}

  void settle() {
    nest::SearchOptions search;
    search.target = "any";  // as the planners of others
    search.why = search.explain = false;
    search.threads = 1;
    search.time_limit_s = effort_.time_limit_s;
    const double start_s = processor_s();
    const nest::Answer own = nest::find_plan(job_, search);
    row_.search_s = processor_s() - start_s;
    row_.stopped = own.outcome == nest::PlanOutcome::limit;
    if (own.plans.empty()) {
      row_.refused = row_.stopped ? "stopped by the limit" : "no plan fits";
      return;
    }
    own_ = best_ = own.plans.front();
    row_.strategy = nest::plan::strategy_text(own_.strategy);
    row_.predicted_s = own_.prediction.iteration_s;
    row_.simulated_s = row_.best_s = seconds(own_);
    row_.best_of = "nest";
    if (own_.search->execution) row_.least_s = own_.search->execution->least_s;
    offer_formula(search);
    offer_rivals();
    offer_neighbours(own_, "neighbour");
    if (row_.best_of != "nest") offer_neighbours(best_, "neighbour");
    if (row_.regret() > kWorth) compare_with_noise();
    row_.best_strategy = nest::plan::strategy_text(best_.strategy);
  }

 private:
  // Plans that nothing fits without are of another job: with part of the optimizer's state on the host.
  struct Judged {
    explicit Judged(nest::TrainingJob of) : job(std::move(of)), judge(nest::unwrap(job)) {}
    nest::TrainingJob job;
    nest::simulate::StepJudge judge;
  };
  const Judged& judged(const nest::Plan& plan) {
    std::unique_ptr<const Judged>& known = judged_[plan.run.optimizer_offload];
    if (!known) known = std::make_unique<const Judged>(nest::job_of(plan));
    return *known;
  }
  double seconds(const nest::Plan& plan) { return judged(plan).judge.seconds(plan.strategy, plan.stages); }

  void offer(const nest::Plan& plan, const std::string& whose) {
    ++row_.others;
    if (judged(plan).judge.least_s(plan.strategy, plan.stages) >= row_.best_s) return;
    ++row_.executed;
    take(plan, whose, seconds(plan));
  }

  void take(const nest::Plan& plan, const std::string& whose, double plan_s) {
    if (plan_s >= row_.best_s) return;
    row_.best_s = plan_s;
    row_.best_of = whose;
    best_ = plan;
  }

  void offer_formula(nest::SearchOptions search) {
    search.judge = nest::PlanJudge::formula;
    search.top = effort_.top;
    const nest::Answer answer = nest::find_plan(job_, search);
    for (const nest::Plan& other : answer.plans) {
      if (row_.formula_s == 0) row_.formula_s = seconds(other);
      offer(other, "formula");
    }
  }

  void offer_rivals() {
    nest::CompareOptions compare;
    compare.planners = {"manual", "phaze", "mist"};
    compare.threads = 1;
    compare.time_limit_s = effort_.time_limit_s;
    for (const nest::ComparedPlanner& rival : nest::compare_planners(job_, compare).planners) {
      if (!rival.plan || rival.name == "nest") continue;
      ++row_.others;
      ++row_.executed;
      const double rival_s = seconds(*rival.plan);
      row_.rival_s = row_.rival_s > 0 ? std::min(row_.rival_s, rival_s) : rival_s;
      take(*rival.plan, rival.name, rival_s);
    }
  }

  void offer_neighbours(const nest::Plan& plan, const std::string& whose) {
    const nest::Plan of = plan;  // the best may change
    for (const nest::Plan& other : nest::neighbours(nest::unwrap(judged(of).job), of, effort_.neighbours, 1))
      offer(other, whose);
  }

  void compare_with_noise() {
    try {
      const double own_s = noisy_s(own_), best_s = noisy_s(best_);
      row_.noisy = true;
      row_.rival_s *= own_s / row_.simulated_s;  // as if noise did the same to it
      row_.simulated_s = own_s;
      row_.best_s = best_s;
    } catch (const nest::InputError&) {
      return;  // too large to execute replica by replica
    }
    if (row_.best_s <= row_.simulated_s) return;
    row_.best_s = row_.simulated_s;
    row_.best_of = "nest";
    best_ = own_;
  }

  const nest::TrainingJob& job_;
  std::map<std::int64_t, std::unique_ptr<const Judged>> judged_;  // by the share that is on the host
  const nest::RegretEffort& effort_;
  nest::RegretRow& row_;
  nest::Plan own_, best_;
};

nest::RegretRow run_case(const nest::RegretCase& each, const nest::RegretEffort& effort) {
  nest::RegretRow row;
  row.of = each;
  row.effort = effort;
  try {
    nest::Question question;
    question.model = each.model;
    question.cluster = each.network;
    for (const nest::Network& network : nest::slow_networks()) {
      if (network.name == each.network) question.cluster = nest::Input::memory(network.name + ".yaml", network.yaml);
    }
    question.devices = each.devices;
    question.global_batch = each.batch;
    question.stack = "megatron-core";
    const bool old = nest::network_cluster(each.network, each.devices).device.peak(nest::Precision::bf16) <= 0;
    if (old) question.precision = nest::Precision::fp16;
    const nest::TrainingJob job = nest::read_job(question);
    Case(job, effort, row).settle();
  } catch (const nest::InputError& error) {
    row.refused = error.what();
  }
  return row;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The front of the drawn order, as far as it is known or asked for.
std::vector<nest::RegretRow> run_cases(const Options& options, const std::vector<nest::RegretCase>& order) {
  std::map<std::string, nest::RegretRow> known;
  std::ofstream lines;
  if (!options.records.empty()) {
    const std::string before = read_file(options.records);
    known = nest::read_rows(before);
    lines.open(options.records, std::ios::binary | std::ios::app);
    if (!lines) throw nest::InputError("cannot write " + options.records);
    if (!before.empty() && before.back() != '\n') lines << '\n';
  }
  std::vector<nest::RegretRow> rows;
  for (const nest::RegretCase& each : order) {
    const auto found = known.find(each.id());
    if (found != known.end() && found->second.effort == options.effort) {
      rows.push_back(found->second);
      continue;
    }
    if (options.only_page) break;  // what is behind a gap would prefer what is quick
    const nest::RegretRow& row = rows.emplace_back(run_case(each, options.effort));
    if (lines.is_open()) lines << to_line(row) << std::flush;
    std::cerr << fmt::format("{} of {}: {}: ", rows.size(), order.size(), each.id());
    if (row.refused.empty()) {
      std::cerr << fmt::format(
          "{:.3f} s predicted, {:.3f} s executed, formula's {:.3f} s, regret {:.2f} % ({} {}), {:.1f} s\n",
          row.predicted_s, row.simulated_s, row.formula_s, 100 * row.regret(), row.best_of, row.best_strategy,
          row.search_s);
    } else {
      std::cerr << row.refused << '\n';
    }
  }
  return rows;
}

int run(const Options& options) {
  std::vector<nest::RegretCase> order =
      nest::drawn(nest::regret_grid(options.models, options.devices, options.tokens), options.seed);
  std::erase_if(order,
                [&](const nest::RegretCase& each) { return each.network.find(options.only) == std::string::npos; });
  const std::size_t grid = order.size();
  if (options.sample > 0 && static_cast<std::size_t>(options.sample) < grid) {
    order.resize(static_cast<std::size_t>(options.sample));
  }
  const std::vector<nest::RegretRow> rows = run_cases(options, order);
  if (rows.empty()) return 1;
  const std::string text = nest::regret_page(rows, grid, options.seed);
  if (options.markdown.empty()) {
    std::cout << text;
  } else {
    std::ofstream file(options.markdown, std::ios::binary);
    file << text;
    file.close();
    if (!file) throw nest::InputError("cannot write " + options.markdown);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("executes nest's plans beside all others that are known, on many networks", "nest-regret");
  Options options;
  app.add_option("--models", options.models, "presets")->delimiter(',')->capture_default_str();
  app.add_option("--devices", options.devices, "sizes of clusters")->delimiter(',')->capture_default_str();
  app.add_option("--tokens", options.tokens, "millions per step")->delimiter(',')->capture_default_str();
  app.add_option("--only", options.only, "networks whose name contains this");
  app.add_option("--sample", options.sample, "cases, drawn; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", options.seed, "of the order in which cases are drawn");
  app.add_option("--records", options.records,
                 "finished cases, one line of JSON each; those there are not run again unless others were looked for");
  app.add_flag("--only-page", options.only_page, "write the page from what is there, up to the first case that is not");
  app.add_option("--top", options.effort.top, "kinds of plans that the formula lists")->check(CLI::PositiveNumber);
  app.add_option("--neighbours", options.effort.neighbours, "random neighbours of the best plans")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--time-limit", options.effort.time_limit_s, "seconds per search; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--markdown", options.markdown, "write the page here");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::cerr << "nest-regret: " << error.what() << '\n';
    return 2;
  }
}
