#include "doc/to_json.h"

namespace nest::doc {

using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(const Value& value) {
  if (const bool* flag = value.as_bool()) return *flag;
  if (const std::int64_t* number = value.as_integer()) return *number;
  if (const double* number = value.as_real()) return *number;
  if (const std::string* text = value.as_string()) return *text;
  if (const Array* array = value.as_array()) {
    OrderedJson list = OrderedJson::array();
    for (const Value& entry : *array) list.push_back(to_json(entry));
    return list;
  }
  if (const Object* object = value.as_object()) {
    OrderedJson members = OrderedJson::object();
    // Keys are distinct; looking each up among those before it would take quadratic time.
    auto& entries = members.get_ref<OrderedJson::object_t&>();
    for (const auto& member : object->members()) entries.emplace_back(member.key, to_json(member.value));
    return members;
  }
  return nullptr;
}

}  // namespace nest::doc

namespace nest {

std::string Document::text() const { return part || !source || source->text.empty() ? json() : source->text; }

std::string Document::json(int indent) const {
  return doc::to_json(root()).dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace nest
