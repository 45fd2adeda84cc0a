#include "cluster/device.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "test_support/refusal.h"

namespace nest::cluster {
namespace {

using testing::HasSubstr;

Device read(const std::string& text) { return read_device(doc::parse_yaml("device.yaml", text), "device"); }

std::string refusal(const std::string& text) {
  return test::refusal_of([&] { read(text); });
}

constexpr const char* kGood = "peak: {bf16: 100TFLOPS}\nmemory: 80GiB\nmemory_bandwidth: 2TB/s\n";

TEST(Device, PresetsAreComplete) {
  for (const char* name : {"v100",   "a100-40", "a100-80", "h100",   "h200",         "b200",  "gb200", "tpuv4",
                           "tpuv5e", "tpuv5p",  "tpuv6e",  "mi300x", "h100-96-500w", "b300",  "gb300", "mi355x",
                           "tpu7x",  "rubin",   "h20",     "l40s",   "gh200",        "mi325x"}) {
    const auto device = find_device(name);
    ASSERT_TRUE(device) << name;
    EXPECT_FALSE(device->source.empty()) << name;
    EXPECT_GT(device->memory_bytes, std::int64_t{1} << 30) << name;
    EXPECT_GT(device->memory_bytes_per_s, 1e11) << name;
    EXPECT_GT(device->link_bytes_per_s, 1e10) << name;
    EXPECT_GT(std::max(device->peak(Precision::bf16), device->peak(Precision::fp16)), 1e14) << name;
  }
  EXPECT_GE(device_presets().size(), 13U);
}

TEST(Device, FiguresOfTheH100) {
  const Device h100 = find_device("H100").value();
  EXPECT_DOUBLE_EQ(h100.peak(Precision::bf16), 989.5e12);
  EXPECT_DOUBLE_EQ(h100.peak(Precision::fp8), 1979e12);
  EXPECT_DOUBLE_EQ(h100.memory_bytes_per_s, 3.35e12);
  EXPECT_EQ(h100.multiprocessors, 132);
  EXPECT_DOUBLE_EQ(h100.link_bytes_per_s, 450e9);
  EXPECT_NEAR(static_cast<double>(h100.memory_bytes), 79.2 * 0x1p30, 1);
}

TEST(Device, FittedConstantsByName) {
  const Device device = read(std::string(kGood) + "efficiency: {gemm: 0.67, overhead: 3}\n");
  EXPECT_DOUBLE_EQ(device.efficiency_of("gemm").value(), 0.67);
  EXPECT_DOUBLE_EQ(device.efficiency_of("overhead").value(), 3);
  EXPECT_FALSE(device.efficiency_of("no such constant"));
}

TEST(Device, AliasesAndUnknownNames) {
  EXPECT_EQ(find_device("A100").value().name, "a100-80");
  EXPECT_FALSE(find_device("a1000"));
}

TEST(Device, MissingArithmeticIsZero) {
  const Device v100 = find_device("v100").value();
  EXPECT_EQ(v100.peak(Precision::bf16), 0);
  EXPECT_EQ(v100.peak(Precision::fp16), 125e12);
}

TEST(Device, BadFilesAreRefusedWithTheReason) {
  EXPECT_EQ(refusal(kGood), "accepted");
  EXPECT_THAT(refusal(std::string(kGood) + "memmory: 3GiB\n"), HasSubstr("device.yaml: memmory: unknown key"));
  EXPECT_THAT(refusal("memory: 80GiB\nmemory_bandwidth: 2TB/s\n"), HasSubstr("peak: missing"));
  EXPECT_THAT(refusal("peak: {}\nmemory: 80GiB\nmemory_bandwidth: 2TB/s\n"), HasSubstr("no rate is given"));
  EXPECT_THAT(refusal("peak: {bf17: 1TFLOPS}\nmemory: 80GiB\nmemory_bandwidth: 2TB/s\n"),
              HasSubstr("peak.bf17: unknown key"));
  EXPECT_THAT(refusal("peak: {bf16: 0}\nmemory: 80GiB\nmemory_bandwidth: 2TB/s\n"), HasSubstr("peak.bf16"));
  EXPECT_THAT(refusal("peak: {bf16: 1TFLOPS}\nmemory: 0\nmemory_bandwidth: 2TB/s\n"),
              HasSubstr("memory: must be more than 0"));
  EXPECT_THAT(refusal("peak: {bf16: 1TFLOPS}\nmemory: 80GiB\nmemory_bandwidth: fast\n"),
              HasSubstr("memory_bandwidth: `fast`"));
  EXPECT_THAT(refusal(std::string(kGood) + "efficiency: {gemm: high}\n"), HasSubstr("efficiency.gemm"));
}

}  // namespace
}  // namespace nest::cluster
