// What a name stands for: a preset, a file, a folder, standard input, or text in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "doc/value.h"
#include "graph/raw_graph.h"
#include "model/architecture.h"
#include "nest/input.h"
#include "nest/show.h"

namespace nest::load {

struct NamedModel {
  model::Architecture architecture;  // with its document; of a graph: name and default sequence only
  std::string title;                 // "Llama 3 70B", or the name of the file
  std::string origin;                // "preset", or where the file lies
  std::shared_ptr<const graph::RawGraph> graph = nullptr;  // of a traced model or an ONNX file
};

// A preset, a config.json, a folder that holds one, a traced graph (nest.graph/1), an ONNX file, "-", or
// organisation/name of a model in the local cache of the Hugging Face hub (hub_cache.h). Throws
// InputError with the closest names when it is none of them.
NamedModel load_model(const Input& input);

// The model of a document: a config.json, or a traced graph. `name` is that of a config.
NamedModel read_model(const Document& document, const std::string& name);

// Throws InputError where sequences of a length are asked of a graph whose samples have none. 0: nobody asks.
void check_sequence(const NamedModel& model, std::int64_t asked);

// Everything that can be named instead of a file: models, clusters, devices, stacks.
std::vector<KnownName> known_names();

// Throws InputError that says what `name` is not (`wanted`: "a model") and lists the presets whose names are close to
// it.
[[noreturn]] void fail_unknown(const std::string& name, const std::string& wanted);

}  // namespace nest::load
