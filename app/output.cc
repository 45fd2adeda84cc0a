#include "output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace nest {
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

void write_file_atomically(const std::string& path, std::string_view text) {
  const auto fail = [&](int reason) {
    throw InputError(fmt::format("{}: cannot be written: {}", path, std::strerror(reason)));
  };
  struct stat about {};
  const bool special = ::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode);
  std::string beside = path + ".XXXXXX";
  const int descriptor = special ? ::open(path.c_str(), O_WRONLY | O_CLOEXEC) : ::mkostemp(beside.data(), O_CLOEXEC);
  if (descriptor < 0) fail(errno);
  int failed = write_all(descriptor, text);
  if (!special && failed == 0) {
    const mode_t mask = ::umask(0);  // mkstemp gives a private file; a result is an ordinary one
    ::umask(mask);
    if (::fchmod(descriptor, 0666 & ~mask) != 0 || ::fsync(descriptor) != 0) failed = errno;
  }
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

}  // namespace nest
