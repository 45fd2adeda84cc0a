#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "test_support/refusal.h"

namespace nest {
namespace {

using ::testing::HasSubstr;

template <class Call>
std::string message_of(Call call) {
  return test::refusal_of([&] { call(); }, "no error");
}

TEST(Units, BytesDecimalAndBinaryDiffer) {
  EXPECT_EQ(parse_bytes("80GiB"), 85899345920);
  EXPECT_EQ(parse_bytes("80 GB"), 80000000000);
  EXPECT_EQ(parse_bytes(" 1.5 KiB "), 1536);
  EXPECT_EQ(parse_bytes("512"), 512);
}

TEST(Units, BandwidthInBitsAndBytes) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("400Gbps"), 50e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("12.5 GB/s"), 12.5e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("3.35TB/s"), 3.35e12);
}

TEST(Units, DurationsAndRates) {
  EXPECT_DOUBLE_EQ(parse_duration("5us"), 5e-6);
  EXPECT_DOUBLE_EQ(parse_duration("1.5 h"), 5400);
  for (const char* price : {"2.5", "$2.5", "$ 2.50", "2.5$", "2.5 USD/h", "USD 2.5", "2.5/GPU-hour", "€2.5"}) {
    EXPECT_DOUBLE_EQ(parse_price(price), 2.5) << price;
  }
  for (const char* none : {"", "$", "0", "-1", "two", "2.5 per moon", "1e999"}) {
    EXPECT_THROW(parse_price(none), InputError) << none;
  }
  EXPECT_DOUBLE_EQ(parse_compute_rate("989 TFLOPS"), 989e12);
  EXPECT_DOUBLE_EQ(parse_count("15T"), 15e12);
}

TEST(Units, RefusesWhatIsNotAQuantity) {
  for (const char* text : {"", "GiB", "-3GiB", "80 Gib", "nan", "inf", "1e400", "12 34", "8GBB"}) {
    EXPECT_THROW(parse_bytes(text), InputError) << text;
  }
  EXPECT_THROW(parse_bytes("1e30"), InputError);
  EXPECT_THAT(message_of([] { parse_bandwidth("fast"); }), HasSubstr("`fast` is not a bandwidth; write for example"));
}

TEST(Units, PrintsThreeDigits) {
  EXPECT_EQ(format_bytes(73122349875), "68.1 GiB");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bandwidth(12.5e9), "12.5 GB/s");
  EXPECT_EQ(format_duration(0.0709), "70.9 ms");
  EXPECT_EQ(format_duration(19.84), "19.8 s");
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_compute_rate(989e12), "989 TFLOP/s");
  EXPECT_EQ(format_count(70553706496.0), "70.6 B");
  EXPECT_EQ(format_integer(-1234567), "-1,234,567");
  EXPECT_EQ(format_percent(0.3891), "38.9 %");
}

TEST(Units, PrintedSizesParseBackWithinRounding) {
  for (std::int64_t bytes = 1; bytes < (std::int64_t{1} << 60); bytes = bytes * 7 + 3) {
    const double back = static_cast<double>(parse_bytes(format_bytes(bytes)));
    EXPECT_NEAR(back / static_cast<double>(bytes), 1.0, 0.006) << bytes;
  }
}

}  // namespace
}  // namespace nest
