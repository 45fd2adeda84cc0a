// Several files of published runs together: what is refused, what one change does, what is not expressed.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "accuracy/report.h"
#include "accuracy/sets.h"
#include "test_support/data.h"

namespace nest::accuracy {
namespace {

namespace fs = std::filesystem;

class PublishedFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("nest-published-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "published");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / "published" / name, std::ios::binary) << text;
  }

  fs::path folder_;
};

std::string dense_row(const std::string& id, int layers, const std::string& more) {
  return R"({"id": ")" + id + R"(", "model": {"name": "toy", "layers": )" + std::to_string(layers) +
         R"(, "hidden": 8192, "heads": 64, "kv_heads": 8, "head_dim": 128, "ffn_hidden": 28672, "vocab": 32000, "seq": 4096,
      "gated_mlp": true}, "gpu": "H100", "gpus": 8, "gpus_per_node": 8, "mbs": 1, "gbs": 64, "precision": "BF16", "tier": "A",
      "config_complete": true, "parallel": {"tp": 8, "sp": true, "pp": 1, "dp": 1, "zero": 1, "recompute": "none"})" +
         more + "}";
}

// Two files; one run of the second is far too large for its devices.
void write_two(const std::function<void(const std::string&, const std::string&)>& write) {
  write("runs.json", "[" + dense_row("a-1", 8, R"(, "measured": {"iter_time_s": 5})") + "]");
  write("runs26.json",
        "[" +
            dense_row("b-small", 8,
                      R"(, "release": "26.08", "ab_group": "g", "ab_change": "off", "measured": {"iter_time_s": 4},
                         "settings": {"overlap_param_gather": false})") +
            "," +
            dense_row("b-large", 160,
                      R"(, "release": "26.08", "ab_group": "g", "ab_change": "on", "measured": {"iter_time_s": 8})") +
            "," + R"({"id": "b-hybrid", "model": {"layers": null, "hybrid": {"layers": 4}}}])");
  write("table.json", R"([{"rate": 3}])");
}

TEST_F(PublishedFiles, AreReadTogether) {
  write_two([&](const std::string& name, const std::string& text) { write(name, text); });
  const Set set = published_time(folder_);
  EXPECT_EQ(set.rows, 4U);
  ASSERT_EQ(set.readings.size(), 3U);
  EXPECT_EQ(set.readings[0].run.file, "runs.json");
  EXPECT_EQ(set.readings[1].run.file, "runs26.json");
  EXPECT_EQ(set.readings[1].run.release, "26.08");
  EXPECT_THAT(set.readings[1].run.not_expressed, ::testing::ElementsAre("gather of weights exposed"));
  EXPECT_THAT(reasons_of(set), ::testing::UnorderedElementsAre(::testing::Pair("hybrid model: not read", 1U),
                                                               ::testing::Pair("file is not a list of runs", 1U)));
}

TEST_F(PublishedFiles, SayWhichRunsAreRefused) {
  write_two([&](const std::string& name, const std::string& text) { write(name, text); });
  const Summary summary = summarise({published_time(folder_)});
  ASSERT_EQ(summary.refusals.size(), 3U);
  EXPECT_EQ(summary.refusals[0].file, "runs.json");
  EXPECT_EQ(summary.refusals[0].strict_refused, 0U);
  EXPECT_EQ(summary.refusals[1].strict, 2U);
  ASSERT_EQ(summary.refusals[1].runs.size(), 1U);
  EXPECT_EQ(summary.refusals[1].runs[0].id, "b-large");
  EXPECT_GT(summary.refusals[1].runs[0].over, 0.5);
  EXPECT_DOUBLE_EQ(summary.refusals[2].strict_share(), 1.0 / 3);
  const std::string page = to_markdown({published_time(folder_)}, summary, false, "");
  EXPECT_THAT(page, ::testing::HasSubstr("| runs26.json | 2 | 1 | 50.0 % |"));
  EXPECT_THAT(page, ::testing::HasSubstr("- not expressed: gather of weights exposed (1 run)"));
  const auto json = nlohmann::json::parse(to_json({published_time(folder_)}, summary, "x"));
  EXPECT_EQ(json["refused"][1]["strict"]["refused"], 1);
  EXPECT_EQ(json["readings"]["published_time"][2]["fits"], false);
}

TEST_F(PublishedFiles, JudgeOneChangeByItsRatio) {
  write_two([&](const std::string& name, const std::string& text) { write(name, text); });
  const Set set = published_time(folder_);
  const Summary summary = summarise({set});
  ASSERT_EQ(summary.ratios.size(), 1U);
  const Ratio& ratio = summary.ratios.front();
  EXPECT_EQ(ratio.from, "off");
  EXPECT_EQ(ratio.to, "on");
  EXPECT_DOUBLE_EQ(ratio.point.measured, 2);
  EXPECT_DOUBLE_EQ(ratio.point.predicted, set.readings[2].point.predicted / set.readings[1].point.predicted);
  ASSERT_EQ(summary.slices.size(), 2U);  // all releases, and 26.08
  EXPECT_EQ(summary.slices[0].dense.count, 3U);
  EXPECT_EQ(summary.slices[1].release, "26.08");
  EXPECT_EQ(summary.slices[1].dense.count, 2U);
}

// All of them, where they are at hand.
TEST(PublishedRuns26, AreNearlyAllRead) {
  NEST_REQUIRE_DATA("published/runs26.json");
  const Set set = published_time(test::data_dir());
  std::size_t strict = 0;
  for (const Reading& reading : set.readings) strict += reading.run.file == "runs26.json" && reading.strict ? 1 : 0;
  EXPECT_GE(strict, 120U);
}

}  // namespace
}  // namespace nest::accuracy
