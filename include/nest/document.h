// A document that somebody wrote, JSON or YAML: a model's config.json, a cluster file, a stack, a profile. Plans hold
// the documents that they were made from, so that no other file is needed to open them. Immutable and cheap to copy.
#pragma once

#include <memory>
#include <string>

namespace nest {

namespace doc {
class Value;        // the tree, and
struct SourceText;  // the text it was read from: both inside nest
}  // namespace doc

struct Document {
  std::shared_ptr<const doc::SourceText> source;
  std::shared_ptr<const doc::Value> tree;  // null: there is no document
  bool part = false;                       // of a larger file, whose text `source` is

  Document() = default;
  Document(std::shared_ptr<const doc::SourceText> text, doc::Value root);

  bool empty() const { return tree == nullptr; }
  const doc::Value& root() const;          // null for an empty document
  const std::string& name() const;         // of the file or preset, as its reader knows it
  std::string text() const;                // as it was written; JSON where it is a part, or was never text
  std::string json(int indent = 2) const;  // as text, whatever it was written in; "null" for an empty document
};

}  // namespace nest
