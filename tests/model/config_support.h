// Small config files for tests, written as maps from keys to JSON values.
#pragma once

#include <map>
#include <string>

#include "doc/value.h"
#include "model/architecture.h"
#include "model/build.h"
#include "model/config.h"
#include "model/count.h"

namespace nest::test {

using ConfigKeys = std::map<std::string, std::string>;

inline Document config_document(const ConfigKeys& keys) {
  std::string text;
  for (const auto& [key, value] : keys) {
    text += (text.empty() ? "{\"" : ",\n \"") + key + "\": " + value;
  }
  return doc::parse_json("config.json", text + "}\n");
}

inline model::Architecture architecture_of(const ConfigKeys& keys) {
  return model::read_config(config_document(keys), "tiny");
}

inline std::int64_t parameters_of(const ConfigKeys& keys) {
  return model::count_parameters(model::build_model(architecture_of(keys))).total;
}

// `base` with keys replaced or added.
inline ConfigKeys with(ConfigKeys base, const ConfigKeys& changes) {
  for (const auto& [key, value] : changes) base[key] = value;
  return base;
}

inline ConfigKeys without(ConfigKeys base, const std::string& key) {
  base.erase(key);
  return base;
}

// Sizes of the tiny models; all different, so that a swapped pair shows in the count.
inline constexpr std::int64_t kHidden = 24;
inline constexpr std::int64_t kWidth = 56;
inline constexpr std::int64_t kLayers = 4;
inline constexpr std::int64_t kHeads = 6;
inline constexpr std::int64_t kKvHeads = 2;
inline constexpr std::int64_t kHeadDim = 4;
inline constexpr std::int64_t kVocabulary = 101;

// Keys that most families share.
inline ConfigKeys tiny(const std::string& model_type) {
  return {{"model_type", "\"" + model_type + "\""},
          {"hidden_size", "24"},
          {"intermediate_size", "56"},
          {"num_hidden_layers", "4"},
          {"num_attention_heads", "6"},
          {"num_key_value_heads", "2"},
          {"vocab_size", "101"}};
}

}  // namespace nest::test
