#include "base/shelf.h"

#include <gmock/gmock.h>

namespace nest {
namespace {

struct Plain {
  std::string name;
};
struct Aliased {
  std::string name;
  std::vector<std::string> aliases;
};

TEST(Shelf, FindsByNameAndAlias) {
  const Shelf<Aliased> shelf({{"H100", {"hopper", "H100-SXM"}}, {"a100", {}}});
  ASSERT_NE(shelf.find("h100"), nullptr);
  EXPECT_EQ(shelf.find("HOPPER"), shelf.find("h100"));
  EXPECT_EQ(shelf.find("h100-sxm")->name, "H100");
  EXPECT_EQ(shelf.find("a100"), &shelf[1]);
  EXPECT_EQ(shelf.find("a10"), nullptr);
  EXPECT_EQ(shelf.find(""), nullptr);
  EXPECT_THAT(shelf.names(), ::testing::ElementsAre("H100", "a100"));
  EXPECT_EQ(shelf.size(), 2U);
}

TEST(Shelf, SaysWhatIsKnown) {
  const Shelf<Plain> shelf({{"ring"}, {"tree"}});
  EXPECT_EQ(shelf.unknown("trea"), "`trea` is not known; known are ring and tree; did you mean `tree`?");
}

TEST(Shelf, NamesAreUnique) {
  EXPECT_ANY_THROW(Shelf<Plain>({{"one"}, {"One"}}));
  EXPECT_ANY_THROW(Shelf<Aliased>({{"one", {"two"}}, {"two", {}}}));
}

TEST(ReadOnce, ReadsEachWhenItIsAskedFor) {
  ReadOnce<std::string> things(2);
  int reads = 0;
  const auto read = [&] { return "thing " + std::to_string(++reads); };
  EXPECT_EQ(things.at(1, read), "thing 1");
  EXPECT_EQ(&things.at(1, read), &things.at(1, read));
  EXPECT_EQ(things.at(0, read), "thing 2");
  EXPECT_EQ(reads, 2);
}

TEST(ReadOnce, WhatThrowsIsReadAgain) {
  ReadOnce<int> things(1);
  EXPECT_ANY_THROW(things.at(0, []() -> int { throw InputError("no"); }));
  EXPECT_EQ(things.at(0, [] { return 7; }), 7);
}

}  // namespace
}  // namespace nest
