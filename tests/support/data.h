// Where tests find files.
#pragma once

#include <filesystem>
#include <string>

#include "doc/value.h"

namespace nest::test {

// Root of the source tree.
std::filesystem::path source_dir();

// Folder of the measurements that are kept outside the repository: $NEST_DATA, else ../shared/data beside the checkout.
// May not exist.
std::filesystem::path data_dir();

std::string read_file(const std::filesystem::path& path);
Document read_json(const std::filesystem::path& path);

}  // namespace nest::test

// Skips the running test, saying so, unless data_dir()/name exists.
#define NEST_REQUIRE_DATA(name)                                    \
  if (!std::filesystem::exists(::nest::test::data_dir() / (name))) \
  GTEST_SKIP() << "needs " << (::nest::test::data_dir() / (name)) << " (set NEST_DATA to its folder)"
