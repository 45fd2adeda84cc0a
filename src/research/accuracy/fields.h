// Forgiving access to rows that others wrote: what is absent, null or of another kind is simply not there. Rows are
// data to be judged, not input of ours, so that a strange one is left out and never stops the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "doc/value.h"

namespace nest::accuracy {

class Fields {
 public:
  explicit Fields(const doc::Value* value) : object_(value ? value->as_object() : nullptr) {}

  bool empty() const { return object_ == nullptr || object_->members().empty(); }
  const doc::Value* value(std::string_view key) const;
  Fields object(std::string_view key) const { return Fields(value(key)); }
  std::optional<std::int64_t> integer(std::string_view key) const;  // also numbers without a fraction
  std::optional<double> number(std::string_view key) const;         // finite
  std::optional<std::string> text(std::string_view key) const;
  std::optional<bool> flag(std::string_view key) const;  // true, false, 0, 1

 private:
  const doc::Object* object_;
};

}  // namespace nest::accuracy
