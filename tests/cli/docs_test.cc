// The documentation shows what the program prints.
#include <gtest/gtest.h>

#include "console_page.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

struct Page {
  const char* name;
  const char* file;
  const char* inputs = nullptr;  // a folder whose files lie beside the commands
};

class Documentation : public ::testing::TestWithParam<Page> {};

TEST_P(Documentation, ShowsWhatTheProgramPrints) {
  const Page& page = GetParam();
  expect_page_is_true({source_dir() / page.file, page.inputs == nullptr ? "" : source_dir() / page.inputs});
}

INSTANTIATE_TEST_SUITE_P(Files, Documentation,
                         ::testing::Values(Page{"readme", "README.md"}, Page{"start", "docs/start.md"},
                                           Page{"commands", "docs/commands.md"},
                                           Page{"as_typed", "tests/cli/golden/as-typed.md"}),
                         [](const auto& page) { return std::string(page.param.name); });

}  // namespace
}  // namespace nest::test
