// Everything that can be said about a model before anything is planned: the numbers behind `nest show MODEL`.
//
// Counts of the whole model (parameters, FLOPs per token) do not depend on the split; what a layer weighs, moves and
// keeps is given for one device of the split asked for, and one micro-batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/build.h"
#include "model/count.h"
#include "model/graph.h"
#include "model/linearise.h"
#include "split/local_layer.h"
#include "split/split.h"

namespace nest::report {

struct ModelQuestion {
  split::RunShape shape;  // sequence 0: the model's default
  Split split;
  model::Implementation implementation;
  Recompute recompute = Recompute::none;
};

struct LayerFacts {
  const model::Layer* layer = nullptr;
  int count = 0;                // layers of this kind in the model
  std::int64_t parameters = 0;  // of the whole layer, shared weights included
  split::LocalLayer local;      // on one device
  double recompute_flops = 0;   // run again in the backward pass, on one device
  std::int64_t weights_bytes() const;
};

// FLOPs of one token of a sequence of the given length, over all layers and devices. Training counts what the
// mathematics needs, three times the forward pass, as MFU does; `executed` what the kernels run, recomputation
// included.
struct TokenFlops {
  double forward = 0;
  double training = 0;
  double executed = 0;
};

struct ModelFacts {
  ModelFacts() = default;
  ModelFacts(ModelFacts&&) = default;  // not copied: kinds point into model
  ModelFacts& operator=(ModelFacts&&) = default;

  std::string title;   // "Llama 3 70B", or the file's name
  std::string origin;  // "preset llama3-70b", or the path
  model::Model model;
  ModelQuestion question;  // with every default filled in
  model::ParameterCount parameters;
  TokenFlops flops_per_token;
  std::vector<LayerFacts> kinds;  // as Model::kinds
  std::vector<model::LayerStretch> stretches;
  std::vector<double> cut_bytes;  // what one device sends per micro-batch over a pipeline cut after layer i

  std::int64_t tokens() const { return question.shape.micro_batch * question.shape.sequence; }
};

// Throws InputError when the split is not possible for this model.
ModelFacts gather_facts(const model::Architecture& architecture, ModelQuestion question);
ModelFacts gather_facts(model::Model traced, ModelQuestion question);  // of a graph

// What one device would hold and compute if it had its part of every layer. Shared weights are held once.
struct ModelTotals {
  std::int64_t weights_bytes = 0;
  double flops_forward = 0;
  double flops_backward = 0;
  split::SavedBytes saved;
};
ModelTotals add_up(const ModelFacts& facts);

// "embedding, 80 x block, head"; repetitions of several layers are folded: "13 x (local block, global block)".
std::string describe_layers(const ModelFacts& facts);

// Position in `kinds` of the block that the model mostly consists of.
std::size_t main_block(const ModelFacts& facts);

}  // namespace nest::report
