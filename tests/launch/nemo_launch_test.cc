// Overrides of Megatron-Bridge and NeMo 2 as people write them.
#include <gmock/gmock.h>

#include "base/error.h"
#include "launch/nemo_launch.h"
#include "launch/override_text.h"
#include "launch/setup.h"

namespace nest::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

launch::LaunchSetup read_recipe(const std::string& text, const std::string& with = "",
                                const launch::ReadNamedFile& files = nullptr) {
  return launch::read_launch("recipe", text, {}, with, files);
}

std::string recipe_refusal(const std::string& text) {
  try {
    read_recipe(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

constexpr const char* kWhole =
    "model.tensor_model_parallel_size=4\n"
    "model.pipeline_model_parallel_size=2\n"
    "model.context_parallel_size=2\n"
    "model.sequence_parallel=true\n"
    "model.recompute_granularity=null\n"
    "train.micro_batch_size=1\n"
    "train.global_batch_size=64\n"
    "dataset.seq_length=8192\n"
    "ddp.use_distributed_optimizer=true\n"
    "mixed_precision=bf16_mixed\n";

TEST(OverrideText, ValuesAreThoseOfTheGrammar) {
  launch::Overrides overrides;
  overrides.add_text("f",
                     "# a comment\n"
                     "++model.b='x y' model.list=[1, 'two', three]   # one more\n"
                     "comm_overlap.x=7\n"
                     "comm_overlap={_target_:m.C,deep:{x:1},y:null}\n"
                     "model.gone=1\n~model.gone\n");
  EXPECT_EQ(overrides.all().size(), 5U);
  EXPECT_EQ(overrides.find("model.b")->value, "x y");
  EXPECT_THAT(overrides.find("model.list")->items, ElementsAre("1", "two", "three"));
  EXPECT_EQ(overrides.find("model.list")->line, 2);
  EXPECT_EQ(overrides.find("comm_overlap.x"), nullptr);  // of the object that was replaced
  EXPECT_EQ(overrides.find("comm_overlap.deep.x")->value, "1");
  EXPECT_TRUE(overrides.find("comm_overlap.y")->is_null);
  EXPECT_EQ(overrides.find("model.gone"), nullptr);
}

TEST(OverrideText, WordsOfOtherKindsAreNone) {
  EXPECT_TRUE(launch::is_override_word("++model.a=1"));
  EXPECT_TRUE(launch::is_override_word("mixed_precision=bf16_mixed"));
  EXPECT_TRUE(launch::is_override_word("~model.a"));
  EXPECT_FALSE(launch::is_override_word("--model.a=1"));
  EXPECT_FALSE(launch::is_override_word("NAME=value"));
  EXPECT_FALSE(launch::is_override_word("other.a=1"));
  EXPECT_FALSE(launch::looks_like_overrides("mixed_precision=bf16\n"));  // a shell could mean it too
  EXPECT_FALSE(launch::looks_like_overrides("model.a=1\ntorchrun x.py\n"));
  EXPECT_FALSE(launch::looks_like_override_yaml("compute_environment: LOCAL\nmicro_batch_size: 1\n"));
}

TEST(NemoLaunch, OverridesOneALine) {
  const launch::LaunchSetup setup = read_recipe(kWhole);
  EXPECT_EQ(setup.framework, launch::Framework::nemo);
  EXPECT_EQ(setup.tp, 4);
  EXPECT_EQ(setup.pp, 2);
  EXPECT_EQ(setup.cp, 2);
  EXPECT_TRUE(setup.sp);
  EXPECT_EQ(setup.micro_batch, 1);
  EXPECT_EQ(setup.global_batch, 64);
  EXPECT_EQ(setup.sequence, 8192);
  EXPECT_EQ(setup.zero, 1);
  EXPECT_EQ(setup.precision, Precision::bf16);
  EXPECT_EQ(setup.stack.loss, cost::LossKernel::fused);  // GPTModelProvider's own
  EXPECT_EQ(setup.stack.data_overlap, cost::DataOverlap::buckets);
  EXPECT_FALSE(setup.stack.tensor_overlap);  // without comm_overlap there is none
  EXPECT_FALSE(setup.stack.dropout);
  EXPECT_THAT(setup.notes, IsEmpty());
}

TEST(NemoLaunch, TheSameAsYaml) {
  const launch::LaunchSetup setup = read_recipe(
      "# overrides\n"
      "model:\n"
      "  tensor_model_parallel_size: 4\n"
      "  pipeline_model_parallel_size: 2\n"
      "  context_parallel_size: 1\n"
      "  pipeline_model_parallel_layout: [[embedding, decoder, decoder], [decoder, loss]]\n"
      "  recompute_granularity: selective\n"
      "  recompute_modules: [core_attn, mlp]\n"
      "train: {micro_batch_size: 2, global_batch_size: 64}\n"
      "dataset.seq_length: 4096\n"
      "optimizer:\n"
      "  lr: 1e-4\n"
      "  use_precision_aware_optimizer: true\n"
      "  exp_avg_dtype: torch.bfloat16\n"
      "  exp_avg_sq_dtype: bf16\n"
      "ddp:\n"
      "  use_distributed_optimizer: true\n"
      "mixed_precision: bf16-mixed\n");
  EXPECT_EQ(setup.tp, 4);
  EXPECT_EQ(setup.sequence, 4096);
  EXPECT_THAT(setup.chunks,
              ElementsAre(launch::LaunchChunk{true, 2, false, 0}, launch::LaunchChunk{false, 1, true, 0}));
  EXPECT_EQ(setup.recompute, Recompute::selective);
  EXPECT_THAT(setup.stack.selective_modules, ElementsAre(model::Module::core_attention, model::Module::feed_forward));
  EXPECT_EQ(setup.stack.moments_bytes, 4);  // 2 + 2
  EXPECT_THAT(setup.notes, IsEmpty());
}

TEST(NemoLaunch, CommOverlapDecidesOverDdp) {
  const auto stack_of = [](const std::string& more) { return read_recipe(std::string(kWhole) + more).stack; };
  EXPECT_EQ(stack_of("ddp.overlap_grad_reduce=false\n").data_overlap, cost::DataOverlap::none);
  EXPECT_EQ(stack_of("ddp.overlap_grad_reduce=false\n++comm_overlap={tp_comm_overlap:true}\n").data_overlap,
            cost::DataOverlap::buckets);
  EXPECT_EQ(stack_of("++comm_overlap={tp_comm_overlap:true,overlap_grad_reduce:false}\n").data_overlap,
            cost::DataOverlap::none);
  EXPECT_TRUE(stack_of("++comm_overlap={tp_comm_overlap:true}\n").tensor_overlap);
  EXPECT_FALSE(stack_of("comm_overlap.tp_comm_overlap=true\nmodel.sequence_parallel=false\n").tensor_overlap);
  EXPECT_TRUE(stack_of("comm_overlap.defer_embedding_wgrad_compute=true\n").defer_head_gradient);
  const std::string chunks = "model.virtual_pipeline_model_parallel_size=2\nmodel.num_layers=32\n";
  EXPECT_TRUE(stack_of(chunks + "comm_overlap.tp_comm_overlap=false\n").pipeline_overlap);
  EXPECT_FALSE(stack_of(chunks + "model.pipeline_model_parallel_size=4\n").pipeline_overlap);  // Megatron's default
  EXPECT_TRUE(
      stack_of(chunks + "model.overlap_p2p_comm=true\nmodel.overlap_p2p_comm_warmup_flush=true\n").flush_overlap);
}

TEST(NemoLaunch, PrecisionIsWrittenOverTheRest) {
  const auto with = [](const std::string& more) { return read_recipe(std::string(kWhole) + more); };
  const launch::LaunchSetup narrow = with("ddp.grad_reduce_in_fp32=false\n");
  EXPECT_EQ(narrow.stack.gradient_traffic_bytes, 4);
  EXPECT_THAT(narrow.notes, Contains(HasSubstr("ddp.grad_reduce_in_fp32 says nothing")));
  EXPECT_EQ(with("mixed_precision=null\nddp.grad_reduce_in_fp32=false\n").stack.gradient_traffic_bytes, 2);
  EXPECT_EQ(with("mixed_precision=null\n").precision, Precision::fp32);
  EXPECT_EQ(with("mixed_precision=fp16_mixed\n").stack.gradient_traffic_bytes, 2);
  const launch::LaunchSetup eight = with("mixed_precision=bf16_with_mxfp8_mixed\n");
  EXPECT_EQ(eight.precision, Precision::fp8);
  EXPECT_EQ(eight.stack.storage, cost::Storage::mxfp8);
  EXPECT_EQ(eight.stack.weight_bytes, 2.0625);  // two copies of 33/32 byte
  const launch::LaunchSetup current = with("mixed_precision=bf16_with_fp8_current_scaling_mixed\n");
  EXPECT_EQ(current.stack.weight_traffic_bytes, 1);
  EXPECT_THAT(current.notes, Contains(HasSubstr("first and the last layers")));
  EXPECT_EQ(with("++mixed_precision={bf16:true,fp8:hybrid,fp8_recipe:tensorwise}\n").stack.weight_traffic_bytes, 2);
  EXPECT_THAT(recipe_refusal(std::string(kWhole) + "mixed_precision=bf16_mixd\n"),
              HasSubstr("line 11: mixed_precision: `bf16_mixd` is no recipe of precision; did you mean `bf16_mixed`?"));
}

TEST(NemoLaunch, OlderKeysOfNemo) {
  const launch::LaunchSetup setup = read_recipe(
      "trainer.strategy.tensor_model_parallel_size=2\n"
      "trainer.strategy.pipeline_model_parallel_size=1\n"
      "trainer.strategy.context_parallel_size=1\n"
      "trainer.strategy.sequence_parallel=True\n"
      "trainer.num_nodes=2\n"
      "trainer.devices=8\n"
      "model.config.recompute_granularity=None\n"
      "data.micro_batch_size=1\n"
      "data.global_batch_size=32\n"
      "data.seq_length=2048\n"
      "optim.config.use_distributed_optimizer=False\n"
      "trainer.strategy.ddp.use_distributed_optimizer=False\n"
      "trainer.plugins.grad_reduce_in_fp32=False\n");
  EXPECT_EQ(setup.tp, 2);
  EXPECT_EQ(setup.world, 16);
  EXPECT_EQ(setup.zero, 0);
  EXPECT_EQ(setup.sequence, 2048);
  EXPECT_EQ(setup.stack.gradient_traffic_bytes, 2);
  EXPECT_TRUE(setup.stack.tensor_overlap);
  EXPECT_THAT(setup.notes, ElementsAre(HasSubstr("overlap of tensor parallelism is a callback of the recipe")));
}

TEST(NemoLaunch, LinesThatStartARecipe) {
  const launch::LaunchSetup bridge = read_recipe(
      "torchrun --nnodes 2 --nproc-per-node 8 scripts/training/run_recipe.py --recipe llama3_70b_16k_pretrain_config "
      "--dataset mock -tp 4 -mb 2 -gb 64 model.tensor_model_parallel_size=8 model.sequence_parallel=true");
  EXPECT_EQ(bridge.world, 16);
  EXPECT_EQ(bridge.tp, 8);  // the key wins
  EXPECT_EQ(bridge.micro_batch, 2);
  EXPECT_EQ(bridge.model_name, "llama3-70b");
  EXPECT_THAT(bridge.notes, Contains(HasSubstr("the recipe decides model.pipeline_model_parallel_size, "
                                               "model.context_parallel_size, model.recompute_granularity, "
                                               "ddp.use_distributed_optimizer and mixed_precision")));
  const launch::LaunchSetup nemo = read_recipe(
      "nemo llm pretrain --factory 'llama32_1b(num_nodes=1)' trainer.strategy.tensor_model_parallel_size=2 "
      "trainer.num_nodes=1 trainer.devices=8 data.micro_batch_size=1 data.global_batch_size=8");
  EXPECT_EQ(nemo.world, 8);
  EXPECT_EQ(nemo.tp, 2);
  EXPECT_EQ(nemo.model_name, "llama3.2-1b");
}

TEST(NemoLaunch, FilesBesideALineAndWhatIsAdded) {
  const auto files = [](const std::string& name) {
    return name == "o.yaml" ? std::optional<std::string>(
                                  "model:\n  tensor_model_parallel_size: 2\n  context_parallel_size: 4\ntrain:\n  "
                                  "micro_batch_size: 1\n  global_batch_size: 8\n")
                            : std::nullopt;
  };
  const launch::LaunchSetup setup = read_recipe(
      "torchrun --nproc-per-node 8 pretrain_llama3_8b.py --config-file o.yaml model.tensor_model_parallel_size=8",
      "model.context_parallel_size=1", files);
  EXPECT_EQ(setup.tp, 8);
  EXPECT_EQ(setup.cp, 1);
  EXPECT_THAT(recipe_refusal("torchrun a.py --config-file gone.yaml model.context_parallel_size=1"),
              HasSubstr("--config-file: gone.yaml cannot be read"));
}

TEST(NemoLaunch, MistakesNameTheKey) {
  const std::string whole = kWhole;
  EXPECT_THAT(recipe_refusal(whole + "model.tensor_model_parallel_size=four\n"),
              HasSubstr("recipe: line 11: model.tensor_model_parallel_size: found `four`; expected a whole number"));
  EXPECT_THAT(recipe_refusal(whole + "model.tensor_model_paralel_size=4\n"),
              HasSubstr("model.tensor_model_paralel_size is no option of Megatron; did you mean"));
  EXPECT_THAT(recipe_refusal(whole + "model.sequence_parallel=maybe\n"),
              HasSubstr("model.sequence_parallel: found `maybe`; expected true or false"));
  EXPECT_THAT(recipe_refusal(whole + "model.x={a:1\n"), HasSubstr("a bracket or a quote is not closed"));
  EXPECT_THAT(recipe_refusal(whole + "model.virtual_pipeline_model_parallel_size=2\n"
                                     "model.pipeline_model_parallel_layout=\"Et*2|t*2L\"\n"),
              HasSubstr("line 11: model.virtual_pipeline_model_parallel_size: 2 chunks a stage; the layout has 1"));
  EXPECT_THAT(read_recipe(whole + "model.some_new_field=3\n").notes,
              Contains(HasSubstr("not known to nest, and not modelled: model.some_new_field")));
  EXPECT_THAT(read_recipe(whole + "peft.dim=8\n").notes, Contains(HasSubstr("peft is not read")));
}

// What is proposed can be added as it is.
TEST(NemoLaunch, OptionsAsOverrides) {
  EXPECT_EQ(launch::override_words("--sequence-parallel --micro-batch-size 2", false),
            "model.sequence_parallel=true train.micro_batch_size=2");
  constexpr const char* kOverlap = "--use-distributed-optimizer --overlap-grad-reduce --tp-comm-overlap";
  EXPECT_EQ(launch::override_words(kOverlap, false),
            "ddp.use_distributed_optimizer=true ddp.overlap_grad_reduce=true model.tp_comm_overlap=true");
  EXPECT_EQ(
      launch::override_words(kOverlap, true),
      "ddp.use_distributed_optimizer=true comm_overlap.overlap_grad_reduce=true comm_overlap.tp_comm_overlap=true");
  EXPECT_EQ(launch::override_words("--num-virtual-stages-per-pipeline-rank 5 --use-tp-pp-dp-mapping", true),
            "model.virtual_pipeline_model_parallel_size=5 dist.use_tp_pp_dp_mapping=true");
  EXPECT_EQ(launch::override_words("--num-virtual-stages-per-pipeline-rank 5", false),
            "model.overlap_p2p_comm=true model.batch_p2p_comm=false model.virtual_pipeline_model_parallel_size=5");
  EXPECT_EQ(
      launch::override_words("--recompute-granularity full --recompute-method uniform --recompute-num-layers 1", true),
      "model.recompute_granularity=full model.recompute_method=uniform model.recompute_num_layers=1");
  const launch::LaunchSetup setup =
      read_recipe(kWhole, launch::override_words("--context-parallel-size 4 --disable-bias-linear", true));
  EXPECT_EQ(setup.cp, 4);
}

TEST(NemoLaunch, TheModelIsReadWhereItIsWhole) {
  const std::string sizes =
      "model.num_layers=32\nmodel.hidden_size=4096\nmodel.ffn_hidden_size=14336\nmodel.num_attention_heads=32\n"
      "model.num_query_groups=8\nmodel.gated_linear_unit=true\nmodel.add_bias_linear=false\nmodel.normalization="
      "RMSNorm\n"
      "model.share_embeddings_and_output_weights=false\nmodel.position_embedding_type=rope\n";
  const launch::LaunchSetup partly = read_recipe(kWhole + sizes);
  EXPECT_TRUE(partly.model_config.is_null());
  EXPECT_THAT(partly.notes, Contains(HasSubstr("model.hidden_size and 8 other sizes are not read")));
  const launch::LaunchSetup whole = read_recipe(kWhole + sizes + "model.vocab_size=128256\n");
  ASSERT_FALSE(whole.model_config.is_null());
  EXPECT_EQ(whole.model_config["num_query_groups"], 8);
  EXPECT_EQ(whole.model_config["swiglu"], true);
  EXPECT_EQ(whole.model_config["add_bias_linear"], false);
  EXPECT_EQ(whole.model_config["vocab_size"], 128256);
  EXPECT_THAT(whole.notes, Not(Contains(HasSubstr("not read"))));
}

}  // namespace
}  // namespace nest::test
