// Host lists: what they expand to, what is refused, and that nothing expands without bound.
#include "importer/hostlist.h"

#include <gmock/gmock.h>

#include <random>
#include <sstream>

#include "base/error.h"
#include "test_support/data.h"
#include "test_support/refusal.h"

namespace nest::importer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { expand_hostlist(text); });
}

TEST(Hostlist, Expands) {
  EXPECT_THAT(expand_hostlist("a"), ElementsAre("a"));
  EXPECT_THAT(expand_hostlist("n[1-3]"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(expand_hostlist("n[098-101]"), ElementsAre("n098", "n099", "n100", "n101"));
  EXPECT_THAT(expand_hostlist("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expand_hostlist("r[1-2]c[1,3]x"), ElementsAre("r1c1x", "r1c3x", "r2c1x", "r2c3x"));
  EXPECT_THAT(expand_hostlist("a, b[7]  c"), ElementsAre("a", "b7", "c"));
  EXPECT_THAT(expand_hostlist("a,a"), ElementsAre("a", "a"));
}

TEST(Hostlist, Refuses) {
  EXPECT_THAT(refusal("n[1-"), HasSubstr("never closed"));
  EXPECT_THAT(refusal("n1]"), HasSubstr("without"));
  EXPECT_THAT(refusal("n[1-[2]]"), HasSubstr("brackets inside brackets"));
  EXPECT_THAT(refusal("n[3-1]"), HasSubstr("counts down"));
  EXPECT_THAT(refusal("n[]"), HasSubstr("not a number"));
  EXPECT_THAT(refusal("n[1,]"), HasSubstr("not a number"));
  EXPECT_THAT(refusal("n[-3]"), HasSubstr("not a number"));
  EXPECT_THAT(refusal("n[0x1-0x2]"), HasSubstr("not a number"));
  EXPECT_THAT(refusal("a,,b"), HasSubstr("missing beside a comma"));
  EXPECT_THAT(refusal("a,"), HasSubstr("missing beside a comma"));
  EXPECT_THAT(refusal(""), HasSubstr("names no host"));
  EXPECT_THAT(refusal("block{b1}"), HasSubstr("functions"));
  EXPECT_THAT(refusal("a=b"), HasSubstr("plain ASCII"));
  EXPECT_THAT(refusal("n\x01"), HasSubstr("plain ASCII"));
}

TEST(Hostlist, IsBounded) {
  EXPECT_THAT(refusal("n[1-1000000]"), HasSubstr("more than 65536"));
  EXPECT_THAT(refusal("n[0-9999]m[0-9999]k[0-9999]"), HasSubstr("more than 131072"));
  EXPECT_THAT(refusal("n[0-60000],m[0-60000],k[0-60000]"), HasSubstr("more than 131072"));
  EXPECT_THAT(refusal("n[99999999999999999999-99999999999999999999]"), HasSubstr("digits"));
  EXPECT_THAT(refusal("n[1][1][1][1][1][1][1][1][1]"), HasSubstr("bracket groups"));
  EXPECT_EQ(expand_hostlist("n[0-65535]").size(), 65536U);
}

TEST(Hostlist, CompressesToTheSameNames) {
  EXPECT_EQ(compress_hostlist({"n1", "n2", "n3", "m7"}), "n[1-3],m7");
  EXPECT_EQ(compress_hostlist({"n08", "n09", "n10", "n12"}), "n[08-10,12]");
  EXPECT_EQ(compress_hostlist({"login", "n9", "n10"}), "login,n[9-10]");
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> names;
    for (std::uint64_t i = random() % 12 + 1; i > 0; --i) {
      const std::string number = std::to_string(random() % 30);
      names.push_back(std::string(1, static_cast<char>('a' + random() % 2)) + (random() % 2 == 0 ? "0" : "") + number +
                      (random() % 4 == 0 ? "-ib" : ""));
    }
    EXPECT_EQ(expand_hostlist(compress_hostlist(names)), names) << compress_hostlist(names);
  }
}

TEST(Hostlist, AgreesWithAnotherImplementation) {
  NEST_REQUIRE_DATA("../formats/samples/import/hostlist_cases.tsv");
  std::istringstream cases(test::read_file(test::data_dir() / "../formats/samples/import/hostlist_cases.tsv"));
  int checked = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << line;
    const std::string expected = line.substr(tab + 1);
    ++checked;
    if (expected == "ERROR") {
      EXPECT_NE(refusal(line.substr(0, tab)), "accepted") << line;
      continue;
    }
    std::string expanded;
    for (const std::string& name : expand_hostlist(line.substr(0, tab))) {
      expanded += (expanded.empty() ? "" : " ") + name;
    }
    EXPECT_EQ(expanded, expected) << line;
  }
  EXPECT_GT(checked, 5);
}

}  // namespace
}  // namespace nest::importer
