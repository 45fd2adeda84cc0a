#include "nest/import.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/layout.h"
#include "base/text.h"
#include "base/units.h"
#include "door/named_device.h"
#include "door/option_checks.h"
#include "importer/hostlist.h"
#include "importer/import_cluster.h"
#include "load/input.h"
#include "nest/option.h"
#include "report/cluster_report.h"

namespace nest {

struct ImportResult {
  importer::ImportedCluster imported;
  cluster::Cluster cluster;
};

namespace {

constexpr std::size_t kMostFiles = 8;
constexpr double kFastestLink = 1e18;  // bytes per second
constexpr double kSlowestHop_s = 1;

// LEVEL=VALUE
template <class Parse>
std::pair<std::string, double> level_value(const std::string& name, const std::string& text, const char* example,
                                           Parse parse) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError(
        fmt::format("{}: `{}` is not LEVEL=VALUE; write for example {}", option(name), clip(text, 40), example));
  }
  try {
    return {text.substr(0, equals), parse(std::string_view(text).substr(equals + 1))};
  } catch (const InputError& error) {
    throw InputError(fmt::format("{} {}: {}", option(name), clip(text, 40), error.what()));
  }
}

void read_bandwidths(const std::vector<std::string>& texts, importer::ImportRequest& request) {
  for (const std::string& text : texts) {
    const auto [level, value] = level_value("bandwidth", text, "leaf=400Gbps", parse_bandwidth);
    if (value <= 0 || value > kFastestLink) {
      throw InputError(
          fmt::format("{} {}: must be more than 0 and less than 1e18 B/s", option("bandwidth"), clip(text, 40)));
    }
    if (!request.bandwidth_bytes_per_s.emplace(level, value).second) {
      throw InputError(fmt::format("{}: `{}` is given twice", option("bandwidth"), clip(level, 40)));
    }
  }
}

void read_latencies(const std::vector<std::string>& texts, importer::ImportRequest& request) {
  for (const std::string& text : texts) {
    const auto [level, value] = level_value("latency", text, "leaf=5us", parse_duration);
    if (value > kSlowestHop_s) {
      throw InputError(fmt::format("{} {}: is more than 1 s", option("latency"), clip(text, 40)));
    }
    if (!request.latency_s.emplace(level, value).second) {
      throw InputError(fmt::format("{}: `{}` is given twice", option("latency"), clip(level, 40)));
    }
  }
}

// N, or HOSTLIST=N.
void read_devices_per_node(const std::vector<std::string>& texts, importer::ImportRequest& request) {
  const std::string name = option("devices_per_node");
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    const std::string digits = equals == std::string::npos ? text : text.substr(equals + 1);
    const bool number = !digits.empty() && digits.size() <= 4 &&
                        std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
    const std::int64_t count = number ? std::stoll(digits) : 0;
    if (count < 1 || count > static_cast<std::int64_t>(importer::kMostDevicesOfNode)) {
      throw InputError(fmt::format("{}: `{}` is not a number in 1 … {}, nor HOSTS=NUMBER", name, clip(text, 40),
                                   importer::kMostDevicesOfNode));
    }
    if (equals == std::string::npos) {
      if (request.devices_per_node) throw InputError(name + ": is given twice without hosts");
      request.devices_per_node = count;
      continue;
    }
    try {
      request.devices_of_hosts.emplace_back(importer::expand_hostlist(text.substr(0, equals)), count);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", name, error.what()));
    }
  }
}

// A preset by its name, a file by its text.
void read_device_option(const Input& input, importer::ImportRequest& request) {
  NamedDevice named = named_device(input);
  request.device_yaml = named.yaml.empty() ? named.device.name : "";
  for (const std::string_view line : split_text(named.yaml, '\n')) {
    if (trim(line).empty() || line.starts_with("---")) continue;
    request.device_yaml += fmt::format("\n  {}", line);
  }
  request.device = std::move(named.device);
}

importer::ImportRequest request_of(const ImportQuestion& question) {
  importer::ImportRequest request;
  request.name = question.name.empty() ? load::file_stem(question.files.front().name) : question.name;
  if (!question.device.empty()) read_device_option(question.device, request);
  read_bandwidths(question.bandwidth, request);
  read_latencies(question.latency, request);
  read_devices_per_node(question.devices_per_node, request);
  request.rails = question.rails;
  request.part.only = question.only;
  for (const std::string& list : question.exclude) {
    try {
      for (std::string& host : importer::expand_hostlist(list)) request.part.without.push_back(std::move(host));
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", option("exclude"), error.what()));
    }
  }
  return request;
}

// "  leaf      …", the text wrapped beside the name.
std::string import_entry(const std::string& name, const std::string& text) {
  return wrap_after(fmt::format("  {:<9} ", clip(name, 30)), text) + '\n';
}

}  // namespace

std::vector<std::string> import_formats() {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < importer::kImportFormats; ++i)
    words.emplace_back(to_string(static_cast<importer::ImportFormat>(i)));
  return words;
}

ClusterImport import_cluster(const ImportQuestion& question) {
  if (question.files.empty()) throw InputError("no file to import");
  if (question.files.size() > kMostFiles) throw InputError(fmt::format("more than {} files", kMostFiles));
  std::optional<importer::ImportFormat> format;
  if (!question.format.empty()) {
    format = static_cast<importer::ImportFormat>(require_word("format", question.format, import_formats()));
  }
  const importer::ImportRequest request = request_of(question);
  std::vector<doc::SourceText> files;
  for (const Input& file : question.files) files.push_back({load::source_name(file), load::read_text(file)});
  importer::ImportedCluster imported = import_cluster(files, format, request);
  ClusterImport answer;
  answer.missing = imported.missing;
  if (!answer.missing.empty()) return answer;
  answer.yaml = importer::cluster_yaml(imported);
  cluster::Cluster cluster =
      cluster::read_cluster(doc::parse_yaml(imported.name + ".yaml", answer.yaml), imported.name);
  answer.result = std::make_shared<ImportResult>(ImportResult{std::move(imported), std::move(cluster)});
  return answer;
}

std::string to_text(const ClusterImport& answer, const Style& style) {
  NEST_CHECK(answer.result != nullptr, "an import that lacks nothing");
  constexpr std::size_t kLongestHostList = 200;
  const importer::ImportedCluster& imported = answer.result->imported;
  std::string text = report::cluster_text(answer.result->cluster, style) + '\n';
  std::vector<std::string> assumed;
  for (const importer::ImportedLevel& level : imported.levels) {
    text += import_entry(level.name, fmt::format("{}, {}; {}", format_bandwidth(*level.bandwidth_bytes_per_s),
                                                 level.link, level.bandwidth_from));
    if (level.latency_from != importer::kGiven) assumed.push_back(level.name);
  }
  if (!assumed.empty()) {
    text +=
        import_entry("assumed", fmt::format("latency and efficiency of {}, as in nest's DGX presets; give latencies "
                                            "or edit the file where you know better",
                                            join_words(assumed)));
  }
  for (const std::string& note : imported.notes) text += import_entry("note", note);
  if (!imported.node_names.empty()) {
    text += import_entry("hosts", clip(importer::compress_hostlist(imported.node_names), kLongestHostList));
  }
  return text;
}

std::string to_json(const ClusterImport& answer) {
  NEST_CHECK(answer.result != nullptr, "an import that lacks nothing");
  const importer::ImportedCluster& imported = answer.result->imported;
  report::Json levels = report::Json::array();
  for (const importer::ImportedLevel& level : imported.levels) {
    levels.push_back({{"name", level.name},
                      {"units", level.children.size()},
                      {"children", level.even() ? report::Json(level.children.front()) : report::Json(level.children)},
                      {"link", level.link},
                      {"bandwidth_bytes_per_s", report::json_number(*level.bandwidth_bytes_per_s)},
                      {"bandwidth_from", level.bandwidth_from},
                      {"latency_s", level.latency_s},
                      {"latency_from", level.latency_from},
                      {"efficiency", level.efficiency},
                      {"rails", level.rails},
                      {"rail_switches", level.rail_switches}});
  }
  return report::to_text(report::Json{{"schema", "nest.import/1"},
                                      {"cluster", report::cluster_json(answer.result->cluster)},
                                      {"levels", std::move(levels)},
                                      {"nodes", imported.node_names.size()},
                                      {"notes", imported.notes},
                                      {"yaml", answer.yaml}});
}

}  // namespace nest
