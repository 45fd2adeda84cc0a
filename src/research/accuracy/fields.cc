#include "accuracy/fields.h"

#include <cmath>

#include "base/index.h"

namespace nest::accuracy {

const doc::Value* Fields::value(std::string_view key) const {
  const doc::Value* found = object_ ? object_->find(key) : nullptr;
  return found && !found->is_null() ? found : nullptr;
}

std::optional<std::int64_t> Fields::integer(std::string_view key) const {
  const doc::Value* found = value(key);
  if (!found) return std::nullopt;
  if (found->as_integer()) return *found->as_integer();
  if (found->as_real() && std::abs(*found->as_real()) < 9e15 && std::floor(*found->as_real()) == *found->as_real()) {
    return static_cast<std::int64_t>(*found->as_real());
  }
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view key) const {
  const doc::Value* found = value(key);
  if (!found) return std::nullopt;
  if (found->as_integer()) return real(*found->as_integer());
  if (found->as_real() && std::isfinite(*found->as_real())) return *found->as_real();
  return std::nullopt;
}

std::optional<std::string> Fields::text(std::string_view key) const {
  const doc::Value* found = value(key);
  return found && found->as_string() ? std::optional(*found->as_string()) : std::nullopt;
}

std::optional<bool> Fields::flag(std::string_view key) const {
  const doc::Value* found = value(key);
  if (!found) return std::nullopt;
  if (found->as_bool()) return *found->as_bool();
  if (found->as_integer()) return *found->as_integer() != 0;
  return std::nullopt;
}

}  // namespace nest::accuracy
