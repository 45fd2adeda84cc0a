#include "load/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace nest::load {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ > STDERR_FILENO) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void fail_read(const std::string& path, int error) {
  throw InputError(fmt::format("{}: cannot be read: {}", source_name(path), std::strerror(error)));
}

}  // namespace

std::string source_name(const Input& input) {
  return input.name == "-" && !input.text ? "standard input" : clip(input.name, 200);
}

std::string file_stem(const std::string& path) { return clip(std::filesystem::path(path).stem().string(), 60); }

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool path_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

bool looks_like_path(const std::string& word) {
  static constexpr std::array<std::string_view, 4> kEndings = {".json", ".yaml", ".yml", ".onnx"};
  if (word.find('/') != std::string::npos) return true;
  for (const std::string_view ending : kEndings) {
    if (word.size() > ending.size() && word.ends_with(ending)) return true;
  }
  return false;
}

std::string read_text(const Input& input, const doc::Limits& limits) {
  const std::string& path = input.name;
  const auto refuse_size = [&](std::size_t bytes) {
    if (bytes <= limits.bytes) return;
    throw InputError(fmt::format("{}: is larger than {}, the most that nest reads", source_name(input),
                                 format_bytes(static_cast<std::int64_t>(limits.bytes))));
  };
  if (input.text) {
    refuse_size(input.text->size());
    return *input.text;
  }
  if (path != "-" && is_folder(path)) throw InputError(fmt::format("{}: is a folder, not a file", source_name(path)));
  const Descriptor file(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) fail_read(path, errno);
  std::string text;
  std::array<char, 1U << 16U> block;
  for (;;) {
    const ssize_t got = ::read(file.number(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_read(path, errno);
    if (got == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(got));
    refuse_size(text.size());
  }
}

}  // namespace nest::load
