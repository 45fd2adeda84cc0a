// The shell's words, against what bash makes of the same text.
#include "launch/shell.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <functional>

#include "base/error.h"
#include "launch/arithmetic.h"
#include "test_support/growth.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> words_of(const std::string& text, const launch::ShellVariables& variables = {}) {
  const launch::ShellScript script = launch::read_shell("test", text, variables);
  std::vector<std::string> words;
  if (script.commands.empty()) return words;
  for (const launch::ShellWord& word : script.commands.back().words) words.push_back(word.text);
  return words;
}

std::string message_of(const std::string& text) {
  return refusal_of([&] { launch::read_shell("test", text); }, "");
}

TEST(Shell, QuotesAndEscapes) {
  EXPECT_THAT(words_of("run 'a b' \"c d\" e\\ f ''"), ElementsAre("run", "a b", "c d", "e f", ""));
  EXPECT_THAT(words_of("run \"a\\\"b\" 'x'y\"z\""), ElementsAre("run", "a\"b", "xyz"));
  EXPECT_THAT(words_of("run a\\\n  b # comment c\n"), ElementsAre("run", "a", "b"));
  EXPECT_THAT(words_of("run a#b"), ElementsAre("run", "a#b"));
  EXPECT_THAT(words_of("run a > log.txt 2>&1"), ElementsAre("run", "a"));
  EXPECT_THAT(words_of("run a | tee log"), ElementsAre("tee", "log"));
}

TEST(Shell, VariablesAndSplitting) {
  EXPECT_THAT(words_of("A=4; run $A ${A} \"$A x\" '$A'"), ElementsAre("run", "4", "4", "4 x", "$A"));
  EXPECT_THAT(words_of("A='x  y'; run $A \"$A\" p$A"), ElementsAre("run", "x", "y", "x  y", "px", "y"));
  EXPECT_THAT(words_of("A=1\nB=$A$A\nA=2; run $B $A"), ElementsAre("run", "11", "2"));
  EXPECT_THAT(words_of("run ${X:-8} ${Y-9} ${Z:-${W:-5}}"), ElementsAre("run", "8", "9", "5"));
  EXPECT_THAT(words_of("X=3; run ${X:-8} ${X:+yes}"), ElementsAre("run", "3", "yes"));
  EXPECT_THAT(words_of("A=2; B=8; run $((A*B)) $(( (A + 1) * 2 )) $(($A-$B))"), ElementsAre("run", "16", "6", "-6"));
  EXPECT_THAT(words_of("export A=2 B=3; run $A $B"), ElementsAre("run", "2", "3"));
  EXPECT_THAT(words_of("A='--x 1'; A+=' --y'; run $A"), ElementsAre("run", "--x", "1", "--y"));
  EXPECT_THAT(words_of("run $N", {{"N", {{"7", {}, 0}}}}), ElementsAre("run", "7"));
}

TEST(Shell, Arrays) {
  const std::string array = "A=(\n  --a 1 # one\n  --b='x y'\n)\n";
  EXPECT_THAT(words_of(array + "run ${A[@]}"), ElementsAre("run", "--a", "1", "--b=x", "y"));
  EXPECT_THAT(words_of(array + "run \"${A[@]}\" end"), ElementsAre("run", "--a", "1", "--b=x y", "end"));
  EXPECT_THAT(words_of(array + "A+=(--c)\nrun \"${A[@]}\""), ElementsAre("run", "--a", "1", "--b=x y", "--c"));
  EXPECT_THAT(words_of("declare -a A=(p q)\nrun ${A[@]}"), ElementsAre("run", "p", "q"));
  EXPECT_THAT(words_of("set -- u 'v w'\nrun \"$@\""), ElementsAre("run", "u", "v w"));
}

TEST(Shell, WhatIsNotKnownStaysAndIsNamed) {
  const launch::ShellScript script =
      launch::read_shell("test", "B=\"--host $HOST --n 4\"\nrun $B $(nproc --all) ${A[@]} ${V%x}");
  ASSERT_EQ(script.commands.size(), 1U);
  const auto& words = script.commands[0].words;
  ASSERT_EQ(words.size(), 8U);
  EXPECT_EQ(words[2].text, "$HOST");
  EXPECT_THAT(words[2].unknown, ElementsAre("$HOST"));
  EXPECT_TRUE(words[1].unknown.empty());
  EXPECT_TRUE(words[4].unknown.empty());
  EXPECT_EQ(words[4].text, "4");
  EXPECT_THAT(words[5].unknown, ElementsAre("$(nproc_--all)"));
  EXPECT_THAT(words[6].unknown, ElementsAre("${A[@]}"));
  EXPECT_THAT(words[7].unknown, ElementsAre("${V%x}"));
}

TEST(Shell, WhatMayNotHappenIsNotKnown) {
  const std::string text = "TP=1\nif [ $X = 1 ]; then\n  TP=8\nfi\nPP=4\nrun $TP $PP";
  EXPECT_THAT(words_of(text), ElementsAre("run", "$TP", "4"));
  EXPECT_THAT(words_of("for i in 1 2; do N=$i; done\nN=3\nrun $N"), ElementsAre("run", "3"));
  EXPECT_THAT(words_of("if true; then A=1; fi\nrun ${A:-2}"), ElementsAre("run", "$A"));
}

TEST(Shell, ConditionsOfWhatIsKnownAreFollowed) {
  const auto branch = [](const std::string& condition) {
    return words_of("A=2\nB=x\nif " + condition + "; then R=yes; else R=no; fi\nrun $R").at(1);
  };
  for (const char* holds : {"[ $A = 2 ]", "[ \"$A\" == \"2\" ]", "[[ $B != y ]]", "test $A -ge 2", "[ $A -lt 3 ]",
                            "[ -n \"$B\" ]", "[ ! -z $B ]", "[ ! $A -gt 2 ]"}) {
    EXPECT_EQ(branch(holds), "yes") << holds;
  }
  for (const char* fails : {"[ $A = 3 ]", "[ $A -ne 2 ]", "[[ -z $B ]]", "[ $A -gt 2 ]", "[ ! $A -eq 2 ]"}) {
    EXPECT_EQ(branch(fails), "no") << fails;
  }
  for (const char* open : {"[ $X = 2 ]", "[ -f file ]", "[[ $B == x* ]]", "[ $A = 2 ] && [ $X = 1 ]", "true",
                           "[[ $A == 2 && $X == 1 ]]", "[ $B -eq 2 ]", "nvidia-smi"}) {
    EXPECT_EQ(branch(open), "$R") << open;
  }
  EXPECT_THAT(words_of("A=3\nif [ $A = 1 ]; then R=1\nelif [ $A = 3 ]; then R=3\nelse R=9\nfi\nrun $R"),
              ElementsAre("run", "3"));
  EXPECT_THAT(words_of("A=3\nif [ $X = 1 ]; then R=1\nelif [ $A = 3 ]; then R=3\nfi\nrun $R"),
              ElementsAre("run", "$R"));
  // Options that are appended where a condition holds; programs of branches that do not run are none.
  EXPECT_THAT(
      words_of("A=1\nW=(a)\nif [ $A = 1 ]; then\n  W+=(b c)\nfi\nif [ $A = 2 ]; then other; fi\nrun \"${W[@]}\""),
      ElementsAre("run", "a", "b", "c"));
  EXPECT_THAT(words_of("E=()\nrun a \"${E[@]}\" b ${E[@]}"), ElementsAre("run", "a", "b"));
}

TEST(Shell, OtherFilesAndWhatIsGiven) {
  launch::ShellContext context;
  context.variables["TP"] = {{"2", {}, 0}};
  context.fixed = {"TP"};
  context.read_file = [](const std::string& name) -> std::optional<std::string> {
    if (name == "env.sh") return "PP=4\nTP=8\nDP=$((PP*2))\n";
    if (name == "loop.sh") return "source loop.sh\n";
    return std::nullopt;
  };
  const launch::ShellScript script =
      launch::read_shell("test", "TP=16\nsource env.sh\n. ./missing.sh\nrun $TP $PP $DP", context);
  ASSERT_EQ(script.commands.size(), 1U);
  std::vector<std::string> words;
  for (const launch::ShellWord& word : script.commands[0].words) words.push_back(word.text);
  EXPECT_THAT(words, ElementsAre("run", "2", "4", "8"));
  const launch::ShellScript maybe = launch::read_shell("test", "if [ $X = 1 ]; then . env.sh; fi\nrun $PP", context);
  EXPECT_THAT(maybe.commands.back().words[1].unknown, ElementsAre("$PP"));
  EXPECT_THROW(launch::read_shell("test", "source loop.sh", context), InputError);
}

TEST(Shell, JobsThatAreSubmittedFromHere) {
  const launch::ShellScript script = launch::read_shell(
      "test",
      "N=4\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\nrun $N \\$SLURM_PROCID\nEOF\ncat <<EOF\nother\nEOF\n");
  ASSERT_EQ(script.commands.size(), 3U);
  EXPECT_EQ(script.commands[0].words[0].text, "run");
  EXPECT_EQ(script.commands[0].words[1].text, "4");
  EXPECT_THAT(script.commands[0].words[2].unknown, ElementsAre("$SLURM_PROCID"));
  ASSERT_EQ(script.sbatch.size(), 1U);
  EXPECT_EQ(script.commands[2].words[0].text, "cat");
}

TEST(Shell, HereDocumentsAndBatchLines) {
  const launch::ShellScript script =
      launch::read_shell("test", "#SBATCH --nodes=4 -J x\n#SBATCH --gpus-per-node 8\ncat <<EOF > f\nA=9 (\nEOF\nrun a");
  ASSERT_EQ(script.commands.size(), 2U);
  EXPECT_EQ(script.commands[1].words[0].text, "run");
  EXPECT_EQ(script.commands[1].line, 6);
  ASSERT_EQ(script.sbatch.size(), 5U);
  EXPECT_EQ(script.sbatch[0].text, "--nodes=4");
}

std::string times(const std::string& piece, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

// What a stranger may write: time grows as the text does, and what is expanded has one budget.
TEST(Shell, TimeIsLinear) {
  const std::vector<std::pair<const char*, std::function<std::string(std::size_t)>>> texts = {
      {"unknown words", [](std::size_t n) { return "A=\"" + times("$U ", n) + "\"\nrun $A\n"; }},
      {"different unknown words",
       [](std::size_t n) {
         std::string value;
         for (std::size_t k = 0; value.size() < n; ++k) value += fmt::format("$U{} ", k);
         return "A=\"" + value + "\"\nrun $A\n";
       }},
      {"keywords", [](std::size_t n) { return times("if ", n) + "\n"; }},
      {"nested conditions", [](std::size_t n) { return times("if\n", n); }},
      {"negations", [](std::size_t n) { return times("! ", n) + "A=1\n"; }},
      {"escapes in a document", [](std::size_t n) { return "sbatch <<E\n" + times("\\$", n) + "\nE\n"; }},
      {"commands", [](std::size_t n) { return times("run a b;", n); }},
      {"assignments", [](std::size_t n) { return times("A=1 ", n) + "\n"; }},
      {"arrays", [](std::size_t n) { return "A=(" + times("x ", n) + ")\nrun ${A[@]}\n"; }},
      {"comments", [](std::size_t n) { return times("#SBATCH a\n", n); }},
      {"brackets", [](std::size_t n) { return times("$(a)", n); }}};
  for (const auto& [name, text] : texts) {
    const double ratio = growth(
        [&](std::size_t n) {
          try {
            launch::read_shell("test", text(n), launch::ShellVariables{});
          } catch (const InputError&) {  // too much: soon said
          }
        },
        1U << 12U, 1U << 19U);
    EXPECT_LT(ratio, kLinear) << name;
  }
}

TEST(Shell, DocumentsShareOneBudget) {
  // Every job that is submitted begins with all variables.
  std::string text;
  for (int k = 0; k < 3000; ++k) text += fmt::format("V{}=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", k);
  text += times("sbatch <<E\nE\n", 100'000);
  EXPECT_THAT(message_of(text), HasSubstr("more text than is allowed"));
}

TEST(Shell, NamesTheLineOfAMistake) {
  EXPECT_THAT(message_of("a\nb 'c\nd"), HasSubstr("test: line 2: the quote ' is never closed"));
  EXPECT_THAT(message_of("a\n\nA=( x\n"), HasSubstr("line 3"));
  EXPECT_THAT(message_of("a \"$(b\""), HasSubstr("never closed"));
  std::string growing = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) growing += "A=$A$A\n";
  EXPECT_THAT(message_of(growing), HasSubstr("more text than is allowed"));
}

TEST(Shell, ArgumentFilesAreNoScripts) {
  const auto words = launch::read_arguments("f.args", "--layout Et*3|(tt|)*4,m|L # not this\n--name 'a b'\n--x $Y\n");
  ASSERT_EQ(words.size(), 6U);
  EXPECT_EQ(words[1].text, "Et*3|(tt|)*4,m|L");
  EXPECT_EQ(words[3].text, "a b");
  EXPECT_EQ(words[3].line, 2);
  EXPECT_THAT(words[5].unknown, ElementsAre("$Y"));
  EXPECT_THROW(launch::read_arguments("f.args", "--a 'b"), InputError);
}

TEST(Arithmetic, WholeNumbersOnly) {
  const launch::NumberOf none = [](std::string_view name) -> std::optional<std::int64_t> {
    return name == "N" ? std::optional<std::int64_t>(5) : std::nullopt;
  };
  EXPECT_EQ(launch::evaluate_arithmetic("2 + 3 * (4 - 1) / 2 % 3", none), 3);
  EXPECT_EQ(launch::evaluate_arithmetic("-$N + ${N} * N", none), 20);
  EXPECT_EQ(launch::evaluate_arithmetic("1 / 0", none), std::nullopt);
  EXPECT_EQ(launch::evaluate_arithmetic("M + 1", none), std::nullopt);
  EXPECT_EQ(launch::evaluate_arithmetic("9223372036854775807 + 1", none), std::nullopt);
  EXPECT_EQ(launch::evaluate_arithmetic("4 << 2", none), std::nullopt);
  EXPECT_EQ(launch::evaluate_arithmetic("", none), std::nullopt);
}

}  // namespace
}  // namespace nest::test
