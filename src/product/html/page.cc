#include "html/page.h"

#include <fmt/format.h>

#include "base/error.h"
#include "html/style.h"

namespace nest::html {
namespace {

// The style sheet is nest's own text: it holds nothing that would have to be escaped, which a test makes sure of.
std::string style_element(const std::string& more) { return fmt::format("<style>{}{}</style>\n", style_sheet(), more); }

// Words, numbers, or a drawing that only repeats a number and gives way on narrow screens.
const char* style_of(const HtmlTable::Column& column) {
  return column.number ? "n" : column.title.empty() ? "w drawn" : "w";
}

constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

}  // namespace

std::string HtmlPage::str() const {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n";
  Markup head;
  head.empty("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", kPolicy}});
  head.empty("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  head.empty("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  head.empty("meta", {{"name", "referrer"}, {"content", "no-referrer"}});
  head.empty("link", {{"rel", "icon"}, {"href", "data:,"}});
  head.element("title", title_);
  out += head.str() + "\n" + style_element(style_) + "</head>\n";

  Markup body;
  body.open("body");
  body.element("a", "Skip to the report", {{"class", "skip"}, {"href", "#main"}});
  body.open("header").add(header_).close();
  body.open("nav", {{"aria-label", "Sections"}}).open("ul");
  for (const HtmlSection& section : sections_) {
    body.open("li").element("a", section.title, {{"href", "#" + section.id}}).close();
  }
  body.close().close();
  body.open("main", {{"id", "main"}});
  for (const HtmlSection& section : sections_) {
    body.open("section", {{"id", section.id}, {"aria-labelledby", section.id + "-title"}});
    body.element("h2", section.title, {{"id", section.id + "-title"}});
    body.add(section.body).close();
  }
  body.close();
  body.open("footer").add(footer_).close();
  body.close();
  return out + body.str() + "</html>\n";
}

HtmlTable::HtmlTable(std::string label, std::vector<Column> columns, std::string id)
    : label_(std::move(label)), id_(std::move(id)), columns_(std::move(columns)) {}

void HtmlTable::add(const std::vector<std::string>& cells) {
  std::vector<Markup> marked(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) marked[i].text(cells[i]);
  add_cells(std::move(marked));
}

void HtmlTable::add_cells(std::vector<Markup> cells) {
  NEST_CHECK(cells.size() == columns_.size(), "a row has as many cells as there are columns");
  body_.open("tr");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const char* style = style_of(columns_[i]);
    if (i == 0) {
      body_.open("th", {{"scope", "row"}, {"class", style}}).add(cells[i]).close();
    } else {
      body_.open("td", {{"class", style}}).add(cells[i]).close();
    }
  }
  body_.close();
  ++rows_;
}

Markup HtmlTable::markup() const {
  Markup table;
  // A region that scrolls must be reachable by keyboard.
  table.open("div", {{"class", "scroll"}, {"role", "region"}, {"tabindex", "0"}, {"aria-label", label_}});
  if (id_.empty()) {
    table.open("table");
  } else {
    table.open("table", {{"id", id_}});
  }
  table.open("thead").open("tr");
  for (const Column& column : columns_) {
    table.element("th", column.title, {{"scope", "col"}, {"class", style_of(column)}});
  }
  table.close().close();
  table.open("tbody").add(body_).close();
  return table.close().close();
}

Markup bar_of(const std::vector<BarPart>& parts, const std::string& label, double limit) {
  Markup bar;
  bar.open("svg", {{"class", "bar"}, {"role", "img"}, {"aria-label", label}});
  double at = 0;
  for (const BarPart& part : parts) {
    if (part.fraction <= 0) continue;
    bar.open("rect",
             {{"class", part.style}, {"x", percentage(at)}, {"width", percentage(part.fraction)}, {"height", "100%"}});
    if (!part.title.empty()) bar.element("title", part.title);
    bar.close();
    // A line between parts, so that they can be told apart without colour.
    if (at > 0) {
      bar.empty("line",
                {{"class", "gap"}, {"x1", percentage(at)}, {"x2", percentage(at)}, {"y1", "0"}, {"y2", "100%"}});
    }
    at += part.fraction;
  }
  if (limit > 0) {
    bar.empty("line",
              {{"class", "limit"}, {"x1", percentage(limit)}, {"x2", percentage(limit)}, {"y1", "0"}, {"y2", "100%"}});
  }
  return bar.close();
}

Markup two_lines(const Markup& name, const Markup& more) {
  Markup cell = name;
  if (more.is_empty()) return cell;
  return cell.open("span", {{"class", "more"}}).add(more).close();
}

Markup legend_entry(const std::string& style, const std::string& name) {
  Markup entry;
  entry.open("span", {{"class", "key"}});
  entry.open("svg", {{"class", "swatch"}, {"aria-hidden", "true"}})
      .empty("rect", {{"class", style}, {"width", "100%"}, {"height", "100%"}})
      .close();
  return entry.text(name).close();
}

Markup details(const std::string& summary, const Markup& body) {
  Markup markup;
  return markup.open("details").element("summary", summary).add(body).close();
}

}  // namespace nest::html
