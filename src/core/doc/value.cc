#include "doc/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace nest {

Document::Document(std::shared_ptr<const doc::SourceText> text, doc::Value root)
    : source(std::move(text)), tree(std::make_shared<const doc::Value>(std::move(root))) {}

const doc::Value& Document::root() const {
  static const doc::Value kNull;
  return tree ? *tree : kNull;
}

const std::string& Document::name() const {
  static const std::string kNone;
  return source ? source->name : kNone;
}

namespace doc {

const Value* Object::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &members_[found->second].value;
}

void Object::add(std::string key, Value value) {
  const auto [known, added] = index_.emplace(key, members_.size());
  if (added) {
    members_.push_back({std::move(key), std::move(value)});
  } else {
    members_[known->second].value = std::move(value);
  }
}

const Array* Value::as_array() const {
  const auto* array = std::get_if<std::shared_ptr<Array>>(&data_);
  return array ? array->get() : nullptr;
}

const Object* Value::as_object() const {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&data_);
  return object ? object->get() : nullptr;
}

std::string_view Value::kind() const {
  if (is_null()) return "null";
  if (as_bool()) return "true or false";
  if (as_integer()) return "an integer";
  if (as_real()) return "a number";
  if (as_string()) return "a string";
  if (as_array()) return "a list";
  return "an object";
}

std::string Value::shown() const {
  if (is_null()) return "null";
  if (const bool* flag = as_bool()) return *flag ? "true" : "false";
  if (const std::int64_t* number = as_integer()) return std::to_string(*number);
  if (const double* number = as_real()) return fmt::format("{}", *number);
  if (const std::string* text = as_string()) return fmt::format("\"{}\"", clip(*text, 40));
  if (const Array* array = as_array()) return fmt::format("a list of {}", array->size());
  return "an object";
}

std::string excerpt_at(const SourceText& source, std::size_t offset) {
  constexpr std::size_t kWidth = 70;
  const std::string_view text = source.text;
  if (text.empty() || offset > text.size()) return {};
  const std::size_t at = std::min(offset, text.size() - 1);
  const std::size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', at), text.size());
  const auto line_number = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(begin), '\n');

  // A minified file is one long line: show a window around the place.
  const std::size_t column = at - begin;
  const std::size_t from = column < kWidth ? 0 : column - kWidth / 2;
  const std::string_view window = text.substr(begin + from, std::min(kWidth, end - begin - from));
  const std::string lead = clip(window.substr(0, column - from), kWidth);
  // Width on screen: count the characters that are not UTF-8 continuation bytes.
  const auto lead_width =
      std::count_if(lead.begin(), lead.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return fmt::format("{:>4} | {}\n     | {}^", line_number, clip(window, kWidth),
                     std::string(static_cast<std::size_t>(lead_width), ' '));
}

}  // namespace doc
}  // namespace nest
