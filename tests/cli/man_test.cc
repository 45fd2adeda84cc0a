#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::vector<std::string> subcommands() {
  std::vector<std::string> names;
  for (const std::string& line : lines(nest({"man"}).out)) {
    const std::string begin = "\\fBnest\\-";
    if (line.starts_with(begin)) names.push_back(line.substr(begin.size(), line.find("\\fR") - begin.size()));
  }
  return names;
}

TEST(Man, HasAPageForTheProgramAndForEverySubcommand) {
  const std::string help = nest({"--help"}).out;
  const std::vector<std::string> names = subcommands();
  EXPECT_THAT(names, Contains("plan"));
  EXPECT_THAT(names, Contains("man"));
  for (const std::string& name : names) {
    EXPECT_THAT(help, HasSubstr("\n  " + name + " "));
    const Result page = nest({"man", name});
    EXPECT_EQ(page.code, 0) << name;
    EXPECT_THAT(page.out, StartsWith(".TH NEST-")) << name;
    for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"}) {
      EXPECT_THAT(page.out, HasSubstr(std::string(".SH ") + section)) << name;
    }
  }
}

TEST(Man, SaysWhatHelpSays) {
  const std::string page = nest({"man", "plan"}).out;
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-global\\-batch"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-json\\fR"));
  EXPECT_THAT(nest({"man"}).out, HasSubstr(".SH EXIT STATUS"));
}

TEST(Man, MistakesAndJson) {
  const Result refused = nest({"man", "plam"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("did you mean `plan`?"));
  const auto json = nlohmann::json::parse(nest({"man", "plan", "--json"}).out);
  EXPECT_EQ(json["schema"], "nest.man/1");
  EXPECT_EQ(json["page"], "nest-plan");
  EXPECT_EQ(json["roff"], nest({"man", "plan"}).out);
}

TEST(Man, GroffHasNothingToSay) {
  if (run({.arguments = {"--version"}, .program = "groff"}).code != 0) GTEST_SKIP() << "groff is not installed";
  std::vector<std::string> names = subcommands();
  names.emplace_back();
  for (const std::string& name : names) {
    const Result shown = run({.arguments = {"-man", "-Tutf8", "-Kutf8", "-ww"},
                              .input = name.empty() ? nest({"man"}).out : nest({"man", name}).out,
                              .program = "groff"});
    EXPECT_EQ(shown.code, 0) << name;
    EXPECT_THAT(shown.err, IsEmpty()) << name;
  }
}

}  // namespace
}  // namespace nest::test
