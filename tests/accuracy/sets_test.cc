// Sets of measurements that are kept outside the repository, held to a bound row by row.
#include "accuracy/sets.h"

#include <gmock/gmock.h>

#include <cmath>

#include "test_support/data.h"

namespace nest::accuracy {
namespace {

void expect_within(const Set& set, std::size_t at_least, double bound) {
  EXPECT_GE(set.readings.size(), at_least);
  for (const Reading& reading : set.readings) {
    EXPECT_LE(std::abs(reading.point.error()), bound)
        << reading.id << ": " << reading.point.predicted << " predicted, " << reading.point.measured << " measured";
  }
}

TEST(MeasuredLayers, PlainBlocksKeepWhatWasMeasured) {
  NEST_REQUIRE_DATA("h200/layers.json");
  expect_within(layer_saved(test::data_dir()), 20, 0.03);
}

// transformers' own modules keep more than plain PyTorch ones (fp32 copies in RMSNorm, repeated keys and a mask with a
// sliding window, transposed copies with partial rotary, dropout masks); the huggingface stack counts those tensors.
TEST(MeasuredLayers, HuggingFaceBlocksKeepWhatWasMeasured) {
  NEST_REQUIRE_DATA("h200/hf_layers.json");
  expect_within(huggingface_saved(test::data_dir()), 3, 0.03);
}

}  // namespace
}  // namespace nest::accuracy
