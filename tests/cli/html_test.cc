// --html: a page beside the usual output, complete or not there at all.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class Html : public ::testing::Test {
 protected:
  std::string text() const {
    std::ifstream file(page_);
    std::ostringstream all;
    all << file.rdbuf();
    return all.str();
  }
  std::size_t files() const {
    const auto entries = std::filesystem::directory_iterator(folder_.path());
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
  }

  TemporaryFolder folder_;
  std::string page_ = folder_.file("report.html");
};

const std::vector<std::string> kPlan = {"plan", "--model", "llama3-8b", "--devices", "8", "--global-batch", "64"};
const std::vector<std::string> kEval = {"eval",           "--model", "llama3-8b",  "--devices",      "8",
                                        "--global-batch", "64",      "--strategy", "tp=2,sp=1,mbs=1"};

std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Html, PlanWritesAPageBesideItsText) {
  const Result result = nest(with(kPlan, {"--html", page_}));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Report in " + page_));
  const std::string page = text();
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, AnyOf(HasSubstr("Proven optimal"), HasSubstr("of the proven optimum")));
  EXPECT_THAT(page, HasSubstr("id=\"why-table\""));
  EXPECT_THAT(page, HasSubstr("nest plan --model llama3-8b --devices 8"));
  EXPECT_EQ(files(), 1U);
}

TEST_F(Html, GoesWithJson) {
  for (const auto& words : {kPlan, kEval}) {
    const Result result = nest(with(words, {"--json", "--html", page_}));
    EXPECT_EQ(result.code, 0) << result.err;
    const auto json = nlohmann::json::parse(result.out);
    EXPECT_EQ(json["schema"], "nest.plan/3");
    EXPECT_THAT(text(), HasSubstr("</html>"));
  }
}

TEST_F(Html, APlanThatDoesNotFitIsShownToo) {
  const Result result = nest({"eval", "--model", "gpt3-175b", "--cluster", "dgx-a100", "--devices", "16",
                              "--global-batch", "64", "--strategy", "tp=8,pp=2,mbs=1", "--html", page_});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(text(), HasSubstr("does not fit"));
}

TEST_F(Html, ThePageSaysWhatWouldFitWhereNothingDoes) {
  const Result result = nest({"plan", "--model", "gpt3-175b", "--cluster", "dgx-a100", "--devices", "16", "--offload",
                              "never", "--html", page_});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(text(), HasSubstr("No plan fits"));
  EXPECT_THAT(text(), HasSubstr("What would make it fit"));
  std::filesystem::remove(page_);
  EXPECT_EQ(nest(with(kEval, {"--html", page_, "--strategy", "tp=3"})).code, 2);
  EXPECT_EQ(files(), 0U);
}

TEST_F(Html, SaysWhatCannotBeWritten) {
  const std::string nowhere = folder_.file("no/report.html");
  const Result result = nest(with(kEval, {"--html", nowhere}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr(nowhere + ": cannot be written"));
  const Result full = nest(with(kEval, {"--html", "/dev/full"}));
  EXPECT_EQ(full.code, 2);
  EXPECT_THAT(full.err, HasSubstr("/dev/full: cannot be written"));
}

TEST_F(Html, HostileConfigIsText) {
  const std::string config = folder_.file("<script>alert(1)<");
  std::filesystem::create_directories(config);
  const std::string models = R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
      "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 8, "vocab_size": 32000,
      "max_position_embeddings": 2048, "_name_or_path": "</pre><script>alert(1)</script>"})";
  std::ofstream(config + "/config.json") << models;
  const Result result = nest({"eval", "--model", config, "--devices", "8", "--global-batch", "64", "--strategy",
                              "dp=8,mbs=1", "--html", page_});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(text(), Not(HasSubstr("<script")));
  EXPECT_THAT(text(), HasSubstr("&lt;script&gt;alert(1)"));
}

TEST_F(Html, InstancesHaveNoPage) {
  const Result result = nest({"plan", "--instance", "x.json", "--html", page_});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--html: an instance"));
}

}  // namespace
}  // namespace nest::test
