#include "base/layout.h"

#include <gmock/gmock.h>

namespace nest {
namespace {

using ::testing::ElementsAre;

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("█▌é"), 3U);
  EXPECT_EQ(display_width("模型"), 4U);
  EXPECT_EQ(display_width("e\xCC\x81"), 1U);  // e with a combining accent
  EXPECT_EQ(display_width("🚀"), 2U);
}

TEST(ClipToWidth, NeverExceedsTheColumns) {
  EXPECT_EQ(clip_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(clip_to_width("abcdef", 5), "abcd…");
  EXPECT_EQ(clip_to_width("模型模型", 5), "模型…");
  EXPECT_EQ(clip_to_width("模型模型", 4),
            "模…");  // the second character would end in column 4, where the ellipsis stands
  EXPECT_EQ(clip_to_width("abc", 0), "");
  EXPECT_EQ(clip_to_width("a\nb\xFF", 9), "a?b?");
}

TEST(Pad, LeavesLongTextAlone) {
  EXPECT_EQ(pad_right("é", 3), "é  ");
  EXPECT_EQ(pad_right("abcd", 3), "abcd");
}

TEST(Wrap, BreaksAtSpacesAndKeepsParagraphs) {
  EXPECT_THAT(wrap("one two three", 7), ElementsAre("one two", "three"));
  EXPECT_THAT(wrap("one two three", 6), ElementsAre("one", "two", "three"));
  EXPECT_THAT(wrap("incomprehensible x", 5), ElementsAre("incomprehensible", "x"));
  EXPECT_THAT(wrap("a\n\nb", 5), ElementsAre("a", "", "b"));
  EXPECT_THAT(wrap("", 5), ElementsAre(""));
  EXPECT_EQ(wrap_after("x: ", "one two", 6), "x: one\n   two");
}

TEST(Bar, HasEighthsAndSurvivesNonsense) {
  EXPECT_EQ(bar(0, 4), "");
  EXPECT_EQ(bar(1, 4), "████");
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(1.0 / 32, 4), "▏");
  EXPECT_EQ(bar(7.0 / 32, 4), "▉");
  EXPECT_EQ(bar(2, 4), "████");
  EXPECT_EQ(bar(-1, 4), "");
  EXPECT_EQ(bar(0.0 / 0.0, 4), "");
}

}  // namespace
}  // namespace nest
