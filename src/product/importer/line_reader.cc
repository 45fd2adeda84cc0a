#include "importer/line_reader.h"

#include <fmt/format.h>

#include "base/error.h"

namespace nest::importer {

LineReader::LineReader(const doc::SourceText& source) : source_(source) {
  if (std::string_view(source.text).starts_with("\xEF\xBB\xBF")) at_ = 3;
}

bool LineReader::next(TextLine& line) {
  const std::string_view text = source_.text;
  if (at_ >= text.size()) return false;
  const std::size_t end = std::min(text.find('\n', at_), text.size());
  line.text = text.substr(at_, end - at_);
  line.offset = at_;
  line.number = ++number_;
  if (line.text.ends_with('\r')) line.text.remove_suffix(1);
  at_ = end + 1;
  return true;
}

void fail_at_line(const doc::SourceText& source, const TextLine& line, std::string_view message) {
  throw InputError(fmt::format("{}:{}: {}", source.name, line.number, message), doc::excerpt_at(source, line.offset));
}

}  // namespace nest::importer
