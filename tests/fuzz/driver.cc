// Runs a fuzz target without libFuzzer: every file of the corpus, then 20,000 seeded mutations of them ($NEST_TEST_SCALE times that),
// each with a bound on time so that a hang is a failure; and files that are made longer (growth.h). usage: fuzz_x CORPUS_FOLDER [rounds]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "growth.h"
#include "test_support/scale.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr double kSlowestSeconds = 5;

std::vector<std::string> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return corpus;
}

void run_one(const std::string& input, const std::string& what) {
  const auto begin = std::chrono::steady_clock::now();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (seconds > kSlowestSeconds) {
    std::cerr << what << " took " << seconds << " s\n";
    std::exit(1);
  }
}

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> corpus) : corpus_(std::move(corpus)) {}

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) edit(text);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }

  void edit(std::string& text) {
    static const std::vector<std::string> kTokens = {"0",
                                                     "-1",
                                                     "1e300",
                                                     "1e-300",
                                                     "9223372036854775807",
                                                     "-9223372036854775808",
                                                     "18446744073709551616",
                                                     "null",
                                                     "true",
                                                     "\"\"",
                                                     "[]",
                                                     "{}",
                                                     "[[[[[[[[",
                                                     "NaN",
                                                     "0.5",
                                                     "\"1024\"",
                                                     "\xff\xfe",
                                                     std::string(1, '\0'),
                                                     ",",
                                                     ":",
                                                     "\"",
                                                     "\n",
                                                     "- ",
                                                     "4294967296"};
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0: text = text.substr(0, at); break;
      case 1: text.insert(at, kTokens[below(kTokens.size())]); break;
      case 2: replace_number(text, at, kTokens[below(kTokens.size())]); break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 4: text.insert(at, text.substr(below(text.size() + 1), below(64))); break;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        text = text.substr(0, at) + other.substr(std::min(at, other.size()));
      }
    }
  }

  // Replacing a whole number gets past the parser far more often than flipping bytes does.
  static void replace_number(std::string& text, std::size_t at, const std::string& token) {
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (begin == std::string::npos) return;
    const std::size_t end = text.find_first_not_of("0123456789.eE+-", begin);
    text.replace(begin, (end == std::string::npos ? text.size() : end) - begin, token);
  }

  std::vector<std::string> corpus_;
  std::mt19937_64 random_{20260131};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " CORPUS_FOLDER [rounds]\n";
    return 2;
  }
  const std::vector<std::string> corpus = read_corpus(argv[1]);
  if (corpus.empty()) {
    std::cerr << argv[1] << " holds no corpus\n";
    return 2;
  }
  for (std::size_t i = 0; i < corpus.size(); ++i) run_one(corpus[i], "corpus file " + std::to_string(i));
  const long rounds = argc > 2 ? std::atol(argv[2]) : static_cast<long>(nest::test::scaled(20'000, 200));
  Mutator mutator(corpus);
  for (long round = 0; round < rounds; ++round) run_one(mutator.next(), "mutation " + std::to_string(round));
  const auto shapes = static_cast<long>(nest::test::scaled(200, 10));
  const auto read = [](const std::string& text) { run_one(text, "a file that was made longer"); };
  if (!nest::fuzz::grows_as_its_input(corpus, shapes, read)) return 1;
  std::cout << corpus.size() << " corpus files and " << rounds << " mutations survived, " << shapes
            << " files that were made longer took as much longer\n";
  return 0;
}
