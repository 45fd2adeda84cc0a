// Arguments of the tools that `nest mcp` offers. Each tool visits its arguments once with a name, a type and a
// description; a SchemaVisitor makes the JSON Schema of them, an ArgumentVisitor reads a call.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nest/input.h"
#include "nest/range.h"

namespace nest::app {

using Json = nlohmann::ordered_json;

// {"type": "object", "properties": {…}, "required": […], "additionalProperties": false}
class SchemaVisitor {
 public:
  void integer(const char* name, const std::int64_t& target, const IntegerRange& range, const std::string& about);
  void integer(const char* name, const std::optional<std::int64_t>& target, const IntegerRange& range,
               const std::string& about);
  void number(const char* name, const double& target, const std::string& about);
  void flag(const char* name, const bool& target, const std::string& about);
  void text(const char* name, const std::string& target, const std::string& about);
  void text(const char* name, const std::optional<std::string>& target, const std::string& about);
  void texts(const char* name, const std::vector<std::string>& target, const std::string& about);
  void word(const char* name, const std::string& target, const std::vector<std::string>& words,
            const std::string& about);
  // A name, a path, the document itself as an object, or {"name": …, "text": …}: what a file of that name holds.
  // `file` is what an object is called in messages.
  void document(const char* name, const Input& target, const char* file, const std::string& about);
  void documents(const char* name, const std::vector<Input>& target, const char* file, const std::string& about);
  // Objects whose members are numbers or texts.
  void objects(const char* name, const std::vector<Json>& target, const std::string& about);
  void require(const char* name);

  Json schema() const;

 private:
  void add(const char* name, Json type, const std::string& about);

  Json properties_ = Json::object();
  Json required_ = Json::array();
};

// Throws InputError for a value of another type, and in finish() for arguments that nobody asked for.
class ArgumentVisitor {
 public:
  explicit ArgumentVisitor(const Json& arguments) : arguments_(arguments) {}

  void integer(const char* name, std::int64_t& target, const IntegerRange& range, const std::string& about);
  void integer(const char* name, std::optional<std::int64_t>& target, const IntegerRange& range,
               const std::string& about);
  void number(const char* name, double& target, const std::string& about);
  void flag(const char* name, bool& target, const std::string& about);
  void text(const char* name, std::string& target, const std::string& about);
  void text(const char* name, std::optional<std::string>& target, const std::string& about);
  void texts(const char* name, std::vector<std::string>& target, const std::string& about);
  void word(const char* name, std::string& target, const std::vector<std::string>& words, const std::string& about);
  void document(const char* name, Input& target, const char* file, const std::string& about);
  void documents(const char* name, std::vector<Input>& target, const char* file, const std::string& about);
  void objects(const char* name, std::vector<Json>& target, const std::string& about);
  void require(const char* name) const;

  void finish() const;

 private:
  const Json* find(const char* name);  // null: not given
  static Input document_of(const char* name, const Json& given, const char* file);

  const Json& arguments_;
  std::vector<std::string> known_;
};

}  // namespace nest::app
