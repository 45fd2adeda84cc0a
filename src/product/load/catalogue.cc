#include "load/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "doc/value.h"
#include "graph/graph_model.h"
#include "graph/read_graph.h"
#include "load/hub_cache.h"
#include "load/input.h"
#include "model/config.h"
#include "model/presets.h"
#include "nest/option.h"
#include "onnx_graph/read_onnx.h"

namespace nest::load {
namespace {

// "llama" for llama/config.json and llama/, "my-model" for my-model.json.
std::string title_of(const std::string& path) {
  if (path == "-") return "Model from standard input";
  const std::filesystem::path file = std::filesystem::path(path).lexically_normal();
  const bool generic = file.stem() == "config" && file.has_parent_path();
  return file_stem(generic ? file.parent_path().string() : path);
}

model::Architecture graph_outline(const graph::RawGraph& graph, Document document) {
  model::Architecture outline;
  outline.document = std::move(document);
  outline.name = graph.name;
  outline.family = "graph";
  outline.default_sequence = graph::default_sequence(graph);
  return outline;
}

NamedModel read_model_file(const Input& given) {
  Input input = given;
  std::string& path = input.name;
  if (!input.text && path != "-" && is_folder(path)) {
    const std::string inside = (std::filesystem::path(path) / "config.json").string();
    if (!path_exists(inside)) {
      throw InputError(fmt::format("{}: the folder holds no config.json", source_name(input)));
    }
    path = inside;
  }
  std::string title = title_of(path);
  if (path.ends_with(".onnx")) {
    std::error_code ignored;
    const std::uintmax_t bytes = input.text ? input.text->size() : std::filesystem::file_size(path, ignored);
    if (!ignored && bytes > onnx_graph::kLargestOnnxBytes) {
      throw InputError(
          fmt::format("{}: a file of {} bytes; allowed are {}. Export it with external data: shapes are all "
                      "that is needed",
                      source_name(input), bytes, onnx_graph::kLargestOnnxBytes));
    }
    graph::RawGraph read =
        onnx_graph::read_onnx(source_name(input), title, read_text(input, {.bytes = onnx_graph::kLargestOnnxBytes}));
    read.source = source_name(input);
    auto graph = std::make_shared<const graph::RawGraph>(std::move(read));
    return {graph_outline(*graph, graph::write_graph(*graph)), title, source_name(input), graph};
  }
  return read_model(doc::parse_json(source_name(input), read_text(input)), title);
}

// organisation/name, as far as it was ever downloaded to this machine.
NamedModel load_from_hub(const std::string& name) {
  if (!looks_like_hub_name(name)) fail_unknown(name, "a model");
  const std::string config = find_in_hub_cache(name);
  if (config.empty()) {
    const std::string cache = hub_cache();
    throw InputError(
        fmt::format("{}: no such file, and no such model in the Hugging Face cache{}; `hf download {} "
                    "config.json` fetches what is needed",
                    source_name(name), cache.empty() ? "" : " (" + clip(cache, 200) + ")", clip(name, 200)));
  }
  return read_model(doc::parse_json(config, read_text(Input(config))), name.substr(name.find('/') + 1));
}

// Presets whose names contain the word or are contained in it, and those that a few typing mistakes lead to; closest
// first.
// `kind`: only those; empty: all.
std::vector<std::string> close_names(const std::string& name, std::string_view kind) {
  constexpr std::size_t kAtMost = 6;
  constexpr std::size_t kLongestName = 100;
  struct Candidate {
    std::size_t distance;
    KnownName known;
  };
  const std::string wanted = to_lower(name.substr(0, kLongestName));
  std::vector<Candidate> close;
  for (const KnownName& known : known_names()) {
    if (!kind.empty() && known.kind != kind) continue;
    const std::size_t distance = edit_distance(wanted, known.name);
    const bool contains = wanted.size() >= 2 && known.name.find(wanted) != std::string::npos;
    const bool contained = known.name.size() >= 3 && wanted.find(known.name) != std::string::npos;
    if (contains || contained || distance <= std::max<std::size_t>(1, wanted.size() / 4)) {
      close.push_back({distance, known});
    }
  }
  std::stable_sort(close.begin(), close.end(),
                   [](const Candidate& a, const Candidate& b) { return a.distance < b.distance; });
  if (close.size() > kAtMost) close.resize(kAtMost);
  const bool alike = std::all_of(close.begin(), close.end(), [&](const Candidate& candidate) {
    return candidate.known.kind == close.front().known.kind;
  });
  std::vector<std::string> names;
  for (const Candidate& candidate : close) {
    const KnownName& known = candidate.known;
    names.push_back(alike ? fmt::format("`{}`", known.name) : fmt::format("`{}` ({})", known.name, known.kind));
  }
  return names;
}

}  // namespace

std::vector<KnownName> known_names() {
  std::vector<KnownName> names;
  for (const model::ModelPreset& preset : model::model_presets()) names.push_back({preset.name, "model"});
  for (const cluster::Device& device : cluster::device_presets()) names.push_back({device.name, "device"});
  for (const cluster::Cluster& cluster : cluster::cluster_presets()) names.push_back({cluster.name, "cluster"});
  return names;
}

void fail_unknown(const std::string& name, const std::string& wanted) {
  if (looks_like_path(name)) throw InputError(fmt::format("{}: no such file or folder", source_name(name)));
  const std::string_view kind = wanted == "a cluster" ? "cluster" : wanted == "a model" ? "model" : "";
  if (const auto device = cluster::find_device(name); device && kind == "cluster") {
    std::vector<std::string> of_it;
    for (const cluster::Cluster& preset : cluster::cluster_presets()) {
      if (preset.device.name == device->name) of_it.push_back(fmt::format("`{}`", preset.name));
    }
    throw InputError(of_it.empty()
                         ? fmt::format("\"{}\" is a device and no preset is a cluster of it; `nest import --template` "
                                       "prints a cluster file to edit",
                                       clip(name, 60))
                         : fmt::format("\"{}\" is a device; clusters of it: {}", clip(name, 60), join_words(of_it)));
  }
  if (kind == "model" && (cluster::find_device(name) || cluster::find_cluster(name))) {
    throw InputError(fmt::format("\"{}\" is no model but a {}; name a model, and the cluster with {}", clip(name, 60),
                                 cluster::find_device(name) ? "device" : "cluster", option("cluster")));
  }
  const std::vector<std::string> close = close_names(name, kind);
  throw InputError(fmt::format(
      "\"{}\" is not {}, nor a file{}", clip(name, 60), wanted,
      close.empty() ? "; `nest show` lists all names" : fmt::format("; did you mean {}?", join_words(close, "or"))));
}

NamedModel read_model(const Document& document, const std::string& name) {
  if (!graph::is_graph(document)) return {model::read_config(document, name), name, document.name()};
  auto graph = std::make_shared<const graph::RawGraph>(graph::read_graph(document));
  return {graph_outline(*graph, document), graph->name, document.name(), graph};
}

void check_sequence(const NamedModel& model, std::int64_t asked) {
  if (!model.graph || model.architecture.default_sequence > 1 || asked <= 1) return;
  throw InputError(fmt::format("{}: {} has no sequence; its samples are of one size", option("seq"), model.title));
}

NamedModel load_model(const Input& input) {
  const std::string& name = input.name;
  if (!input.text && name != "-") {
    if (std::optional<model::ModelPreset> preset = model::find_preset(name)) {
      return {std::move(preset->architecture), std::move(preset->description), "preset"};
    }
    if (!path_exists(name)) return load_from_hub(name);
  }
  return read_model_file(input);
}

}  // namespace nest::load
