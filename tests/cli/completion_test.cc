#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "program.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// What bash offers for a line whose last word is being typed.
std::vector<std::string> bash_offers(const std::vector<std::string>& words) {
  std::string script = "eval \"$(" + program_path() + " completion bash)\"\nCOMP_WORDS=(";
  for (const std::string& word : words) script += " '" + word + "'";
  script += ")\nCOMP_CWORD=" + std::to_string(words.size() - 1) + "\n_nest\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
  const Result result = run({.arguments = {"--norc", "--noprofile", "-c", script}, .program = "bash"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, IsEmpty());
  std::vector<std::string> offers = lines(result.out);
  if (offers == std::vector<std::string>{""}) offers.clear();
  return offers;
}

TEST(BashCompletion, OffersSubcommands) {
  EXPECT_THAT(bash_offers({"nest", ""}), IsSupersetOf({"show", "completion"}));
  EXPECT_THAT(bash_offers({"nest", "sho"}), ElementsAre("show"));
  EXPECT_THAT(bash_offers({"nest", "--ver"}), ElementsAre("--version"));
}

TEST(BashCompletion, OffersOptionsAndTheirChoices) {
  EXPECT_THAT(bash_offers({"nest", "show", "--rec"}), ElementsAre("--recompute"));
  EXPECT_THAT(bash_offers({"nest", "show", "llama3-70b", "--recompute", ""}), ElementsAre("none", "selective", "full"));
  EXPECT_THAT(bash_offers({"nest", "show", "--recompute", "s"}), ElementsAre("selective"));
  EXPECT_THAT(bash_offers({"nest", "show", "--recompute", "=", "f"}), ElementsAre("full"));
  EXPECT_THAT(bash_offers({"nest", "show", "--recompute", "="}), ElementsAre("none", "selective", "full"));
  EXPECT_THAT(bash_offers({"nest", "--color", "al"}), ElementsAre("always"));
  EXPECT_THAT(bash_offers({"nest", "show", "--seq", ""}), IsEmpty());
  EXPECT_THAT(bash_offers({"nest", "show", "--"}), Contains("--json"));
  EXPECT_THAT(bash_offers({"nest", "completion", "--"}), Not(Contains("--seq")));
}

TEST(BashCompletion, OffersNames) {
  EXPECT_THAT(bash_offers({"nest", "show", "llama3-"}), IsSupersetOf({"llama3-8b", "llama3-70b", "llama3-405b"}));
  EXPECT_THAT(bash_offers({"nest", "show", "--json", "mod"}), ElementsAre("models"));
  EXPECT_THAT(bash_offers({"nest", "show", "h10"}), Contains("h100"));
  EXPECT_THAT(bash_offers({"nest", "completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST(Completion, IsJsonOnDemand) {
  const Result result = nest({"completion", "fish", "--json"});
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema"], "nest.completion/1");
  EXPECT_EQ(json["script"], nest({"completion", "fish"}).out);
}

bool installed(const std::string& shell) {
  return run({.arguments = {"-c", "command -v " + shell}, .program = "sh"}).code == 0;
}

TEST(ZshCompletion, OffersNamesAndChoices) {
  if (!installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  EXPECT_EQ(run({.arguments = {"-n", "-c", nest({"completion", "zsh"}).out}, .program = "zsh"}).code, 0);
  // compdef needs the completion system; loading must not print anything.
  const Result loaded = run({.arguments = {"-f", "-c",
                                           "autoload -Uz compinit; compinit -D -u; eval \"$(" + program_path() +
                                               " completion zsh)\"; print $_comps[nest]"},
                             .program = "zsh"});
  EXPECT_EQ(loaded.code, 0);
  EXPECT_THAT(loaded.err, IsEmpty());
  EXPECT_EQ(loaded.out, "_nest\n");
}

TEST(FishCompletion, OffersNamesAndChoices) {
  if (!installed("fish")) GTEST_SKIP() << "fish is not installed";
  const auto offers = [](const std::string& line) {
    const Result result = run(
        {.arguments = {"--no-config", "-c", program_path() + " completion fish | source; complete -C '" + line + "'"},
         .environment = {{"HOME", ::testing::TempDir()}},
         .program = "fish"});
    std::vector<std::string> words;
    for (const std::string& entry : lines(result.out)) words.push_back(entry.substr(0, entry.find('\t')));
    return words;
  };
  EXPECT_THAT(offers("nest sho"), ElementsAre("show"));
  EXPECT_THAT(offers("nest show llama3-"), IsSupersetOf({"llama3-8b", "llama3-70b", "llama3-405b"}));
  EXPECT_THAT(offers("nest show --recompute "), UnorderedElementsAre("none", "selective", "full"));
  EXPECT_THAT(offers("nest show --rec"), ElementsAre("--recompute"));
}

}  // namespace
}  // namespace nest::test
