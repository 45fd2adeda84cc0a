// Flags of the software with which a published run was made, as its recipe sets them (key `settings` of a row). What a
// row does not say is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/fields.h"

namespace nest::accuracy {

struct Settings {
  bool stated = false;  // the row has settings at all
  std::string framework;

  // Numbers and their formats: "fp32", "bf16".
  std::optional<std::string> precision_recipe;  // "fp8 mxfp8", "nvfp4", "fp8 current scaling, per tensor", "bf16"
  std::optional<std::string> main_params, main_gradients, first_moment, second_moment;
  std::optional<bool> gather_fp8, gather_fp4, fp8_attention, fp8_head, reduce_in_fp32;
  std::string optimizer;

  // What overlaps.
  std::optional<bool> distributed_optimizer, megatron_fsdp, overlap_gradients, overlap_weights, overlap_tensor;
  std::optional<std::int64_t> optimizer_instances;  // groups of ranks that shard on their own,
  bool outer_sharding = false;                      // the optimizer's state over all of them
  std::optional<bool> overlap_experts, delay_weight_gradients, overlap_shared_experts;
  std::string context_exchange;  // "p2p", "a2a"

  // Kernels.
  std::string graphs;  // "none", "full_iteration", "transformer_engine", "local"; empty: not stated
  std::vector<std::string> graph_scopes;
  std::string loss;  // "te", "native"; empty: not stated
  std::optional<bool> grouped_mlp, grouped_gemm, permute_fusion, router_fusion;
  bool unfused_attention = false;

  // Experts.
  std::string dispatcher;  // "alltoall", "deepep", "hybridep"
  std::optional<std::int64_t> dispatcher_sms;
  std::optional<bool> forced_balance;
  std::optional<double> drop_capacity;    // tokens beyond it are dropped, experts are padded to it
  std::optional<double> rank_capacity;    // rows allocated on a rank over the mean
  std::optional<double> stash_on_device;  // rows kept for backward over the mean; the rest goes to the host
  std::optional<double> overload;         // rows of the busiest rank over the mean, measured

  // Layers and memory.
  std::optional<std::int64_t> extra_layers;  // multi-token prediction
  std::string layout;                        // Megatron's letters: "Et*4|(t*4|)*14tmL"
  std::optional<std::int64_t> offloaded_layers;
  std::optional<double> offloaded_optimizer;  // share
  bool offloaded_activations = false;         // MaxText: some are kept on the host
  std::optional<bool> expandable_segments;
  std::string schedule;  // Primus: "zbv", "v-half", …
};

Settings read_settings(const Fields& settings);

// Layers on every stage of a pipeline, by letter.
struct StageLetters {
  std::int64_t embedding = 0, layers = 0, extra = 0, loss = 0;
};
// The layout of Megatron over `stages`: chunks divided by `|` go to the stages in turn; `x*n` and `(…)*n` repeat.
// Nothing where the text is no such layout or its chunks do not divide by the stages.
std::optional<std::vector<StageLetters>> read_layout(const std::string& text, std::int64_t stages);

}  // namespace nest::accuracy
