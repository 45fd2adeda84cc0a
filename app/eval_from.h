// nest eval --from: somebody's own launch line, priced and compared with the best plan.
#pragma once

#include <string>
#include <vector>

#include "command.h"
#include "job_options.h"

namespace nest {

struct FromQuestion {
  std::string from;                  // the line, or a file that holds it
  std::vector<std::string> defines;  // NAME=value
  std::string with;                  // options added to those of the line
  JobQuestion job;
  bool model_given = false, devices_given = false, batch_given = false, sequence_given = false, precision_given = false;
  bool optimizer_given = false;
  std::int64_t threads = 0;
  double time_limit_s = 0;  // of each search; 0: none
};

void add_from_options(CLI::App& app, FromQuestion& from);
// With what the other options of the subcommand say. Throws InputError for those that contradict a launch line.
FromQuestion complete(FromQuestion from, const JobQuestion& job, const CLI::App& app);

ExitCode eval_from(const FromQuestion& question, Session& session);

}  // namespace nest
