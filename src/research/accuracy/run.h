// One published training run, as its row states it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/fields.h"
#include "accuracy/settings.h"

namespace nest::accuracy {

struct ModelShape {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
  std::optional<std::int64_t> sequence;
  bool gated = false;
  bool tied = false;
  std::int64_t experts = 0;  // 0: dense
  std::int64_t top_k = 1;
  std::int64_t expert_ffn = 0;
  std::int64_t shared_ffn = 0;
  std::int64_t dense_layers = 0;  // of a mixture: layers without experts
  std::int64_t extra_layers = 0;  // multi-token prediction
  std::string attention;          // words: "MLA q_lora1536 kv_lora512 …", "sliding"
  bool hybrid = false;            // other mixers beside attention: its layers are not stated as a transformer's
};

struct PublishedRun {
  std::string id;
  std::string file;     // that holds the row: "runs26.json"
  std::string source;   // the id up to its first dash
  std::string release;  // of the software or the benchmark; empty: not stated
  std::string citation;
  std::string notes;
  std::string software;  // stack by name, where the row gives it; else it follows from the source
  ModelShape model;
  std::string gpu;
  std::int64_t gpus = 0;
  std::int64_t gpus_per_node = 0;  // 0: unknown
  std::string interconnect;
  std::optional<std::int64_t> tp, pp, dp, cp, ep, etp, virtual_stages, zero, zero_degree;
  bool sp = false;
  std::optional<std::string> recompute;  // none, selective, full
  std::vector<std::string> recompute_modules;
  std::optional<std::int64_t> micro_batch, global_batch;
  std::string precision;
  std::string tier;
  bool complete = false;  // everything that a prediction needs is stated
  Settings settings;
  std::string ab_group, ab_change;  // runs of a group differ in one thing

  std::optional<double> iteration_s;
  std::optional<double> peak_bytes;  // what it means (allocated, reserved, seen from outside) depends on the source
  std::optional<double> last_rank_bytes;  // allocated, on the last stage
  std::optional<double> reserved_bytes;
  std::optional<double> activation_share;  // of tensor parallelism alone, percent
  bool out_of_memory = false;              // it did not run: its peak is what it had when it failed

  bool moe() const { return model.experts > 0; }
  bool strict() const { return complete && (tier == "A" || tier == "B"); }
};

// Never throws; a row without the sizes of a model has layers = 0.
PublishedRun read_run(const doc::Value& row);

}  // namespace nest::accuracy
