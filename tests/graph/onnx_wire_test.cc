#include "onnx_graph/onnx_wire.h"

#include <gmock/gmock.h>

#include <string>

#include "base/error.h"
#include "onnx_graph/read_onnx.h"

namespace nest::graph {
namespace {

using namespace std::string_literals;

std::string field(int number, const std::string& content) {
  std::string bytes(1, static_cast<char>(number << 3 | 2));
  for (std::size_t size = content.size();; size >>= 7) {
    bytes += static_cast<char>((size & 0x7f) | (size > 0x7f ? 0x80 : 0));
    if (size <= 0x7f) break;
  }
  return bytes + content;
}

// ir_version 7; a graph of two nodes, the first with two inputs; a name that happens to look like fields.
TEST(OnnxWire, CountsTheFieldsOfModelGraphAndNodes) {
  const std::string node = field(1, field(1, "a") + field(1, "b"));
  const std::string model = "\x08\x07"s + field(7, node + field(1, "") + field(2, "\x0a\x00\x0a\x00"s));
  EXPECT_EQ(onnx_graph::count_onnx_entries(model, 100), 7U);  // version, graph, node, two inputs, node, name
  EXPECT_EQ(onnx_graph::count_onnx_entries(model, 3), 4U);
  EXPECT_EQ(onnx_graph::count_onnx_entries("", 3), 0U);
  EXPECT_EQ(onnx_graph::count_onnx_entries(model.substr(0, 4), 100), 2U);
  EXPECT_EQ(onnx_graph::count_onnx_entries(std::string(64, '\xff'), 100), 0U);
}

TEST(OnnxWire, MillionsOfEmptyNodesAreRefusedBeforeTheyAreBuilt) {
  std::string nodes;
  for (int i = 0; i < 4'000'001; ++i) nodes += "\x0a\x00"s;
  try {
    onnx_graph::read_onnx("many.onnx", "many", "\x08\x07"s + field(7, nodes));
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("many.onnx"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr(onnx_graph::onnx_supported() ? "more than 4000000 fields" : "ONNX"));
  }
}

}  // namespace
}  // namespace nest::graph
