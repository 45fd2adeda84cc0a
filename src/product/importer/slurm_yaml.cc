#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "doc/reader.h"
#include "importer/slurm.h"
#include "importer/slurm_graph.h"
#include "nest/option.h"

namespace nest::importer {
namespace {

constexpr std::size_t kMostSizes = 16;

// The entries of topology.yaml are a list; readers want an object around it.
doc::Reader whole_document(const doc::SourceText& source) {
  const Document document = doc::parse_yaml(source.name, source.text);
  if (!document.root().as_array()) {
    throw InputError(fmt::format("{}: found {}; expected a list of topologies, each beginning with `- topology: NAME`",
                                 source.name, document.root().kind()));
  }
  const auto object = std::make_shared<doc::Object>();
  object->add("topologies", document.root());
  return doc::Reader(Document{document.source, doc::Value(object, 0)});
}

SlurmSwitch read_switch(const doc::Reader& reader, std::string name) {
  SlurmSwitch entry;
  entry.name = std::move(name);
  entry.fail = [reader](std::string_view message) { reader.fail(message); };
  return entry;
}

ImportedFabric read_tree(doc::Reader tree, const FabricPart& part, const std::string& file) {
  std::vector<SlurmSwitch> switches;
  for (doc::Reader& reader : tree.objects("switches")) {
    SlurmSwitch entry = read_switch(reader, reader.text("switch"));
    entry.switches = reader.text_or("children", "");
    entry.nodes = reader.text_or("nodes", "");
    static_cast<void>(reader.raw("link_speed"));  // known, and of no use
    reader.refuse_unknown_keys();
    switches.push_back(std::move(entry));
  }
  if (switches.empty()) tree.fail("switches", "expected a list of switches");
  tree.refuse_unknown_keys();
  return fabric_of_switches(switches, part, file);
}

ImportedFabric read_blocks(doc::Reader reader, const char* list, const char* unit, const FabricPart& part,
                           const std::string& file) {
  SlurmBlocks blocks;
  blocks.unit = unit;
  for (doc::Reader& block : reader.objects(list)) {
    SlurmSwitch entry = read_switch(block, block.text(unit));
    entry.nodes = block.text("nodes");
    block.refuse_unknown_keys();
    blocks.blocks.push_back(std::move(entry));
  }
  if (blocks.blocks.empty()) reader.fail(list, fmt::format("expected a list of {}s", unit));
  if (blocks.unit == "block") {
    blocks.sizes =
        reader.maybe_integers("block_sizes", {1, 0xFFFFFFFF}, kMostSizes).value_or(std::vector<std::int64_t>());
  }
  blocks.fail_sizes = [reader](std::string_view message) { reader.fail("block_sizes", message); };
  reader.refuse_unknown_keys();
  return fabric_of_blocks(blocks, part, file);
}

ImportedFabric read_topology(doc::Reader& topology, const FabricPart& part, const std::string& file) {
  if (auto tree = topology.maybe_object("tree")) return read_tree(*tree, part, file);
  if (auto block = topology.maybe_object("block")) return read_blocks(*block, "blocks", "block", part, file);
  if (auto ring = topology.maybe_object("ring")) return read_blocks(*ring, "rings", "ring", part, file);
  if (topology.has("torus3d")) {
    topology.fail("torus3d", "a torus has no levels; write a cluster file with `torus: {dims: [x, y, z], …}` instead");
  }
  if (topology.has("flat")) topology.fail("flat", "a flat topology lists no hosts; there is nothing to import");
  topology.fail("expected one of tree, block and ring");
}

}  // namespace

ImportedFabric read_slurm_yaml(const doc::SourceText& source, const FabricPart& part) {
  std::vector<doc::Reader> topologies = whole_document(source).objects("topologies");
  std::vector<std::string> names;
  doc::Reader* named = nullptr;
  doc::Reader* preferred = nullptr;
  for (doc::Reader& topology : topologies) {
    names.push_back(topology.text("topology"));
    if (topology.flag_or("cluster_default", false)) preferred = &topology;
    if (!part.only.empty() && names.back() == part.only) named = &topology;
  }
  if (topologies.empty()) throw InputError(fmt::format("{}: an empty list; expected topologies", source.name));
  if (topologies.size() == 1) preferred = &topologies.front();
  FabricPart rest = part;
  if (named) rest.only.clear();
  doc::Reader* chosen = named ? named : preferred;
  if (!chosen) {
    throw InputError(fmt::format("{}: {} topologies and none is the cluster_default; choose with {} {}", source.name,
                                 names.size(), option("only"), join_words(names, "or")));
  }
  ImportedFabric fabric = read_topology(*chosen, rest, source.name);
  if (topologies.size() > 1) {
    fabric.notes.push_back(fmt::format("of {} topologies in the file this is `{}`", topologies.size(),
                                       clip(chosen->text("topology"), 60)));
  }
  return fabric;
}

}  // namespace nest::importer
