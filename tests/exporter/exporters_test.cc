// The tables of frameworks and exporters: every row is complete and reachable, and the documentation lists them.
#include "exporter/exporters.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "base/error.h"
#include "export_support.h"
#include "exporter/framework.h"
#include "plan/strategy_text.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Exporters, NamesFindTheirRows) {
  std::set<std::string> names;
  for (const exporter::Exporter& row : exporter::exporters()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(exporter::find_exporter(row.name), &row);
    EXPECT_NE(row.write == nullptr, row.write_files == nullptr) << row.name;
    ASSERT_FALSE(row.formats.empty()) << row.name;
    EXPECT_EQ(exporter::format_index(row, ""), 0U);
    std::set<std::string> formats;
    for (std::size_t i = 0; i < row.formats.size(); ++i) {
      EXPECT_TRUE(formats.insert(row.formats[i].name).second) << row.name << " " << row.formats[i].name;
      EXPECT_EQ(exporter::format_index(row, row.formats[i].name), i);
    }
    EXPECT_THROW(exporter::format_index(row, "nonsense"), InputError);
  }
  EXPECT_EQ(exporter::find_exporter("nonsense"), nullptr);
}

TEST(Exporters, EveryFrameworkHasOne) {
  for (const exporter::FrameworkRules& rules : exporter::framework_rules()) {
    EXPECT_EQ(&exporter::rules_of(rules.framework), &rules);
    EXPECT_TRUE(cost::find_stack(rules.usual_stack).has_value()) << rules.usual_stack;
    EXPECT_TRUE(exporter::is_own_stack(rules.framework, *cost::find_stack(rules.usual_stack))) << rules.usual_stack;
    EXPECT_TRUE(rules.computes_in(Precision::bf16));
    const exporter::Exporter* exporter = exporter::find_exporter(to_string(rules.framework));
    ASSERT_NE(exporter, nullptr) << to_string(rules.framework);
    EXPECT_EQ(exporter->framework, rules.framework);
  }
}

TEST(Exporters, DocumentationListsThem) {
  std::string table = "| `--to` | `--format` | what |\n|---|---|---|\n";
  for (const exporter::Exporter& row : exporter::exporters()) {
    for (std::size_t i = 0; i < row.formats.size(); ++i) {
      table += fmt::format("| {} | `{}`{} | {} |\n", i == 0 ? fmt::format("`{}`", row.name) : "", row.formats[i].name,
                           i == 0 && row.formats.size() > 1 ? " (default)" : "", row.formats[i].words);
    }
  }
  std::string page = read_file(source_dir() / "docs/export.md");
  for (std::size_t at = 0; (at = page.find("| |", at)) != std::string::npos;) page.replace(at, 3, "|  |");
  EXPECT_THAT(page, HasSubstr(table));
}

// A plan that was made for a framework is one that it runs.
TEST(Frameworks, RunThePlansThatWereMadeForThem) {
  for (const bool experts : {false, true}) {
    for (const exporter::FrameworkRules& rules : exporter::framework_rules()) {
      const cost::Job job = export_job(experts ? "mixtral-790m" : "llama3.2-1b", 16, 64, 2048, rules.usual_stack);
      search::PriceCache prices(job);
      search::PlanRequest request;
      request.job = &job;
      request.prices = &prices;
      request.search.top = 20;
      request.limits = exporter::runnable_limits(rules.framework, job);
      const search::PlanAnswer answer = search::make_plan(request);
      EXPECT_GE(answer.plans.size(), 3U) << to_string(rules.framework);
      for (const Plan& plan : answer.plans) {
        const std::vector<std::string> found = exporter::obstacles(rules.framework, job, plan.strategy, plan.stages);
        EXPECT_THAT(found, IsEmpty()) << to_string(rules.framework) << " " << plan::strategy_text(plan.strategy);
      }
    }
  }
}

}  // namespace
}  // namespace nest::test
