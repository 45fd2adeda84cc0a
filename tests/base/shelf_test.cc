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

}  // namespace
}  // namespace nest
