// The attention half of a layer: projections (or latents), head norms, rotation, the core and the output projection.
#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "model/layer_builder.h"

namespace nest::model {

bool LayerBuilder::needs_explicit_mask(const Attention& attention) const {
  const std::int64_t sequence =
      implementation_.sequence > 0 ? implementation_.sequence : architecture_.default_sequence;
  return huggingface() && attention.window > 0 && attention.window <= sequence;
}

bool LayerBuilder::eager_attention(const Attention& attention) const {
  // No fused kernel takes additive biases of these kinds in transformers.
  return !implementation_.flash_attention ||
         (huggingface() && (architecture_.position == PositionKind::alibi ||
                            architecture_.position == PositionKind::relative || attention.sinks));
}

LayerBuilder::Projected LayerBuilder::project(const Attention& attention, TensorId x, TensorId keys_from,
                                              const std::string& prefix) {
  const Extent hidden{width_in(x)};
  const Extent heads{attention.heads, Axis::heads};
  const Extent kv_heads{attention.kv_heads, Axis::kv_heads};
  const Extent dim{attention.head_dim};
  const Extent value_dim{attention.value_width()};
  const bool crosses = keys_from != x;
  // Keys of a cross attention have the rows and read the width of what they come from.
  const Extent keys_width{crosses ? row_elements(layer_.tensors[at(keys_from)]) : hidden.size};
  const Rows key_rows = rows_of(keys_from);

  struct Part {
    const char* letter;
    Extent heads, dim, from;
    bool bias;
    TensorId out;
  };
  const Part parts[] = {
      {"q", heads, dim, hidden, attention.query_bias, tensor("q", {heads, dim})},
      {"k", kv_heads, dim, keys_width, attention.key_bias, tensor("k", {kv_heads, dim}, key_rows)},
      {"v", kv_heads, value_dim, keys_width, attention.value_bias, tensor("v", {kv_heads, value_dim}, key_rows)}};
  if (crosses) {
    for (const int part : {1, 2}) {
      layer_.tensors[at(parts[part].out)].rows_per_unit = layer_.tensors[at(keys_from)].rows_per_unit;
    }
  }
  if (attention.borrows_keys) {
    // Whoever projected them keeps them.
    layer_.side_inputs.insert(layer_.side_inputs.end(), {parts[1].out, parts[2].out});
  }
  for (const int part : {1, 2}) {
    if (attention.key_rows != 1) layer_.tensors[at(parts[part].out)].rows_per_unit *= attention.key_rows;
  }
  const auto weights_of = [&](const Part& part) {
    std::vector<Weight> weights = {matrix(prefix + "." + part.letter, {part.heads, part.dim, part.from})};
    if (part.bias) weights.push_back(matrix(prefix + "." + part.letter + "_bias", {part.heads, part.dim}));
    return weights;
  };
  const bool one_weight = huggingface() && habits_.fused_projection && !crosses;
  const bool fused = implementation_.stack == Stack::megatron || implementation_.stack == Stack::plain || one_weight;
  if (attention.borrows_keys || attention.values_are_keys) {
    matmul("q", Module::other, x, {parts[0].out}, weights_of(parts[0]));
    if (attention.borrows_keys) return {parts[0].out, parts[1].out, parts[2].out};
    matmul("k", Module::other, x, {parts[1].out}, weights_of(parts[1]));
    return {parts[0].out, parts[1].out, parts[1].out};
  }
  if (!fused) {
    for (const Part& part : parts) {
      matmul(part.letter, Module::other, part.letter[0] == 'q' ? x : keys_from, {part.out}, weights_of(part));
    }
  } else if (keys_from == x) {
    std::vector<Weight> weights;
    for (const Part& part : parts) {
      for (Weight& weight : weights_of(part)) weights.push_back(std::move(weight));
    }
    matmul("qkv", Module::other, x, {parts[0].out, parts[1].out, parts[2].out}, std::move(weights));
  } else {
    matmul("q", Module::other, x, {parts[0].out}, weights_of(parts[0]));
    std::vector<Weight> weights = weights_of(parts[1]);
    for (Weight& weight : weights_of(parts[2])) weights.push_back(std::move(weight));
    matmul("kv", Module::other, keys_from, {parts[1].out, parts[2].out}, std::move(weights));
  }
  return {parts[0].out, parts[1].out, parts[2].out};
}

void LayerBuilder::keep_whole(const std::vector<TensorId>& tensors) {
  for (const TensorId id : tensors) layer_.tensors[at(id)].whole = megatron();
}

LayerBuilder::Projected LayerBuilder::project_latent(const Attention& attention, TensorId x) {
  const LatentAttention& latent = *attention.latent;
  const Extent hidden{this->hidden()};
  const Extent heads{attention.heads, Axis::heads};
  const Extent qk_dim{latent.nope_dim + latent.rope_dim};

  const TensorId q = tensor("q", {heads, qk_dim});
  if (latent.query_rank > 0) {
    const Extent rank{latent.query_rank};
    const TensorId down =
        matmul("q down", Module::other, x, {tensor("q latent", {rank})}, {matrix("attention.q_down", {rank, hidden})});
    const TensorId normed =
        norm("q latent norm", down, NormKind::rms, true, false, "attention.q_latent_norm", norm_before_matmul());
    keep_whole({down, normed});
    matmul("q up", Module::other, normed, {q}, {matrix("attention.q_up", {heads, qk_dim, rank})});
    if (attention.indexer) choose_keys(attention, x, normed);
  } else {
    matmul("q", Module::other, x, {q}, {matrix("attention.q", {heads, qk_dim, hidden})});
  }

  const Extent kv_rank{latent.kv_rank};
  const TensorId kv_latent = tensor("kv latent", {{latent.kv_rank + latent.rope_dim}});
  matmul("kv down", Module::other, x, {kv_latent},
         {matrix("attention.kv_down", {{latent.kv_rank + latent.rope_dim}, hidden})});
  // Only the compressed part is normalised, but its input is a view that keeps the whole latent alive.
  const TensorId normed = tensor("kv latent norm out", {kv_rank});
  Operator& kv_norm = add_operator(OperatorKind::norm, "kv latent norm", norm_before_matmul(), {kv_latent}, {normed},
                                   kept_by_norm("kv latent norm", kv_latent, {kv_rank}, NormKind::rms, {{1}}));
  kv_norm.weights.push_back(matrix("attention.kv_latent_norm", {kv_rank}));
  keep_whole({kv_latent, normed});
  const TensorId k_nope = tensor("k nope", {heads, {latent.nope_dim}});
  const TensorId v = tensor("v", {heads, {latent.value_dim}});
  matmul("kv up", Module::latent_up, normed, {k_nope, v},
         {matrix("attention.kv_up", {heads, {latent.nope_dim + latent.value_dim}, kv_rank})});
  const TensorId k = tensor("k", {heads, qk_dim});
  add_operator(OperatorKind::copy, "join k", Module::latent_up, {k_nope, kv_latent}, {k}, {});
  return {q, k, v};
}

void LayerBuilder::normalise_heads(const Attention& attention, Projected& heads) {
  if (attention.value_norm && !attention.borrows_keys) {
    const Extent kv_heads{attention.kv_heads, Axis::kv_heads};
    const TensorId out = like(heads.v, "v_norm out");
    add_operator(OperatorKind::norm, "v_norm", norm_before_matmul(), {heads.v}, {out},
                 kept_by_norm("v_norm", heads.v, {kv_heads, {attention.value_width()}}, NormKind::rms, {kv_heads}));
    heads.v = out;
  }
  if (attention.qk_norm == QkNorm::none) return;
  struct Side {
    const char* name;
    TensorId* tensor;
    Extent heads;
  };
  const Side sides[] = {{"q_norm", &heads.q, {attention.heads, Axis::heads}},
                        {"k_norm", &heads.k, {attention.kv_heads, Axis::kv_heads}}};
  for (const Side& side : sides) {
    if (attention.borrows_keys && side.tensor == &heads.k) continue;
    const std::vector<Extent> width = {side.heads, {attention.head_dim}};
    const bool per_head = attention.qk_norm == QkNorm::per_head;
    const std::vector<Extent> statistics = per_head ? std::vector<Extent>{side.heads} : std::vector<Extent>{{1}};
    const TensorId out = like(*side.tensor, std::string(side.name) + " out");
    Operator& op = add_operator(OperatorKind::norm, side.name, norm_before_matmul(), {*side.tensor}, {out},
                                kept_by_norm(side.name, *side.tensor, width, attention.qk_norm_kind, statistics));
    const std::vector<Extent> shape = per_head ? std::vector<Extent>{{attention.head_dim}} : width;
    const std::string weight = std::string("attention.") + side.name;
    if (attention.qk_norm_weight) op.weights.push_back(matrix(weight, shape));
    if (attention.qk_norm_weight && attention.qk_norm_kind == NormKind::layer)
      op.weights.push_back(matrix(weight + "_bias", shape));
    *side.tensor = out;
  }
}

void LayerBuilder::rotate(const Attention& attention, Projected& heads) {
  if (architecture_.position != PositionKind::rotary || attention.rotary_fraction <= 0) return;
  const auto rotated = [&](TensorId x, const char* name) {
    Tensor copy = layer_.tensors[at(x)];
    return tensor(name, copy.width, copy.rows);
  };
  const TensorId q = rotated(heads.q, "q rotated");
  if (attention.borrows_keys) {
    add_operator(OperatorKind::elementwise, "rotary q", Module::other, {heads.q}, {q}, {});
    heads.q = q;
    return;
  }
  const TensorId k = rotated(heads.k, "k rotated");
  if (attention.latent) {
    // Keys are rotated where they are projected from the latent, and recomputed with that projection.
    add_operator(OperatorKind::elementwise, "rotary q", Module::other, {heads.q}, {q}, {});
    add_operator(OperatorKind::elementwise, "rotary k", Module::latent_up, {heads.k}, {k}, {});
  } else {
    const char* const name = huggingface() && habits_.rotates_in_fp32 ? "rotary fp32" : "rotary";
    add_operator(OperatorKind::elementwise, name, Module::other, {heads.q, heads.k}, {q, k}, {});
  }
  heads.q = q;
  heads.k = k;
}

// Queries, keys and values are views of one tensor: whichever is kept as it was projected keeps all of it.
void LayerBuilder::keep_projection(const Attention& attention, const Projected& projected, const Projected& qkv,
                                   std::vector<TensorId>& saves) {
  if (implementation_.cache) {
    if (qkv.q != projected.q) return;
    for (const char* name : {"cached k", "cached v"})
      saves.push_back(tensor(name, {{attention.kv_heads, Axis::kv_heads}, {attention.head_dim}}));
    return;
  }
  if (qkv.v != projected.v) return;
  for (const TensorId id : {projected.q, projected.k}) {
    if (std::find(saves.begin(), saves.end(), id) == saves.end()) saves.push_back(id);
  }
}

TensorId LayerBuilder::attend(const Attention& attention, const Projected& projected, Projected qkv, bool cross) {
  const Extent heads{attention.heads, Axis::heads};
  const std::int64_t qk_dim =
      attention.latent ? attention.latent->nope_dim + attention.latent->rope_dim : attention.head_dim;
  const std::int64_t value_dim = attention.latent ? attention.latent->value_dim : attention.value_width();
  const bool eager = eager_attention(attention);
  const bool masked = needs_explicit_mask(attention);

  if (huggingface() && (masked || eager || habits_.repeats_keys) && attention.kv_heads != attention.heads) {
    // Kernels that take a mask want as many key heads as query heads: keys and values are repeated, and the copies
    // kept.
    const TensorId k = beside(tensor("k repeated", {heads, {qk_dim}}), qkv.k);
    const TensorId v = beside(tensor("v repeated", {heads, {value_dim}}), qkv.v);
    add_operator(OperatorKind::copy, "repeat k, v", Module::core_attention, {qkv.k, qkv.v}, {k, v}, {});
    qkv.k = k;
    qkv.v = v;
  }
  const TensorId out = tensor("attention out", {heads, {value_dim}});
  std::vector<TensorId> saves = {qkv.q, qkv.k, qkv.v};
  if (attention.borrows_keys && qkv.k == projected.k) saves = {qkv.q};
  if (huggingface() && habits_.fused_projection && !cross) keep_projection(attention, projected, qkv, saves);
  if (eager) {
    const bool drops = implementation_.dropout && architecture_.attention_dropout > 0;
    if (huggingface()) {
      saves.push_back(tensor("softmax fp32", {heads}, Rows::pairs, 4));
      saves.push_back(tensor("probabilities", {heads}, Rows::pairs));
      // Matrix products over heads want their operands contiguous.
      for (const char* name : {"q contiguous", "k contiguous"}) saves.push_back(tensor(name, {heads, {qk_dim}}));
    } else {
      saves.push_back(tensor("probabilities", {heads}, Rows::pairs));
    }
    if (drops) {
      saves.push_back(tensor("attention dropout mask", {heads}, Rows::pairs, 1));
      if (!huggingface()) saves.push_back(tensor("dropped probabilities", {heads}, Rows::pairs));
    }
  } else {
    saves.push_back(out);
    saves.push_back(tensor("log-sum-exp", {heads}, Rows::tokens, 4));
    if (masked) saves.push_back(tensor("mask", {{1}}, Rows::squared));
    if (!megatron()) saves.push_back(tensor("random state", {{1024}}, Rows::single, 1));
  }
  std::vector<TensorId> inputs = {qkv.q, qkv.k, qkv.v};
  Operator& op = add_operator(OperatorKind::attention, cross ? "cross attention" : "attention", Module::core_attention,
                              inputs, {out}, saves);
  op.attention = {heads,
                  {attention.kv_heads, Axis::kv_heads},
                  qk_dim,
                  value_dim,
                  attention.window,
                  attention.causal && !cross,
                  !eager,
                  cross};
  op.attention.chunk = attention.chunk;
  if (stream_.rows > 0) {
    op.attention.queries = {stream_.rows, false};
    op.attention.keys = {stream_.rows * attention.key_rows, false};
    op.attention.batches = stream_.media;
  }
  if (cross && rows_of(inputs[1]) == Rows::samples) {
    // The memory is of pictures or sound: as long as they are, however long the sequence is.
    op.attention.cross = false;
    op.attention.keys = {layer_.tensors[at(inputs[1])].rows_per_unit, false};
  }
  if (attention.indexer) {
    // Over chosen keys the core runs on the latents: q and k of kv_rank + rope_dim, values of kv_rank.
    op.attention.qk_dim = attention.latent->kv_rank + attention.latent->rope_dim;
    op.attention.value_dim = attention.latent->kv_rank;
    op.attention.window = attention.indexer->top_k;
    if (!attention.indexer->shared) op.saves.push_back(chosen_keys_);  // else whoever chose keeps them
  }
  if (attention.sinks) op.weights.push_back(matrix("attention.sinks", {heads}));
  if (attention.relative_buckets > 0) {
    op.weights.push_back(matrix("attention.relative", {{attention.relative_buckets}, heads}));
  }
  return out;
}

TensorId LayerBuilder::project_out(const Attention& attention, TensorId heads_out, const std::string& prefix) {
  const std::vector<Extent> width = layer_.tensors[at(heads_out)].width;
  TensorId input = heads_out;
  if (huggingface() && habits_.copies_output && !eager_attention(attention)) {
    input = tensor("attention out, transposed", width);
    add_operator(OperatorKind::copy, "transpose", Module::other, {heads_out}, {input}, {});
  }
  const Extent hidden{this->hidden()};
  std::vector<Weight> weights = {matrix(prefix + ".o", {hidden, width[0], width[1]})};
  if (attention.output_bias) weights.push_back(matrix(prefix + ".o_bias", {hidden}));
  const TensorId out = matmul("o", Module::other, input, {stream("o out")}, std::move(weights));
  layer_.operators.back().keeps_original = !attention.gate && !attention.output_norm;  // the attention keeps it already
  return out;
}

void LayerBuilder::choose_keys(const Attention& attention, TensorId x, TensorId query_latent) {
  const Indexer& indexer = *attention.indexer;
  if (indexer.shared) {
    chosen_keys_ = tensor("chosen keys", {{indexer.top_k}}, Rows::tokens, 4);
    layer_.side_inputs.push_back(chosen_keys_);
    return;
  }
  const Extent heads{indexer.heads}, dim{indexer.dim}, hidden{this->hidden()};
  const TensorId q = matmul("indexer q", Module::other, query_latent, {tensor("indexer q", {heads, dim})},
                            {matrix("indexer.q", {heads, dim, {attention.latent->query_rank}})});
  const TensorId k =
      matmul("indexer k", Module::other, x, {tensor("indexer k", {dim})}, {matrix("indexer.k", {dim, hidden})});
  const TensorId normed =
      inner_norm("indexer k norm", k, NormKind::layer, "indexer.k_norm", {dim}, {{1}}, Module::other);
  const TensorId weights = matmul("indexer weights", Module::other, x, {tensor("indexer weights", {heads})},
                                  {matrix("indexer.weights", {heads, hidden})});
  chosen_keys_ = tensor("chosen keys", {{indexer.top_k}}, Rows::tokens, 4);
  Operator& scores =
      add_operator(OperatorKind::matmul, "indexer scores", Module::other, {q, normed, weights}, {chosen_keys_}, {});
  scores.product = {1, heads, {}, {0.5, true}, {real(indexer.dim), false}};  // causal: half of the keys
}

TensorId LayerBuilder::gate_heads(const Attention& attention, TensorId x, TensorId heads_out) {
  if (!attention.gate) return heads_out;
  std::vector<Extent> shape = width_of(heads_out);
  const TensorId gate = tensor("attention gate", shape);
  shape.push_back({hidden()});
  matmul("attention gate", Module::other, x, {gate}, {matrix("attention.gate", std::move(shape))});
  const TensorId gated = like(heads_out, "attention out, gated");
  add_operator(OperatorKind::elementwise, "gate attention", Module::other, {heads_out, gate}, {gated},
               {heads_out, gate});
  return gated;
}

TensorId LayerBuilder::attention(const Attention& attention, TensorId x) {
  Projected qkv = attention.latent ? project_latent(attention, x) : project(attention, x, x, "attention");
  const Projected projected = qkv;
  normalise_heads(attention, qkv);
  rotate(attention, qkv);
  TensorId out = gate_heads(attention, x, attend(attention, projected, qkv, false));
  if (attention.output_norm) {
    out = inner_norm("attention output norm", out, *attention.output_norm, "attention.output_norm", width_of(out),
                     {{1}}, Module::other);
  }
  return project_out(attention, out, "attention");
}

TensorId LayerBuilder::cross_attention(const Attention& attention, TensorId x, TensorId memory) {
  Projected qkv = project(attention, x, memory, "cross_attention");
  normalise_heads(attention, qkv);
  return project_out(attention, attend(attention, qkv, qkv, true), "cross_attention");
}

}  // namespace nest::model
