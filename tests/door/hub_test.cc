// Models by the name that they have on the Hugging Face hub, from the local cache alone.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "nest/nest.h"

namespace nest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Hub : public testing::Test {
 protected:
  Hub() : cache_(fs::temp_directory_path() / ("nest-hub-" + std::to_string(::getpid()))) {
    const char* const before = std::getenv("HF_HUB_CACHE");
    if (before != nullptr) before_ = before;
    ::setenv("HF_HUB_CACHE", cache_.c_str(), 1);
  }
  ~Hub() override {
    if (before_.empty()) {
      ::unsetenv("HF_HUB_CACHE");
    } else {
      ::setenv("HF_HUB_CACHE", before_.c_str(), 1);
    }
    fs::remove_all(cache_);
  }
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  void write(const fs::path& path, const std::string& text) const {
    const fs::path file = cache_ / "models--acme--tiny-8" / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void write_config(const std::string& commit, int layers) const {
    write(fs::path("snapshots") / commit / "config.json",
          R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": )" +
              std::to_string(layers) + R"(, "num_attention_heads": 8, "vocab_size": 32000})");
  }
  static std::string hub_answer() {
    Question question;
    question.model = "acme/tiny-8";
    question.devices = 8;
    try {
      const TrainingJob job = read_job(question);
      return job.title() + " of " + std::to_string(evaluate_plan(job, "mbs=1").stages.front().last - 1) + " blocks";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  fs::path cache_;
  std::string before_;
};

TEST_F(Hub, TheSnapshotOfMain) {
  write_config("abc123", 8);
  EXPECT_EQ(hub_answer(), "tiny-8 of 8 blocks");  // the only one
  EXPECT_THAT(to_text(show("acme/tiny-8")), HasSubstr("tiny-8"));
  write_config("def456", 6);
  EXPECT_THAT(hub_answer(), HasSubstr("no such model in the Hugging Face cache"));  // which of them?
  write("refs/main", "def456\n");
  EXPECT_EQ(hub_answer(), "tiny-8 of 6 blocks");
}

TEST_F(Hub, WhatIsNotThereIsSaid) {
  EXPECT_EQ(hub_answer(), "acme/tiny-8: no such file, and no such model in the Hugging Face cache (" + cache_.string() +
                              "); `hf download acme/tiny-8 config.json` fetches what is needed");
  write_config("abc123", 8);
  write("refs/main", "../../../../etc");  // leads nowhere
  EXPECT_THAT(hub_answer(), HasSubstr("no such model"));
}

}  // namespace
}  // namespace nest
