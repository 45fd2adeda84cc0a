#include "output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
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

// Files that arguments name, and how often.
std::map<std::pair<dev_t, ino_t>, int>& named_files() {
  static std::map<std::pair<dev_t, ino_t>, int> files;
  return files;
}

bool& has_inks() {
  static bool inked = false;
  return inked;
}

// The plain file that a path leads to, through links.
std::string followed(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  return failed ? path : real.string();
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

std::size_t stderr_columns() {
  constexpr std::size_t kNarrowest = 40;
  winsize size{};
  if (::isatty(STDERR_FILENO) != 1 || ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
  return std::max<std::size_t>(kNarrowest, size.ws_col);
}

void show_inks(bool inked) { has_inks() = inked; }

void write_stdout(std::string_view text) {
  const int failed = write_all(STDOUT_FILENO, printable(text, has_inks()));
  if (failed != 0 && failed != EPIPE) {
    throw InputError(fmt::format("cannot write to standard output: {}", std::strerror(failed)));
  }
}

void watch_arguments(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.find('=');
    const std::string_view path =
        word.starts_with('-') && equals != std::string_view::npos ? word.substr(equals + 1) : word;
    struct stat about {};
    if (!path.empty() && ::stat(std::string(path).c_str(), &about) == 0 && S_ISREG(about.st_mode)) {
      ++named_files()[{about.st_dev, about.st_ino}];
    }
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
  if (path_ == "-") throw InputError("-: is no file to write to; ./- is one of that name");
  struct stat about {};
  const bool there = ::stat(path_.c_str(), &about) == 0;
  if (there && !S_ISREG(about.st_mode)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
    return;
  }
  if (const auto named = named_files().find({about.st_dev, about.st_ino});
      there && named != named_files().end() && named->second > 1) {
    throw InputError(fmt::format("{}: is named twice on the command line, to be read or written; name another file",
                                 clip(path_, 200)));
  }
  target_ = there ? followed(path_) : path_;  // what a link leads to
  signals_.emplace();
  const mode_t mode = there ? about.st_mode & 0777U : 0666U;
  beside_ = make_beside(target_, [&](const char* name) {
    descriptor_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    return descriptor_ >= 0;
  });
  if (descriptor_ < 0) {
    const int reason = errno;
    beside_.clear();
    fail(reason);
  }
  // Whoever could not read the old file cannot read the new one.
  if (there && ::fchmod(descriptor_, mode) != 0) fail(errno);
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
  throw InputError(fmt::format("{}: cannot be written: {}", clip(path_, 200), std::strerror(reason)));
}

void FileWriter::write(std::string_view text) {
  if (signals_ && PatientSignals::came()) {
    ::unlink(beside_.c_str());
    PatientSignals::obey();
  }
  if (const int failed = write_all(descriptor_, printable(text)); failed != 0) fail(failed);
}

void FileWriter::finish() {
  if (!beside_.empty() && ::fsync(descriptor_) != 0) fail(errno);
  const int closed = ::close(descriptor_) == 0 ? 0 : errno;
  descriptor_ = -1;
  if (closed != 0) fail(closed);
  if (!beside_.empty() && ::rename(beside_.c_str(), target_.c_str()) != 0) fail(errno);
}

void write_file_atomically(const std::string& path, std::string_view text) {
  FileWriter file(path);
  file.write(text);
  file.finish();
}

void write_stderr(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, printable(text))); }

void write_progress(std::string_view text) { static_cast<void>(write_all(STDERR_FILENO, "\r" + printable(text))); }

}  // namespace nest::app
