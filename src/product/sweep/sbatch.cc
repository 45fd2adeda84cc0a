#include "sweep/sbatch.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "nest/option.h"

namespace nest::sweep {
namespace {

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string sbatch_text(const Study& study, const SweepArray& array) {
  namespace fs = std::filesystem;
  if (array.shards < 1 || array.shards > kMostSweepPoints) {
    throw InputError(fmt::format("{}: {} is no number of shards", option("shards"), array.shards));
  }
  const fs::path database = fs::absolute(array.database);
  const std::string stem = (database.parent_path() / database.stem()).string();
  std::string text = fmt::format(
      "#!/usr/bin/env bash\n"
      "# The study {0} in {1} shards: {2} points.\n"
      "#   bash THIS_FILE     submits the shards, and a job that merges them when all are done\n"
      "#   sbatch THIS_FILE   submits the shards only\n"
      "# A shard that was stopped goes on where it was: submit again. Options of sbatch may be added below.\n"
      "#SBATCH --job-name=nest-{0}\n"
      "#SBATCH --array=0-{3}\n"
      "#SBATCH --nodes=1\n"
      "#SBATCH --ntasks=1\n",
      study.name, array.shards, study.points.size(), array.shards - 1);
  if (array.threads > 0) text += fmt::format("#SBATCH --cpus-per-task={}\n", array.threads);
  text += fmt::format(
      "#SBATCH --requeue\n"
      "#SBATCH --open-mode=append\n"
      "set -euo pipefail\n"
      "nest={}\n"
      "study={}\n"
      "whole={}\n"
      "shards={}\n"
      "part() {{ printf '%s.%s-of-%s.sqlite' {} \"$1\" \"$shards\"; }}\n",
      shell_word(array.program), shell_word(fs::absolute(array.study).string()), shell_word(database.string()),
      array.shards, shell_word(stem));
  text +=
      "if [ \"${1:-}\" = merge ]; then\n"
      "  parts=(); for ((k = 0; k < shards; ++k)); do parts+=(\"$(part \"$k\")\"); done\n"
      "  exec \"$nest\" sweep merge \"${parts[@]}\" -o \"$whole\"\n"
      "fi\n"
      "if [ -z \"${SLURM_ARRAY_TASK_ID:-}\" ]; then\n"
      "  job=$(sbatch --parsable \"$@\" \"$0\")\n"
      "  merge=$(sbatch --parsable --array=0 --dependency=\"afterok:${job%%;*}\" --kill-on-invalid-dep=yes \"$0\" "
      "merge)\n"
      "  echo \"shards: job $job; merge: job $merge, writes $whole\"\n"
      "  exit\n"
      "fi\n"
      "\"$nest\" sweep \"$study\" --db \"$(part \"$SLURM_ARRAY_TASK_ID\")\" --shard \"$SLURM_ARRAY_TASK_ID/$shards\" "
      "\\\n"
      "  --threads \"${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}\"\n";
  return text;
}

}  // namespace nest::sweep
