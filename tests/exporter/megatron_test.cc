// Arguments for Megatron: accepted by its documented checks, and read back as the same plan.
#include "exporter/megatron.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/text.h"
#include "export_support.h"
#include "exporter/nemo.h"
#include "exporter/pipeline_layout.h"
#include "launch/pipeline_text.h"
#include "launch/setup.h"
#include "megatron_parser.h"
#include "model/config.h"
#include "model/count.h"
#include "test_support/scale.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The plan as it comes back from the exporter's text.
struct Returned {
  cost::Job job;
  launch::LaunchedPlan plan;
};

Returned read_back(const std::string& text, const cost::Job& job) {
  launch::LaunchSetup setup = launch::read_launch("plan.args", text, {}, "", nullptr);
  setup.world = job.cluster.devices;
  const model::Architecture architecture =
      model::read_config(doc::parse_json("launch", setup.model_config.dump()), "launch");
  Run run = job.run;
  run.global_batch = setup.global_batch.value_or(0);
  run.sequence = setup.sequence.value_or(0);
  run.precision = setup.precision;
  Returned returned{cost::make_job(architecture, run, setup.stack, job.cluster), {}};
  returned.plan = launch::lay_out(setup, returned.job);
  return returned;
}

void expect_accepted(const exporter::ExportTask& task, const std::string& what) {
  const exporter::MegatronExport exported = exporter::export_megatron(task);
  std::vector<std::string> problems;
  const std::string text = exporter::arguments_text(exported.options);
  const MegatronArguments arguments = parse_megatron(text, problems);
  const std::map<std::string, std::string> environment(exported.environment.begin(), exported.environment.end());
  validate_megatron(arguments, task.strategy.devices_used(), true, environment, problems);
  EXPECT_THAT(problems, IsEmpty()) << what << "\n" << text;
}

// Modules that are named one by one come back as those of the stack.
std::vector<std::string> recomputed(const cost::Job& job, const StagePlan& stage) {
  if (!stage.recompute.some_modules()) return {to_string(stage.recompute)};
  std::vector<std::string> modules = exporter::recompute_modules(job.stack, stage.recompute);
  std::sort(modules.begin(), modules.end());
  return modules;
}

// Same degrees, cut and treatment; the placement is a matter of hosts and is tested there.
void expect_round_trip(const exporter::ExportTask& task, const std::string& what) {
  cost::Job job = task.job;
  job.cluster = *cluster::find_cluster("dgx-h100");
  job.cluster.devices = task.strategy.devices_used();
  const std::string text = exporter::arguments_text(exporter::export_megatron(task).options);
  const Returned returned = read_back(text, job);
  Strategy expected = task.strategy;
  if (task.order == groups::RankOrder::stages_last) expected.dp_inner = expected.dp;
  expected.pitch = 0;
  expected.defer_head = true;  // a line without the option is read as a stack that does not defer
  EXPECT_EQ(returned.plan.strategy, expected) << what << "\n" << text;
  ASSERT_EQ(returned.plan.stages.size(), task.stages.size());
  for (std::size_t s = 0; s < task.stages.size(); ++s) {
    EXPECT_EQ(returned.plan.stages[s].first, task.stages[s].first) << what << " stage " << s << "\n" << text;
    EXPECT_EQ(returned.plan.stages[s].last, task.stages[s].last) << what << " stage " << s;
    EXPECT_EQ(exporter::sharding_of(expected, returned.plan.stages[s]), exporter::sharding_of(expected, task.stages[s]))
        << what;
    EXPECT_EQ(recomputed(returned.job, returned.plan.stages[s]), recomputed(task.job, task.stages[s])) << what;
  }
  // The model too: the same parameters, block by block.
  EXPECT_EQ(model::count_parameters(returned.job.model).total, model::count_parameters(task.job.model).total) << what;
}

const std::vector<std::string>& gpt_presets() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const model::ModelPreset& preset : model::model_presets()) {
      exporter::GptModel gpt;
      if (exporter::describe_gpt(*model::find_model_preset(preset.name), gpt).empty()) found.push_back(preset.name);
    }
    return found;
  }();
  return names;
}

TEST(MegatronExport, MostPresetsAreGpts) {
  EXPECT_GE(gpt_presets().size(), 28U);
  EXPECT_THAT(gpt_presets(),
              ::testing::IsSupersetOf({"llama3-70b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3", "deepseek-v2-lite",
                                       "qwen3-235b-a22b", "qwen2.5-7b", "nemotron4-340b"}));
}

TEST(MegatronExport, RandomPlansOfEveryPresetAreAcceptedAndComeBack) {
  std::mt19937 random(3);
  int exported = 0, uneven = 0, interleaved = 0, experts = 0, latent = 0;
  for (const std::string& name : gpt_presets()) {
    const cost::Job job = export_job(name, 256, 768, 4096);
    int done = 0;
    for (int round = 0; round < 400 && done < 12; ++round) {
      SomePlan plan = random_plan(job, random);
      plan.strategy.dp_inner = plan.strategy.dp;
      if (plan.strategy.pp > 1 && plan.stages.front().zero > 1) {
        for (StagePlan& stage : plan.stages) stage.zero = 1;
      }
      if (!exporter::obstacles(launch::Framework::megatron, job, plan.strategy, plan.stages).empty()) continue;
      const exporter::ExportTask task{job, plan.strategy, plan.stages};
      expect_accepted(task, name);
      expect_round_trip(task, name);
      ++done;
      ++exported;
      uneven += exporter::is_even_cut(job.model, plan.stages, plan.strategy.virtual_stages) ? 0 : 1;
      interleaved += plan.strategy.virtual_stages > 1 ? 1 : 0;
      experts += plan.strategy.split.ep > 1 ? 1 : 0;
      latent += name.starts_with("deepseek") ? 1 : 0;
      ASSERT_FALSE(HasFailure()) << name;
    }
    EXPECT_GE(done, 4) << name;
  }
  EXPECT_GT(exported, 250);
  EXPECT_GT(uneven, 40);
  EXPECT_GT(interleaved, 15);
  EXPECT_GT(experts, 15);
  EXPECT_GT(latent, 20);
}

TEST(MegatronExport, PlannedPlansOfManyPresetsAreAcceptedAndComeBack) {
  for (const char* name : {"llama3-8b", "llama3-70b", "gpt3-35b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2-lite",
                           "nemotron4-15b", "qwen2.5-7b"}) {
    const cost::Job job = export_job(name, 64, 256, 4096);
    search::SearchSettings search;
    search.time_limit_s = 20;
    const auto nearest = exporter::nearest_plan(launch::Framework::megatron, job, search);
    ASSERT_TRUE(nearest.has_value()) << name;
    const auto launch = exporter::launch_order(exporter::hosts_of(job.cluster), nearest->plan.strategy);
    ASSERT_TRUE(launch.has_value()) << name;
    const exporter::ExportTask task{job, nearest->plan.strategy, nearest->plan.stages, launch->order};
    expect_accepted(task, name);
    expect_round_trip(task, name);
  }
}

TEST(MegatronExport, WritesWhatThePlanSays) {
  const cost::Job job = export_job("llama3-70b", 64, 128, 8192);
  Strategy s;
  s.split = {4, true, 2, 1, 0};
  s.pp = 4;
  s.dp = s.dp_inner = 2;
  s.virtual_stages = 5;
  s.schedule = Schedule::interleaved;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::selective, 1);
  const std::string text = exporter::arguments_text(exporter::export_megatron({job, s, stages}).options);
  for (const char* line :
       {"--num-layers 80\n", "--tensor-model-parallel-size 4\n", "--sequence-parallel\n",
        "--pipeline-model-parallel-size 4\n", "--num-virtual-stages-per-pipeline-rank 5\n",
        "--context-parallel-size 2\n", "--use-distributed-optimizer\n", "--overlap-grad-reduce\n",
        "--overlap-param-gather\n", "--recompute-granularity selective\n", "--recompute-modules core_attn\n",
        "--micro-batch-size 1\n", "--global-batch-size 128\n", "--bf16\n", "--num-query-groups 8\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, ::testing::Not(HasSubstr("layout")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("--microbatch-group-size")));
}

// Chunks of unequal sizes and without layers: the layout says them, and they come back one by one.
TEST(MegatronExport, ListedChunksComeBack) {
  const cost::Job job = export_job("llama3-8b", 32, 64, 4096);
  Strategy s;
  s.split = {4, true, 1, 1, 0};
  s.pp = 4;
  s.dp = s.dp_inner = 2;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  const schedule::Chain chain(schedule::rule_of(s.schedule), {s.pp, s.virtual_stages, 32});
  std::vector<exporter::StageBlocks> chunks(8);
  const std::int64_t blocks[] = {2, 5, 5, 5, 5, 5, 5, 0};
  for (std::size_t i = 0; i < 8; ++i) chunks[i].blocks = blocks[i];
  chunks.front().embedding = chunks.back().head = true;
  std::vector<StagePlan> stages = plan::stages_of_chunks(job.model, chain, chunks);
  for (StagePlan& stage : stages) {
    stage.zero = 1;
    stage.zero_degree = 0;
  }
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), IsEmpty());
  const std::string text = exporter::arguments_text(exporter::export_megatron({job, s, stages}).options);
  EXPECT_THAT(text, HasSubstr("--pipeline-model-parallel-layout Ett|(t*5|)*6L\n"));
  expect_accepted({job, s, stages}, "chunks");
  expect_round_trip({job, s, stages}, "chunks");
  const launch::LaunchedPlan back = read_back(text, job).plan;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    for (std::size_t c = 0; c < 2; ++c) {
      EXPECT_EQ(back.stages[stage].chunks[c].first, stages[stage].chunks[c].first);
      EXPECT_EQ(back.stages[stage].chunks[c].last, stages[stage].chunks[c].last);
    }
  }
  EXPECT_EQ(cost::evaluate(job, s, back.stages).prediction.iteration_s,
            cost::evaluate(job, s, stages).prediction.iteration_s);
  // Even ones need no layout.
  for (exporter::StageBlocks& chunk : chunks) chunk.blocks = 4;
  EXPECT_TRUE(exporter::is_even_cut(job.model, plan::stages_of_chunks(job.model, chain, chunks), 2));
}

// 10 micro-batches on 4 stages are no multiple; in groups of 5 or 10 they need not be.
TEST(MegatronExport, GroupsOfMicroBatchesComeBack) {
  const cost::Job job = export_job("llama3-8b", 32, 20, 4096);
  Strategy s;
  s.split = {4, true, 1, 1, 0};
  s.pp = 4;
  s.dp = s.dp_inner = 2;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages),
              ::testing::Contains(HasSubstr("10 micro-batches on 4 stages")));
  for (const std::int64_t group : {5, 10}) {
    s.group = group;
    EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), IsEmpty());
    EXPECT_THAT(exporter::arguments_text(exporter::export_megatron({job, s, stages}).options),
                HasSubstr("--microbatch-group-size-per-virtual-pipeline-stage " + std::to_string(group) + "\n"));
    expect_accepted({job, s, stages}, "groups");
    expect_round_trip({job, s, stages}, "groups");
    EXPECT_THAT(exporter::overrides_text(exporter::export_nemo({job, s, stages}, exporter::NemoForm::bridge)),
                HasSubstr("model.microbatch_group_size_per_vp_stage=" + std::to_string(group) + "\n"));
  }
}

TEST(MegatronExport, ShardsInGroupsAndWithFsdp) {
  const cost::Job job = export_job("llama3-8b", 64, 64, 4096);
  Strategy s;
  s.dp = s.dp_inner = 64;
  std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1, 8);
  std::string text = exporter::arguments_text(exporter::export_megatron({job, s, stages}).options);
  EXPECT_THAT(text, HasSubstr("--num-distributed-optimizer-instances 8\n"));
  expect_accepted({job, s, stages}, "instances");
  expect_round_trip({job, s, stages}, "instances");
  for (const int zero : {2, 3}) {
    stages = cost::even_stages(job, s, Recompute::full, zero);
    expect_accepted({job, s, stages}, "fsdp");
    expect_round_trip({job, s, stages}, "fsdp");
    text = exporter::arguments_text(exporter::export_megatron({job, s, stages}).options);
    EXPECT_THAT(text, HasSubstr(zero == 2 ? "optim_grads\n" : "optim_grads_params\n"));
  }
}

// Megatron-FSDP in an interleaved pipeline, over all replicas, over some, and with the optimizer over all.
TEST(MegatronExport, ShardsPipelinesWithFsdp) {
  const cost::Job job = export_job("llama3-8b", 64, 64, 4096);
  Strategy s;
  s.pp = 4;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  s.dp = s.dp_inner = 16;
  for (const std::int64_t degree : {0, 8}) {
    for (const bool outer : {false, true}) {
      if (outer && degree == 0) continue;
      const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 3, degree, outer);
      ASSERT_EQ(cost::refuse_strategy(job, s, stages), "");
      EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), ::testing::IsEmpty());
      expect_accepted({job, s, stages}, "fsdp pipeline");
      expect_round_trip({job, s, stages}, "fsdp pipeline");
      const std::string text = exporter::arguments_text(exporter::export_megatron({job, s, stages}).options);
      EXPECT_EQ(text.find("--outer-dp-sharding-strategy optim\n") != text.npos, outer);
      EXPECT_THAT(text, HasSubstr("--megatron-fsdp-main-grads-dtype"));
      EXPECT_THAT(text, HasSubstr("\n--fsdp-double-buffer\n"));
    }
  }
  const std::vector<StagePlan> hybrid = cost::even_stages(job, s, Recompute::none, 3, 8, true);
  for (const launch::Framework other : {launch::Framework::torchtitan, launch::Framework::deepspeed}) {
    EXPECT_THAT(exporter::obstacles(other, job, s, hybrid), ::testing::Contains(HasSubstr("zero_outer")));
  }
}

TEST(MegatronExport, RefusesModelsItHasNot) {
  for (const char* name : {"bert-large", "t5-11b", "gemma2-9b", "falcon-7b", "gpt-oss-20b", "bloom-176b"}) {
    const cost::Job job = export_job(name, 8, 8, 512);
    Strategy s;
    s.dp = s.dp_inner = 8;
    const std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
    EXPECT_THROW(exporter::export_megatron({job, s, stages}), InputError) << name;
    const exporter::ExportTask bare{job, s, stages, groups::RankOrder::stages_last, false};
    EXPECT_THAT(exporter::arguments_text(exporter::export_megatron(bare).options),
                ::testing::Not(HasSubstr("--hidden-size")))
        << name;
  }
}

// Layers of several kinds, interleaved: the layout gives every stage the layers that it was priced with.
TEST(MegatronExport, InterleavesLayersOfSeveralKinds) {
  for (const char* name : {"deepseek-v3", "deepseek-v2-lite", "gemma2-9b", "gpt-oss-20b"}) {
    const cost::Job job = export_job(name, 256, 768, 4096);
    search::PlanRequest request;
    request.job = &job;
    request.limits.uniform = true;
    request.limits.uneven_batch = false;
    plan::set_limit(request.limits, "schedule=interleaved");
    plan::set_limit(request.limits, "pp=4,8");
    plan::set_limit(request.limits, "cp=1");
    request.search.top = 12;
    request.search.time_limit_s = 20;
    const search::PlanAnswer answer = search::make_plan(request);
    ASSERT_FALSE(answer.plans.empty()) << name;
    for (const Plan& plan : answer.plans) {
      const std::int64_t chunks = plan.strategy.virtual_stages;
      ASSERT_GT(chunks, 1);
      const std::vector<exporter::StageBlocks> spread = exporter::chunk_blocks(job.model, plan.stages, chunks);
      EXPECT_TRUE(exporter::keeps_priced_layers(job.model, plan.stages, spread))
          << name << " " << exporter::pipeline_layout(spread);
      for (const exporter::StageBlocks& chunk : spread)
        EXPECT_TRUE(chunk.blocks > 0 || chunk.embedding || chunk.head) << name;
    }
  }
  // Chunks that end inside a pattern of two give stages other layers; and a chunk without layers is none.
  cost::Job job = export_job("gpt-oss-20b", 64, 64, 4096);
  Strategy s;
  s.pp = 2;
  s.dp = s.dp_inner = 32;
  s.virtual_stages = 2;
  s.schedule = Schedule::interleaved;
  std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::none, 1);
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages), IsEmpty());
  const exporter::StageBlocks five{false, 5, false}, six{false, 6, false}, seven{false, 7, false};
  EXPECT_TRUE(exporter::keeps_priced_layers(job.model, stages, {six, six, six, six}));
  EXPECT_FALSE(exporter::keeps_priced_layers(job.model, stages, {five, seven, seven, five}));
  EXPECT_FALSE(exporter::keeps_priced_layers(job.model, stages, {six, six, six, seven}));
  job = export_job("deepseek-v3", 64, 64, 4096);
  stages = cost::even_stages(job, s, Recompute::none, 1);
  stages[0].last = 3;  // the embedding and the dense layers alone
  stages[1].first = 4;
  EXPECT_THAT(exporter::obstacles(launch::Framework::megatron, job, s, stages),
              ::testing::Contains(HasSubstr("too few layers")));
}

TEST(PipelineLayout, UnfoldsToTheStagesItWasMadeFrom) {
  std::mt19937 random(5);
  for (std::uint32_t round = 0; round < test::scaled(4000, 500); ++round) {
    std::vector<exporter::StageBlocks> stages(1 + random() % 24);
    for (exporter::StageBlocks& stage : stages)
      stage.blocks = 1 + static_cast<std::int64_t>(random() % 3 == 0 ? random() % 14 : 4);
    stages.front().embedding = stages.back().head = true;
    if (random() % 4 == 0 && stages.size() > 1) stages.front().blocks = 0;
    if (random() % 4 == 0 && stages.size() > 1) stages.back().blocks = 0;
    const std::string text = exporter::pipeline_layout(stages);
    EXPECT_EQ(text.find_first_of(" ,"), std::string::npos);
    std::vector<std::string> problems;
    const std::vector<std::string> unfolded = expand_layout(text, problems);
    EXPECT_THAT(problems, IsEmpty());
    std::int64_t mtp = 0;
    std::string reason;
    const auto parsed = launch::parse_layout(text, mtp, reason);
    ASSERT_TRUE(parsed.has_value()) << text << reason;
    ASSERT_EQ(unfolded.size(), stages.size()) << text;
    ASSERT_EQ(parsed->size(), stages.size()) << text;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      std::string expected = stages[i].embedding ? "E" : "";
      expected += std::string(static_cast<std::size_t>(stages[i].blocks), 't') + (stages[i].head ? "L" : "");
      EXPECT_EQ(unfolded[i], expected);
      EXPECT_EQ((*parsed)[i], (launch::LaunchChunk{stages[i].embedding, stages[i].blocks, stages[i].head}));
    }
  }
}

TEST(LaunchScript, QuotesForTheShellAndReadsBack) {
  const cost::Job job = export_job("llama3-8b", 64, 64, 4096);
  Strategy s;
  s.pp = 4;
  s.dp = s.dp_inner = 16;
  std::vector<StagePlan> stages = cost::even_stages(job, s, Recompute::full, 1);
  --stages[2].last;
  --stages[3].first;
  const std::string script = exporter::launch_script(exporter::export_megatron({job, s, stages}), 8, 8, "");
  EXPECT_THAT(script, HasSubstr("--pipeline-model-parallel-layout 'Et*8|t*8|t*7|t*9L'"));
  const launch::LaunchSetup setup = launch::read_launch("run.sh", script, {}, "", nullptr);
  EXPECT_EQ(setup.world, 64);
  EXPECT_EQ(setup.pp, 4);
  ASSERT_EQ(setup.chunks.size(), 4U);
  EXPECT_EQ(setup.chunks[3].blocks, 9);
  EXPECT_EQ(nest::shell_quoted("a'b"), "'a'\\''b'");
}

}  // namespace
}  // namespace nest::test
