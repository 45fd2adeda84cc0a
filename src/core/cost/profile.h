// Measured times that replace the formulas: of single operators, or of whole layers. JSON, schema nest.profile/1
// (docs/formats.md, section "profile").
//
// A profile belongs to one device, stack and precision, and each of its entries to one shape. Nothing is scaled or
// interpolated: an entry is used where everything matches, and nowhere else. A profile of another device, stack or
// precision is refused, and so is one that names a layer of the job's model with another number of parameters: it was
// measured on something else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/job.h"
#include "cost/operator_time.h"
#include "doc/value.h"
#include "split/local_layer.h"

namespace nest::cost {

struct MeasuredLayer {
  std::string model;
  std::string layer;  // Layer::name
  Split split;
  std::int64_t micro_batch = 1;
  std::int64_t sequence = 0;
  std::int64_t parameters = 0;  // of the whole layer, before any split
  double forward_s = 0;
  double backward_s = 0;              // without recomputation
  std::optional<double> saved_bytes;  // kept for backward without recomputation
};

struct MeasuredOperator {
  model::OperatorKind kind = model::OperatorKind::matmul;
  // matmul, grouped_matmul: m rows (grouped: of all local experts), n, k, groups.
  double m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t groups = 1;
  AttentionSize attention;  // attention
  double bytes = 0;         // everything else: what it reads and writes forward
  double forward_s = 0;
  double backward_s = 0;
};

class MeasuredProfile {
 public:
  Document document;  // what it was read from
  std::string name;   // of the file
  std::string device;
  std::string stack;
  Precision precision = Precision::bf16;
  std::vector<MeasuredLayer> layers;
  std::vector<MeasuredOperator> operators;

  const MeasuredLayer* find_layer(const std::string& model, const std::string& layer, const Split& split,
                                  std::int64_t micro_batch, std::int64_t sequence) const;
  const MeasuredOperator* find_operator(const split::LocalOperator& op, const AttentionSize& attention) const;
};

// Throws InputError that names file, key, value and what is allowed.
MeasuredProfile read_profile(const Document& document);

// Gives the job a profile. Throws InputError when it was measured on something else.
void attach_profile(Job& job, MeasuredProfile profile);

}  // namespace nest::cost
