// One HTML file that needs nothing else: no network, no scripts, no fonts. Whoever has something to show adds sections.
//
//   HtmlPage page("Llama 3 8B on 8 x H100");
//   page.set_header(header);                                   // what stands above everything
//   page.add({"memory", "Memory", body});                      // a heading and what follows it
//   write(page.str());
//
// Inside a body, headings start at h3; classes are those of style.cc. The file forbids itself to run scripts or to load
// anything (Content-Security-Policy), whatever its texts hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "html/markup.h"

namespace nest::html {

struct HtmlSection {
  std::string id;  // a word; the address of the section within the page
  std::string title;
  Markup body;
};

class HtmlPage {
 public:
  explicit HtmlPage(std::string title) : title_(std::move(title)) {}

  void set_header(Markup header) { header_ = std::move(header); }  // holds the page's h1
  void set_footer(Markup footer) { footer_ = std::move(footer); }
  // Rules besides style.cc's, of the one kind of page that needs them: nest's own text, without "<" and "&".
  void set_style(std::string_view style) { style_ = style; }
  void add(HtmlSection section) { sections_.push_back(std::move(section)); }

  std::string str() const;

 private:
  std::string title_, style_;
  Markup header_, footer_;
  std::vector<HtmlSection> sections_;
};

// --- pieces that sections share

// A table that scrolls sideways on narrow screens; `label` says what it holds to those who do not see it.
class HtmlTable {
 public:
  // Columns of numbers are aligned to the right; one of words without a title holds a drawing that repeats a number.
  struct Column {
    std::string title;
    bool number = true;
  };
  HtmlTable(std::string label, std::vector<Column> columns, std::string id = {});

  // The first cell is the row's heading.
  void add(const std::vector<std::string>& cells);
  void add_cells(std::vector<Markup> cells);
  bool is_empty() const { return rows_ == 0; }
  Markup markup() const;

 private:
  std::string label_, id_;
  std::vector<Column> columns_;
  Markup body_;
  std::size_t rows_ = 0;
};

// A bar from 0 to 1, cut into parts; `label` is read to those who do not see it.
struct BarPart {
  std::string style;  // class of its colour
  double fraction = 0;
  std::string title;  // shown on hover
};
Markup bar_of(const std::vector<BarPart>& parts, const std::string& label, double limit = 0);

// A name and, small below it, more about it.
Markup two_lines(const Markup& name, const Markup& more);

// A square of a colour and its name.
Markup legend_entry(const std::string& style, const std::string& name);

// Quoted so that a shell reads the same words.
std::string shell_line(const std::vector<std::string>& words);

// <details> with a summary.
Markup details(const std::string& summary, const Markup& body);

}  // namespace nest::html
