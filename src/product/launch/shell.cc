#include "launch/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "launch/arithmetic.h"
#include "launch/shell_blocks.h"
#include "launch/shell_keywords.h"
#include "launch/text_cursor.h"
#include "launch/word_builder.h"

namespace nest::launch {
namespace {

constexpr std::size_t kMostText = 1U << 20U;  // of a script, and of all that it expands to
constexpr std::size_t kMostExpanded = 4U << 20U;
constexpr int kDeepest = 32;

class ShellReader : TextCursor {
 public:
  // `expanded` counts for all files that one script reads.
  ShellReader(std::string_view source, std::string_view text, const ShellContext& context, int depth,
              std::size_t& expanded)
      : TextCursor(source, text), context_(context), depth_(depth), expanded_(expanded) {
    script_.variables = context.variables;
    for (const auto& [name, values] : context.variables) {
      std::size_t bytes = name.size();
      for (const ShellWord& value : values) bytes += value.text.size() + 1;
      if (depth > 0) count_expanded(bytes);
    }
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

  // One simple command up to its separator.
  void read_command() {
    ShellCommand command;
    command.line = line_;
    WordBuilder words(command.words);
    MayAssign may_assign;
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
        if (c == '\n') documents_ = read_documents(std::exchange(announced_, {}));
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
        HereDocument document;
        while (is_blank(peek())) next();
        while (more() && !is_blank(peek()) && peek() != '\n' && peek() != ';') {
          const char c = next();
          if (c != '\'' && c != '"' && c != '\\') {
            document.end += c;
          } else {
            document.quoted = true;
          }
        }
        announced_.push_back(std::move(document));
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
    count_expanded(value.text.size() + 1 + value.unknown.size());
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

  // "${A[@]}": every element a word of its own; in the value of a variable, which is one word, blanks stand between them.
  void expand_list(WordBuilder& words, const std::string& name, bool quoted, int begin) {
    const auto found = script_.variables.find(name);
    if (found == script_.variables.end()) {
      return words.add(unknown_word(name == "@" ? "$@" : "${" + name + "[@]}", begin));
    }
    bool first = true;
    if (found->second.empty()) words.unquote();  // "${A[@]}" of none is no word
    for (const ShellWord& value : std::vector<ShellWord>(found->second)) {
      if (!first && in_assignment_) words.add(' ');
      if (!first && !in_assignment_) words.end_word(begin);
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
    std::size_t count = 0;
    while (count < command.words.size()) {
      const std::string& word = command.words[count].text;
      if (!opens_block(word) && !closes_block(word) && !is_structure(word)) break;
      blocks_.see(word);
      const bool loop = word == "for" || word == "case" || word == "select";
      count = loop ? command.words.size() : count + 1;
    }
    command.words.erase(command.words.begin(), command.words.begin() + static_cast<std::ptrdiff_t>(count));
    if (!command.words.empty()) blocks_.see_command(command.words);
  }

  void assign(const Assignment& assignment) {
    if (blocks_.is_skipped() || context_.fixed.contains(assignment.name)) return;
    if (!blocks_.is_certain()) {  // may not happen
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
    if (command.words.empty() || command.words.front().text != "sbatch") documents_.clear();
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
    if (blocks_.is_skipped()) return;
    if (program == "source" || program == ".") return read_source(command);
    if (program == "sbatch") {
      for (const std::string& document : std::exchange(documents_, {})) {
        take_script(ShellReader(source_, document, inner_context(), depth_ + 1, expanded_).run());
      }
    }
    script_.commands.push_back(std::move(command));
  }

  ShellContext inner_context() const { return {script_.variables, context_.fixed, context_.read_file}; }

  void take_script(ShellScript read) {
    for (ShellWord& word : read.sbatch) script_.sbatch.push_back(std::move(word));
    for (ShellCommand& each : read.commands) script_.commands.push_back(std::move(each));
  }

  // What another file sets and runs, where it can be read.
  void read_source(const ShellCommand& command) {
    constexpr int kDeepestFiles = 8;
    if (command.words.size() < 2 || !command.words[1].unknown.empty() || !context_.read_file) return;
    const std::string& name = command.words[1].text;
    const std::optional<std::string> text = context_.read_file(name);
    if (!text) return;
    if (depth_ >= kDeepestFiles) fail(command.line, fmt::format("{} is read by files that it reads", clip(name, 60)));
    count_expanded(text->size());
    ShellScript read = ShellReader(name, *text, inner_context(), depth_ + 1, expanded_).run();
    for (auto& [variable, value] : read.variables) {
      const auto known = script_.variables.find(variable);
      const auto same = [](const ShellWord& a, const ShellWord& b) { return a.text == b.text; };
      if (known != script_.variables.end() &&
          std::equal(known->second.begin(), known->second.end(), value.begin(), value.end(), same)) {
        continue;
      }
      assign({variable, std::move(value), false, true});
    }
    take_script(std::move(read));
  }

  const ShellContext& context_;
  int depth_;  // of files that read files
  ShellBlocks blocks_;
  bool in_assignment_ = false;
  std::size_t& expanded_;
  std::vector<HereDocument> announced_;           // by the line that is read
  std::vector<std::string> documents_;            // of the command that is read
  std::set<std::string, std::less<>> uncertain_;  // set where it may not happen
  ShellScript script_;
};

}  // namespace

ShellScript read_shell(std::string_view source, std::string_view text, const ShellContext& context) {
  std::size_t expanded = 0;
  return ShellReader(source, text, context, 0, expanded).run();
}

ShellScript read_shell(std::string_view source, std::string_view text, const ShellVariables& variables) {
  return read_shell(source, text, ShellContext{variables, {}, {}});
}

}  // namespace nest::launch
