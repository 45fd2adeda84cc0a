#include "sweep/variant.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "cost/stack.h"
#include "doc/to_json.h"
#include "doc/value.h"
#include "load/catalogue.h"
#include "load/input.h"
#include "nest/option.h"
#include "preset_data/preset_data.h"

namespace nest::sweep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kExpertKeys = {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts",
                                    "num_moe_experts"};

Json json_of(const SweepValue& value) {
  if (!value.is_plain) return value.text;
  if (!value.number) return value.text == "true";
  if (*value.number == std::floor(*value.number) && std::abs(*value.number) < 0x1p53) {
    return static_cast<std::int64_t>(*value.number);
  }
  return *value.number;
}

// "dgx-h100+spine.bandwidth=100GB/s"
std::string name_with(const std::string& name, const std::vector<Change>& changes) {
  std::string result = name;
  for (const Change& change : changes) result += "+" + change.path + "=" + change.value.text;
  return result;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  keys.reserve(object.size());
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// The number that a word is, from 0.
std::optional<std::size_t> index_of(std::string_view word) {
  std::size_t number = 0;
  const auto [rest, status] = std::from_chars(word.data(), word.data() + word.size(), number);
  return status == std::errc{} && rest == word.data() + word.size() ? std::optional(number) : std::nullopt;
}

// Sets a key, or one of an object inside, "peak.bf16", or of one of a list, "links.3.bandwidth". What a path goes through
// must be there.
void set_path(Json& object, std::string_view path, const SweepValue& value, const std::string& where) {
  Json* at = &object;
  const std::vector<std::string_view> parts = split_text(path, '.');
  for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
    const std::string key(parts[k]);
    if (at->is_array()) {
      const std::optional<std::size_t> index = index_of(key);
      if (!index || *index >= at->size() || !(*at)[*index].is_object()) {
        throw InputError(
            fmt::format("{}: `{}` is none of {} that are listed, counted from 0", where, clip(key, 40), at->size()));
      }
      at = &(*at)[*index];
      continue;
    }
    if (at->is_object() && at->contains(key) && (*at)[key].is_array()) {
      at = &(*at)[key];
      continue;
    }
    if (!at->is_object() || !at->contains(key) || !(*at)[key].is_object()) {
      throw InputError(fmt::format("{}: there is no `{}` with keys of its own{}", where, clip(key, 40),
                                   at->is_object() ? did_you_mean(key, keys_of(*at)) : ""));
    }
    at = &(*at)[key];
  }
  if (!at->is_object()) {
    throw InputError(fmt::format("{}: a list has no key `{}`", where, clip(parts.back(), 40)));
  }
  (*at)[std::string(parts.back())] = json_of(value);
}

// The level of a cluster that is called so, by its name or by its number from 1; nothing where `part` is neither.
Json* find_level(Json& cluster, std::string_view part) {
  if (!cluster.contains("levels") || !cluster["levels"].is_array()) return nullptr;
  Json& levels = cluster["levels"];
  for (Json& level : levels) {
    if (level.is_object() && level.contains("name") && level["name"] == part) return &level;
  }
  const std::size_t number = index_of(part).value_or(0);
  return number >= 1 && number <= levels.size() && levels[number - 1].is_object() ? &levels[number - 1] : nullptr;
}

std::string level_names(const Json& cluster) {
  std::vector<std::string> names;
  if (cluster.contains("levels")) {
    for (const Json& level : cluster["levels"]) {
      if (level.is_object() && level.contains("name") && level["name"].is_string()) names.push_back(level["name"]);
    }
  }
  return names.empty() ? "it has no levels" : "its levels are " + join_words(names);
}

void change_cluster(Json& cluster, const Change& change, const std::string& name) {
  const std::string where = fmt::format("cluster.{}", change.path);
  const std::size_t dot = change.path.find('.');
  const std::string_view first = std::string_view(change.path).substr(0, dot);
  if (dot == std::string::npos) {
    cluster[change.path] = json_of(change.value);
  } else if (Json* level = find_level(cluster, first)) {
    const std::string_view rest = std::string_view(change.path).substr(dot + 1);
    // Of a rack of which not all devices are used, a new size is what is used.
    if (rest == "group") {
      for (const char* of_old : {"use", "tray", "counts"}) level->erase(of_old);
      cluster.erase("devices");
    }
    set_path(*level, rest, change.value, where);
  } else if (cluster.contains(first) && cluster[std::string(first)].is_object()) {
    set_path(cluster, change.path, change.value, where);
  } else {
    throw InputError(fmt::format("{}: {} has no level or key `{}`; {}", where, clip(name, 60), clip(first, 40),
                                 level_names(cluster)));
  }
}

std::optional<Json> preset_device(std::string_view name) {
  const std::optional<cluster::Device> device = cluster::find_device(name);
  if (!device) return std::nullopt;
  for (const EmbeddedFile& file : embedded_files("devices")) {
    if (device->name == file.name) return doc::to_json(doc::parse_yaml(device->name, std::string(file.text)).root());
  }
  return std::nullopt;
}

void change_device(Json& cluster, const std::vector<Change>& changes, const std::string& name) {
  Json device = cluster.value("device", Json());
  if (device.is_string()) device = preset_device(device.get<std::string>()).value_or(Json());
  if (!device.is_object()) {
    throw InputError(fmt::format("device.{}: {} describes no device", changes.front().path, clip(name, 60)));
  }
  for (const Change& change : changes) set_path(device, change.path, change.value, "device." + change.path);
  device.erase("aliases");
  cluster["device"] = std::move(device);
}

void change_all(Json& cluster, const std::vector<Change>& changes, const std::vector<Change>& device,
                const std::string& name) {
  if (!device.empty()) change_device(cluster, device, name);
  for (const Change& change : changes) change_cluster(cluster, change, name);
  cluster.erase("aliases");
}

Document cluster_document(const Input& input) {
  if (!input.text) {
    if (const auto preset = cluster::find_cluster(input.name)) return preset->document;
    if (!load::path_exists(input.name)) load::fail_unknown(input.name, "a cluster");
  }
  return doc::parse_yaml(load::source_name(input), load::read_text(input));
}

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

Json object_of(const Document& document) {
  Json json = doc::to_json(document.root());
  if (!json.is_object()) throw InputError(fmt::format("{}: expected an object with keys", document.name()));
  return json;
}

}  // namespace

Input changed_model(const Input& model, const std::vector<Change>& changes) {
  if (changes.empty()) return model;
  const load::NamedModel named = load::load_model(model);
  const std::string& path = changes.front().path;
  if (named.graph || named.architecture.document.empty()) {
    throw InputError(
        fmt::format("model.{}: {} is a graph; keys of a config.json can be changed", path, clip(named.title, 60)));
  }
  Json config = object_of(named.architecture.document);
  for (const Change& change : changes) {
    std::string key = change.path;
    if (key == "experts") {
      const auto found =
          std::find_if(kExpertKeys.begin(), kExpertKeys.end(), [&](auto k) { return config.contains(k); });
      if (found == kExpertKeys.end()) {
        throw InputError(fmt::format("experts: {} has none", clip(named.title, 60)));
      }
      key = *found;
    }
    // Readers of config.json pass over keys that they do not know: one that is not there is a mistake.
    const std::string first(split_text(key, '.').front());
    if (!config.contains(first)) {
      throw InputError(fmt::format("model.{}: the configuration of {} has no such key{}", key, clip(named.title, 60),
                                   did_you_mean(first, keys_of(config))));
    }
    set_path(config, key, change.value, "model." + key);
  }
  // What the preset says of itself is of the model as it was.
  if (config.contains("nest") && config["nest"].is_object()) {
    config["nest"].erase("parameters");
    config["nest"].erase("aliases");
    config["nest"]["description"] = name_with(named.title, changes);
  }
  return Input::memory(name_with(load::file_stem(model.name), changes) + ".json", dumped(config));
}

Input changed_cluster(const Input& cluster, const std::vector<Change>& changes, const std::vector<Change>& device) {
  if (changes.empty() && device.empty()) return cluster;
  const Document document = cluster_document(cluster);
  Json json = object_of(document);
  const std::string name = json.value("name", load::file_stem(cluster.name));
  change_all(json, changes, device, name);
  if (!device.empty()) json["device"]["name"] = name_with(json["device"].value("name", std::string("device")), device);
  json["name"] = name_with(name, changes);
  return Input::memory(name_with(name, changes) + ".yaml", dumped(json));
}

Input changed_stack(const Input& stack, const std::vector<Change>& changes) {
  if (changes.empty()) return stack;
  const std::string& path = changes.front().path;
  if (stack.empty()) {
    throw InputError(fmt::format("stack.{}: which stack? The study does not name one (`stack: megatron-core`)", path));
  }
  Document document;
  const auto preset = stack.text ? std::nullopt : cost::find_stack(stack.name);
  if (preset) {
    document = cost::write_stack(*preset);
  } else {
    document = doc::parse_yaml(load::source_name(stack), load::read_text(stack));
  }
  Json json = object_of(document);
  for (const Change& change : changes) set_path(json, change.path, change.value, "stack." + change.path);
  json["name"] = name_with(json.value("name", load::file_stem(stack.name)), changes);
  json.erase("aliases");
  return Input::memory(name_with(stack.name, changes) + ".yaml", dumped(json));
}

Document changed_cluster(const Document& cluster, const std::vector<Change>& changes,
                         const std::vector<Change>& device) {
  if (changes.empty() && device.empty()) return cluster;
  Json json = object_of(cluster);
  change_all(json, changes, device, cluster.name());
  return doc::parse_json(cluster.name(), dumped(json));
}

Document changed_stack(const Document& stack, const std::vector<Change>& changes) {
  if (changes.empty()) return stack;
  Json json = object_of(stack);
  for (const Change& change : changes) set_path(json, change.path, change.value, "stack." + change.path);
  return doc::parse_json(stack.name(), dumped(json));
}

}  // namespace nest::sweep
