#include "accuracy/recipes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "accuracy/run.h"
#include "accuracy/sets.h"
#include "base/error.h"
#include "search/space.h"

namespace nest::accuracy {
namespace {

// Tuned by somebody for these devices: the sources known for it, and whatever comes with its settings.
bool is_recipe(const PublishedRun& run) {
  return run.source == "mbridge" || run.source == "dgxc" || run.settings.stated;
}

// Everything that a price depends on except the strategy and the stack.
std::string job_key(const PublishedRun& run, const cost::Job& job) {
  std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", run.model.name, run.model.attention, job.model.architecture.hidden,
                  job.model.architecture.vocabulary, fmt::join(job.model.layers, ","), job.cluster.device.name,
                  job.cluster.devices, job.run.global_batch, job.run.sequence, nest::to_string(job.run.precision));
  for (const cluster::Level& level : job.cluster.levels) {
    key += fmt::format("|{}x{}/{}", level.group, level.bandwidth_bytes_per_s, level.efficiency);
  }
  return key;
}

bool same_stages(const std::vector<StagePlan>& a, const std::vector<StagePlan>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const StagePlan& x, const StagePlan& y) {
    return x.first == y.first && x.last == y.last && x.zero == y.zero && x.zero_degree == y.zero_degree &&
           x.zero_outer == y.zero_outer && x.recompute == y.recompute;
  });
}

// Cuts and options of every stage; the key is known to be one of the space.
std::string outside_stages(const search::PlanSpace& space, const search::Key& key, const Strategy& strategy,
                           const std::vector<StagePlan>& stages) {
  const std::int64_t chunks = strategy.virtual_stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StagePlan& stage = stages[s];
    const auto index = static_cast<std::int64_t>(s);
    if (s > 0 && !space.may_cut(stage.first, chunks)) {
      return fmt::format("stage {} begins at layer {}, inside a motif of the interleaved schedule", s, stage.first);
    }
    if (stage.last - stage.first + 1 < space.fewest_layers(index, key.stages, chunks)) {
      return fmt::format("stage {} has {} layers, too few for {} chunks", s, stage.last - stage.first + 1, chunks);
    }
    if (stage.zero > 0 && stage.zero_degree != groups::dense_replicas(strategy) &&
        stage.zero_degree != space.node_degree(strategy)) {
      return fmt::format("a sharding degree of {}", stage.zero_degree);
    }
  }
  return {};
}

std::string outside_space(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages) {
  const search::PlanSpace space(job, plan::PlanLimits{}, job.cluster.devices);
  Split split = strategy.split;
  if (split.etp == split.tp) split.etp = 0;
  const auto in_splits = std::find(space.splits().begin(), space.splits().end(), split);
  if (in_splits == space.splits().end()) return "this split";
  const auto& sizes = space.micro_batches();
  const auto in_sizes = std::find(sizes.begin(), sizes.end(), strategy.micro_batch);
  if (in_sizes == sizes.end()) return fmt::format("a micro-batch of {}", strategy.micro_batch);
  const auto& schedules = space.schedules();
  const auto in_schedules = std::find_if(schedules.begin(), schedules.end(), [&](const search::ScheduleChoice& choice) {
    return choice.kind == strategy.schedule && choice.chunks == strategy.virtual_stages;
  });
  if (in_schedules == schedules.end()) return fmt::format("{} chunks per stage", strategy.virtual_stages);
  search::Key key;
  key.split = static_cast<int>(in_splits - space.splits().begin());
  key.micro_batch = static_cast<int>(in_sizes - sizes.begin());
  key.schedule = static_cast<int>(in_schedules - schedules.begin());
  key.stages = strategy.pp;
  key.replicas = strategy.dp / space.team(key);
  if (!space.admits_pair(key)) return "this split with this micro-batch";
  if (key.stages > space.most_stages(key)) return fmt::format("{} stages", key.stages);
  if (!space.admits_schedule(key)) {
    return fmt::format("{} stages of {} chunks of this chain of layers", key.stages, strategy.virtual_stages);
  }
  if (!space.next_replicas(key, {key.replicas, key.replicas})) {
    return fmt::format("{} micro-batches for {} interleaved stages", micro_batches(strategy, job.run.global_batch),
                       key.stages);
  }
  return outside_stages(space, key, strategy, stages);
}

// The same layout with as little recomputation as fits, where the row leaves that open.
void find_what_fits(const PublishedRun& run, const cost::Job& job, Recipe& recipe) {
  if (recipe.evaluation.fits || run.recompute) return;
  for (const Recompute mode : {Recompute::selective, Recompute::full}) {
    std::vector<StagePlan> stages = recipe.evaluation.stages;
    for (StagePlan& stage : stages) stage.recompute = mode;
    const Plan evaluation = cost::evaluate(job, recipe.strategy, stages);
    if (!evaluation.fits) continue;
    recipe.fits_with = mode;
    recipe.fits_with_s = evaluation.prediction.iteration_s;
    return;
  }
}

// Jobs by their keys; those of one key differ in their stacks.
using KnownJobs = std::multimap<std::string, std::size_t>;

RecipeJob& job_of(const PublishedRun& run, const cost::Job& job, KnownJobs& known, RecipeJobs& all) {
  const std::string key = job_key(run, job);
  const auto [first, last] = known.equal_range(key);
  const auto same =
      std::find_if(first, last, [&](const auto& one) { return all.jobs[one.second].job.stack == job.stack; });
  if (same != last) return all.jobs[same->second];
  known.emplace(key, all.jobs.size());
  all.jobs.push_back({run.model.name, job, {}});
  return all.jobs.back();
}

void add_row(const PublishedRun& run, const Case& one, KnownJobs& known, RecipeJobs& all) {
  Recipe recipe;
  recipe.strategy = one.strategy;
  recipe.evaluation = cost::evaluate(one.job, one.strategy, one.stages);
  std::vector<Recipe>& recipes = job_of(run, one.job, known, all).recipes;
  auto same = std::find_if(recipes.begin(), recipes.end(), [&](const Recipe& other) {
    return other.strategy == recipe.strategy && same_stages(other.evaluation.stages, recipe.evaluation.stages);
  });
  if (same == recipes.end()) {
    recipe.says_what_it_recomputes = run.recompute.has_value();
    recipe.outside = outside_space(one.job, recipe.strategy, recipe.evaluation.stages);
    find_what_fits(run, one.job, recipe);
    same = recipes.insert(recipes.end(), std::move(recipe));
  }
  same->ids.push_back(run.id);
  if (run.iteration_s) same->measured_s.push_back(*run.iteration_s);
  ++all.rows;
}

// Without a plan where the limits admit none, whatever its memory.
search::PlanAnswer search(const cost::Job& job, const plan::PlanLimits& limits, search::PriceCache& prices) {
  search::PlanRequest request;
  request.job = &job;
  request.limits = limits;
  request.search.threads = 0;
  request.prices = &prices;
  try {
    return search::make_plan(request);
  } catch (const InputError&) {
    search::PlanAnswer none;
    none.outcome = PlanOutcome::no_plan;
    return none;
  }
}

// Its distributed optimizer or, where a recipe uses it, its FSDP.
search::PlanAnswer megatron_plan(const RecipeJob& job, search::PriceCache& prices) {
  plan::PlanLimits limits;
  plan::restrict_to_megatron(limits);
  search::PlanAnswer best = search(job.job, limits, prices);
  const bool fsdp = std::any_of(job.recipes.begin(), job.recipes.end(),
                                [](const Recipe& recipe) { return recipe.evaluation.stages.front().zero == 3; });
  if (!fsdp) return best;
  limits.zero = {false, false, false, true};
  search::PlanAnswer sharded = search(job.job, limits, prices);
  const bool better = !sharded.plans.empty() && (best.plans.empty() || sharded.plans.front().prediction.iteration_s <
                                                                           best.plans.front().prediction.iteration_s);
  return better ? sharded : best;
}

}  // namespace

RecipeJobs read_recipes(const std::filesystem::path& folder) {
  Set reading;
  RecipeJobs all;
  KnownJobs known;
  bool any = false;
  for (const std::filesystem::path& file : published_files(folder)) {
    const auto document = read_list(file, reading);
    if (!document) continue;
    any = true;
    for (const doc::Value& value : *document->root().as_array()) {
      const PublishedRun run = read_run(value);
      if (!is_recipe(run)) continue;
      auto made = make_case(run, false);
      if (const auto* refusal = std::get_if<Refusal>(&made)) {
        all.left_out.push_back({run.id, run.source, refusal->reason});
      } else if (!std::get<Case>(made).job.run.lora.empty()) {
        all.left_out.push_back({run.id, run.source, "adapters beside frozen weights: planned for no framework"});
      } else {
        add_row(run, std::get<Case>(made), known, all);
      }
    }
  }
  if (!any) {
    throw InputError(fmt::format("--recipes: {} holds no list of published runs{}", (folder / "published").string(),
                                 reading.left_out.empty() ? "" : " that can be read"));
  }
  if (all.jobs.empty()) throw InputError(fmt::format("--recipes: {} holds no recipe", (folder / "published").string()));
  return all;
}

cost::Job job_with_room(const RecipeJob& job, const Recipe& recipe) {
  cost::Job roomy = job.job;
  for (const StagePlan& stage : recipe.evaluation.stages) {
    roomy.cluster.device.memory_bytes = std::max(roomy.cluster.device.memory_bytes, stage.memory.needed);
  }
  return roomy;
}

RecipeAnswer plan_recipes(const RecipeJob& job) {
  search::PriceCache prices(job.job);
  RecipeAnswer answer;
  answer.full = search(job.job, plan::PlanLimits{}, prices);
  answer.megatron = megatron_plan(job, prices);
  for (const Recipe& recipe : job.recipes) {
    answer.with_room.emplace_back();
    if (recipe.evaluation.fits) continue;
    const cost::Job roomy = job_with_room(job, recipe);
    search::PriceCache own(roomy);
    answer.with_room.back() = search(roomy, plan::PlanLimits{}, own);
  }
  return answer;
}

}  // namespace nest::accuracy
