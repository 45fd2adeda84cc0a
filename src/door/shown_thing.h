// What nest::show finds, one kind of thing each.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "nest/show.h"
#include "report/json.h"

namespace nest {

struct ShownThing {
  virtual ~ShownThing() = default;
  virtual std::string text(const Style& style) const = 0;
  virtual report::Json json() const = 0;
};

using Showing = std::shared_ptr<const ShownThing>;

// Null when the word is no list's name.
Showing show_list(const Input& what);

// A device or a cluster, preset or YAML file; null when it is neither.
Showing show_hardware(const Input& what, std::optional<std::int64_t> devices);

Showing show_model(const Input& what, const ShowOptions& options);

}  // namespace nest
