#include "nest/show.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "cost/stack.h"
#include "door/option_checks.h"
#include "door/shown_thing.h"
#include "load/catalogue.h"
#include "load/hub_cache.h"
#include "load/input.h"
#include "model/presets.h"
#include "nest/option.h"

namespace nest {
namespace {

// An option that has no meaning for what is shown was a mistake; silence would hide it.
void refuse_model_options(const ShowOptions& options) {
  const std::array given = {std::pair{"operators", options.operators},
                            std::pair{"seq", options.seq.has_value()},
                            std::pair{"micro_batch", options.micro_batch.has_value()},
                            std::pair{"kernels", options.kernels.has_value()},
                            std::pair{"attention", options.attention.has_value()},
                            std::pair{"recompute", options.recompute.has_value()},
                            std::pair{"dropout", options.dropout},
                            std::pair{"tp", options.tp.has_value()},
                            std::pair{"sp", options.sp},
                            std::pair{"cp", options.cp.has_value()},
                            std::pair{"ep", options.ep.has_value()},
                            std::pair{"etp", options.etp.has_value()}};
  for (const auto& [name, is_given] : given) {
    if (is_given) throw InputError(option(name) + ": is for models only");
  }
}

}  // namespace

Shown show(const Input& what, const ShowOptions& options) {
  require_range("devices", options.devices, kDevices);
  Showing found = show_list(what);
  if (found && options.devices) throw InputError(option("devices") + ": is for one cluster only");
  if (!found) found = show_hardware(what, options.devices);
  if (found) {
    refuse_model_options(options);
    return Shown(found);
  }
  const std::string& name = what.name;
  if (!what.text && name != "-" && !model::find_model_preset(name) && !load::path_exists(name) &&
      !load::looks_like_hub_name(name)) {
    load::fail_unknown(name, "a model, a device or a cluster");
  }
  if (options.devices) {
    throw InputError(option("devices") + ": is for clusters only; a model is divided by the options of `Split`");
  }
  return Shown(show_model(what, options));
}

std::string to_text(const Shown& shown, const Style& style) { return shown.thing().text(style); }

std::string to_json(const Shown& shown) { return report::to_text(shown.thing().json()); }

std::vector<KnownName> known_names() { return load::known_names(); }

std::vector<std::string> stack_names() {
  std::vector<std::string> names;
  for (const cost::SoftwareStack& stack : cost::stack_presets()) names.push_back(stack.name);
  return names;
}

}  // namespace nest
