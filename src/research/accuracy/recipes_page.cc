// Recipes and plans side by side, as a page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include "accuracy/recipes.h"
#include "accuracy/statistics.h"
#include "base/index.h"
#include "base/units.h"
#include "plan/strategy_text.h"

namespace nest::accuracy {
namespace {

using Breakdown = Prediction::Breakdown;

struct Term {
  const char* name;
  double Breakdown::*seconds;
};
constexpr std::array kTerms = {Term{"compute", &Breakdown::compute},     Term{"recomputation", &Breakdown::recompute},
                               Term{"bubble", &Breakdown::bubble},       Term{"tensor", &Breakdown::tp},
                               Term{"context", &Breakdown::cp},          Term{"experts", &Breakdown::ep},
                               Term{"stage to stage", &Breakdown::p2p},  Term{"sharded weights", &Breakdown::zero},
                               Term{"gradients", &Breakdown::grad_sync}, Term{"optimizer", &Breakdown::optimizer},
                               Term{"other", &Breakdown::other}};

// A recipe with the plans it is compared with; a plan is missing where nothing fits.
struct Line {
  std::size_t number = 0;
  const RecipeJob* job = nullptr;
  const Recipe* recipe = nullptr;
  const Plan* full = nullptr;
  const Plan* megatron = nullptr;
  const Plan* with_room = nullptr;

  double ratio(const Plan* plan) const { return plan->prediction.iteration_s / recipe->predicted_s(); }
  // In as much memory as the recipe takes by our count, where that is more than there is.
  const Plan* same_memory() const { return recipe->evaluation.fits ? full : with_room; }
};

const Plan* first_of(const search::PlanAnswer& answer) {
  return answer.plans.empty() ? nullptr : &answer.plans.front();
}

std::vector<Line> lines_of(const RecipeJobs& recipes, const std::vector<RecipeAnswer>& answers) {
  std::vector<Line> lines;
  for (std::size_t j = 0; j < recipes.jobs.size(); ++j) {
    const RecipeAnswer& answer = answers[j];
    for (std::size_t r = 0; r < recipes.jobs[j].recipes.size(); ++r) {
      Line line;
      line.number = lines.size() + 1;
      line.job = &recipes.jobs[j];
      line.recipe = &recipes.jobs[j].recipes[r];
      line.full = first_of(answer.full);
      line.megatron = first_of(answer.megatron);
      if (answer.with_room[r]) line.with_room = first_of(*answer.with_room[r]);
      lines.push_back(line);
    }
  }
  return lines;
}

// "zero=1", or for stages that differ "zero=1×6/3×2".
template <class Get>
std::string per_stage(const std::vector<StagePlan>& stages, Get get) {
  std::vector<std::pair<std::string, int>> runs;
  for (const StagePlan& stage : stages) {
    const std::string word = get(stage);
    const auto known = std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run.first == word; });
    if (known == runs.end()) {
      runs.emplace_back(word, 1);
    } else {
      ++known->second;
    }
  }
  if (runs.size() == 1) return runs.front().first;
  std::string text;
  for (const auto& [word, count] : runs) text += fmt::format("{}{}×{}", text.empty() ? "" : "/", word, count);
  return text;
}

bool is_uneven(const Strategy& strategy, std::int64_t batch) {
  return batch % (strategy.micro_batch * strategy.dp) != 0;
}

std::string strategy_cell(const Strategy& strategy, const std::vector<StagePlan>& stages) {
  std::string text = plan::strategy_text(strategy);
  text += " zero=" + per_stage(stages, [&](const StagePlan& stage) {
            const bool part = stage.zero > 0 && stage.zero_degree != groups::dense_replicas(strategy);
            return part ? fmt::format("{}(of {})", stage.zero, stage.zero_degree) : fmt::format("{}", stage.zero);
          });
  const std::string recompute = per_stage(stages, [](const StagePlan& stage) { return to_string(stage.recompute); });
  if (recompute != "none") text += " recompute=" + recompute;
  if (strategy.pp > 1 && strategy.dp > 1 && strategy.dp_inner != strategy.dp) {
    text += fmt::format(" dp_inner={}", strategy.dp_inner);
  }
  if (strategy.pitch != 0) text += fmt::format(" pitch={}", strategy.pitch);
  return text;
}

std::string seconds_cell(double value) {
  return value >= 9.9995 ? fmt::format("{:.2f}", value) : fmt::format("{:.3f}", value);
}

std::string measured_cell(const Recipe& recipe) {
  if (recipe.measured_s.empty()) return "–";
  const auto [low, high] = std::minmax_element(recipe.measured_s.begin(), recipe.measured_s.end());
  return *low == *high ? seconds_cell(*low) : seconds_cell(*low) + " … " + seconds_cell(*high);
}

std::string ratio_cell(const Line& line, const Plan* plan) {
  return plan == nullptr ? "–" : fmt::format("{:.3f}", line.ratio(plan));
}

std::string plan_cells(const Line& line, const Plan* plan) {
  if (plan == nullptr) return "nothing fits | – | –";
  return fmt::format("{} | {} | {}", strategy_cell(plan->strategy, plan->stages),
                     seconds_cell(plan->prediction.iteration_s), ratio_cell(line, plan));
}

std::string table_of(const std::vector<Line>& lines) {
  std::string text =
      "| | model | devices | batch | recipe | measured s | predicted s | our plan | predicted s | ratio | same memory "
      "| "
      "plan for Megatron-Core | predicted s | ratio |\n"
      "|---:|---|---|---|---|---:|---:|---|---:|---:|---:|---|---:|---:|\n";
  for (const Line& line : lines) {
    const cost::Job& job = line.job->job;
    const Recipe& recipe = *line.recipe;
    text += fmt::format("| {} | {} | {} × {} | {} × {} {} | {} | {} | {}{} | {} | {} | {} |\n", line.number,
                        line.job->model, job.cluster.devices, job.cluster.device.name, job.run.global_batch,
                        job.run.sequence, nest::to_string(job.run.precision),
                        strategy_cell(recipe.strategy, recipe.evaluation.stages), measured_cell(recipe),
                        seconds_cell(recipe.predicted_s()), recipe.evaluation.fits ? "" : " \\*",
                        plan_cells(line, line.full), recipe.evaluation.fits ? "" : ratio_cell(line, line.with_room),
                        plan_cells(line, line.megatron));
  }
  return text;
}

// Share of the device's memory that must be there, with margin and context.
double memory_share(const cost::Job& job, const Plan& plan) {
  std::int64_t most = 0;
  for (const StagePlan& stage : plan.stages) most = std::max(most, stage.memory.needed);
  return real(most) / real(job.cluster.device.memory_bytes);
}

struct Change {
  const char* name;
  double share;  // of the recipe's time; negative: saved
};

// Sorted, most saved first.
std::vector<Change> changes_of(const Recipe& recipe, const Plan& plan) {
  std::vector<Change> changes;
  const Breakdown& theirs = recipe.evaluation.prediction.breakdown_s;
  const Breakdown& ours = plan.prediction.breakdown_s;
  for (const Term& term : kTerms) {
    changes.push_back({term.name, (ours.*term.seconds - theirs.*term.seconds) / recipe.predicted_s()});
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.share < b.share; });
  return changes;
}

std::string changes_text(const Recipe& recipe, const Plan& plan) {
  constexpr double kWorthSaying = 0.004;
  std::string text;
  for (const Change& change : changes_of(recipe, plan)) {
    if (std::abs(change.share) < kWorthSaying) continue;
    text += fmt::format("{}{} {:+.1f} %", text.empty() ? "" : ", ", change.name, 100 * change.share);
  }
  return text.empty() ? "no term differs by more than 0.4 %" : text;
}

bool differ_by_stage(const Plan& plan) {
  const auto& stages = plan.stages;
  return std::any_of(stages.begin(), stages.end(), [&](const StagePlan& stage) {
    return stage.zero != stages.front().zero || stage.recompute != stages.front().recompute;
  });
}

bool has_unequal_chunks(const Plan& plan) {
  const Strategy& strategy = plan.strategy;
  const auto& stages = plan.stages;
  // Embedding and head ride along with the first and the last chunk.
  const auto unequal = [&](std::size_t s) {
    const std::int64_t along = (s == 0 ? 1 : 0) + (s + 1 == stages.size() ? 1 : 0);
    const std::int64_t layers = stages[s].last - stages[s].first + 1;
    return layers % strategy.virtual_stages != 0 && (layers - along) % strategy.virtual_stages != 0;
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (strategy.virtual_stages > 1 && unequal(s)) return true;
  }
  return false;
}

// What a careful reader should know before believing that the plan is faster.
struct Caution {
  const char* name;
  std::function<bool(const Line&, const Plan&)> holds;
};

std::vector<Caution> cautions() {
  constexpr std::int64_t kLongestMeasuredContext = 2;
  constexpr double kFull = 0.97;
  return {
      {"fewer expert ranks than the recipe",
       [](const Line& line, const Plan& plan) { return plan.strategy.split.ep < line.recipe->strategy.split.ep; }},
      {"context over 4 devices or more",
       [](const Line& line, const Plan& plan) {
         const std::int64_t cp = plan.strategy.split.cp;
         return cp > kLongestMeasuredContext && cp > line.recipe->strategy.split.cp;
       }},
      {"chunks of unequal size", [](const Line&, const Plan& plan) { return has_unequal_chunks(plan); }},
      {"stages that differ in what they recompute or shard",
       [](const Line&, const Plan& plan) { return differ_by_stage(plan); }},
      {"sharded weights with a pipeline",
       [](const Line&, const Plan& plan) {
         const auto& stages = plan.stages;
         return stages.size() > 1 &&
                std::any_of(stages.begin(), stages.end(), [](const StagePlan& stage) { return stage.zero == 3; });
       }},
      {"memory filled to 97 % or more",
       [](const Line& line, const Plan& plan) {
         return line.recipe->evaluation.fits && memory_share(line.job->job, plan) >= kFull;
       }},
      {"a batch that does not divide evenly",
       [](const Line& line, const Plan& plan) { return is_uneven(plan.strategy, line.job->job.run.global_batch); }},
      {"idle devices",
       [](const Line& line, const Plan& plan) { return plan.strategy.devices_used() < line.job->job.cluster.devices; }},
      {"a recipe that does not fit by our count",
       [](const Line& line, const Plan&) { return !line.recipe->evaluation.fits; }},
  };
}

std::string why_of(const Line& line) {
  const Recipe& recipe = *line.recipe;
  const cost::Job& job = line.job->job;
  std::string text = fmt::format("{}. ", line.number);
  for (std::size_t i = 0; i < recipe.ids.size(); ++i) text += (i > 0 ? ", " : "") + recipe.ids[i];
  text += ": ";
  if (line.full == nullptr) {
    text += "no plan fits";
  } else if (line.full->strategy == recipe.strategy && line.ratio(line.full) > 1 - 1e-9) {
    text += "the same plan";
  } else {
    text += changes_text(recipe, *line.full);
  }
  if (line.full != nullptr) {
    text += fmt::format("; memory {:.0f} → {:.0f} %", 100 * memory_share(job, recipe.evaluation),
                        100 * memory_share(job, *line.full));
  }
  if (!recipe.outside.empty()) text += fmt::format(". The search does not consider {}", recipe.outside);
  if (recipe.evaluation.fits) return text + ".\n";
  text += ". The recipe does not fit by our count";
  if (recipe.fits_with) {
    text += fmt::format(" (with {} recomputation it would, in {} s)", to_string(*recipe.fits_with),
                        seconds_cell(recipe.fits_with_s));
  }
  if (line.with_room != nullptr) {
    text += fmt::format("; in its memory: {}, {} s", strategy_cell(line.with_room->strategy, line.with_room->stages),
                        seconds_cell(line.with_room->prediction.iteration_s));
  }
  return text + ".\n";
}

struct Ratios {
  std::size_t count = 0, over = 0, within_1 = 0, within_2 = 0, beyond_10 = 0;
  double median = 1, least = 1;
};

Ratios ratios_of(const std::vector<Line>& lines, const std::function<const Plan*(const Line&)>& plan_of,
                 const std::function<bool(const Line&)>& wanted) {
  std::vector<double> values;
  Ratios result;
  for (const Line& line : lines) {
    const Plan* plan = plan_of(line);
    if (plan == nullptr || !wanted(line)) continue;
    const double ratio = line.ratio(plan);
    values.push_back(ratio);
    result.over += ratio > 1 + 1e-9 ? 1 : 0;
    result.within_1 += ratio >= 0.99 ? 1 : 0;
    result.within_2 += ratio >= 0.98 ? 1 : 0;
    result.beyond_10 += ratio < 0.90 ? 1 : 0;
    result.least = std::min(result.least, ratio);
  }
  result.count = values.size();
  if (!values.empty()) result.median = median(values);
  return result;
}

bool is_moe(const Line& line) {
  return line.job->job.model.architecture.towers.front().kinds.back().mixture.has_value();
}

std::string ratios_row(const char* what, const Ratios& ratios) {
  if (ratios.count == 0) return {};
  return fmt::format("| {} | {} | {:.3f} | {:.3f} | {} | {} | {} | {} |\n", what, ratios.count, ratios.median,
                     ratios.least, ratios.within_1, ratios.within_2, ratios.beyond_10, ratios.over);
}

std::string summary_of(const std::vector<Line>& lines) {
  const auto same = [](const Line& line) { return line.same_memory(); };
  const auto full = [](const Line& line) { return line.full; };
  const auto megatron = [](const Line& line) { return line.megatron; };
  const auto all = [](const Line&) { return true; };
  const auto dense = [](const Line& line) { return !is_moe(line); };
  const auto fits = [](const Line& line) { return line.recipe->evaluation.fits; };
  const auto misfits = [](const Line& line) { return !line.recipe->evaluation.fits; };
  std::string text =
      "| our plan against the recipe | recipes | median ratio | least | recipe within 1 % | within 2 % | plan more "
      "than "
      "10 % faster | recipe faster |\n|---|---:|---:|---:|---:|---:|---:|---:|\n";
  text += ratios_row("in the same memory", ratios_of(lines, same, all));
  text += ratios_row("… dense models", ratios_of(lines, same, dense));
  text += ratios_row("… mixtures of experts", ratios_of(lines, same, is_moe));
  text += ratios_row("within the device, recipes that fit", ratios_of(lines, full, fits));
  text += ratios_row("within the device, recipes that do not fit by our count", ratios_of(lines, full, misfits));
  text += ratios_row("plan for Megatron-Core, recipes that fit", ratios_of(lines, megatron, fits));
  text += ratios_row("plan for Megatron-Core, recipes that do not", ratios_of(lines, megatron, misfits));
  return text;
}

std::string cautions_table(const std::vector<Line>& lines) {
  const std::vector<Caution> known = cautions();
  const auto same = [](const Line& line) { return line.same_memory(); };
  std::string text = "| plans in the same memory with | recipes | median ratio | least |\n|---|---:|---:|---:|\n";
  const auto add = [&](const char* name, const Ratios& ratios) {
    if (ratios.count > 0) {
      text += fmt::format("| {} | {} | {:.3f} | {:.3f} |\n", name, ratios.count, ratios.median, ratios.least);
    }
  };
  for (const Caution& caution : known) {
    add(caution.name, ratios_of(lines, same, [&](const Line& line) {
          return line.same_memory() != nullptr && caution.holds(line, *line.same_memory());
        }));
  }
  add("none of these", ratios_of(lines, same, [&](const Line& line) {
        return std::none_of(known.begin(), known.end(), [&](const Caution& caution) {
          return line.same_memory() != nullptr && caution.holds(line, *line.same_memory());
        });
      }));
  return text;
}

// Where the time comes from: plans that are more than 2 % faster by the term that they save most of.
std::string savings_table(const std::vector<Line>& lines) {
  std::string text = "| largest saving | recipes | median ratio |\n|---|---:|---:|\n";
  for (const Term& term : kTerms) {
    const Ratios ratios = ratios_of(
        lines, [](const Line& line) { return line.same_memory(); },
        [&](const Line& line) {
          const Plan* plan = line.same_memory();
          return line.ratio(plan) < 0.98 && changes_of(*line.recipe, *plan).front().name == std::string_view(term.name);
        });
    if (ratios.count > 0) text += fmt::format("| {} | {} | {:.3f} |\n", term.name, ratios.count, ratios.median);
  }
  return text;
}

// How well the recipes are predicted, and whether two of them for the same job come in the measured order.
std::string accuracy_sentence(const std::vector<Line>& lines) {
  std::vector<double> errors;
  std::size_t pairs = 0, ordered = 0;
  for (const Line& line : lines) {
    const std::vector<double>& measured = line.recipe->measured_s;
    for (const double time : measured) errors.push_back(std::abs(line.recipe->predicted_s() / time - 1));
    for (const Line& other : lines) {
      if (other.job != line.job || other.number <= line.number || measured.empty()) continue;
      if (other.recipe->measured_s.empty()) continue;
      ++pairs;
      const bool slower = median(measured) > median(other.recipe->measured_s);
      ordered += slower == (line.recipe->predicted_s() > other.recipe->predicted_s()) ? 1 : 0;
    }
  }
  if (errors.empty()) return {};
  return fmt::format(
      "The recipes themselves are predicted with a median error of {:.1f} % ({} measured times). Where two recipes "
      "were "
      "published for the same job,\nthe prediction puts {} of {} pairs in the measured order.\n",
      100 * median(errors), errors.size(), ordered, pairs);
}

// Recipes that the plan for the device's own memory does not reach.
std::string winners_sentence(const std::vector<Line>& lines) {
  std::size_t misfits = 0, silent = 0, count = 0;
  std::string rows;
  double most = 1;
  for (const Line& line : lines) {
    if (line.recipe->evaluation.fits) continue;
    ++misfits;
    silent += line.recipe->says_what_it_recomputes ? 0 : 1;
    if (line.full != nullptr && line.ratio(line.full) <= 1 + 1e-9) continue;
    rows += fmt::format("{}{}", rows.empty() ? "" : ", ", line.number);
    if (line.full != nullptr) most = std::max(most, line.ratio(line.full));
    ++count;
  }
  if (misfits == 0) return {};
  return fmt::format(
      "{} recipes do not fit by our count; {} of them do not say what they recompute or move to the host. In the "
      "device's own memory {} of these\nare faster than our plan, by up to {:.1f} % (rows {}).\n",
      misfits, silent, count, 100 * (most - 1), rows.empty() ? "–" : rows);
}

std::string near_optimum_sentence(const std::vector<Line>& lines) {
  std::vector<std::string> names;
  for (const Line& line : lines) {
    const Plan* plan = line.same_memory();
    if (plan == nullptr || line.ratio(plan) < 0.98) continue;
    const std::string name = fmt::format("{} on {}", line.job->model, line.job->job.cluster.device.name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names.empty() ? "" : fmt::format("Recipes within 2 % of the optimum exist for {}.\n", fmt::join(names, ", "));
}

constexpr const char* kHowToRead = R"(
Written by `make recipes DATA=folder`, from measurements (make accuracy DATA=folder); do not edit.

For every tuned recipe that Megatron Bridge (mbridge), the DGX Cloud benchmarks (dgxc) and others publish with their settings: what nest predicts
for the recipe, and what it plans for the same model, devices, batch, sequence, precision and software. Both sides are priced by the same model, so the page says
what planning adds if the model is right; docs/generated/accuracy.md says how right it is.

- *measured s*: time of a step as the source publishes it, a range where several releases measured the same recipe. Only recipes were measured.
- *our plan*: the optimum of the whole space (docs/planning.md), proven, in the memory of the device less our margin.
- *plan for Megatron-Core*: what that framework can be told: one setting for all stages, ZeRO 0 or 1 (or its FSDP,
  where a recipe for the job uses it), its rank orders, a batch that divides.
- *ratio*: predicted time of the plan over that of the recipe; below 1 the plan is faster.
- \* the recipe does not fit by our count, although somebody ran it: most such rows do not say what is recomputed or moved to the host, and
  nothing is assumed. A plan that must fit is then compared with a recipe that need not, so *same memory* gives the ratio for the best
  plan on devices with just as much memory as the recipe takes by our count.
- zero=1×3/2×1: three stages with ZeRO 1, one with 2; (of 8): sharded over groups of 8.
)";

constexpr const char* kBelief = R"(
- *Small gains by halving tp*, with cp or dp instead, on H100 and GB200. The recipes keep one layout from the smallest to the largest cluster, and the memory
  of the smallest decides it; on larger ones much of it stays free (the shares above). These gains are worth a try: little else changes.
- *Context over 4 devices or more* is priced as a ring that hides behind attention. torchtitan's published runs with cp 4 and 8 were slower
  than that, so the gains of tp=2 cp=4 and tp=4 cp=4 on 70B and 405B models may vanish; those with cp=2 rest on measured recipes.
- *Mixtures of experts* give the large ratios, nearly always by the term "experts": the plan puts pipeline stages where the recipe puts expert
  ranks. The direction is right where experts are spread over several nodes of 8 devices: GPT-OSS on B200 was measured with 8 and with
  64 ranks. The size is not to be taken at face value: the all-to-all is priced as exposed unless the release is known to
  overlap it, grouped matmuls with few rows per expert were measured on one kind of device only, and mixtures are predicted worst of all rows.
- *Chunks of unequal size*: interleaving is priced by the layers of a stage, as if its chunks were equal, and Megatron-Core needs an explicit layout for
  them. It matters where the bubble is large.
- *Stages that differ*, ZeRO 2 and 3 in a pipeline: no framework runs them as they stand. The plans for Megatron-Core show that they add
  little: nearly all of every gain is in the degrees.
- *Memory*: plans fill the device up to our margin. Those who run for weeks keep more room, for imbalance, fragmentation and checkpoints.
- *Outside the space*: activations on the host, recomputation of some layers of a stage, weights kept in fp8. Recipes that rest on these do not fit by
  our count, and no plan of ours can follow them.
)";

}  // namespace

std::size_t recipes_that_win(const RecipeJobs& recipes, const std::vector<RecipeAnswer>& answers) {
  const std::vector<Line> lines = lines_of(recipes, answers);
  return at(std::count_if(lines.begin(), lines.end(), [](const Line& line) {
    const Plan* plan = line.same_memory();
    return line.recipe->outside.empty() && (plan == nullptr || line.ratio(plan) > 1 + 1e-9);
  }));
}

std::string recipes_page(const RecipeJobs& recipes, const std::vector<RecipeAnswer>& answers) {
  const std::vector<Line> lines = lines_of(recipes, answers);
  std::string text = "# Published recipes and our plans, side by side\n";
  text += kHowToRead;
  text += fmt::format("\n{} rows, {} distinct recipes for {} jobs; {} left out.\n\n", recipes.rows, lines.size(),
                      recipes.jobs.size(), recipes.left_out.size());
  text += summary_of(lines);
  text += "\n## Side by side\n\n" + table_of(lines);
  text +=
      "\n## Why\n\nTerms of the step that differ, as a share of the recipe's time (− saved, + added), then the memory "
      "that recipe and plan need of the device's, margin included.\n\n";
  for (const Line& line : lines) text += why_of(line);
  for (const LeftOut& row : recipes.left_out) text += fmt::format("\nLeft out: {}: {}.\n", row.id, row.reason);
  text += "\n## What to believe\n\n" + accuracy_sentence(lines) + "\n" + near_optimum_sentence(lines) + "\n" +
          winners_sentence(lines) + kBelief + "\n" + savings_table(lines) + "\n" + cautions_table(lines);
  return text;
}

}  // namespace nest::accuracy
