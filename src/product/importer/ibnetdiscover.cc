#include "importer/ibnetdiscover.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "importer/line_reader.h"

namespace nest::importer {
namespace {

constexpr std::size_t kMostIbNodes = 1U << 20U;
constexpr std::size_t kLongestDescription = 256;
constexpr std::int64_t kMostPorts = 1024;

struct Speed {
  std::string_view name;
  double gbps_of_4x;
};
constexpr std::array kSpeeds = {Speed{"SDR", 8},    Speed{"DDR", 16},   Speed{"QDR", 32},
                                Speed{"FDR10", 40}, Speed{"FDR", 54.5}, Speed{"EDR", 100},
                                Speed{"HDR", 200},  Speed{"NDR", 400},  Speed{"XDR", 800}};

// Cuts pieces off the front of a line.
class Scanner {
 public:
  Scanner(const doc::SourceText& source, const TextLine& line) : source_(source), line_(line), rest_(line.text) {}

  [[noreturn]] void fail(std::string_view message) const { fail_at_line(source_, line_, message); }

  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) rest_.remove_prefix(1);
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail(fmt::format("expected `{}` before `{}`", text, clip(rest_, 20)));
  }
  // Up to the next `end`, which is taken too.
  std::string_view until(std::string_view end) {
    const std::size_t at = rest_.find(end);
    if (at == std::string_view::npos) fail(fmt::format("`{}` is missing", end));
    const std::string_view found = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return found;
  }
  std::string_view word() {
    skip_blanks();
    const std::size_t at = std::min(rest_.find_first_of(" \t"), rest_.size());
    const std::string_view found = rest_.substr(0, at);
    rest_.remove_prefix(at);
    return found;
  }
  std::int64_t number(std::string_view text, std::int64_t at_most) const {
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{} || end != text.data() + text.size() || value < 0 || value > at_most) {
      fail(fmt::format("`{}` is not a number in 0 … {}", clip(text, 30), at_most));
    }
    return value;
  }
  std::string guid(std::string_view text) const {
    const std::size_t digits = std::min(text.find_first_not_of('0'), text.size());
    const std::string_view value = text.substr(digits);
    if (text.empty() || value.size() > 16 || value.find_first_not_of("0123456789abcdefABCDEF") != value.npos) {
      fail(fmt::format("`{}` is not a GUID", clip(text, 30)));
    }
    return to_lower(value);
  }
  std::string description(std::string_view text) const {
    if (text.size() > kLongestDescription) fail("a description of more than 256 characters");
    return std::string(text);
  }
  std::string_view rest() const { return rest_; }

 private:
  const doc::SourceText& source_;
  const TextLine& line_;
  std::string_view rest_;
};

// 0 for what is not known.
double rate_of(const Scanner& scan, std::string_view width, std::string_view speed) {
  if (width.find('?') != width.npos || speed.find('?') != speed.npos || speed.empty()) return 0;
  if (!width.ends_with('x')) scan.fail(fmt::format("`{}` is not a link width such as 4x", clip(width, 20)));
  const auto lanes = static_cast<double>(scan.number(width.substr(0, width.size() - 1), 64));
  for (const Speed& known : kSpeeds) {
    if (known.name == speed) return lanes / 4 * known.gbps_of_4x * 1e9 / 8;
  }
  scan.fail(fmt::format("`{}` is not a link speed that is known: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR",
                        clip(speed, 20)));
}

class SubnetReader {
 public:
  explicit SubnetReader(const doc::SourceText& source) : source_(source) {}

  IbSubnet read() {
    LineReader lines(source_);
    TextLine line;
    while (lines.next(line)) {
      const std::string_view text = trim(line.text);
      if (text.empty() || text.front() == '#') continue;
      Scanner scan(source_, line);
      scan.skip_blanks();
      if (text.front() == '[') {
        read_port(scan);
      } else if (text.starts_with("SW ") || text.starts_with("CA ") || text.starts_with("RT ")) {
        read_port_line(scan);
      } else if (text.starts_with("Switch") || text.starts_with("Ca") || text.starts_with("Rt")) {
        read_node(scan);
      } else if (!is_passed_over(text)) {
        scan.fail("this is not a line of ibnetdiscover");
      }
    }
    if (subnet_.links.empty()) throw InputError(fmt::format("{}: no link in the file", source_.name));
    return std::move(subnet_);
  }

 private:
  static bool is_passed_over(std::string_view text) {
    for (const std::string_view start : {"vendid=", "devid=", "sysimgguid=", "switchguid=", "caguid=", "rtguid=",
                                         "Chassis ", "Non-Chassis Nodes", "DR path", "Topology file"}) {
      if (text.starts_with(start)) return true;
    }
    return false;
  }

  std::size_t node(const Scanner& scan, IbNode::Kind kind, const std::string& guid, std::string description) {
    const auto [at, is_new] = numbers_.emplace(std::make_pair(kind, guid), subnet_.nodes.size());
    if (is_new) {
      if (subnet_.nodes.size() >= kMostIbNodes) scan.fail(fmt::format("more than {} nodes", kMostIbNodes));
      subnet_.nodes.push_back({kind, guid, {}});
    }
    std::string& known = subnet_.nodes[at->second].description;
    if (known.empty()) known = std::move(description);
    return at->second;
  }

  // "S-fc6a1c0300a0b100" -> kind and GUID
  std::pair<IbNode::Kind, std::string> identity(const Scanner& scan, std::string_view text) const {
    if (text.size() < 3 || text[1] != '-')
      scan.fail(fmt::format("`{}` is not S-, H- or R- and a GUID", clip(text, 30)));
    const std::string guid = scan.guid(text.substr(2));
    switch (text[0]) {
      case 'S': return {IbNode::Kind::switch_, guid};
      case 'H': return {IbNode::Kind::channel_adapter, guid};
      case 'R': return {IbNode::Kind::router, guid};
      default: scan.fail(fmt::format("`{}` is not S-, H- or R- and a GUID", clip(text, 30)));
    }
  }

  // Switch<TAB>65 "S-…"<TAB># "DESC" …
  void read_node(Scanner& scan) {
    scan.word();
    static_cast<void>(scan.number(scan.word(), kMostPorts));
    scan.skip_blanks();
    scan.expect("\"");
    const auto [kind, guid] = identity(scan, scan.until("\""));
    std::string description;
    const std::string_view comment = scan.rest();
    const std::size_t open = comment.find('"');
    const std::size_t close = comment.rfind('"');
    if (open != comment.npos && close > open) {
      description = scan.description(comment.substr(open + 1, close - open - 1));
    }
    current_ = node(scan, kind, guid, std::move(description));
  }

  std::int64_t port_number(Scanner& scan) {
    scan.expect("[");
    const std::int64_t port = scan.number(scan.until("]"), kMostPorts);
    if (scan.take("[ext ")) static_cast<void>(scan.until("]"));
    if (scan.take("(")) static_cast<void>(scan.guid(scan.until(")")));
    return port;
  }

  // [33]<TAB>"S-…"[1]<TAB># "DESC" lid 21 4xNDR
  void read_port(Scanner& scan) {
    if (!current_) scan.fail("a port before any Switch or Ca line");
    const std::int64_t port = port_number(scan);
    scan.skip_blanks();
    scan.expect("\"");
    const auto [kind, guid] = identity(scan, scan.until("\""));
    const std::int64_t peer_port = port_number(scan);
    scan.skip_blanks();
    scan.expect("#");
    const std::string_view comment = scan.rest();
    const std::size_t open = comment.find('"');
    const std::size_t close = comment.rfind('"');
    if (open == comment.npos || close == open) scan.fail("the peer's description is missing");
    const std::size_t peer = node(scan, kind, guid, scan.description(comment.substr(open + 1, close - open - 1)));
    const std::vector<std::string_view> words = split_words(comment.substr(close + 1));  // lid 21 4xNDR
    if (words.size() < 3 || words[0] != "lid") scan.fail("expected `lid`, its number and the link's rate at the end");
    const std::size_t cross = words[2].find('x');
    const bool known = cross != std::string_view::npos;
    const std::string_view width = known ? words[2].substr(0, cross + 1) : std::string_view("?");
    const std::string_view speed = known ? words[2].substr(cross + 1) : std::string_view("?");
    add_link(scan, {*current_, peer, port, peer_port, rate_of(scan, width, speed), std::string(clip(words[2], 12))});
  }

  static std::optional<IbNode::Kind> kind_of(std::string_view word) {
    if (word == "SW") return IbNode::Kind::switch_;
    if (word == "CA") return IbNode::Kind::channel_adapter;
    if (word == "RT") return IbNode::Kind::router;
    return std::nullopt;
  }

  struct PortEnd {
    IbNode::Kind kind;
    std::int64_t port;
    std::string guid;
  };

  // SW 11 36 0xfc6a1c0300a0b100
  PortEnd port_end(Scanner& scan) const {
    const std::string_view type = scan.word();
    const auto kind = kind_of(type);
    if (!kind) scan.fail(fmt::format("`{}` is not SW, CA or RT", clip(type, 20)));
    static_cast<void>(scan.number(scan.word(), 0xFFFF));
    const std::int64_t port = scan.number(scan.word(), kMostPorts);
    const std::string_view guid = scan.word();
    if (!guid.starts_with("0x")) scan.fail(fmt::format("`{}` is not a GUID", clip(guid, 30)));
    return {*kind, port, scan.guid(guid.substr(2))};
  }

  void read_port_line(Scanner& scan) {
    const PortEnd own = port_end(scan);
    const std::string_view width = scan.word();
    const std::string_view speed = scan.word();
    scan.skip_blanks();
    if (scan.rest().starts_with('\'')) return;  // nothing is plugged in
    scan.expect("-");
    const PortEnd peer = port_end(scan);
    scan.skip_blanks();
    scan.expect("(");
    scan.skip_blanks();
    scan.expect("'");
    std::string own_text = scan.description(scan.until("' - '"));
    std::string peer_text = scan.description(scan.until("' )"));
    const std::size_t a = node(scan, own.kind, own.guid, std::move(own_text));
    const std::size_t b = node(scan, peer.kind, peer.guid, std::move(peer_text));
    add_link(scan,
             {a, b, own.port, peer.port, rate_of(scan, width, speed), clip(fmt::format("{}{}", width, speed), 12)});
  }

  void add_link(const Scanner& scan, IbLink link) {
    ++subnet_.port_lines;
    if (link.a == link.b && link.port_a == link.port_b) scan.fail("a port that is linked to itself");
    const auto own = ends_.emplace(std::make_pair(link.a, link.port_a), subnet_.links.size());
    const auto peer = ends_.emplace(std::make_pair(link.b, link.port_b), subnet_.links.size());
    if (own.second && peer.second) {
      if (subnet_.links.size() >= kMostIbLinks) scan.fail(fmt::format("more than {} links", kMostIbLinks));
      subnet_.links.push_back(std::move(link));
      return;
    }
    const std::size_t known = own.first->second;
    if (own.second || peer.second || known != peer.first->second) scan.fail("a port that has another peer elsewhere");
    IbLink& first = subnet_.links[known];
    if (first.bytes_per_s == 0) first.bytes_per_s = link.bytes_per_s;
  }

  const doc::SourceText& source_;
  IbSubnet subnet_;
  std::optional<std::size_t> current_;
  std::map<std::pair<IbNode::Kind, std::string>, std::size_t> numbers_;
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> ends_;  // (node, port) -> link
};

}  // namespace

IbSubnet parse_ibnetdiscover(const doc::SourceText& source) { return SubnetReader(source).read(); }

std::string host_of(const std::string& description) { return description.substr(0, description.find(' ')); }

std::string switch_name_of(const std::string& description) {
  const std::size_t begin = description.find(';');
  if (begin == std::string::npos) return description;
  return description.substr(begin + 1, description.find(':', begin) - begin - 1);
}

}  // namespace nest::importer
