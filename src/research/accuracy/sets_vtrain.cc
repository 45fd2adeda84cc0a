// The two tables of iteration times published with vTrain (Megatron-DeepSpeed, fp16, A100).
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "accuracy/case.h"
#include "accuracy/sets.h"
#include "base/error.h"
#include "base/text.h"

namespace nest::accuracy {
namespace {

using Columns = std::map<std::string, std::size_t, std::less<>>;

class Row {
 public:
  Row(const Columns& columns, std::vector<std::string_view> cells) : columns_(columns), cells_(std::move(cells)) {}

  // 0 when the cell is absent or not a number.
  double number(std::string_view name) const {
    const auto column = columns_.find(name);
    if (column == columns_.end() || column->second >= cells_.size()) return 0;
    const std::string cell(trim(cells_[column->second]));
    const double value = std::strtod(cell.c_str(), nullptr);
    return std::isfinite(value) && std::abs(value) < 1e12 ? value : 0;
  }
  std::int64_t integer(std::string_view name) const { return static_cast<std::int64_t>(number(name)); }

 private:
  const Columns& columns_;
  std::vector<std::string_view> cells_;
};

PublishedRun run_of(const Row& row, const std::string& which, std::size_t index) {
  PublishedRun run;
  run.id = fmt::format("vtrain_{}-{}", which, index);
  run.source = "vtrain";
  run.gpu = "A100-80GB";
  run.gpus = row.integer("# GPUs");
  run.precision = "fp16";
  run.tp = row.integer("tensor parallelism");
  run.dp = row.integer("data parallelism");
  run.pp = row.integer("pipeline parallelism");
  run.zero = 0;
  run.recompute = which == "multi" ? "full" : "none";
  run.micro_batch = row.integer("micro batch");
  run.global_batch = row.integer("global batch");
  run.iteration_s = row.number("iteration time (ms)") / 1e3;
  run.tier = "A";
  run.complete = true;

  ModelShape& model = run.model;
  model.name = "gpt";
  model.layers = row.integer("# layers");
  model.hidden = row.integer("hidden size");
  model.heads = model.kv_heads = row.integer("attention heads");
  model.head_dim = model.heads > 0 ? model.hidden / model.heads : 0;
  model.ffn = model.expert_ffn = 4 * model.hidden;
  model.sequence = row.integer("sequence length");
  model.tied = true;
  // Runs on one node without tensor parallelism kept the tokenizer's own, unpadded vocabulary.
  model.vocabulary = which == "single" && run.tp == 1 ? 50257 : 51200;
  return run;
}

bool sound(const PublishedRun& run) {
  return run.tp >= 1 && run.dp >= 1 && run.pp >= 1 && run.micro_batch >= 1 && run.global_batch >= 1 &&
         run.iteration_s > 0 && run.model.layers >= 1 && run.model.head_dim >= 1 && run.model.sequence >= 1;
}

void add(const PublishedRun& run, Set& set) {
  ++set.rows;
  const std::string source = fmt::format("tp {}", run.tp.value_or(0));
  if (!sound(run)) {
    set.leave_out(run.id, source, "row is incomplete");
    return;
  }
  try {
    auto made = make_case(run, false);
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      set.leave_out(run.id, source, refusal->reason);
      return;
    }
    const Case& one = std::get<Case>(made);
    const double predicted = cost::evaluate(one.job, one.strategy, one.stages).prediction.iteration_s;
    set.readings.push_back({run.id, source, {predicted, *run.iteration_s}, "", false, true, 0, ""});
  } catch (const InputError& error) {
    set.leave_out(run.id, source, std::string("not a plan of ours: ") + error.what());
  }
}

}  // namespace

Set vtrain(const std::filesystem::path& folder, const std::string& which) {
  Set set{"vtrain_" + which,
          which == "single" ? "vTrain, one node: iteration time" : "vTrain, several nodes: iteration time",
          "s",
          0,
          {},
          {}};
  const auto text = read_text(folder / "published" / ("vtrain_" + which + ".csv"));
  if (!text) return set;
  Columns columns;
  std::size_t index = 0;
  for (const std::string_view line : split_text(*text, '\n')) {
    if (trim(line).empty()) continue;
    const auto cells = split_text(line, ',');
    if (columns.empty()) {
      for (std::size_t c = 0; c < cells.size(); ++c) columns.emplace(std::string(trim(cells[c])), c);
      continue;
    }
    add(run_of(Row(columns, cells), which, index++), set);
  }
  return set;
}

}  // namespace nest::accuracy
