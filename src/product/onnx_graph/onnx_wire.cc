#include "onnx_graph/onnx_wire.h"

#include <cstdint>
#include <optional>

#include "base/index.h"

namespace nest::onnx_graph {
namespace {

class WireWalk {
 public:
  explicit WireWalk(std::size_t most) : most_(most) {}

  // `inside`: numbers of the fields that lead to the next level of messages.
  void walk(std::string_view bytes, std::string_view inside) {
    while (!bytes.empty() && entries_ <= most_) {
      const auto key = varint(bytes);
      if (!key) return;
      ++entries_;
      const std::uint64_t wire_type = *key & 7, field = *key >> 3;
      if (wire_type == 0) {
        if (!varint(bytes)) return;
        continue;
      }
      const auto length = wire_type == 1   ? std::optional<std::uint64_t>(8)
                          : wire_type == 5 ? std::optional<std::uint64_t>(4)
                          : wire_type == 2 ? varint(bytes)
                                           : std::nullopt;
      if (!length || *length > bytes.size()) return;
      const auto size = at(*length);
      if (wire_type == 2 && !inside.empty() && field == static_cast<std::uint64_t>(inside.front())) {
        walk(bytes.substr(0, size), inside.substr(1));
      }
      bytes.remove_prefix(size);
    }
  }

  std::size_t entries() const { return entries_; }

 private:
  static std::optional<std::uint64_t> varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::size_t most_;
  std::size_t entries_ = 0;
};

}  // namespace

std::size_t count_onnx_entries(std::string_view bytes, std::size_t most) {
  constexpr char kPath[] = {7, 1};  // graph, node
  WireWalk walk(most);
  walk.walk(bytes, std::string_view(kPath, sizeof(kPath)));
  return walk.entries();
}

}  // namespace nest::onnx_graph
