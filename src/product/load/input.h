// Files, folders and standard input, read whole and bounded.
#pragma once

#include <string>

#include "doc/value.h"
#include "nest/input.h"

namespace nest::load {

// The text of a file, of standard input for "-", or what is in memory. Throws InputError when there is none, or more than
// `limits.bytes`.
std::string read_text(const Input& input, const doc::Limits& limits = {});

// How the source is called in messages: the path, or "standard input".
std::string source_name(const Input& input);

// The file's name without folder and ending.
std::string file_stem(const std::string& path);

bool is_folder(const std::string& path);
bool path_exists(const std::string& path);

// Whether a word that is no known name was probably meant as a path: it has a slash or a known ending.
bool looks_like_path(const std::string& word);

}  // namespace nest::load
