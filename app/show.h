// Parts of nest show, one per kind of thing. Each returns the result, text or JSON as the session asks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "command.h"

namespace nest {

struct ModelQuestion;

std::string show_model(const std::string& name, const ModelQuestion& question, bool all_operators,
                       const Session& session);

// A device or a cluster, preset or YAML file; nothing when the name is neither. `devices` resizes a cluster; 0: its own
// size.
std::optional<std::string> show_hardware(const std::string& name, std::int64_t devices, const Session& session);

// "models", "devices", "clusters", "stacks", or all of them for the empty word; nothing when the word is no list's
// name.
std::optional<std::string> show_list(const std::string& word, const Session& session);
std::vector<std::string> list_names();

}  // namespace nest
