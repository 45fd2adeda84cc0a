// The files of data/ that ship inside the program, as they were when it was built.
#pragma once

#include <span>
#include <string_view>

namespace nest {

struct EmbeddedFile {
  std::string_view name;  // file name without its extension: "llama3-70b"
  std::string_view text;
};

// The files of data/<folder>, sorted by name; empty for a folder that has none.
std::span<const EmbeddedFile> embedded_files(std::string_view folder);

// The one of that name, or null.
inline const EmbeddedFile* embedded_file(std::string_view folder, std::string_view name) {
  for (const EmbeddedFile& file : embedded_files(folder)) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace nest
