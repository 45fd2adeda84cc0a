#include <unistd.h>

#include <gmock/gmock.h>

#include <fstream>

#include "program.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// Exit 2, nothing on standard output, and a message that starts with the program's name.
std::string refusal(const Call& call) {
  const Result result = run(call);
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, StartsWith("nest: "));
  EXPECT_THAT(result.err, Not(HasSubstr("bug")));
  return result.err;
}

std::string refusal(const std::vector<std::string>& arguments) { return refusal(Call{.arguments = arguments}); }

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text, const std::string& ending = ".json")
      : path_((std::filesystem::path(::testing::TempDir()) / ("nest-cli-bad-" + std::to_string(::getpid()) + ending))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Usage, UnknownSubcommand) {
  EXPECT_EQ(refusal({"shwo"}), "nest: unknown subcommand \"shwo\"; did you mean `show`?\nTry `nest --help`.\n");
  EXPECT_THAT(refusal({"llama3-70b"}), HasSubstr("did you mean `nest plan llama3-70b`?"));
  EXPECT_THAT(refusal({"zzzzzz"}), HasSubstr("; there is "));
  EXPECT_THAT(refusal({"--color", "never"}), HasSubstr("a subcommand is missing"));
}

TEST(Usage, UnknownOption) {
  EXPECT_EQ(refusal({"show", "llama3-70b", "--sq", "4096"}),
            "nest: unknown option --sq; did you mean `--seq`?\nTry `nest show --help`.\n");
  EXPECT_THAT(refusal({"show", "--sq", "4096", "llama3-70b"}), HasSubstr("unknown option --sq"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "--microbatch=2"}), HasSubstr("did you mean `--micro-batch`?"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "--jsn"}), HasSubstr("did you mean `--json`?"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "-x"}), HasSubstr("unknown option -x"));
  EXPECT_THAT(refusal({"--verson"}), HasSubstr("did you mean `--version`?"));
}

TEST(Usage, BadValues) {
  EXPECT_THAT(refusal({"show", "llama3-70b", "--tp", "two"}),
              HasSubstr("--tp: \"two\" is not a whole number in 1 … 65,536"));
  for (const std::string value : {"0", "-1", "2.5", "1e3", "", " 4", "4x", "99999999999999999999"}) {
    EXPECT_THAT(refusal({"show", "llama3-70b", "--tp=" + value}), HasSubstr("--tp")) << value;
  }
  EXPECT_THAT(refusal({"show", "llama3-70b", "--recompute", "fll"}),
              HasSubstr("--recompute: \"fll\" is not one of none, selective or full; did you mean `full`?"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "--tp"}), HasSubstr("--tp: a value must follow"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "--tp", "2", "--tp", "4"}), HasSubstr("--tp: is given more than once"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "h100"}), HasSubstr("one argument too many: \"h100\""));
  EXPECT_THAT(refusal({"show", "h100", "--tp", "2"}), HasSubstr("--tp: is for models only"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "--devices", "8"}), HasSubstr("--devices: is for clusters only"));
  EXPECT_THAT(refusal({"show", "h100", "--devices", "8"}), HasSubstr("--devices: is for clusters only"));
  EXPECT_THAT(refusal({"show", "clusters", "--devices", "8"}), HasSubstr("--devices: is for one cluster only"));
  EXPECT_THAT(refusal({"completion", "bsh"}), HasSubstr("did you mean `bash`?"));
  EXPECT_THAT(refusal({"completion"}), HasSubstr("SHELL is missing; allowed is bash, zsh or fish"));
}

TEST(Names, CloseOnesAreListed) {
  EXPECT_THAT(refusal({"show", "lama3-70b"}), HasSubstr("did you mean `llama3-70b`"));
  EXPECT_THAT(refusal({"show", "llama3"}), HasSubstr("`llama3-8b`, `llama3-70b`"));
  EXPECT_THAT(refusal({"show", "tpuv"}), HasSubstr("(device)"));
  EXPECT_THAT(refusal({"show", "zzzzzz"}), HasSubstr("`nest show` lists all names"));
  EXPECT_THAT(refusal({"show", std::string(100'000, 'x')}), Not(HasSubstr(std::string(1000, 'x'))));
  EXPECT_THAT(refusal({"show", "\x1b[31mred\xFF"}), Not(HasSubstr("\x1b")));
}

TEST(Files, ThatCannotBeRead) {
  EXPECT_THAT(refusal({"show", "/nowhere/config.json"}), HasSubstr("/nowhere/config.json: no such file or folder"));
  EXPECT_THAT(refusal({"show", "missing.json"}), HasSubstr("missing.json: no such file or folder"));
  EXPECT_THAT(refusal({"show", "/"}), HasSubstr("the folder holds no config.json"));
  EXPECT_THAT(refusal({"show", "/dev/zero"}), HasSubstr("is larger than 64.0 MiB"));
  EXPECT_THAT(refusal({"show", "/dev/null"}), HasSubstr("the file is empty"));
}

TEST(Files, ThatAreNotModels) {
  EXPECT_EQ(refusal({"show", "-"}), "nest: standard input: the file is empty; expected a JSON object\n");
  EXPECT_THAT(refusal(Call{.arguments = {"show", "-"}, .input = "[1, 2]"}),
              HasSubstr("standard input: expected an object"));
  EXPECT_THAT(refusal(Call{.arguments = {"show", "-"}, .input = R"({"model_type": "llama"})"}),
              MatchesRegex("nest: standard input: [^\n]*\n(\n(.|\n)*)?"));
  const TemporaryFile binary(std::string("\x7F\x45\x4C\x46\x02\x01\x00\xFF\xFE", 9));
  EXPECT_THAT(refusal({"show", binary.path()}), StartsWith("nest: " + binary.path()));
  EXPECT_THAT(refusal({"show", program_path()}), StartsWith("nest: "));
}

TEST(Files, MistakesAreShownInTheirLine) {
  const TemporaryFile file("{\n  \"model_type\": \"llama\",\n  \"hidden_size\": \"big\"\n}\n");
  const std::string message = refusal({"show", file.path()});
  EXPECT_THAT(message, HasSubstr("hidden_size: found \"big\"; expected an integer"));
  EXPECT_THAT(message, HasSubstr("\n\n   3 |   \"hidden_size\": \"big\"\n"));
}

TEST(Files, ThatAreNotClusters) {
  const TemporaryFile file("device: h100\nlevels:\n  - {name: node, group: 8, bandwidth: fast, latency: 1us}\n",
                           ".yaml");
  const std::string message = refusal({"show", file.path()});
  EXPECT_THAT(message, HasSubstr("levels[0].bandwidth"));
  EXPECT_THAT(message, HasSubstr("\n\n   3 | "));
}

TEST(Splits, ThatAreImpossible) {
  EXPECT_EQ(refusal({"show", "llama3-70b", "--tp", "3"}),
            "nest: llama3-70b: tp=3 does not divide the 64 attention heads\n");
  EXPECT_THAT(refusal({"show", "llama3-70b", "--ep", "2"}), HasSubstr("dense"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "--sp"}), HasSubstr("sp"));
  EXPECT_THAT(refusal({"show", "llama3-70b", "--cp", "3", "--seq", "8192"}), HasSubstr("cp=3"));
}

TEST(Output, ReaderThatLeavesEarlyIsNoError) {
  const Result result = run({.arguments = {"show", "deepseek-v3", "--json"}, .sink = Sink::closed_pipe});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, IsEmpty());
}

TEST(Output, FullDiskIsReported) {
  const Result result = run({.arguments = {"show", "models"}, .sink = Sink::full_disk});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "nest: cannot write to standard output: No space left on device\n");
}

TEST(Output, ColoursOnlyOnATerminal) {
  const std::vector<std::string> show = {"show", "llama3-8b"};
  const auto colours = [&](std::map<std::string, std::string> environment, Sink sink, const std::string& mode) {
    Call call{.arguments = show, .environment = std::move(environment), .sink = sink};
    if (!mode.empty()) call.arguments.push_back("--color=" + mode);
    const Result result = run(call);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("parameters"));
    return result.out.find('\x1b') != std::string::npos;
  };
  EXPECT_TRUE(colours({}, Sink::terminal, ""));
  EXPECT_FALSE(colours({}, Sink::pipe, ""));
  EXPECT_FALSE(colours({{"NO_COLOR", "1"}}, Sink::terminal, ""));
  EXPECT_TRUE(colours({{"NO_COLOR", ""}}, Sink::terminal, ""));
  EXPECT_FALSE(colours({{"TERM", "dumb"}}, Sink::terminal, ""));
  EXPECT_FALSE(colours({}, Sink::terminal, "never"));
  EXPECT_TRUE(colours({{"NO_COLOR", "1"}}, Sink::pipe, "always"));
}

TEST(Output, ColourChangesNothingElse) {
  std::string coloured = run({.arguments = {"show", "llama3-8b", "--color", "always"}}).out;
  for (std::size_t at; (at = coloured.find('\x1b')) != std::string::npos;)
    coloured.erase(at, coloured.find('m', at) - at + 1);
  EXPECT_EQ(coloured, nest({"show", "llama3-8b"}).out);
}

TEST(Output, JsonIsNeverColoured) {
  const Result result = run({.arguments = {"show", "llama3-8b", "--json", "--color", "always"}});
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace nest::test
