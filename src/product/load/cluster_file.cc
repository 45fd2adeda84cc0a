#include "load/cluster_file.h"

#include <filesystem>
#include <memory>

#include "doc/value.h"
#include "load/input.h"

namespace nest::load {
namespace {

constexpr std::size_t kLargestLog = 4U << 20U;

// The value with its file read; anything that names none is left as it is, for the reader of clusters to judge.
doc::Value with_log(const doc::Value& value, const std::filesystem::path& folder) {
  const doc::Object* given = value.as_object();
  const doc::Value* named = given != nullptr ? given->find("file") : &value;
  const std::string* file = named != nullptr ? named->as_string() : nullptr;
  if (file == nullptr) return value;
  const std::filesystem::path path(*file);
  const std::string found = (path.is_absolute() ? path : folder / path).string();
  doc::Limits limits;
  limits.bytes = kLargestLog;
  auto made = std::make_shared<doc::Object>();
  made->add("source", doc::Value(*file, value.offset()));
  if (given != nullptr) {
    for (const doc::Object::Member& member : given->members()) {
      if (member.key != "file" && member.key != "source") made->add(member.key, member.value);
    }
  }
  made->add("log", doc::Value(read_text(found, limits), value.offset()));
  return {std::move(made), value.offset()};
}

}  // namespace

Document read_cluster_file(const Input& input) {
  Document document = doc::parse_yaml(source_name(input), read_text(input));
  const doc::Object* root = document.root().as_object();
  const doc::Value* tables = root != nullptr ? root->find("collectives") : nullptr;
  if (tables == nullptr || tables->as_array() == nullptr) return document;
  const std::filesystem::path folder = std::filesystem::path(input.name).parent_path();
  auto read = std::make_shared<doc::Array>();
  for (const doc::Value& table : *tables->as_array()) read->push_back(with_log(table, folder));
  auto whole = std::make_shared<doc::Object>();
  for (const doc::Object::Member& member : root->members()) {
    whole->add(member.key, member.key == "collectives" ? doc::Value(read, member.value.offset()) : member.value);
  }
  Document complete(document.source, doc::Value(std::move(whole), document.root().offset()));
  complete.part = true;  // its text is the tree's, not the file's
  return complete;
}

}  // namespace nest::load
