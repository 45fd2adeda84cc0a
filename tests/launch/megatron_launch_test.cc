// pretrain_gpt.py's options and other frameworks' files as setups, and on a model and a cluster.
#include <gmock/gmock.h>

#include "base/error.h"
#include "cluster/cluster.h"
#include "launch/options.h"
#include "launch/pipeline_text.h"
#include "launch/setup.h"
#include "model/config.h"
#include "model/count.h"
#include "test_support/data.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kSizes =
    "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 4096 --max-position-embeddings 4096 "
    "--vocab-size 50304 --micro-batch-size 2 --bf16 --hidden-dropout 0 --attention-dropout 0 ";

launch::LaunchSetup setup_of(const std::string& options, std::int64_t nodes = 2) {
  return launch::read_launch(
      "test", "torchrun --nnodes " + std::to_string(nodes) + " --nproc-per-node 8 pretrain_gpt.py " + options, {}, "",
      nullptr);
}

std::string message_of(const std::string& options) {
  return refusal_of([&] { setup_of(options); }, "");
}

cost::Job job_of(const launch::LaunchSetup& setup, std::int64_t devices) {
  Run run;
  run.global_batch = setup.global_batch.value_or(64);
  run.sequence = setup.sequence.value_or(4096);
  run.precision = setup.precision;
  return cost::make_job(model::read_config(doc::parse_json("launch", setup.model_config.dump()), "launch"), run,
                        setup.stack, *cluster::find_cluster("dgx-h100", devices));
}

TEST(MegatronLaunch, ReadsWindowsAsPairs) {
  EXPECT_EQ(setup_of(kSizes + "--window-size 127,0").model_config.at("window_size"), 128);
  EXPECT_EQ(setup_of(kSizes + "--window-size '(1023, 0)'").model_config.at("window_size"), 1024);
  EXPECT_FALSE(setup_of(kSizes + "--window-size=-1,0").model_config.contains("window_size"));
  for (const char* wrong : {"128", "127,0,0", "a,0", "-2,0", "127,"}) {
    EXPECT_THAT(message_of(kSizes + "--window-size=" + wrong), HasSubstr("expected 2 whole numbers")) << wrong;
  }
}

TEST(MegatronLaunch, NamesMasksThatNobodyPrices) {
  const std::string sizes = kSizes + "--position-embedding-type rope --use-flash-attn ";
  const auto of = [&](const std::string& more) {
    std::string text = sizes;
    text.replace(text.find("--seq-length 4096 --max-position-embeddings 4096"), 48,
                 "--seq-length 131072 --max-position-embeddings 131072");
    return setup_of(text + more).notes;
  };
  EXPECT_THAT(of(""), Contains(HasSubstr("attention mask takes 32.0 GiB")));  // 131072² bytes for each of two samples
  EXPECT_THAT(of("--no-create-attention-mask-in-dataloader"), Not(Contains(HasSubstr("attention mask"))));
  EXPECT_THAT(setup_of(sizes).notes, Not(Contains(HasSubstr("attention mask"))));
}

// A tensor with one scale is kept and gathered alike whether that scale is current or delayed, which is the default.
TEST(MegatronLaunch, ReadsWeightsInEightBits) {
  const std::string eight = kSizes + "--fp8-format hybrid --use-distributed-optimizer --fp8-param-gather ";
  for (const char* recipe : {"", "--fp8-recipe delayed", "--fp8-recipe tensorwise"}) {
    const cost::SoftwareStack stack = setup_of(eight + recipe).stack;
    EXPECT_EQ(stack.storage, cost::Storage::fp8_tensor) << recipe;
    EXPECT_EQ(stack.weight_bytes, 2) << recipe;
    EXPECT_EQ(stack.weight_traffic_bytes, 1) << recipe;
  }
}

TEST(MegatronLaunch, ReadsHowContextsAreExchanged) {
  const std::string four = kSizes + "--context-parallel-size 4 --use-flash-attn --sequence-parallel ";
  EXPECT_EQ(setup_of(four).cp_comm, ContextExchange::p2p);
  EXPECT_EQ(setup_of(four + "--cp-comm-type a2a").cp_comm, ContextExchange::a2a);
  EXPECT_EQ(setup_of(four + "--cp-comm-type allgather").cp_comm, ContextExchange::all_gather);
  const launch::LaunchSetup two =
      setup_of(four + "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2 --global-batch-size 64");
  EXPECT_EQ(two.cp_comm, ContextExchange::a2a_p2p);
  EXPECT_EQ(two.cp_inner, 2);
  const Split split = launch::lay_out(two, job_of(two, 16)).strategy.split;
  EXPECT_EQ(split.cp_comm, ContextExchange::a2a_p2p);
  EXPECT_EQ(split.cp_inner, 2);
  // One level of two is one of the plain kinds.
  EXPECT_EQ(setup_of(four + "--cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 4 1").cp_comm,
            ContextExchange::a2a);
  EXPECT_THAT(message_of(four + "--cp-comm-type ring"), HasSubstr("--cp-comm-type: `ring` is none of p2p"));
  EXPECT_THAT(message_of(four + "--cp-comm-type a2a+p2p"),
              HasSubstr("must be two numbers whose product is --context-parallel-size 4"));
}

TEST(MegatronLaunch, AppliesMegatronsDefaults) {
  const launch::LaunchSetup setup = setup_of(kSizes);
  EXPECT_EQ(setup.world, 16);
  EXPECT_EQ(setup.tp, 1);
  EXPECT_EQ(setup.zero, 0);
  EXPECT_FALSE(setup.sp);
  EXPECT_EQ(setup.stack.data_overlap, cost::DataOverlap::none);
  EXPECT_EQ(setup.model_config.at("ffn_hidden_size"), 8192);
  const model::Architecture architecture =
      model::read_config(doc::parse_json("launch", setup.model_config.dump()), "launch");
  EXPECT_EQ(architecture.position, model::PositionKind::learned);
  EXPECT_TRUE(architecture.tied_embeddings);
  EXPECT_EQ(architecture.towers[0].kinds[0].norm, model::NormKind::layer);
  EXPECT_TRUE(architecture.towers[0].kinds[0].attention.query_bias);
  // swiglu: 8h/3 rounded down to a multiple of 64
  EXPECT_EQ(setup_of(kSizes + "--swiglu").model_config.at("ffn_hidden_size"), 5440);
  EXPECT_EQ(setup_of(kSizes + "--hidden-size=4096 --num-layers 12").model_config.at("hidden_size"), 4096);
}

TEST(MegatronLaunch, ReadsWhatOverlaps) {
  const launch::LaunchSetup setup = setup_of(
      kSizes +
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3 "
      "--sequence-parallel --tp-comm-overlap --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather "
      "--recompute-granularity selective --recompute-modules core_attn layernorm --defer-embedding-wgrad-compute");
  EXPECT_EQ(setup.vpp, 4);
  EXPECT_TRUE(setup.sp);
  EXPECT_EQ(setup.zero, 1);
  EXPECT_EQ(setup.stack.data_overlap, cost::DataOverlap::buckets);
  EXPECT_TRUE(setup.stack.tensor_overlap);
  EXPECT_TRUE(setup.stack.pipeline_overlap);
  EXPECT_TRUE(setup.stack.defer_head_gradient);
  EXPECT_THAT(setup.stack.selective_modules, ElementsAre(model::Module::core_attention, model::Module::norm));
  EXPECT_EQ(setup.recompute, Recompute::selective);
}

TEST(MegatronLaunch, ReadsHowRoutedTokensTravelAndWhatGraphsCapture) {
  const std::string experts = kSizes + "--num-experts 16 --moe-router-topk 4 ";
  EXPECT_EQ(setup_of(experts).stack.dispatch, (cost::DispatchRule{cost::Dispatcher::allgather, 0}));
  EXPECT_EQ(setup_of(experts + "--moe-token-dispatcher-type alltoall").stack.dispatch.dispatcher,
            cost::Dispatcher::alltoall);
  EXPECT_EQ(setup_of(experts + "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep "
                               "--moe-hybridep-num-sms 32")
                .stack.dispatch,
            (cost::DispatchRule{cost::Dispatcher::hybridep, 32}));
  const launch::LaunchSetup grouped = setup_of(experts + "--moe-router-num-groups 4 --moe-router-group-topk 2");
  EXPECT_EQ(grouped.model_config.at("moe_router_num_groups"), 4);
  EXPECT_EQ(grouped.model_config.at("moe_router_group_topk"), 2);
  EXPECT_TRUE(setup_of(experts + "--moe-token-dispatcher-type alltoall --overlap-moe-expert-parallel-comm "
                                 "--delay-wgrad-compute")
                  .stack.delay_wgrad);
  using enum cost::GraphScope;
  EXPECT_TRUE(setup_of(experts).stack.graph_scopes.empty());
  EXPECT_THAT(setup_of(experts + "--cuda-graph-impl full_iteration").stack.graph_scopes, ElementsAre(full));
  EXPECT_THAT(
      setup_of(experts + "--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router").stack.graph_scopes,
      ElementsAre(attention, router));
  EXPECT_EQ(setup_of(experts + "--enable-cuda-graph").stack.graph_scopes.size(), 4U);
}

TEST(MegatronLaunch, RefusesWhatMegatronRefuses) {
  const struct {
    const char* options;
    const char* says;
  } cases[] = {
      {"--tensor-model-parallel 4", "did you mean `--tensor-model-parallel-size`?"},
      {"--tensor-model-paralel-size 4", "did you mean `--tensor-model-parallel-size`?"},
      {"--batch-size 4", "it is --micro-batch-size now"},
      {"--hidden-size 4k", "line 1: --hidden-size: found `4k`; expected a whole number"},
      {"--tensor-model-parallel-size", "a value must follow"},
      {"--sequence-parallel=1", "takes no value"},
      {"--tensor-model-parallel-size $TP", "$TP is not set in the text"},
      {"--pipeline-model-parallel-size 5", "5 stages do not divide the 24 layers"},
      {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 5", "5 chunks do not divide"},
      {"--num-virtual-stages-per-pipeline-rank 2", "needs a pipeline"},
      {"--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2 "
       "--num-layers-per-virtual-pipeline-stage 3",
       "at most one"},
      {"--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --no-overlap-p2p-communication",
       "two stages"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*11|t*12L'", "it has 23 layers"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*24|x|L'", "is none of E, t, m, L"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 't*24|L'", "begins with E"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*12|t*12L' "
       "--account-for-loss-in-pipeline-split",
       "contradicts"},
      {"--delay-wgrad-compute", "needs --overlap-moe-expert-parallel-comm"},
      {"--overlap-moe-expert-parallel-comm --moe-shared-expert-overlap", "excludes --overlap-moe-expert-parallel-comm"},
      {"--moe-token-dispatcher-type deepep", "allgather"},
      {"--overlap-param-gather", "needs --use-distributed-optimizer"},
      {"--use-distributed-optimizer --overlap-param-gather", "needs --overlap-grad-reduce"},
      {"--fine-grained-activation-offloading", "needs --offload-modules"},
      {"--fine-grained-activation-offloading --offload-modules core_attention", "`core_attention` is no module"},
      {"--fine-grained-activation-offloading --offload-modules core_attn --cpu-offloading-num-layers 2",
       "excludes --cpu-offloading-num-layers"},
      {"--cpu-offloading-num-layers 2 --recompute-granularity selective", "excludes recomputation"},
      {"--optimizer-cpu-offload", "needs --use-precision-aware-optimizer"},
      {"--optimizer-cpu-offload --use-precision-aware-optimizer --optimizer-offload-fraction 1.5", "0 … 1"},
      {"--optimizer muon --use-precision-aware-optimizer", "needs --optimizer adam, not muon"},
      {"--optimizer dist_muon --use-megatron-fsdp", "needs --optimizer adam or sgd, not muon"},
      {"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads --num-distributed-optimizer-instances 2 "
       "--outer-dp-sharding-strategy optim",
       "needs --data-parallel-sharding-strategy optim_grads_params"},
      {"--use-megatron-fsdp --outer-dp-sharding-strategy optimizer", "optim"},
      {"--use-megatron-fsdp --megatron-fsdp-version 2 --pipeline-model-parallel-size 2", "2 needs tp, cp and pp of 1"},
      {"--use-megatron-fsdp --megatron-fsdp-version 2 --use-distributed-optimizer", "excludes --use-distributed"},
      {"--use-megatron-fsdp --megatron-fsdp-main-grads-dtype fp8", "fp32"},
      {"--use-megatron-fsdp --overlap-moe-expert-parallel-comm --fsdp-double-buffer", "excludes --overlap-moe-expert"},
      {"--use-megatron-fsdp --overlap-moe-expert-parallel-comm --pipeline-model-parallel-size 2",
       "excludes --use-megatron-fsdp in a pipeline"},
      {"--recompute-granularity full", "full needs"},
      {"--recompute-granularity selective --recompute-method block", "selective takes"},
      {"--recompute-granularity selective --recompute-modules core_atn", "`core_atn` is no module"},
      {"--tp-comm-overlap", "needs --sequence-parallel"},
      {"--expert-model-parallel-size 2", "needs --num-experts"},
      {"--num-experts 8 --moe-layer-freq '([0]*3+[1]*20)'", "a list of 0 and 1 for 24 layers"},
      {"--fp16", "contradicts --bf16"},
      {"--normalization rmsnorm", "expected LayerNorm or RMSNorm"},
      {"--multi-latent-attention --group-query-attention", "refuses it"},
  };
  for (const auto& each : cases) {
    const std::string message = message_of(kSizes + each.options);
    EXPECT_THAT(message, HasSubstr(each.says)) << each.options;
    EXPECT_THAT(message, HasSubstr("test: ")) << each.options;
  }
}

TEST(MegatronLaunch, UnknownOnesAreNamedNotGuessed) {
  const launch::LaunchSetup setup = setup_of(kSizes + "--some-new-thing 5 --data-path $DATA $EXTRA --mtp-num-layers 1");
  EXPECT_THAT(setup.notes, Contains(HasSubstr("--some-new-thing")));
  EXPECT_EQ(setup.mtp_layers, 1);
  // $EXTRA follows --data-path, which takes lists: it may be part of it.
  const launch::LaunchSetup other = setup_of(kSizes + "--bf16 $EXTRA --mock-data");
  EXPECT_THAT(other.notes, Contains(HasSubstr("$EXTRA is not set")));
}

TEST(MegatronLaunch, LaysOutUnevenPipelines) {
  const auto blocks_of = [](const std::string& options) {
    const launch::LaunchSetup setup = setup_of(kSizes + "--global-batch-size 64 " + options);
    const launch::LaunchedPlan plan = launch::lay_out(setup, job_of(setup, 16));
    std::vector<int> layers;
    for (const StagePlan& stage : plan.stages) layers.push_back(stage.last - stage.first + 1);
    return layers;  // embedding and head counted
  };
  EXPECT_THAT(blocks_of("--pipeline-model-parallel-size 4"), ElementsAre(7, 6, 6, 7));
  EXPECT_THAT(blocks_of("--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 4 "
                        "--decoder-last-pipeline-num-layers 6"),
              ElementsAre(5, 7, 7, 7));
  EXPECT_THAT(blocks_of("--num-layers 22 --pipeline-model-parallel-size 4 --account-for-embedding-in-pipeline-split "
                        "--account-for-loss-in-pipeline-split"),
              ElementsAre(6, 6, 6, 6));
  EXPECT_THAT(blocks_of("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'E|t*9|t*9|t*6L'"),
              ElementsAre(1, 9, 9, 7));
  EXPECT_THAT(blocks_of("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*5|t*7|t*6|t*6L'"),
              ElementsAre(12, 14));
}

// Layers of a stage's chunks, embedding and head counted: as layouts say, wherever chunks are not as even as they go.
TEST(MegatronLaunch, ListsChunksOfUnevenLayouts) {
  const auto chunks_of = [](const std::string& options) {
    const launch::LaunchSetup setup = setup_of(kSizes + "--global-batch-size 64 " + options);
    const launch::LaunchedPlan plan = launch::lay_out(setup, job_of(setup, 16));
    std::vector<std::vector<std::pair<int, int>>> stages;
    for (const StagePlan& stage : plan.stages) {
      stages.emplace_back();
      for (const ChunkPlan& chunk : stage.chunks) stages.back().emplace_back(chunk.first, chunk.last);
    }
    return stages;
  };
  using Chunks = std::vector<std::pair<int, int>>;
  const std::string two = "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout ";
  EXPECT_THAT(chunks_of(two + "'Et*2|t*10|t*6|t*6L'"),
              ElementsAre(Chunks{{0, 2}, {13, 18}}, Chunks{{3, 12}, {19, 25}}));
  EXPECT_THAT(chunks_of(two + "'E|t*12||t*12L'"), ElementsAre(Chunks{{0, 0}, {13, 12}}, Chunks{{1, 12}, {13, 25}}));
  EXPECT_THAT(chunks_of(two + "'Et*12|t*12||L'"), ElementsAre(Chunks{{0, 12}, {25, 24}}, Chunks{{13, 24}, {25, 25}}));
  // A rank without any layer.
  EXPECT_THAT(chunks_of("--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout 'Et*12||t*12|L'"),
              ElementsAre(Chunks{{0, 12}}, Chunks{{13, 12}}, Chunks{{13, 24}}, Chunks{{25, 25}}));
  EXPECT_THAT(chunks_of(two + "'Et*6|t*6|t*6|t*6L'"), ElementsAre(Chunks{}, Chunks{}));
  // Further tokens: in one chunk, the last of its rank, after all layers.
  EXPECT_THAT(chunks_of(two + "'Et*8|t*8|t*8m|L'"), ElementsAre(Chunks{{0, 8}, {17, 24}}, Chunks{{9, 16}, {25, 25}}));
  EXPECT_THAT(message_of(kSizes + two + "'Et*8|t*8m|t*8|L'"), HasSubstr("t stands before m"));
  EXPECT_THAT(message_of(kSizes + two + "'Et*12|t*12|m|mL'"), HasSubstr("all m stand in one chunk"));
  EXPECT_THAT(message_of(kSizes + two + "'Et*12|t*12m||L'"),
              HasSubstr("m stands in the last chunk of its pipeline rank"));
}

// 64 sequences, 2 at a time on 4 replicas: 8 micro-batches.
TEST(MegatronLaunch, ReadsGroupsOfMicroBatches) {
  const std::string four =
      kSizes +
      "--global-batch-size 64 --pipeline-model-parallel-size 4 "
      "--num-virtual-stages-per-pipeline-rank 3 --microbatch-group-size-per-virtual-pipeline-stage ";
  const auto laid_out = [&](const std::string& group) {
    const launch::LaunchSetup setup = setup_of(four + group);
    return launch::lay_out(setup, job_of(setup, 16)).strategy;
  };
  EXPECT_EQ(laid_out("8").group, 8);
  EXPECT_EQ(laid_out("4").group, 0);
  EXPECT_THAT(refusal_of([&] { laid_out("9"); }), HasSubstr("group=9 is out of range; allowed is 4 … 8"));
  EXPECT_THAT(message_of(four + "0"), HasSubstr("--microbatch-group-size-per-virtual-pipeline-stage"));
  // Without chunks Megatron does not look at it.
  const launch::LaunchSetup plain = setup_of(kSizes +
                                             "--global-batch-size 64 --pipeline-model-parallel-size 4 "
                                             "--microbatch-group-size-per-virtual-pipeline-stage 8");
  EXPECT_EQ(launch::lay_out(plain, job_of(plain, 16)).strategy.group, 0);
}

TEST(MegatronLaunch, ExpertSizesAreReadVerbatim) {
  const std::string moe =
      kSizes + "--global-batch-size 64 --num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel ";
  const launch::LaunchSetup folded = setup_of(moe + "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1");
  const Strategy strategy = launch::lay_out(folded, job_of(folded, 16)).strategy;
  EXPECT_EQ(strategy.split.ep, 8);
  EXPECT_EQ(strategy.split.etp, 1);
  EXPECT_EQ(strategy.dp, 8);
  EXPECT_EQ(strategy.edp(), 2);
  const launch::LaunchSetup plain = setup_of(moe + "--expert-model-parallel-size 4");
  EXPECT_EQ(launch::lay_out(plain, job_of(plain, 16)).strategy.split.ep, 4);
  const launch::LaunchSetup whole = setup_of(moe + "--expert-model-parallel-size 1 --expert-tensor-parallel-size 1");
  EXPECT_EQ(launch::lay_out(whole, job_of(whole, 16)).strategy.edp(), 16);
  const launch::LaunchSetup more = setup_of(moe + "--expert-model-parallel-size 2 --expert-tensor-parallel-size 4");
  EXPECT_EQ(launch::lay_out(more, job_of(more, 16)).strategy.split.etp, 4);
  const launch::LaunchSetup context =
      setup_of(moe + "--expert-model-parallel-size 8 --expert-tensor-parallel-size 1 --context-parallel-size 2");
  EXPECT_EQ(launch::lay_out(context, job_of(context, 16)).strategy.dp, 4);
  const launch::LaunchSetup many = setup_of(moe + "--expert-model-parallel-size 8 --expert-tensor-parallel-size 4");
  EXPECT_THROW(launch::lay_out(many, job_of(many, 16)), InputError);  // 32 ranks hold a set, a stage has 16
}

TEST(MegatronLaunch, ReadsTheOptimizer) {
  struct Case {
    const char* options;
    Optimizer optimizer;
    int zero;
  };
  for (const Case& each : {Case{"", Optimizer::adam, 0}, Case{"--optimizer sgd", Optimizer::sgd, 0},
                           Case{"--optimizer muon", Optimizer::muon, 0},
                           Case{"--optimizer muon --use-distributed-optimizer", Optimizer::muon, 1},
                           Case{"--optimizer dist_muon", Optimizer::muon, 1}}) {
    const launch::LaunchSetup setup = setup_of(kSizes + each.options);
    EXPECT_EQ(setup.optimizer, each.optimizer) << each.options;
    EXPECT_EQ(setup.zero, each.zero) << each.options;
    EXPECT_THAT(setup.notes, ::testing::Not(::testing::Contains(HasSubstr("optimizer")))) << each.options;
  }
  EXPECT_THAT(setup_of(kSizes + std::string("--optimizer lion")).notes,
              ::testing::Contains("optimizer lion is modelled as adam"));
}

TEST(MegatronLaunch, ReadsWhatWaitsOnTheHost) {
  const std::string aware = kSizes + std::string("--use-distributed-optimizer --use-precision-aware-optimizer ");
  EXPECT_EQ(setup_of(aware).optimizer_offload, 0);
  const launch::LaunchSetup all = setup_of(aware + "--optimizer-cpu-offload");
  EXPECT_EQ(all.optimizer_offload, 100);
  EXPECT_FALSE(all.stack.offload_overlap);
  const launch::LaunchSetup half =
      setup_of(aware + "--optimizer-cpu-offload --optimizer-offload-fraction 0.5 --overlap-cpu-optimizer-d2h-h2d");
  EXPECT_EQ(half.optimizer_offload, 50);
  EXPECT_TRUE(half.stack.offload_overlap);
  EXPECT_EQ(setup_of(kSizes + std::string("--offload-modules core_attn")).offload, 0);  // not switched on
  const std::string fine = kSizes + std::string("--fine-grained-activation-offloading --offload-modules ");
  EXPECT_EQ(setup_of(fine + "core_attn attn_proj moe_act").offload, *parse_offload("core_attn+attn_proj+moe_act"));
  EXPECT_THAT(setup_of(fine + "core_attn --activation-offload-fraction 0.5").notes,
              ::testing::Contains(HasSubstr("all groups of --offload-modules")));
  EXPECT_THAT(setup_of(fine + "core_attn --min-offloaded-tensor-size 1000").notes,
              ::testing::Contains(HasSubstr("1048576 elements")));
  const launch::LaunchSetup graphs =
      setup_of(fine + "attn_norm core_attn --cuda-graph-impl transformer_engine --cuda-graph-modules attn");
  EXPECT_EQ(graphs.offload, set_of(OffloadModule::core_attn));
  EXPECT_THAT(graphs.notes, ::testing::Contains(HasSubstr("norms stay on the device")));
  EXPECT_EQ(setup_of(kSizes + std::string("--cpu-offloading-num-layers 3")).stack.offloaded_layers, 3);
}

TEST(MegatronLaunch, ReadsHybridFsdp) {
  const std::string fsdp = kSizes + "--global-batch-size 64 --pipeline-model-parallel-size 2 --use-megatron-fsdp ";
  const launch::LaunchSetup all = setup_of(fsdp);
  EXPECT_EQ(all.zero, 3);
  EXPECT_FALSE(all.shard_outer);
  EXPECT_EQ(all.stack.gradient_bytes, 2);  // of bf16 weights, whatever --grad-reduce-in-bf16 says
  EXPECT_EQ(all.stack.gradient_traffic_bytes, 2);
  const launch::LaunchSetup setup =
      setup_of(fsdp +
               "--num-distributed-optimizer-instances 4 --outer-dp-sharding-strategy optim "
               "--megatron-fsdp-main-grads-dtype fp32 --megatron-fsdp-grad-comm-dtype bf16");
  EXPECT_TRUE(setup.shard_outer);
  EXPECT_EQ(setup.stack.gradient_bytes, 4);
  EXPECT_EQ(setup.stack.gradient_traffic_bytes, 2);
  const launch::LaunchedPlan plan = launch::lay_out(setup, job_of(setup, 16));
  for (const StagePlan& stage : plan.stages) {
    EXPECT_EQ(stage.zero, 3);
    EXPECT_EQ(stage.zero_degree, 2);
    EXPECT_TRUE(stage.zero_outer);
  }
  EXPECT_FALSE(setup_of(fsdp + "--outer-dp-sharding-strategy optim").shard_outer);
  EXPECT_THAT(all.notes, ::testing::Contains(HasSubstr("modelled with --fsdp-double-buffer")));
  for (const char* buffers : {"--fsdp-double-buffer", "--megatron-fsdp-max-pool-double-buffer", "--use-nccl-ub"}) {
    EXPECT_THAT(setup_of(fsdp + buffers).notes, ::testing::Not(::testing::Contains(HasSubstr("double-buffer"))));
  }
}

TEST(MegatronLaunch, RefusesSizesThatDoNotFitTogether) {
  const auto refused = [](const std::string& options) {
    const launch::LaunchSetup setup = setup_of(kSizes + options);
    EXPECT_THROW(launch::lay_out(setup, job_of(setup, 16)), InputError) << options;
  };
  refused("--tensor-model-parallel-size 3");
  refused("--global-batch-size 50");
  refused(
      "--global-batch-size 64 --tensor-model-parallel-size 2 --use-tp-pp-dp-mapping --context-parallel-size 2 "
      "--pipeline-model-parallel-size 2");
  refused("--global-batch-size 64 --context-parallel-size 2 --seq-length 4098");
  refused("--global-batch-size 64 --use-distributed-optimizer --num-distributed-optimizer-instances 3");
}

TEST(OptionTable, IsSortedAndHasNoNameTwice) {
  const auto& table = launch::megatron_option_table();
  EXPECT_GT(table.size(), 200U);
  for (std::size_t i = 1; i < table.size(); ++i) EXPECT_LT(table[i - 1].name, table[i].name);
}

TEST(Layout, FollowsTheGrammar) {
  const auto counts = [](const char* text) {
    std::int64_t mtp = 0;
    std::string reason;
    std::vector<std::int64_t> blocks;
    const auto chunks = launch::parse_layout(text, mtp, reason);
    if (!chunks) return blocks;
    for (const launch::LaunchChunk& chunk : *chunks) blocks.push_back(chunk.blocks);
    blocks.push_back(mtp);
    return blocks;
  };
  EXPECT_THAT(counts("Et*7|t*9|t*9|t*7L"), ElementsAre(7, 9, 9, 7, 0));
  EXPECT_THAT(counts("Et*3|(t*4|)*2t*5|t*4L"), ElementsAre(3, 4, 4, 5, 4, 0));
  EXPECT_THAT(counts("Et*3|(tt|)*2,m|L"), ElementsAre(3, 2, 2, 0, 0, 1));
  EXPECT_THAT(counts("Et*2,3|L"), ElementsAre(23, 0, 0));  // the comma is deleted first
  EXPECT_THAT(counts("E||t|L"), ElementsAre(0, 0, 1, 0, 0));
  for (const char* bad : {"", "E t|L", "Et", "tL", "EtLt", "EEtL", "E(tt|*2L", "E((t)*2|)*2L", "Et*|L",
                          "Et*99999999999|L", "E(t|)*9999999L"}) {
    EXPECT_TRUE(counts(bad).empty()) << bad;
  }
  EXPECT_THAT(*launch::parse_layer_frequency("([0]*2+[1]*3)", 5), ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(*launch::parse_layer_frequency("[0,1]*2", 4), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(*launch::parse_layer_frequency("2", 4), ElementsAre(1, 0, 1, 0));
  EXPECT_FALSE(launch::parse_layer_frequency("[0]*3", 4).has_value());
  EXPECT_FALSE(launch::parse_layer_frequency("[2]*4", 4).has_value());
  EXPECT_FALSE(launch::parse_layer_frequency("0", 4).has_value());
}

// Scripts that were made for importers, with what they must yield.
TEST(LaunchSamples, YieldTheirKnownValues) {
  NEST_REQUIRE_DATA("../formats/samples/import");
  const auto folder = data_dir() / "../formats/samples/import";
  for (const char* name : {"launch_torchrun_arrays.sh", "launch_srun_direct.txt", "launch_mpirun.txt"}) {
    const launch::LaunchSetup setup = launch::read_launch(name, read_file(folder / name), {}, "", nullptr);
    EXPECT_EQ(setup.world, 64) << name;
    EXPECT_EQ(setup.tp, 4);
    EXPECT_EQ(setup.pp, 4);
    EXPECT_EQ(setup.vpp, 2);
    EXPECT_EQ(setup.cp, 2);
    EXPECT_TRUE(setup.sp);
    EXPECT_EQ(setup.micro_batch, 1);
    EXPECT_EQ(setup.global_batch, 128);
    EXPECT_THAT(setup.stack.selective_modules, ElementsAre(model::Module::core_attention, model::Module::norm));
  }
  const launch::LaunchSetup yaml = launch::read_launch(
      "model_config.yaml", read_file(folder / "launch_megatron_model_config.yaml"), {}, "", nullptr);
  EXPECT_EQ(yaml.pp, 16);
  EXPECT_EQ(yaml.vpp, 2);
  EXPECT_EQ(yaml.ep, 64);
  EXPECT_EQ(yaml.world, std::nullopt);
  std::int64_t layers = 0;
  for (const launch::LaunchChunk& chunk : yaml.chunks) layers += chunk.blocks;
  EXPECT_EQ(layers, 61);
  EXPECT_THAT(yaml.stack.selective_modules,
              ElementsAre(model::Module::latent_up, model::Module::feed_forward, model::Module::moe_activation));
  EXPECT_EQ(yaml.mtp_layers, 1);
}

}  // namespace
}  // namespace nest::test
