// Candidates side by side, drawn and told.
#include "html/candidates_section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/layout.h"
#include "report/candidates_report.h"
#include "xml.h"

namespace nest::html {
namespace {

using testing::HasSubstr;
using testing::Not;

// 2 s of 64 sequences, 3 s of 128 (1.5 s for as many), and one that does not fit.
CandidateComparison three_candidates() {
  CandidateComparison comparison;
  for (const auto& [name, seconds, batch] :
       {std::tuple{"a <b> & c", 2.0, 64}, std::tuple{"twice the batch", 3.0, 128}}) {
    ComparedCandidate& candidate = comparison.candidates.emplace_back();
    candidate.label = std::string(1, static_cast<char>('A' + comparison.candidates.size() - 1));
    candidate.name = name;
    candidate.outcome = CandidateOutcome::plan;
    candidate.plan.emplace();
    candidate.plan->model.title = "A model";
    candidate.plan->run.global_batch = batch;
    candidate.plan->run.sequence = 1024;
    candidate.plan->stages.resize(1);
    candidate.expected.emplace();
    candidate.expected->iteration_s = seconds;
    candidate.expected->breakdown_s.compute = 0.75 * seconds;
    candidate.expected->breakdown_s.tp = 0.25 * seconds;
  }
  comparison.candidates[0].times = 2 / 1.5;
  comparison.candidates[0].probability_slower = 0.86;
  comparison.candidates[1].times = 1;
  ComparedCandidate& large = comparison.candidates.emplace_back();
  large.label = "C";
  large.name = "large";
  large.outcome = CandidateOutcome::does_not_fit;
  large.note = "does not fit: 91 GiB of 80";
  comparison.fastest = 1;
  comparison.same_batch = false;
  return comparison;
}

TEST(Candidates, TimesAreOfTheSameTokens) {
  const CandidateComparison comparison = three_candidates();
  EXPECT_DOUBLE_EQ(comparison.step_s(comparison.candidates[0]), 4);  // 2 s · 128 / 64
  EXPECT_DOUBLE_EQ(comparison.part_s(comparison.candidates[0], kBreakdownParts[0]), 3);
  EXPECT_DOUBLE_EQ(comparison.step_s(comparison.candidates[1]), 3);
  EXPECT_EQ(report::candidates_unit(comparison), "seconds for a step of B");
}

TEST(Candidates, TextTellsTheFastestHowSureAndWhereTheyDiffer) {
  const std::string text = report::candidates_text(three_candidates(), Style());
  EXPECT_THAT(text, HasSubstr("B (twice the batch) is fastest: 3.00 s per step; A takes 1.333 times as long"));
  EXPECT_THAT(text, HasSubstr("(86 % sure that it is slower)"));
  EXPECT_THAT(text, HasSubstr("does not fit: 91 GiB of 80"));
  EXPECT_THAT(text, HasSubstr("compute                  2.250  +0.750"));
  EXPECT_THAT(text, HasSubstr("tensor parallel          0.750  +0.250"));
  EXPECT_THAT(text, Not(HasSubstr("bubble"))) << "nobody has any";
  for (const std::string& line : wrap(text, 1000)) EXPECT_LE(display_width(line), kLineWidth) << line;
}

TEST(Candidates, SectionIsWellFormedAndSaysTheSame) {
  const HtmlSection section = candidates_section(three_candidates());
  const test::Element body = test::parse_page("<!DOCTYPE html>\n<div>" + section.body.str() + "</div>\n");
  const auto cells = test::table_cells(body, "candidates-table");
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_EQ(cells[0][3], "/ B");
  EXPECT_THAT(cells[1][1], HasSubstr("a <b> & c"));
  EXPECT_EQ(cells[1][3], "1.333");
  EXPECT_EQ(cells[1][4], "86 %");
  EXPECT_EQ(cells[2][4], "");
  EXPECT_EQ(cells[3][2], "does not fit");
  const auto differences = test::table_cells(body, "differences-table");
  ASSERT_EQ(differences.size(), 4U);  // heading, compute, tensor parallel, all of it
  EXPECT_EQ(differences[3][2], "+1.000");
}

TEST(Candidates, WithoutAFastestThereIsAPageOfItsOwn) {
  CandidateComparison comparison = three_candidates();
  comparison.candidates.erase(comparison.candidates.begin(), comparison.candidates.begin() + 2);
  comparison.fastest.reset();
  EXPECT_EQ(report::candidates_headline(comparison), "No candidate fits.");
  test::parse_page(candidates_page(comparison).str());
  EXPECT_THAT(bar_chart_svg(candidates_chart(comparison)), HasSubstr("<svg"));
  comparison.candidates[0].outcome = CandidateOutcome::limit;
  EXPECT_TRUE(comparison.is_open());
}

}  // namespace
}  // namespace nest::html
