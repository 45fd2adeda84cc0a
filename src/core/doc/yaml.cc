// YAML through yaml-cpp's event parser. Aliases and tags are refused (an alias can blow a small file up without bound),
// and plain scalars become numbers and booleans by the YAML 1.2 core rules, so that `no` stays a string.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/real.h"
#include "base/text.h"
#include "doc/value.h"

namespace nest::doc {
namespace {

Value::Data plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  const char* const begin = text.data() + (text[0] == '+' ? 1 : 0);
  const char* const end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [rest, status] = std::from_chars(begin, end, integer); status == std::errc{} && rest == end) {
    return integer;
  }
  double real = 0;
  const bool numeric =
      begin != end && (std::isdigit(static_cast<unsigned char>(*begin)) || *begin == '-' || *begin == '.');
  if (const auto [rest, status] = real_from_chars(begin, end, real);
      numeric && status == std::errc{} && rest == end && std::isfinite(real)) {
    return real;
  }
  return text;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const SourceText& source, const Limits& limits) : source_(source), limits_(limits) {}

  bool done() const { return done_; }
  Value take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override { done_ = true; }
  void OnAnchor(const YAML::Mark& mark, const std::string& /*name*/) override {
    fail(mark, "anchors are not supported");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { fail(mark, "aliases are not supported"); }

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    put(mark, nullptr);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    refuse_anchor(mark, anchor);
    // yaml-cpp reports plain scalars with tag "?" and quoted ones with "!".
    if (tag != "?" && tag != "!" && !tag.empty()) fail(mark, "tags are not supported");
    if (!levels_.empty() && levels_.back().object && !levels_.back().has_key) {
      set_key(mark, text);
    } else {
      put(mark, tag == "!" ? Value::Data(text) : plain_scalar(text));
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    open(mark, std::make_shared<Array>());
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_anchor(mark, anchor);
    open(mark, std::make_shared<Object>());
  }
  void OnSequenceEnd() override { levels_.pop_back(); }
  void OnMapEnd() override { levels_.pop_back(); }

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& why) const {
    throw InputError(fmt::format("{}:{}: {}", source_.name, mark.line + 1, why), excerpt_at(source_, offset(mark)));
  }

 private:
  struct Level {
    std::shared_ptr<Object> object;
    std::shared_ptr<Array> array;
    std::string key;
    std::size_t key_offset = 0;
    bool has_key = false;
  };

  static std::size_t offset(const YAML::Mark& mark) { return mark.pos < 0 ? 0 : static_cast<std::size_t>(mark.pos); }

  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) fail(mark, "anchors are not supported");
  }

  void set_key(const YAML::Mark& mark, const std::string& text) {
    Level& level = levels_.back();
    if (!limits_.last_key_counts && level.object->find(text))
      fail(mark, fmt::format("key `{}` is given twice", clip(text, 40)));
    level.key = text;
    level.key_offset = offset(mark);
    level.has_key = true;
  }

  void put(const YAML::Mark& mark, Value::Data data) {
    if (++count_ > limits_.values) fail(mark, fmt::format("more than {} values", limits_.values));
    if (levels_.empty()) {
      root_ = Value(std::move(data), offset(mark));
      return;
    }
    Level& level = levels_.back();
    if (level.array) {
      level.array->push_back(Value(std::move(data), offset(mark)));
      return;
    }
    if (!level.has_key) fail(mark, "keys must be plain words");
    level.object->add(std::move(level.key), Value(std::move(data), level.key_offset));
    level.has_key = false;
  }

  template <class Container>
  void open(const YAML::Mark& mark, std::shared_ptr<Container> container) {
    if (levels_.size() >= limits_.depth) fail(mark, fmt::format("nested deeper than {} levels", limits_.depth));
    put(mark, container);
    Level level;
    if constexpr (std::is_same_v<Container, Object>) {
      level.object = std::move(container);
    } else {
      level.array = std::move(container);
    }
    levels_.push_back(std::move(level));
  }

  const SourceText& source_;
  const Limits& limits_;
  std::vector<Level> levels_;
  Value root_;
  std::size_t count_ = 0;
  bool done_ = false;
};

}  // namespace

Document parse_yaml(std::string name, std::string text, const Limits& limits) {
  auto source = std::make_shared<SourceText>(SourceText{std::move(name), std::move(text)});
  if (source->text.size() > limits.bytes) {
    throw InputError(
        fmt::format("{}: {} bytes of text; at most {} are read", source->name, source->text.size(), limits.bytes));
  }
  TreeBuilder builder(*source, limits);
  try {
    std::istringstream stream(source->text);
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder) || !builder.done()) {
      throw InputError(fmt::format("{}: the file is empty; expected a YAML mapping", source->name));
    }
    TreeBuilder rest(*source, limits);
    if (parser.HandleNextDocument(rest)) {
      throw InputError(fmt::format("{}: more than one YAML document; expected one", source->name));
    }
  } catch (const YAML::Exception& error) {
    builder.fail(error.mark, fmt::format("not valid YAML: {}", clip(error.msg, 100)));
  }
  return {std::move(source), builder.take_root()};
}

}  // namespace nest::doc
