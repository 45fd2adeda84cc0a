#include "mcp_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {
namespace {

[[noreturn]] void fail_type(const char* name, const Json& seen, const char* expected) {
  throw InputError(fmt::format("{}: {} is not {}", name, clip(seen.dump(), 60), expected));
}

// {"name": "job.sh", "text": "…"}: a file that the caller holds. No document that nest reads has these two keys alone.
bool is_named_text(const Json& given) {
  return given.is_object() && given.size() == 2 && given.contains("name") && given["name"].is_string() &&
         given.contains("text") && given["text"].is_string();
}

}  // namespace

void SchemaVisitor::add(const char* name, Json type, const std::string& about) {
  type["description"] = about;
  properties_[name] = std::move(type);
}

void SchemaVisitor::integer(const char* name, const std::int64_t& /*target*/, const IntegerRange& range,
                            const std::string& about) {
  add(name, {{"type", "integer"}, {"minimum", range.low}, {"maximum", range.high}}, about);
}
void SchemaVisitor::integer(const char* name, const std::optional<std::int64_t>& /*target*/, const IntegerRange& range,
                            const std::string& about) {
  integer(name, std::int64_t{}, range, about);
}
void SchemaVisitor::number(const char* name, const double& /*target*/, const std::string& about) {
  add(name, {{"type", "number"}, {"minimum", 0}}, about);
}
void SchemaVisitor::flag(const char* name, const bool& /*target*/, const std::string& about) {
  add(name, {{"type", "boolean"}}, about);
}
void SchemaVisitor::text(const char* name, const std::string& /*target*/, const std::string& about) {
  add(name, {{"type", "string"}}, about);
}
void SchemaVisitor::text(const char* name, const std::optional<std::string>& /*target*/, const std::string& about) {
  text(name, std::string(), about);
}
void SchemaVisitor::texts(const char* name, const std::vector<std::string>& /*target*/, const std::string& about) {
  add(name, {{"type", "array"}, {"items", {{"type", "string"}}}}, about);
}
void SchemaVisitor::word(const char* name, const std::string& /*target*/, const std::vector<std::string>& words,
                         const std::string& about) {
  add(name, {{"type", "string"}, {"enum", words}}, about);
}
void SchemaVisitor::document(const char* name, const Input& /*target*/, const char* /*file*/,
                             const std::string& about) {
  add(name, {{"type", {"string", "object"}}}, about);
}
void SchemaVisitor::documents(const char* name, const std::vector<Input>& /*target*/, const char* /*file*/,
                              const std::string& about) {
  add(name, {{"type", "array"}, {"items", {{"type", {"string", "object"}}}}}, about);
}
void SchemaVisitor::objects(const char* name, const std::vector<Json>& /*target*/, const std::string& about) {
  add(name, {{"type", "array"}, {"items", {{"type", "object"}}}}, about);
}
void SchemaVisitor::require(const char* name) { required_.push_back(name); }

Json SchemaVisitor::schema() const {
  Json json = {{"type", "object"}, {"properties", properties_}};
  if (!required_.empty()) json["required"] = required_;
  json["additionalProperties"] = false;
  return json;
}

const Json* ArgumentVisitor::find(const char* name) {
  known_.emplace_back(name);
  const auto found = arguments_.find(name);
  return found == arguments_.end() || found->is_null() ? nullptr : &*found;
}

void ArgumentVisitor::integer(const char* name, std::int64_t& target, const IntegerRange& range,
                              const std::string& /*about*/) {
  const Json* given = find(name);
  if (given == nullptr) return;
  // Some callers write every number as 8.0.
  const bool whole = given->is_number_float() && std::abs(given->get<double>()) < 0x1p53 &&
                     std::trunc(given->get<double>()) == given->get<double>();
  if (!given->is_number_integer() && !whole) fail_type(name, *given, "a whole number");
  const auto value = given->get<std::int64_t>();
  if (!range.holds(value)) fail_range(name, given->dump(), range);
  target = value;
}
void ArgumentVisitor::integer(const char* name, std::optional<std::int64_t>& target, const IntegerRange& range,
                              const std::string& about) {
  if (!arguments_.contains(name)) {
    known_.emplace_back(name);
    return;
  }
  std::int64_t value = range.low;
  integer(name, value, range, about);
  if (!arguments_[name].is_null()) target = value;
}
void ArgumentVisitor::number(const char* name, double& target, const std::string& /*about*/) {
  const Json* given = find(name);
  if (given == nullptr) return;
  if (!given->is_number() || !(given->get<double>() >= 0)) fail_type(name, *given, "a number, 0 or more");
  target = given->get<double>();
}
void ArgumentVisitor::flag(const char* name, bool& target, const std::string& /*about*/) {
  const Json* given = find(name);
  if (given == nullptr) return;
  if (!given->is_boolean()) fail_type(name, *given, "true or false");
  target = given->get<bool>();
}
void ArgumentVisitor::text(const char* name, std::string& target, const std::string& /*about*/) {
  const Json* given = find(name);
  if (given == nullptr) return;
  if (!given->is_string()) fail_type(name, *given, "text");
  target = given->get<std::string>();
}
void ArgumentVisitor::text(const char* name, std::optional<std::string>& target, const std::string& about) {
  std::string value;
  text(name, value, about);
  if (arguments_.contains(name) && !arguments_[name].is_null()) target = value;
}
void ArgumentVisitor::texts(const char* name, std::vector<std::string>& target, const std::string& /*about*/) {
  const Json* given = find(name);
  if (given == nullptr) return;
  if (given->is_string()) {
    target = {given->get<std::string>()};
    return;
  }
  if (!given->is_array()) fail_type(name, *given, "a list of texts");
  target.clear();
  for (const Json& item : *given) {
    if (!item.is_string()) fail_type(name, item, "text");
    target.push_back(item.get<std::string>());
  }
}
void ArgumentVisitor::word(const char* name, std::string& target, const std::vector<std::string>& words,
                           const std::string& about) {
  std::string value;
  text(name, value, about);
  if (!arguments_.contains(name) || arguments_[name].is_null()) return;
  if (std::find(words.begin(), words.end(), value) == words.end()) {
    throw InputError(fmt::format("{}: \"{}\" is not one of {}{}", name, clip(value, 40), join_words(words, "or"),
                                 did_you_mean(value, words)));
  }
  target = value;
}
Input ArgumentVisitor::document_of(const char* name, const Json& given, const char* file) {
  if (is_named_text(given)) return Input::memory(given["name"].get<std::string>(), given["text"].get<std::string>());
  if (given.is_object()) return Input::memory(file, given.dump());
  if (!given.is_string()) fail_type(name, given, "a name, a path or an object");
  if (given == "-") throw InputError(fmt::format("{}: standard input carries the protocol; give a path", name));
  return Input(given.get<std::string>());
}
void ArgumentVisitor::document(const char* name, Input& target, const char* file, const std::string& /*about*/) {
  if (const Json* given = find(name)) target = document_of(name, *given, file);
}
void ArgumentVisitor::documents(const char* name, std::vector<Input>& target, const char* file,
                                const std::string& /*about*/) {
  const Json* given = find(name);
  if (given == nullptr) return;
  if (!given->is_array()) fail_type(name, *given, "a list");
  target.clear();
  for (const Json& item : *given) target.push_back(document_of(name, item, file));
}
void ArgumentVisitor::objects(const char* name, std::vector<Json>& target, const std::string& /*about*/) {
  const Json* given = find(name);
  if (given == nullptr) return;
  if (!given->is_array()) fail_type(name, *given, "a list of objects");
  target.clear();
  for (const Json& item : *given) {
    if (!item.is_object()) fail_type(name, item, "an object");
    for (const auto& [key, value] : item.items()) {
      if (!value.is_number_integer() && !value.is_string()) fail_type(name, item, "an object of numbers and texts");
    }
    target.push_back(item);
  }
}
void ArgumentVisitor::require(const char* name) const {
  if (!arguments_.contains(name) || arguments_[name].is_null()) throw InputError(fmt::format("{}: is missing", name));
}

void ArgumentVisitor::finish() const {
  for (const auto& [name, value] : arguments_.items()) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      throw InputError(fmt::format("unknown argument {}{}; there is {}", clip(name, 40), did_you_mean(name, known_),
                                   join_words(known_)));
    }
  }
}

}  // namespace nest::app
