// Something that is given to nest: the name of a preset, a file, or text in memory.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace nest {

struct Input {
  Input() = default;
  Input(std::string name_or_path) : name(std::move(name_or_path)) {}
  Input(const char* name_or_path) : name(name_or_path) {}

  // What a file of that name would hold; nothing of the name is looked up. Its ending counts: text called model.onnx is
  // an ONNX model, everything else JSON or YAML.
  static Input memory(std::string file_name, std::string content) {
    Input input(std::move(file_name));
    input.text = std::move(content);
    return input;
  }

  // Nothing was given: the default is taken.
  bool empty() const { return name.empty() && !text; }

  std::string name;  // of a preset, a file, a folder, "-" for standard input; or of the text, in messages
  std::optional<std::string> text;  // in memory
};

}  // namespace nest
