// nest eval: the price of one given plan.
#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/units.h"
#include "command.h"
#include "cost/evaluate.h"
#include "eval_from.h"
#include "job_options.h"
#include "plan/dimensions.h"
#include "plan/strategy_text.h"
#include "plan_html.h"
#include "report/plan_report.h"

namespace nest {
namespace {

constexpr const char* kDescription =
    "price one given plan: time, memory, money\n"
    "The time of a step and where it goes, the memory of every stage and what it consists of. A plan that does not fit "
    "is said not "
    "to (exit 3), with what is too large.";

constexpr const char* kExamples =
    "  nest eval --model llama3-70b --cluster dgx-h100 --devices 64 \\\n"
    "      --global-batch 128 --strategy tp=8,sp=1,pp=4,vpp=5,mbs=1\n"
    "  nest eval --model config.json --cluster my.yaml --stack fsdp2 \\\n"
    "      --strategy zero=3,mbs=2,recompute=full --tokens 1T --price 2.5\n"
    "  nest eval plan.json --json\n"
    "  nest eval --from train.sh --cluster my.yaml --define NNODES=16";

struct EvalQuestion {
  std::string plan_file;
  JobQuestion job;
  std::string strategy;
  std::string tokens;
  double price = 0;
  std::string html;
};

OpenedPlan price_strategy(const EvalQuestion& question) {
  OpenedPlan priced;
  priced.job = load_job(question.job);
  StrategyRequest request = parse_strategy(question.strategy);
  fill_devices(request, priced.job.cluster.devices);
  Strategy& strategy = request.strategy;
  if (strategy.dp_inner == 1) strategy.dp_inner = strategy.dp;
  const std::vector<StagePlan> stages =
      even_stages(priced.job, strategy, request.recompute, request.zero.value_or(priced.job.stack.default_zero),
                  request.zero_degree);
  if (const std::string reason = refuse_strategy(priced.job, strategy, stages); !reason.empty()) {
    throw InputError("--strategy: " + reason);
  }
  priced.plan = evaluate(priced.job, strategy, stages);
  return priced;
}

PlanReport report_of(const EvalQuestion& question, const OpenedPlan& priced) {
  PlanReport report;
  report.plan = priced.plan;
  report.model = priced.job.model;
  report.tokens = question.tokens.empty() ? 0 : parse_count(question.tokens);
  report.price_per_device_hour = question.price;
  return report;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", kDescription);
  app->footer(kExamples);
  const auto question = std::make_shared<EvalQuestion>();
  const auto from = std::make_shared<FromQuestion>();
  app->add_option("PLAN", question->plan_file, "a plan file, instead of all that follows")->group("Arguments");
  add_from_options(*app, *from);
  app->option_defaults()->group("Strategy");
  app->add_option("--strategy", question->strategy,
                  fmt::format("any of {}, joined by commas; what is left out is 1 or off, and dp fills the devices",
                              strategy_help()))
      ->type_name("LIST");
  add_job_options(*app, question->job);
  app->option_defaults()->group("Totals");
  app->add_option("--tokens", question->tokens, "tokens to train on, for example 15T: adds days and device-hours")
      ->type_name("COUNT");
  app->add_option("--price", question->price, "price of one device-hour: adds the cost of --tokens")
      ->type_name("PRICE");
  app->option_defaults()->group("Report");
  app->add_option("--html", question->html, "write a report with drawings here: one file that needs nothing else")
      ->type_name("FILE");
  return {app,
          [question, from, app](Session& session) {
            if (!from->from.empty() && !question->html.empty()) {
              throw InputError("--html: goes with a plan file or with --strategy, not with --from");
            }
            if (!from->from.empty()) return eval_from(complete(*from, question->job, *app), session);
            if (question->price < 0) throw InputError("--price: a price is not negative");
            const OpenedPlan priced = question->plan_file.empty()
                                          ? price_strategy(*question)
                                          : price_plan(question->plan_file, question->job.profile);
            const PlanReport report = report_of(*question, priced);
            if (!question->html.empty()) write_plan_page(question->html, report, priced.job, session);
            session.out = session.json ? to_text(plan_json(report)) : plan_text(report, session.style);
            if (!session.json && !question->html.empty())
              session.out += fmt::format("\nReport in {}.\n", question->html);
            return report.plan.fits ? kExitOk : kExitNoPlan;
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
