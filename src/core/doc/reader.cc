#include "doc/reader.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace nest::doc {
namespace {

std::string show_bound(double bound) {
  return std::abs(bound) < 1e15 && bound == std::floor(bound) ? format_integer(static_cast<std::int64_t>(bound))
                                                              : fmt::format("{:g}", bound);
}

std::string show_range(Range range) { return fmt::format("{} … {}", show_bound(range.low), show_bound(range.high)); }

// The value as an integer if it is one: 4096, or 4096.0 as some writers print it.
std::optional<std::int64_t> integral(const Value& value) {
  if (const std::int64_t* number = value.as_integer()) return *number;
  if (const double* number = value.as_real(); number && *number == std::floor(*number) && std::abs(*number) < 0x1p53) {
    return static_cast<std::int64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> numeric(const Value& value) {
  if (const std::int64_t* number = value.as_integer()) return static_cast<double>(*number);
  if (const double* number = value.as_real(); number && std::isfinite(*number)) return *number;
  return std::nullopt;
}

}  // namespace

Reader::Reader(const Document& document) : Reader(document.source, document.root(), {}) {}

Reader::Reader(std::shared_ptr<const SourceText> source, const Value& value, std::string path)
    : source_(std::move(source)), value_(value), object_(value_.as_object()), path_(std::move(path)) {
  if (!object_) fail(fmt::format("expected an object with keys, found {}", value_.kind()));
}

bool Reader::has(std::string_view key) const {
  const Value* value = object_->find(key);
  return value && !value->is_null();
}

const Value* Reader::look_up(std::string_view key) {
  known_.emplace(key);
  const Value* value = object_->find(key);
  return value && !value->is_null() ? value : nullptr;
}

const Value* Reader::raw(std::string_view key) { return look_up(key); }

std::optional<std::int64_t> Reader::maybe_integer(std::string_view key, Range range) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  const auto number = integral(*value);
  if (!number) fail_kind(key, *value, fmt::format("an integer in {}", show_range(range)));
  if (static_cast<double>(*number) < range.low || static_cast<double>(*number) > range.high) {
    fail(key, fmt::format("{} is out of range; allowed is {}", *number, show_range(range)));
  }
  return number;
}

std::optional<double> Reader::maybe_number(std::string_view key, Range range) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  const auto number = numeric(*value);
  if (!number) fail_kind(key, *value, fmt::format("a number in {}", show_range(range)));
  if (*number < range.low || *number > range.high) {
    fail(key, fmt::format("{} is out of range; allowed is {}", *number, show_range(range)));
  }
  return number;
}

std::optional<bool> Reader::maybe_flag(std::string_view key) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  if (!value->as_bool()) fail_kind(key, *value, "true or false");
  return *value->as_bool();
}

std::optional<std::string> Reader::maybe_text(std::string_view key) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  if (!value->as_string()) fail_kind(key, *value, "a string");
  return *value->as_string();
}

std::optional<Reader> Reader::maybe_object(std::string_view key) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  if (!value->as_object()) fail_kind(key, *value, "an object with keys");
  return Reader(source_, *value, path_to(key));
}

std::vector<Reader> Reader::objects(std::string_view key) {
  std::vector<Reader> readers;
  const Value* value = look_up(key);
  if (!value) return readers;
  const Array* array = value->as_array();
  if (!array) fail_kind(key, *value, "a list of objects");
  for (std::size_t i = 0; i < array->size(); ++i) {
    readers.push_back(Reader(source_, (*array)[i], fmt::format("{}[{}]", path_to(key), i)));
  }
  return readers;
}

std::optional<std::vector<std::int64_t>> Reader::maybe_integers(std::string_view key, Range range,
                                                                std::size_t at_most) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  const Array* array = value->as_array();
  if (!array) fail_kind(key, *value, "a list of integers");
  if (array->size() > at_most) fail(key, fmt::format("{} entries; at most {} are allowed", array->size(), at_most));
  std::vector<std::int64_t> numbers;
  for (const Value& entry : *array) {
    const auto number = integral(entry);
    if (!number || static_cast<double>(*number) < range.low || static_cast<double>(*number) > range.high) {
      fail(key, fmt::format("entry {} is not an integer in {}", entry.shown(), show_range(range)));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::optional<std::vector<std::string>> Reader::maybe_texts(std::string_view key, std::size_t at_most) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  const Array* array = value->as_array();
  if (!array) fail_kind(key, *value, "a list of strings");
  if (array->size() > at_most) fail(key, fmt::format("{} entries; at most {} are allowed", array->size(), at_most));
  std::vector<std::string> texts;
  for (const Value& entry : *array) {
    if (!entry.as_string()) fail(key, fmt::format("entry {} is not a string", entry.shown()));
    texts.push_back(*entry.as_string());
  }
  return texts;
}

template <class Parse>
std::optional<double> Reader::maybe_quantity(std::string_view key, std::string_view what, Parse parse) {
  const Value* value = look_up(key);
  if (!value) return std::nullopt;
  if (const auto number = numeric(*value)) {
    if (*number < 0) fail(key, fmt::format("{} is negative; a {} is not", value->shown(), what));
    return number;
  }
  if (!value->as_string()) fail_kind(key, *value, fmt::format("a {}", what));
  try {
    return static_cast<double>(parse(*value->as_string()));
  } catch (const InputError& error) {
    fail(key, error.what());
  }
}

std::optional<std::int64_t> Reader::maybe_bytes(std::string_view key) {
  const auto bytes = maybe_quantity(key, "size", parse_bytes);
  if (!bytes) return std::nullopt;
  if (*bytes > 0x1p62) fail(key, "more bytes than any machine has");
  return std::llround(*bytes);
}

std::optional<double> Reader::maybe_bandwidth(std::string_view key) {
  return maybe_quantity(key, "bandwidth", parse_bandwidth);
}

std::optional<double> Reader::maybe_duration(std::string_view key) {
  return maybe_quantity(key, "duration", parse_duration);
}

std::optional<double> Reader::maybe_compute_rate(std::string_view key) {
  return maybe_quantity(key, "compute rate", parse_compute_rate);
}

std::string Reader::choice_or(std::string_view key, std::string_view otherwise, std::span<const std::string> allowed) {
  std::string chosen = text_or(key, otherwise);
  for (const std::string& option : allowed) {
    if (option == chosen) return chosen;
  }
  fail_choice(key, chosen, allowed);
}

void Reader::fail_choice(std::string_view key, const std::string& chosen, std::span<const std::string> allowed) const {
  fail(key, fmt::format("`{}` is not known; allowed are {}{}", clip(chosen, 40), join_words(allowed),
                        did_you_mean(chosen, allowed)));
}

std::vector<std::string> Reader::keys() const {
  std::vector<std::string> keys;
  for (const auto& member : object_->members()) keys.push_back(member.key);
  return keys;
}

void Reader::refuse_unknown_keys() const {
  for (const auto& member : object_->members()) {
    if (known_.contains(member.key)) continue;
    std::vector<std::string> candidates;
    for (const std::string& known : known_) {
      if (!object_->find(known)) candidates.push_back(known);
    }
    fail(member.key, "unknown key" + did_you_mean(member.key, candidates));
  }
}

std::string Reader::path_to(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Reader::fail(std::string_view key, std::string_view message) const {
  const Value* value = object_->find(key);
  throw InputError(fmt::format("{}: {}: {}", source_->name, clip(path_to(key), 120), message),
                   excerpt_at(*source_, value ? value->offset() : value_.offset()));
}

void Reader::fail(std::string_view message) const {
  const std::string where = path_.empty() ? source_->name : fmt::format("{}: {}", source_->name, clip(path_, 120));
  throw InputError(fmt::format("{}: {}", where, message), excerpt_at(*source_, value_.offset()));
}

void Reader::fail_missing(std::string_view key) const {
  std::vector<std::string> unasked;
  for (const auto& member : object_->members()) {
    if (!known_.contains(member.key)) unasked.push_back(member.key);
  }
  const auto closest = closest_word(key, unasked);
  throw InputError(fmt::format("{}: {}: missing{}", source_->name, path_to(key),
                               closest ? fmt::format("; is `{}` a misspelling of it?", clip(*closest, 40)) : ""));
}

void Reader::fail_kind(std::string_view key, const Value& seen, std::string_view expected) const {
  fail(key, fmt::format("found {}; expected {}", seen.shown(), expected));
}

}  // namespace nest::doc
