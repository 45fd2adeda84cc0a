// Training runs that others measured and published.
#include <fmt/format.h>

#include <algorithm>

#include "accuracy/case.h"
#include "accuracy/known.h"
#include "accuracy/sets.h"
#include "accuracy/software.h"
#include "base/error.h"
#include "base/index.h"
#include "cost/layer_price.h"
#include "cost/memory.h"

namespace nest::accuracy {
namespace {

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::string notes_on(const PublishedRun& run, const Case& one, const Plan& evaluation) {
  std::vector<std::string> notes = one.assumed;
  // Where the row says what is recomputed, too fast a prediction at full memory has a likely cause.
  const bool too_fast = run.iteration_s && evaluation.prediction.iteration_s < *run.iteration_s;
  if (!evaluation.fits && too_fast && run.recompute) {
    notes.emplace_back("memory is full by our count: the allocator may have retried");
  }
  if (const std::string reason = known_reason(run); !reason.empty()) notes.push_back(reason);
  return joined(notes);
}

bool holds_runs(const Document& document) {
  const doc::Array& rows = *document.root().as_array();
  return rows.empty() ||
         std::any_of(rows.begin(), rows.end(), [](const doc::Value& row) { return Fields(&row).value("model"); });
}

// A row of the file that could not be predicted for a reason of ours is left out like any other.
template <class Predict>
void for_each_run(const std::filesystem::path& folder, Set& set, Predict predict) {
  for (const std::filesystem::path& path : published_files(folder)) {
    const auto document = read_list(path, set);
    if (!document) continue;
    if (!holds_runs(*document)) {
      set.leave_out(path.filename().string(), path.filename().string(), "file is not a list of runs");
      continue;
    }
    for (const doc::Value& value : *document->root().as_array()) {
      PublishedRun run = read_run(value);
      run.file = path.filename().string();
      try {
        predict(run);
      } catch (const InputError& error) {
        set.leave_out(run.id, run.source, std::string("not a plan of ours: ") + error.what());
      }
    }
  }
}

Reading reading_of(const PublishedRun& run, double predicted, double measured, std::string note) {
  Reading reading;
  reading.id = run.id;
  reading.source = run.source;
  reading.point = {predicted, measured};
  reading.moe = run.moe();
  reading.strict = run.strict();
  reading.note = std::move(note);
  reading.run.file = run.file;
  reading.run.release = run.release;
  reading.run.device = run.gpu;
  reading.run.ab_group = run.ab_group;
  reading.run.ab_change = run.ab_change;
  return reading;
}

// What the spread of a prediction and the order of two runs need.
void add_prediction(const PublishedRun& run, const Case& one, const Plan& evaluation, Reading& reading) {
  reading.run.job = fmt::format("{} on {} x {}, {} x {}", run.model.name, run.gpus, run.gpu, one.job.run.global_batch,
                                one.job.run.sequence);
  reading.run.prediction = evaluation.prediction;
  reading.run.circumstances = {real(one.strategy.devices_used()), run.moe(), !run.complete,
                               !cost::not_calibrated(one.job).empty()};
}

void add_room(const Case& one, const Plan& evaluation, Reading& reading) {
  const auto there = real(one.job.cluster.device.memory_bytes);
  reading.run.fits = evaluation.fits;
  reading.run.not_expressed = one.not_expressed;
  for (const StagePlan& stage : evaluation.stages)
    reading.run.over = std::max(reading.run.over, real(stage.memory.needed) / there - 1);
}

// Bytes that the caching allocator can get: it gives its cache back before it fails.
double usable_bytes(const cost::Job& job) {
  constexpr double kContextAndCommunicators = 1.8e9;
  return real(job.cluster.device.memory_bytes) - kContextAndCommunicators;
}

double predicted_bytes(const Case& one, const Plan& evaluation, MemoryReading reading, bool last_stage_only) {
  double most = 0;
  const double context = real(cost::context_bytes(one.job, one.strategy));
  for (std::size_t s = 0; s < evaluation.stages.size(); ++s) {
    if (last_stage_only && s + 1 != evaluation.stages.size()) continue;
    const StageMemory& memory = evaluation.stages[s].memory;
    const auto allocated = real(memory.allocated);
    const auto reserved = std::max(1.01 * allocated, std::min(real(memory.total), usable_bytes(one.job)));
    switch (reading) {
      case MemoryReading::allocated: most = std::max(most, allocated); break;
      case MemoryReading::reserved: most = std::max(most, reserved); break;
      case MemoryReading::outside: most = std::max(most, real(memory.total) + context); break;
    }
  }
  return most;
}

void add_memory(const PublishedRun& run, Set& set) {
  if (run.out_of_memory || (!run.peak_bytes && !run.reserved_bytes && !run.last_rank_bytes)) return;
  ++set.rows;
  auto made = make_case(run, true);
  if (const auto* refusal = std::get_if<Refusal>(&made)) {
    set.leave_out(run.id, run.source, refusal->reason);
    return;
  }
  const Case& one = std::get<Case>(made);
  const Plan evaluation = cost::evaluate(one.job, one.strategy, one.stages);
  // Megatron's own tests log the memory of the last rank.
  const bool last_stage_only = run.source == "mlm";
  const auto add = [&](MemoryReading reading, double measured, bool last_stage) {
    Reading row = reading_of(run, predicted_bytes(one, evaluation, reading, last_stage), measured, joined(one.assumed));
    row.source += fmt::format("{} {}", run.moe() ? " moe" : "", to_string(reading));
    row.margin = one.job.stack.memory_margin;
    set.readings.push_back(std::move(row));
  };
  if (run.peak_bytes) add(reading_for(run), *run.peak_bytes, last_stage_only);
  if (run.last_rank_bytes) add(MemoryReading::allocated, *run.last_rank_bytes, true);
  if (run.reserved_bytes) add(MemoryReading::reserved, *run.reserved_bytes, last_stage_only);
}

// Kept bytes of one block under this row's split and recomputation over those under plain tensor parallelism.
double activation_percent(const Case& one) {
  Split plain = one.strategy.split;
  plain.sp = false;
  const auto kept = [&](const Split& split, int treatment) {
    const auto& kinds = one.job.model.kinds;
    const auto block = std::find_if(kinds.begin(), kinds.end(),
                                    [](const model::Layer& layer) { return layer.kind == model::LayerKind::block; });
    const cost::LayerPrice price =
        cost::price_layer(one.job, static_cast<int>(block - kinds.begin()), split, one.strategy.micro_batch);
    return price.kept_bytes[at(treatment)];
  };
  return 100 * kept(one.strategy.split, static_cast<int>(one.stages.front().recompute.kind)) /
         kept(plain, cost::kNothing);
}

}  // namespace

std::vector<std::filesystem::path> published_files(const std::filesystem::path& folder) {
  // The rows that ship with nest lie in their folder directly.
  const std::filesystem::path inside = folder / "published";
  if (!std::filesystem::is_directory(inside)) return {folder / "runs.json"};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(inside)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Set published_time(const std::filesystem::path& folder) {
  Set set{"published_time", "Published training runs: iteration time", "s", 0, {}, {}};
  for_each_run(folder, set, [&](const PublishedRun& run) {
    ++set.rows;
    auto made = make_case(run, false);
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      set.leave_out(run.id, run.source, refusal->reason);
      return;
    }
    if (!run.iteration_s) {
      set.leave_out(run.id, run.source, "no time published");
      return;
    }
    const Case& one = std::get<Case>(made);
    const Plan evaluation = cost::evaluate(one.job, one.strategy, one.stages);
    Reading reading =
        reading_of(run, evaluation.prediction.iteration_s, *run.iteration_s, notes_on(run, one, evaluation));
    add_room(one, evaluation, reading);
    add_prediction(run, one, evaluation, reading);
    set.readings.push_back(std::move(reading));
  });
  return set;
}

std::vector<report::PublishedTime> published_times(const std::filesystem::path& folder) {
  Set unused;
  std::vector<report::PublishedTime> times;
  for_each_run(folder, unused, [&](const PublishedRun& run) {
    auto made = make_case(run, false);
    const Case* one = std::get_if<Case>(&made);
    if (one == nullptr || !run.iteration_s) return;
    const double predicted_s = cost::evaluate(one->job, one->strategy, one->stages).prediction.iteration_s;
    times.push_back({run.id, run.citation, one->job.cluster.device.name, to_string(one->job.run.precision),
                     one->job.stack.name, run.gpus, one->job.run.sequence, real(one->job.parameters), run.moe(),
                     run.complete, *run.iteration_s, predicted_s});
  });
  return times;
}

Set published_memory(const std::filesystem::path& folder) {
  Set set{"published_memory", "Published training runs: peak memory", "bytes", 0, {}, {}};
  for_each_run(folder, set, [&](const PublishedRun& run) { add_memory(run, set); });
  return set;
}

Set published_activations(const std::filesystem::path& folder) {
  Set set{"published_activations",
          "Published training runs: activations as a share of plain tensor parallelism",
          "percent",
          0,
          {},
          {}};
  for_each_run(folder, set, [&](const PublishedRun& run) {
    if (!run.activation_share) return;
    ++set.rows;
    auto made = make_case(run, true);
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      set.leave_out(run.id, run.source, refusal->reason);
      return;
    }
    set.readings.push_back(reading_of(run, activation_percent(std::get<Case>(made)), *run.activation_share, ""));
  });
  return set;
}

std::string explain(const std::filesystem::path& folder, const std::string& id) {
  Set set;
  std::string text = "no published run is called " + id + "\n";
  for_each_run(folder, set, [&](const PublishedRun& run) {
    if (run.id != id) return;
    auto made = make_case(run, false);
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      text = fmt::format("{}: left out: {}\n", id, refusal->reason);
      return;
    }
    const Case& one = std::get<Case>(made);
    const Plan evaluation = cost::evaluate(one.job, one.strategy, one.stages);
    const auto& parts = evaluation.prediction.breakdown_s;
    text = fmt::format("{}: measured {} s, predicted {} s\n", id, run.iteration_s.value_or(0),
                       evaluation.prediction.iteration_s);
    text += fmt::format(
        "  compute {:.6g} recompute {:.6g} bubble {:.6g} tp {:.6g} cp {:.6g} ep {:.6g} p2p {:.6g} zero {:.6g} "
        "grad_sync {:.6g} optimizer {:.6g} other {:.6g}\n",
        parts.compute, parts.recompute, parts.bubble, parts.tp, parts.cp, parts.ep, parts.p2p, parts.zero,
        parts.grad_sync, parts.optimizer, parts.other);
    for (std::size_t s = 0; s < evaluation.stages.size(); ++s) {
      const StagePlan& stage = evaluation.stages[s];
      text += fmt::format(
          "  stage {}: layers {} … {}, micro-batch {:.6g} s (forward {:.6g}, backward {:.6g}, recompute {:.6g}), "
          "allocated {} B, reserved {} B at {}\n",
          s, stage.first, stage.last, stage.time.total, stage.time.forward, stage.time.backward, stage.time.recompute,
          stage.memory.allocated, stage.memory.total, stage.memory.moment);
    }
    text += fmt::format("  {}\n", evaluation.fits ? "fits" : "does not fit");
    for (const std::string& name : one.not_expressed) text += "  not expressed: " + name + "\n";
    for (const std::string& note : one.assumed) text += "  " + note + "\n";
    for (const std::string& note : evaluation.assumptions) text += "  " + note + "\n";
  });
  return text;
}

}  // namespace nest::accuracy
