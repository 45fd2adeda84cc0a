#include "plan/strategy_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"

namespace nest {
namespace {

constexpr std::int64_t kMost = 1 << 24;

const std::vector<std::string> kKeys = {"tp",   "sp",          "cp",       "ep",    "etp",
                                        "pp",   "dp",          "vpp",      "mbs",   "schedule",
                                        "zero", "zero_degree", "dp_inner", "pitch", "recompute"};
const std::map<std::string, std::string, std::less<>> kOtherSpellings = {
    {"virtual_stages", "vpp"}, {"v", "vpp"}, {"micro_batch", "mbs"}, {"b", "mbs"}, {"recomputation", "recompute"}};

class Parser {
 public:
  Parser(std::string_view source, std::string_view key, std::string_view value)
      : source_(source), key_(key), value_(value) {}

  std::int64_t number(std::int64_t low, std::int64_t high) const {
    std::int64_t parsed = 0;
    const auto [rest, status] = std::from_chars(value_.data(), value_.data() + value_.size(), parsed);
    if (status != std::errc{} || rest != value_.data() + value_.size() || parsed < low || parsed > high) {
      fail(fmt::format("a whole number in {} … {}", low, high));
    }
    return parsed;
  }

  bool flag() const {
    if (value_ == "1" || value_ == "true" || value_ == "on" || value_.empty()) return true;
    if (value_ == "0" || value_ == "false" || value_ == "off") return false;
    fail("0 or 1");
  }

  template <class T>
  T word(const std::vector<std::pair<std::string, T>>& words) const {
    std::vector<std::string> names;
    for (const auto& [name, meaning] : words) {
      if (name == value_) return meaning;
      names.push_back(name);
    }
    fail(join_words(names, "or"));
  }

 private:
  [[noreturn]] void fail(const std::string& allowed) const {
    throw InputError(fmt::format("{}: {}: found `{}`; expected {}", source_, key_, clip(value_, 40), allowed));
  }

  std::string_view source_, key_, value_;
};

void assign(StrategyRequest& request, std::string_view key, const Parser& value) {
  Strategy& s = request.strategy;
  const std::map<std::string, std::int64_t*, std::less<>> counts = {
      {"tp", &s.split.tp}, {"cp", &s.split.cp},        {"ep", &s.split.ep},     {"etp", &s.split.etp},    {"pp", &s.pp},
      {"dp", &s.dp},       {"vpp", &s.virtual_stages}, {"mbs", &s.micro_batch}, {"dp_inner", &s.dp_inner}};
  if (const auto count = counts.find(key); count != counts.end()) {
    *count->second = value.number(1, kMost);
    request.dp_given |= key == "dp";
  } else if (key == "sp") {
    s.split.sp = value.flag();
  } else if (key == "schedule") {
    s.schedule = value.word<Schedule>(
        {{"1f1b", Schedule::one_f_one_b}, {"interleaved", Schedule::interleaved}, {"gpipe", Schedule::gpipe}});
  } else if (key == "recompute") {
    request.recompute = value.word<Recompute>(
        {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}});
  } else if (key == "zero") {
    request.zero = static_cast<int>(value.number(0, 3));
  } else if (key == "zero_degree") {
    request.zero_degree = value.number(1, kMost);
  } else {
    s.pitch = value.number(0, kMost);
  }
}

}  // namespace

StrategyRequest parse_strategy(std::string_view text, std::string_view source) {
  StrategyRequest request;
  bool schedule_given = false;
  std::vector<std::string> seen;
  for (const std::string_view part : split_text(text, ',')) {
    const std::string_view entry = trim(part);
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    std::string key(trim(entry.substr(0, equals)));
    const std::string_view value = equals == std::string_view::npos ? "" : trim(entry.substr(equals + 1));
    if (const auto other = kOtherSpellings.find(key); other != kOtherSpellings.end()) key = other->second;
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      throw InputError(fmt::format("{}: `{}` is not known; allowed are {}{}", source, clip(key, 40), join_words(kKeys),
                                   did_you_mean(key, kKeys)));
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      throw InputError(fmt::format("{}: {} is given twice", source, key));
    }
    seen.push_back(key);
    schedule_given |= key == "schedule";
    assign(request, key, Parser(source, key, value));
  }
  Strategy& s = request.strategy;
  if (!schedule_given && s.virtual_stages > 1) s.schedule = Schedule::interleaved;
  if ((s.schedule == Schedule::interleaved) != (s.virtual_stages > 1)) {
    throw InputError(fmt::format("{}: vpp={} contradicts schedule={}; interleaving is what vpp > 1 means", source,
                                 s.virtual_stages, to_string(s.schedule)));
  }
  return request;
}

void fill_devices(StrategyRequest& request, std::int64_t devices) {
  Strategy& s = request.strategy;
  const std::int64_t one = checked_product({s.pp, s.split.tp, s.split.cp, s.split.ep});
  if (!request.dp_given) s.dp = devices / one;
  if (s.dp < 1 || checked_product({one, s.dp}) > devices) {
    throw InputError(fmt::format("--strategy: tp·cp·ep·pp·dp = {} devices are needed and {} are there",
                                 checked_product({one, std::max<std::int64_t>(s.dp, 1)}), devices));
  }
}

std::string strategy_text(const Strategy& s) {
  std::string text;
  const auto add = [&text](const std::string& word) { text += (text.empty() ? "" : " ") + word; };
  const auto count = [&](const char* key, std::int64_t value) {
    if (value > 1) add(fmt::format("{}={}", key, value));
  };
  count("tp", s.split.tp);
  if (s.split.sp) add("sp");
  count("cp", s.split.cp);
  count("ep", s.split.ep);
  if (s.split.ep > 1 && s.split.tp > 1 && s.split.expert_tp() != s.split.tp)
    add(fmt::format("etp={}", s.split.expert_tp()));
  count("pp", s.pp);
  count("vpp", s.virtual_stages);
  if (s.schedule == Schedule::gpipe) add("gpipe");
  count("dp", s.dp);
  add(fmt::format("mbs={}", s.micro_batch));
  return text;
}

}  // namespace nest
