// Steps and layers measured on one H200, and parameter counts of real models.
#include <fmt/format.h>

#include <array>

#include "accuracy/case.h"
#include "accuracy/fields.h"
#include "accuracy/sets.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"
#include "model/config.h"
#include "model/count.h"
#include "model/presets.h"
#include "split/local_layer.h"

namespace nest::accuracy {
namespace {

// Calls use(row) for the objects of a list whose "kind" is the given one; "": all.
template <class Use>
void for_each_row(const std::filesystem::path& path, const std::string& kind, Set& set, Use use) {
  const auto document = read_list(path, set);
  if (!document) return;
  for (const doc::Value& value : *document->root().as_array()) {
    const Fields row(&value);
    if (!kind.empty() && row.text("kind") != kind) continue;
    ++set.rows;
    const std::string id = row.text("name").value_or(row.text("model").value_or(row.text("kind").value_or("row")));
    try {
      use(row, *document);
    } catch (const InputError& error) {
      set.leave_out(id, id, error.what());
    }
  }
}

PublishedRun run_of(const Fields& row) {
  PublishedRun run;
  run.source = row.text("name").value_or("step");
  run.micro_batch = row.integer("mbs");
  run.recompute = row.flag("recompute").value_or(false) ? "full" : "none";
  run.id = fmt::format("{} batch {}{}", run.source, run.micro_batch.value_or(0),
                       run.recompute == "full" ? ", recomputed" : "");
  run.software = "transformers";  // its blocks, in a training loop of plain PyTorch
  run.gpu = "H200";
  run.gpus = 1;
  run.tp = run.pp = run.dp = 1;
  run.zero = 0;
  run.global_batch = run.micro_batch.value_or(1) * row.integer("accum").value_or(1);
  run.precision = "bf16";
  ModelShape& model = run.model;
  model.name = run.source;
  model.layers = row.integer("layers").value_or(0);
  model.hidden = row.integer("h").value_or(0);
  model.heads = row.integer("heads").value_or(0);
  model.kv_heads = row.integer("kv").value_or(model.heads);
  model.ffn = row.integer("ffn").value_or(0);
  model.vocabulary = row.integer("vocab").value_or(0);
  model.sequence = row.integer("seq");
  model.gated = true;
  if (model.heads > 0) model.head_dim = model.hidden / model.heads;
  if (model.head_dim < 1 || model.kv_heads < 1 || model.ffn < 1 || model.vocabulary < 1) model.layers = 0;
  return run;
}

template <class Predict>
void add_steps(const std::filesystem::path& folder, const char* measured_key, Set& set, Predict predict) {
  for_each_row(folder / "h200" / "steps.json", "step", set, [&](const Fields& row, const Document&) {
    const PublishedRun run = run_of(row);
    const auto measured = row.number(measured_key);
    auto made = make_case(run, false);
    if (const auto* refusal = std::get_if<Refusal>(&made)) {
      set.leave_out(run.id, run.source, refusal->reason);
    } else if (!measured || *measured <= 0) {
      set.leave_out(run.id, run.source, "not measured");
    } else {
      const Case& one = std::get<Case>(made);
      const Plan evaluation = cost::evaluate(one.job, one.strategy, one.stages);
      set.readings.push_back(
          {run.id, run.source, {predict(evaluation), *measured}, "", false, true, one.job.stack.memory_margin, ""});
    }
  });
}

// What PyTorch's caching allocator counts for a tensor: blocks of 512 bytes; large ones get segments of 2 MiB, and a
// rest of at most 1 MiB stays with the tensor.
double counted_bytes(double bytes) {
  constexpr std::int64_t kMib = 1 << 20;
  const std::int64_t block = round_up(static_cast<std::int64_t>(bytes), 512);
  if (block < 10 * kMib) return static_cast<double>(block);
  const std::int64_t segment = round_up(block, 2 * kMib);
  return static_cast<double>(segment - block <= kMib ? segment : block);
}

constexpr double kRandomStateBytes = 1024;  // per layer, kept by the attention kernel

double saved_bytes(const split::LocalLayer& layer) {
  double total = 0;
  for (const split::SavedTensor& tensor : layer.saved_tensors) {
    if (!tensor.only_selective) total += counted_bytes(tensor.bytes);
  }
  return total + kRandomStateBytes;
}

struct BlockShape {
  const char* name;
  std::int64_t hidden, heads, kv_heads, ffn;
  bool gated;
};

// The plain blocks that were measured are called by the model whose sizes they have.
constexpr std::array kBlocks = {
    BlockShape{"llama2_7b", 4096, 32, 32, 11008, true},   BlockShape{"llama2_13b", 5120, 40, 40, 13824, true},
    BlockShape{"llama2_70b", 8192, 64, 8, 28672, true},   BlockShape{"llama3_8b", 4096, 32, 8, 14336, true},
    BlockShape{"llama3_70b", 8192, 64, 8, 28672, true},   BlockShape{"llama3_405b", 16384, 128, 8, 53248, true},
    BlockShape{"gpt3_175b", 12288, 96, 96, 49152, false}, BlockShape{"bert_large", 1024, 16, 16, 4096, false},
};

model::Architecture plain_block(const BlockShape& shape) {
  model::Block block;
  block.attention.heads = shape.heads;
  block.attention.kv_heads = shape.kv_heads;
  block.attention.head_dim = shape.hidden / shape.heads;
  block.feed_forward =
      model::FeedForward{shape.ffn, shape.gated, shape.gated ? model::Activation::silu : model::Activation::gelu,
                         !shape.gated, !shape.gated};
  block.norm = shape.gated ? model::NormKind::rms : model::NormKind::layer;
  block.norm_bias = !shape.gated;
  model::Attention& attention = block.attention;
  attention.query_bias = attention.key_bias = attention.value_bias = attention.output_bias = !shape.gated;
  model::Architecture arch;
  arch.hidden = shape.hidden;
  arch.vocabulary = 1024;
  arch.position = model::PositionKind::none;
  model::Tower tower;
  tower.kinds = {block};
  tower.blocks = {0};
  arch.towers = {tower};
  return arch;
}

}  // namespace

Set step_time(const std::filesystem::path& folder) {
  Set set{"step_time", "Whole steps on one H200: time", "s", 0, {}, {}};
  add_steps(folder, "step_s", set, [](const Plan& evaluation) { return evaluation.prediction.iteration_s; });
  return set;
}

Set step_memory(const std::filesystem::path& folder) {
  Set set{"step_memory", "Whole steps on one H200: peak of live tensors", "bytes", 0, {}, {}};
  add_steps(folder, "peak_bytes", set,
            [](const Plan& evaluation) { return static_cast<double>(evaluation.stages.front().memory.allocated); });
  return set;
}

Set layer_saved(const std::filesystem::path& folder) {
  Set set{"layer_saved", "Transformer blocks on one H200: bytes kept for backward", "bytes", 0, {}, {}};
  for_each_row(folder / "h200" / "layers.json", "layer", set, [&](const Fields& row, const Document&) {
    const std::string name = row.text("model").value_or("");
    const BlockShape* shape = nullptr;
    for (const BlockShape& known : kBlocks) {
      if (name == known.name) shape = &known;
    }
    const split::RunShape run{.micro_batch = row.integer("mbs").value_or(0),
                              .sequence = row.integer("seq").value_or(0)};
    const Split split{.tp = row.integer("tp").value_or(0)};
    const auto measured = row.number("saved_bytes");
    const std::string id = fmt::format("{} tp {} sequence {} batch {}", name, split.tp, run.sequence, run.micro_batch);
    if (!shape || row.text("impl") != "plain") {
      set.leave_out(id, name, shape ? "implementation not known" : "sizes of the block not known");
      return;
    }
    const model::Implementation plain{.stack = model::Stack::plain};
    const model::Model model = model::build_model(plain_block(*shape), plain);
    if (!measured || !split::refuse_split(model, run, split).empty()) {
      set.leave_out(id, name, "row is incomplete");
      return;
    }
    set.readings.push_back({id,
                            name,
                            {saved_bytes(split::localise(model.kinds[1], run, split, plain)), *measured},
                            "",
                            false,
                            true,
                            0,
                            ""});
  });
  return set;
}

Set huggingface_saved(const std::filesystem::path& folder) {
  Set set{"huggingface_saved", "Hugging Face blocks on one H200: bytes kept for backward", "bytes", 0, {}, {}};
  for_each_row(folder / "h200" / "hf_layers.json", "", set, [&](const Fields& row, const Document&) {
    const std::string name = row.text("name").value_or("");
    const auto arch = model::find_model_preset(name);
    const split::RunShape run{.micro_batch = row.integer("mbs").value_or(0),
                              .sequence = row.integer("seq").value_or(0)};
    const auto measured = row.number("layer_saved");
    const std::string id = fmt::format("{} sequence {} batch {}", name, run.sequence, run.micro_batch);
    if (!arch) {
      set.leave_out(id, name, "no preset of that name");
      return;
    }
    // Measured in a loop that left the cache on, as configurations have it.
    const model::Implementation hf{
        .stack = model::Stack::huggingface, .dropout = true, .sequence = run.sequence, .cache = true};
    const model::Model model = model::build_model(*arch, hf);
    if (!measured || *measured <= 0 || !split::refuse_split(model, run, {}).empty()) {
      set.leave_out(id, name, "row is incomplete");
      return;
    }
    const split::LocalLayer layer = split::localise(model.layer(1), run, {}, hf);
    set.readings.push_back({id, name, {saved_bytes(layer), *measured}, "", false, true, 0, ""});
  });
  return set;
}

Set parameter_counts(const std::filesystem::path& folder) {
  Set set{"parameter_counts", "Parameters of real models", "parameters", 0, {}, {}};
  for_each_row(folder / "h200" / "hf_params.json", "", set, [&](const Fields& row, const Document& document) {
    const std::string name = row.text("name").value_or("(no name)");
    const doc::Value* config = row.value("config");
    const auto measured = row.number("params");
    if (!config || !config->as_object() || !measured || *measured <= 0) {
      set.leave_out(name, name, "row is incomplete");
      return;
    }
    const model::ParameterCount count =
        model::count_parameters(model::build_model(model::read_config({document.source, *config}, name)));
    set.readings.push_back({name, name, {static_cast<double>(count.total), *measured}, "", false, true, 0, ""});
  });
  return set;
}

}  // namespace nest::accuracy
