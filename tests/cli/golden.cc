#include "golden.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/layout.h"
#include "program.h"
#include "test_support/data.h"

namespace nest::test {

void expect_golden(const std::string& name, const std::string& text) {
  const std::filesystem::path path = source_dir() / "tests" / "cli" / "golden" / name;
  if (const char* update = std::getenv("NEST_UPDATE_GOLDEN"); update && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
  }
  ASSERT_TRUE(std::filesystem::exists(path)) << "no " << path << "; run with NEST_UPDATE_GOLDEN=1 to write it";
  EXPECT_EQ(text, read_file(path)) << "if the change is meant, run with NEST_UPDATE_GOLDEN=1";
}

void expect_fits_screen(const std::string& text) {
  for (const std::string& line : lines(text)) {
    EXPECT_LE(display_width(line), kLineWidth) << line;
    EXPECT_FALSE(line.ends_with(' ')) << "trailing space: " << line;
    EXPECT_EQ(line.find('\t'), std::string::npos) << line;
  }
}

}  // namespace nest::test
