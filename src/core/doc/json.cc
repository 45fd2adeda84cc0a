// JSON through nlohmann's event parser: it is iterative (no stack to exhaust), checks UTF-8, and builds nothing itself,
// so that limits are enforced while the text is read. Positions are not part of its events; they are recovered by
// letting it read through an iterator that counts.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "doc/value.h"

namespace nest::doc {
namespace {

struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** furthest = nullptr;

  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    ++at;
    *furthest = at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(const SourceText& source, const char* const& furthest, const Limits& limits)
      : source_(source), furthest_(furthest), limits_(limits) {}

  Value take_root() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return put(static_cast<double>(value));
    return put(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string& /*text*/) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(nlohmann::json::binary_t& /*value*/) override { return false; }

  bool start_object(std::size_t /*size*/) override { return open(std::make_shared<Object>()); }
  bool start_array(std::size_t /*size*/) override { return open(std::make_shared<Array>()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    Level& level = levels_.back();
    const std::size_t end = position();
    level.key_offset = end > name.size() + 1 ? end - name.size() - 2 : 0;
    if (level.object->find(name)) fail(level.key_offset, fmt::format("key `{}` is given twice", clip(name, 40)));
    level.key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t where, const std::string& token, const nlohmann::json::exception& error) override {
    if (source_.text.find_first_not_of(" \t\r\n") == std::string::npos) {
      throw InputError(fmt::format("{}: the file is empty; expected a JSON object", source_.name));
    }
    const bool torn = where > source_.text.size() || token == "<end of input>";
    const std::string why = torn ? "the text ends in the middle of the document"
                            : std::string_view(error.what()).find("UTF-8") != std::string_view::npos
                                ? "not valid UTF-8 text"
                                : fmt::format("not valid JSON near `{}`", clip(token.empty() ? "?" : token, 30));
    fail(where == 0 ? 0 : std::min(where - 1, source_.text.size()), why);
  }

 private:
  struct Level {
    std::shared_ptr<Object> object;
    std::shared_ptr<Array> array;
    std::string key;
    std::size_t key_offset = 0;
  };

  std::size_t position() const { return static_cast<std::size_t>(furthest_ - source_.text.data()); }

  [[noreturn]] void fail(std::size_t offset, const std::string& why) const {
    const auto end = source_.text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, source_.text.size()));
    const auto line = 1 + std::count(source_.text.begin(), end, '\n');
    throw InputError(fmt::format("{}:{}: {}", source_.name, line, why), excerpt_at(source_, offset));
  }

  template <class Data>
  bool put(Data data) {
    if (++count_ > limits_.values) fail(position(), fmt::format("more than {} values", limits_.values));
    const bool in_object = !levels_.empty() && levels_.back().object;
    const std::size_t here = position();
    Value value(Value::Data(std::move(data)), in_object ? levels_.back().key_offset : here > 0 ? here - 1 : 0);
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (in_object) {
      levels_.back().object->add(std::move(levels_.back().key), std::move(value));
    } else {
      levels_.back().array->push_back(std::move(value));
    }
    return true;
  }

  template <class Container>
  bool open(std::shared_ptr<Container> container) {
    if (levels_.size() >= limits_.depth) fail(position(), fmt::format("nested deeper than {} levels", limits_.depth));
    put(container);
    Level level;
    if constexpr (std::is_same_v<Container, Object>) {
      level.object = std::move(container);
    } else {
      level.array = std::move(container);
    }
    levels_.push_back(std::move(level));
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  const SourceText& source_;
  const char* const& furthest_;
  const Limits& limits_;
  std::vector<Level> levels_;
  Value root_;
  std::size_t count_ = 0;
};

}  // namespace

Document parse_json(std::string name, std::string text, const Limits& limits) {
  auto source = std::make_shared<SourceText>(SourceText{std::move(name), std::move(text)});
  if (source->text.size() > limits.bytes) {
    throw InputError(
        fmt::format("{}: {} bytes of text; at most {} are read", source->name, source->text.size(), limits.bytes));
  }
  const char* const begin = source->text.data();
  const char* furthest = begin;
  TreeBuilder builder(*source, furthest, limits);
  nlohmann::json::sax_parse(CountingIterator{begin, &furthest},
                            CountingIterator{begin + source->text.size(), &furthest}, &builder);
  return {std::move(source), builder.take_root()};
}

}  // namespace nest::doc
