// Every number, word and switch that a plan's file claims: changed, it is refused, found wrong, or listed as what nobody judges.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nest/nest.h"

namespace nest {
namespace {

using Json = nlohmann::ordered_json;

Json plan_of(const char* model, const char* cluster, std::int64_t devices, std::vector<std::string> settings) {
  Question question;
  question.model = model;
  question.cluster = cluster;
  question.devices = devices;
  question.global_batch = 64;
  SearchOptions options;
  options.set = std::move(settings);
  const Answer answer = find_plan(read_job(question), options);
  return Json::parse(to_json(answer.plans.at(0)));
}

// "stages[].time_s.tp" of /stages/1/time_s/tp.
std::string name_of(const std::string& pointer) {
  std::string name;
  for (std::size_t begin = 1; begin <= pointer.size();) {
    const std::size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string part = pointer.substr(begin, end - begin);
    const bool index = part.find_first_not_of("0123456789") == std::string::npos;
    name += index ? "[]" : (name.empty() ? "" : ".") + part;
    begin = end + 1;
  }
  return name;
}

// What describes the question or decides something is judged as what it is: a plan that is sound with another value is a sound plan of
// another question. Labels mean nothing.
bool describes(const std::string& name) {
  for (const char* begin : {"model.config.", "model.name", "model.title", "cluster.description.", "stack.",
                            "run.stack_reason", "run.routing"}) {
    if (name.starts_with(begin)) return true;
  }
  return false;
}

// Decisions that another value of is sound too, and claims of which only one side can be judged: parts that are contained in others,
// memory that a stage may need beyond its floor, a bound that is weaker than it might be.
bool may_be_another(const std::string& name) {
  for (const char* end : {"stages[].zero", "stages[].zero_degree", "stages[].zero_outer", "strategy.pitch",
                          "strategy.sp", "stages[].time_s.tp", "stages[].time_s.cp", "stages[].time_s.ep",
                          "evaluation.stages[].needed_bytes", "search.lower_bound_s", "search.execution.least_s"}) {
    if (name == end) return true;
  }
  return false;
}

std::vector<Json> others(const std::string& name, const Json& value) {
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) return {value.get<std::int64_t>() * 2 + 1, value.get<std::int64_t>() / 2 - 1};
  // Of chunks one more may be held, where tokens of another travel.
  const double more = name == "stages[].memory_bytes.in_flight" ? 2 : 1.01;
  if (value.is_number()) return {value.get<double>() * more + 1e-3, value.get<double>() * 0.5 - 1e-3};
  if (value.is_string()) return {value.get<std::string>() + "x", 7};
  return {Json("x")};
}

bool passes(const Json& plan, std::vector<std::string>* not_judged = nullptr) {
  try {
    const Verdict verdict = check_file(Input::memory("plan.json", plan.dump()));
    if (not_judged != nullptr) *not_judged = verdict.not_judged;
    return verdict.sound();
  } catch (const InputError&) {
    return false;
  }
}

void tamper(const Json& plan) {
  std::vector<std::string> not_judged;
  ASSERT_TRUE(passes(plan, &not_judged));
  const auto is_listed = [&](const std::string& name) {
    return std::any_of(not_judged.begin(), not_judged.end(), [&](const std::string& key) {
      return name == key || name.starts_with(key + "[") || name.starts_with(key + ".");
    });
  };
  std::map<std::string, int> looked;
  int refused = 0;
  const Json flat = plan.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    const std::string name = name_of(pointer);
    if (describes(name) || is_listed(name) || may_be_another(name) || ++looked[name] > 2) continue;
    for (const Json& other : others(name, value)) {
      Json changed = plan;
      changed[Json::json_pointer(pointer)] = other;
      EXPECT_FALSE(passes(changed)) << pointer << ": " << value << " -> " << other;
      ++refused;
    }
  }
  EXPECT_GT(refused, 120);
  EXPECT_GT(looked.size(), 50U);
  // A list that hides what could be judged would pass as well.
  for (const char* key :
       {"prediction.iteration_s", "prediction.mfu", "stages[].memory_bytes.total", "stages[].time_s.forward"}) {
    EXPECT_TRUE(looked.contains(key)) << key;
    EXPECT_FALSE(is_listed(key)) << key;
  }
}

TEST(Claims, OfADensePlan) { tamper(plan_of("llama3-8b", "dgx-h100", 16, {"pp=2", "tp=2"})); }

TEST(Claims, OfAMixture) { tamper(plan_of("mixtral-8x7b", "dgx-h100", 16, {"tp=1", "etp=2", "ep=2"})); }

// Devices may be written as 2.0, and count as well.
TEST(Claims, DevicesAreThoseOfTheRanks) {
  Json plan = plan_of("llama3-8b", "dgx-h100", 8, {"pp=2"});
  for (Json& stage : plan["stages"]) {
    for (Json& device : stage["devices"]) device = device.get<double>();
  }
  EXPECT_TRUE(passes(plan));
  plan["stages"][1]["devices"][0] = 1.0;
  EXPECT_FALSE(passes(plan));
}

// A name beside the description is the description's.
TEST(Claims, NamesAreThoseOfWhatIsDescribed) {
  const Json plan = plan_of("llama3-8b", "dgx-h100", 8, {"pp=2"});
  for (const char* pointer : {"/cluster/device", "/cluster/name", "/model/family"}) {
    Json changed = plan;
    changed[Json::json_pointer(pointer)] = "b200";
    EXPECT_FALSE(passes(changed)) << pointer;
  }
}

}  // namespace
}  // namespace nest
