// What ships with nest under a name: models, devices, clusters, stacks. One shelf each, filled once and never changed.
// Things are called as their files are: whoever wants one by that name reads its file alone, and no shelf is filled.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace nest {

// T has a `name` and may have `aliases`. Any number of threads may read a shelf.
template <class T>
class Shelf {
 public:
  // No two things may share a name or an alias.
  explicit Shelf(std::vector<T> things) : things_(std::move(things)) {
    for (std::size_t i = 0; i < things_.size(); ++i) {
      put(things_[i].name, i);
      if constexpr (requires { things_[i].aliases; }) {
        for (const std::string& alias : things_[i].aliases) put(alias, i);
      }
    }
  }

  auto begin() const { return things_.begin(); }
  auto end() const { return things_.end(); }
  bool empty() const { return things_.empty(); }
  std::size_t size() const { return things_.size(); }
  const T& front() const { return things_.front(); }
  const T& operator[](std::size_t i) const { return things_[i]; }

  // By name or alias, in capitals or not; null for none.
  const T* find(std::string_view name) const {
    const auto found = by_name_.find(to_lower(name));
    return found == by_name_.end() ? nullptr : &things_[found->second];
  }

  std::vector<std::string> names() const {
    std::vector<std::string> list;
    list.reserve(things_.size());
    for (const T& thing : things_) list.push_back(thing.name);
    return list;
  }

  // What to say about a name that is not there.
  std::string unknown(std::string_view name) const {
    const std::vector<std::string> known = names();
    return fmt::format("`{}` is not known; known are {}{}", clip(name, 40), join_words(known),
                       did_you_mean(name, known));
  }

 private:
  void put(const std::string& name, std::size_t index) {
    NEST_CHECK(by_name_.emplace(to_lower(name), index).second, "two presets are called " + name);
  }

  std::vector<T> things_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

// What is read when somebody first asks for it, each once, by any number of threads.
template <class T>
class ReadOnce {
 public:
  explicit ReadOnce(std::size_t count) : slots_(count) {}

  // read(): the thing at `index`; what it throws, the next that asks throws too.
  template <class Read>
  const T& at(std::size_t index, Read read) {
    Slot& slot = slots_[index];
    std::call_once(slot.once, [&] { slot.thing.emplace(read()); });
    return *slot.thing;
  }

 private:
  struct Slot {
    std::once_flag once;
    std::optional<T> thing;
  };

  std::vector<Slot> slots_;
};

}  // namespace nest
