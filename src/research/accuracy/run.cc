#include "accuracy/run.h"

#include <algorithm>
#include <regex>

#include "base/index.h"
#include "base/text.h"

namespace nest::accuracy {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

ModelShape read_shape(const Fields& row) {
  ModelShape shape;
  shape.name = row.text("name").value_or("");
  shape.layers = row.integer("layers").value_or(0);
  shape.hidden = row.integer("hidden").value_or(0);
  shape.heads = row.integer("heads").value_or(0);
  shape.kv_heads = row.integer("kv_heads").value_or(shape.heads);
  shape.head_dim = row.integer("head_dim").value_or(shape.heads > 0 ? shape.hidden / shape.heads : 0);
  shape.ffn = row.integer("ffn_hidden").value_or(0);
  shape.vocabulary = row.integer("vocab").value_or(0);
  shape.sequence = row.integer("seq");
  shape.gated = row.flag("gated_mlp").value_or(false);
  shape.tied = row.flag("tied_embeddings").value_or(false);
  shape.experts = row.integer("experts").value_or(0);
  shape.top_k = row.integer("topk").value_or(1);
  shape.expert_ffn = row.integer("moe_ffn_hidden").value_or(shape.ffn);
  shape.shared_ffn = row.integer("shared_expert_ffn").value_or(0);
  shape.dense_layers = shape.experts > 0 ? row.integer("dense_layers").value_or(0) : 0;
  shape.attention = row.text("attention").value_or("");
  shape.hybrid = !row.object("hybrid").empty();
  for (const std::int64_t size : {shape.layers, shape.hidden, shape.heads, shape.kv_heads, shape.head_dim, shape.ffn,
                                  shape.vocabulary, shape.sequence.value_or(1), shape.top_k, shape.expert_ffn}) {
    if (size < 1) shape.layers = 0;
  }
  if (std::min({shape.experts, shape.shared_ffn, shape.dense_layers}) < 0 || shape.dense_layers > shape.layers)
    shape.layers = 0;
  return shape;
}

// Floating-point operations per second and GPU as the Megatron papers of 2021 count them, recomputation included:
// 96 B s l h^2 (1 + s/(6h) + V/(16 l h)) per step, three quarters of it without recomputation.
std::optional<double> seconds_from_flops(const Fields& row, const Fields& measured, const PublishedRun& run) {
  const auto rate = measured.number("tflops_per_gpu");
  if (!rate || !run.global_batch || !run.model.sequence || row.text("flops_convention") != "hw_sc21")
    return std::nullopt;
  const auto b = real(*run.global_batch);
  const auto s = real(*run.model.sequence);
  const auto l = real(run.model.layers);
  const auto h = real(run.model.hidden);
  const auto v = real(run.model.vocabulary);
  const double flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return flops / (*rate * 1e12 * real(run.gpus));
}

std::optional<double> iteration_seconds(const Fields& row, const PublishedRun& run) {
  const Fields measured = row.object("measured");
  for (const Fields& place : {measured, row.object("derived")}) {
    if (const auto given = place.number("iter_time_s"); given && *given > 0) return given;
  }
  if (run.gpus < 1 || run.model.layers < 1) return std::nullopt;
  auto tokens_per_s = measured.number("tokens_per_s_total");
  if (const auto rate = measured.number("tokens_per_s_per_gpu"); rate && !tokens_per_s)
    tokens_per_s = *rate * real(run.gpus);
  if (tokens_per_s && *tokens_per_s > 0 && run.global_batch && run.model.sequence) {
    return real(*run.global_batch) * real(*run.model.sequence) / *tokens_per_s;
  }
  return seconds_from_flops(row, measured, run);
}

std::optional<double> positive(std::optional<double> value, double unit) {
  return value && *value > 0 ? std::optional(*value * unit) : std::nullopt;
}

void read_parallel(const Fields& row, PublishedRun& run) {
  const auto degree = [&](const char* key) {
    const auto value = row.integer(key);
    return value && *value >= 1 && *value <= 1'000'000 ? value : std::nullopt;
  };
  run.tp = degree("tp");
  run.pp = degree("pp");
  run.dp = degree("dp");
  run.cp = degree("cp");
  run.ep = degree("ep");
  run.etp = degree("etp");
  run.virtual_stages = degree("vpp");
  run.zero = row.integer("zero");
  run.zero_degree = degree("zero_degree");
  run.sp = row.flag("sp").value_or(false);
  run.recompute = row.text("recompute");
  if (const doc::Value* modules = row.value("recompute_modules"); modules && modules->as_array()) {
    for (const doc::Value& module : *modules->as_array()) {
      if (module.as_string()) run.recompute_modules.push_back(*module.as_string());
    }
  }
}

// What some rows say only in words.
void read_notes(PublishedRun& run) {
  std::smatch found;
  if (!run.etp && std::regex_search(run.notes, found, std::regex("ETP=([0-9]{1,6})"))) run.etp = std::stoll(found[1]);
  if (!run.zero_degree && std::regex_search(run.notes, found, std::regex("zero1(?: group size |=)([0-9]{1,6})"))) {
    run.zero_degree = std::stoll(found[1]);
  }
  const bool in_words = run.notes.find("Includes MTP") != std::string::npos;
  run.model.extra_layers = std::clamp<std::int64_t>(run.settings.extra_layers.value_or(in_words ? 1 : 0), 0, 8);
  if (run.settings.stated || !run.recompute_modules.empty()) return;
  // The first sentence on recomputation that names modules of Megatron's.
  const std::string plain = std::regex_replace(run.notes, std::regex(R"(\([^)]*\))"), "");
  const std::regex sentence_end(R"(\.\s|;)");
  for (std::sregex_token_iterator at(plain.begin(), plain.end(), sentence_end, -1), end; at != end; ++at) {
    const std::string sentence = *at;
    if (sentence.find("ecompute") == std::string::npos) continue;
    for (const char* module : {"core_attn", "mla_up_proj", "moe_act", "mlp", "moe"}) {
      const std::regex word(std::string("(^|[^a-z_])") + module + "($|[^a-z_])");
      if (std::regex_search(sentence, word)) run.recompute_modules.emplace_back(module);
    }
    if (!run.recompute_modules.empty()) return;
  }
}

}  // namespace

PublishedRun read_run(const doc::Value& value) {
  const Fields row(&value);
  PublishedRun run;
  run.id = row.text("id").value_or("(no id)");
  run.source = run.id.substr(0, run.id.find('-'));
  run.citation = row.text("source").value_or("");
  run.notes = row.text("notes").value_or("").substr(0, 4000);
  run.software = row.text("software").value_or("");
  run.model = read_shape(row.object("model"));
  run.gpu = row.text("gpu").value_or("");
  run.gpus = row.integer("gpus").value_or(0);
  run.gpus_per_node = row.integer("gpus_per_node").value_or(0);
  run.interconnect = row.text("interconnect").value_or("");
  read_parallel(row.object("parallel"), run);
  run.micro_batch = row.integer("mbs");
  run.global_batch = row.integer("gbs");
  run.precision = to_lower(row.text("precision").value_or("bf16"));
  run.tier = row.text("tier").value_or("");
  run.complete = row.flag("config_complete").value_or(false);
  run.release = row.text("release").value_or("");
  run.settings = read_settings(row.object("settings"));
  run.ab_group = row.text("ab_group").value_or("");
  run.ab_change = row.text("ab_change").value_or("");
  read_notes(run);

  const Fields measured = row.object("measured");
  run.iteration_s = iteration_seconds(row, run);
  run.peak_bytes = positive(measured.number("peak_mem_gib"), kGib);
  if (!run.peak_bytes) run.peak_bytes = positive(measured.number("peak_mem_gb"), 1e9);
  run.reserved_bytes = positive(measured.number("peak_reserved_gib"), kGib);
  if (!run.reserved_bytes) run.reserved_bytes = positive(measured.number("peak_reserved_gb"), 1e9);
  run.last_rank_bytes = positive(measured.number("last_rank_peak_mem_gb"), 1e9);
  run.out_of_memory = measured.flag("out_of_memory").value_or(false);
  run.activation_share = positive(measured.number("activation_mem_pct_of_tp_baseline"), 1);
  return run;
}

}  // namespace nest::accuracy
