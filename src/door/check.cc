#include "nest/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "doc/value.h"
#include "load/input.h"
#include "load/job.h"
#include "nest/interval.h"
#include "plan/plan_json.h"
#include "report/check_report.h"
#include "search/judge.h"

namespace nest {

struct JudgedPlan {
  report::CheckReport report;
};

namespace {

const doc::Value* member(const doc::Value* value, const char* key) {
  const doc::Object* object = value != nullptr ? value->as_object() : nullptr;
  return object != nullptr ? object->find(key) : nullptr;
}

std::optional<double> number_of(const doc::Value* value) {
  if (value == nullptr) return std::nullopt;
  if (const std::int64_t* whole = value->as_integer()) return static_cast<double>(*whole);
  if (const double* real = value->as_real()) return *real;
  return std::nullopt;
}

// The devices that the file names for each stage. read_plan has made sure that they are lists of integers, which may be written as 2.0.
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
      if (const std::optional<double> number = number_of(&device))
        devices.push_back(static_cast<std::int64_t>(*number));
    }
  }
  return listed;
}

// What the file repeats for its readers, and what it says beside the plan, which nobody judges.
struct BesidePlan {
  std::vector<check::Violation> wrong;
  std::vector<std::string> not_judged;
};

BesidePlan beside_plan(const Document& document, const Plan& plan) {
  constexpr double kRounding = 1e-6;  // relative
  BesidePlan beside;
  const doc::Value* const root = &document.root();
  const auto judge = [&](const std::string& key, const doc::Value* value, double expected) {
    if (value == nullptr) return;
    const std::optional<double> claimed = number_of(value);
    if (claimed && std::abs(*claimed - expected) <= kRounding * std::abs(expected)) return;
    beside.wrong.push_back({check::ViolationCode::repeated,
                            fmt::format("{} is {}; {} follows", key,
                                        claimed ? fmt::format("{}", *claimed) : std::string("no number"), expected)});
  };
  if (document.root().as_object()->find("schema")->as_string()->ends_with("/3")) {
    judge("strategy.edp", member(member(root, "strategy"), "edp"), static_cast<double>(plan.strategy.edp()));
  }
  const auto judge_interval = [&](const char* name, const Prediction& p) {
    const doc::Value* const value = member(member(root, name), "interval_s");
    if (value == nullptr) return;
    const Interval told = interval(p.iteration_s, p.spread);
    const doc::Array* const ends = value->as_array();
    const bool pair = ends != nullptr && ends->size() == 2;
    judge(fmt::format("{}.interval_s[0]", name), pair ? &(*ends)[0] : value, told.low);
    judge(fmt::format("{}.interval_s[1]", name), pair ? &(*ends)[1] : value, told.high);
  };
  judge_interval("prediction", plan.prediction);
  if (plan.executed) judge_interval("executed", *plan.executed);
  const doc::Value* const evaluated = member(member(root, "evaluation"), "stages");
  if (const doc::Array* stages = evaluated != nullptr ? evaluated->as_array() : nullptr) {
    for (std::size_t s = 0; s < std::min(stages->size(), plan.stages.size()); ++s) {
      judge(fmt::format("evaluation.stages[{}].reserved_bytes", s), member(&(*stages)[s], "reserved_bytes"),
            static_cast<double>(plan.stages[s].memory.total));
    }
  }
  if (member(member(root, "evaluation"), "training") != nullptr) beside.not_judged.emplace_back("evaluation.training");
  for (const char* key : {"nearest_runs", "why_not"}) {
    if (member(root, key) != nullptr) beside.not_judged.emplace_back(key);
  }
  return beside;
}

// What a plan is called by is what it describes.
void judge_names(const Plan& plan, const cost::Job& job, BesidePlan& beside) {
  const auto judge = [&](const char* key, const std::string& claimed, const std::string& described) {
    if (claimed.empty() || claimed == described) return;
    beside.wrong.push_back({check::ViolationCode::repeated, fmt::format("{} is {}; what is described is {}", key,
                                                                        clip(claimed, 40), clip(described, 40))});
  };
  judge("cluster.name", plan.cluster.name, job.cluster.name);
  judge("cluster.device", plan.cluster.device, job.cluster.device.name);
  judge("model.family", plan.model.family, job.model.architecture.family);
}

Verdict judge(const Plan& plan, const check::ListedDevices& listed, BesidePlan beside = {}) {
  const cost::Job job = load::load_job(plan);
  judge_names(plan, job, beside);
  Verdict verdict;
  auto judged = std::make_shared<JudgedPlan>(
      JudgedPlan{report::make_check_report(job.title, plan, job.model, job.cluster, search::state_floor(job), listed)});
  report::CheckReport& told = judged->report;
  // A plan whose shape is broken claims nothing that follows.
  if (!told.memory_floor_bytes.empty()) {
    told.violations.insert(told.violations.end(), beside.wrong.begin(), beside.wrong.end());
  }
  told.not_judged.insert(told.not_judged.end(), beside.not_judged.begin(), beside.not_judged.end());
  verdict.not_judged = told.not_judged;
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
  const Plan plan = plan::read_plan(document);
  return judge(plan, listed_devices(document), beside_plan(document, plan));
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
