// nest plan --largest, as people and scripts call it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden.h"
#include "program.h"

namespace nest::test {
namespace {

using testing::HasSubstr;

std::vector<std::string> largest(const std::vector<std::string>& more) {
  std::vector<std::string> call = {"plan", "--model", "llama3-8b", "--no-why", "--judge", "formula"};
  call.insert(call.end(), more.begin(), more.end());
  return call;
}

// What it told fits, and a step more does not.
TEST(Largest, SequenceFitsAndALongerOneDoesNot) {
  const Result result =
      nest(largest({"--devices", "4", "--global-batch", "8", "--largest", "seq", "--multiple-of", "8192", "--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  const auto answer = nlohmann::json::parse(result.out).at("largest");
  EXPECT_TRUE(answer.at("proven").get<bool>());
  const auto value = answer.at("value").get<std::int64_t>();
  EXPECT_EQ(value % 8192, 0);
  const auto fits = [&](std::int64_t seq) {
    return nest(largest({"--devices", "4", "--global-batch", "8", "--seq", std::to_string(seq), "--offload", "never"}))
        .code;
  };
  EXPECT_EQ(fits(value), 0);
  EXPECT_EQ(fits(value + 8192), 3);
}

TEST(Largest, IsSaidInWords) {
  const Result batch = nest(largest({"--devices", "2", "--seq", "4096", "--largest", "batch"}));
  ASSERT_EQ(batch.code, 0) << batch.err;
  EXPECT_THAT(batch.out, HasSubstr("The largest batch that fits in one pass is "));
  EXPECT_THAT(batch.out, HasSubstr("Proven by "));
  expect_fits_screen(batch.out);
  const Result layers = nest(largest({"--devices", "4", "--largest", "layers"}));
  ASSERT_EQ(layers.code, 0) << layers.err;
  EXPECT_THAT(layers.out, HasSubstr("The deepest such model that fits has "));
  expect_fits_screen(layers.out);
}

TEST(Largest, WhereNothingFitsItSaysWhatLacks) {
  const Result result =
      nest({"plan", "--model", "llama3-405b", "--devices", "8", "--largest", "seq", "--offload", "never"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.out, HasSubstr("Not even sequences of 1,024 tokens fit."));
  EXPECT_THAT(result.out, HasSubstr("needs"));
  EXPECT_THAT(result.err, HasSubstr("no plan fits"));
}

TEST(Largest, MistakesAreOneMessage) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> mistakes = {
      {{"--largest", "width"}, "--largest: "},
      {{"--largest", "seq", "--seq", "4096"}, "--seq: is what is asked for; leave it out"},
      {{"--largest", "batch", "--global-batch", "4"}, "--global-batch: is what is asked for; leave it out"},
      {{"--largest", "batch", "--mbs", "4"}, "--mbs: all sequences pass at once here; leave it out"},
      {{"--largest", "batch", "--multiple-of", "4"}, "--multiple-of: every batch is looked at; leave it out"},
      {{"--multiple-of", "4"}, "--multiple-of: of what? Give --largest"},
      {{"--largest", "seq", "--deadline", "3d"}, "--deadline: not together with --largest"},
      {{"--largest", "seq", "--sensitivity"}, "--sensitivity: not together with --largest"},
  };
  for (const auto& [words, message] : mistakes) {
    const Result result = nest(largest(words));
    EXPECT_EQ(result.code, 2) << message;
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace nest::test
