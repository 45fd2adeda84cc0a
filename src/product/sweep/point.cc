#include "sweep/point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "cluster/cluster.h"
#include "cost/stack.h"
#include "load/catalogue.h"
#include "load/cluster_file.h"
#include "load/input.h"
#include "model/presets.h"
#include "sweep/keys.h"
#include "sweep/variant.h"

namespace nest::sweep {
namespace {

std::int64_t whole(const SweepValue& value) { return static_cast<std::int64_t>(value.number.value_or(0)); }

template <class Enum, class Words>
Enum word_value(const SweepValue& value, const Words& words) {
  for (const auto& word : words) {
    if (value.text == word.text) return word.value;
  }
  throw InternalError("a word of a study was checked when it was read");
}

using Apply = void (*)(PointQuestion& point, const SweepValue& value);

struct Setter {
  std::string_view name;
  Apply apply;
};

// What a value says by itself, without a file.
constexpr std::array kSetters = {
    Setter{"devices", [](PointQuestion& p, const SweepValue& v) { p.question.devices = whole(v); }},
    Setter{"global_batch", [](PointQuestion& p, const SweepValue& v) { p.question.global_batch = whole(v); }},
    Setter{"seq", [](PointQuestion& p, const SweepValue& v) { p.question.seq = whole(v); }},
    Setter{"encoder_seq", [](PointQuestion& p, const SweepValue& v) { p.question.encoder_seq = whole(v); }},
    Setter{"mtp_layers", [](PointQuestion& p, const SweepValue& v) { p.question.mtp_layers = whole(v); }},
    Setter{"freeze", [](PointQuestion& p, const SweepValue& v) { p.question.freeze = v.text; }},
    Setter{"lora", [](PointQuestion& p, const SweepValue& v) { p.question.lora = v.text; }},
    Setter{"routing", [](PointQuestion& p, const SweepValue& v) { p.question.routing = v.text; }},
    Setter{"precision", [](PointQuestion& p,
                           const SweepValue& v) { p.question.precision = word_value<Precision>(v, kPrecisionWords); }},
    Setter{"optimizer", [](PointQuestion& p,
                           const SweepValue& v) { p.question.optimizer = word_value<Optimizer>(v, kOptimizerWords); }},
    Setter{"optimizer_offload", [](PointQuestion& p, const SweepValue& v) { p.question.optimizer_offload = whole(v); }},
    Setter{"oom_risk", [](PointQuestion& p, const SweepValue& v) { p.question.oom_risk = v.text; }},
    Setter{"micro_batch", [](PointQuestion& p, const SweepValue& v) { p.options.micro_batch = v.text; }},
    Setter{"target", [](PointQuestion& p, const SweepValue& v) { p.options.target = v.text; }},
    Setter{"objective",
           [](PointQuestion& p, const SweepValue& v) {
             p.options.objective = v.text == "time" ? PlanObjective::time : PlanObjective::device_hours;
           }},
    Setter{"offload", [](PointQuestion& p,
                         const SweepValue& v) { p.options.offload = word_value<OffloadSearch>(v, kOffloadWords); }},
    Setter{"judge",
           [](PointQuestion& p, const SweepValue& v) { p.options.judge = word_value<PlanJudge>(v, kJudgeWords); }},
    Setter{"max_devices", [](PointQuestion& p, const SweepValue& v) { p.options.max_devices = whole(v); }},
    Setter{"tie", [](PointQuestion& p, const SweepValue& v) { p.options.tie_percent = *v.number; }},
    Setter{"time_limit", [](PointQuestion& p, const SweepValue& v) { p.options.time_limit_s = *v.number; }},
    Setter{"price", [](PointQuestion& p, const SweepValue& v) { p.price = *v.number; }},
    Setter{"tokens", [](PointQuestion& p, const SweepValue& v) { p.tokens = parse_count(v.text); }},
};

// FNV-1a: tells apart what somebody edited, and means no harm.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

std::string model_text(const load::NamedModel& model, const Input& input) {
  return model.architecture.document.empty() ? load::read_text(input) : model.architecture.document.text();
}

std::string stack_text(const Input& input) {
  if (!input.text) {
    if (const auto preset = cost::find_stack(input.name)) return cost::write_stack(*preset).text();
  }
  const Document document = doc::parse_yaml(load::source_name(input), load::read_text(input));
  cost::read_stack(document, load::file_stem(input.name));
  return document.text();
}

std::string cluster_text(const Input& input) {
  if (!input.text) {
    if (const auto preset = cluster::find_cluster(input.name)) return preset->document.text();
    if (!load::path_exists(input.name)) load::fail_unknown(input.name, "a cluster");
  }
  const Document document = load::read_cluster_file(input);
  cluster::read_cluster(document, load::file_stem(input.name));
  return document.text();
}

constexpr std::size_t kLargestFile = std::size_t{256}
                                     << 20U;  // an ONNX file; others are refused earlier when they are parsed

// What a folder of a model holds.
std::string config_inside(const std::string& folder) {
  return (std::filesystem::path(folder) / "config.json").string();
}

// Names of presets come before files of the same name.
bool is_preset(std::string_view key, const std::string& name) {
  if (key == "model") return model::find_preset(name).has_value();
  if (key == "cluster") return cluster::find_cluster(name).has_value();
  return cost::find_stack(name).has_value();
}

}  // namespace

Questions::Questions(const Study& study) : study_(study) {
  folder_ = std::filesystem::path(study.source).parent_path().string();
}

// Where what is named lies: beside the study, or where the program runs.
std::string Questions::path_of(const SweepValue& value) const {
  const std::filesystem::path named(value.text);
  if (folder_.empty() || named.is_absolute() || !load::looks_like_path(value.text)) return value.text;
  const std::string beside = (std::filesystem::path(folder_) / named).string();
  return load::path_exists(beside) ? beside : value.text;
}

Input Questions::input(const SweepValue& value) const {
  const std::string path = path_of(value);
  const std::string inside = config_inside(path);
  for (const SweepFile& file : study_.files) {
    if (file.path == path || file.path == inside) return Input::memory(file.path, file.text);
  }
  return path;
}

std::vector<SweepFile> Questions::read_files() const {
  std::map<std::string, std::string> texts;
  const auto read = [&](const std::string& key, const SweepValue& value) {
    if (find_key(key, study_.source).kind != KeyKind::input) return;
    if (key != "profile" && is_preset(key, value.text)) return;
    std::string path = path_of(value);
    if (load::is_folder(path)) path = config_inside(path);
    if (load::path_exists(path) && !texts.contains(path)) texts[path] = load::read_text(path, {.bytes = kLargestFile});
  };
  for (const SweepSetting& setting : study_.fixed) read(setting.name, setting.value);
  for (const SweepAxis& axis : study_.axes) {
    for (const SweepValue& value : axis.values) read(axis.name, value);
  }
  std::vector<SweepFile> files;
  files.reserve(texts.size());
  for (auto& [path, text] : texts) files.push_back({path, std::move(text)});
  return files;
}

Input Questions::changed(const std::string& what, const Input& base, const std::vector<Change>& changes,
                         const std::vector<Change>& device) {
  if (changes.empty() && device.empty()) return base;
  std::string key = what + "\n" + base.name;
  for (const auto* list : {&changes, &device}) {
    key += '\n';
    for (const Change& change : *list) key += change.path + "=" + change.value.text + "\n";
  }
  const std::scoped_lock lock(mutex_);
  const auto found = made_.find(key);
  if (found != made_.end()) return found->second;
  const Input made = what == "model"     ? changed_model(base, changes)
                     : what == "cluster" ? changed_cluster(base, changes, device)
                                         : changed_stack(base, changes);
  return made_.emplace(std::move(key), made).first->second;
}

PointQuestion Questions::at(std::int64_t point) {
  PointQuestion result;
  result.options.why = false;
  result.options.larger = false;
  Question& question = result.question;
  const std::array<std::pair<std::string_view, Input*>, 4> inputs = {
      std::pair{"model", &question.model}, std::pair{"cluster", &question.cluster}, std::pair{"stack", &question.stack},
      std::pair{"profile", &question.profile}};
  std::map<std::string, std::vector<Change>, std::less<>> changes;
  const auto apply = [&](const std::string& name, const SweepValue& value) {
    for (const auto& [word, target] : inputs) {
      if (name == word) *target = input(value);
    }
    for (const Setter& setter : kSetters) {
      if (name == setter.name) setter.apply(result, value);
    }
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos) return;
    const std::string rest = name.substr(dot + 1);
    if (name.starts_with("set.")) {
      result.options.set.push_back(rest + "=" + value.text);
    } else {
      changes[name.substr(0, dot)].push_back({rest, value});
    }
  };
  for (const SweepSetting& setting : study_.fixed) apply(setting.name, setting.value);
  const std::vector<std::size_t> choice = study_.choice(point);
  for (std::size_t a = 0; a < choice.size(); ++a) apply(study_.axes[a].name, study_.axes[a].values[choice[a]]);
  if (question.model.empty()) question.model = "llama3-70b";
  if (question.cluster.empty()) {
    question.cluster = "dgx-h100";
    if (question.devices == 0) question.devices = kUsualDevices;
  }
  question.model = changed("model", question.model, changes["model"], {});
  question.cluster = changed("cluster", question.cluster, changes["cluster"], changes["device"]);
  question.stack = changed("stack", question.stack, changes["stack"], {});
  return result;
}

std::vector<NamedHash> Questions::check() {
  std::map<std::string, std::uint64_t> seen;
  const auto once = [&](const char* what, const Input& input, const auto& text_of) {
    // As the study names it, wherever that lies.
    const bool beside = !folder_.empty() && input.name.starts_with(folder_ + "/");
    const std::string name = fmt::format("{} {}", what, beside ? input.name.substr(folder_.size() + 1) : input.name);
    if (!input.empty() && !seen.contains(name)) seen[name] = hash_of(text_of(input));
  };
  std::vector<std::size_t> naming;
  for (std::size_t a = 0; a < study_.axes.size(); ++a) {
    const KeyKind kind = find_key(study_.axes[a].name, study_.source).kind;
    if (kind == KeyKind::input || kind == KeyKind::change) naming.push_back(a);
  }
  std::set<std::vector<std::size_t>> met;
  try {
    for (const std::int64_t point : study_.points) {
      const std::vector<std::size_t> choice = study_.choice(point);
      std::vector<std::size_t> named;
      named.reserve(naming.size());
      for (const std::size_t a : naming) named.push_back(choice[a]);
      if (!met.insert(std::move(named)).second) continue;
      const Question question = at(point).question;
      once("model", question.model, [](const Input& i) { return model_text(load::load_model(i), i); });
      once("cluster", question.cluster, cluster_text);
      once("stack", question.stack, stack_text);
      once("profile", question.profile, [](const Input& i) { return load::read_text(i); });
    }
  } catch (const InputError& error) {
    const bool told = std::string_view(error.what()).starts_with(study_.source);
    throw InputError(told ? error.marked() : study_.source + ": " + error.marked(), error.excerpt());
  }
  std::vector<NamedHash> hashes;
  hashes.reserve(seen.size());
  for (const auto& [name, hash] : seen) hashes.push_back({name, hash});
  return hashes;
}

std::vector<std::vector<std::int64_t>> group_points(const Study& study) {
  std::vector<std::size_t> deciding;
  for (std::size_t a = 0; a < study.axes.size(); ++a) {
    if (!find_key(study.axes[a].name, study.source).of_answer) deciding.push_back(a);
  }
  std::vector<std::vector<std::int64_t>> groups;
  if (deciding.size() == study.axes.size()) {
    groups.reserve(study.points.size());
    for (const std::int64_t point : study.points) groups.push_back({point});
    return groups;
  }
  std::map<std::vector<std::string>, std::size_t> known;
  for (const std::int64_t point : study.points) {
    const std::vector<std::size_t> choice = study.choice(point);
    std::vector<std::string> key;
    key.reserve(deciding.size());
    for (const std::size_t a : deciding) key.push_back(study.axes[a].values[choice[a]].text);
    const auto [place, is_new] = known.emplace(std::move(key), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].push_back(point);
  }
  return groups;
}

}  // namespace nest::sweep
