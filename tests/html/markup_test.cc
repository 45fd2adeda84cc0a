#include "html/markup.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "html/colour.h"
#include "html/page.h"
#include "xml.h"

namespace nest::html {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Escape, LeavesNothingThatIsMarkup) {
  EXPECT_EQ(escape_html("a<b>&\"c'"), "a&lt;b&gt;&amp;\"c'");
  EXPECT_EQ(escape_attribute("\"><script>"), "&quot;&gt;&lt;script&gt;");
  EXPECT_EQ(escape_html("größer 模型 🙂\n\t"), "größer 模型 🙂\n\t");
}

TEST(Escape, ReplacesWhatIsNoText) {
  const std::string fffd = "\xEF\xBF\xBD";
  EXPECT_EQ(escape_html(std::string("a\0b\x1b\x7f", 5)), "a" + fffd + "b" + fffd + fffd);
  EXPECT_EQ(escape_html("\xff<\xc3"), fffd + "&lt;" + fffd);              // stray and truncated bytes
  EXPECT_EQ(escape_html("\xc0\xbc"), fffd + fffd);                        // an overlong <
  EXPECT_EQ(escape_html("\xed\xa0\x80"), fffd + fffd + fffd);             // half a surrogate pair
  EXPECT_EQ(escape_html("\xf4\x90\x80\x80"), fffd + fffd + fffd + fffd);  // beyond U+10FFFF
  EXPECT_EQ(escape_html("\xef\xbf\xbf"), fffd);
}

TEST(Markup, IsWellFormedByConstruction) {
  Markup inner;
  inner.element("b", "x<y");
  Markup markup;
  markup.open("p", {{"title", "a\"b"}}).text("1 & 2").add(inner).empty("br").close();
  EXPECT_EQ(markup.str(), "<p title=\"a&quot;b\">1 &amp; 2<b>x&lt;y</b><br/></p>");
  Markup open;
  open.open("p");
  EXPECT_THROW(open.str(), InternalError);
  EXPECT_THROW(Markup().close(), InternalError);
}

TEST(Markup, WritesShortNumbers) {
  EXPECT_EQ(coordinate(1.0 / 3), "0.33");
  EXPECT_EQ(coordinate(-0.001), "0");
  EXPECT_EQ(coordinate(12345), "12345");
  EXPECT_EQ(percentage(0.125), "12.5%");
}

TEST(Colour, StagesReadInBothInks) {
  for (const std::int64_t stages : {1, 2, 8, 64, 126}) {
    double before = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
      const Colour colour = stage_colour(s, stages);
      EXPECT_GE(contrast(colour, ink_on(colour)), 4.5);
      const double lightness = contrast(colour, {0, 0, 0});
      EXPECT_GT(lightness, before);  // rises, so that neighbours differ without colour
      before = lightness;
    }
  }
  EXPECT_NEAR(contrast({0, 0, 0}, {1, 1, 1}), 21, 1e-9);
  EXPECT_EQ(to_hex({1, 0.5, 0}), "#ff8000");
}

TEST(Page, TakesSectionsOfOthers) {
  HtmlPage page("a <title>");
  Markup header, body;
  header.element("h1", "head");
  body.element("p", "text");
  page.set_header(header);
  page.add({"extra", "Added & shown", body});
  const test::Element root = test::parse_page(page.str());
  EXPECT_EQ(test::find_all(root, "title").at(0)->text, "a <title>");
  ASSERT_NE(test::find_id(root, "extra"), nullptr);
  EXPECT_EQ(test::find_all(*test::find_id(root, "extra"), "h2").at(0)->text, "Added & shown");
  EXPECT_EQ(test::find_all(root, "nav").at(0)->text, "Added & shown\n");
}

TEST(Page, RunsAndLoadsNothing) {
  HtmlPage page("x");
  const std::string text = page.str();
  EXPECT_THAT(text, HasSubstr("default-src 'none'"));
  EXPECT_THAT(text, Not(HasSubstr("<script")));
  EXPECT_THAT(text, Not(HasSubstr("http:")));
  EXPECT_THAT(text, Not(HasSubstr("https:")));
  EXPECT_THAT(text, Not(HasSubstr("@import")));
}

TEST(Page, RefusesRowsOfAnotherWidth) {
  HtmlTable table("t", {{"a"}, {"b"}});
  EXPECT_THROW(table.add({"1"}), InternalError);
}

}  // namespace
}  // namespace nest::html
