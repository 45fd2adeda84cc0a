// What of a model is trained: frozen weights, and low-rank adapters (LoRA) beside them.
//
// Weights are named by where they stand: `embedding.embedding.tokens`, `blocks.3.attention.q`, `head.head.weight`; in a
// model of several towers blocks and the layers around them begin with the tower's name: `vision.blocks.3.ffn.up`,
// `vision.stem.…`, `decoder.blocks.0.…`. A pattern freezes what it matches: part by part between the dots, `*` and `?` as
// in file names, `a-b` for the numbers from a to b; a pattern of fewer parts matches all that begins so. `vision` is a
// whole tower, `blocks.0-15` the first sixteen blocks, `blocks.*.ffn` all feed-forwards. A table that several layers share
// is frozen where one of them is.
//
// An adapter of rank r beside a product y = W x of k inputs and n outputs (Hu et al. 2021; as PEFT and Megatron-Bridge
// compute it) is
//     y = W x + s B (A x)          A [r, k], B [n, r]: r (k + n) parameters, 2 r (k + n) FLOPs a token
// two products, one scaling and one addition more; x is kept for A, A x for B. All other weights are frozen, and of W
// itself only the input's gradient is computed. A and B are divided as the product is: of divided columns B is, of a
// divided contraction A is.
//
// With `base=nf4` (QLoRA, Dettmers et al. 2023) the matrices of blocks are stored in 4 bits with doubly quantised scales,
//     1/2 + 1/64 + 4/(64 * 256) = 0.5159 bytes a parameter
// and every product that reads them writes them out in 16 bits first, in backward again.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/graph.h"

namespace nest::model {

inline constexpr double kNf4Bytes = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);

struct Lora {
  std::int64_t rank = 16;
  std::vector<std::string> targets;  // words of kTargets, or `all`
  bool nf4 = false;                  // how the frozen matrices of blocks are stored
};

struct Training {
  std::vector<std::string> frozen;  // patterns
  std::optional<Lora> lora;
};

// `freeze`: patterns with commas between them. `lora`: "rank=16,targets=q,v,base=nf4"; targets are q, v unless told, the
// base is stored as the stack stores weights. Empty texts: everything is trained. Throws InputError.
Training read_training(std::string_view freeze, std::string_view lora);

// Freezes weights and adds adapters, and says which layers have gradients to compute. Throws InputError where a pattern or
// a target is of nothing in the model, or nothing is left to train.
void apply_training(const Training& training, Model& model);

// Sets Layer::input_gradient of every layer from which of its weights are frozen.
void mark_gradients(Model& model);

// Tables that several layers share are frozen (all of them together).
bool shares_frozen(const Model& model);

// Elements that are trained, each shared weight counted once.
std::int64_t count_trained(const Model& model);

}  // namespace nest::model
