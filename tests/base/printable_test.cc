#include <gtest/gtest.h>

#include "base/text.h"
#include "base/units.h"

namespace nest {
namespace {

TEST(Printable, EscapesWhatTerminalsObeyOrHide) {
  EXPECT_EQ(printable("plain, ümläut, 模型, 🚀\n\ttab"), "plain, ümläut, 模型, 🚀\n\ttab");
  EXPECT_EQ(printable("a\x1b[2Jb\x07"), "a\\u001b[2Jb\\u0007");
  EXPECT_EQ(printable(std::string_view("\0\r\x7f", 3)), "\\u0000\\u000d\\u007f");
  EXPECT_EQ(printable("\u0085\u202e\u2066\ufeff\u061c\u2028"), "\\u0085\\u202e\\u2066\\ufeff\\u061c\\u2028");
  EXPECT_EQ(printable("\U000E0041"), "\\udb40\\udc41");
  // No UTF-8: a lone continuation, an overlong slash, half a sequence, a surrogate, beyond the last plane.
  EXPECT_EQ(printable("\x80 \xc0\xaf \xe2\x82"), "\\x80 \\xc0\\xaf \\xe2\\x82");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_TRUE(is_printable(printable("\x1b\xff\u202e")));
  EXPECT_FALSE(is_printable("\x1b"));
}

TEST(Printable, ColoursStayWhereTheyAreMeant) {
  EXPECT_EQ(printable("\x1b[1mstrong\x1b[0m", true), "\x1b[1mstrong\x1b[0m");
  EXPECT_EQ(printable("\x1b[1mstrong\x1b[0m"), "\\u001b[1mstrong\\u001b[0m");
  EXPECT_EQ(printable("\x1b[2J\x1b[31;1m\x1b]0;x", true), "\\u001b[2J\\u001b[31;1m\\u001b]0;x");
}

TEST(Printable, WordsForAShell) {
  EXPECT_EQ(shell_quoted("leaf=400Gb/s"), "leaf=400Gb/s");
  EXPECT_EQ(shell_quoted("$(touch x)"), "'$(touch x)'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(Printable, NumbersOfAnySizeAreShort) {
  EXPECT_LT(format_duration(1e308).size(), 20U);
  EXPECT_LT(format_count(1e308).size(), 20U);
  EXPECT_EQ(format_integer(INT64_MIN), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace nest
