// nest check: any plan, ours or hand-written, judged from first principles.
#include "nest/check.h"

#include <memory>

#include "command.h"

namespace nest::app {
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

}  // namespace

Command add_check(CLI::App& program) {
  CLI::App* app = program.add_subcommand("check", kDescription);
  app->footer(kExamples);
  const auto file = std::make_shared<std::string>();
  app->add_option("PLAN", *file, "a plan file (nest plan -o), or -")->required()->group("Arguments");
  return {app,
          [file](Session& session) {
            const Verdict verdict = check_file(*file);
            session.out = session.json ? to_json(verdict) : to_text(verdict, session.style);
            return verdict.sound() ? kExitOk : kExitInput;
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest::app
