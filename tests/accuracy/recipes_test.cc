// Published recipes against the plans for their jobs.
#include "accuracy/recipes.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <fstream>

#include "base/error.h"
#include "test_support/data.h"
#include "test_support/scale.h"

namespace nest::accuracy {
namespace {

namespace fs = std::filesystem;

// Rows of an invented model: 8 blocks on 16 devices.
std::string row(const std::string& id, const std::string& parallel, const std::string& more = {}) {
  return R"({"id": ")" + id +
         R"(", "model": {"name": "toy", "layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 8, "head_dim": 64,
      "ffn_hidden": 4096, "vocab": 32000, "seq": 2048, "gated_mlp": true}, "gpu": "H100-SXM5-80GB", "gpus": 16,
      "gpus_per_node": 8, "mbs": 2, "gbs": 64, "precision": "BF16", "tier": "A", "config_complete": true,
      "measured": {"iter_time_s": 0.5}, "parallel": {)" +
         parallel + "}" + more + "}";
}

class Recipes : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ("nest-recipes-" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "published");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::vector<std::string>& rows) const {
    std::ofstream file(folder_ / "published" / "runs.json", std::ios::binary);
    for (std::size_t i = 0; i < rows.size(); ++i) file << (i == 0 ? "[" : ", ") << rows[i];
    file << "]";
  }
  RecipeJobs read(const std::vector<std::string>& rows) const {
    write(rows);
    return read_recipes(folder_);
  }

  // Exit status of the program.
  static int run(const std::string& arguments) {
    const int status = std::system((std::string(NEST_ACCURACY_PROGRAM) + " " + arguments + " 2>/dev/null").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  fs::path folder_;
};

constexpr const char* kTwoStages = R"("tp": 2, "pp": 2, "dp": 4, "sp": true, "zero": 1, "recompute": "none")";
constexpr const char* kReplicas = R"("tp": 1, "pp": 1, "dp": 16, "zero": 1, "recompute": "none")";

TEST_F(Recipes, AreGroupedByJobAndByStrategy) {
  std::string narrow = row("mbridge-d", kReplicas);
  narrow.replace(narrow.find("BF16"), 4, "MXFP8");
  const RecipeJobs all =
      read({row("dgxc-a", kTwoStages), row("other-a", kReplicas), row("mbridge-b", kReplicas),
            row("dgxc-c", kTwoStages), narrow, row("dgxc-e", R"("tp": 3, "pp": 1, "dp": 16, "zero": 1)")});
  EXPECT_EQ(all.rows, 4U);
  ASSERT_EQ(all.jobs.size(), 2U);
  ASSERT_EQ(all.jobs[0].recipes.size(), 2U);
  EXPECT_THAT(all.jobs[0].recipes[0].ids, ::testing::ElementsAre("dgxc-a", "dgxc-c"));
  EXPECT_THAT(all.jobs[0].recipes[0].measured_s, ::testing::ElementsAre(0.5, 0.5));
  EXPECT_THAT(all.jobs[0].recipes[1].ids, ::testing::ElementsAre("mbridge-b"));
  EXPECT_THAT(all.jobs[1].recipes[0].ids, ::testing::ElementsAre("mbridge-d"));
  ASSERT_EQ(all.left_out.size(), 1U);
  EXPECT_EQ(all.left_out[0].id, "dgxc-e");
}

TEST_F(Recipes, SayWhatTheSearchDoesNotConsider) {
  std::string odd = row("dgxc-c", R"("tp": 1, "pp": 1, "dp": 16, "zero": 1)");
  odd.replace(odd.find(R"("mbs": 2)"), 8, R"("mbs": 3)");
  const RecipeJobs all =
      read({row("dgxc-a", kTwoStages), row("dgxc-b", R"("tp": 2, "pp": 2, "dp": 4, "vpp": 2, "zero": 1)"),
            // 4 stages of 2 chunks, 7 micro-batches
            row("dgxc-d", R"("tp": 1, "pp": 4, "dp": 5, "vpp": 2, "zero": 1)"), odd});
  std::vector<std::string> outside;
  for (const RecipeJob& job : all.jobs) {
    for (const Recipe& recipe : job.recipes) outside.push_back(recipe.outside);
  }
  EXPECT_THAT(outside, ::testing::UnorderedElementsAre("", "", "7 micro-batches for 4 interleaved stages",
                                                       "a micro-batch of 3"));
}

// 320 layers, none of them recomputed, of 4 sequences each keep about 90 GB.
TEST_F(Recipes, ThatDoNotFitGetRoom) {
  std::string large = row("mbridge-a", R"("tp": 1, "pp": 1, "dp": 16, "zero": 1)");
  large.replace(large.find(R"("layers": 8)"), 11, R"("layers": 320)");
  large.replace(large.find(R"("mbs": 2)"), 8, R"("mbs": 4)");
  const RecipeJobs all = read({large});
  const RecipeJob& job = all.jobs.front();
  const Recipe& recipe = job.recipes.front();
  ASSERT_FALSE(recipe.evaluation.fits);
  EXPECT_FALSE(recipe.says_what_it_recomputes);
  EXPECT_EQ(recipe.fits_with, Recompute::full);
  EXPECT_GT(recipe.fits_with_s, recipe.predicted_s());
  const cost::Job roomy = job_with_room(job, recipe);
  EXPECT_EQ(roomy.cluster.device.memory_bytes, recipe.evaluation.stages.front().memory.needed);
  EXPECT_TRUE(cost::evaluate(roomy, recipe.strategy, recipe.evaluation.stages).fits);
  const std::vector<RecipeAnswer> answers = {plan_recipes(job)};
  ASSERT_TRUE(answers[0].with_room[0].has_value());
  EXPECT_LE(answers[0].with_room[0]->plans.front().prediction.iteration_s, recipe.predicted_s() * (1 + 1e-9));
  EXPECT_EQ(recipes_that_win(all, answers), 0U);
}

TEST_F(Recipes, WinsAreCounted) {
  RecipeJobs all = read({row("dgxc-a", kTwoStages)});
  const std::vector<RecipeAnswer> answers = {plan_recipes(all.jobs[0])};
  EXPECT_EQ(recipes_that_win(all, answers), 0U);
  Recipe& recipe = all.jobs[0].recipes[0];
  const double best = answers[0].full.plans.front().prediction.iteration_s;
  recipe.evaluation.prediction.iteration_s = best * (1 - 1e-6);
  EXPECT_EQ(recipes_that_win(all, answers), 1U);
  recipe.outside = "something";
  EXPECT_EQ(recipes_that_win(all, answers), 0U);
}

TEST_F(Recipes, PageShowsBothSides) {
  write({row("dgxc-a", kTwoStages), row("dgxc-b", kReplicas)});
  const fs::path page = folder_ / "page.md";
  ASSERT_EQ(run("--data " + folder_.string() + " --recipes " + page.string()), 0);
  const std::string text = test::read_file(page);
  EXPECT_THAT(text, ::testing::HasSubstr("2 rows, 2 distinct recipes for 1 jobs; 0 left out."));
  EXPECT_THAT(
      text, ::testing::HasSubstr("| 1 | toy | 16 × h100 | 64 × 2048 bf16 | tp=2 sp pp=2 dp=4 mbs=2 zero=1 | 0.500 |"));
  EXPECT_THAT(text, ::testing::HasSubstr("\n1. dgxc-a: "));
  EXPECT_THAT(text, ::testing::HasSubstr("\n2. dgxc-b: "));
}

TEST_F(Recipes, NeedData) {
  const std::string page = " --recipes " + (folder_ / "page.md").string();
  EXPECT_EQ(run(page), 2);
  EXPECT_EQ(run("--data " + folder_.string() + page), 2);  // no such file
  write({row("other-a", kReplicas)});
  EXPECT_EQ(run("--data " + folder_.string() + page), 2);  // no recipe in it
  EXPECT_THROW(read_recipes(folder_), InputError);
  EXPECT_FALSE(fs::exists(folder_ / "page.md"));
}

// The promise: whoever tuned a recipe by hand, our plan in the same memory is predicted to be at least as fast. The
// search is told the recipe's time, so that it ends as soon as nothing better is left; it must still find a plan.
class PublishedRecipes : public ::testing::TestWithParam<std::size_t> {};

constexpr std::size_t kShards = 4;

void expect_not_slower(const cost::Job& job, const Recipe& recipe, search::PriceCache& prices) {
  constexpr double kAgreement = 1e-9;
  const double limit = recipe.predicted_s() * (1 + kAgreement);
  search::PlanRequest request;
  request.job = &job;
  request.prices = &prices;
  request.search.known_score = limit;
  const search::PlanAnswer answer = search::make_plan(request);
  ASSERT_FALSE(answer.plans.empty()) << recipe.ids.front() << ": nothing within " << recipe.predicted_s() << " s";
  EXPECT_LE(answer.plans.front().prediction.iteration_s, limit) << recipe.ids.front();
}

TEST_P(PublishedRecipes, AreNotFasterThanOurPlans) {
  NEST_REQUIRE_DATA("published/runs.json");
  const auto step = kShards * static_cast<std::size_t>(std::max(1.0, 1 / test::scale()));
  const RecipeJobs all = read_recipes(test::data_dir());
  EXPECT_GE(all.rows, 100U);
  for (std::size_t j = GetParam(); j < all.jobs.size(); j += step) {
    const RecipeJob& job = all.jobs[j];
    search::PriceCache prices(job.job);
    for (const Recipe& recipe : job.recipes) {
      if (!recipe.outside.empty()) continue;
      if (recipe.evaluation.fits) {
        expect_not_slower(job.job, recipe, prices);
      } else {
        const cost::Job roomy = job_with_room(job, recipe);
        search::PriceCache own(roomy);
        expect_not_slower(roomy, recipe, own);
      }
    }
  }
}

// If more were outside, the promise would be worth less.
TEST(PublishedRecipesAll, AreNearlyAllInsideTheSpace) {
  NEST_REQUIRE_DATA("published/runs.json");
  const RecipeJobs all = read_recipes(test::data_dir());
  std::vector<std::string> outside;
  for (const RecipeJob& job : all.jobs) {
    for (const Recipe& recipe : job.recipes) {
      if (!recipe.outside.empty()) outside.push_back(recipe.ids.front() + ": " + recipe.outside);
    }
  }
  EXPECT_LE(outside.size(), 2U) << ::testing::PrintToString(outside);
}

INSTANTIATE_TEST_SUITE_P(Shards, PublishedRecipes, ::testing::Range(std::size_t{0}, kShards));

}  // namespace
}  // namespace nest::accuracy
