#include "export_chakra.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/units.h"
#include "output.h"

namespace nest {
namespace {

namespace fs = std::filesystem;

// A folder beside the one that is asked for; takes its name when everything is in it, and is gone otherwise.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) : path_(path) {
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
    std::error_code error;
    if (fs::exists(path_, error) && (!fs::is_directory(path_, error) || !fs::is_empty(path_, error))) {
      throw InputError(fmt::format("{}: is there already; -o names a folder that is new or empty", path_));
    }
    bool made = false;
    beside_ = make_beside(path_, [&](const char* name) { return made = ::mkdir(name, 0777) == 0; });
    if (!made) {
      beside_.clear();
      fail(errno);
    }
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!beside_.empty()) fs::remove_all(beside_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void write(const std::string& name, const std::string& content) const {
    errno = 0;
    std::ofstream file(fs::path(beside_) / name, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    if (!file) fail(errno != 0 ? errno : EIO);  // streams need not say why
  }

  void complete() {
    if (::rename(beside_.c_str(), path_.c_str()) != 0) fail(errno);
    beside_.clear();
  }

 private:
  [[noreturn]] void fail(int reason) const {
    throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(reason)));
  }

  std::string path_;
  std::string beside_;
};

}  // namespace

WrittenTraces write_traces(const ChakraExport& traces, const std::string& chosen, const std::string& folder) {
  const std::vector<std::int64_t> ranks = parse_ranks(chosen, traces.ranks());
  traces.refuse_size(ranks);
  std::map<std::int64_t, std::vector<std::int64_t>> of_stage;  // all ranks of a stage execute the same nodes
  for (const std::int64_t rank : ranks) of_stage[traces.place(rank).stage].push_back(rank);
  NewFolder target(folder);
  WrittenTraces written;
  written.ranks = static_cast<std::int64_t>(ranks.size());
  for (const auto& [stage, members] : of_stage) {
    const std::vector<TraceNode> nodes = traces.plan().stage(stage);
    for (const std::int64_t rank : members) {
      const std::string file = traces.trace(nodes, rank);
      target.write(fmt::format("trace.{}.et", rank), file);
      written.nodes += static_cast<std::int64_t>(nodes.size());
      written.bytes += static_cast<std::int64_t>(file.size());
    }
  }
  target.write("groups.json", traces.group_file().dump() + "\n");
  target.write("ranks.json", traces.rank_file(ranks).dump(1) + "\n");
  target.complete();
  return written;
}

std::string traces_text(const ChakraExport& traces, const WrittenTraces& written, const std::string& folder) {
  const std::string of_all =
      written.ranks == traces.ranks() ? "" : fmt::format(" of {}", format_integer(traces.ranks()));
  return fmt::format(
      "Written to {}: one step, {}{} ranks, {} nodes, {}.\n"
      "  trace.RANK.et  Chakra {}\n"
      "  groups.json    {} communicator groups\n"
      "  ranks.json     node and device of each\n",
      folder, format_integer(written.ranks), of_all, format_integer(written.nodes), format_bytes(written.bytes),
      kChakraVersion, format_integer(static_cast<std::int64_t>(traces.groups().groups().size())));
}

nlohmann::ordered_json traces_json(const ChakraExport& traces, const WrittenTraces& written,
                                   const std::string& folder) {
  return {{"schema", "nest.export/1"}, {"framework", "chakra"},  {"version", kChakraVersion},
          {"folder", folder},          {"ranks", written.ranks}, {"ranks_in_all", traces.ranks()},
          {"nodes", written.nodes},    {"bytes", written.bytes}, {"groups", traces.groups().groups().size()}};
}

}  // namespace nest
