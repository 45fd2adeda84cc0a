#include "report/table.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "report/json.h"

namespace nest::report {
namespace {

TEST(Table, AlignsAndTrims) {
  Table table({{"name", Align::left}, {"count"}, {"bar", Align::left}});
  table.add({"a", "1,024", "██"});
  table.add({"long", "7"});
  EXPECT_EQ(table.render(Style(), 2),
            "  name  count  bar\n"
            "  a     1,024  ██\n"
            "  long      7\n");
}

TEST(Table, HasNoHeadingWithoutTitles) {
  Table table({{"", Align::left}, {""}});
  table.add({"x", "1"});
  EXPECT_EQ(table.render(Style(), 0), "x  1\n");
}

TEST(Table, FlexibleColumnsGiveWayNumbersDoNot) {
  Table table({{"name", Align::left, true}, {"value"}});
  table.add({"a rather long name", "123,456,789"});
  EXPECT_EQ(table.render(Style(), 0, 20), "name           value\na rath…  123,456,789\n");
  // Not even when nothing can give way any more.
  EXPECT_EQ(table.render(Style(), 0, 5), "name        value\na r…  123,456,789\n");
}

TEST(Table, ColourDoesNotChangeTheLayout) {
  Table table({{"name", Align::left, false, Ink::accent}, {"n"}});
  table.add({"a", "1"});
  EXPECT_EQ(table.render(Style(true), 0), "\x1b[2mname\x1b[0m  \x1b[2mn\x1b[0m\n\x1b[36ma\x1b[0m     1\n");
}

TEST(Table, RefusesTooManyCells) {
  Table table({{"name"}});
  EXPECT_THROW(table.add({"a", "b"}), InternalError);
}

TEST(JsonNumber, KeepsIntegers) {
  EXPECT_EQ(json_number(3).dump(), "3");
  EXPECT_EQ(json_number(0x1p53).dump(), "9007199254740992");
  EXPECT_EQ(json_number(2.5).dump(), "2.5");
  EXPECT_TRUE(json_number(1e18).is_number_float());
}

TEST(JsonText, ReplacesBrokenNames) {
  EXPECT_EQ(to_text({{"name", "a\xFF"}}), "{\n  \"name\": \"a\xEF\xBF\xBD\"\n}\n");
}

}  // namespace
}  // namespace nest::report
