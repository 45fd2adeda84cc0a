#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.h"
#include "cluster/cluster.h"
#include "cost/stack.h"
#include "door/listed_models.h"
#include "door/shown_thing.h"
#include "report/cluster_report.h"
#include "report/device_report.h"
#include "report/table.h"

namespace nest {
namespace {

std::string models_text(const Style& style) {
  report::Table table({{"model", report::Align::left, false, Ink::accent},
                       {"", report::Align::left, true},
                       {"parameters"},
                       {"active"},
                       {"blocks"},
                       {"hidden"},
                       {"sequence"}});
  for (const ListedModel& model : listed_models()) {
    const bool sparse = model.active_parameters != model.parameters;
    table.add({model.preset.name, model.preset.description, format_count(static_cast<double>(model.parameters)),
               sparse ? format_count(static_cast<double>(model.active_parameters)) : "",
               std::to_string(model.architecture.layers()), format_integer(model.architecture.hidden),
               format_integer(model.architecture.default_sequence)});
  }
  return table.render(style, 0);
}

report::Json models_json() {
  report::Json models = report::Json::array();
  for (const ListedModel& model : listed_models()) {
    models.push_back({{"name", model.preset.name},
                      {"description", model.preset.description},
                      {"aliases", model.preset.aliases},
                      {"family", model.architecture.family},
                      {"source", model.preset.source},
                      {"parameters", {{"total", model.parameters}, {"active", model.active_parameters}}},
                      {"blocks", model.architecture.layers()},
                      {"hidden", model.architecture.hidden},
                      {"vocabulary", model.architecture.vocabulary},
                      {"default_sequence", model.architecture.default_sequence}});
  }
  return models;
}

std::string devices_text(const Style& style) {
  report::Table table({{"device", report::Align::left, false, Ink::accent},
                       {"", report::Align::left, true},
                       {"bf16 or fp16"},
                       {"memory"},
                       {"at"},
                       {"links"}});
  for (const cluster::Device& device : cluster::device_presets()) {
    table.add({device.name, device.description, format_compute_rate(device.peak(report::training_precision(device))),
               format_bytes(device.memory_bytes), format_bandwidth(device.memory_bytes_per_s),
               format_bandwidth(device.link_bytes_per_s)});
  }
  return table.render(style, 0);
}

report::Json devices_json() {
  report::Json devices = report::Json::array();
  for (const cluster::Device& device : cluster::device_presets()) devices.push_back(report::device_json(device));
  return devices;
}

std::string clusters_text(const Style& style) {
  report::Table table({{"cluster", report::Align::left, false, Ink::accent},
                       {"devices"},
                       {"", report::Align::left},
                       {"", report::Align::left, true}});
  for (const cluster::Cluster& cluster : cluster::cluster_presets()) {
    table.add({cluster.name, format_integer(cluster.devices), cluster.device.name, report::cluster_shape(cluster)});
  }
  return table.render(style, 0);
}

report::Json clusters_json() {
  report::Json clusters = report::Json::array();
  for (const cluster::Cluster& cluster : cluster::cluster_presets()) clusters.push_back(report::cluster_json(cluster));
  return clusters;
}

std::string stacks_text(const Style& style) {
  report::Table table({{"stack", report::Align::left, false, Ink::accent}, {"", report::Align::left, true}});
  for (const cost::SoftwareStack& stack : cost::stack_presets()) table.add({stack.name, stack.description});
  return table.render(style, 0);
}

report::Json stacks_json() {
  report::Json stacks = report::Json::array();
  for (const cost::SoftwareStack& stack : cost::stack_presets()) {
    stacks.push_back({{"name", stack.name}, {"description", stack.description}, {"source", stack.source}});
  }
  return stacks;
}

struct List {
  const char* name;
  std::string (*text)(const Style& style);
  report::Json (*json)();
};

constexpr std::array kLists = {List{"models", models_text, models_json}, List{"devices", devices_text, devices_json},
                               List{"clusters", clusters_text, clusters_json},
                               List{"stacks", stacks_text, stacks_json}};

// One list, or all of them.
struct ShownList : ShownThing {
  explicit ShownList(std::string shown) : word(std::move(shown)) {}
  std::string text(const Style& style) const override {
    std::string text;
    for (const List& list : kLists) {
      if (word.empty() || word == list.name) text += (text.empty() ? "" : "\n") + list.text(style);
    }
    return text;
  }
  report::Json json() const override {
    report::Json document = {{"schema", word.empty() ? "nest.show/1" : fmt::format("nest.show.{}/1", word)}};
    for (const List& list : kLists) {
      if (word.empty() || word == list.name) document[list.name] = list.json();
    }
    return document;
  }
  std::string word;
};

}  // namespace

std::vector<std::string> list_names() {
  std::vector<std::string> names;
  names.reserve(kLists.size());
  for (const List& list : kLists) names.emplace_back(list.name);
  return names;
}

Showing show_list(const Input& what) {
  const bool known =
      std::any_of(kLists.begin(), kLists.end(), [&](const List& list) { return what.name == list.name; });
  if (what.text || (!what.name.empty() && !known)) return nullptr;
  return std::make_shared<ShownList>(what.name);
}

}  // namespace nest
