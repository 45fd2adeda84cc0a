// The largest that fits, against a loop over all values.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "nest/nest.h"
#include "test_support/scale.h"

namespace nest {
namespace {

using Json = nlohmann::ordered_json;

// Small devices: what fits is a few thousand tokens, a few sequences, a few layers.
struct SmallProblem {
  int layers = 4, heads = 4, experts = 0;
  int devices = 4;
  std::int64_t batch = 8;
  double memory = 3e9;
  std::string target = "any";
  std::vector<std::string> set;

  Question question() const {
    Json model = {{"model_type", experts > 0 ? "mixtral" : "llama"},
                  {"hidden_size", 64 * heads},
                  {"intermediate_size", 192 * heads},
                  {"num_hidden_layers", layers},
                  {"num_attention_heads", heads},
                  {"num_key_value_heads", heads},
                  {"vocab_size", 16000}};
    if (experts > 0) model.update({{"num_local_experts", experts}, {"num_experts_per_tok", 1}});
    const Json device = {{"name", "chip"},
                         {"peak", {{"bf16", 300e12}, {"fp16", 300e12}, {"fp32", 40e12}}},
                         {"memory", static_cast<std::int64_t>(memory)},
                         {"memory_bandwidth", 2e12},
                         {"multiprocessors", 100}};
    const Json cluster = {
        {"name", "mine"},
        {"device", device},
        {"levels", {{{"name", "node"}, {"group", devices}, {"bandwidth", 200e9}, {"latency", 2e-6}}}}};
    Question question;
    question.model = Input::memory("config.json", model.dump());
    question.cluster = Input::memory("mine.yaml", cluster.dump());
    question.stack = Input::memory("mine.yaml", R"({"name": "mine", "like": "megatron-core"})");
    question.global_batch = batch;
    return question;
  }

  SearchOptions options() const {
    SearchOptions options;
    options.judge = PlanJudge::formula;
    options.offload = OffloadSearch::never;
    options.threads = 1;
    options.why = options.explain = false;
    options.target = target;
    options.set = set;
    return options;
  }
};

class Drawn {
 public:
  explicit Drawn(std::uint32_t seed) : random_(seed) {}
  template <class... Values>
  auto pick(Values... values) {
    const std::array list = {values...};
    return list[std::uniform_int_distribution<std::size_t>(0, list.size() - 1)(random_)];
  }
  SmallProblem problem() {
    SmallProblem problem;
    problem.layers = pick(2, 3, 4, 6);
    problem.heads = pick(4, 6, 8);
    problem.devices = pick(2, 3, 4, 6);
    problem.memory = pick(2.2e9, 2.4e9, 2.6e9, 3e9);
    problem.target = pick("any", "megatron", "torchtitan");
    return problem;
  }

 private:
  std::mt19937 random_;
};

bool fits(const Question& question, const SearchOptions& options) {
  try {
    return !find_plan(read_job(question), options).plans.empty();
  } catch (const InputError&) {
    return false;  // the limits admit no plan with this value
  }
}

TEST(LargestThatFits, SequenceIsThatOfALoop) {
  Drawn drawn(61);
  int found = 0;
  for (std::uint32_t k = 0; k < test::scaled(30, 3); ++k) {
    SmallProblem problem = drawn.problem();
    problem.batch = drawn.pick(4, 6, 8);
    const std::int64_t step = drawn.pick(512, 640, 768);
    SCOPED_TRACE(problem.question().model.text.value() + " " + std::to_string(problem.devices) + " devices, step " +
                 std::to_string(step) + " " + problem.target);
    const LargestAnswer told = find_largest(problem.question(), LargestOf::seq, problem.options(), step);
    std::int64_t expected = 0;
    for (std::int64_t seq = step; seq <= 2 * told.value + 20 * step; seq += step) {
      Question question = problem.question();
      question.seq = seq;
      if (fits(question, problem.options())) expected = seq;
    }
    EXPECT_EQ(told.value, expected);
    EXPECT_EQ(told.outcome, expected > 0 ? PlanOutcome::optimal : PlanOutcome::no_plan);
    found += expected > 0 ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

TEST(LargestThatFits, BatchIsThatOfALoop) {
  Drawn drawn(62);
  int found = 0;
  for (std::uint32_t k = 0; k < test::scaled(30, 3); ++k) {
    SmallProblem problem = drawn.problem();
    problem.batch = 0;
    problem.experts = drawn.pick(0, 0, 2);
    Question question = problem.question();
    question.seq = drawn.pick(2048, 3072, 8192);
    SCOPED_TRACE(question.model.text.value() + " " + std::to_string(problem.devices) + " devices " + problem.target);
    const LargestAnswer told = find_largest(question, LargestOf::batch, problem.options());
    std::int64_t expected = 0;
    for (std::int64_t replicas = 1; replicas <= problem.devices; ++replicas) {
      for (std::int64_t each = 1; replicas * each <= told.value + 2 * problem.devices; ++each) {
        question.global_batch = replicas * each;
        SearchOptions options = problem.options();
        options.set.push_back("dp=" + std::to_string(replicas));
        options.micro_batch = std::to_string(each);
        if (fits(question, options)) expected = std::max(expected, replicas * each);
      }
    }
    EXPECT_EQ(told.value, expected);
    found += expected > 0 ? 1 : 0;
    if (!told.has_plan()) continue;
    const Plan& plan = told.answer->plans.front();
    EXPECT_EQ(plan.strategy.dp * plan.strategy.micro_batch, expected);
    EXPECT_EQ(plan.run.global_batch, expected);
  }
  EXPECT_GT(found, 0);
}

TEST(LargestThatFits, LayersAreThoseOfALoop) {
  Drawn drawn(63);
  int found = 0, smaller = 0;
  for (std::uint32_t k = 0; k < test::scaled(30, 4); ++k) {
    SmallProblem problem = drawn.problem();
    problem.heads = drawn.pick(8, 12);
    const std::string set = drawn.pick("", "", "pp=2,3", "even_cuts=1", "vpp=2");
    if (!set.empty()) problem.set = {set};
    if (set == "vpp=2") problem.set.emplace_back("pp=2");
    Question question = problem.question();
    question.seq = 2048;
    SCOPED_TRACE(question.model.text.value() + " " + std::to_string(problem.devices) + " devices " + problem.target +
                 " " + set);
    LargestAnswer told{LargestOf::layers, 1, 0, read_job(question), PlanOutcome::no_plan, 0, {}, {}};
    bool refused = false;
    try {
      told = find_largest(question, LargestOf::layers, problem.options());
    } catch (const InputError&) {
      refused = true;  // no plan with any number of layers
    }
    std::int64_t expected = 0;
    bool gap = false;
    for (std::int64_t layers = 1; layers <= 2 * told.value + 16; ++layers) {
      SmallProblem other = problem;
      other.layers = static_cast<int>(layers);
      Question asked = other.question();
      asked.seq = 2048;
      if (fits(asked, problem.options())) {
        gap = gap || expected + 1 < layers;
        expected = layers;
      }
    }
    EXPECT_EQ(told.value, expected);
    EXPECT_TRUE(!refused || expected == 0);
    found += expected > 0 ? 1 : 0;
    smaller += gap ? 1 : 0;
  }
  EXPECT_GT(found, 0);
}

TEST(LargestThatFits, StoppedKeepsWhatItHas) {
  SmallProblem problem;
  SearchOptions options = problem.options();
  std::atomic<bool> stop = true;
  options.stop = &stop;
  const LargestAnswer told = find_largest(problem.question(), LargestOf::seq, options);
  EXPECT_EQ(told.outcome, PlanOutcome::limit);
  EXPECT_FALSE(to_text(told).empty() && told.has_plan());
}

}  // namespace
}  // namespace nest
