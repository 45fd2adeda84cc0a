// What a model's config.json says that changes neither time nor memory, but what is trained: bases and scaling of
// positions, epsilon of norms, scores of routers. Exports carry it, or name what they do not carry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exporter/gpt.h"

namespace nest::exporter {

// How frequencies of rotary positions are stretched to longer contexts, in transformers' words: "llama3", "yarn",
// "linear", "dynamic", "longrope" …
struct RopeScaling {
  std::string kind;
  double factor = 1;
  double low_frequency = 1, high_frequency = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;          // yarn
  double mscale = 1, mscale_all_dim = 0;
  std::optional<double> original_positions;
};

struct ModelFacts {
  std::optional<double> rotary_base;
  std::optional<RopeScaling> scaling;
  std::optional<double> norm_epsilon;
  std::optional<double> init_std;
  bool norm_plus_one = false;  // weights of norms are kept less 1 (LayerNorm1P)
  std::string router_scores;   // "sigmoid", "softmax"; empty: not said
  std::optional<double> router_scale;
  bool router_bias = false;                    // experts are balanced by biases of their scores
  std::optional<double> router_loss;           // weight of the loss that balances experts
  std::vector<std::string> unknown_to_export;  // "final_logit_softcapping = 30": nothing carries it

  bool is_yarn() const { return scaling && scaling->kind == "yarn"; }
};

// From the document that the architecture was read from; empty facts where it says nothing.
ModelFacts read_model_facts(const model::Architecture& architecture);

// In the words of Megatron's options, with a note for what they do not carry. `values` is empty for a flag.
struct FactOptions {
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> notes;
};
FactOptions megatron_facts(const ModelFacts& facts, const GptModel& gpt);

// The same as fields of the model, for Megatron-Bridge and NeMo 2: {"rotary_base", "500000"}. NeMo 2 scales positions in the
// class of the model alone (Llama31Config.scale_factor).
FactOptions nemo_facts(const ModelFacts& facts, const GptModel& gpt, bool nemo2);

}  // namespace nest::exporter
