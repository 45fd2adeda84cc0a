#include "launch/override_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "doc/value.h"

namespace nest::launch {
namespace {

constexpr int kDeepestObject = 16;
constexpr std::size_t kLongestOverrides = 1 << 20;
constexpr std::size_t kMostOverrides = 4096;

// Parts of Megatron-Bridge's ConfigContainer, and of what NeMo 2's factories make.
constexpr std::array kParts = {"model",      "train",        "ddp",
                               "dist",       "dataset",      "optimizer",
                               "scheduler",  "comm_overlap", "mixed_precision",
                               "checkpoint", "rng",          "logger",
                               "tokenizer",  "profiling",    "peft",
                               "env_vars",   "validation",   "rerun_state_machine",
                               "trainer",    "data",         "optim",
                               "log",        "resume",       "straggler",
                               "ft"};

bool is_key_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

std::string_view without_signs(std::string_view key) {
  while (key.starts_with('+') || key.starts_with('~')) key.remove_prefix(1);
  return key;
}

bool is_part(std::string_view key) {
  const std::string_view root = key.substr(0, key.find('.'));
  return std::any_of(kParts.begin(), kParts.end(), [&](const char* part) { return root == part; });
}

// Walks over text and knows whether it is inside quotes or brackets.
class NestingScanner {
 public:
  void take(char c) {
    if (quote_ != 0) {
      if (c == '\\' && !escaped_) {
        escaped_ = true;
        return;
      }
      if (c == quote_ && !escaped_) quote_ = 0;
      escaped_ = false;
    } else if (c == '\'' || c == '"') {
      quote_ = c;
    } else if (c == '[' || c == '{' || c == '(') {
      ++depth_;
    } else if (c == ']' || c == '}' || c == ')') {
      --depth_;
    }
  }
  bool outside() const { return quote_ == 0 && depth_ <= 0; }

 private:
  char quote_ = 0;
  bool escaped_ = false;
  int depth_ = 0;
};

// Parts of a list's or an object's inside.
std::vector<std::string_view> split_outside(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  NestingScanner scanner;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == separator && scanner.outside()) {
      parts.push_back(trim(text.substr(begin, i - begin)));
      begin = i + 1;
    } else {
      scanner.take(text[i]);
    }
  }
  if (const std::string_view last = trim(text.substr(begin)); !last.empty()) parts.push_back(last);
  return parts;
}

bool is_wrapped(std::string_view text, char open, char close) {
  return text.size() >= 2 && text.front() == open && text.back() == close;
}

std::string unquoted(std::string_view text) {
  if (is_wrapped(text, '"', '"') || is_wrapped(text, '\'', '\'')) text = text.substr(1, text.size() - 2);
  return std::string(text);
}

bool says_nothing(std::string_view text) { return text == "null" || text == "None" || text == "~"; }

int line_at(std::string_view text, std::size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

// A value of a YAML file as a command line would have it.
std::string yaml_text(const doc::Value& value) {
  if (value.is_null()) return "null";
  if (value.as_bool() != nullptr) return *value.as_bool() ? "true" : "false";
  if (value.as_integer() != nullptr) return fmt::format("{}", *value.as_integer());
  if (value.as_real() != nullptr) return fmt::format("{}", *value.as_real());
  if (value.as_string() != nullptr) return *value.as_string();
  std::string list = "[";
  if (const doc::Array* array = value.as_array(); array != nullptr) {
    for (const doc::Value& entry : *array) list.append(list.size() > 1 ? "," : "").append(yaml_text(entry));
  }
  return list + "]";
}

void add_yaml_members(const Document& document, const doc::Object& object, const std::string& prefix,
                      Overrides& overrides) {
  for (const doc::Object::Member& member : object.members()) {
    const std::string key = prefix + member.key;
    if (const doc::Object* inner = member.value.as_object(); inner != nullptr) {
      add_yaml_members(document, *inner, key + ".", overrides);
      continue;
    }
    const std::string& text = document.source->text;
    Override override{key, yaml_text(member.value)};
    override.line = line_at(text, std::min(member.value.offset(), text.size()));
    override.is_null = member.value.is_null() || says_nothing(override.value);
    if (const doc::Array* array = member.value.as_array(); array != nullptr) {
      override.is_list = true;
      for (const doc::Value& entry : *array) override.items.push_back(yaml_text(entry));
    }
    overrides.put(std::move(override));
  }
}

// Words of a file: what stands between blanks, outside of quotes and brackets.
std::vector<ShellWord> override_words(std::string_view text) {
  std::vector<ShellWord> words;
  int line = 1;
  ShellWord word;
  NestingScanner scanner;
  const auto finish = [&] {
    if (!word.text.empty() && word.text != "\\") words.push_back(word);
    word = {};
    scanner = {};
  };
  bool comment = false;
  for (const char c : text) {
    if (c == '\n') {
      comment = false;
      finish();
      ++line;
    } else if (comment) {
      continue;
    } else if (c == '#' && word.text.empty()) {
      comment = true;
    } else if ((c == ' ' || c == '\t' || c == '\r') && scanner.outside()) {
      finish();
    } else {
      if (word.text.empty()) word.line = line;
      scanner.take(c);
      word.text += c;
    }
  }
  finish();
  return words;
}

}  // namespace

bool is_override_word(std::string_view word) {
  const bool deletes = word.starts_with('~');
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos && !deletes) return false;
  const std::string_view key = without_signs(word.substr(0, equals));
  return !key.empty() && std::all_of(key.begin(), key.end(), is_key_letter) && is_part(key);
}

bool looks_like_overrides(std::string_view text) {
  bool dotted = false;
  if (text.size() > kLongestOverrides) return false;
  for (const std::string_view line : split_text(text, '\n')) {
    const std::string_view bare = trim(line);
    if (bare.empty() || bare.starts_with('#')) continue;
    const std::string_view first = bare.substr(0, bare.find_first_of(" \t"));
    if (!is_override_word(first)) return false;
    dotted = dotted || first.substr(0, first.find('=')).find('.') != std::string_view::npos;
  }
  return dotted;
}

bool looks_like_override_yaml(std::string_view text) {
  constexpr std::array kTelling = {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                                   "context_parallel_size",      "expert_model_parallel_size",
                                   "micro_batch_size",           "global_batch_size"};
  bool first = true, telling = false;
  for (const std::string_view line : split_text(text, '\n')) {
    const std::string_view bare = trim(line);
    if (bare.empty() || bare.starts_with('#') || bare == "---") continue;
    const std::size_t colon = bare.find(':');
    const std::string_view key = bare.substr(0, colon);
    const bool is_key = colon != std::string_view::npos && std::all_of(key.begin(), key.end(), is_key_letter);
    if (first && !(is_key && is_part(key))) return false;
    first = false;
    const std::string_view last = key.substr(key.rfind('.') + 1);
    telling = telling || (is_key && std::find(kTelling.begin(), kTelling.end(), last) != kTelling.end());
  }
  return telling;
}

void Overrides::drop(std::string_view key) {
  std::erase_if(all_, [&](const Override& each) {
    return each.key == key || (each.key.starts_with(key) && each.key[key.size()] == '.');
  });
}

void Overrides::put(Override override) {
  drop(override.key);
  if (all_.size() >= kMostOverrides) throw InputError(fmt::format("more than {} overrides", kMostOverrides));
  all_.push_back(std::move(override));
}

void Overrides::add_value(std::string_view source, Override override, int depth) {
  const std::string text(trim(override.value));
  const auto fail = [&](const char* what) {
    throw InputError(
        fmt::format("{}: line {}: {}: `{}`: {}", source, override.line, clip(override.key, 60), clip(text, 40), what));
  };
  if (depth > kDeepestObject) fail("objects are nested too deep");
  NestingScanner scanner;
  for (const char c : text) scanner.take(c);
  if (!scanner.outside()) fail("a bracket or a quote is not closed");
  if (is_wrapped(text, '{', '}')) {
    drop(override.key);
    for (const std::string_view member : split_outside(std::string_view(text).substr(1, text.size() - 2), ',')) {
      const std::size_t colon = member.find(':');
      if (colon == std::string_view::npos) fail("an object has members NAME:VALUE");
      Override field = override;
      field.key += "." + unquoted(trim(member.substr(0, colon)));
      field.value = trim(member.substr(colon + 1));
      add_value(source, std::move(field), depth + 1);
    }
    return;
  }
  override.is_null = says_nothing(text);
  override.value = unquoted(text);
  if (is_wrapped(text, '[', ']')) {
    override.is_list = true;
    for (const std::string_view item : split_outside(std::string_view(text).substr(1, text.size() - 2), ',')) {
      override.items.push_back(unquoted(item));
    }
  }
  put(std::move(override));
}

void Overrides::add(std::string_view source, const ShellWord& word) {
  const std::size_t equals = word.text.find('=');
  Override override{std::string(without_signs(std::string_view(word.text).substr(0, equals))), ""};
  override.line = word.line;
  override.unknown = word.unknown;
  if (word.text.starts_with('~') || equals == std::string::npos) return drop(override.key);
  override.value = word.text.substr(equals + 1);
  add_value(source, std::move(override), 0);
}

void Overrides::add_text(std::string_view source, std::string_view text) {
  for (const ShellWord& word : override_words(text)) {
    if (!is_override_word(word.text)) {
      throw InputError(fmt::format("{}: line {}: `{}` is no KEY=VALUE", source, word.line, clip(word.text, 40)));
    }
    add(source, word);
  }
}

void Overrides::add_yaml(std::string_view source, const std::string& text) {
  doc::Limits limits;
  limits.last_key_counts = true;
  const Document document = doc::parse_yaml(std::string(source), text, limits);
  const doc::Object* root = document.root().as_object();
  if (root == nullptr) throw InputError(fmt::format("{}: the top level is no map", source));
  add_yaml_members(document, *root, "", *this);
}

const Override* Overrides::find(std::string_view key) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Override& each) { return each.key == key; });
  return found == all_.end() ? nullptr : &*found;
}

bool Overrides::has_below(std::string_view prefix) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Override& each) {
    return each.key.size() > prefix.size() && each.key.starts_with(prefix) && each.key[prefix.size()] == '.';
  });
}

}  // namespace nest::launch
