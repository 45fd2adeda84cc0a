// Results of studies for people and for programs, and the script that spreads one over a cluster.
#include <fmt/format.h>

#include "base/text.h"
#include "nest/sweep.h"
#include "nest/version.h"
#include "sweep/page.h"
#include "sweep/sbatch.h"
#include "sweep/store.h"
#include "sweep/tables.h"

namespace nest {

std::string to_text(const SweepResults& results, const Style& style) { return sweep::results_text(results, style); }

std::string to_json(const SweepResults& results) { return sweep::results_json(results); }

std::string to_csv(const SweepResults& results) { return sweep::results_csv(results); }

void to_json_lines(const SweepResults& results, const std::function<void(std::string_view)>& write) {
  sweep::Store store(results.database, sweep::Access::read);
  std::size_t next = 0;  // points that came since the results were read are left out
  store.for_each_plan(results.study.name, [&](std::int64_t point, std::string_view plan) {
    if (next >= results.points.size() || results.points[next].point != point) return;
    write(sweep::result_line(results, results.points[next++], plan));
  });
}

std::string to_html(const SweepResults& results, const ReportOptions& options) {
  sweep::Store store(results.database, sweep::Access::read);
  return sweep::results_page({&results, [&](std::int64_t point) { return store.plan(results.study.name, point); },
                              options.command, version()});
}

std::string sweep_sbatch(const Study& study, const SweepArray& array) { return sweep::sbatch_text(study, array); }

}  // namespace nest
