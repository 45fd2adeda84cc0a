#include "load/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "doc/reader.h"
#include "doc/to_json.h"
#include "load/catalogue.h"
#include "load/cluster_file.h"
#include "load/input.h"

namespace nest::load {
namespace {

constexpr std::size_t kMostPools = 64;
constexpr const char* kPoolMark = ".yaml#";
constexpr const char* kShortPoolMark = ".yml#";

using Json = nlohmann::ordered_json;

bool has_pools(const Document& document) {
  const doc::Object* root = document.root().as_object();
  return root != nullptr && root->find("pools") != nullptr;
}

std::vector<std::string> pool_names(const Document& document) {
  std::vector<std::string> names;
  const doc::Object* pools = document.root().as_object()->find("pools")->as_object();
  if (pools == nullptr) return names;
  for (const doc::Object::Member& member : pools->members()) names.push_back(member.key);
  return names;
}

// What the cluster that a pool names holds: a preset, or a file beside the fleet's.
Document named_description(doc::Reader& pool, const Input& fleet) {
  const std::string named = pool.text("cluster");
  if (const std::optional<cluster::Cluster> preset = cluster::find_cluster(named)) return preset->document;
  const std::filesystem::path path(named);
  const std::filesystem::path folder = std::filesystem::path(fleet.name).parent_path();
  const std::string found = path.is_absolute() ? named : (folder / path).string();
  if (!path_exists(found)) {
    std::vector<std::string> names;
    for (const cluster::Cluster& each : cluster::cluster_presets()) names.push_back(each.name);
    pool.fail("cluster", fmt::format("`{}` is neither a preset nor a file beside {}{}", clip(named, 60),
                                     source_name(fleet), did_you_mean(named, names)));
  }
  Document document = read_cluster_file(found);
  if (has_pools(document)) pool.fail("cluster", fmt::format("{} names pools itself; name one cluster", found));
  return document;
}

Pool read_pool(const std::string& name, const doc::Value& value, doc::Reader pool, const Input& fleet,
               const std::string& fleet_name) {
  const std::optional<std::int64_t> devices =
      pool.maybe_integer("devices", {1, static_cast<double>(cluster::kMaxDevices)});
  const std::optional<double> price = pool.maybe_number("price", {0, 1e9});
  Json description;
  if (pool.has("cluster")) {
    description = doc::to_json(named_description(pool, fleet).root());
    pool.refuse_unknown_keys();  // the rest is the cluster's own
  } else if (pool.has("device")) {
    description = doc::to_json(value);
    description.erase("devices");
  } else {
    pool.fail("expected `cluster` (a preset or a file), or the keys of a cluster file: `device` and `levels`");
  }
  // Presets ship in a size of their own.
  const std::string called = fmt::format("{}#{}", fleet_name, name);
  description["name"] = called;
  description.erase("aliases");
  if (price) description["price"] = *price;
  const std::string source = fmt::format("{}: pools.{}", source_name(fleet), name);
  const std::string text = description.dump(2, ' ', false, Json::error_handler_t::replace);
  Pool result{name, cluster::read_cluster(doc::parse_json(source, text), called)};
  cluster::refuse_fast_links(result.cluster);
  if (devices) {
    try {
      result.cluster = cluster::resized(result.cluster, *devices);
    } catch (const InputError& error) {
      pool.fail("devices", error.what());
    }
  }
  return result;
}

}  // namespace

std::optional<Fleet> read_fleet(const Input& input) {
  const bool yaml = input.name.ends_with(".yaml") || input.name.ends_with(".yml");
  if (!input.text && (!yaml || !path_exists(input.name))) return std::nullopt;
  const Document document = doc::parse_yaml(source_name(input), read_text(input));
  if (!has_pools(document)) return std::nullopt;
  doc::Reader root(document);
  Fleet fleet;
  fleet.name = root.text_or("name", file_stem(input.name));
  fleet.description = root.text_or("description", fleet.name);
  doc::Reader pools = root.object("pools");
  root.refuse_unknown_keys();
  const doc::Object& listed = *document.root().as_object()->find("pools")->as_object();
  if (listed.members().empty()) pools.fail("names no pool; write for example main: {cluster: dgx-h100, devices: 64}");
  if (listed.members().size() > kMostPools) {
    pools.fail(fmt::format("{} pools; at most {} are planned", listed.members().size(), kMostPools));
  }
  for (const doc::Object::Member& member : listed.members()) {
    fleet.pools.push_back(read_pool(member.key, member.value, pools.object(member.key), input, fleet.name));
  }
  return fleet;
}

std::optional<std::pair<std::string, std::string>> named_pool(const Input& input) {
  if (input.text || path_exists(input.name)) return std::nullopt;
  for (const std::string mark : {kPoolMark, kShortPoolMark}) {
    const std::size_t at = input.name.rfind(mark);
    if (at == std::string::npos) continue;
    const std::size_t hash = at + mark.size() - 1;
    return std::pair(input.name.substr(0, hash), input.name.substr(hash + 1));
  }
  return std::nullopt;
}

std::optional<cluster::Cluster> find_pool(const Input& input) {
  const auto named = named_pool(input);
  if (!named) return std::nullopt;
  const auto& [file, name] = *named;
  if (!path_exists(file)) throw InputError(fmt::format("{}: there is no such file", clip(file, 200)));
  std::optional<Fleet> fleet = read_fleet(file);
  if (!fleet) throw InputError(fmt::format("{}: names no pools; leave out #{}", clip(file, 200), clip(name, 40)));
  std::vector<std::string> names;
  for (Pool& pool : fleet->pools) {
    if (pool.name == name) return std::move(pool.cluster);
    names.push_back(pool.name);
  }
  throw InputError(fmt::format("{}: has no pool `{}`; there are {}{}", clip(file, 200), clip(name, 40),
                               join_words(names), did_you_mean(name, names)));
}

void refuse_pools(const Document& document) {
  if (!has_pools(document)) return;
  const std::vector<std::string> names = pool_names(document);
  const std::string& source = document.name();
  throw InputError(fmt::format("{}: names pools ({}), and one cluster is wanted here; name a pool, for example {}#{}",
                               source, names.empty() ? "none" : join_words(names), source,
                               names.empty() ? "main" : names.front()));
}

}  // namespace nest::load
