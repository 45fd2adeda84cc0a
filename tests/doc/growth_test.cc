// JSON and YAML: time grows as the text does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "doc/value.h"
#include "test_support/growth.h"

namespace nest::doc {
namespace {

std::string many(const std::string& piece, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

std::string keys(std::size_t bytes, const char* pattern) {
  std::string text;
  for (std::size_t k = 0; text.size() < bytes; ++k) text += fmt::format(fmt::runtime(pattern), k);
  return text;
}

TEST(Growth, OfDocuments) {
  struct Case {
    const char* name;
    bool yaml;
    std::function<std::string(std::size_t)> text;
  };
  const std::vector<Case> cases = {
      {"numbers", false, [](std::size_t n) { return "[" + many("1,", n) + "1]"; }},
      {"digits", false, [](std::size_t n) { return many("7", n); }},
      {"keys", false, [](std::size_t n) { return "{" + keys(n, "\"a{}\":1,") + "\"z\":1}"; }},
      {"equal keys", false, [](std::size_t n) { return "{" + many("\"a\":1,", n) + "\"z\":1}"; }},
      {"open brackets", false, [](std::size_t n) { return many("[", n); }},
      {"escapes", false, [](std::size_t n) { return "\"" + many("\\u0041", n) + "\""; }},
      {"lines", false, [](std::size_t n) { return many("\n", n) + "x"; }},
      {"list", true, [](std::size_t n) { return many("- 1\n", n); }},
      {"keys", true, [](std::size_t n) { return keys(n, "a{}: 1\n"); }},
      {"open brackets", true, [](std::size_t n) { return many("[", n); }},
      {"indented", true,
       [](std::size_t n) {
         std::string text;
         for (std::size_t depth = 0; text.size() < n; ++depth) text += std::string(depth, ' ') + "a:\n";
         return text;
       }},
      {"anchors", true, [](std::size_t n) { return "- &a 1\n" + many("- *a\n", n); }},
      {"quotes", true, [](std::size_t n) { return "\"" + many("\\n", n) + "\""; }}};
  for (const Case& one : cases) {
    const double ratio = test::growth(
        [&](std::size_t n) {
          try {
            one.yaml ? parse_yaml("given", one.text(n)) : parse_json("given", one.text(n));
          } catch (const InputError&) {}
        },
        1U << 12U, 1U << 19U);
    EXPECT_LT(ratio, test::kLinear) << one.name << (one.yaml ? ", YAML" : ", JSON");
  }
}

}  // namespace
}  // namespace nest::doc
