#include "new_folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "nest/error.h"
#include "output.h"

namespace nest::app {

namespace fs = std::filesystem;

NewFolder::NewFolder(const std::string& path) : path_(path) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
  std::error_code error;
  if (fs::exists(path_, error) && (!fs::is_directory(path_, error) || !fs::is_empty(path_, error))) {
    throw InputError(fmt::format("{}: is there already; -o names a folder that is new or empty", path_));
  }
  bool made = false;
  beside_ = make_beside(path_, [&](const char* name) { return made = ::mkdir(name, 0777) == 0; });
  if (!made) {
    beside_.clear();
    fail(errno);
  }
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!beside_.empty()) fs::remove_all(beside_, ignored);
}

void NewFolder::write(const std::string& name, const std::string& content) const {
  if (PatientSignals::came()) {
    std::error_code ignored;
    fs::remove_all(beside_, ignored);
    PatientSignals::obey();
  }
  errno = 0;
  std::ofstream file(fs::path(beside_) / name, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) fail(errno != 0 ? errno : EIO);  // streams need not say why
}

void NewFolder::complete() {
  if (::rename(beside_.c_str(), path_.c_str()) != 0) fail(errno);
  beside_.clear();
}

void NewFolder::fail(int reason) const {
  throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(reason)));
}

}  // namespace nest::app
