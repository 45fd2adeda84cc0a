// A text file, line by line, with errors that name the file and the line and show it.
#pragma once

#include <cstddef>
#include <string_view>

#include "doc/value.h"

namespace nest::importer {

// One line without its end; `text` points into the source.
struct TextLine {
  std::string_view text;
  std::size_t number = 0;  // from 1
  std::size_t offset = 0;  // of its first byte
};

class LineReader {
 public:
  // Keeps a reference. A byte-order mark at the beginning is passed over; lines may end with CR LF.
  explicit LineReader(const doc::SourceText& source);

  // False at the end.
  bool next(TextLine& line);

  const doc::SourceText& source() const { return source_; }

 private:
  const doc::SourceText& source_;
  std::size_t at_ = 0;
  std::size_t number_ = 0;
};

// InputError "file:line: message" with the line as excerpt.
[[noreturn]] void fail_at_line(const doc::SourceText& source, const TextLine& line, std::string_view message);

}  // namespace nest::importer
