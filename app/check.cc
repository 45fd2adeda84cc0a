// nest check: any plan, ours or hand-written, judged from first principles.
#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "job_options.h"
#include "report/check_report.h"
#include "search/judge.h"

namespace nest {
namespace {

constexpr const char* kDescription =
    "judge a plan from first principles\n"
    "Every layer in one stage and in order, every rank on one device, sizes that divide, memory of every stage, batch "
    "arithmetic, levels of the network crossed, and claims that follow from each other. Shares no code with the cost "
    "model or the search. Exit 0 for a sound plan, 2 for one that is not, with every violation.";

constexpr const char* kExamples =
    "  nest plan --model llama3-70b --devices 64 -o plan.json\n"
    "  nest check plan.json\n"
    "  nest check hand-written.json --json | jq .violations";

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

}  // namespace

Command add_check(CLI::App& program) {
  CLI::App* app = program.add_subcommand("check", kDescription);
  app->footer(kExamples);
  const auto file = std::make_shared<std::string>();
  app->add_option("PLAN", *file, "a plan file (nest plan -o), or -")->required()->group("Arguments");
  return {app,
          [file](Session& session) {
            const OpenedPlan opened = open_plan(*file);
            const Job& job = opened.job;
            const CheckReport report = make_check_report(job.title, opened.plan, job.model, job.cluster,
                                                         state_floor(job), listed_devices(opened.document));
            session.out = session.json ? to_text(check_json(report)) : check_text(report, session.style);
            return report.violations.empty() ? kExitOk : kExitInput;
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest
