// A strict reader of the pages: every element closed, every attribute quoted and given once, every & an entity.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nest::test {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;  // decoded
  std::vector<Element> children;
  std::string text;  // of this element and all inside it, decoded

  std::string attribute(const std::string& key) const {
    const auto at = attributes.find(key);
    return at == attributes.end() ? std::string() : at->second;
  }
};

// The root element. Throws std::runtime_error that names what is wrong, and where.
Element parse_page(std::string_view text);

// Every element, parents before children.
void visit(const Element& element, const std::function<void(const Element&)>& look);

std::vector<const Element*> find_all(const Element& root, const std::string& name);
const Element* find_id(const Element& root, const std::string& id);

// The cells of a table, row by row, the heading first.
std::vector<std::vector<std::string>> table_cells(const Element& root, const std::string& id);

}  // namespace nest::test
