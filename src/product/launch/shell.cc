#include "launch/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "launch/arithmetic.h"
#include "launch/shell_keywords.h"
#include "launch/word_builder.h"

namespace nest::launch {
namespace {

constexpr std::size_t kMostText = 1U << 20U;  // of a script, and of all that it expands to
constexpr std::size_t kMostExpanded = 4U << 20U;
constexpr int kDeepest = 32;

class ShellReader {
 public:
  ShellReader(std::string_view source, std::string_view text, const ShellVariables& variables)
      : source_(source), text_(text) {
    script_.variables = variables;
  }

  ShellScript run() {
    if (text_.size() > kMostText) {
      throw InputError(fmt::format("{}: {} bytes are too many for a launch script; allowed is up to {}", source_,
                                   text_.size(), kMostText));
    }
    while (at_ < text_.size()) read_command();
    return std::move(script_);
  }

 private:
  [[noreturn]] void fail(int line, const std::string& message) const {
    throw InputError(fmt::format("{}: line {}: {}", source_, line, message));
  }

  bool more() const { return at_ < text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  char next() {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    for (std::size_t i = 0; i < word.size(); ++i) next();
    return true;
  }

  void skip_comment() {
    const std::size_t begin = at_;
    while (more() && peek() != '\n') next();
    const std::string_view comment = text_.substr(begin, at_ - begin);
    if (!comment.starts_with("#SBATCH")) return;
    for (const std::string_view word : split_text(comment.substr(7), ' ')) {
      const std::string_view bare = trim(word);
      if (bare.starts_with('#')) break;
      if (!bare.empty()) script_.sbatch.push_back({std::string(bare), {}, line_});
    }
  }

  // Here-documents begin after the line that announces them.
  void skip_documents() {
    for (const std::string& end : documents_) {
      while (more()) {
        const std::size_t newline = std::min(text_.find('\n', at_), text_.size());
        const std::string_view line = trim(text_.substr(at_, newline - at_));
        while (at_ < newline) next();
        if (more()) next();
        if (line == end) break;
      }
    }
    documents_.clear();
  }

  // One simple command up to its separator.
  void read_command() {
    ShellCommand command;
    command.line = line_;
    WordBuilder words(command.words);
    std::vector<Assignment> assignments;
    while (more()) {
      const char c = peek();
      if (is_blank(c)) {
        words.finish();
        next();
      } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        words.finish();
        next();
        while (next() != '\n') {}
      } else if (c == '#' && !words.started()) {
        skip_comment();
      } else if (c == '\n' || c == ';' || c == '|' || c == '&' || c == '(' || c == ')') {
        if (c == '&' && peek(1) == '>') {
          next();
          continue;
        }
        next();
        if (c == '\n') skip_documents();
        break;
      } else if (c == '<' || c == '>') {
        words.drop_number();
        words.finish();
        skip_redirection();
      } else if (!words.started() && may_assign(command.words) && starts_assignment(text_.substr(at_))) {
        assignments.push_back(read_assignment());
      } else {
        if (command.words.empty() && !words.started()) command.line = line_;
        words.start(line_);
        read_piece(words, 0);
      }
    }
    words.finish();
    finish_command(std::move(command), assignments);
  }

  struct Assignment {
    std::string name;
    std::vector<ShellWord> values;
    bool appends = false;
    bool array = false;
  };

  Assignment read_assignment() {
    Assignment assignment;
    while (is_name_character(peek())) assignment.name += next();
    assignment.appends = take("+");
    take("=");
    if (take("(")) {
      assignment.array = true;
      read_array(assignment.values);
      return assignment;
    }
    // A plain value is one word, whatever blanks its expansions contain.
    std::vector<ShellWord> out;
    WordBuilder words(out);
    words.start(line_);
    words.quote();
    in_assignment_ = true;
    while (more() && !is_blank(peek()) && std::string_view("\n;|&()<>").find(peek()) == std::string_view::npos) {
      read_piece(words, 0);
    }
    in_assignment_ = false;
    words.finish();
    ShellWord value{"", {}, line_};
    if (!out.empty()) value = out.front();
    assignment.values.push_back(value);
    return assignment;
  }

  void read_array(std::vector<ShellWord>& out) {
    const int begin = line_;
    WordBuilder words(out);
    while (more() && peek() != ')') {
      const char c = peek();
      const bool continues = c == '\\' && (peek(1) == '\n' || peek(1) == '\r');
      if (is_blank(c) || c == '\n' || continues) {
        words.finish();
        next();
      } else if (c == '#' && !words.started()) {
        skip_comment();
      } else {
        words.start(line_);
        read_piece(words, 0);
      }
    }
    if (!more()) fail(begin, "the bracket of this array is never closed");
    next();
    words.finish();
  }

  void skip_redirection() {
    while (peek() == '<' || peek() == '>' || peek() == '&') {
      if (take("<<<")) break;
      if (take("<<")) {
        take("-");
        std::string end;
        while (is_blank(peek())) next();
        while (more() && !is_blank(peek()) && peek() != '\n' && peek() != ';') {
          const char c = next();
          if (c != '\'' && c != '"' && c != '\\') end += c;
        }
        documents_.push_back(end);
        return;
      }
      next();
    }
    while (is_blank(peek())) next();
    std::vector<ShellWord> target;
    WordBuilder words(target);
    words.start(line_);
    while (more() && !is_blank(peek()) && std::string_view("\n;|&()<>").find(peek()) == std::string_view::npos) {
      read_piece(words, 0);
    }
  }

  // One quote, escape, expansion or plain character.
  void read_piece(WordBuilder& words, int depth) {
    const char c = peek();
    if (c == '\'') {
      read_single(words);
    } else if (c == '"') {
      read_double(words, depth);
    } else if (c == '\\') {
      next();
      if (more()) {
        const char escaped = next();
        if (escaped != '\n') words.add(escaped);
      }
    } else if (c == '$' && peek(1) == '\'') {
      next();
      read_single(words);
    } else if (c == '$' || c == '`') {
      read_expansion(words, false, depth);
    } else {
      words.add(next());
    }
  }

  void read_single(WordBuilder& words) {
    const int begin = line_;
    next();
    words.quote();
    while (more() && peek() != '\'') words.add(next());
    if (!more()) fail(begin, "the quote ' is never closed");
    next();
  }

  void read_double(WordBuilder& words, int depth) {
    const int begin = line_;
    next();
    words.quote();
    while (more() && peek() != '"') {
      const char c = peek();
      if (c == '\\') {
        next();
        if (!more()) break;
        const char escaped = next();
        if (escaped == '\n') continue;
        if (std::string_view("$`\"\\").find(escaped) == std::string_view::npos) words.add('\\');
        words.add(escaped);
      } else if (c == '$' || c == '`') {
        read_expansion(words, true, depth);
      } else {
        words.add(next());
      }
    }
    if (!more()) fail(begin, "the quote \" is never closed");
    next();
  }

  // Text up to the closing bracket that belongs to one already read; quotes are skipped over.
  std::string read_bracketed(char open, char close, int begin) {
    std::string inside;
    int depth = 1;
    while (more()) {
      const char c = next();
      if (c == '\'' || (c == '"' && close != '}')) {
        inside += c;
        while (more() && peek() != c) inside += next();
        if (more()) inside += next();
        continue;
      }
      if (c == open) ++depth;
      if (c == close && --depth == 0) return inside;
      inside += c;
    }
    fail(begin, fmt::format("the bracket {} is never closed", open));
  }

  void read_expansion(WordBuilder& words, bool quoted, int depth) {
    const int begin = line_;
    if (depth > kDeepest) fail(begin, "expansions are nested too deeply");
    if (peek() == '`') {
      next();
      std::string command;
      while (more() && peek() != '`') command += next();
      if (!more()) fail(begin, "the backquote ` is never closed");
      next();
      return words.add(unknown_word("`" + command + "`", begin));
    }
    next();
    if (take("((")) {
      std::string inside = read_bracketed('(', ')', begin);
      if (peek() == ')') next();
      return expand_arithmetic(words, inside, begin);
    }
    if (take("(")) {
      const std::string command = read_bracketed('(', ')', begin);
      return words.add(unknown_word("$(" + command + ")", begin));
    }
    if (take("{")) {
      const std::string inside = read_bracketed('{', '}', begin);
      return expand_braces(words, inside, quoted, depth, begin);
    }
    if (std::string_view("@*").find(peek()) != std::string_view::npos && more()) {
      next();
      return expand_list(words, "@", quoted, begin);
    }
    std::string name;
    if (is_name_start(peek())) {
      while (is_name_character(peek())) name += next();
    } else if (std::isdigit(static_cast<unsigned char>(peek())) != 0 ||
               std::string_view("?#$!-").find(peek()) != std::string_view::npos) {
      if (more()) name += next();
    }
    if (name.empty()) return words.add('$');
    expand_variable(words, name, quoted, begin);
  }

  void count_expanded(std::size_t bytes) {
    expanded_ += bytes;
    if (expanded_ > kMostExpanded) fail(line_, "the script expands to more text than is allowed");
  }

  void add_value(WordBuilder& words, const ShellWord& value, bool quoted) {
    count_expanded(value.text.size() + 1);
    if (quoted || in_assignment_) {
      words.add(value);
    } else {
      words.add_split(value, line_);
    }
  }

  void expand_variable(WordBuilder& words, const std::string& name, bool quoted, int begin) {
    const auto found = script_.variables.find(name);
    if (found == script_.variables.end() || found->second.empty()) {
      return words.add(unknown_word("$" + name, begin));
    }
    add_value(words, found->second.front(), quoted);
  }

  // "${A[@]}": every element a word of its own.
  void expand_list(WordBuilder& words, const std::string& name, bool quoted, int begin) {
    const auto found = script_.variables.find(name);
    if (found == script_.variables.end()) {
      return words.add(unknown_word(name == "@" ? "$@" : "${" + name + "[@]}", begin));
    }
    bool first = true;
    for (const ShellWord& value : std::vector<ShellWord>(found->second)) {
      if (!first) words.end_word(begin);
      first = false;
      add_value(words, value, quoted);
    }
  }

  void expand_arithmetic(WordBuilder& words, const std::string& inside, int begin) {
    const auto number_of = [&](std::string_view name) -> std::optional<std::int64_t> {
      const auto found = script_.variables.find(name);
      if (found == script_.variables.end() || found->second.empty()) return std::nullopt;
      return evaluate_arithmetic(found->second.front().text,
                                 [](std::string_view) { return std::optional<std::int64_t>(); });
    };
    if (const auto value = evaluate_arithmetic(inside, number_of)) {
      return words.add({fmt::format("{}", *value), {}, begin});
    }
    words.add(unknown_word("$((" + inside + "))", begin));
  }

  // NAME, NAME[@], NAME:-default, NAME:=default, NAME:+other; anything else is unknown.
  void expand_braces(WordBuilder& words, const std::string& inside, bool quoted, int depth, int begin) {
    std::size_t end = 0;
    while (end < inside.size() && is_name_character(inside[end])) ++end;
    const std::string name = inside.substr(0, end);
    std::string_view rest = std::string_view(inside).substr(end);
    if (!name.empty() && rest.empty()) return expand_variable(words, name, quoted, begin);
    if (!name.empty() && (rest == "[@]" || rest == "[*]")) return expand_list(words, name, quoted, begin);
    if (name.empty() && (inside == "@" || inside == "*")) return expand_list(words, "@", quoted, begin);
    const bool colon = rest.starts_with(':');
    if (colon) rest.remove_prefix(1);
    const char kind = rest.empty() ? '\0' : rest.front();
    if (name.empty() || std::string_view("-=+").find(kind) == std::string_view::npos || kind == '\0') {
      return words.add(unknown_word("${" + inside + "}", begin));
    }
    const auto found = script_.variables.find(name);
    const bool set =
        found != script_.variables.end() && !found->second.empty() && (!colon || !found->second.front().text.empty());
    if (uncertain_.contains(name)) return words.add(unknown_word("$" + name, begin));
    const ShellWord otherwise = expand_text(std::string(rest.substr(1)), depth + 1);
    if (kind == '+') {
      if (set) add_value(words, otherwise, quoted);
      return;
    }
    if (set) return add_value(words, found->second.front(), quoted);
    if (kind == '=') script_.variables[name] = {otherwise};
    add_value(words, otherwise, quoted);
  }

  // The text of a default value, expanded as one word.
  ShellWord expand_text(const std::string& text, int depth) {
    if (depth > kDeepest) fail(line_, "expansions are nested too deeply");
    count_expanded(text.size() + 1);
    const std::string_view outer = text_;
    const std::size_t at = at_;
    const int line = line_;
    std::vector<ShellWord> out;
    WordBuilder words(out);
    text_ = text;
    at_ = 0;
    const bool assignment = in_assignment_;
    in_assignment_ = true;
    words.start(line);
    words.quote();
    while (more()) read_piece(words, depth);
    words.finish();
    in_assignment_ = assignment;
    text_ = outer;
    at_ = at;
    line_ = line;
    return out.empty() ? ShellWord{"", {}, line} : out.front();
  }

  // Words that only give a program structure.
  void strip_keywords(ShellCommand& command) {
    while (!command.words.empty()) {
      const std::string& first = command.words.front().text;
      if (opens_block(first)) {
        ++nesting_;
      } else if (closes_block(first)) {
        nesting_ = std::max(0, nesting_ - 1);
      } else if (!is_structure(first)) {
        break;
      }
      const bool loop = first == "for" || first == "case" || first == "select";
      command.words.erase(command.words.begin());
      if (loop) command.words.clear();
    }
  }

  void assign(const Assignment& assignment) {
    if (nesting_ > 0) {  // may not happen
      script_.variables.erase(assignment.name);
      uncertain_.insert(assignment.name);
      return;
    }
    std::vector<ShellWord>& value = script_.variables[assignment.name];
    if (!assignment.appends) {
      value = assignment.values;
    } else if (assignment.array || value.empty()) {
      value.insert(value.end(), assignment.values.begin(), assignment.values.end());
    } else {
      count_expanded(value.front().text.size());
      value.front().text += assignment.values.front().text;
      const auto& unknown = assignment.values.front().unknown;
      value.front().unknown.insert(value.front().unknown.end(), unknown.begin(), unknown.end());
    }
    if (!assignment.appends) uncertain_.erase(assignment.name);
  }

  void finish_command(ShellCommand command, const std::vector<Assignment>& assignments) {
    strip_keywords(command);
    if (command.words.empty()) {
      for (const Assignment& assignment : assignments) assign(assignment);
      return;
    }
    const std::string& program = command.words.front().text;
    if (declares_variables(program)) {
      for (const Assignment& assignment : assignments) assign(assignment);
      return;
    }
    if (program == "set" && command.words.size() > 1 && command.words[1].text == "--") {
      script_.variables["@"] = std::vector<ShellWord>(command.words.begin() + 2, command.words.end());
      return;
    }
    script_.commands.push_back(std::move(command));
  }

  std::string_view source_;
  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  int nesting_ = 0;
  bool in_assignment_ = false;
  std::size_t expanded_ = 0;
  std::vector<std::string> documents_;
  std::set<std::string, std::less<>> uncertain_;  // set where it may not happen
  ShellScript script_;
};

}  // namespace

ShellScript read_shell(std::string_view source, std::string_view text, const ShellVariables& variables) {
  return ShellReader(source, text, variables).run();
}

}  // namespace nest::launch
