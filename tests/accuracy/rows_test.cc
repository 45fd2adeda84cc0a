// From a row as others write it to a job and a strategy.
#include <gmock/gmock.h>

#include "accuracy/case.h"
#include "accuracy/hardware.h"
#include "accuracy/shape.h"
#include "accuracy/software.h"

namespace nest::accuracy {
namespace {

PublishedRun run_from(const std::string& json) { return read_run(doc::parse_json("row", json).root()); }

// A small dense run; `more` are further members that may repeat none of these.
std::string row(const std::string& id, const std::string& parallel, const std::string& more = {}) {
  return R"({"id": ")" + id +
         R"(", "model": {"layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 8, "head_dim": 64, "ffn_hidden": 4096,
      "vocab": 32000, "seq": 2048, "gated_mlp": true}, "gpu": "H100-SXM5-80GB", "gpus": 16, "gpus_per_node": 8,
      "mbs": 2, "gbs": 64, "precision": "BF16", "tier": "A", "config_complete": true, "parallel": {)" +
         parallel + "}" + more + "}";
}

constexpr const char* kMixture =
    R"({"id": "x-1", "model": {"layers": 4, "hidden": 1024, "heads": 16, "ffn_hidden": 4096, "vocab": 32000, "seq": 2048, "gated_mlp": true,
        "experts": 8, "topk": 2, "moe_ffn_hidden": 512, "dense_layers": 1}, "gpu": "H100", "gpus": 16, "mbs": 1, "gbs": 64, "precision": "bf16",
        "parallel": {"tp": 2, "pp": 1, "dp": 8, "cp": 1, "ep": 4, "sp": true, "zero": 1, "recompute": "none"}})";

TEST(ReadRun, TakesWhatIsThere) {
  const PublishedRun run = run_from(row("acme-7b", R"("tp": 2, "pp": 2, "dp": 4, "sp": true, "recompute": "full")",
                                        R"(, "measured": {"iter_time_s": 1.5})"));
  EXPECT_EQ(run.source, "acme");
  EXPECT_EQ(run.precision, "bf16");
  EXPECT_EQ(run.model.kv_heads, 8);
  EXPECT_EQ(run.tp, 2);
  EXPECT_EQ(run.zero, std::nullopt);
  EXPECT_EQ(run.iteration_s, 1.5);
  EXPECT_TRUE(run.strict());
}

TEST(ReadRun, ComputesTheTimeFromOtherFigures) {
  const std::string parallel = R"("tp": 1, "pp": 1, "dp": 16)";
  // 64 sequences of 2,048 tokens on 16 devices at 4,096 tokens/s each: 2 s.
  EXPECT_DOUBLE_EQ(run_from(row("a", parallel, R"(, "measured": {"tokens_per_s_per_gpu": 4096})")).iteration_s.value(),
                   2);
  EXPECT_DOUBLE_EQ(run_from(row("a", parallel, R"(, "measured": {"tokens_per_s_total": 65536})")).iteration_s.value(),
                   2);
  EXPECT_DOUBLE_EQ(
      run_from(row("a", parallel, R"(, "measured": {}, "derived": {"iter_time_s": 3})")).iteration_s.value(), 3);
  // 96 B s l h^2 (1 + s/6h + V/16lh) = 96 * 64 * 2048 * 8 * 1024^2 * (1 + 1/3 + 32000/131072) = 1.6651e14 on 16 devices
  // at 1 TFLOP/s.
  EXPECT_NEAR(run_from(row("a", parallel, R"(, "flops_convention": "hw_sc21", "measured": {"tflops_per_gpu": 1})"))
                  .iteration_s.value(),
              10.4069, 1e-3);
  EXPECT_EQ(run_from(row("a", parallel, R"(, "measured": {"tflops_per_gpu": 1})")).iteration_s, std::nullopt);
}

TEST(ReadRun, IsNotUpsetByNullsAndNonsense) {
  for (const char* text :
       {R"({})", R"([])", R"(null)", R"("text")", R"({"id": 7, "model": null, "parallel": null, "measured": null})",
        R"({"id": "a", "model": {"layers": null, "hidden": "wide"}, "parallel": [], "gbs": "many", "precision": null})",
        R"({"id": "a", "model": {"layers": -3, "hidden": 1024, "heads": 0}, "measured": {"iter_time_s": -1}})"}) {
    const PublishedRun run = run_from(text);
    EXPECT_EQ(run.model.layers, 0) << text;
    EXPECT_EQ(run.iteration_s, std::nullopt) << text;
    EXPECT_TRUE(std::holds_alternative<Refusal>(make_case(run, false))) << text;
    EXPECT_TRUE(std::holds_alternative<Refusal>(make_case(run, true))) << text;
  }
}

TEST(ReadRun, FindsModulesAndDegreesInWords) {
  const auto with = [](const std::string& notes) {
    return run_from(row("a", R"("tp": 1)", R"(, "notes": ")" + notes + "\""));
  };
  EXPECT_THAT(with("Fast. Recompute: mlp and moe_act (not core_attn); more").recompute_modules,
              ::testing::UnorderedElementsAre("mlp", "moe_act"));
  EXPECT_THAT(with("mlp is large. Nothing else").recompute_modules, ::testing::IsEmpty());
  EXPECT_EQ(with("uses ETP=4 here").etp, 4);
  EXPECT_EQ(with("zero1 group size 8").zero_degree, 8);
  EXPECT_EQ(with("zero1=16").zero_degree, 16);
  EXPECT_EQ(with("Includes MTP").model.extra_layers, 1);
}

TEST(Devices, AreFoundByTheNamesPeopleUse) {
  const auto name = [](const char* gpu) {
    const auto device = device_for(gpu);
    return device ? device->name : std::string("none");
  };
  EXPECT_EQ(name("A100-SXM4-80GB"), "a100-80");
  EXPECT_EQ(name("A100-40GB"), "a100-40");
  EXPECT_EQ(name("H100-SXM5-80GB"), "h100");
  EXPECT_EQ(name("H100-96GB-HBM2e-500W"), "h100-96-500w");
  EXPECT_EQ(name("H200-SXM5-141GB"), "h200");
  EXPECT_EQ(name("GB200"), "gb200");
  EXPECT_EQ(name("B200-SXM"), "b200");
  EXPECT_EQ(name("TPU v5p"), "tpuv5p");
  EXPECT_EQ(name("TPU v6e (Trillium)"), "tpuv6e");
  EXPECT_EQ(name("A800-80GB"), "a800");
  EXPECT_EQ(name("MI300X"), "none");  // never calibrated
  EXPECT_EQ(name("Cerebras WSE"), "none");
  EXPECT_EQ(name(""), "none");
}

TEST(Clusters, HaveNodesAndOnePortPerDevice) {
  PublishedRun run = run_from(row("a", R"("tp": 1)"));
  const cluster::Cluster two = cluster_for(run, *device_for(run.gpu), 16);
  ASSERT_EQ(two.levels.size(), 2U);
  EXPECT_EQ(two.levels[0].group, 8);
  EXPECT_EQ(two.levels[1].group, 2);
  EXPECT_TRUE(two.levels[1].rails);
  EXPECT_DOUBLE_EQ(two.levels[1].bandwidth_bytes_per_s, 50e9);
  EXPECT_EQ(cluster_for(run, *device_for(run.gpu), 4).levels.size(), 1U);
  run.interconnect = "4x Omni-Path 100Gb/s per node";
  EXPECT_DOUBLE_EQ(cluster_for(run, *device_for(run.gpu), 16).levels[1].bandwidth_bytes_per_s, 6.25e9);
}

TEST(Clusters, RacksHoldPowersOfTwo) {
  const PublishedRun run = run_from(row("a", R"("tp": 1)"));
  EXPECT_EQ(cluster_for(run, *device_for("GB200"), 256).levels[0].group, 64);
  EXPECT_EQ(cluster_for(run, *device_for("GB200"), 72).levels.size(), 1U);
}

TEST(Software, FollowsFromTheSource) {
  const auto stack = [](const std::string& id,
                        const std::string& parallel = R"("tp": 1, "pp": 1, "dp": 16, "zero": 1)") {
    return stack_for(run_from(row(id, parallel)));
  };
  EXPECT_EQ(stack("korth-22b").name, "megatron-2021");
  EXPECT_EQ(stack("mtnlg-530b").name, "megatron-2021");
  EXPECT_EQ(stack("nanotron-8b").name, "nanotron");
  EXPECT_EQ(stack("maxtext-32b").name, "maxtext");
  EXPECT_EQ(stack("fms-7b").name, "fsdp2");
  EXPECT_EQ(stack("mlperf-gpt3").name, "megatron-core");
  EXPECT_EQ(stack("dgxc-70b").name, "megatron-core");
  EXPECT_EQ(stack("dgxc-70b").gradient_bytes, 2);
  EXPECT_EQ(stack("mlperf-gpt3").gradient_bytes, 4);
  EXPECT_EQ(stack("never-seen").name, "megatron-core");
  EXPECT_EQ(stack("never-seen", R"("tp": 1, "pp": 1, "dp": 16, "zero": 3)").name, "fsdp2");
  EXPECT_EQ(stack_for(run_from(kMixture)).name, "megatron-core-moe");
  EXPECT_TRUE(stack("bloom-1").blocking_launches);
  EXPECT_FALSE(stack("megads-1").blocking_launches);
  EXPECT_EQ(stack("titan-8b-eager").fused_rowwise, false);
  EXPECT_EQ(stack("mpt-7b").name, "llm-foundry");
  EXPECT_EQ(stack("bloom-1").gradient_traffic_bytes, 4);  // bf16
}

TEST(Software, TakesModulesFromTheRow) {
  const auto stack = stack_for(run_from(row("mbridge-x", R"("tp": 1, "recompute_modules": ["mlp", "mla_up_proj"])")));
  EXPECT_THAT(stack.selective_modules, ::testing::ElementsAre(model::Module::feed_forward, model::Module::latent_up));
}

TEST(Precision, IsRecognised) {
  const auto precision = [](const std::string& text) {
    PublishedRun run;
    run.precision = text;
    return precision_for(run);
  };
  EXPECT_EQ(precision("bf16"), Precision::bf16);
  EXPECT_EQ(precision("amp_fp8"), Precision::fp8);
  EXPECT_EQ(precision("float8 tensorwise"), Precision::fp8);
  EXPECT_EQ(precision("float8 rowwise"), Precision::bf16);
  EXPECT_EQ(precision("nvfp4"), Precision::fp4);
  EXPECT_EQ(precision("fp16"), Precision::fp16);
}

TEST(Shapes, MixturesHaveTheirDenseLayersFirst) {
  const model::Architecture arch = architecture_for(run_from(kMixture));
  ASSERT_EQ(arch.towers.front().blocks.size(), 4U);
  const model::Tower& tower = arch.towers.front();
  for (std::size_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(tower.kinds[static_cast<std::size_t>(tower.blocks[layer])].mixture.has_value(), layer >= 1) << layer;
  }
}

TEST(Shapes, HalfDenseMixturesAlternate) {
  PublishedRun run = run_from(kMixture);
  run.model.dense_layers = 2;
  const model::Tower tower = architecture_for(run).towers.front();
  EXPECT_THAT(tower.blocks, ::testing::ElementsAre(0, 1, 0, 1));
  EXPECT_FALSE(tower.kinds[0].mixture.has_value());
}

TEST(Shapes, LatentAttentionIsReadFromWords) {
  PublishedRun run = run_from(kMixture);
  run.model.attention = "MLA q_lora1536 kv_lora512 qk128+64rope v128";
  const auto latent = architecture_for(run).towers.front().kinds.front().attention.latent;
  ASSERT_TRUE(latent.has_value());
  EXPECT_EQ(*latent, (model::LatentAttention{1536, 512, 128, 64, 128}));
}

TEST(Cases, DivideAsTheRowSays) {
  const auto made = make_case(
      run_from(row("a", R"("tp": 2, "pp": 2, "dp": 4, "sp": true, "vpp": 2, "zero": 1, "recompute": "selective")")),
      false);
  const Case* one = std::get_if<Case>(&made);
  ASSERT_TRUE(one) << std::get<Refusal>(made).reason;
  EXPECT_EQ(one->strategy.split.tp, 2);
  EXPECT_TRUE(one->strategy.split.sp);
  EXPECT_EQ(one->strategy.pp, 2);
  EXPECT_EQ(one->strategy.dp, 4);
  EXPECT_EQ(one->strategy.virtual_stages, 2);
  EXPECT_EQ(one->strategy.schedule, Schedule::interleaved);
  EXPECT_EQ(one->stages.size(), 2U);
  EXPECT_EQ(one->stages[0].recompute, Recompute::selective);
  EXPECT_EQ(micro_batches(one->strategy, one->job.run.global_batch), 8);
  EXPECT_TRUE(one->assumed.empty());
  EXPECT_GT(cost::evaluate(one->job, one->strategy, one->stages).prediction.iteration_s, 0);
}

// Whole experts are spread over the tensor-parallel ranks too.
TEST(Cases, ExpertsHaveTheirOwnGrid) {
  const auto made = make_case(run_from(kMixture), false);
  const Case* one = std::get_if<Case>(&made);
  ASSERT_TRUE(one) << std::get<Refusal>(made).reason;
  EXPECT_EQ(one->strategy.split.ep, 4);
  EXPECT_EQ(one->strategy.split.etp, 1);
  EXPECT_EQ(one->strategy.dp, 8);
  EXPECT_EQ(one->strategy.edp(), 4);
  EXPECT_EQ(one->strategy.devices_used(), 16);
  EXPECT_EQ(micro_batches(one->strategy, 64), 8);
}

TEST(Cases, ExpertsThatAreDividedCountApart) {
  PublishedRun run = run_from(kMixture);
  run.etp = 2;
  const auto made = make_case(run, false);
  const Case* one = std::get_if<Case>(&made);
  ASSERT_TRUE(one) << std::get<Refusal>(made).reason;
  EXPECT_EQ(one->strategy.split.ep, 4);
  EXPECT_EQ(one->strategy.split.etp, 2);
  EXPECT_EQ(one->strategy.dp, 8);
  EXPECT_EQ(one->strategy.edp(), 2);
}

TEST(Cases, SayWhatTheyAssume) {
  const auto made = make_case(run_from(row("a", R"("tp": 1, "pp": 1, "dp": 16)")), false);
  const Case* one = std::get_if<Case>(&made);
  ASSERT_TRUE(one);
  EXPECT_THAT(one->assumed, ::testing::SizeIs(2));  // recomputation and ZeRO stage
}

TEST(Cases, AreRefusedWithAReason) {
  const auto reason = [](const std::string& json, bool for_memory = false) {
    const auto made = make_case(run_from(json), for_memory);
    const auto* refusal = std::get_if<Refusal>(&made);
    return refusal ? refusal->reason : std::string("priced");
  };
  EXPECT_EQ(reason(row("a", R"("tp": 2)")), "parallel layout not stated");
  EXPECT_EQ(reason(R"({"id": "a", "parallel": {"tp": 1, "pp": 1, "dp": 1}})"), "sizes of the model not stated");
  std::string strange = row("a", R"("tp": 1, "pp": 1, "dp": 16)");
  strange.replace(strange.find("H100-SXM5-80GB"), 14, "Abacus");
  EXPECT_EQ(reason(strange), "device not calibrated: Abacus");
  std::string endless = row("a", R"("tp": 1, "pp": 1, "dp": 16)");
  endless.replace(endless.find(R"("gbs": 64)"), 9, R"("gbs": null)");
  EXPECT_EQ(reason(endless), "global batch not stated");
  EXPECT_EQ(reason(endless, true), "priced");  // memory needs no more than a filled pipeline
  EXPECT_THAT(reason(row("a", R"("tp": 3, "pp": 1, "dp": 16)")), ::testing::StartsWith("not a plan of ours: tp=3"));
  EXPECT_THAT(reason(row("a", R"("tp": 1000000, "pp": 1000000, "dp": 1000000)")), ::testing::Not("priced"));
}

TEST(MemoryReadings, MeanWhatTheSourceMeans) {
  const auto reading = [](const std::string& id, const std::string& notes = {}) {
    return reading_for(run_from(row(id, R"("tp": 1)", R"(, "notes": ")" + notes + "\"")));
  };
  EXPECT_EQ(reading("simumax-1"), MemoryReading::allocated);
  EXPECT_EQ(reading("titan-1"), MemoryReading::reserved);
  EXPECT_EQ(reading("bloom-1"), MemoryReading::outside);
  EXPECT_EQ(reading("other-1", "as nvidia-smi shows it"), MemoryReading::outside);
  EXPECT_EQ(reading("other-1", "peak reserved"), MemoryReading::reserved);
  EXPECT_EQ(reading("other-1"), MemoryReading::allocated);
}

}  // namespace
}  // namespace nest::accuracy
