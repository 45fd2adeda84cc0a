// Overrides of a recipe of Megatron-Bridge or NeMo 2: KEY=VALUE words in Hydra's or NeMo-Run's grammar, or a YAML file of
// the same structure. Nothing is evaluated; objects become the keys of their fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/shell.h"

namespace nest::launch {

struct Override {
  std::string key;                      // "model.tensor_model_parallel_size", without + and ++
  std::string value;                    // without its quotes
  std::vector<std::string> items = {};  // of a list, as they are written
  bool is_list = false;
  bool is_null = false;
  std::vector<std::string> unknown = {};  // what of it could not be resolved
  int line = 0;
};

class Overrides {
 public:
  // A later one replaces an earlier one, and an object all that was said of its fields. `word` is one KEY=VALUE, or ~KEY.
  // Throws InputError that names `source` and the line where a bracket or a quote is not closed.
  void add(std::string_view source, const ShellWord& word);
  // A file: words between blanks, `#` begins a comment.
  void add_text(std::string_view source, std::string_view text);
  void add_yaml(std::string_view source, const std::string& text);
  void put(Override override);

  const Override* find(std::string_view key) const;
  // Whether a field of the object is given.
  bool has_below(std::string_view prefix) const;
  const std::vector<Override>& all() const { return all_; }

 private:
  void add_value(std::string_view source, Override override, int depth);
  void drop(std::string_view key);

  std::vector<Override> all_;
};

// KEY=VALUE of a part that recipes have: "model.hidden_size=4096", "++comm_overlap={…}".
bool is_override_word(std::string_view word);
// Texts that consist of such words, and YAML that says the same.
bool looks_like_overrides(std::string_view text);
bool looks_like_override_yaml(std::string_view text);

}  // namespace nest::launch
