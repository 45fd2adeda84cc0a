#include "base/text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"

namespace nest {
namespace {

TEST(Text, EditDistanceCountsSwapsOnce) {
  EXPECT_EQ(edit_distance("bandwith", "bandwidth"), 1U);
  EXPECT_EQ(edit_distance("gruop", "group"), 1U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

// What is more than the limit is limit + 1, whatever it is; what is not is the whole table's.
TEST(Text, EditDistanceKeepsItsLimit) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 3), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 0), 1U);
  EXPECT_EQ(edit_distance("ab", "abcdef", 2), 3U);  // their lengths alone
  EXPECT_EQ(edit_distance("abcd", "badc", 2), 2U);  // swaps look two rows back: one row above the limit ends nothing
  EXPECT_EQ(edit_distance("", "", 0), 0U);
  const std::vector<std::string> words = {"",     "a",    "ba",    "ab",     "abc",   "bca",
                                          "abab", "baba", "cabab", "bbccaa", "abcabc"};
  for (const std::string& one : words) {
    for (const std::string& other : words) {
      const std::size_t whole = edit_distance(one, other);
      for (std::size_t limit = 0; limit < 8; ++limit) {
        EXPECT_EQ(edit_distance(one, other, limit), std::min(whole, limit + 1)) << one << ' ' << other << ' ' << limit;
      }
    }
  }
}

TEST(Text, SuggestsOnlyCloseWords) {
  const std::vector<std::string> words = {"bandwidth", "latency", "group"};
  EXPECT_EQ(closest_word("bandwith", words), "bandwidth");
  EXPECT_EQ(closest_word("LATENCY", words), "latency");
  EXPECT_EQ(closest_word("oversubscription", words), std::nullopt);
  EXPECT_EQ(did_you_mean("grop", words), "; did you mean `group`?");
  EXPECT_EQ(closest_word(std::string(100000, 'x'), words), std::nullopt);
}

TEST(Text, WordsAreFoundInAnyCaseAndByOtherNames) {
  const std::vector<std::string> words = {"bf16", "fp16", "adam", "Ring"};
  EXPECT_EQ(find_word("bf16", words), 0U);
  EXPECT_EQ(find_word("BF16", words), 0U);
  EXPECT_EQ(find_word("bfloat16", words), 0U);
  EXPECT_EQ(find_word("AdamW", words), 2U);
  EXPECT_EQ(find_word("ring", words), 3U);
  EXPECT_EQ(find_word("fp32", words), std::nullopt);
  EXPECT_EQ(find_word("float32", words), std::nullopt);  // fp32 by another name, and not offered
  EXPECT_EQ(find_word("", words), std::nullopt);
}

TEST(Text, WholeNumbersAsPeopleWriteThem) {
  EXPECT_EQ(parse_whole("131072"), 131072);
  EXPECT_EQ(parse_whole("131,072"), 131072);
  EXPECT_EQ(parse_whole("1_048_576"), 1048576);
  EXPECT_EQ(parse_whole("128k"), 131072);
  EXPECT_EQ(parse_whole("1.5K"), 1536);
  EXPECT_EQ(parse_whole("4M"), 4 << 20);
  EXPECT_EQ(parse_whole("-3"), -3);
  for (const char* none : {"", "k", "1,2", "12,34", "2.5", "1e3", "4x", "0.3k", "1,0000", "9e9k", "-1k", "nan", "infM",
                           "99999999999999999999", "99999999999999999999k"}) {
    EXPECT_EQ(parse_whole(none), std::nullopt) << none;
  }
}

TEST(Text, ClipKeepsCharactersWholeAndHidesControls) {
  EXPECT_EQ(clip("abc", 3), "abc");
  EXPECT_EQ(clip("abcd", 3), "abc…");
  EXPECT_EQ(clip("a\tb\x1b[31m", 10), "a?b?[31m");
  EXPECT_EQ(clip("größe", 3), "grö…");
  EXPECT_EQ(clip("\xff\xfe", 5), "??");
}

TEST(Text, JoinsWords) {
  EXPECT_EQ(join_words(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(join_words(std::vector<std::string>{"a"}), "a");
}

TEST(Checked, RefusesToWrap) {
  EXPECT_EQ(checked_product({1 << 20, 1 << 20}), std::int64_t{1} << 40);
  EXPECT_THROW(checked_product({std::int64_t{1} << 40, std::int64_t{1} << 40}), InputError);
  EXPECT_THROW(checked_sum({INT64_MAX, 1}), InputError);
  EXPECT_EQ(round_up(50257, 1024), 51200);
  EXPECT_EQ(ceil_div(7, 2), 4);
}

TEST(Check, FailureNamesPlaceAndCondition) {
  try {
    NEST_CHECK(1 + 1 == 3, "arithmetic");
    FAIL() << "must throw";
  } catch (const InternalError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("text_test.cc"), std::string::npos);
    EXPECT_NE(what.find("1 + 1 == 3: arithmetic"), std::string::npos);
  }
}

TEST(Text, WordsAreWhatStandsBetweenBlanks) {
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(split_words(" lid 21\t4xNDR \r\n"), (Words{"lid", "21", "4xNDR"}));
  EXPECT_EQ(split_words("one"), Words{"one"});
  EXPECT_EQ(split_words(" \t"), Words{});
  EXPECT_EQ(split_words(""), Words{});
}

}  // namespace
}  // namespace nest
