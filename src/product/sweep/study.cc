#include "sweep/study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "doc/reader.h"

namespace nest::sweep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostAxes = 32;
constexpr std::size_t kMostConditions = 64;
constexpr std::size_t kLongestName = 60;
constexpr std::array<std::string_view, 6> kComparisons = {"<=", ">=", "==", "!=", "<", ">"};

std::string number_text(double number) {
  const bool whole = number == std::floor(number) && std::abs(number) < 0x1p53;
  return whole ? std::to_string(static_cast<std::int64_t>(number)) : fmt::format("{}", number);
}

class StudyReader {
 public:
  StudyReader(const Document& document, const std::string& name) : root_(document) {
    study_.source = document.name();
    study_.text = document.text();
    study_.name = name;
  }

  Study read() {
    read_name();
    study_.description = root_.text_or("description", "");
    read_fixed();
    read_axes();
    read_zip();
    const std::int64_t combinations = count();
    read_where();
    keep(combinations);
    return std::move(study_);
  }

 private:
  std::string at(const std::string& path) const { return study_.source + ": " + path; }

  void read_name() {
    study_.name = root_.text_or("study", study_.name);
    const std::string& name = study_.name;
    if (!is_study_name(name)) {
      root_.fail("study", fmt::format("`{}` names no table: letters, digits, - _ and . , at most {} of them, not "
                                      "beginning with sqlite_ or nest_",
                                      clip(name, 40), kLongestName));
    }
  }

  SweepValue value_of(const Key& key, const doc::Value& value, const std::string& where) const {
    SweepValue result;
    if (const bool* flag = value.as_bool()) {
      result = {*flag ? "true" : "false", std::nullopt, true};
    } else if (const std::int64_t* whole = value.as_integer()) {
      result = {std::to_string(*whole), static_cast<double>(*whole), true};
    } else if (const double* real = value.as_real(); real != nullptr && std::isfinite(*real)) {
      result = {number_text(*real), *real, true};
    } else if (const std::string* text = value.as_string()) {
      result = {*text, number_of(key, *text), false};
    } else {
      throw InputError(fmt::format("{}: expected a number or a word, found {}", where, value.kind()));
    }
    if (result.text.size() > 4096) throw InputError(fmt::format("{}: a value of more than 4,096 characters", where));
    check_value(key, result, where);
    return result;
  }

  void take_name(const Key& key, const std::string& where) {
    if (!names_.insert(key.name).second) {
      throw InputError(fmt::format("{}: `{}` is given twice; a value is fixed, or an axis, once", where, key.name));
    }
  }

  void read_fixed() {
    static const std::set<std::string, std::less<>> kOwn = {"study", "description", "axes", "zip", "where"};
    for (const std::string& word : root_.keys()) {
      if (kOwn.contains(word)) continue;
      const doc::Value* value = root_.raw(word);
      if (value == nullptr) continue;
      const Key key = find_key(word, study_.source);
      take_name(key, at(word));
      if (value->as_array() != nullptr || value->as_object() != nullptr) {
        root_.fail(word, fmt::format("expected one value, found {}; several belong under `axes`", value->kind()));
      }
      study_.fixed.push_back({key.name, value_of(key, *value, at(word))});
    }
    std::sort(study_.fixed.begin(), study_.fixed.end(),
              [](const SweepSetting& a, const SweepSetting& b) { return a.name < b.name; });
  }

  // {from: 64, to: 1024, times: 2} or {from: 1, to: 9, step: 2}; the end is included where it is met.
  std::vector<SweepValue> range_values(const Key& key, doc::Reader& range, const std::string& where) const {
    const double from = range.number("from", {-1e15, 1e15});
    const double to = range.number("to", {-1e15, 1e15});
    const std::optional<double> times = range.maybe_number("times", {1.0001, 1e15});
    const std::optional<double> step = range.maybe_number("step", {1e-15, 1e15});
    range.refuse_unknown_keys();
    if (times.has_value() == step.has_value()) range.fail("expected `times` or `step`, one of them");
    if (from > to || (times && from <= 0)) {
      range.fail(fmt::format("from {} to {} holds nothing", number_text(from), number_text(to)));
    }
    std::vector<SweepValue> values;
    for (std::int64_t k = 0;; ++k) {
      const double number =
          step ? from + static_cast<double>(k) * *step : from * std::pow(*times, static_cast<double>(k));
      if (number > to * (1 + 1e-12) + 1e-300) break;
      if (k >= kMostSweepPoints) fail_many(where);
      values.push_back({number_text(number), number, true});
      check_value(key, values.back(), where);
    }
    return values;
  }

  [[noreturn]] void fail_many(const std::string& where) const {
    throw InputError(fmt::format("{}: more than {} points; take fewer values, or several studies", where,
                                 format_integer(kMostSweepPoints)));
  }

  void read_axis(doc::Reader& axes, const std::string& word) {
    const std::string where = at("axes." + word);
    const Key key = find_key(word, study_.source + ": axes");
    take_name(key, where);
    const doc::Value* value = axes.raw(word);
    if (value == nullptr) axes.fail(word, "expected values, found nothing");
    SweepAxis axis{key.name, {}};
    if (const doc::Array* list = value->as_array()) {
      if (static_cast<std::int64_t>(list->size()) > kMostSweepPoints) fail_many(where);
      for (const doc::Value& each : *list) axis.values.push_back(value_of(key, each, where));
    } else if (value->as_object() != nullptr) {
      std::optional<doc::Reader> range = axes.maybe_object(word);
      axis.values = range_values(key, *range, where);
    } else {
      axis.values.push_back(value_of(key, *value, where));
    }
    if (axis.values.empty()) axes.fail(word, "an axis without values");
    std::set<std::string> seen;
    for (const SweepValue& each : axis.values) {
      if (!seen.insert(each.text).second) zipped_only_.push_back({study_.axes.size(), each.text});
    }
    study_.axes.push_back(std::move(axis));
  }

  void read_axes() {
    std::optional<doc::Reader> axes = root_.maybe_object("axes");
    if (!axes || axes->keys().empty())
      root_.fail("axes", "missing; a study has an axis at least: {devices: [64, 128]}");
    if (axes->keys().size() > kMostAxes) root_.fail("axes", fmt::format("more than {}", kMostAxes));
    for (const std::string& word : axes->keys()) read_axis(*axes, word);
  }

  std::size_t axis_of(const std::string& word, const std::string& where) const {
    const Key key = find_key(word, where);
    for (std::size_t a = 0; a < study_.axes.size(); ++a) {
      if (study_.axes[a].name == key.name) return a;
    }
    throw InputError(fmt::format("{}: `{}` is no axis of this study", where, clip(word, 60)));
  }

  void add_zip(const doc::Array& words) {
    std::vector<std::size_t> together;
    for (const doc::Value& word : words) {
      const std::string* text = word.as_string();
      if (text == nullptr) root_.fail("zip", fmt::format("expected names of axes, found {}", word.kind()));
      const std::size_t axis = axis_of(*text, at("zip"));
      if (!zipped_.insert(axis).second) root_.fail("zip", fmt::format("`{}` stands here twice", clip(*text, 60)));
      together.push_back(axis);
      const std::size_t first = together.front();
      if (study_.axes[axis].values.size() != study_.axes[first].values.size()) {
        root_.fail("zip", fmt::format("`{}` has {} values and `{}` {}: axes that advance together have as many",
                                      study_.axes[axis].name, study_.axes[axis].values.size(), study_.axes[first].name,
                                      study_.axes[first].values.size()));
      }
    }
    std::sort(together.begin(), together.end());
    if (together.size() > 1) study_.zip.push_back(std::move(together));
  }

  void read_zip() {
    if (const doc::Value* value = root_.raw("zip")) {
      const doc::Array* list = value->as_array();
      if (list == nullptr) root_.fail("zip", fmt::format("expected lists of axes, found {}", value->kind()));
      const bool flat = std::any_of(list->begin(), list->end(), [](const doc::Value& v) { return v.as_string(); });
      if (flat) {
        add_zip(*list);
      } else {
        for (const doc::Value& each : *list) {
          if (each.as_array() == nullptr) root_.fail("zip", fmt::format("expected a list, found {}", each.kind()));
          add_zip(*each.as_array());
        }
      }
    }
    for (const auto& [axis, text] : zipped_only_) {
      if (zipped_.contains(axis)) continue;
      const std::string& name = study_.axes[axis].name;
      throw InputError(fmt::format("{}: the value {} is given twice", at("axes." + name), clip(text, 40)));
    }
  }

  std::int64_t count() const {
    std::int64_t combinations = 1;
    double exact = 1;
    for (std::size_t a = 0; a < study_.axes.size(); ++a) {
      if (is_follower(study_, a)) continue;
      const auto values = static_cast<std::int64_t>(study_.axes[a].values.size());
      exact *= static_cast<double>(values);
      combinations = exact > static_cast<double>(kMostSweepPoints) ? kMostSweepPoints + 1 : combinations * values;
    }
    if (combinations > kMostSweepPoints) {
      root_.fail("axes", fmt::format("{} points, more than {}; take fewer values, or several studies",
                                     exact < 1e15 ? format_integer(static_cast<std::int64_t>(exact))
                                                  : fmt::format("{:.0e}", exact),
                                     format_integer(kMostSweepPoints)));
    }
    return combinations;
  }

  // The axis or fixed value of that name; nothing where it is none.
  std::optional<std::string> named(const std::string& word) const {
    try {
      const Key key = find_key(word, study_.source);
      if (names_.contains(key.name)) return key.name;
    } catch (const InputError&) {}
    return std::nullopt;
  }

  bool is_numeric(const std::string& name) const {
    for (const SweepSetting& setting : study_.fixed) {
      if (setting.name == name) return setting.value.number.has_value();
    }
    for (const SweepAxis& axis : study_.axes) {
      if (axis.name != name) continue;
      return std::all_of(axis.values.begin(), axis.values.end(), [](const SweepValue& v) { return v.number; });
    }
    return false;
  }

  void read_where() {
    const std::optional<std::vector<std::string>> lines = root_.maybe_texts("where", kMostConditions);
    if (!lines) return;
    for (const std::string& line : *lines) {
      std::size_t place = std::string::npos;
      std::string_view found;
      for (const std::string_view comparison : kComparisons) {
        const std::size_t here = line.find(comparison);
        if (here < place) {
          place = here;
          found = comparison;
        }
      }
      const auto fail = [&](const std::string& why) {
        root_.fail("where", fmt::format("\"{}\" {}", clip(line, 60), why));
      };
      if (found.empty()) fail("compares nothing; write for example devices >= 64 or model != llama3-8b");
      SweepCondition condition{std::string(trim(std::string_view(line).substr(0, place))), std::string(found),
                               std::string(trim(std::string_view(line).substr(place + found.size())))};
      const std::optional<std::string> left = named(condition.left), right = named(condition.right);
      if (!left) fail(fmt::format("begins with no axis or fixed value of this study: `{}`", clip(condition.left, 40)));
      condition.left = *left;
      if (right) condition.right = *right;
      const bool ordered = found != "==" && found != "!=";
      const Key key = find_key(condition.left, study_.source);
      const bool number = right ? is_numeric(*right) : number_of(key, condition.right).has_value();
      if (condition.right.empty() || (ordered && (!number || !is_numeric(condition.left)))) {
        fail("compares what is no number");
      }
      study_.where.push_back(std::move(condition));
    }
  }

  // One side of a condition: an axis, or a value that is the same for all points.
  struct Side {
    const SweepAxis* axis = nullptr;
    std::size_t index = 0;
    SweepValue value;

    const SweepValue& at(const std::vector<std::size_t>& choice) const {
      return axis ? axis->values[choice[index]] : value;
    }
  };

  Side side_of(const std::string& word, const Key& key) const {
    for (std::size_t a = 0; a < study_.axes.size(); ++a) {
      if (study_.axes[a].name == word) return {&study_.axes[a], a, {}};
    }
    for (const SweepSetting& setting : study_.fixed) {
      if (setting.name == word) return {nullptr, 0, setting.value};
    }
    return {nullptr, 0, {word, number_of(key, word), false}};
  }

  static bool holds(const std::string& comparison, const SweepValue& left, const SweepValue& right) {
    if (left.number && right.number) {
      const double a = *left.number, b = *right.number;
      if (comparison == "<=") return a <= b;
      if (comparison == ">=") return a >= b;
      if (comparison == "<") return a < b;
      if (comparison == ">") return a > b;
      return (a == b) == (comparison == "==");
    }
    return (left.text == right.text) == (comparison == "==");
  }

  void keep(std::int64_t combinations) {
    std::vector<std::pair<Side, Side>> sides;
    for (const SweepCondition& condition : study_.where) {
      const Key key = find_key(condition.left, study_.source);
      sides.emplace_back(side_of(condition.left, key), side_of(condition.right, key));
    }
    for (std::int64_t point = 0; point < combinations; ++point) {
      bool kept = true;
      if (!sides.empty()) {
        const std::vector<std::size_t> choice = study_.choice(point);
        for (std::size_t c = 0; c < sides.size() && kept; ++c) {
          kept = holds(study_.where[c].comparison, sides[c].first.at(choice), sides[c].second.at(choice));
        }
      }
      if (kept) study_.points.push_back(point);
    }
    if (study_.points.empty()) root_.fail("where", "leaves no point");
  }

  static bool is_follower(const Study& study, std::size_t axis);

  doc::Reader root_;
  Study study_;
  std::set<std::string> names_;
  std::set<std::size_t> zipped_;
  std::vector<std::pair<std::size_t, std::string>> zipped_only_;  // axes that say a value twice
};

// Of axes that advance together the first decides; -1: this axis decides itself.
std::ptrdiff_t leader_of(const Study& study, std::size_t axis) {
  for (const std::vector<std::size_t>& together : study.zip) {
    if (std::find(together.begin() + 1, together.end(), axis) != together.end()) {
      return static_cast<std::ptrdiff_t>(together.front());
    }
  }
  return -1;
}

bool StudyReader::is_follower(const Study& study, std::size_t axis) { return leader_of(study, axis) >= 0; }

Json value_json(const SweepValue& value) {
  if (!value.is_plain) return value.text;
  if (!value.number) return value.text == "true";
  if (*value.number == std::floor(*value.number) && std::abs(*value.number) < 0x1p53) {
    return static_cast<std::int64_t>(*value.number);
  }
  return *value.number;
}

std::string keys_that_differ(const Json& stored, const Json& wanted) {
  std::vector<std::string> names;
  for (const auto& [key, value] : wanted.items()) {
    if (!stored.contains(key) || stored[key] != value) names.push_back(key);
  }
  for (const auto& [key, value] : stored.items()) {
    if (!wanted.contains(key)) names.push_back(key);
  }
  return join_words(names);
}

}  // namespace

bool is_study_name(std::string_view name) {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
  };
  return !name.empty() && name.size() <= kLongestName && !to_lower(name).starts_with("sqlite_") &&
         !to_lower(name).starts_with("nest_") && std::all_of(name.begin(), name.end(), is_good);
}

Study read_study(const Document& document, const std::string& name) { return StudyReader(document, name).read(); }

std::string definition_of(const Study& study, const std::string& version, const std::vector<NamedHash>& inputs) {
  Json fixed = Json::object(), axes = Json::object(), zip = Json::array(), where = Json::array(), read = Json::object();
  for (const SweepSetting& setting : study.fixed) fixed[setting.name] = value_json(setting.value);
  for (const SweepAxis& axis : study.axes) {
    Json values = Json::array();
    for (const SweepValue& value : axis.values) values.push_back(value_json(value));
    axes[axis.name] = std::move(values);
  }
  for (const auto& together : study.zip) {
    Json names = Json::array();
    for (const std::size_t axis : together) names.push_back(study.axes[axis].name);
    zip.push_back(std::move(names));
  }
  for (const SweepCondition& c : study.where) where.push_back(c.left + " " + c.comparison + " " + c.right);
  for (const NamedHash& input : inputs) read[input.name] = fmt::format("{:016x}", input.hash);
  const Json json = {{"nest", version}, {"fixed", fixed}, {"axes", axes}, {"order", study.axes.size()},
                     {"zip", zip},      {"where", where}, {"read", read}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string difference(const std::string& stored, const std::string& wanted) {
  if (stored == wanted) return {};
  const Json old = Json::parse(stored, nullptr, false), now = Json::parse(wanted);
  if (old.is_discarded() || !old.is_object()) return "what it holds cannot be read";
  const auto part = [](const Json& json, const char* key) { return json.value(key, Json()); };
  if (part(old, "nest") != part(now, "nest")) {
    return fmt::format("it is of nest {}, this is {}", part(old, "nest").dump(), part(now, "nest").dump());
  }
  const Json old_axes = part(old, "axes"), now_axes = part(now, "axes");
  if (old_axes != now_axes) {
    const std::string names = old_axes.is_object() ? keys_that_differ(old_axes, now_axes) : "all";
    return names.empty() ? "its axes have another order" : fmt::format("its axes are others ({})", names);
  }
  if (part(old, "fixed") != part(now, "fixed") && part(old, "fixed").is_object()) {
    return fmt::format("its fixed values are others ({})", keys_that_differ(part(old, "fixed"), part(now, "fixed")));
  }
  if (part(old, "read") != part(now, "read") && part(old, "read").is_object()) {
    return fmt::format("what was read has changed since ({})", keys_that_differ(part(old, "read"), part(now, "read")));
  }
  return "`zip` or `where` are others";
}

}  // namespace nest::sweep

namespace nest {

std::vector<std::size_t> Study::choice(std::int64_t point) const {
  std::vector<std::size_t> chosen(axes.size(), 0);
  for (std::size_t a = axes.size(); a-- > 0;) {
    if (sweep::leader_of(*this, a) >= 0) continue;
    const auto values = static_cast<std::int64_t>(axes[a].values.size());
    chosen[a] = static_cast<std::size_t>(point % values);
    point /= values;
  }
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (const std::ptrdiff_t leader = sweep::leader_of(*this, a); leader >= 0) {
      chosen[a] = chosen[static_cast<std::size_t>(leader)];
    }
  }
  return chosen;
}

const SweepValue* Study::value(std::int64_t point, std::string_view wanted) const {
  for (const SweepSetting& setting : fixed) {
    if (setting.name == wanted) return &setting.value;
  }
  for (std::size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].name == wanted) return &axes[a].values[choice(point)[a]];
  }
  return nullptr;
}

}  // namespace nest
