#include "importer/nvidia_smi.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "importer/line_reader.h"

namespace nest::importer {
namespace {

constexpr std::size_t kMostColumns = 256;
constexpr std::int64_t kMostNvlinks = 64;

// Without escape sequences: ESC [ … letter.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1B') {
      out += text[i];
      continue;
    }
    ++i;
    if (i < text.size() && text[i] == '[') {
      while (i + 1 < text.size() && (text[i + 1] < '@' || text[i + 1] > '~')) ++i;
      ++i;
    }
  }
  return out;
}

bool is_numbered(std::string_view word, std::string_view prefix) {
  return word.size() > prefix.size() && word.size() < prefix.size() + 5 && word.starts_with(prefix) &&
         word.substr(prefix.size()).find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_adapter(std::string_view word) {
  return is_numbered(word, "NIC") || word.starts_with("mlx") || word.starts_with("bnxt") || word.starts_with("irdma") ||
         word.starts_with("efa") || word.starts_with("rdmap") || word.starts_with("ibp");
}

// NV# -> #; nothing for other cells.
std::optional<std::int64_t> nvlinks_of(std::string_view cell) {
  std::int64_t links = 0;
  if (!cell.starts_with("NV")) return std::nullopt;
  const auto [end, status] = std::from_chars(cell.data() + 2, cell.data() + cell.size(), links);
  if (status != std::errc{} || end != cell.data() + cell.size() || links < 1 || links > kMostNvlinks)
    return std::nullopt;
  return links;
}

// Position in the order of closeness, or nothing for what is not a cell.
std::optional<int> rank_of(std::string_view cell) {
  static constexpr std::array<std::string_view, 7> kCells = {"PIX", "PXB", "PSB", "PHB", "NODE", "SYS", "SOC"};
  if (nvlinks_of(cell)) return 0;
  for (std::size_t i = 0; i < kCells.size(); ++i) {
    if (kCells[i] == cell) return static_cast<int>(i) + 1;
  }
  return std::nullopt;
}

Closeness closeness_of(std::string_view cell) {
  if (nvlinks_of(cell)) return Closeness::nvlink;
  if (cell == "PIX" || cell == "PXB" || cell == "PSB") return Closeness::pcie;
  return cell == "PHB" || cell == "NODE" ? Closeness::host : Closeness::system;
}

class MatrixReader {
 public:
  explicit MatrixReader(const doc::SourceText& source) : source_(source) {}

  NvidiaSmiTopology read() {
    LineReader lines(source_);
    TextLine line;
    while (lines.next(line)) {
      const std::string text = plain(line.text);
      const std::vector<std::string_view> words = split_words(text);
      if (words.empty()) {
        if (!topology_.cells.empty() && topology_.cells.size() == columns()) break;
        continue;
      }
      if (words.front() == "Legend:") break;
      if (columns() == 0) {
        if (words.front() == "GPU0") read_header(line, words);
        continue;  // a prompt or a command before the matrix
      }
      read_row(line, words);
    }
    if (columns() == 0) throw InputError(fmt::format("{}: no header line with GPU0", source_.name));
    if (topology_.cells.size() != columns()) {
      throw InputError(fmt::format("{}: {} rows of the matrix where the header has {} columns", source_.name,
                                   topology_.cells.size(), columns()));
    }
    check_symmetry();
    return std::move(topology_);
  }

 private:
  std::size_t columns() const { return topology_.gpus + topology_.adapters.size(); }
  std::string column_name(std::size_t column) const {
    return column < topology_.gpus ? fmt::format("GPU{}", column) : topology_.adapters[column - topology_.gpus];
  }

  void read_header(const TextLine& line, const std::vector<std::string_view>& words) {
    for (const std::string_view word : words) {
      if (is_numbered(word, "GPU")) {
        if (word != fmt::format("GPU{}", topology_.gpus) || !topology_.adapters.empty()) {
          fail_at_line(source_, line, fmt::format("`{}` is out of order", word));
        }
        ++topology_.gpus;
      } else if (is_adapter(word)) {
        topology_.adapters.push_back(clip(word, 40));
      } else {
        break;  // CPU Affinity
      }
      if (columns() > kMostColumns) fail_at_line(source_, line, fmt::format("more than {} columns", kMostColumns));
    }
  }

  void read_row(const TextLine& line, const std::vector<std::string_view>& words) {
    const std::size_t row = topology_.cells.size();
    if (row == columns()) fail_at_line(source_, line, "more rows than columns");
    if (words.front() != column_name(row)) {
      fail_at_line(source_, line,
                   fmt::format("expected the row of {}, found `{}`", column_name(row), clip(words.front(), 30)));
    }
    if (words.size() < columns() + 1) {
      fail_at_line(source_, line, fmt::format("{} cells where the header has {} columns", words.size() - 1, columns()));
    }
    std::vector<std::string> cells(words.begin() + 1, words.begin() + 1 + static_cast<std::ptrdiff_t>(columns()));
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const bool fine = column == row ? cells[column] == "X" : rank_of(cells[column]).has_value();
      if (!fine) {
        fail_at_line(source_, line,
                     fmt::format("{} to {}: `{}` is not {}", column_name(row), column_name(column),
                                 clip(cells[column], 20), column == row ? "X" : "NV#, PIX, PXB, PHB, NODE or SYS"));
      }
    }
    topology_.cells.push_back(std::move(cells));
    row_lines_.push_back(line);
  }

  void check_symmetry() const {
    for (std::size_t row = 0; row < columns(); ++row) {
      for (std::size_t column = 0; column < row; ++column) {
        const std::string& there = topology_.cells[column][row];
        const std::string& back = topology_.cells[row][column];
        if (there == back) continue;
        fail_at_line(source_, row_lines_[row],
                     fmt::format("{} to {} is {}, but the other way round it is {}", column_name(row),
                                 column_name(column), back, there));
      }
    }
  }

  const doc::SourceText& source_;
  NvidiaSmiTopology topology_;
  std::vector<TextLine> row_lines_;
};

}  // namespace

std::vector<std::size_t> NvidiaSmiTopology::closest_adapters(std::size_t gpu) const {
  std::vector<std::size_t> closest;
  std::optional<int> best;
  for (std::size_t adapter = 0; adapter < adapters.size(); ++adapter) {
    const auto rank = rank_of(cells[gpu][gpus + adapter]);
    if (!rank || (best && *rank > *best)) continue;
    if (!best || *rank < *best) closest.clear();
    best = rank;
    closest.push_back(adapter);
  }
  return closest;
}

NvidiaSmiTopology parse_nvidia_smi(const doc::SourceText& source) { return MatrixReader(source).read(); }

NodeInside inside_of(const NvidiaSmiTopology& topology) {
  NodeInside inside;
  const std::size_t n = topology.gpus;
  inside.devices = static_cast<std::int64_t>(n);
  DevicePairs pairs(n);
  std::optional<std::int64_t> of_pair;
  bool alike = true;
  for (std::size_t a = 0; a < n; ++a) {
    std::int64_t links = 0;
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const std::string& cell = topology.cells[a][b];
      const std::int64_t pair = nvlinks_of(cell).value_or(0);
      pairs.set(a, b, closeness_of(cell), pair);
      links += pair;
      alike = alike && pair == of_pair.value_or(pair);
      of_pair = pair;
    }
    inside.nvlinks = a == 0 ? links : std::min(inside.nvlinks, links);
  }
  inside.nvlinks_of_pair = alike ? of_pair.value_or(0) : 0;
  inside.nvlinks_to_each_peer = !alike;
  inside.levels = inside_levels(pairs, inside.notes);
  inside.adapters = static_cast<std::int64_t>(topology.adapters.size());
  std::vector<std::vector<std::size_t>> closest;
  for (std::size_t gpu = 0; gpu < n; ++gpu) closest.push_back(topology.closest_adapters(gpu));
  inside.adapter_per_device = adapters_are_private(closest, topology.adapters.size());
  inside.adapters_from = fmt::format("every GPU has {} of its own", inside.adapter_per_device && closest[0].size() > 1
                                                                        ? fmt::format("{} adapters", closest[0].size())
                                                                        : "a network adapter");
  return inside;
}

}  // namespace nest::importer
