// What frameworks cannot do, and that the nearest plan is the best of all they can.
#include "exporter/framework.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "export_support.h"
#include "exporter/changes.h"
#include "launch/titan_schedules.h"
#include "model/config.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

cost::Job small_export_job(bool experts, const std::string& stack, const std::string& device) {
  const std::string config = std::string(R"({"model_type": "megatron", "num_layers": 2, "hidden_size": 2048,
      "num_attention_heads": 16, "ffn_hidden_size": 5632, "swiglu": true, "vocab_size": 32000,
      "max_position_embeddings": 4096, "position_embedding_type": "rope", "normalization": "RMSNorm",
      "add_bias_linear": false)") +
                             (experts ? R"(, "num_experts": 4)" : "") + "}";
  const cluster::Cluster cluster = cluster::read_cluster(
      doc::parse_yaml("c.yaml", "device: " + device +
                                    "\n"
                                    "levels:\n"
                                    "  - {name: node, group: 2, bandwidth: 300GB/s, latency: 3us}\n"
                                    "  - {name: pod, group: 2, bandwidth: 12GB/s, latency: 8us}\n"),
      "small");
  Run run;
  run.global_batch = 8;
  run.sequence = 4096;
  run.stack = stack;
  return cost::make_job(model::read_config(doc::parse_json("m.json", config), "small"), run, *cost::find_stack(stack),
                        cluster);
}

// The planner's degrees: all replicas, or the largest part of them inside one node.
std::vector<std::int64_t> shard_degrees(const Strategy& s) {
  std::vector<std::int64_t> degrees = {0};
  const std::int64_t all = groups::dense_replicas(s), inner = s.split.cp;
  for (std::int64_t degree = all - 1; degree > 1; --degree) {
    if (all % degree != 0 || !groups::can_shard(s, degree)) continue;
    bool inside = true;
    for (std::int64_t k = 0; k < degree; ++k) {
      inside = inside && device_of(s, k / inner, 0, k % inner * s.split.tp) + s.split.tp <= 2;
    }
    if (!inside) continue;
    degrees.push_back(degree);
    break;
  }
  return degrees;
}

// Every plan of the planner's space with one treatment of all stages, priced one by one.
class Everything {
 public:
  using Admits = std::function<bool(const Strategy&, const StagePlan&)>;
  Everything(const cost::Job& job, launch::Framework framework, Admits admits = nullptr)
      : job_(job), framework_(framework), admits_(std::move(admits)) {}

  double best() {
    for (const std::int64_t tp : {1, 2, 4}) {
      for (const bool sp : {false, true}) {
        for (const std::int64_t cp : {1, 2, 4}) {
          for (const std::int64_t ep : {1, 2, 4}) {
            for (const std::int64_t etp : {1, 2, 4}) {
              // Nodes of two: smaller sets of experts than replicas stay inside them.
              const bool usual = (etp <= 2 || etp == tp) && (etp * ep >= tp * cp || etp * ep <= 2);
              for (std::int64_t pp = 1; pp <= 4; ++pp) {
                if ((sp && tp == 1) || !usual) continue;
                if (tp * cp * pp <= 4) replicas({tp, sp, cp, ep, etp == tp ? 0 : etp}, pp);
              }
            }
          }
        }
      }
    }
    return best_s_;
  }
  long priced() const { return priced_; }

 private:
  void replicas(const Split& split, std::int64_t pp) {
    for (const std::int64_t dp : {1, 2, 4}) {
      for (std::int64_t inner = 1; inner <= dp; inner *= 2) {
        for (const std::int64_t micro_batch : {1, 2, 4, 8}) {
          for (const std::int64_t chunks : {1, 2}) {
            Strategy s;
            s.split = split;
            s.pp = pp;
            s.dp = dp;
            s.dp_inner = inner;
            s.micro_batch = micro_batch;
            s.virtual_stages = chunks;
            if (chunks > 1) s.schedule = Schedule::interleaved;
            if (s.devices_used() > 4 || 8 % (micro_batch * s.dp) != 0) continue;
            if (s.block() % split.expert_devices() != 0) continue;
            cuts(s, {}, 0);
            s.pitch = (s.pipeline_block() + 1) / 2 * 2;
            if (inner < dp && s.pitch != s.pipeline_block() && s.devices_spanned() <= 4) cuts(s, {}, 0);
          }
        }
      }
    }
  }

  void cuts(const Strategy& s, std::vector<StagePlan> stages, int first) {
    const int layers = static_cast<int>(job_.model.layers.size());
    if (static_cast<std::int64_t>(stages.size()) + 1 == s.pp) {
      stages.emplace_back();
      stages.back().first = first;
      stages.back().last = layers - 1;
      if (first < layers) options(s, stages);
      return;
    }
    for (int last = first; last + 1 < layers; ++last) {
      std::vector<StagePlan> more = stages;
      more.emplace_back();
      more.back().first = first;
      more.back().last = last;
      cuts(s, more, last + 1);
    }
  }

  void options(const Strategy& s, std::vector<StagePlan> stages) {
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (int zero = 0; zero <= 3; ++zero) {
        for (const std::int64_t degree : shard_degrees(s)) {
          if (zero == 0 && degree != 0) continue;
          const bool wider = zero == 3 && degree > 0 && degree < groups::dense_replicas(s);
          for (const bool outer : {false, true}) {
            if (outer && !(wider && job_.stack.hybrid_sharding)) continue;
            for (StagePlan& stage : stages) {
              stage.recompute = recompute;
              stage.zero = zero;
              stage.zero_degree = degree;
              stage.zero_outer = outer;
            }
            if (!cost::refuse_strategy(job_, s, stages).empty()) return;
            price(s, stages);
          }
        }
      }
    }
  }

  void price(const Strategy& s, const std::vector<StagePlan>& stages) {
    if (admits_ && !admits_(s, stages.front())) return;
    if (!exporter::obstacles(framework_, job_, s, stages).empty()) return;
    ++priced_;
    const Plan evaluation = cost::evaluate(job_, s, stages);
    if (evaluation.fits) best_s_ = std::min(best_s_, evaluation.prediction.iteration_s);
  }

  const cost::Job& job_;
  launch::Framework framework_;
  Admits admits_;
  double best_s_ = std::numeric_limits<double>::infinity();
  long priced_ = 0;
};

struct NearestCase {
  launch::Framework framework;
  bool experts;
  const char* stack;
  const char* device;
};

class NearestPlans : public ::testing::TestWithParam<NearestCase> {};

TEST_P(NearestPlans, AreTheBestThatTheFrameworkCanRun) {
  const NearestCase& param = GetParam();
  const cost::Job job = small_export_job(param.experts, param.stack, param.device);
  Everything everything(job, param.framework);
  const double best_s = everything.best();
  EXPECT_GT(everything.priced(), 100);
  const auto nearest = exporter::nearest_plan(param.framework, job, {});
  ASSERT_TRUE(nearest.has_value());
  EXPECT_TRUE(nearest->proven);
  EXPECT_THAT(exporter::obstacles(param.framework, job, nearest->plan.strategy, nearest->plan.stages), IsEmpty());
  EXPECT_NEAR(nearest->plan.prediction.iteration_s, best_s, 1e-9 * best_s);
}

INSTANTIATE_TEST_SUITE_P(
    Exhaustive, NearestPlans,
    ::testing::Values(NearestCase{launch::Framework::megatron, false, "megatron-core", "h100"},
                      NearestCase{launch::Framework::megatron, true, "megatron-core", "h100"},
                      NearestCase{launch::Framework::nemo, false, "megatron-core-plain", "a100-40"},
                      NearestCase{launch::Framework::deepspeed, false, "megatron-deepspeed", "a100-80"},
                      NearestCase{launch::Framework::deepspeed, true, "megatron-core", "h100"},
                      NearestCase{launch::Framework::torchtitan, false, "fsdp2", "h100"},
                      NearestCase{launch::Framework::torchtitan, true, "fsdp2", "h100"}));

// Settings that the plan was searched with hold for the nearest plan too.
TEST(NearestPlan, KeepsToTheSettingsOfTheSearch) {
  struct Settings {
    std::vector<std::string> set;
    Everything::Admits admits;
  };
  const std::vector<Settings> all = {
      {{"tp=2", "recompute=full"},
       [](const Strategy& s, const StagePlan& stage) { return s.split.tp == 2 && stage.recompute == Recompute::full; }},
      {{"pp=2..", "zero=0,3"},
       [](const Strategy& s, const StagePlan& stage) { return s.pp >= 2 && (stage.zero == 0 || stage.zero == 3); }},
      {{"dp_inner=1", "mbs=2,4", "sp=0"}, [](const Strategy& s, const StagePlan& /*stage*/) {
         return s.dp_inner == 1 && (s.micro_batch == 2 || s.micro_batch == 4) && !s.split.sp;
       }}};
  for (const launch::Framework framework :
       {launch::Framework::megatron, launch::Framework::deepspeed, launch::Framework::torchtitan}) {
    const cost::Job job = small_export_job(false, exporter::rules_of(framework).usual_stack, "h100");
    for (const Settings& settings : all) {
      const double best_s = Everything(job, framework, settings.admits).best();
      exporter::Asked asked;
      asked.set = settings.set;
      const auto nearest = exporter::nearest_plan(framework, job, {}, nullptr, asked);
      ASSERT_EQ(nearest.has_value(), std::isfinite(best_s)) << to_string(framework) << " " << settings.set.front();
      if (!nearest) continue;
      EXPECT_TRUE(settings.admits(nearest->plan.strategy, nearest->plan.stages.front())) << settings.set.front();
      EXPECT_NEAR(nearest->plan.prediction.iteration_s, best_s, 1e-9 * best_s) << settings.set.front();
    }
  }
  const cost::Job job = small_export_job(false, "megatron-core", "h100");
  exporter::Asked fewer;
  fewer.most_devices = 2;
  EXPECT_LE(exporter::nearest_plan(launch::Framework::megatron, job, {}, nullptr, fewer)->plan.strategy.devices_used(),
            2);
}

// Replicas of one stage on every second device: hosts of 8 would run ranks 0, 2, 4 …; hosts of 2 run consecutive ones.
TEST(Obstacles, HostsAreThoseThatWereAskedFor) {
  const cost::Job job = export_job("llama3-8b", 16, 64, 4096);
  Strategy s;
  s.split.tp = 2;
  s.split.sp = true;
  s.pp = 2;
  s.dp = 4;
  s.dp_inner = 1;
  s.pitch = 4;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, stages),
              Contains(HasSubstr("not consecutive")));
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, stages, 2),
              Not(Contains(HasSubstr("not consecutive"))));
}

// torchtitan 0.2.2: qwen3 has no pipelining_fn, deepseek_v3 attends by FlexAttention, and FSDP is what mixes precisions.
TEST(Obstacles, TorchtitanKnowsItsModels) {
  const auto found = [](const char* preset, const Split& split, std::int64_t pp, std::int64_t dp) {
    const cost::Job job = export_job(preset, 32, 64, 4096, "fsdp2");
    Strategy s;
    s.split = split;
    s.pp = pp;
    s.dp = s.dp_inner = dp;
    return exporter::obstacles(launch::Framework::torchtitan, job, s, cost::even_stages(job, s, Recompute::none, 2));
  };
  EXPECT_THAT(found("llama3-8b", {}, 4, 4), IsEmpty());
  EXPECT_THAT(found("qwen3-8b", {}, 4, 4), ElementsAre("cannot cut qwen3 into stages"));
  EXPECT_THAT(found("qwen3-8b", {.cp = 2}, 1, 4), IsEmpty());
  EXPECT_THAT(found("deepseek-v2-lite", {.cp = 2}, 1, 4), Contains("cannot split contexts of deepseek_v2"));
  EXPECT_THAT(found("deepseek-v2-lite", {}, 1, 4), Not(Contains(HasSubstr("cannot split contexts"))));
  EXPECT_THAT(found("llama3-8b", {.tp = 8, .sp = true}, 2, 1), Contains(HasSubstr("cannot compute in bf16")));
  EXPECT_THAT(found("llama3-8b", {.tp = 8, .sp = true, .cp = 2}, 1, 1), IsEmpty());
  EXPECT_THAT(found("llama3-8b", {}, 1, 1), IsEmpty());
}

TEST(Frameworks, StacksHaveTheirOwn) {
  for (const exporter::FrameworkRules& rules : exporter::framework_rules()) {
    const auto own = exporter::framework_of(*cost::find_stack(rules.usual_stack));
    ASSERT_TRUE(own.has_value()) << rules.usual_stack;
    EXPECT_STREQ(exporter::rules_of(*own).usual_stack, rules.usual_stack);
  }
  EXPECT_EQ(exporter::framework_of(*cost::find_stack("nanotron")), std::nullopt);
}

TEST(Obstacles, NameTheStagesThatDiffer) {
  const cost::Job job = export_job("llama3-8b", 64, 64, 4096);
  Strategy s;
  s.pp = 4;
  s.dp = s.dp_inner = 16;
  std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), IsEmpty());
  stages[3].zero = 0;
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages),
              ElementsAre("cannot shard stage 3 alone (ZeRO 0 there, ZeRO 1 elsewhere)"));
  stages[3].zero = 1;
  stages[0].recompute = stages[1].recompute = Recompute::full;
  stages[2].recompute = stages[3].recompute = Recompute::none;
  stages[1].recompute = Recompute::none;
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages),
              ElementsAre("cannot recompute differently on stage 0 (full there, none elsewhere)"));
}

TEST(Obstacles, WeightGradientsApart) {
  const auto of = [](launch::Framework framework, const char* stack, Schedule schedule, int zero) {
    const cost::Job job = export_job("llama3-8b", 64, 64, 4096, stack);
    Strategy s;
    s.pp = 4;
    s.dp = s.dp_inner = 4;
    s.schedule = schedule;
    s.virtual_stages = schedule == Schedule::zb_h1 ? 1 : 2;
    return exporter::obstacles(framework, job, s, cost::even_stages(job, s, Recompute::none, zero));
  };
  using launch::Framework;
  EXPECT_THAT(of(Framework::megatron, "megatron-core", Schedule::zbv, 1),
              Contains("cannot run schedule zbv: it computes both gradients of a layer in one"));
  EXPECT_THAT(of(Framework::torchtitan, "fsdp2", Schedule::zbv, 2), ElementsAre(HasSubstr("torch.compile")));
  EXPECT_THAT(of(Framework::torchtitan, "torchtitan-graph", Schedule::zbv, 2), IsEmpty());
  EXPECT_THAT(of(Framework::torchtitan, "torchtitan-graph", Schedule::dualpipev, 2), IsEmpty());
  EXPECT_THAT(of(Framework::torchtitan, "torchtitan-graph", Schedule::zbv, 3), ElementsAre(HasSubstr("ZeRO 3")));
  for (const Schedule filed : {Schedule::zb_h1, Schedule::v_half, Schedule::v_min}) {
    EXPECT_THAT(of(Framework::torchtitan, "torchtitan-graph", filed, 2), IsEmpty());
    EXPECT_THAT(of(Framework::torchtitan, "fsdp2", filed, 2), ElementsAre(HasSubstr("torch.compile")));
    EXPECT_THAT(of(Framework::megatron, "megatron-core", filed, 1), Contains(HasSubstr("cannot run schedule")));
  }
}

TEST(Obstacles, DependOnTheFramework) {
  const cost::Job job = export_job("llama3-8b", 64, 64, 4096);
  Strategy s;
  s.split = {2, true, 2, 1, 0};
  s.pp = 4;
  s.dp = s.dp_inner = 4;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), IsEmpty());
  EXPECT_THAT(exporter::obstacles(launch::Framework::nemo, job, s, stages), IsEmpty());
  EXPECT_THAT(
      exporter::obstacles(launch::Framework::deepspeed, job, s, stages),
      ::testing::AllOf(Contains(HasSubstr("interleave")), Contains(HasSubstr("(sp)")), Contains(HasSubstr("cp=2"))));
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, stages), ElementsAre(HasSubstr("ZeRO 1")));
  for (StagePlan& stage : stages) stage.zero = 3;
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, stages), IsEmpty());
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), IsEmpty());
  EXPECT_THAT(exporter::obstacles(launch::Framework::deepspeed, job, s, stages), Contains(HasSubstr("pp=4")));
  // Two stages of four devices in a node, and context parallelism rules the other rank order out.
  s.split = {2, true, 2, 1, 0};
  s.pp = 2;
  s.dp = 8;
  s.dp_inner = 1;
  s.virtual_stages = 1;
  s.schedule = Schedule::one_f_one_b;
  stages = cost::even_stages(job, s, Recompute::none, 1);
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages),
              ElementsAre(HasSubstr("not consecutive")));
  s.split.cp = 1;
  s.pp = 4;
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, cost::even_stages(job, s, Recompute::none, 1)),
              IsEmpty());
}

// PyTorch makes 2 groups of 5 of 10 micro-batches on 4 stages, and refuses 11.
TEST(Obstacles, GroupsThatTorchtitanDoesNotForm) {
  const cost::Job job = export_job("llama3-8b", 16, 20, 4096, "fsdp2");
  Strategy s;
  s.pp = 4;
  s.dp = s.dp_inner = 2;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  s.group = 5;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 2);
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, stages), IsEmpty());
  s.group = 10;
  EXPECT_THAT(exporter::obstacles(launch::Framework::torchtitan, job, s, stages),
              ElementsAre("cannot be told groups of 10 micro-batches; its 10 form groups of their own"));
  EXPECT_EQ(launch::titan_group(4, 8), 4);
  EXPECT_EQ(launch::titan_group(4, 10), 5);
  EXPECT_EQ(launch::titan_group(4, 11), 0);
  EXPECT_EQ(launch::titan_group(4, 3), 0);
}

// Megatron asserts that layers of two micro-batches do not run side by side in a pipeline of its FSDP, nor with graphs of
// parts of layers.
TEST(Obstacles, FsdpExcludesPairsOfLayersInAPipeline) {
  cost::Job job = export_job("mixtral-8x7b", 64, 64, 4096, "megatron-core-moe");
  job.stack.expert_overlap = true;
  job.stack.graph_scopes.clear();
  Strategy s;
  s.pp = 2;
  s.dp = s.dp_inner = 32;
  s.split.ep = 8;
  const auto found = [&] {
    return exporter::obstacles(launch::Framework::megatron, job, s, cost::even_stages(job, s, Recompute::none, 3));
  };
  EXPECT_THAT(found(), ElementsAre(HasSubstr("ZeRO 3, pp=2")));
  s.pp = 1;
  s.dp = s.dp_inner = 64;
  EXPECT_THAT(found(), IsEmpty());
  job.stack.graph_scopes = {cost::GraphScope::router};
  EXPECT_THAT(found(), ElementsAre(HasSubstr("cannot capture parts of layers")));
  job.stack.expert_overlap = false;
  s.pp = 2;
  s.dp = s.dp_inner = 32;
  EXPECT_THAT(found(), IsEmpty());
}

TEST(Changes, AreFasterThanTheyWereAndRunnable) {
  const cost::Job job = export_job("llama3-70b", 128, 128, 4096, "megatron-core-plain");
  Strategy s;
  s.split.tp = 8;
  s.pp = 4;
  s.dp = s.dp_inner = 4;
  const exporter::SetupVariant mine{job.stack, s, cost::even_stages(job, s, Recompute::selective, 1)};
  const Plan now = cost::evaluate(job, s, mine.stages);
  const exporter::ChangeList changes = exporter::price_changes(launch::Framework::megatron, job, mine, {});
  ASSERT_FALSE(changes.single.empty());
  std::vector<std::string> options;
  for (const exporter::PricedChange& change : changes.single) {
    options.push_back(change.options);
    EXPECT_TRUE(change.evaluation.fits);
    cost::Job changed = job;
    changed.stack = change.variant.stack;
    const Plan again = cost::evaluate(changed, change.variant.strategy, change.variant.stages);
    EXPECT_DOUBLE_EQ(again.prediction.iteration_s, change.evaluation.prediction.iteration_s) << change.options;
    EXPECT_EQ(change.variant.strategy.devices_used(), s.devices_used()) << change.options;
  }
  EXPECT_THAT(options, Contains("--sequence-parallel"));
  EXPECT_THAT(options, Contains("--overlap-grad-reduce --overlap-param-gather"));
  EXPECT_THAT(options, Contains(HasSubstr("--num-virtual-stages-per-pipeline-rank")));
  ASSERT_TRUE(changes.pair.has_value());
  EXPECT_LE(changes.pair->evaluation.prediction.iteration_s, changes.single.front().evaluation.prediction.iteration_s);
  EXPECT_LT(changes.single.front().evaluation.prediction.iteration_s, now.prediction.iteration_s);
  // Terms are the step, split up.
  double sum = 0;
  for (const double term : exporter::time_terms(s, 128, now)) sum += term;
  EXPECT_NEAR(sum, now.prediction.iteration_s, 1e-9);
}

}  // namespace
}  // namespace nest::test
