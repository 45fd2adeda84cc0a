#include "output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {
namespace {

// 0, or the errno of the write that failed.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

bool use_color(ColorMode mode) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  return environment("NO_COLOR").empty() && environment("TERM") != "dumb" && ::isatty(STDOUT_FILENO) == 1;
}

void write_stdout(std::string_view text) {
  const int failed = write_all(STDOUT_FILENO, text);
  if (failed != 0 && failed != EPIPE) {
    throw InputError(fmt::format("cannot write to standard output: {}", std::strerror(failed)));
  }
}

std::string make_beside(const std::string& path, const std::function<bool(const char*)>& make) {
  constexpr int kAttempts = 100;
  std::string name;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    name = fmt::format("{}.{}-{}", path, ::getpid(), attempt);
    if (make(name.c_str()) || errno != EEXIST) break;
  }
  return name;
}

std::string stem_of(const std::string& path) { return clip(std::filesystem::path(path).stem().string(), 60); }

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  struct stat about {};
  const bool special = ::stat(path_.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
  if (special) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    beside_ = make_beside(path_, [&](const char* name) {
      descriptor_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      return descriptor_ >= 0;
    });
  }
  if (descriptor_ >= 0) return;
  const int reason = errno;
  beside_.clear();
  fail(reason);
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (!beside_.empty()) ::unlink(beside_.c_str());
}

void FileWriter::fail(int reason) {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
  if (!beside_.empty()) ::unlink(beside_.c_str());
  throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(reason)));
}

void FileWriter::write(std::string_view text) {
  if (const int failed = write_all(descriptor_, text); failed != 0) fail(failed);
}

void FileWriter::finish() {
  if (!beside_.empty() && ::fsync(descriptor_) != 0) fail(errno);
  const int closed = ::close(descriptor_) == 0 ? 0 : errno;
  descriptor_ = -1;
  if (closed != 0) fail(closed);
  if (!beside_.empty() && ::rename(beside_.c_str(), path_.c_str()) != 0) fail(errno);
}

void write_file_atomically(const std::string& path, std::string_view text) {
  FileWriter file(path);
  file.write(text);
  file.finish();
}

void write_stderr(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

}  // namespace nest::app
