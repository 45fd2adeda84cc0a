#include "graph/raw_graph.h"

#include <array>
#include <cmath>

#include "base/index.h"

namespace nest::graph {
namespace {

struct TypeName {
  DataType type;
  const char* name;
  int bytes;
  bool floating;
};
constexpr std::array kTypes = {TypeName{DataType::float64, "float64", 8, true},
                               TypeName{DataType::float32, "float32", 4, true},
                               TypeName{DataType::float16, "float16", 2, true},
                               TypeName{DataType::bfloat16, "bfloat16", 2, true},
                               TypeName{DataType::float8, "float8", 1, true},
                               TypeName{DataType::int64, "int64", 8, false},
                               TypeName{DataType::int32, "int32", 4, false},
                               TypeName{DataType::int16, "int16", 2, false},
                               TypeName{DataType::int8, "int8", 1, false},
                               TypeName{DataType::uint8, "uint8", 1, false},
                               TypeName{DataType::boolean, "bool", 1, false},
                               TypeName{DataType::complex64, "complex64", 8, true},
                               TypeName{DataType::complex128, "complex128", 16, true}};

struct OpName {
  RawOp op;
  const char* name;
};
constexpr std::array kOps = {OpName{RawOp::linear, "linear"},
                             OpName{RawOp::matmul, "matmul"},
                             OpName{RawOp::expert_matmul, "expert_matmul"},
                             OpName{RawOp::conv, "conv"},
                             OpName{RawOp::attention, "attention"},
                             OpName{RawOp::embedding, "embedding"},
                             OpName{RawOp::norm, "norm"},
                             OpName{RawOp::softmax, "softmax"},
                             OpName{RawOp::elementwise, "elementwise"},
                             OpName{RawOp::dropout, "dropout"},
                             OpName{RawOp::add, "add"},
                             OpName{RawOp::reduce, "reduce"},
                             OpName{RawOp::copy, "copy"},
                             OpName{RawOp::view, "view"},
                             OpName{RawOp::gather, "gather"},
                             OpName{RawOp::scatter, "scatter"},
                             OpName{RawOp::topk, "topk"},
                             OpName{RawOp::pool, "pool"},
                             OpName{RawOp::resize, "resize"},
                             OpName{RawOp::loss, "loss"},
                             OpName{RawOp::moe, "moe"},
                             OpName{RawOp::unknown, "unknown"}};

const TypeName& entry(DataType type) { return kTypes[at(type)]; }

}  // namespace

int bytes_of(DataType type) { return entry(type).bytes; }
bool is_floating(DataType type) { return entry(type).floating; }
const char* to_string(DataType type) { return entry(type).name; }

std::optional<DataType> parse_data_type(std::string_view text) {
  for (const TypeName& type : kTypes) {
    if (text == type.name) return type.type;
  }
  if (text.starts_with("float8_")) return DataType::float8;
  if (text == "uint64") return DataType::int64;
  if (text == "uint32" || text == "complex32") return DataType::int32;
  if (text == "uint16") return DataType::int16;
  return std::nullopt;
}

std::optional<RawOp> parse_raw_op(std::string_view text) {
  for (const OpName& op : kOps) {
    if (text == op.name) return op.op;
  }
  return std::nullopt;
}

const char* to_string(RawOp op) { return kOps[at(op)].name; }

const std::vector<std::string>& raw_op_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    all.reserve(std::size(kOps));
    for (const OpName& op : kOps) all.emplace_back(op.name);
    return all;
  }();
  return names;
}

Dimension product(const std::vector<Dimension>& shape) {
  Dimension all;
  for (const Dimension& dimension : shape) {
    all.coefficient *= dimension.coefficient;
    all.batch += dimension.batch;
    all.sequence += dimension.sequence;
  }
  return all;
}

double extent(const Dimension& dimension, double batch, double sequence) {
  return dimension.coefficient * std::pow(batch, dimension.batch) * std::pow(sequence, dimension.sequence);
}

}  // namespace nest::graph
