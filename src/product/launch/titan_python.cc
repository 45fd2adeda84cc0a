#include "launch/titan_python.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "launch/titan_main.h"

namespace nest::launch {
namespace {

constexpr int kMostNested = 16;  // lists within lists

enum class PythonKind : std::uint8_t { name, number, text, mark, line };

struct PythonToken {
  PythonKind kind;
  std::string text;
  int line;
  bool indented = false;  // stands in a line that begins with blanks
};

bool is_python_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (static_cast<unsigned char>(c) & 0x80U) != 0;
}

// Names with their dots are one token; ends of lines count outside of brackets alone.
class PythonLexer {
 public:
  explicit PythonLexer(std::string_view text) : text_(text) {}

  std::vector<PythonToken> run() {
    while (at_ < text_.size()) step();
    add(PythonKind::line, "");
    return std::move(tokens_);
  }

 private:
  void add(PythonKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_, indented_}); }

  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      if (depth_ == 0) add(PythonKind::line, "");
      ++line_;
      ++at_;
      indented_ = at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t');
    } else if (c == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == '"' || c == '\'') {
      quoted(c);
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      word(PythonKind::number);
    } else if (is_python_letter(c)) {
      word(PythonKind::name);
    } else {
      if (c == '(' || c == '[' || c == '{') ++depth_;
      if (c == ')' || c == ']' || c == '}') depth_ = std::max(0, depth_ - 1);
      if (std::isspace(static_cast<unsigned char>(c)) == 0) add(PythonKind::mark, std::string(1, c));
      ++at_;
    }
  }

  void word(PythonKind kind) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_python_letter(text_[at_]) || text_[at_] == '.')) ++at_;
    std::string word(text_.substr(begin, at_ - begin));
    if (kind == PythonKind::number) std::erase(word, '_');  // 16_384
    add(kind, std::move(word));
  }

  void quoted(char quote) {
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_).starts_with(three);
    at_ += is_long ? 3 : 1;
    std::string text;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (is_long ? text_.substr(at_).starts_with(three) : c == quote || c == '\n') break;
      if (c == '\n') ++line_;
      if (c == '\\' && at_ + 1 < text_.size()) ++at_;
      text += text_[at_];
    }
    if (at_ < text_.size() && text_[at_] != '\n') at_ += is_long ? 3 : 1;
    at_ = std::min(at_, text_.size());
    add(PythonKind::text, text);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  bool indented_ = false;
  std::vector<PythonToken> tokens_;
};

std::string toml_text(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + "\"";
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

class PythonConfig {
 public:
  PythonConfig(std::string_view source, std::vector<PythonToken> tokens)
      : source_(source), tokens_(std::move(tokens)) {}

  TitanSections run() {
    while (at_ < tokens_.size()) statement();
    if (!registered_.empty()) {
      Settings& model = sections_["model"];
      model.erase("converters");
      registered_.merge(model);
      model = std::move(registered_);
    }
    return std::move(sections_);
  }

 private:
  using Settings = std::map<std::string, std::string>;

  const PythonToken& token(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is_mark(char c, std::size_t ahead = 0) const {
    return token(ahead).kind == PythonKind::mark && token(ahead).text[0] == c;
  }

  // One token, or what begins with it.
  void statement() {
    if (token().kind != PythonKind::name) {
      ++at_;
      return;
    }
    const std::string name = token().text;
    note_module(name);
    if (is_mark('=', 1) && !is_mark('=', 2)) {
      at_ += 2;
      assign(name);
    } else if (is_mark('(', 1)) {
      at_ += 2;
      call(name);
    } else {
      ++at_;
    }
  }

  // torchtitan.models.llama3, torchtitan.experiments.graph_trainer.llama3
  void note_module(const std::string& name) {
    for (const std::string_view prefix : {"torchtitan.models.", "torchtitan.experiments.graph_trainer."}) {
      if (!name.starts_with(prefix)) continue;
      const std::string rest = name.substr(prefix.size());
      const std::string module = rest.substr(0, rest.find('.'));
      if (module != "common" && module != "configs") sections_["model"]["name"] = toml_text(module);
    }
  }

  // config.parallelism.tensor_parallel_degree = 4, or activation_checkpoint=None inside of a call.
  void assign(const std::string& name) {
    const std::string key = last_part(name);
    if (key == "activation_checkpoint") {
      if (token().text == "None") sections_["activation_checkpoint"]["mode"] = "\"none\"";
      return;  // a policy is a call
    }
    const std::size_t end = name.rfind('.');
    if (end == std::string::npos || end == 0) return;
    const std::string section = last_part(name.substr(0, end));
    if (section == "parallelism" || section == "training" || section == "compile") set(section, key);
  }

  void set(const std::string& section, const std::string& key) {
    const int line = token().line;
    const std::size_t begin = at_;
    const std::optional<std::string> value = literal(0);
    const bool whole = value && (is_mark(',') || is_mark(')') || token().kind == PythonKind::line);
    if (!whole) {
      if (section == "parallelism" || key.starts_with("num_tokens") || key == "max_context_length") {
        throw InputError(fmt::format("{}: line {}: {}.{} is no literal; write its value", source_, line, section, key));
      }
      at_ = begin;
      sections_[section].erase(key);
    } else if (*value == "None") {
      sections_[section].erase(key);
    } else {
      sections_[section][key] = *value;
    }
  }

  // As TOML writes it; "None" for None.
  std::optional<std::string> literal(int depth) {
    if (token().kind == PythonKind::text) return toml_text(tokens_[at_++].text);
    if (token().kind == PythonKind::name) return constant();
    if (is_mark('[') && depth < kMostNested) return list(depth);
    return product();
  }

  std::optional<std::string> constant() {
    const std::string& name = token().text;
    if (name != "True" && name != "False" && name != "None") return std::nullopt;
    ++at_;
    return name == "None" ? name : to_lower(name);
  }

  std::optional<std::string> list(int depth) {
    std::vector<std::string> items;
    ++at_;
    while (!is_mark(']')) {
      const std::optional<std::string> item = literal(depth + 1);
      if (!item) return std::nullopt;
      items.push_back(*item);
      if (is_mark(','))
        ++at_;
      else if (!is_mark(']'))
        return std::nullopt;
    }
    ++at_;
    return fmt::format("[{}]", fmt::join(items, ", "));
  }

  std::optional<std::string> product() {
    const bool negative = is_mark('-');
    if (negative) ++at_;
    std::int64_t value = negative ? -1 : 1;
    for (;;) {
      if (token().kind != PythonKind::number) return std::nullopt;
      const std::string& text = token().text;
      std::int64_t factor = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
      if (error != std::errc() || end != text.data() + text.size()) {
        if (value != 1) return std::nullopt;
        return tokens_[at_++].text;  // 0.5
      }
      value = checked_product({value, factor});
      ++at_;
      if (!is_mark('*')) return std::to_string(value);
      ++at_;
    }
  }

  void call(const std::string& name) {
    const std::string what = last_part(name);
    if (what == "ParallelismConfig" || what == "TrainingConfig" || what == "CompileConfig" ||
        what == "GraphTrainerCompileConfig") {
      const std::string section = what == "ParallelismConfig" ? "parallelism"
                                  : what == "TrainingConfig"  ? "training"
                                                              : "compile";
      sections_[section].clear();
      arguments(section);
    } else if (what == "replace" && token().kind == PythonKind::name) {
      const std::string section = last_part(token().text);
      if (section == "training" || section == "parallelism" || section == "compile") arguments(section);
    } else if (what == "model_registry" && token().kind == PythonKind::text) {
      registered_ = {{"flavor", toml_text(token().text)}};
    } else if (what == "Config") {
      policy(name);
    } else if (const TitanSections base = titan_main_config(what); !base.empty()) {
      sections_ = base;
    }
  }

  void policy(const std::string& name) {
    const std::string owner = name.substr(0, name.find('.'));
    if (owner == "Float8LinearConverter" || owner == "MXFP8LinearConverter") {
      registered_["converters"] = "[\"quantize.linear.float8\"]";
    }
    const char* const mode = owner == "FullAC"           ? "full"
                             : owner == "SelectiveAC"    ? "selective"
                             : owner == "MemoryBudgetAC" ? "memory_budget"
                                                         : nullptr;
    if (mode != nullptr) sections_["activation_checkpoint"]["mode"] = toml_text(mode);
  }

  // key=value, … up to the bracket that closes the call.
  void arguments(const std::string& section) {
    while (token().kind != PythonKind::line && !is_mark(')')) {
      if (token().kind == PythonKind::name && is_mark('=', 1)) {
        const std::string key = token().text;
        at_ += 2;
        set(section, key);
      }
      skip_argument();
      if (is_mark(',')) ++at_;
    }
  }

  void skip_argument() {
    int depth = 0;
    for (; token().kind != PythonKind::line; ++at_) {
      if (depth == 0 && (is_mark(',') || is_mark(')'))) return;
      if (is_mark('(') || is_mark('[') || is_mark('{')) ++depth;
      if (is_mark(')') || is_mark(']') || is_mark('}')) --depth;
    }
  }

  std::string source_;
  std::vector<PythonToken> tokens_;
  std::size_t at_ = 0;
  TitanSections sections_;
  Settings
      registered_;  // what model_registry was asked for, before or after the configuration that it replaces a part of
};

// Beginnings of functions that stand at the margin.
struct PythonFunction {
  std::string name;
  std::size_t begin, end;
};

std::vector<PythonFunction> functions_of(const std::vector<PythonToken>& tokens) {
  std::vector<PythonFunction> found;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].kind != PythonKind::name || tokens[i].indented || tokens[i].text != "def") continue;
    if (!found.empty()) found.back().end = i;
    found.push_back({tokens[i + 1].text, i, tokens.size()});
  }
  return found;
}

std::int64_t whole_number(const TitanSections& sections, const char* section, const char* key, std::int64_t otherwise) {
  const auto part = sections.find(section);
  if (part == sections.end()) return otherwise;
  const auto found = part->second.find(key);
  if (found == part->second.end()) return otherwise;
  std::int64_t value = otherwise;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

}  // namespace

bool looks_like_titan_python(std::string_view text) {
  return text.find("torchtitan") != text.npos && text.find("Trainer.Config") != text.npos &&
         text.find("def ") != text.npos;
}

TitanSections read_titan_python(std::string_view source, std::string_view text, std::string_view config) {
  std::vector<PythonToken> tokens = PythonLexer(text).run();
  const std::vector<PythonFunction> functions = functions_of(tokens);
  std::vector<std::string> names;
  names.reserve(functions.size());
  const PythonFunction* chosen = nullptr;
  for (const PythonFunction& one : functions) {
    names.push_back(one.name);
    if (config.empty() ? functions.size() == 1 : one.name == config) chosen = &one;
  }
  if (chosen == nullptr) {
    throw InputError(names.empty() ? fmt::format("{}: no function there returns a configuration", source)
                                   : fmt::format("{}: configurations are {}; name one: --config {}", source,
                                                 join_words(names), names.front()));
  }
  // What stands before all functions (imports) and the function itself.
  std::vector<PythonToken> own(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(functions.front().begin));
  own.insert(own.end(), tokens.begin() + static_cast<std::ptrdiff_t>(chosen->begin),
             tokens.begin() + static_cast<std::ptrdiff_t>(chosen->end));
  own.push_back({PythonKind::line, "", 0});
  return PythonConfig(source, std::move(own)).run();
}

TitanSections titan_main_config(std::string_view name) {
  TitanSections sections;
  for (const TitanMainConfig& known : kTitanMainConfigs) {
    if (name != known.name) continue;
    sections["model"] = {{"name", toml_text(known.module)}, {"flavor", toml_text(known.flavor)}};
    if (known.float8) sections["model"]["converters"] = "[\"quantize.linear.float8\"]";
    sections["training"] = {{"num_tokens_per_microbatch_per_dp_rank", std::to_string(known.sequences * known.context)},
                            {"max_context_length", std::to_string(known.context)}};
    sections["parallelism"] = {{"tensor_parallel_degree", std::to_string(known.tensor)},
                               {"expert_parallel_degree", std::to_string(known.expert)},
                               {"pipeline_parallel_schedule", toml_text(known.schedule)}};
    sections["activation_checkpoint"]["mode"] = toml_text(known.recompute);
    if (*known.compiled != 0) {
      sections["compile"] = {{"enable", "true"}, {"components", fmt::format("[{}]", known.compiled)}};
    }
    if (known.async_tensors) sections["compile"]["enable_async_tensor_parallel"] = "true";
  }
  return sections;
}

std::string titan_toml(std::string_view source, TitanSections sections) {
  auto& training = sections["training"];
  auto& parallel = sections["parallelism"];
  const std::int64_t context = whole_number(sections, "training", "max_context_length", 2048);
  const std::int64_t tokens = whole_number(sections, "training", "num_tokens_per_microbatch_per_dp_rank", 16384);
  const std::int64_t step = whole_number(sections, "training", "num_tokens_per_train_step", -1);
  const bool pipeline = whole_number(sections, "parallelism", "pipeline_parallel_degree", 1) > 1;
  const std::int64_t rounds = pipeline ? whole_number(sections, "parallelism", "num_pp_microbatches", 1) : 1;
  if (context < 1 || tokens < 1 || rounds < 1 || tokens % context != 0 || (step > 0 && step % context != 0)) {
    throw InputError(fmt::format("{}: micro-batches of {} tokens and steps of {} are no whole sequences of {}", source,
                                 tokens, step, context));
  }
  training["local_batch_size"] = std::to_string(checked_product({tokens / context, rounds}));
  training["seq_len"] = std::to_string(context);
  if (step > 0) training["global_batch_size"] = std::to_string(step / context);
  if (pipeline) parallel["pipeline_parallel_microbatch_size"] = std::to_string(tokens / context);
  if (const auto overlap = sections["compile"].find("enable_async_tensor_parallel");
      overlap != sections["compile"].end()) {
    parallel["enable_async_tensor_parallel"] = overlap->second;
  }
  if (const auto policy = sections["compile"].find("memory_policy"); policy != sections["compile"].end()) {
    sections["activation_checkpoint"]["mode"] = policy->second == "\"full\"" ? policy->second : "\"selective\"";
  }
  if (const auto& mode = sections["activation_checkpoint"]["mode"]; mode.empty() || mode == "\"selective\"") {
    sections["activation_checkpoint"] = {{"mode", "\"selective\""}, {"selective_ac_option", "\"op\""}};
  }
  std::string text;
  for (const auto& [section, keys] : sections) {
    text += fmt::format("[{}]\n", section);
    for (const auto& [key, value] : keys) text += fmt::format("{} = {}\n", key, value);
  }
  return text;
}

}  // namespace nest::launch
