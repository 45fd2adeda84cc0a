#include "nest/check.h"

#include "doc/value.h"
#include "load/input.h"
#include "load/job.h"
#include "plan/plan_json.h"
#include "report/check_report.h"
#include "search/judge.h"

namespace nest {

struct JudgedPlan {
  report::CheckReport report;
};

namespace {

// The devices that the file names for each stage. read_plan has made sure that they are lists of integers.
check::ListedDevices listed_devices(const Document& document) {
  check::ListedDevices listed;
  const doc::Object* root = document.root().as_object();
  const doc::Value* stages = root ? root->find("stages") : nullptr;
  if (!stages || !stages->as_array()) return listed;
  for (const doc::Value& stage : *stages->as_array()) {
    auto& devices = listed.emplace_back();
    const doc::Object* members = stage.as_object();
    const doc::Value* list = members ? members->find("devices") : nullptr;
    if (!list || !list->as_array()) continue;
    for (const doc::Value& device : *list->as_array()) {
      if (const std::int64_t* number = device.as_integer()) devices.push_back(*number);
    }
  }
  return listed;
}

Verdict judge(const Plan& plan, const check::ListedDevices& listed) {
  const cost::Job job = load::load_job(plan);
  Verdict verdict;
  auto judged = std::make_shared<JudgedPlan>(
      JudgedPlan{report::make_check_report(job.title, plan, job.model, job.cluster, search::state_floor(job), listed)});
  for (const check::Violation& violation : judged->report.violations) {
    verdict.violations.push_back({to_string(violation.code), violation.text});
  }
  verdict.judged = std::move(judged);
  return verdict;
}

}  // namespace

Verdict check_plan(const Plan& plan) { return judge(plan, {}); }

Verdict check_file(const Input& file) {
  const Document document = doc::parse_json(load::source_name(file), load::read_text(file));
  return judge(plan::read_plan(document), listed_devices(document));
}

std::string to_text(const Verdict& verdict, const Style& style) {
  return report::check_text(verdict.judged->report, style);
}

std::string to_json(const Verdict& verdict) { return report::to_text(report::check_json(verdict.judged->report)); }

std::string reproducer(const InternalError& bug) {
  const auto* unsound = dynamic_cast<const search::UnsoundPlan*>(&bug);
  return unsound == nullptr ? std::string() : report::reproducer_text(unsound->plan(), unsound->violations());
}

}  // namespace nest
