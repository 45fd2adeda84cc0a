// Every story under examples/ is true: its commands, run beside its input files, print what it shows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "base/layout.h"
#include "console_page.h"
#include "program.h"
#include "test_support/data.h"

namespace nest::test {
namespace {

std::vector<std::string> pages() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "examples")) {
    if (entry.path().extension() == ".md") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Studies with a folder of their own: examples/NAME/README.md.
std::vector<std::string> folders() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() / "examples")) {
    if (std::filesystem::exists(entry.path() / "README.md")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Examples : public ::testing::TestWithParam<std::string> {};

TEST_P(Examples, ShowWhatTheProgramPrints) {
  const std::filesystem::path folder = source_dir() / "examples";
  expect_page_is_true({folder / (GetParam() + ".md"), folder});
}

TEST(ExampleFolders, ShowWhatTheProgramPrints) {
  for (const std::string& name : folders()) {
    const std::filesystem::path folder = source_dir() / "examples" / name;
    expect_page_is_true({folder / "README.md", folder});
  }
}

INSTANTIATE_TEST_SUITE_P(Stories, Examples, ::testing::ValuesIn(pages()), [](const auto& page) {
  std::string name = page.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

// A screen is 80 columns wide, and so is what the stories show.
TEST(ExamplePages, FitAScreen) {
  for (const std::string& name : pages()) {
    bool inside = false;
    for (const std::string& line : lines(read_file(source_dir() / "examples" / (name + ".md")))) {
      if (line.starts_with("```")) inside = line == "```console";
      if (!inside) continue;
      EXPECT_LE(display_width(line), kLineWidth) << name << ".md: " << line;
    }
  }
}

// The list of stories names all of them.
TEST(ExamplePages, AreListed) {
  const std::string index = read_file(source_dir() / "examples" / "README.md");
  for (const std::string& name : pages()) {
    if (name == "README") continue;
    EXPECT_NE(index.find("(" + name + ".md)"), std::string::npos) << name;
  }
  for (const std::string& name : folders())
    EXPECT_NE(index.find("(" + name + "/README.md)"), std::string::npos) << name;
}

}  // namespace
}  // namespace nest::test
