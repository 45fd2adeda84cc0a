#include "nest/check.h"

#include "doc/value.h"
#include "load/input.h"
#include "load/job.h"
#include "plan/plan_json.h"
#include "report/check_report.h"
#include "search/judge.h"

namespace nest {

struct JudgedPlan {
  CheckReport report;
};

namespace {

// The devices that the file names for each stage. read_plan has made sure that they are lists of integers.
ListedDevices listed_devices(const Document& document) {
  ListedDevices listed;
  const Object* root = document.root().as_object();
  const Value* stages = root ? root->find("stages") : nullptr;
  if (!stages || !stages->as_array()) return listed;
  for (const Value& stage : *stages->as_array()) {
    auto& devices = listed.emplace_back();
    const Object* members = stage.as_object();
    const Value* list = members ? members->find("devices") : nullptr;
    if (!list || !list->as_array()) continue;
    for (const Value& device : *list->as_array()) {
      if (const std::int64_t* number = device.as_integer()) devices.push_back(*number);
    }
  }
  return listed;
}

Verdict judge(const Plan& plan, const ListedDevices& listed) {
  const Job job = load_job(plan);
  Verdict verdict;
  auto judged = std::make_shared<JudgedPlan>(
      JudgedPlan{make_check_report(job.title, plan, job.model, job.cluster, state_floor(job), listed)});
  for (const Violation& violation : judged->report.violations) {
    verdict.violations.push_back({to_string(violation.code), violation.text});
  }
  verdict.judged = std::move(judged);
  return verdict;
}

}  // namespace

Verdict check_plan(const Plan& plan) { return judge(plan, {}); }

Verdict check_file(const Input& file) {
  const Document document = parse_json(source_name(file), read_text(file));
  return judge(read_plan(document), listed_devices(document));
}

std::string to_text(const Verdict& verdict, const Style& style) { return check_text(verdict.judged->report, style); }

std::string to_json(const Verdict& verdict) { return to_text(check_json(verdict.judged->report)); }

std::string reproducer(const InternalError& bug) {
  const auto* unsound = dynamic_cast<const UnsoundPlan*>(&bug);
  return unsound == nullptr ? std::string() : reproducer_text(unsound->plan(), unsound->violations());
}

}  // namespace nest
