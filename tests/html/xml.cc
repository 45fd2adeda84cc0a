#include "xml.h"

#include <stdexcept>

namespace nest::test {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Element page() {
    expect("<!DOCTYPE html>\n");
    Element root = element();
    if (text_.substr(at_) != "\n") fail("something follows the root element");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::size_t from = at_ < 60 ? 0 : at_ - 60;
    throw std::runtime_error(what + " near: " + std::string(text_.substr(from, 160)));
  }

  void expect(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail("expected " + std::string(word));
    at_ += word.size();
  }

  static bool name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == ':';
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && name_char(text_[at_])) ++at_;
    if (at_ == begin) fail("a name is missing");
    return std::string(text_.substr(begin, at_ - begin));
  }

  // Text up to one of `ends`, with entities decoded.
  std::string content(std::string_view ends) {
    std::string out;
    while (at_ < text_.size() && ends.find(text_[at_]) == std::string_view::npos) {
      if (text_[at_] == '>') fail("a bare >");
      if (text_[at_] != '&') {
        out += text_[at_++];
        continue;
      }
      const std::size_t end = text_.find(';', at_);
      const std::string_view entity = text_.substr(at_, end - at_ + 1);
      const std::map<std::string_view, char> known = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}};
      const auto found = known.find(entity);
      if (end == std::string_view::npos || found == known.end()) fail("an unknown entity");
      out += found->second;
      at_ = end + 1;
    }
    return out;
  }

  Element element() {
    expect("<");
    Element element;
    element.name = name();
    while (text_.substr(at_, 1) == " ") {
      ++at_;
      const std::string key = name();
      expect("=\"");
      if (!element.attributes.emplace(key, content("\"<")).second) fail("attribute " + key + " is there twice");
      expect("\"");
    }
    if (text_.substr(at_, 2) == "/>") {
      at_ += 2;
      return element;
    }
    expect(">");
    if (element.name == "style") {  // no markup inside
      const std::size_t end = text_.find('<', at_);
      element.text = text_.substr(at_, end - at_);
      at_ = end;
    }
    while (text_.substr(at_, 2) != "</") {
      if (at_ >= text_.size()) fail(element.name + " is not closed");
      if (text_[at_] == '<') {
        element.children.push_back(this->element());
        element.text += element.children.back().text;
      } else {
        element.text += content("<");
      }
    }
    expect("</" + element.name + ">");
    return element;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Element parse_page(std::string_view text) { return Parser(text).page(); }

void visit(const Element& element, const std::function<void(const Element&)>& look) {
  look(element);
  for (const Element& child : element.children) visit(child, look);
}

std::vector<const Element*> find_all(const Element& root, const std::string& name) {
  std::vector<const Element*> found;
  visit(root, [&](const Element& element) {
    if (element.name == name) found.push_back(&element);
  });
  return found;
}

const Element* find_id(const Element& root, const std::string& id) {
  const Element* found = nullptr;
  visit(root, [&](const Element& element) {
    if (element.attribute("id") == id) found = &element;
  });
  return found;
}

std::vector<std::vector<std::string>> table_cells(const Element& root, const std::string& id) {
  std::vector<std::vector<std::string>> rows;
  const Element* table = find_id(root, id);
  if (table == nullptr) throw std::runtime_error("no table " + id);
  for (const Element* row : find_all(*table, "tr")) {
    rows.emplace_back();
    for (const Element& cell : row->children) rows.back().push_back(cell.text);
  }
  return rows;
}

}  // namespace nest::test
