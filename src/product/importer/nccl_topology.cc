#include "importer/nccl_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "importer/xml.h"

namespace nest::importer {
namespace {

constexpr std::size_t kMostNets = 1024;
constexpr std::int64_t kMostLinks = 64;
constexpr double kDefaultNetMbps = 10000;

class TopologyReader {
 public:
  explicit TopologyReader(const doc::SourceText& source) : source_(source) {}

  NcclTopology read() {
    const XmlElement root = parse_xml(source_);
    if (root.name == "graphs") {
      fail(root, "these are NCCL's search results; what is needed is its topology (NCCL_TOPO_DUMP_FILE)");
    }
    if (root.name != "system") fail(root, fmt::format("expected <system>, found <{}>", clip(root.name, 40)));
    const std::string version = text(root, "version", "1");
    if (version != "1" && version != "2") fail(root, fmt::format("version {} is not known", clip(version, 20)));
    for (const XmlElement& cpu : root.children) {
      if (cpu.name != "cpu") fail(cpu, fmt::format("expected <cpu>, found <{}>", clip(cpu.name, 40)));
      read_cpu(cpu);
    }
    keep_ranked();
    if (topology_.gpus.empty()) {
      throw InputError(fmt::format("{}: no <gpu> in the file, nor a PCI function of a GPU's class (0x0302…, 0x0300…)",
                                   source_.name));
    }
    std::stable_sort(topology_.gpus.begin(), topology_.gpus.end(),
                     [](const NcclGpu& a, const NcclGpu& b) { return a.dev < b.dev; });
    return std::move(topology_);
  }

 private:
  [[noreturn]] void fail(const XmlElement& element, std::string_view message) const {
    fail_at_line(source_, element.line, message);
  }

  static std::string text(const XmlElement& element, std::string_view key, std::string_view otherwise) {
    const std::string* found = element.find(key);
    return found ? *found : std::string(otherwise);
  }

  std::int64_t integer(const XmlElement& element, std::string_view key, std::int64_t otherwise) const {
    const std::string* found = element.find(key);
    if (!found || found->empty()) return otherwise;
    std::string_view digits = *found;
    const bool hexadecimal = digits.starts_with("0x");
    if (hexadecimal) digits.remove_prefix(2);
    std::int64_t value = 0;
    const auto [end, status] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 10);
    if (status != std::errc{} || end != digits.data() + digits.size()) {
      fail(element, fmt::format("{}: `{}` is not a whole number", key, clip(*found, 30)));
    }
    return value;
  }

  // NCCL's assumption about the link between sockets.
  double interconnect(const XmlElement& cpu) const {
    const std::string arch = text(cpu, "arch", "x86_64");
    const std::int64_t model = integer(cpu, "modelid", 0);
    if (arch == "ppc64") return 32e9;
    if (arch == "arm64") return 6e9;
    if (text(cpu, "vendor", "") == "AuthenticAMD") return 16e9;
    if (model >= 0xCF) return 40e9;  // Emerald Rapids and later
    if (model >= 0x8F) return 22e9;  // Sapphire Rapids
    return 10e9;
  }

  void read_cpu(const XmlElement& element) {
    topology_.cpus.push_back({interconnect(element), text(element, "host_hash", "")});
    for (const XmlElement& child : element.children) read_child(child, {}, 0, 0);
  }

  using Path = std::vector<std::size_t>;

  void read_child(const XmlElement& element, const Path& path, double own, double outermost) {
    if (element.name == "pci") {
      read_pci(element, path, outermost);
    } else if (element.name == "gpu") {
      read_gpu(element, path, own, outermost);
    } else if (element.name == "nic") {
      for (const XmlElement& net : element.children) read_net(net, path);
    } else if (element.name != "pcilink" && element.name != "c2c") {
      fail(element, fmt::format("<{}> is not an element of NCCL's topology here", clip(element.name, 40)));
    }
  }

  // Strings like "32.0 GT/s PCIe"; nothing counts as 16 GT/s, as in NCCL.
  double pci_bytes_per_s(const XmlElement& element) const {
    static constexpr std::array<std::pair<std::string_view, double>, 6> kSpeeds = {
        {{"2.5", 15}, {"5", 30}, {"8", 60}, {"16", 120}, {"32", 240}, {"64", 480}}};
    const std::string speed = text(element, "link_speed", "");
    std::string number = speed.substr(0, speed.find(' '));
    if (number.ends_with(".0")) number.resize(number.size() - 2);
    double factor = 120;
    if (!number.empty()) {
      const auto known =
          std::find_if(kSpeeds.begin(), kSpeeds.end(), [&](const auto& each) { return each.first == number; });
      if (known == kSpeeds.end()) fail(element, fmt::format("link_speed `{}` is not known", clip(speed, 30)));
      factor = known->second;
    }
    std::int64_t width = integer(element, "link_width", 16);
    if (width == 0) width = 16;
    if (width < 1 || width > 32) fail(element, fmt::format("link_width {} is not in 0 … 32", width));
    return static_cast<double>(width) * factor / 80 * 1e9;
  }

  void read_pci(const XmlElement& element, const Path& path, double outermost) {
    const double own = pci_bytes_per_s(element);
    Path deeper = path;
    deeper.push_back(++pci_elements_);
    busid_ = text(element, "busid", "");
    const double outer = path.empty() ? own : outermost;
    for (const XmlElement& child : element.children) read_child(child, deeper, own, outer);
    if (element.children.empty()) read_function(element, deeper, own, outer);
  }

  // A PCI function of which nothing but its class is said.
  void read_function(const XmlElement& element, const Path& path, double own, double outermost) {
    const std::string kind = text(element, "class", "");
    if (kind.starts_with("0x0302") || kind.starts_with("0x0300")) {
      read_gpu(element, path, own, outermost);
      NcclGpu& gpu = topology_.gpus.back();
      gpu.by_class = true;
      gpu.sm = capability_of(to_lower(text(element, "device", "")));
    } else if (kind.starts_with("0x0200") || kind.starts_with("0x0207")) {
      if (topology_.nets.size() >= kMostNets) fail(element, fmt::format("more than {} adapters", kMostNets));
      topology_.nets.push_back({text(element, "busid", ""), 0, path, topology_.cpus.size() - 1});
    }
  }

  // By the PCI device ids of GPUs on NVLink boards.
  static std::int64_t capability_of(const std::string& device) {
    static constexpr std::array<std::pair<std::string_view, std::int64_t>, 9> kIds = {{{"0x1db1", 70},
                                                                                       {"0x1db5", 70},
                                                                                       {"0x20b0", 80},
                                                                                       {"0x20b2", 80},
                                                                                       {"0x20b3", 80},
                                                                                       {"0x2330", 90},
                                                                                       {"0x2335", 90},
                                                                                       {"0x2901", 100},
                                                                                       {"0x3182", 103}}};
    const auto* const known =
        std::find_if(kIds.begin(), kIds.end(), [&](const auto& each) { return each.first == device; });
    return known == kIds.end() ? 0 : known->second;
  }

  void read_gpu(const XmlElement& element, const Path& path, double own, double outermost) {
    if (path.empty()) fail(element, "a <gpu> outside <pci>");
    if (topology_.gpus.size() >= kMostDevicesOfNode)
      fail(element, fmt::format("more than {} GPUs", kMostDevicesOfNode));
    NcclGpu gpu;
    gpu.busid = to_lower(busid_);
    gpu.dev = integer(element, "dev", static_cast<std::int64_t>(topology_.gpus.size()));
    gpu.sm = integer(element, "sm", 0);
    gpu.ranked = element.find("rank") != nullptr;
    gpu.path = path;
    gpu.cpu = topology_.cpus.size() - 1;
    gpu.pci_bytes_per_s = own;
    gpu.uplink_bytes_per_s = outermost;
    for (const XmlElement& link : element.children) {
      if (link.name == "c2c") continue;
      if (link.name != "nvlink" && link.name != "xgmi") {
        fail(link, fmt::format("<{}> is not an element of a <gpu>", clip(link.name, 40)));
      }
      const std::int64_t count = integer(link, "count", 1);
      if (count < 0 || count > kMostLinks) fail(link, fmt::format("count {} is not in 0 … {}", count, kMostLinks));
      const std::string kind = text(link, "tclass", "");
      const std::string target = to_lower(text(link, "target", ""));
      if (kind.starts_with("0x0680") || target.starts_with("fffffff")) {
        if (kind != "0x068001") gpu.switch_links += count;  // that one leads to the CPU
      } else {
        gpu.peer_links.emplace_back(target, count);
      }
    }
    topology_.gpus.push_back(std::move(gpu));
  }

  void read_net(const XmlElement& element, const Path& path) {
    if (element.name != "net") fail(element, fmt::format("expected <net>, found <{}>", clip(element.name, 40)));
    if (topology_.nets.size() >= kMostNets) fail(element, fmt::format("more than {} adapters", kMostNets));
    const std::int64_t mbps = integer(element, "speed", 0);
    if (mbps > 100'000'000) fail(element, fmt::format("speed {} Mb/s is faster than any network", mbps));
    NcclNet net;
    net.name = text(element, "name", "");
    net.bytes_per_s = (mbps <= 0 ? kDefaultNetMbps : static_cast<double>(mbps)) * 1e6 / 8;
    net.path = path;
    net.cpu = topology_.cpus.size() - 1;
    topology_.nets.push_back(std::move(net));
  }

  // Where some GPUs have ranks, the others are no part of what NCCL looked at.
  void keep_ranked() {
    auto& gpus = topology_.gpus;
    const bool any = std::any_of(gpus.begin(), gpus.end(), [](const NcclGpu& gpu) { return gpu.ranked; });
    if (any)
      gpus.erase(std::remove_if(gpus.begin(), gpus.end(), [](const NcclGpu& gpu) { return !gpu.ranked; }), gpus.end());
  }

  const doc::SourceText& source_;
  NcclTopology topology_;
  std::size_t pci_elements_ = 0;
  std::string busid_;  // of the innermost <pci> entered last
};

// Elements that two paths have in common, from the CPU inwards.
std::size_t common(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<std::size_t>(end - a.begin());
}

std::int64_t links_between(const NcclGpu& a, const NcclGpu& b) {
  std::int64_t links = 0;
  for (const auto& [target, count] : a.peer_links) {
    if (target == b.busid) links += count;
  }
  return links;
}

// 0: other CPU, 1: the same, more: so many PCI elements in common.
template <class A, class B>
std::size_t nearness(const A& a, const B& b) {
  return a.cpu != b.cpu ? 0 : 1 + common(a.path, b.path);
}

// Devices behind one bridge that see as many equally close adapters as they are: NCCL gives each one of its own.
bool one_for_each(const std::vector<std::vector<std::size_t>>& closest) {
  return std::all_of(closest.begin(), closest.end(), [&](const std::vector<std::size_t>& own) {
    return !own.empty() && std::count(closest.begin(), closest.end(), own) == static_cast<std::ptrdiff_t>(own.size());
  });
}

void describe_adapters(const NcclTopology& topology, NodeInside& inside) {
  inside.adapters = static_cast<std::int64_t>(topology.nets.size());
  if (topology.nets.empty()) return;
  std::vector<std::vector<std::size_t>> closest;
  for (const NcclGpu& gpu : topology.gpus) {
    std::size_t best = 0;
    std::vector<std::size_t> own;
    for (std::size_t net = 0; net < topology.nets.size(); ++net) {
      const std::size_t near = nearness(gpu, topology.nets[net]);
      if (near > best) own.clear();
      if (near >= best) own.push_back(net);
      best = std::max(best, near);
    }
    closest.push_back(std::move(own));
  }
  inside.adapter_per_device = adapters_are_private(closest, topology.nets.size()) || one_for_each(closest);
  double slowest = topology.nets.front().bytes_per_s;
  for (const NcclNet& net : topology.nets) slowest = std::min(slowest, net.bytes_per_s);
  if (slowest <= 0) return;  // the site knows how fast they are
  inside.adapter_bytes_per_s = slowest;
  inside.adapters_from = fmt::format("{} network adapters of {} Gb/s", topology.nets.size(), slowest * 8 / 1e9);
}

std::vector<std::string> presets_of(std::int64_t sm) {
  switch (sm) {
    case 70: return {"v100"};
    case 80: return {"a100-40", "a100-80", "a800"};
    case 90: return {"h100", "h200"};
    case 100: return {"b200", "gb200"};
    case 103: return {"b300", "gb300"};
    default: return {};
  }
}

}  // namespace

NcclTopology parse_nccl_topology(const doc::SourceText& source) { return TopologyReader(source).read(); }

NodeInside inside_of(const NcclTopology& topology, const std::string& file) {
  std::set<std::string> hosts;
  for (const NcclCpu& cpu : topology.cpus) hosts.insert(cpu.host);
  if (hosts.size() > 1) {
    throw InputError(fmt::format("{}: the dump covers {} hosts; give one of a single host", file, hosts.size()));
  }
  NodeInside inside;
  const std::size_t n = topology.gpus.size();
  inside.devices = static_cast<std::int64_t>(n);
  inside.device_candidates = presets_of(topology.gpus.front().sm);
  const bool listed =
      !std::all_of(topology.gpus.begin(), topology.gpus.end(), [](const NcclGpu& gpu) { return gpu.by_class; });
  DevicePairs pairs(n);
  double pci = topology.gpus.front().pci_bytes_per_s;
  double uplink = topology.gpus.front().uplink_bytes_per_s;
  double sockets = topology.cpus.front().interconnect_bytes_per_s;
  for (const NcclCpu& cpu : topology.cpus) sockets = std::min(sockets, cpu.interconnect_bytes_per_s);
  for (std::size_t a = 0; a < n; ++a) {
    const NcclGpu& gpu = topology.gpus[a];
    std::int64_t links = gpu.switch_links;
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      const NcclGpu& other = topology.gpus[b];
      const std::int64_t direct = links_between(gpu, other);
      links += direct;
      const std::size_t near = nearness(gpu, other);
      Closeness closeness = near == 0 ? Closeness::system : near == 1 ? Closeness::host : Closeness::pcie;
      if (!listed || direct > 0 || links_between(other, gpu) > 0 || (gpu.switch_links > 0 && other.switch_links > 0)) {
        closeness = Closeness::nvlink;
      }
      pairs.set(a, b, closeness, direct);
    }
    inside.nvlinks = a == 0 ? links : std::min(inside.nvlinks, links);
    pci = std::min(pci, gpu.pci_bytes_per_s);
    uplink = std::min(uplink, gpu.uplink_bytes_per_s);
  }
  inside.nvlinks_to_each_peer = true;  // the links of a device are listed and can be added up
  inside.levels = inside_levels(pairs, inside.notes);
  if (!listed) {
    inside.notes.push_back(fmt::format(
        "{} does not list NVLinks: all devices of a node are taken as joined by theirs, as on boards that have them",
        file));
  }
  for (InsideLevel& level : inside.levels) {
    if (level.closeness == Closeness::nvlink) continue;  // follows from the device
    level.bandwidth_bytes_per_s = level.closeness == Closeness::pcie   ? pci
                                  : level.closeness == Closeness::host ? uplink
                                                                       : sockets;
    level.bandwidth_from = level.closeness == Closeness::system ? "link between sockets, as NCCL assumes it"
                                                                : "PCIe link, as NCCL counts it";
  }
  describe_adapters(topology, inside);
  return inside;
}

}  // namespace nest::importer
