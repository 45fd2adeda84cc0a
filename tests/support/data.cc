#include "test_support/data.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace nest::test {

std::filesystem::path source_dir() { return NEST_SOURCE_DIR; }

std::filesystem::path data_dir() {
  const char* named = std::getenv("NEST_DATA");
  return named && *named ? std::filesystem::path(named) : source_dir() / ".." / "shared" / "data";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Document read_json(const std::filesystem::path& path) {
  return doc::parse_json(path.filename().string(), read_file(path));
}

}  // namespace nest::test
