// What strangers put into files, and what the machine refuses: nothing gets through, nothing is lost, one message.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.h"
#include "program.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Hostile : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.file(name), std::ios::binary) << text;
    return folder_.file(name);
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  // A line of a shell, in which $0 is nest.
  static Result shell(const std::string& line) {
    return run({.arguments = {"-c", line, program_path()}, .program = "/bin/sh"});
  }

  TemporaryFolder folder_;
};

const std::vector<std::string> kSmall = {"plan",     "--model",        "llama3.2-1b", "--devices", "8",
                                         "--no-why", "--global-batch", "16",          "--judge",   "formula"};

std::vector<std::string> small_plan(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = kSmall;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Escapes, C1, overrides of direction and bytes that are no UTF-8, wherever files name something.
TEST_F(Hostile, NamesAreShownEscaped) {
  const std::vector<std::string> nasty = {"\\e]0;title\\a", "\\e[2Jx",  "a\\u0085b", "a\\u202Eb",
                                          "a\\u2066b",      "\\u200Fx", "a\\rb"};
  for (const std::string& name : nasty) {
    const std::string cluster =
        write("c.yaml", fmt::format("name: \"{0}\"\ndescription: \"{0}\"\ndevice: h100\nlevels:\n"
                                    "  - {{name: \"{0}n\", group: 8, bandwidth: 450GB/s, latency: 3us}}\n",
                                    name));
    for (const char* format : {"", "--json"}) {
      std::vector<std::string> arguments = small_plan({"--cluster", cluster});
      if (*format != '\0') arguments.emplace_back(format);
      const Result result = run({.arguments = arguments});
      EXPECT_TRUE(is_printable(result.out)) << name;
      EXPECT_TRUE(is_printable(result.err)) << name;
    }
    EXPECT_TRUE(is_printable(nest({"show", cluster}).out)) << name;
  }
  const std::string broken = write("c.yaml", "name: \"\xff\xfe\"\ndevice: \x1b[31mred\nlevels: []\n");
  const Result result = nest({"show", broken});
  EXPECT_EQ(result.code, 2);
  EXPECT_TRUE(is_printable(result.err));
  const std::string model = write("config.json", R"({"model_type": "llama", "_name_or_path": ")"
                                                 "\xff\x1b[2J"
                                                 R"(", "hidden_size": 512, "intermediate_size": 1024,
      "num_hidden_layers": 4, "num_attention_heads": 8, "vocab_size": 1000, "max_position_embeddings": 512})");
  const std::string device = write("\x1b[2Jd.yaml",
                                   "name: \"\\e[2J\\u202E\"\npeak: {bf16: 100TFLOPS}\nmemory: 12GiB\n"
                                   "memory_bandwidth: 500GB/s\n");
  const std::string stack = write("s.yaml", "name: \"\\e[2J\"\nlike: megatron-core\n");
  const std::string hosts = write("topology.conf", "SwitchName=s\x1b[2J Nodes=a\xff,b\xc2\x85\n");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"plan", "--model", model, "--devices", "8", "--global-batch", "8", "--judge", "formula"},
           {"show", model},
           {"show", device},
           small_plan({"--stack", stack}),
           {"import", hosts, "--device", "h100", "--devices-per-node", "8"},
           {"compare", "--model", model, "--devices", "8", "--global-batch", "8", "--planners", "nest,manual",
            "--simulate"},
           {"compare", "--model", "llama3.2-1b", "--devices", "8", "--global-batch", "16", "--planners", "\xff\x1b[2J"},
           {"export", model, "--to", "\x1b[2J"},
           {"\x1b[2J"},
           {"plan", "--\x1b[2J"}}) {
    const Result shown = nest(arguments);
    EXPECT_TRUE(shown.code == 0 || shown.code == 2) << arguments[0] << shown.code << shown.err;
    EXPECT_TRUE(is_printable(shown.out)) << arguments[0] << shown.out;
    EXPECT_TRUE(is_printable(shown.err)) << arguments[0] << shown.err;
  }
  const Result line = nest({"eval", "--from", "torchrun \x1b[2J\xff pretrain_gpt.py --num-layers 2"});
  EXPECT_TRUE(is_printable(line.err)) << line.err;
  const Result argument = nest({"plan", "--model", "\x1b]0;x\x07\xff"});
  EXPECT_EQ(argument.code, 2);
  EXPECT_TRUE(is_printable(argument.err));
}

TEST_F(Hostile, ColoursOfTheProgramStay) {
  const Result result = nest(small_plan({"--color", "always"}));
  EXPECT_THAT(result.out, HasSubstr("\x1b["));
  EXPECT_TRUE(is_printable(nest(small_plan({"--color", "never"})).out));
}

TEST_F(Hostile, LinesToCopyAreQuoted) {
  const std::string topology = write("topology.conf", "SwitchName=$(touch${IFS}x) Nodes=n[1-4]\n");
  const Result result = nest({"import", topology, "--device", "h100"});
  EXPECT_EQ(result.code, 2);
  for (const std::string& each : lines(result.err)) {
    const bool named = each.find("$(touch") != std::string::npos;
    EXPECT_TRUE(!named || each.find('\'') != std::string::npos) << each;
  }
}

// A script decides only which files beside it are read.
TEST_F(Hostile, ScriptsReadNothingElse) {
  fs::create_directory(folder_.path() / "inside");
  write("secret.sh", "NODES=4\n");
  ASSERT_EQ(::mkfifo(folder_.file("inside/pipe").c_str(), 0600), 0);
  const std::string rest =
      "torchrun --nnodes $NODES --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size "
      "64\n";
  for (const std::string& named :
       {folder_.file("secret.sh"), std::string("../secret.sh"), std::string("pipe"), std::string("/dev/zero")}) {
    const std::string script = write("inside/run.sh", "source " + named + "\n" + rest);
    const Result result = nest({"eval", "--from", script});
    EXPECT_EQ(result.code, 2) << named;
    EXPECT_THAT(result.err, HasSubstr("$NODES")) << named << result.err;
  }
  write("inside/beside.sh", "NODES=4\n");
  const std::string script = write("inside/run.sh", "source beside.sh\n" + rest);
  EXPECT_THAT(nest({"eval", "--from", script}).err, Not(HasSubstr("$NODES")));
}

TEST_F(Hostile, LimitsAreNumbers) {
  for (const char* value : {"nan", "inf", "-1", "1e300"}) {
    const Result result = nest(small_plan({"--time-limit", value}));
    EXPECT_EQ(result.code, 2) << value;
  }
}

TEST_F(Hostile, NoOptionIsSilentlyWithoutEffect) {
  const std::string plan = folder_.file("plan.json");
  ASSERT_EQ(nest(small_plan({"-o", plan})).code, 0);
  const Result both = nest({"eval", plan, "--strategy", "tp=8"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--strategy: contradicts the plan file"));
  const Result instance = nest({"plan", "--instance", plan, "--devices", "8"});
  EXPECT_EQ(instance.code, 2);
  EXPECT_THAT(instance.err, HasSubstr("--devices: has no effect on an instance"));
}

TEST_F(Hostile, FilesKeepTheirPermissionsAndLinks) {
  const std::string file = write("plan.json", "old");
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(file, folder_.file("link.json"));
  ASSERT_EQ(nest(small_plan({"-o", folder_.file("link.json")})).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder_.file("link.json")));
  EXPECT_THAT(read(file), HasSubstr("nest.plan/3"));
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(names(), ElementsAre("link.json", "plan.json"));
}

TEST_F(Hostile, InputsAreNotOverwritten) {
  const std::string plan = folder_.file("plan.json");
  ASSERT_EQ(nest(small_plan({"-o", plan})).code, 0);
  const std::string before = read(plan);
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"export", plan, "--to", "megatron", "-o", plan},
        std::vector<std::string>{"export", plan, "--to", "megatron", "--output=" + plan},
        std::vector<std::string>{"simulate", plan, "--trace", folder_.file("./plan.json")}}) {
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr("named twice"));
    EXPECT_EQ(read(plan), before);
  }
  const Result nowhere = nest(small_plan({"-o", "-"}));
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(Hostile, FilesThatMayNotGrowLeaveNothing) {
  const Result result =
      shell(fmt::format("ulimit -f 1; exec \"$0\" plan --model llama3.2-1b --devices 8 --no-why "
                        "--global-batch 16 --judge formula -o {}",
                        folder_.file("plan.json")));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("cannot be written"));
  EXPECT_THAT(names(), IsEmpty());
}

// A small file that speaks of 16.7 million devices.
TEST_F(Hostile, SizesAreRefusedBeforeTheyAreBuilt) {
  const std::string cluster = write("c.yaml",
                                    "name: huge\ndevice: h100\nlevels:\n"
                                    "  - {name: node, group: 8, bandwidth: 450GB/s, latency: 3us}\n"
                                    "  - {name: hall, group: 2097152, bandwidth: 50GB/s, latency: 8us}\n");
  const std::string plan = folder_.file("plan.json");
  const Result made = nest({"eval", "--model", "llama3.2-1b", "--cluster", cluster, "--global-batch", "16777216",
                            "--strategy", "tp=1", "--judge", "formula", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  write("plan.json", made.out);
  for (const char* rest : {"simulate", "export --to rankfile", "export --to chakra --ranks 0 -o traces"}) {
    const Result result = shell(fmt::format("ulimit -v 1000000; exec \"$0\" {} {}", rest, plan));
    EXPECT_EQ(result.code, 2) << rest;
    EXPECT_THAT(result.err, HasSubstr("16,777,216 ranks")) << rest;
  }
}

// Stacks of a thousand threads take all the memory there is: fewer threads give the same answer.
TEST_F(Hostile, ThreadsThatMemoryDoesNotGrantAreDoneWithout) {
  const std::string line =
      "exec \"$0\" plan --model llama3.2-1b --devices 8 --no-why --global-batch 16 --judge formula --json";
  const Result few = shell(line + " --threads 2");
  const Result many = shell("ulimit -v 3000000; " + line + " --threads 1024");
  EXPECT_EQ(few.code, 0) << few.err;
  EXPECT_EQ(many.code, 0) << many.err;
  const auto plan = [](const Result& result) {
    nlohmann::json json = nlohmann::json::parse(result.out);
    json.erase("search");  // the time that it took
    return json;
  };
  EXPECT_EQ(plan(few), plan(many));
}

// Clusters that nobody has: an answer within the limit. (Some times the limit: machines that test are busy.)
TEST_F(Hostile, OddClustersAreAnswered) {
  std::string levels = "levels:\n";
  for (int k = 0; k < 8; ++k) {
    levels +=
        fmt::format("  - {{name: l{0}, group: {1}, bandwidth: {2}GB/s, latency: 3us}}\n", k, k == 0 ? 4 : 3, 400 >> k);
  }
  const std::string torus = "torus:\n  dims: [10, 10, 10]\n  bandwidth: 50GB/s\n  latency: 1us\n";
  const std::string primes =
      "levels:\n  - {name: node, group: 31, bandwidth: 400GB/s, latency: 3us}\n"
      "  - {name: hall, group: 37, bandwidth: 50GB/s, latency: 8us}\n";
  const std::string huge =
      "levels:\n  - {name: node, group: 8, bandwidth: 400GB/s, latency: 3us}\n"
      "  - {name: hall, group: 2097152, bandwidth: 50GB/s, latency: 8us}\n";
  struct Odd {
    std::string model, cluster, batch, objective;
  };
  for (const Odd& odd : {Odd{"deepseek-v3", torus, "2000", "time"}, Odd{"deepseek-v3", torus, "2000", "device-hours"},
                         Odd{"deepseek-v3", levels, "17496", "time"}, Odd{"deepseek-v3", primes, "2294", "time"},
                         Odd{"llama3-8b", huge, "33554432", "time"}}) {
    const std::string cluster = write("c.yaml", "name: odd\ndevice: h100\n" + odd.cluster);
    Result result;
    double seconds = 0;
    for (int tries = 0; tries < 3; ++tries) {  // a limit is of the clock, of which other programs may have most
      const auto begin = std::chrono::steady_clock::now();
      result = nest({"plan", "--model", odd.model, "--cluster", cluster, "--global-batch", odd.batch, "--objective",
                     odd.objective, "--time-limit", "2"});
      seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (result.code == 0) break;
    }
    EXPECT_EQ(result.code, 0) << odd.cluster << result.err;
    EXPECT_LT(seconds, 8) << odd.cluster << odd.objective;
  }
}

// What fits only with state on the host is found under a short limit too.
TEST_F(Hostile, ShortLimitsFindWhatNeedsTheHost) {
  const Result result = nest({"plan", "--model", "llama3-405b", "--devices", "64", "--global-batch", "256", "--no-why",
                              "--time-limit", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_GT(nlohmann::json::parse(result.out).at("run").at("optimizer_offload").get<int>(), 0);
}

// A number of hundreds of digits is not repeated to whoever wrote it.
TEST_F(Hostile, LongNumbersAreCut) {
  const std::string digits(400, '7');
  const std::string cluster = write("c.yaml", "name: c\ndevice: h100\nlevels:\n  - {name: n, group: " + digits +
                                                  ", bandwidth: 450GB/s, latency: 3us}\n");
  for (const std::vector<std::string>& arguments :
       {small_plan({"--cluster", cluster}), small_plan({"--top", digits}), small_plan({"--time-limit", digits}),
        small_plan({"--set", "tp=" + digits}), small_plan({"--seq", digits}), small_plan({"--set", digits + "=1"}),
        std::vector<std::string>{"eval", "--model", "llama3.2-1b", "--devices", "8", "--strategy", "tp=" + digits}}) {
    const Result result = nest(arguments);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, Not(HasSubstr(digits.substr(0, 200))));
  }
}

// A deep model on many devices: a plan, and in time. (Twice the limit and more: machines that test are busy.)
TEST_F(Hostile, LimitsHoldForDeepModels) {
  const std::string model =
      write("deep.json",
            R"({"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":2000,)"
            R"("num_attention_heads":32,"num_key_value_heads":8,"vocab_size":32000,"max_position_embeddings":8192,)"
            R"("hidden_act":"silu","rms_norm_eps":1e-5,"tie_word_embeddings":false})");
  const auto begin = std::chrono::steady_clock::now();
  const Result result = nest({"plan", "--model", model, "--cluster", "dgx-h100", "--devices", "1024", "--global-batch",
                              "1024", "--time-limit", "3"});
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("No plan is faster than"));
  EXPECT_LT(seconds, 12);
}

}  // namespace
}  // namespace nest::test
