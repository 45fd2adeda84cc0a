// Typed reading of a document's objects. Every failure is an InputError of the form
//     cluster.yaml: levels[1].bandwidth: "fast" is not a bandwidth; write for example 900GB/s or 400Gbps
// with the offending line as excerpt. A key that nobody asked for is an error too (refuse_unknown_keys), with the
// closest key that would have been understood.
//
// `maybe_x` gives nothing for a key that is absent or null; `x` requires it; `x_or` has a default.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "doc/value.h"

namespace nest::doc {

// Allowed range of a number, both ends included.
struct Range {
  double low;
  double high;
};

class Reader {
 public:
  // The document's root must be an object.
  explicit Reader(const Document& document);

  bool has(std::string_view key) const;  // present and not null

  std::optional<std::int64_t> maybe_integer(std::string_view key, Range range);
  std::optional<double> maybe_number(std::string_view key, Range range);
  std::optional<bool> maybe_flag(std::string_view key);
  std::optional<std::string> maybe_text(std::string_view key);
  std::optional<Reader> maybe_object(std::string_view key);
  // A list of objects; absent gives an empty list.
  std::vector<Reader> objects(std::string_view key);
  std::optional<std::vector<std::int64_t>> maybe_integers(std::string_view key, Range range, std::size_t at_most);
  std::optional<std::vector<std::string>> maybe_texts(std::string_view key, std::size_t at_most);

  // A number in the base unit, or text with a unit ("80GiB", "400Gbps", "5us", "989TFLOPS").
  std::optional<std::int64_t> maybe_bytes(std::string_view key);
  std::optional<double> maybe_bandwidth(std::string_view key);
  std::optional<double> maybe_duration(std::string_view key);
  std::optional<double> maybe_compute_rate(std::string_view key);

  std::int64_t integer(std::string_view key, Range range) { return required(maybe_integer(key, range), key); }
  double number(std::string_view key, Range range) { return required(maybe_number(key, range), key); }
  std::string text(std::string_view key) { return required(maybe_text(key), key); }
  Reader object(std::string_view key) { return required(maybe_object(key), key); }
  std::int64_t bytes(std::string_view key) { return required(maybe_bytes(key), key); }
  double bandwidth(std::string_view key) { return required(maybe_bandwidth(key), key); }
  double duration(std::string_view key) { return required(maybe_duration(key), key); }

  std::int64_t integer_or(std::string_view key, std::int64_t otherwise, Range range) {
    return maybe_integer(key, range).value_or(otherwise);
  }
  bool flag_or(std::string_view key, bool otherwise) { return maybe_flag(key).value_or(otherwise); }
  std::string text_or(std::string_view key, std::string_view otherwise) {
    return maybe_text(key).value_or(std::string(otherwise));
  }
  // Text that must be one of `allowed`.
  std::string choice_or(std::string_view key, std::string_view otherwise, std::span<const std::string> allowed);

  // A word of an enumeration, in any case: `words` are {value, text}.
  template <class Enum, class Words>
  Enum word_or(std::string_view key, Enum otherwise, const Words& words) {
    const std::optional<std::string> chosen = maybe_text(key);
    if (!chosen) return otherwise;
    std::vector<std::string> allowed;
    for (const auto& word : words) {
      if (to_lower(*chosen) == word.text) return word.value;
      allowed.emplace_back(word.text);
    }
    fail_choice(key, *chosen, allowed);
  }

  // Keys as written, for formats that are maps from names to objects.
  std::vector<std::string> keys() const;
  const Value* raw(std::string_view key);

  void refuse_unknown_keys() const;

  // "file: path.key: message", pointing at the key (or at the object itself when the key is absent).
  [[noreturn]] void fail(std::string_view key, std::string_view message) const;
  // The same without a key.
  [[noreturn]] void fail(std::string_view message) const;

  const std::string& path() const { return path_; }
  const SourceText& source() const { return *source_; }

 private:
  Reader(std::shared_ptr<const SourceText> source, const Value& value, std::string path);

  const Value* look_up(std::string_view key);
  std::string path_to(std::string_view key) const;
  [[noreturn]] void fail_missing(std::string_view key) const;
  [[noreturn]] void fail_choice(std::string_view key, const std::string& chosen,
                                std::span<const std::string> allowed) const;
  [[noreturn]] void fail_kind(std::string_view key, const Value& seen, std::string_view expected) const;

  template <class Parse>
  std::optional<double> maybe_quantity(std::string_view key, std::string_view what, Parse parse);

  template <class T>
  T required(std::optional<T> found, std::string_view key) const {
    if (!found) fail_missing(key);
    return std::move(*found);
  }

  std::shared_ptr<const SourceText> source_;
  Value value_;  // keeps the subtree alive; containers inside are shared, so copies are cheap
  const Object* object_ = nullptr;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace nest::doc
