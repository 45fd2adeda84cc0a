// A file of arguments, which is no shell script.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "launch/shell.h"
#include "launch/word_builder.h"

namespace nest::launch {
namespace {

constexpr std::size_t kMostText = 1U << 20U;

bool is_variable_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '{' || c == '}';
}

}  // namespace

std::vector<ShellWord> read_arguments(std::string_view source, std::string_view text) {
  if (text.size() > kMostText) {
    throw InputError(fmt::format("{}: {} bytes are too many for a list of arguments; allowed is up to {}", source,
                                 text.size(), kMostText));
  }
  std::vector<ShellWord> words;
  WordBuilder builder(words);
  int line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || (c == '\\' && i + 1 < text.size() && text[i + 1] == '\n')) {
      builder.finish();
    } else if (c == '#' && !builder.started()) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == '\'' || c == '"') {
      const std::size_t end = text.find(c, i + 1);
      if (end == std::string_view::npos) {
        throw InputError(fmt::format("{}: line {}: the quote {} is never closed", source, line, c));
      }
      builder.start(line);
      builder.quote();
      for (std::size_t k = i + 1; k < end; ++k) builder.add(text[k]);
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(i),
                                          text.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
      i = end;
    } else {
      builder.start(line);
      if (c == '$') {
        std::size_t end = i + 1;
        while (end < text.size() && is_variable_character(text[end])) ++end;
        const std::string name(text.substr(i, end - i));
        builder.add(unknown_word(name, line));
        i = end - 1;
      } else {
        builder.add(c);
      }
    }
    if (i < text.size() && text[i] == '\n') ++line;
  }
  builder.finish();
  return words;
}

}  // namespace nest::launch
