#include "calibrate/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "doc/reader.h"
#include "model/presets.h"

namespace nest::calibrate {
namespace {

constexpr const char* kSchema = "nest.measurements/1";
constexpr std::array<const char*, kMeasuredKinds> kKindNames = {
    "gemm",       "gemm fp8",  "gemm grouped",  "row-wise",  "attention fwd", "attention bwd", "flash2 fwd",
    "flash2 bwd", "layer fwd", "layer fwd+bwd", "small fwd", "small fwd+bwd", "host fwd",      "host fwd+bwd"};
constexpr doc::Range kExtent = {1, 1e8};
constexpr doc::Range kSeconds = {1e-9, 1e5};
constexpr doc::Range kRate = {1e-3, 1e6};
constexpr std::int64_t kSmallHidden = 2048;
constexpr double kListLayerRepetitions = 10;  // plain lists do not say; layers cost more and are repeated less

struct Context {
  bool queued = false;
  double repetitions = 0;  // 0: not stated
};

Measurement row_of(MeasuredKind kind, double seconds, const Context& context, std::string label) {
  Measurement row;
  row.kind = kind;
  row.seconds = seconds;
  row.queued = context.queued;
  row.repetitions = context.repetitions > 0 ? context.repetitions : 20;
  row.label = std::move(label);
  return row;
}

void read_gemm(doc::Reader& entry, MeasuredKind kind, const Context& context, Measurements& out) {
  const bool grouped = kind == MeasuredKind::gemm_grouped;
  GemmCall shape;
  shape.m = entry.integer(grouped ? "rows" : "m", kExtent);
  shape.n = entry.integer("n", kExtent);
  shape.k = entry.integer("k", kExtent);
  shape.groups = grouped ? entry.integer("experts", kExtent) : 1;
  shape.fp8 = kind == MeasuredKind::gemm_fp8;
  const std::string experts = grouped ? fmt::format("{} x ", shape.groups) : "";
  Measurement row = row_of(kind, entry.number("s", kSeconds), context,
                           fmt::format("{}{} x {} x {}", experts, shape.m, shape.n, shape.k));
  row.gemm = shape;
  out.rows.push_back(std::move(row));
}

void read_rowwise(doc::Reader& entry, const Context& context, Measurements& out) {
  const std::string name = entry.text("op");
  const auto op = rowwise_operator(name);
  if (!op) {
    ++out.left_out;
    return;
  }
  const RowwiseShape shape{*op, entry.integer("rows", kExtent), entry.integer("h", kExtent)};
  Measurement row = row_of(MeasuredKind::rowwise, entry.number("s", kSeconds), context,
                           fmt::format("{} {} x {}", name, shape.rows, shape.width));
  row.rowwise = shape;
  out.rows.push_back(std::move(row));
}

void read_attention(doc::Reader& entry, bool flash2, const Context& context, Measurements& out) {
  AttentionCall call;
  call.batch = entry.integer("b", kExtent);
  call.heads = entry.integer("heads", kExtent);
  call.sequence = entry.integer("seq", kExtent);
  call.head_dim = entry.integer("hd", kExtent);
  call.causal = entry.flag_or("causal", true);
  call.flash2 = flash2;
  const std::string label = fmt::format("{} x {} heads, {} tokens, {}{}", call.batch, call.heads, call.sequence,
                                        call.head_dim, call.causal ? "" : ", full");
  for (const bool backward : {false, true}) {
    const auto kind = flash2 ? (backward ? MeasuredKind::flash2_backward : MeasuredKind::flash2_forward)
                             : (backward ? MeasuredKind::attention_backward : MeasuredKind::attention_forward);
    Measurement row = row_of(kind, entry.number(backward ? "bwd" : "fwd", kSeconds), context, label);
    row.attention = call;
    row.attention.backward = backward;
    out.rows.push_back(std::move(row));
  }
}

// The whole block, before it is divided.
std::optional<BlockShape> shape_of(doc::Reader& entry) {
  BlockShape block;
  if (entry.has("h")) {
    block.hidden = entry.integer("h", kExtent);
    block.heads = entry.integer("heads", kExtent);
    block.kv_heads = entry.integer("kv", kExtent);
    block.ffn = entry.integer("ffn", kExtent);
    block.gated = entry.flag_or("gated", true);
    block.causal = entry.flag_or("causal", true);
    block.head_dim = std::max<std::int64_t>(1, block.hidden / block.heads);
    return block;
  }
  std::string name = entry.text("model");
  std::replace(name.begin(), name.end(), '_', '-');
  const auto model = model::find_model_preset(name);
  if (!model || model->towers.size() != 1 || model->towers.front().kinds.empty()) return std::nullopt;
  const model::Block& kind = model->towers.front().kinds.front();
  if (!kind.feed_forward || kind.attention.latent) return std::nullopt;
  block.hidden = model->hidden;
  block.heads = kind.attention.heads;
  block.kv_heads = kind.attention.kv_heads;
  block.head_dim = kind.attention.head_dim;
  block.causal = kind.attention.causal;
  block.ffn = kind.feed_forward->width;
  block.gated = kind.feed_forward->gated;
  return block;
}

void read_layer(doc::Reader& entry, const Context& context, Measurements& out) {
  std::optional<BlockShape> block = shape_of(entry);
  if (!block || entry.text_or("impl", "plain") != "plain") {
    ++out.left_out;
    return;
  }
  const std::int64_t tp = entry.integer("tp", {1, 1024});
  if (block->heads % tp != 0 || block->ffn % tp != 0) {
    entry.fail("tp", fmt::format("must divide {} heads and {} feed-forward columns", block->heads, block->ffn));
  }
  block->heads /= tp;
  block->kv_heads = std::max<std::int64_t>(1, block->kv_heads / tp);
  block->ffn /= tp;
  block->sequence = entry.integer("seq", kExtent);
  block->micro_batch = entry.integer("mbs", kExtent);
  const bool small = block->hidden < kSmallHidden;
  const std::string label = fmt::format("{} tp {}, {} x {} tokens", clip(entry.text_or("model", "layer"), 24), tp,
                                        block->micro_batch, block->sequence);
  const auto add = [&](MeasuredKind kind, double seconds) {
    Measurement row = row_of(kind, seconds, context, label);
    if (context.repetitions <= 0) row.repetitions = kListLayerRepetitions;
    row.block = *block;
    out.rows.push_back(std::move(row));
  };
  add(small ? MeasuredKind::small_layer_forward : MeasuredKind::layer_forward, entry.number("fwd", kSeconds));
  add(small ? MeasuredKind::small_layer_both : MeasuredKind::layer_both, entry.number("fwd_bwd", kSeconds));
  if (const auto host = entry.maybe_number("host_fwd", kSeconds)) add(MeasuredKind::host_forward, *host);
  if (const auto host = entry.maybe_number("host_fwd_bwd", kSeconds)) add(MeasuredKind::host_both, *host);
}

void read_entry(doc::Reader& entry, const Context& context, Measurements& out) {
  const std::string kind = entry.text("kind");
  if (kind == "gemm") return read_gemm(entry, MeasuredKind::gemm, context, out);
  if (kind == "gemm_fp8") return read_gemm(entry, MeasuredKind::gemm_fp8, context, out);
  if (kind == "gemm_grouped") return read_gemm(entry, MeasuredKind::gemm_grouped, context, out);
  if (kind == "memop") return read_rowwise(entry, context, out);
  if (kind == "sdpa") return read_attention(entry, false, context, out);
  if (kind == "layer") return read_layer(entry, context, out);
  if (kind == "sdpa_backend") {
    const std::string backend = entry.text("backend");
    if (backend == "CUDNN_ATTENTION") return read_attention(entry, false, context, out);
    if (backend == "FLASH_ATTENTION") return read_attention(entry, true, context, out);
  }
  if (kind == "sustained_gemm") {
    out.sustained_flops_per_s.push_back(entry.number("last_tflops", kRate) * 1e12);
    return;
  }
  if (kind == "device") out.device = entry.text_or("name", "");
  ++out.left_out;
}

void read_header(doc::Reader& root, Measurements& out, Context& context) {
  const std::string schema = root.text("schema");
  if (schema != kSchema) root.fail("schema", fmt::format("\"{}\" is not {}", clip(schema, 40), kSchema));
  out.date = root.text_or("date", "");
  if (auto device = root.maybe_object("device")) out.device = device->text_or("name", "");
  if (auto software = root.maybe_object("software")) {
    out.software = fmt::format("torch {}", clip(software->text_or("torch", "?"), 40));
  }
  if (auto protocol = root.maybe_object("protocol")) {
    const std::vector<std::string> timings = {"queued", "latency"};
    context.queued = protocol->choice_or("timing", "latency", timings) == "queued";
    context.repetitions = protocol->maybe_number("repetitions", {1, 1e6}).value_or(0);
  }
}

}  // namespace

const char* to_string(MeasuredKind kind) { return kKindNames[at(kind)]; }

Measurements read_measurements(const Document& document) {
  Measurements out;
  Context context;
  if (const doc::Array* list = document.root().as_array()) {
    for (const doc::Value& value : *list) {
      doc::Reader entry(Document{document.source, value});
      read_entry(entry, context, out);
    }
    return out;
  }
  doc::Reader root(document);
  read_header(root, out, context);
  for (doc::Reader& entry : root.objects("entries")) read_entry(entry, context, out);
  return out;
}

}  // namespace nest::calibrate
