// nest import, as people and scripts call it; and the examples of docs/import.md.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../importer/uneven_topology.h"
#include "golden.h"
#include "program.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string sample(const std::string& name) {
  return (source_dir() / "tests" / "importer" / "samples" / name).string();
}

// A folder of its own, gone afterwards.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("nest-import-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  const std::filesystem::path& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::filesystem::path path_;
};

const std::vector<std::string> kRacks = {"--device",    "h100",         "--devices-per-node", "8",
                                         "--bandwidth", "leaf=400Gbps", "--bandwidth",        "spine=1.6Tbps",
                                         "--bandwidth", "core=800Gbps"};

std::vector<std::string> racks(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"import", sample("racks.conf")};
  arguments.insert(arguments.end(), kRacks.begin(), kRacks.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Import, NamesExactlyWhatIsMissing) {
  const Result result = nest({"import", sample("racks.conf"), "--device", "h100"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.out, IsEmpty());
  EXPECT_THAT(result.err, HasSubstr("racks.conf: more must be known; add"));
  EXPECT_THAT(result.err, HasSubstr("--devices-per-node 8"));
  EXPECT_THAT(result.err, HasSubstr("--bandwidth leaf=400Gbps"));
  EXPECT_THAT(result.err, HasSubstr("--bandwidth spine=400Gbps"));
  EXPECT_THAT(result.err, HasSubstr("--bandwidth core=400Gbps"));
  EXPECT_THAT(result.err, Not(HasSubstr("--bandwidth node")));
}

TEST(Import, WritesAFileThatTheOthersRead) {
  const Folder folder;
  const std::string file = folder.file("mine.yaml");
  const Result result = nest(racks({"-o", file}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("mine: 72 x NVIDIA H100"));
  EXPECT_THAT(result.out, HasSubstr("16-32 devices"));
  EXPECT_THAT(result.out, HasSubstr("gpu[01-07],old[8-9]"));
  expect_fits_screen(nest(racks({})).out);
  const Result shown = nest({"show", file, "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(nlohmann::json::parse(shown.out).at("devices"), 72);
  const Result printed = nest(racks({"-o", "-"}));
  EXPECT_THAT(printed.out, HasSubstr("counts: [4, 3, 2]"));
}

TEST(Import, Json) {
  const Result result = nest(racks({"--json"}));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, IsEmpty());
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json.at("schema"), "nest.import/1");
  EXPECT_EQ(json.at("nodes"), 9);
  EXPECT_EQ(json.at("levels").at(1).at("children"), nlohmann::json({4, 3, 2}));
  EXPECT_EQ(json.at("levels").at(1).at("bandwidth_bytes_per_s"), 50000000000);
  EXPECT_EQ(json.at("levels").at(1).at("bandwidth_from"), "given");
}

TEST(Import, FailuresLeaveNothingBehind) {
  const Folder folder;
  const std::string bad = folder.file("bad.conf");
  std::ofstream(bad) << "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[1-\n";
  const std::string target = folder.file("cluster.yaml");
  const Result result = nest({"import", bad, "--device", "h100", "-o", target});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("bad.conf:2: host list `n[1-`"));
  EXPECT_FALSE(std::filesystem::exists(target));
  std::ofstream(target) << "mine";
  EXPECT_EQ(nest({"import", bad, "-o", target}).code, 2);
  EXPECT_EQ(read_file(target), "mine");
  EXPECT_EQ(nest(racks({"-o", folder.file("no/such/folder.yaml")})).code, 2);
}

TEST(Import, BadOptions) {
  const auto refused = [](const std::vector<std::string>& more) {
    const Result result = nest(racks(more));
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_THAT(refused({"--bandwidth", "leaf"}), HasSubstr("not LEVEL=VALUE"));
  EXPECT_THAT(refused({"--bandwidth", "laef=1GB/s"}), HasSubstr("did you mean `leaf`"));
  EXPECT_THAT(refused({"--bandwidth", "leaf=1GB/s"}), HasSubstr("`leaf` is given twice"));
  EXPECT_THAT(refused({"--bandwidth", "node=fast"}), HasSubstr("--bandwidth node=fast: `fast` is not a bandwidth"));
  EXPECT_THAT(refused({"--bandwidth", "node=0"}), HasSubstr("more than 0"));
  EXPECT_THAT(refused({"--latency", "leaf=5"}), HasSubstr("more than 1 s"));
  EXPECT_THAT(refused({"--devices-per-node", "old[8-9=4"}), HasSubstr("--devices-per-node: host list"));
  EXPECT_THAT(refused({"--devices-per-node", "many"}), HasSubstr("`many` is not a number"));
  EXPECT_THAT(refused({"--exclude", "x[1-"}), HasSubstr("--exclude: host list"));
  EXPECT_THAT(refused({"--format", "nccl"}), AllOf(HasSubstr("racks.conf:"), HasSubstr("expected an element")));
  EXPECT_THAT(nest({"import", "/dev/null"}).err, HasSubstr("not recognised"));
  EXPECT_THAT(nest({"import", "/no/such/file"}).err, HasSubstr("cannot be read"));
  EXPECT_THAT(nest({"import", sample("racks.conf"), "--device", "h1000"}).err, HasSubstr("did you mean"));
}

TEST(Import, PlansOnAThousandUnevenNodes) {
  const Folder folder;
  std::ofstream(folder.file("topology.conf")) << uneven_topology(1000, 7).conf;
  const Result imported = nest({"import", folder.file("topology.conf"), "--device", "h100", "--devices-per-node", "8",
                                "--rails", "leaf", "--bandwidth", "leaf=400Gbps", "--bandwidth", "spine=25.6Tbps",
                                "--bandwidth", "core=100Tbps", "-o", folder.file("cluster.yaml")});
  ASSERT_EQ(imported.code, 0) << imported.err;
  const Result planned = nest({"plan", "--cluster", folder.file("cluster.yaml"), "--model", "llama3-70b",
                               "--global-batch", "4096", "--no-why", "--json"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  const auto plan = nlohmann::json::parse(planned.out);
  EXPECT_TRUE(plan.at("search").at("optimal").get<bool>());
}

// Every "$ " line of docs/import.md, run in a copy of the samples, prints what the document shows below it.
TEST(Import, DocumentationShowsWhatTheProgramPrints) {
  const std::filesystem::path document = source_dir() / "docs" / "import.md";
  const Folder folder;
  for (const auto& entry : std::filesystem::directory_iterator(sample(""))) {
    std::filesystem::copy(entry.path(), folder.path() / entry.path().filename());
  }
  const std::string program = std::filesystem::path(program_path()).parent_path().string();
  const std::string text = read_file(document);
  std::string fresh;
  bool inside = false;
  bool keep = true;
  for (const std::string& line : lines(text)) {
    if (inside && line == "```") {
      inside = false;
      keep = true;
    }
    if (inside && line.starts_with("$ ")) {
      const std::string script = "PATH='" + program + "':\"$PATH\"\ncd '" + folder.path().string() + "'\nexec 2>&1\n";
      fresh += line + '\n' + run({.arguments = {"-c", script + line.substr(2)}, .program = "sh"}).out;
      keep = false;
      continue;
    }
    if (line == "```console") inside = true;
    if (keep) fresh += line + '\n';
  }
  if (const char* update = std::getenv("NEST_UPDATE_GOLDEN"); update && std::string(update) == "1") {
    std::ofstream(document, std::ios::binary) << fresh;
    return;
  }
  EXPECT_EQ(text, fresh) << "if the change is meant, run with NEST_UPDATE_GOLDEN=1";
}

}  // namespace
}  // namespace nest::test
