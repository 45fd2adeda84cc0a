#include "accuracy/unseen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace nest::accuracy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

UnseenRow row(const std::string& source, double z, std::map<std::string, double> part) {
  return {.z = z, .spread = 0.01, .part = std::move(part), .source = source};
}

// Two sources whose steps are compute alone, both 10 % slower than predicted; a third one that is right.
std::vector<UnseenRow> three_sources() {
  std::vector<UnseenRow> rows;
  for (int i = 0; i < 50; ++i) {
    rows.push_back(row("a", std::log(1.1), {{"compute", 1}}));
    rows.push_back(row("b", std::log(1.1), {{"compute", 1}}));
    rows.push_back(row("c", 0, {{"compute", 1}}));
  }
  return rows;
}

TEST(Unseen, OthersDecideWhatASourceIsJudgedBy) {
  // Without c, all others ask for 10 % more: one part of 1e4 · 100 against the prior's 1 / 0.09.
  const auto correction = correction_without(three_sources(), "c");
  EXPECT_NEAR(correction.at("compute"), std::log(1.1), 1e-4);
  const UnseenSources judged = judge_unseen(three_sources());
  ASSERT_EQ(judged.sources.size(), 3U);
  EXPECT_EQ(judged.sources[2].source, "c");
  EXPECT_NEAR(judged.sources[2].shipped.mean_absolute, 0, 1e-12);
  EXPECT_NEAR(judged.sources[2].unseen.mean_absolute, 0.1, 1e-4);
}

TEST(Unseen, PartsAreToldApart) {
  // A quarter of b's steps is an exchange that takes e^0.2 times what is predicted; compute is right.
  std::vector<UnseenRow> rows;
  for (int i = 0; i < 100; ++i) {
    rows.push_back(row("a", 0, {{"compute", 1}}));
    rows.push_back(row("b", 0.25 * 0.2, {{"compute", 0.75}, {"exchange", 0.25}}));
    rows.push_back(row("c", 0, {{"exchange", 0.5}, {"compute", 0.5}}));
  }
  const auto correction = correction_without(rows, "c");
  EXPECT_NEAR(correction.at("compute"), 0, 1e-3);
  EXPECT_NEAR(correction.at("exchange"), 0.2, 2e-3);
}

TEST(Unseen, OneWildRunAmongManyMovesLittle) {
  std::vector<UnseenRow> rows = three_sources();
  rows.push_back(row("b", 3, {{"compute", 1}}));
  EXPECT_NEAR(correction_without(rows, "c").at("compute"), std::log(1.1), 2e-3);
}

TEST(Unseen, WhatNoOtherSourceHasStaysAsItShips) {
  std::vector<UnseenRow> rows = three_sources();
  for (int i = 0; i < 5; ++i) rows.push_back(row("d", 0.05, {{"compute of its own", 1}}));
  const UnseenSources judged = judge_unseen(rows);
  EXPECT_THAT(judged.sources.back().its_own, ElementsAre("compute of its own"));
  EXPECT_EQ(judged.sources.back().unseen.mean_absolute, judged.sources.back().shipped.mean_absolute);
  EXPECT_THAT(unseen_section(judged), HasSubstr("| d | 5 | 4.9 % | 4.9 % | -4.9 % | compute of its own |"));
}

TEST(Unseen, OneSourceHasNoOthers) { EXPECT_EQ(unseen_section(judge_unseen({row("a", 0, {{"compute", 1}})})), ""); }

}  // namespace
}  // namespace nest::accuracy
