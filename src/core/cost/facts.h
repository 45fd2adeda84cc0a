// What precisions and optimizers cost, one row each: a new one is a word in nest/strategy.h and a row here.
#pragma once

#include <array>
#include <cstddef>

#include "cost/stack.h"
#include "nest/strategy.h"

namespace nest::cost {

struct PrecisionFacts {
  Precision precision;
  double element_bytes;  // of the inputs of matrix products
  int activation_bytes;  // of what is kept between operators
  const char* gemm;      // the device's constant: which share of the peak matrix products sustain (rates.h)
};
inline constexpr std::array kPrecisionFacts = {
    PrecisionFacts{Precision::fp32, 4, 4, "gemm_fp32"}, PrecisionFacts{Precision::tf32, 4, 4, "gemm_fp32"},
    PrecisionFacts{Precision::bf16, 2, 2, "gemm_bf16"}, PrecisionFacts{Precision::fp16, 2, 2, "gemm_bf16"},
    PrecisionFacts{Precision::fp8, 1, 2, "gemm_fp8"},   PrecisionFacts{Precision::fp4, 0.5, 2, "gemm_fp4"}};

// Bytes of an element with its share of the scales; 0: tensors as they are.
struct StorageFacts {
  Storage storage;
  double input_bytes;      // kept by a linear of its input: the column-wise copy alone
  double attention_bytes;  // kept by attention in 8 bits
};
inline constexpr std::array kStorageFacts = {
    StorageFacts{Storage::bf16, 0, 0}, StorageFacts{Storage::fp8_tensor, 1, 1},
    StorageFacts{Storage::fp8_block, 1 + 4.0 / 128, 1},  // an fp32 scale for every 128
    StorageFacts{Storage::mxfp8, 33.0 / 32, 33.0 / 32},  // one byte for every 32
    StorageFacts{Storage::nvfp4, 0.5 + 1.0 / 16, 1}};    // one byte for every 16

// Bytes of moments per parameter: a share of what the stack keeps for Adam, or a number of their own where the stack's
// formats are not offered. Megatron keeps Muon's momentum, and the moments of what Muon leaves to Adam, in fp32: its
// precision-aware optimizer is for Adam alone.
struct OptimizerFacts {
  Optimizer optimizer;
  double moment_share;          // of the two moments that the stack keeps for Adam, where the next are 0
  double moment_bytes = 0;      // of the matrices of blocks
  double rest_bytes = 0;        // of tables, norms, biases and the head
  bool orthogonalises = false;  // the matrices' updates, by products of matrices

  constexpr double moments(double of_stack) const { return moment_bytes > 0 ? moment_bytes : moment_share * of_stack; }
  constexpr double rest_moments(double of_stack) const { return rest_bytes > 0 ? rest_bytes : moments(of_stack); }
};
inline constexpr std::array kOptimizerFacts = {OptimizerFacts{Optimizer::adam, 1}, OptimizerFacts{Optimizer::sgd, 0.5},
                                               OptimizerFacts{Optimizer::muon, 0, 4, 8, true},
                                               OptimizerFacts{Optimizer::adam8bit, 0, 2}};

constexpr const PrecisionFacts& facts_of(Precision precision) {
  return kPrecisionFacts[static_cast<std::size_t>(precision)];
}
constexpr const StorageFacts& facts_of(Storage storage) { return kStorageFacts[static_cast<std::size_t>(storage)]; }
constexpr const OptimizerFacts& facts_of(Optimizer optimizer) {
  return kOptimizerFacts[static_cast<std::size_t>(optimizer)];
}

// Rows stand in the order of their enumerations.
consteval bool facts_in_order() {
  for (const PrecisionFacts& row : kPrecisionFacts) {
    if (facts_of(row.precision).precision != row.precision) return false;
  }
  for (const StorageFacts& row : kStorageFacts) {
    if (facts_of(row.storage).storage != row.storage) return false;
  }
  for (const OptimizerFacts& row : kOptimizerFacts) {
    if (facts_of(row.optimizer).optimizer != row.optimizer) return false;
  }
  return true;
}
static_assert(facts_in_order());

}  // namespace nest::cost
