// The parts of a plan's page. Internal to the folder.
#pragma once

#include "html/network_use.h"
#include "html/plan_page.h"

namespace nest::html {

inline constexpr std::size_t kLongestTitle = 100;  // of a model, a cluster, a device; names come from files

// What the parts share.
struct PlanView {
  explicit PlanView(const PlanPage& page)
      : input(page),
        report(*page.report),
        plan(page.report->plan),
        strategy(plan.strategy),
        job(*page.job),
        micro_batches(nest::micro_batches(strategy, plan.run.global_batch)),
        network(network_use(job, strategy, report.plan)) {}

  const PlanPage& input;
  const report::PlanReport& report;
  const Plan& plan;
  const Strategy& strategy;
  const cost::Job& job;
  std::int64_t micro_batches;  // per replica and step
  NetworkUse network;

  bool fits() const { return report.plan.fits; }
};

Markup headline(const PlanView& view);
Markup cluster_section(const PlanView& view);
Markup timeline_section(const PlanView& view);
Markup time_section(const PlanView& view);
Markup memory_section(const PlanView& view);
Markup network_section(const PlanView& view);
Markup alternatives_section(const PlanView& view);
Markup inputs_section(const PlanView& view);

std::string count_of(std::int64_t count, const std::string& name);  // "1 node", "32 nodes"

std::string gibibytes(std::int64_t bytes);  // "68.1"
std::string milliseconds(double seconds);   // "12.34"

}  // namespace nest::html
