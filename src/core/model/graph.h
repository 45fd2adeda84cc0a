// The operator graph of one training step, before any split and for any batch.
//
// A layer is a list of operators in execution order over tensors. Extents that a split can divide are labelled with an
// Axis; the number of rows of a tensor is symbolic (Rows). So one layer description serves every batch, sequence length
// and split: `split/local_layer.h` turns it into numbers.
//
// Saved tensors follow what autograd does: every operator lists the tensors that its backward needs (`saves`); a tensor
// listed by several operators is kept once. Weights are not counted as saved.
//
// A matmul contracts the row of its first input with its weights into the rows of its outputs: k is the input's row, n
// the sum of the outputs' rows, so a fused projection is one matmul with several outputs. FLOPs count the multiply-adds
// of matrix products, two per pair, as MFU does; row-wise operators have bytes, not FLOPs.
//
// A tensor has rows_per_unit rows for each of its Rows: the pixels or patches of a sample in models of images, whose
// sequence is 1. A convolution is a matmul whose contraction is `taps` times its input's row.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/index.h"
#include "model/architecture.h"

namespace nest::model {

// What a split may divide an extent by. `none` is never divided.
enum class Axis : std::uint8_t { none, heads, kv_heads, ffn, vocabulary, experts, expert_ffn };

struct Extent {
  std::int64_t size = 1;
  Axis axis = Axis::none;
  bool operator==(const Extent&) const = default;
};

// How many rows a tensor has on one device.
enum class Rows : std::uint8_t {
  tokens,     // micro-batch x sequence
  memory,     // tokens of the encoder that a decoder layer reads
  routed,     // (token, expert) pairs: tokens x top_k
  pairs,      // tokens x keys: attention scores and masks that are written out
  squared,    // keys x keys once per layer, without the micro-batch: an explicit mask
  single,     // one row, whatever the batch
  positions,  // one per token of a sequence, without the micro-batch
  samples,    // one per sequence of the micro-batch
};

struct Tensor {
  std::string name;
  Rows rows = Rows::tokens;
  std::vector<Extent> width;  // elements per row = product
  int element_bytes = 2;
  bool whole = false;  // every tensor-parallel rank keeps all rows, also where sp divides the sequence
  double rows_per_unit = 1;
  bool operator==(const Tensor&) const = default;
};

enum class OperatorKind : std::uint8_t {
  matmul,          // [rows, k] x [k, n]
  grouped_matmul,  // the same for many experts, rows spread over them
  attention,       // softmax(q k^T) v
  scan,            // a pass along the sequence: causal convolutions, and states that are carried on
  norm,            // reduces over the row
  elementwise,     // activation, rotary, bias, dropout
  add,             // residual additions: linear, keeps partial sums partial
  copy,            // moves data without changing it: transposes, casts
  embedding,       // table look-up
  router,          // softmax and top-k over experts
  dispatch,        // tokens -> (token, expert) rows, through an all-to-all when experts are spread
  combine,         // and back
  loss,            // softmax cross entropy over the vocabulary
};

// Parts of a layer that a framework can recompute as a unit. `activation` lies inside `feed_forward`, `moe_activation`
// inside `moe`: recomputing the outer part recomputes the inner one. Shared experts are a unit of their own, and part
// of `moe`. A norm that runs inside the kernel of the matmul after it is no unit (`other`), and is recomputed with it.
enum class Module : std::uint8_t {
  other,
  core_attention,
  norm,
  activation,
  feed_forward,
  moe_activation,
  moe,
  latent_up,
  shared_experts,
  shared_activation
};

struct Weight {
  std::string name;  // "attention.q"; the kind is the part before the dot
  std::vector<Extent> shape;
  std::string tied_to;  // weights with the same non-empty label are one
  bool frozen = false;  // not trained (model/training.h)
  bool operator==(const Weight&) const = default;
};

// `size` times the sequence, or `size` alone.
struct Length {
  double size = 1;
  bool per_sequence = true;
  bool operator==(const Length&) const = default;
};

struct AttentionShape {
  Extent heads;
  Extent kv_heads;
  std::int64_t qk_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t window = 0;
  bool causal = true;
  bool flash = true;
  bool cross = false;  // keys come from the encoder
  Length queries = {};
  Length keys = {};
  double batches = 1;      // attentions per sequence of the micro-batch: the windows of an image
  std::int64_t chunk = 0;  // queries see their own chunk of so many positions; 0: all
  bool operator==(const AttentionShape&) const = default;
};

// A product of two activations that is no attention: `batches` times `heads` of them per sequence of the micro-batch.
struct Product {
  double batches = 0;  // 0: the operator is a product with weights
  Extent heads = {};
  Length m = {}, n = {}, k = {};
  bool operator==(const Product&) const = default;
};

// Work of a scan: FLOPs per element of its outputs. A state is computed in chunks and read and written on the way, so
// its kernels move `passes` times the bytes of inputs and outputs. A state crosses all positions: where context
// parallelism divides the sequence, heads are traded for positions around it.
struct Scan {
  double flops = 0;
  double passes = 1;
  bool state = false;
  bool operator==(const Scan&) const = default;
};

using TensorId = int;

struct Operator {
  std::string name;
  OperatorKind kind = OperatorKind::elementwise;
  Module module = Module::other;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<TensorId> saves;
  std::vector<Weight> weights;
  AttentionShape attention;  // attention only
  double taps = 1;           // matmul only
  Product product = {};      // matmul only
  Scan scan = {};            // scan only
  // matmul only: its input is kept as it is, also where products are of 8 or 4 bits. Transformer Engine does so on
  // demand (save_original_input), where somebody else keeps that tensor anyway.
  bool keeps_original = false;
  bool adapter = false;  // of a low-rank adapter, beside the product before it (model/training.h)
  bool operator==(const Operator&) const = default;
};

enum class LayerKind : std::uint8_t { embedding, block, norm, head };

struct Layer {
  LayerKind kind = LayerKind::block;
  std::string name;      // "block", "dense block", "moe block", "embedding", "head"
  bool encoder = false;  // belongs to the encoder of an encoder-decoder model: its sequence may have another length
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;
  TensorId input = -1;  // what full recomputation keeps; -1: nothing (embedding)
  TensorId memory =
      -1;  // the encoder's output that a decoder layer reads; kept once for all of them, so not counted here
  TensorId output = -1;      // handed to the next layer; -1: nothing (head)
  std::int64_t experts = 0;  // 0: dense
  std::int64_t top_k = 0;
  std::int64_t expert_groups = 1;  // as Mixture says
  std::int64_t top_groups = 1;
  std::vector<TensorId> side_inputs = {};  // further tensors of earlier layers; full recomputation keeps them too
  // Where tensor parallelism does not divide an axis evenly, every rank computes the whole layer. Otherwise such a
  // split is refused for the model.
  bool may_stay_whole = false;
  // Predicts further tokens (multi-token prediction, all depths): a block that stands after the others and that nobody
  // counts as one of the model's layers.
  bool mtp = false;
  // What it reads gets a gradient: false where nothing before it is trained.
  bool input_gradient = true;
  bool operator==(const Layer&) const = default;

  bool counted_block() const { return kind == LayerKind::block && !mtp; }
  // Every weight is trained and every gradient computed.
  bool trains_all() const;
};

// A tensor that flows between layers: produced by one, read by one or more later ones.
struct Edge {
  int from = 0;
  std::vector<int> to;
  std::int64_t width = 0;  // elements per row, of which there is one per token of the producer's tower
  int element_bytes = 2;
  Rows rows = Rows::tokens;
  double rows_per_unit = 1;
};

struct Model {
  Architecture architecture;  // of a traced model only the name, sizes and whether tables are tied; no towers
  std::vector<Layer> kinds;   // distinct layers
  std::vector<int> layers;    // kind of every layer, in a topological order
  std::vector<Edge> edges;
  bool traced = false;             // read from an operator graph
  bool divisible_sequence = true;  // false: sp and cp are not possible
  std::vector<std::string> notes;  // what was assumed about a traced model, for people
  // Of frozen matrices of blocks, as they are stored; 0: as the stack stores weights.
  double frozen_matrix_bytes = 0;

  std::int64_t layer_count() const { return static_cast<std::int64_t>(layers.size()); }
  int kind_at(std::int64_t position) const { return layers[at(position)]; }                 // an index into kinds
  const Layer& layer(std::int64_t position) const { return kinds[at(kind_at(position))]; }  // of the chain
};

// Elements of a weight, tensors' elements per row: products of their extents.
std::int64_t elements(const Weight& weight);
std::int64_t row_elements(const Tensor& tensor);

const char* to_string(OperatorKind kind);
const char* to_string(LayerKind kind);

}  // namespace nest::model
