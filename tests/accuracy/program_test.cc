// The program on folders of every kind.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "test_support/data.h"

namespace nest::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class AccuracyProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("nest-accuracy-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path data() const { return folder_ / "data"; }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((data() / name).parent_path());
    std::ofstream(data() / name, std::ios::binary) << text;
  }

  // Exit status; the figures are in json() and the page in page() afterwards.
  int run(const std::string& arguments) const {
    const std::string command = std::string(NEST_ACCURACY_PROGRAM) + " " + arguments + " --json " +
                                (folder_ / "out.json").string() + " --markdown " + (folder_ / "out.md").string() +
                                " --plots " + (folder_ / "plots").string() + " 2>/dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  int run_on_data() const { return run("--data " + data().string()); }

  Json json() const { return Json::parse(read_file(folder_ / "out.json")); }
  std::string page() const { return read_file(folder_ / "out.md"); }
  Json set(const std::string& name) const {
    const Json all = json();
    for (const Json& one : all["sets"]) {
      if (one["name"] == name) return one;
    }
    return {};
  }

  fs::path folder_;
};

TEST_F(AccuracyProgram, RunsOnAnEmptyFolder) {
  ASSERT_EQ(run_on_data(), 0);
  EXPECT_EQ(json()["schema"], "nest.accuracy/1");
  EXPECT_TRUE(json()["sets"].empty());
  EXPECT_THAT(page(), ::testing::StartsWith("# How accurate nest is"));
}

TEST_F(AccuracyProgram, RefusesAFolderThatIsNotThere) { EXPECT_EQ(run("--data " + (folder_ / "nowhere").string()), 2); }

TEST_F(AccuracyProgram, SaysSoWhenAFileIsTorn) {
  write("published/runs.json", R"([{"id": "a-1", "model": {"layers": 8,)");
  write("h200/steps.json", "{}");
  write("collectives/simgrid.json", "[1, 2");
  ASSERT_EQ(run_on_data(), 0);
  EXPECT_EQ(set("published_time")["left_out"][0]["reason"], "file cannot be read as JSON");
  EXPECT_EQ(set("step_time")["left_out"][0]["reason"], "file is not a list of rows");
  EXPECT_EQ(set("collectives")["left_out"][0]["reason"], "file cannot be read as JSON");
}

TEST_F(AccuracyProgram, LeavesOutRowsOfNulls) {
  write(
      "published/runs.json",
      R"([{}, null, 3, "row", [], {"id": null, "model": null}, {"id": "a-1", "model": {"layers": null}, "parallel": {"tp": null}, "measured": {"peak_mem_gb": 3}}])");
  write("published/vtrain_single.csv", "# GPUs,global batch\n1\n,,,\nx,y,z\n");
  write("h200/steps.json",
        R"([{"kind": "step"}, {"kind": "step", "name": null, "layers": 3, "h": 0, "heads": 0}, null])");
  write(
      "h200/layers.json",
      R"([{"kind": "layer"}, {"kind": "layer", "model": "llama3_8b", "impl": "plain", "tp": 0, "seq": -1, "mbs": 1, "saved_bytes": 5}])");
  write("h200/hf_layers.json", R"([{"name": "llama2-7b"}, {}])");
  write("h200/hf_params.json", R"([{"name": "x", "config": {}, "params": 7}, {"config": 3}])");
  write("h200/ops.json", R"([{"kind": "device"}, {"kind": "gemm", "m": null}, {}])");
  write("collectives/simgrid.json",
        R"({"rows": [{}, {"n": 2, "bytes": 1, "seconds": 1, "levels": {"dims": [0]}}, null], "mixed": 4})");
  ASSERT_EQ(run_on_data(), 0);
  const Json time = set("published_time");
  EXPECT_EQ(time["rows"], 7);
  EXPECT_EQ(time["used"], 0);
  EXPECT_TRUE(time["mean_abs_error"].is_null());
  const Json all = json();
  for (const Json& one : all["sets"]) EXPECT_EQ(one["used"], 0) << one["name"];
  EXPECT_EQ(set("parameter_counts")["rows"], 2);
  EXPECT_EQ(set("collectives")["rows"], 3);
}

TEST_F(AccuracyProgram, ComparesTheRowsThatShipWhenNoneAreGiven) {
  ASSERT_EQ(run(""), 0);
  EXPECT_EQ(json()["data"], "carried");
  const Json time = set("published_time");
  EXPECT_GE(time["used"].get<int>(), 25);
  EXPECT_EQ(time["rows"], time["used"]) << time["left_out"].dump();
  EXPECT_LT(time["mean_abs_error"].get<double>(), 0.10);
  EXPECT_LT(set("published_memory")["mean_abs_error"].get<double>(), 0.05);
  EXPECT_TRUE(fs::exists(folder_ / "plots" / "time.svg"));
  EXPECT_THAT(page(), ::testing::HasSubstr("(plots/time.svg)"));
}

TEST_F(AccuracyProgram, EveryRowThatShipsNamesItsSource) {
  const Json rows = Json::parse(read_file(source_dir() / "data" / "accuracy" / "runs.json"));
  std::set<std::string> ids;
  for (const Json& row : rows) {
    EXPECT_TRUE(ids.insert(row["id"]).second) << row["id"];
    EXPECT_FALSE(row["source"].get<std::string>().empty()) << row["id"];
  }
}

TEST_F(AccuracyProgram, SumsUpPerSource) {
  ASSERT_EQ(run(""), 0);
  const Json time = set("published_time");
  int used = 0;
  double error = 0;
  for (const Json& source : time["sources"]) {
    used += source["used"].get<int>();
    error += source["used"].get<int>() * source["mean_abs_error"].get<double>();
    EXPECT_EQ(source["rows"], source["used"]);
  }
  EXPECT_EQ(used, time["used"]);
  EXPECT_NEAR(error / used, time["mean_abs_error"].get<double>(), 1e-9);
  const Json& worst = time["worst"];
  for (std::size_t i = 1; i < worst.size(); ++i) {
    EXPECT_GE(std::abs(worst[i - 1]["error"].get<double>()), std::abs(worst[i]["error"].get<double>()));
  }
}

// All measurements, where they are at hand: what the project promises of itself, with room for the noise of refitting.
TEST_F(AccuracyProgram, KeepsItsAccuracy) {
  NEST_REQUIRE_DATA("published/runs.json");
  ASSERT_EQ(run("--data " + data_dir().string()), 0);
  const std::map<std::pair<std::string, std::string>, double> most = {
      {{"of these, dense models", "mean error"}, 0.05},
      {{"peak memory, all published readings", "mean error"}, 0.03},
      {{"Parameters of real models", "mean error"}, 0}};
  const Json all = json();
  for (const Json& mark : all["marks"]) {
    const auto limit = most.find({mark["what"], mark["measure"]});
    if (limit == most.end()) continue;
    EXPECT_LE(mark["reached"].get<double>(), limit->second) << mark["what"];
  }
}

}  // namespace
}  // namespace nest::test
