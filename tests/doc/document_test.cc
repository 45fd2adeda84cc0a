#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "doc/reader.h"
#include "doc/value.h"

namespace nest::doc {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class Call>
InputError error_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error;
  }
  return InputError("no error");
}

TEST(Json, BuildsTheTree) {
  const Document document = parse_json("a.json", R"({"a": [1, 2.5, "x", null, true], "b": {"c": -7}})");
  const Object* root = document.root().as_object();
  ASSERT_TRUE(root);
  const Array& array = *root->find("a")->as_array();
  EXPECT_EQ(*array[0].as_integer(), 1);
  EXPECT_DOUBLE_EQ(*array[1].as_real(), 2.5);
  EXPECT_EQ(*array[2].as_string(), "x");
  EXPECT_TRUE(array[3].is_null());
  EXPECT_TRUE(*array[4].as_bool());
  EXPECT_EQ(*root->find("b")->as_object()->find("c")->as_integer(), -7);
}

TEST(Json, ErrorsNameFileAndLine) {
  const InputError error = error_of([] { parse_json("a.json", "{\n  \"x\": 1,\n  \"y\": oops\n}"); });
  EXPECT_THAT(error.what(), StartsWith("a.json:3: not valid JSON near"));
  EXPECT_THAT(error.excerpt(), HasSubstr("\"y\": oops"));
}

TEST(Json, RefusesTornEmptyDeepTwiceAndForeign) {
  EXPECT_THAT(error_of([] { parse_json("a", R"({"x": [1, 2)"); }).what(), HasSubstr("ends in the middle"));
  EXPECT_THAT(error_of([] { parse_json("a", " \n"); }).what(), HasSubstr("is empty"));
  EXPECT_THAT(error_of([] { parse_json("a", std::string(1000, '[')); }).what(), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(error_of([] { parse_json("a", R"({"x": 1, "x": 2})"); }).what(), HasSubstr("key `x` is given twice"));
  EXPECT_THAT(error_of([] { parse_json("a", "{\"x\": \"\xff\"}"); }).what(), HasSubstr("UTF-8"));
  EXPECT_THAT(error_of([] { parse_json("a", "{\"x\": 1} trailing"); }).what(), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of([] { parse_json("a", std::string(10, 'x'), {.bytes = 5}); }).what(), HasSubstr("at most 5"));
}

TEST(Yaml, BuildsTheTreeByTheCoreRules) {
  const Document document = parse_yaml("c.yaml", "name: no\ncount: 8\nrate: 1.5\nquoted: \"8\"\nlist: [a, ~, true]\n");
  const Object& root = *document.root().as_object();
  EXPECT_EQ(*root.find("name")->as_string(), "no");
  EXPECT_EQ(*root.find("count")->as_integer(), 8);
  EXPECT_DOUBLE_EQ(*root.find("rate")->as_real(), 1.5);
  EXPECT_EQ(*root.find("quoted")->as_string(), "8");
  EXPECT_TRUE((*root.find("list")->as_array())[1].is_null());
}

TEST(Yaml, RefusesBombsAndSeveralDocuments) {
  const char* bomb = "a: &a [x, x]\nb: [*a, *a]\n";
  EXPECT_THAT(error_of([&] { parse_yaml("c.yaml", bomb); }).what(), HasSubstr("not supported"));
  EXPECT_THAT(error_of([] { parse_yaml("c.yaml", "a: 1\n---\nb: 2\n"); }).what(), HasSubstr("more than one"));
  EXPECT_THAT(error_of([] { parse_yaml("c.yaml", ""); }).what(), HasSubstr("is empty"));
  EXPECT_THAT(error_of([] { parse_yaml("c.yaml", "a: [1, 2"); }).what(), StartsWith("c.yaml:"));
  EXPECT_THAT(error_of([] { parse_yaml("c.yaml", std::string(5000, '[')); }).what(), StartsWith("c.yaml:"));
  EXPECT_THAT(error_of([] { parse_yaml("c.yaml", "a: 1\na: 2\n"); }).what(), HasSubstr("given twice"));
}

TEST(Reader, ReportsPathValueAndWhatIsAllowed) {
  const Document document = parse_yaml("c.yaml", "levels:\n  - group: 0\n    bandwidth: fast\n  - bandwith: 1\n");
  Reader root(document);
  std::vector<Reader> levels = root.objects("levels");
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_STREQ(error_of([&] {
                 levels[0].integer("group", {1, 64});
               }).what(),
               "c.yaml: levels[0].group: 0 is out of range; allowed is 1 … 64");
  const InputError bandwidth = error_of([&] { levels[0].bandwidth("bandwidth"); });
  EXPECT_THAT(bandwidth.what(), StartsWith("c.yaml: levels[0].bandwidth: `fast` is not a bandwidth"));
  EXPECT_EQ(bandwidth.excerpt(), "   3 |     bandwidth: fast\n     |     ^");
  EXPECT_THAT(error_of([&] { levels[1].bandwidth("bandwidth"); }).what(),
              HasSubstr("levels[1].bandwidth: missing; is `bandwith` a misspelling of it?"));
}

TEST(Reader, RefusesUnknownKeysWithASuggestion) {
  const Document document = parse_json("m.json", "{\n  \"group\": 4,\n  \"bandwith\": 3\n}");
  Reader root(document);
  root.integer("group", {1, 8});
  root.maybe_bandwidth("bandwidth");
  const InputError error = error_of([&] { root.refuse_unknown_keys(); });
  EXPECT_STREQ(error.what(), "m.json: bandwith: unknown key; did you mean `bandwidth`?");
  EXPECT_EQ(error.excerpt(), "   3 |   \"bandwith\": 3\n     |   ^");
}

TEST(Reader, AcceptsUnitsNumbersAndNulls) {
  const Document document =
      parse_json("m.json", R"({"memory": "80GiB", "raw": 1024, "none": null, "whole": 4096.0, "part": 0.5})");
  Reader root(document);
  EXPECT_EQ(root.bytes("memory"), 85899345920);
  EXPECT_EQ(root.bytes("raw"), 1024);
  EXPECT_EQ(root.maybe_bytes("none"), std::nullopt);
  EXPECT_EQ(root.integer("whole", {1, 1e6}), 4096);
  EXPECT_THAT(error_of([&] {
                root.integer("part", {1, 8});
              }).what(),
              HasSubstr("found 0.5; expected an integer in 1 … 8"));
  EXPECT_THAT(error_of([&] { root.text("raw"); }).what(), HasSubstr("found 1024; expected a string"));
}

}  // namespace
}  // namespace nest::doc
