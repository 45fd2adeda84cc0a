// An operator graph of one training step's forward pass as somebody else's tool saw it: traced from PyTorch, or read
// from ONNX. Documented as nest.graph/1 in docs/formats.md.
//
// Operators are in execution order. Every dimension of a tensor is coefficient * batch^p * sequence^q, so that one
// graph serves every batch and sequence length.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nest::graph {

struct Dimension {
  double coefficient = 1;
  int batch = 0;     // power
  int sequence = 0;  // power
  bool constant() const { return batch == 0 && sequence == 0; }
  bool operator==(const Dimension&) const = default;
};

enum class DataType : std::uint8_t {
  float64,
  float32,
  float16,
  bfloat16,
  float8,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,
  complex64,
  complex128
};

int bytes_of(DataType type);
bool is_floating(DataType type);
std::optional<DataType> parse_data_type(std::string_view text);
const char* to_string(DataType type);

struct RawTensor {
  std::string name;
  std::vector<Dimension> shape;
  DataType type = DataType::float32;
};

struct RawWeight {
  std::string name;
  std::vector<std::int64_t> shape;
  DataType type = DataType::float32;
  bool trainable = true;
};

enum class RawOp : std::uint8_t {
  linear,         // y = x W^T + b
  matmul,         // of two activations
  expert_matmul,  // batched, with weights [experts, in, out]
  conv,
  attention,  // fused: inputs q, k, v
  embedding,
  norm,
  softmax,
  elementwise,
  dropout,
  add,
  reduce,
  copy,
  view,  // shares its input's storage
  gather,
  scatter,
  topk,
  pool,
  resize,
  loss,
  moe,  // a whole mixture of experts as one operator
  unknown
};

std::optional<RawOp> parse_raw_op(std::string_view text);
const char* to_string(RawOp op);
const std::vector<std::string>& raw_op_names();

struct RawAttributes {
  bool transposed = false;   // linear: W is (in, out); conv: the transposed one
  bool transpose_a = false;  // matmul
  bool transpose_b = false;
  bool causal = false;     // attention; or work on scores that applies a mask of positions against positions
  bool flash = true;       // attention: scores are not kept
  std::int64_t heads = 0;  // attention over [batch, rows, heads * dim]; otherwise the shapes say it
  std::int64_t kv_heads = 0;
  std::int64_t groups = 1;                   // conv
  std::vector<std::int64_t> kernel, stride;  // conv: as traced, for people; work follows from the shapes
  std::string kind;          // norm: layer, rms, batch, group; reduce: mean, sum, …; elementwise: mul, …
  std::int64_t experts = 0;  // moe
  std::int64_t top_k = 0;
  std::int64_t ffn = 0;
  bool gated = false;
  std::string activation;
};

struct RawOperator {
  std::string name;
  RawOp op = RawOp::unknown;
  std::string module;  // path of the module that ran it: "model.layers.3.mlp"
  std::vector<int> inputs, outputs, weights;
  std::optional<std::vector<int>> saves;  // absent: by rule
  RawAttributes attributes;
};

struct RawGraph {
  std::string name;
  std::string tool, module_class;        // where it comes from, for people
  std::int64_t batch = 1, sequence = 1;  // that it was traced with
  std::vector<RawTensor> tensors;
  std::vector<RawWeight> weights;
  std::vector<RawOperator> operators;
  std::vector<int> inputs, outputs;
  std::vector<std::string> layers;            // module paths that are a layer each; empty: found
  std::map<std::string, std::string> splits;  // module path or glob -> how to divide it
  std::vector<std::string> warnings;
  std::string source = {};  // the file that it was read from, for messages
  const std::string& origin() const { return source.empty() ? name : source; }
};

// Coefficient and powers of a product of dimensions.
Dimension product(const std::vector<Dimension>& shape);
// Elements at a batch and sequence.
double extent(const Dimension& dimension, double batch, double sequence);

// Throws InputError, "NAME: operators[3].inputs[0]: …", when indices, order or shapes cannot be: every tensor is made
// by at most one operator, before anybody reads it; products fit together; sizes are sizes.
void validate(const RawGraph& graph, const std::string& source);

}  // namespace nest::graph
