#include "base/real.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "test_support/scale.h"

namespace nest {
namespace {

struct Read {
  std::ptrdiff_t length = 0;
  std::errc status = {};
  double value = -7;
  bool operator==(const Read&) const = default;
};

Read read_real(std::from_chars_result (*reader)(const char*, const char*, double&), const std::string& text) {
  Read read;
  const auto [rest, status] = reader(text.data(), text.data() + text.size(), read.value);
  read.length = rest - text.data();
  read.status = status;
  if (std::isnan(read.value)) read.value = -8;
  return read;
}

TEST(Real, ReadsWhatNumbersAre) {
  double value = 0;
  const std::string text = "12.5GB";
  const auto [rest, status] = real_from_chars(text.data(), text.data() + text.size(), value);
  EXPECT_EQ(value, 12.5);
  EXPECT_EQ(rest, text.data() + 4);
  EXPECT_EQ(status, std::errc());
}

// What browsers read is what the program reads.
TEST(Real, StrtodReadsTheSame) {
  for (const char* text : {"",
                           "-",
                           ".",
                           "-.",
                           ".5",
                           "5.",
                           "-.5e3",
                           "+1",
                           " 1",
                           "0x10",
                           "-0x1p3",
                           "1e",
                           "1e+",
                           "1e5x",
                           "1e400",
                           "-1e400",
                           "1e-400",
                           "4.9e-324",
                           "inf",
                           "-infinity",
                           "nan",
                           "nano",
                           "in",
                           "x",
                           "1,5",
                           "0.1",
                           "1e23",
                           "9007199254740993",
                           "1.7976931348623157e308",
                           "1.7976931348623159e308",
                           "2.2250738585072011e-308"}) {
    EXPECT_EQ(read_real(real_by_strtod, text), read_real(real_from_chars, text)) << text;
  }
  std::mt19937_64 random(7);
  const std::string letters = "0123456789.-e+ xn";
  for (std::uint32_t k = 0; k < test::scaled(20'000); ++k) {
    std::string text;
    const auto length = random() % 12;
    for (std::uint64_t i = 0; i < length; ++i) text += letters[random() % (random() % 3 == 0 ? letters.size() : 11)];
    EXPECT_EQ(read_real(real_by_strtod, text), read_real(real_from_chars, text)) << text;
  }
}

}  // namespace
}  // namespace nest
