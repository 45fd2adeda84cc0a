// Peaks that were measured, against predictions: mean absolute error per set of runs.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "doc/reader.h"
#include "memory_support.h"
#include "test_support/data.h"

namespace nest::cost {
namespace {

using namespace test;

constexpr double kGibibyte = 1024.0 * 1024 * 1024;
constexpr doc::Range kAny = {0, 1e15};

struct Errors {
  int rows = 0;
  double sum = 0;
  double worst = 0;

  void add(double predicted, double measured) {
    const double error = std::abs(predicted / measured - 1);
    ++rows;
    sum += error;
    worst = std::max(worst, error);
  }
  double mean() const { return sum / rows; }
  // In the test's XML or JSON report, for docs/memory.md.
  void record(const std::string& name) const {
    ::testing::Test::RecordProperty(name + "_mean_percent", std::to_string(100 * mean()));
    ::testing::Test::RecordProperty(name + "_worst_percent", std::to_string(100 * worst));
  }
};

TEST(MeasuredMemory, StepsOnOneGpu) {
  NEST_REQUIRE_DATA("h200/steps.json");
  const Document document = read_json(data_dir() / "h200/steps.json");
  Errors errors;
  for (const doc::Value& value : *document.root().as_array()) {
    doc::Reader row(Document{document.source, value});
    if (row.text("kind") != "step") continue;
    const std::int64_t hidden = row.integer("h", kAny);
    const std::int64_t heads = row.integer("heads", kAny);
    const Shape shape = {.layers = row.integer("layers", kAny),
                         .hidden = hidden,
                         .heads = heads,
                         .kv_heads = row.integer("kv", kAny),
                         .head_dim = hidden / heads,
                         .ffn = row.integer("ffn", kAny),
                         .vocabulary = row.integer("vocab", kAny),
                         .sequence = row.integer("seq", kAny)};
    Strategy strategy;
    strategy.micro_batch = row.integer("mbs", kAny);
    const Job job = job_of(shape, one_gpu_huggingface(), strategy.micro_batch);
    const Recompute mode = row.maybe_flag("recompute").value_or(false) ? Recompute::full : Recompute::none;
    const auto memory = all_memory(job, strategy, stages_of(job, strategy, mode, 0));
    errors.add(static_cast<double>(memory.front().allocated), row.number("peak_bytes", kAny));
  }
  EXPECT_GE(errors.rows, 8);
  EXPECT_LT(errors.mean(), 0.0001);
  EXPECT_LT(errors.worst, 0.0005);
  errors.record("steps");
}

Shape shape_of(doc::Reader& model) {
  Shape shape;
  shape.layers = model.integer("layers", kAny);
  shape.hidden = model.integer("hidden", kAny);
  shape.heads = model.integer("heads", kAny);
  shape.kv_heads = model.integer_or("kv_heads", shape.heads, kAny);
  shape.head_dim = model.integer_or("head_dim", shape.hidden / shape.heads, kAny);
  shape.ffn = model.integer("ffn_hidden", kAny);
  shape.vocabulary = model.integer("vocab", kAny);
  shape.sequence = model.integer_or("seq", 2048, kAny);
  shape.gated = model.maybe_flag("gated_mlp").value_or(true);
  shape.tied = model.maybe_flag("tied_embeddings").value_or(false);
  shape.experts = model.integer_or("experts", 0, kAny);
  shape.top_k = model.integer_or("topk", 0, kAny);
  shape.expert_ffn = model.integer_or("moe_ffn_hidden", 0, kAny);
  shape.shared_ffn = model.integer_or("shared_expert_ffn", 0, kAny);
  shape.dense_layers = model.integer_or("dense_layers", 0, kAny);
  const std::string attention = model.maybe_text("attention").value_or("");
  if (attention.starts_with("MLA")) {
    shape.query_rank = attention.find("q_lora1536") != std::string::npos ? 1536 : 0;
    shape.kv_rank = 512;
  }
  return shape;
}

Strategy read_strategy(doc::Reader& parallel, std::int64_t micro_batch, std::int64_t& zero_degree) {
  Strategy strategy;
  strategy.split.tp = parallel.integer_or("tp", 1, kAny);
  strategy.split.cp = parallel.integer_or("cp", 1, kAny);
  strategy.split.ep = parallel.integer_or("ep", 1, kAny);
  if (strategy.split.ep > 1) strategy.split.etp = 1;
  strategy.split.sp = strategy.split.tp > 1 && parallel.maybe_flag("sp").value_or(false);
  strategy.pp = parallel.integer_or("pp", 1, kAny);
  strategy.virtual_stages = parallel.integer_or("vpp", 1, kAny);
  if (strategy.virtual_stages > 1) strategy.schedule = Schedule::interleaved;
  strategy.dp = strategy.dp_inner = parallel.integer_or("dp", 1, kAny);
  strategy.micro_batch = micro_batch;
  zero_degree = strategy.dp * strategy.split.cp;
  return strategy;
}

SoftwareStack stack_of(const std::string& id) {
  if (id.starts_with("simumax")) return megatron_fused();
  if (id.starts_with("mlm")) return megatron_deterministic();
  std::vector<model::Module> modules;
  if (id.find("coreattn") != std::string::npos) modules.push_back(model::Module::core_attention);
  if (id.find("mlpcoreattn") != std::string::npos || id.find("projmlp") != std::string::npos) {
    modules.push_back(model::Module::feed_forward);
  }
  if (id.find("mlaupproj") != std::string::npos) modules.push_back(model::Module::latent_up);
  if (id.find("moeact") != std::string::npos) modules.push_back(model::Module::moe_activation);
  return id.find("moonlight") != std::string::npos ? bridge_moonlight(modules) : megatron_bridge(modules);
}

TEST(MeasuredMemory, MegatronRuns) {
  NEST_REQUIRE_DATA("published/runs.json");
  const Document document = read_json(data_dir() / "published/runs.json");
  Errors simumax, mlm, mbridge, reserved;
  for (const doc::Value& value : *document.root().as_array()) {
    doc::Reader row(Document{document.source, value});
    const std::string id = row.text("id");
    const bool ci = id.starts_with("mlm");
    if (!id.starts_with("simumax") && !ci && !id.starts_with("mbridge")) continue;
    doc::Reader measured = row.object("measured");
    const auto gib = measured.maybe_number("peak_mem_gib", kAny);
    const auto gb = measured.maybe_number("peak_mem_gb", kAny);
    if (!gib && !gb) continue;
    const double peak = gib ? *gib * kGibibyte : *gb * 1e9;
    doc::Reader model = row.object("model");
    Shape shape = shape_of(model);
    if (ci) {
      shape.learned_positions = 8192;
      shape.dropout = 0.1;
    }
    doc::Reader parallel = row.object("parallel");
    std::int64_t degree = 0;
    const Strategy strategy = read_strategy(parallel, row.integer("mbs", kAny), degree);
    const std::string recompute = parallel.maybe_text("recompute").value_or("none");
    const Job job = job_of(shape, stack_of(id), row.integer("gbs", kAny));
    const Recompute mode = recompute == "selective" ? Recompute::selective : Recompute::none;
    const auto memory = all_memory(job, strategy, stages_of(job, strategy, mode, 1, degree));
    // That logger runs on the last rank.
    const double predicted = static_cast<double>(ci ? memory.back().allocated : most_allocated(memory).allocated);
    (ci ? mlm : id.starts_with("simumax") ? simumax : mbridge).add(predicted, peak);
    if (const auto cached = measured.maybe_number("peak_reserved_gib", kAny)) {
      reserved.add(static_cast<double>(most_reserved(memory)), *cached * kGibibyte);
    }
  }
  EXPECT_GE(simumax.rows, 16);
  EXPECT_LT(simumax.mean(), 0.001);
  EXPECT_LT(simumax.worst, 0.003);
  EXPECT_GE(mlm.rows, 5);
  EXPECT_LT(mlm.mean(), 0.0065);
  EXPECT_GE(mbridge.rows, 5);
  EXPECT_LT(mbridge.mean(), 0.0025);
  EXPECT_GE(reserved.rows, 16);
  EXPECT_LT(reserved.mean(), 0.003);
  simumax.record("megatron_core");
  reserved.record("reserved");
  mlm.record("megatron_lm");
  mbridge.record("megatron_bridge");
  EXPECT_LT((simumax.sum + mlm.sum) / (simumax.rows + mlm.rows), 0.005);
}

}  // namespace
}  // namespace nest::cost
