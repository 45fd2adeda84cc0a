// nest export --to chakra: a folder that is complete or not there.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "program.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

class ExportChakra : public ::testing::Test {
 protected:
  ExportChakra() : plan_(folder_.file("plan.json")) {
    const Result result =
        nest({"eval", "--model", "llama3-8b", "--cluster", "dgx-h100", "--devices", "16", "--global-batch", "16",
              "--seq", "1024", "--json", "--strategy", "tp=2,sp=1,pp=2,mbs=1"});
    EXPECT_TRUE(result.code == 0 || result.code == 3) << result.err;
    std::ofstream(plan_) << result.out;
  }

  static std::set<std::string> names(const std::filesystem::path& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
    return names;
  }

  TemporaryFolder folder_;
  std::string plan_;
};

TEST_F(ExportChakra, WritesOneFilePerRankAndWhatBelongsToThem) {
  const std::string all = folder_.file("all");
  const Result result = nest({"export", plan_, "--to", "chakra", "-o", all});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("one step, 16 ranks, "));
  EXPECT_EQ(names(all).size(), 18U);
  EXPECT_TRUE(names(all).count("trace.15.et"));
  const Json groups = Json::parse(std::ifstream(all + "/groups.json"));
  EXPECT_EQ(groups["1"], Json({0, 1}));
  const Json ranks = Json::parse(std::ifstream(all + "/ranks.json"));
  EXPECT_EQ(ranks["schema"], "nest.chakra/1");
  EXPECT_EQ(ranks["ranks"].size(), 16U);
  EXPECT_EQ(ranks["ranks"][9]["node"], "node0001");

  const std::string some = folder_.file("some");
  const Result chosen = nest({"export", plan_, "--to", "chakra", "-o", some, "--ranks", "0,8-9", "--json"});
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_EQ(Json::parse(chosen.out)["ranks"], 3);
  EXPECT_EQ(names(some),
            (std::set<std::string>{"groups.json", "ranks.json", "trace.0.et", "trace.8.et", "trace.9.et"}));
}

TEST_F(ExportChakra, LeavesNothingBehindWhenItFails) {
  const auto fails = [&](const std::vector<std::string>& more, const std::string& says) {
    std::vector<std::string> arguments = {"export", plan_, "--to", "chakra"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto before = names(folder_.path());
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(names(folder_.path()), before);
  };
  fails({}, "-o: is missing");
  fails({"-o", folder_.file("x"), "--ranks", "0,16"}, "`16` in `0,16` is no rank; allowed are 0 … 15");
  fails({"-o", folder_.file("x"), "--format", "json"}, "is none of et");
  fails({"-o", folder_.file("no/such")}, "cannot be written");
  fails({"-o", plan_}, "is there already");
  std::filesystem::create_directory(folder_.file("full"));
  std::ofstream(folder_.file("full/mine")) << "mine";
  fails({"-o", folder_.file("full")}, "is there already");
}

}  // namespace
}  // namespace nest::test
