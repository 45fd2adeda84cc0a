// Files, folders and standard input, read whole and bounded.
#pragma once

#include <string>

#include "doc/value.h"

namespace nest {

// The text of a file, or of standard input for "-". Throws InputError when there is none, or more than `limits.bytes`.
std::string read_text(const std::string& path, const Limits& limits = {});

// How the source is called in messages: the path, or "standard input".
std::string source_name(const std::string& path);

// The file's name without folder and ending.
std::string file_stem(const std::string& path);

bool is_folder(const std::string& path);
bool path_exists(const std::string& path);

// Whether a word that is no known name was probably meant as a path: it has a slash or a known ending.
bool looks_like_path(const std::string& word);

}  // namespace nest
