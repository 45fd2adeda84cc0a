#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "importer/line_reader.h"
#include "importer/slurm.h"
#include "importer/slurm_graph.h"

namespace nest::importer {
namespace {

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> kKeys = {"SwitchName", "Switches",  "Nodes",          "LinkSpeed",
                                                 "Level",      "BlockName", "BlockSizes",     "BlockIndex",
                                                 "BlockSize",  "RingName",  "AggregatedBlock"};
  return kKeys;
}

using Pairs = std::map<std::string, std::string, std::less<>>;  // keys as in known_keys()

// Words of a line, separated by blanks outside quotes and brackets; quotes are taken off.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  int depth = 0;
  for (const char c : text) {
    if (c == '"') {
      quoted = !quoted;
      continue;
    }
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if ((c == ' ' || c == '\t') && !quoted && depth <= 0) {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

class ConfReader {
 public:
  explicit ConfReader(const doc::SourceText& source) : source_(source) {}

  ImportedFabric read(const FabricPart& part) {
    LineReader lines(source_);
    TextLine line;
    std::string text;
    TextLine first;
    while (lines.next(line)) {
      if (text.empty()) first = line;
      text += line.text.substr(0, line.text.find('#'));
      // Looked at from its end only: an entry may have many lines.
      while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.pop_back();
      if (text.ends_with('\\')) {
        text.back() = ' ';
        continue;
      }
      const std::string_view entry = trim(text);
      if (!entry.empty()) read_entry(first, entry);
      text.clear();
    }
    if (!trim(text).empty()) read_entry(first, trim(text));
    return finish(part);
  }

 private:
  Pairs pairs_of(const TextLine& line, std::string_view text) const {
    Pairs pairs;
    for (const std::string& word : words_of(text)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) {
        fail_at_line(source_, line,
                     fmt::format("`{}` is not Key=Value{}", clip(word, 60),
                                 to_lower(word) == "include" ? "; includes are not followed" : ""));
      }
      const std::string key = word.substr(0, equals);
      const std::string* known = nullptr;
      for (const std::string& each : known_keys()) {
        if (to_lower(each) == to_lower(key)) known = &each;
      }
      if (!known) {
        fail_at_line(
            source_, line,
            fmt::format("`{}` is not a key of topology.conf{}", clip(key, 40), did_you_mean(key, known_keys())));
      }
      if (!pairs.emplace(*known, word.substr(equals + 1)).second) {
        fail_at_line(source_, line, fmt::format("{} is given twice", *known));
      }
    }
    return pairs;
  }

  // Takes a key that must not be empty where it stands.
  std::string take(Pairs& pairs, const std::string& key, const TextLine& line) const {
    const auto found = pairs.find(key);
    if (found == pairs.end()) return {};
    std::string value = std::move(found->second);
    pairs.erase(found);
    if (value.empty()) fail_at_line(source_, line, fmt::format("{} has no value", key));
    return value;
  }

  std::int64_t number(const std::string& key, std::string_view text, const TextLine& line) const {
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{} || end != text.data() + text.size() || value < 0 || value > 0xFFFFFFFF) {
      fail_at_line(source_, line, fmt::format("{}: `{}` is not a whole number", key, clip(text, 30)));
    }
    return value;
  }

  void read_entry(const TextLine& line, std::string_view text) {
    Pairs pairs = pairs_of(line, text);
    for (const char* key : {"LinkSpeed", "Level", "BlockIndex", "BlockSize"}) {
      if (pairs.contains(key)) static_cast<void>(number(key, pairs[key], line));
    }
    const bool printed = pairs.contains("Level");  // by scontrol, which repeats the nodes of all leaves
    SlurmSwitch entry;
    entry.fail = [&source = source_, line](std::string_view message) { fail_at_line(source, line, message); };
    std::vector<SlurmSwitch>* kind = nullptr;
    if (pairs.contains("SwitchName")) {
      kind = &switches_;
      entry.name = take(pairs, "SwitchName", line);
      entry.switches = take(pairs, "Switches", line);
    } else if (pairs.contains("BlockName")) {
      kind = &blocks_.blocks;
      entry.name = take(pairs, "BlockName", line);
    } else if (pairs.contains("RingName")) {
      kind = &rings_.blocks;
      entry.name = take(pairs, "RingName", line);
    } else if (pairs.contains("BlockSizes")) {
      read_sizes(take(pairs, "BlockSizes", line), line);
    } else if (!pairs.contains("AggregatedBlock")) {
      fail_at_line(source_, line, "neither SwitchName, BlockName, RingName nor BlockSizes");
    }
    if (!kind) return;
    entry.nodes = take(pairs, "Nodes", line);
    if (printed && !entry.switches.empty()) entry.nodes.clear();
    kind->push_back(std::move(entry));
  }

  void read_sizes(const std::string& text, const TextLine& line) {
    if (!blocks_.sizes.empty()) fail_at_line(source_, line, "BlockSizes is given twice");
    for (const std::string_view size : split_text(text, ',')) {
      blocks_.sizes.push_back(number("BlockSizes", size, line));
    }
    blocks_.fail_sizes = [&source = source_, line](std::string_view message) { fail_at_line(source, line, message); };
  }

  ImportedFabric finish(const FabricPart& part) {
    const int kinds = (switches_.empty() ? 0 : 1) + (blocks_.blocks.empty() ? 0 : 1) + (rings_.blocks.empty() ? 0 : 1);
    if (kinds == 0) throw InputError(fmt::format("{}: no SwitchName, BlockName or RingName line", source_.name));
    if (kinds > 1) {
      throw InputError(fmt::format(
          "{}: switches, blocks and rings in one file; Slurm has one kind of topology at a time", source_.name));
    }
    if (!switches_.empty()) return fabric_of_switches(switches_, part, source_.name);
    rings_.unit = "ring";
    return fabric_of_blocks(blocks_.blocks.empty() ? rings_ : blocks_, part, source_.name);
  }

  const doc::SourceText& source_;
  std::vector<SlurmSwitch> switches_;
  SlurmBlocks blocks_;
  SlurmBlocks rings_;
};

}  // namespace

ImportedFabric read_slurm_conf(const doc::SourceText& source, const FabricPart& part) {
  return ConfReader(source).read(part);
}

}  // namespace nest::importer
