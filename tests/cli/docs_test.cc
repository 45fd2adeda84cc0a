// The documentation shows what the program prints.
#include <gtest/gtest.h>

#include "console_page.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

class Documentation : public ::testing::TestWithParam<const char*> {};

TEST_P(Documentation, ShowsWhatTheProgramPrints) { expect_page_is_true({source_dir() / GetParam()}); }

INSTANTIATE_TEST_SUITE_P(Files, Documentation, ::testing::Values("README.md", "docs/commands.md"),
                         [](const auto& file) { return file.index == 0 ? "readme" : "commands"; });

}  // namespace
}  // namespace nest::test
