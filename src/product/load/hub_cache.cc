#include "load/hub_cache.h"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/text.h"
#include "load/input.h"

namespace nest::load {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As the hub names organisations, models and commits.
bool is_hub_word(std::string_view part) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  constexpr std::size_t kLongest = 96;
  return !part.empty() && part.size() <= kLongest && part.front() != '.' &&
         part.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

}  // namespace

bool looks_like_hub_name(std::string_view word) {
  const std::size_t slash = word.find('/');
  return slash != std::string_view::npos && is_hub_word(word.substr(0, slash)) && is_hub_word(word.substr(slash + 1)) &&
         !word.ends_with(".json") && !word.ends_with(".onnx");
}

std::string hub_cache() {
  if (std::string own = variable("HF_HUB_CACHE"); !own.empty()) return own;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return (fs::path(home) / "hub").string();
  fs::path cache = variable("XDG_CACHE_HOME");
  if (const std::string home = variable("HOME"); cache.empty() && !home.empty()) cache = fs::path(home) / ".cache";
  return cache.empty() ? "" : (cache / "huggingface" / "hub").string();
}

std::string find_in_hub_cache(std::string_view name) {
  const std::string cache = hub_cache();
  if (cache.empty() || !looks_like_hub_name(name)) return {};
  const std::size_t slash = name.find('/');
  std::string own = "models--";
  own.append(name.substr(0, slash)).append("--").append(name.substr(slash + 1));
  const fs::path folder = fs::path(cache) / own;
  if (const fs::path main = folder / "refs" / "main"; is_file(main)) {
    const std::string text = read_text(Input(main.string()));
    const std::string_view commit = trim(text);
    const fs::path config = folder / "snapshots" / commit / "config.json";
    return is_hub_word(commit) && is_file(config) ? config.string() : "";
  }
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::directory_entry& snapshot : fs::directory_iterator(folder / "snapshots", ignored)) {
    const fs::path config = snapshot.path() / "config.json";
    if (is_file(config)) found.push_back(config.string());
  }
  return found.size() == 1 ? found.front() : "";
}

}  // namespace nest::load
