#include "output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

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

void write_file_atomically(const std::string& path, std::string_view text) {
  const auto fail = [&](int reason) {
    throw InputError(fmt::format("{}: cannot be written: {}", path, std::strerror(reason)));
  };
  struct stat about {};
  const bool special = ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
  std::string beside;
  int descriptor = -1;
  if (special) {
    descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    beside = make_beside(path, [&](const char* name) {
      descriptor = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      return descriptor >= 0;
    });
  }
  if (descriptor < 0) fail(errno);
  int failed = write_all(descriptor, text);
  if (!special && failed == 0 && ::fsync(descriptor) != 0) failed = errno;
  if (::close(descriptor) != 0 && failed == 0) failed = errno;
  if (special) {
    if (failed != 0) fail(failed);
    return;
  }
  if (failed == 0 && ::rename(beside.c_str(), path.c_str()) != 0) failed = errno;
  if (failed == 0) return;
  ::unlink(beside.c_str());
  fail(failed);
}

void write_stderr(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, text)); }

}  // namespace nest::app
