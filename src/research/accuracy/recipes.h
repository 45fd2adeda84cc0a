// Published, tuned recipes beside the plans that the search finds for the same job.
//
// A recipe is what somebody chose and measured: a strategy for a model on a cluster with a batch. Both sides are priced
// by the same evaluate(), so that the comparison says what the planner adds under the model, not how good the model is.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/case.h"
#include "accuracy/set.h"
#include "search/planner.h"

namespace nest::accuracy {

struct Recipe {
  std::vector<std::string> ids;    // rows that state it: several releases of the software
  std::vector<double> measured_s;  // of those that give a time
  Strategy strategy;
  Plan evaluation;  // as published, whether it fits or not
  bool says_what_it_recomputes = false;
  // Which choice of the recipe the full search does not consider, memory aside; empty: it considers them all.
  std::string outside;
  // Where it does not fit by our count and does not say what it recomputes: the least with which it would.
  std::optional<Recompute> fits_with;
  double fits_with_s = 0;

  double predicted_s() const { return evaluation.prediction.iteration_s; }
};

// Recipes for the same model, cluster, batch, sequence, precision and software.
struct RecipeJob {
  std::string model;
  cost::Job job;
  std::vector<Recipe> recipes;  // distinct, at least one
};

struct RecipeJobs {
  std::vector<RecipeJob> jobs;  // in the order of their first rows
  std::size_t rows = 0;         // used
  std::vector<LeftOut> left_out;
};

// The rows of mbridge and dgxc and those with settings in folder/published/*.json. Throws InputError when there is none.
RecipeJobs read_recipes(const std::filesystem::path& folder);

// The job on devices with as much memory as the recipe needs by our count; the same job where it fits anyway.
cost::Job job_with_room(const RecipeJob& job, const Recipe& recipe);

struct RecipeAnswer {
  search::PlanAnswer full;      // the whole space
  search::PlanAnswer megatron;  // what Megatron-Core can be told
  std::vector<std::optional<search::PlanAnswer>>
      with_room;  // per recipe that does not fit: the whole space, job_with_room()
};

RecipeAnswer plan_recipes(const RecipeJob& job);

// Recipes that are faster than the best plan in the same memory although the search considers all their choices: none,
// or the search is wrong.
std::size_t recipes_that_win(const RecipeJobs& recipes, const std::vector<RecipeAnswer>& answers);

// The page: both sides of every recipe, why they differ, and what to believe. `answers` as `recipes.jobs`.
std::string recipes_page(const RecipeJobs& recipes, const std::vector<RecipeAnswer>& answers);

}  // namespace nest::accuracy
