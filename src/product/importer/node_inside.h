// What a file says about the inside of a node: which devices are close to which, over what, and which network adapters
// they have.
//
// Devices that are connected by NVLink form the innermost units ("island"), those below one PCIe switch the next
// ("bridge"), then those of one host bridge or NUMA domain ("socket"), then the node. Ranks keep their device numbers,
// so a unit must consist of neighbours; a closeness that does not group neighbours is passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nest::importer {

// Best to worst.
enum class Closeness : std::uint8_t { nvlink, pcie, host, system };

inline constexpr std::size_t kMostDevicesOfNode = 1024;

// How devices of one node reach each other.
class DevicePairs {
 public:
  explicit DevicePairs(std::size_t devices);

  std::size_t devices() const { return devices_; }
  void set(std::size_t a, std::size_t b, Closeness closeness, std::int64_t nvlinks = 0);
  Closeness closeness(std::size_t a, std::size_t b) const { return pairs_[a * devices_ + b].closeness; }
  std::int64_t nvlinks(std::size_t a, std::size_t b) const { return pairs_[a * devices_ + b].nvlinks; }

 private:
  struct Pair {
    Closeness closeness = Closeness::system;
    std::int64_t nvlinks = 0;
  };
  std::size_t devices_;
  std::vector<Pair> pairs_;
};

struct InsideLevel {
  std::string name;  // "island", "bridge", "socket"; the outermost is "node"
  Closeness closeness = Closeness::system;
  std::vector<std::int64_t> children;           // of each unit of one node
  std::optional<double> bandwidth_bytes_per_s;  // of one child
  std::string bandwidth_from;
};

struct NodeInside {
  std::int64_t devices = 0;
  std::vector<InsideLevel> levels;
  std::int64_t nvlinks = 0;           // of one device, the fewest; 0: none
  bool nvlinks_to_each_peer = false;  // else all of them lead to switches, or it cannot be told
  std::int64_t nvlinks_of_pair = 0;   // as printed for a pair, where all pairs are alike
  std::int64_t adapters = 0;          // network adapters
  bool adapter_per_device = false;    // every device has as many that are closest to it, and shares them with none
  std::optional<double> adapter_bytes_per_s;
  std::string adapters_from;
  std::vector<std::string> device_candidates;  // presets that fit what the file says of the devices
  std::vector<std::string> notes;
};

// Levels of the node, without bandwidths.
std::vector<InsideLevel> inside_levels(const DevicePairs& pairs, std::vector<std::string>& notes);

// One NVLink, per direction, of the devices of that preset; nothing where it is not known.
std::optional<double> nvlink_bytes_per_s(std::string_view device);

// Given for every device the adapters closest to it: whether no adapter serves two devices, and all have equally many.
bool adapters_are_private(const std::vector<std::vector<std::size_t>>& closest, std::size_t adapters);

}  // namespace nest::importer
