#include "door/named_device.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "load/input.h"
#include "nest/option.h"

namespace nest {

NamedDevice named_device(const Input& input) {
  if (!input.text) {
    if (auto device = cluster::find_device(input.name)) return {std::move(*device), ""};
    if (!load::path_exists(input.name)) {
      std::vector<std::string> known;
      for (const cluster::Device& device : cluster::device_presets()) known.push_back(device.name);
      throw InputError(fmt::format("{}: `{}` is neither a known device nor a file; known are {}{}", option("device"),
                                   clip(input.name, 60), join_words(known), did_you_mean(input.name, known)));
    }
  }
  std::string text = load::read_text(input);
  return {cluster::read_device(doc::parse_yaml(load::source_name(input), text), load::file_stem(input.name)),
          std::move(text)};
}

}  // namespace nest
