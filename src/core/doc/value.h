// A document that a user wrote, JSON or YAML, as a tree that remembers where everything stood, so that a mistake found
// much later can still be shown in its line.
//
// Reading is bounded: documents above Limits are refused before they cost memory or stack. YAML aliases, tags and
// multiple documents are refused too; nest's files need none of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nest/document.h"

namespace nest::doc {

struct Limits {
  std::size_t bytes = 64U << 20U;  // of text
  std::size_t depth = 64;          // of nesting
  std::size_t values = 4'000'000;  // in the whole tree
  bool last_key_counts = false;    // of several with one name in YAML, as PyYAML reads it; else they are refused
};

// The text that values point into; shared by all values of one document.
struct SourceText {
  std::string name;  // file name, preset name or "--flag", as the user knows it
  std::string text;
};

class Value;
using Array = std::vector<Value>;

// Members in the order they were written. Lookup is by linear search for small objects and by index for large ones.
class Object {
 public:
  struct Member;
  const Value* find(std::string_view key) const;
  void add(std::string key, Value value);
  const std::vector<Member>& members() const { return members_; }

 private:
  std::vector<Member> members_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

class Value {
 public:
  using Data = std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, std::shared_ptr<Array>,
                            std::shared_ptr<Object>>;

  Value() = default;
  Value(Data data, std::size_t offset) : data_(std::move(data)), offset_(offset) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(data_); }
  const bool* as_bool() const { return std::get_if<bool>(&data_); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* as_real() const { return std::get_if<double>(&data_); }
  const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  const Array* as_array() const;
  const Object* as_object() const;

  // Byte offset in the source's text of this value, or of the key that holds it.
  std::size_t offset() const { return offset_; }

  // "a string", "a number", … for messages.
  std::string_view kind() const;
  // The value as it could be quoted in a message, clipped.
  std::string shown() const;

 private:
  Data data_ = nullptr;
  std::size_t offset_ = 0;
};

struct Object::Member {
  std::string key;
  Value value;
};

// Both throw InputError that names the file, line and column.
Document parse_json(std::string name, std::string text, const Limits& limits = {});
Document parse_yaml(std::string name, std::string text, const Limits& limits = {});

// The line that holds `offset` with a marker below, for InputError::excerpt(); empty when the text has no such place.
std::string excerpt_at(const SourceText& source, std::size_t offset);

}  // namespace nest::doc
