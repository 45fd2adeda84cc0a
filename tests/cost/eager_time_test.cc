#include "cost/eager_time.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cost/layer_price.h"
#include "cost/operator_time.h"
#include "cost/tables.h"
#include "cost_support.h"
#include "model/build.h"
#include "model/config.h"
#include "model/training.h"

namespace nest::cost {
namespace {

constexpr double kEagerTokens = 8192, kWidth = 4096, kInner = 14336, kRotatedHeads = 40 * 128;

JobSpec written_spec() {
  JobSpec spec;
  spec.device = "h200";
  spec.stack = "huggingface";
  spec.devices = 1;
  spec.batch = 2;
  spec.sequence = 4096;
  return spec;
}

int written_kind(const Job& job, model::LayerKind kind) {
  for (std::size_t i = 0; i < job.model.kinds.size(); ++i) {
    if (job.model.kinds[i].kind == kind) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no such layer";
  return 0;
}

DeviceRates written_rates(const Job& job) { return sustained_rates(job.cluster.device, job.run.precision, job.stack); }

TEST(AsWritten, BlockIsTheSumOfTheKernelsThatRun) {
  const Job job = test_job(written_spec());
  const LayerPrice price = price_layer(job, written_kind(job, model::LayerKind::block), {}, 2);
  const DeviceRates rates = written_rates(job);
  double forward = 0, backward = 0;
  // q, k, v, o, gate, up, down: columns, contraction.
  for (const auto& [n, k] : {std::pair{4096., 4096.},
                             {1024., 4096.},
                             {1024., 4096.},
                             {4096., 4096.},
                             {14336., 4096.},
                             {14336., 4096.},
                             {4096., 14336.}}) {
    forward += gemm_s(rates, {kEagerTokens, n, k, 1});
    backward += gemm_s(rates, {kEagerTokens, k, n, 1}) + gemm_s(rates, {n, k, kEagerTokens, 1});
  }
  AttentionSize attention;
  attention.sequences = 2;
  attention.heads = 32;
  attention.queries = attention.keys = 4096;
  attention.qk_dim = attention.value_dim = 128;
  const Passes core = attention_s(rates, attention, false);
  // Two norms and the rotation name an input and an output, the activation too, its product and the two sums three.
  const double rows = 2 * 13.9 * 4 * kEagerTokens * kWidth + 12.6 * 4 * kEagerTokens * kRotatedHeads +
                      (4 + 6) * kEagerTokens * kInner + 2 * 6 * kEagerTokens * kWidth;
  // Gradients of the activation read two and write one, those of the product twice that. Five sums: of k, of v, of up,
  // and two of the stream.
  const double rows_back = 2 * 30.1 * 4 * kEagerTokens * kWidth + 13.7 * 4 * kEagerTokens * kRotatedHeads +
                           (6 + 12) * kEagerTokens * kInner + 5 * 6 * kEagerTokens * kWidth;
  const double launches = 2 * 8 + 10 + 7 + 1 + 1 + 1 + 2;
  const double launches_back = 2 * 17 + 24 + 7 * 2 + 5 + 1 + 2 + 5;
  forward += core.forward_s + rows / rates.memory_bytes_per_s + 1.5e-6 * launches;
  backward += core.backward_s + rows_back / rates.memory_bytes_per_s + 1.5e-6 * launches_back;
  EXPECT_NEAR(price.forward_s, forward, 1e-9);
  EXPECT_NEAR(price.backward_s, backward, 1e-9);

  // Checkpoints stop before the last product and the sum after it.
  const double last =
      gemm_s(rates, {kEagerTokens, kWidth, kInner, 1}) + 6 * kEagerTokens * kWidth / rates.memory_bytes_per_s;
  EXPECT_NEAR(price.recompute_s[kEverything], forward - last, 1e-9);

  Job slow = job;
  slow.stack.host_kernel_s = 1e-3;
  const LayerPrice waits = price_layer(slow, written_kind(job, model::LayerKind::block), {}, 2);
  // Python around a block counts as 20 launches, and forward's launches are cheaper than backward's.
  const double python = 20 + 0.6 * launches;
  EXPECT_NEAR(waits.forward_s, 1e-3 * python, 1e-12);
  EXPECT_NEAR(waits.backward_s, 1e-3 * launches_back, 1e-12);
  // A checkpoint doubles forward's, then and when it runs again.
  EXPECT_NEAR(waits.recompute_s[kEverything], 1e-3 * (python + 2 * python), 1e-12);
}

TEST(AsWritten, HeadPaysForLogitsInFp32) {
  const Job job = test_job(written_spec());
  const LayerPrice price = price_layer(job, written_kind(job, model::LayerKind::head), {}, 2);
  const DeviceRates rates = written_rates(job);
  const double logits = kEagerTokens * 128256;
  const double bytes = 13.9 * 4 * kEagerTokens * kWidth + 27 * logits;
  EXPECT_NEAR(
      price.forward_s,
      gemm_s(rates, {kEagerTokens, 128256, kWidth, 1}) + bytes / rates.memory_bytes_per_s + 1.5e-6 * (8 + 1 + 4), 1e-9);
}

// Two kernels of 2 us and the gaps before them for every weight, beside what the optimizer moves.
TEST(AsWritten, UpdatesPayForEveryTensor) {
  const Job job = test_job(written_spec());
  EXPECT_DOUBLE_EQ(sync_rule(job, 1).tensor_s, 2 * (1.5e-6 + 2e-6));
  StageSums sums;
  sums.dense_parameters = 1e9;
  const auto seconds = [&](double tensors) {
    sums.tensors = tensors;
    return state_cost(sync_rule(job, 1), Strategy{}, sums, ShardLines{}, 0).optimizer_s;
  };
  EXPECT_NEAR(seconds(300) - seconds(0), 300 * 7e-6, 1e-12);
  JobSpec fused = written_spec();
  fused.stack = "pytorch";
  EXPECT_EQ(sync_rule(test_job(fused), 1).tensor_s, 0);
}

TEST(AsWritten, FrozenNormHasNoGradientOfItsWeight) {
  const JobSpec spec = written_spec();
  Job job = test_job(spec);
  model::apply_training(model::read_training("", "rank=16,targets=q,v"), job.model);
  const model::Layer& block = job.model.kinds[at(job.model.layers[5])];
  const split::LocalLayer local = split::localise(block, {2, 4096, 0, 1}, {}, implementation_of(job));
  const std::vector<EagerWork> works = eager_work(local, {});
  EXPECT_DOUBLE_EQ(works.front().forward_bytes, 13.9 * 4 * kEagerTokens * kWidth);
  EXPECT_NEAR(works.front().backward_bytes, (30.1 - 3.2) * 4 * kEagerTokens * kWidth, 1);
  // Of q's base product, the gradient of what it reads alone is computed.
  EXPECT_EQ(works[1].backward_launches, 1);
}

// Cohere's modules: one LayerNorm in Python a block, and rotations in fp32; the head's logits are scaled.
TEST(AsWritten, NormsAndRotationsInFp32CostWhatTheirKernelsMove) {
  const model::Architecture cohere = model::read_config(
      doc::parse_json("config.json", R"({"model_type": "cohere", "hidden_size": 4096, "intermediate_size": 14336,
          "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 1024})"),
      "cohere");
  const model::Implementation hf{.stack = model::Stack::huggingface, .sequence = 4096};
  const model::Model model = model::build_model(cohere, hf);
  const auto works_of = [&](std::size_t at) {
    const split::LocalLayer local = split::localise(model.layer(at), {2, 4096, 0, 1}, {}, hf);
    std::map<std::string, EagerWork> works;
    const std::vector<EagerWork> found = eager_work(local, {});
    for (std::size_t i = 0; i < found.size(); ++i) works[local.operators[i].source->name] = found[i];
    return works;
  };
  auto block = works_of(1);
  EXPECT_DOUBLE_EQ(block.at("norm 1").forward_bytes, 22.8 * 4 * kEagerTokens * kWidth);
  EXPECT_DOUBLE_EQ(block.at("norm 1").backward_bytes, 42.9 * 4 * kEagerTokens * kWidth);
  EXPECT_EQ(block.at("norm 1").forward_launches, 12);
  EXPECT_DOUBLE_EQ(block.at("rotary fp32").forward_bytes, 25.7 * 4 * kEagerTokens * kRotatedHeads);
  EXPECT_DOUBLE_EQ(block.at("rotary fp32").backward_bytes, 32.9 * 4 * kEagerTokens * kRotatedHeads);
  auto head = works_of(model.layers.size() - 1);
  EXPECT_DOUBLE_EQ(head.at("scale logits").forward_bytes, 4 * kEagerTokens * 1024);
}

TEST(AsWritten, RowsOfExpertsAreMoved) {
  JobSpec spec = written_spec();
  spec.model = "mixtral-8x7b";
  const Job job = test_job(spec);
  const model::Layer& block = job.model.kinds[at(written_kind(job, model::LayerKind::block))];
  const split::LocalLayer local = split::localise(block, {2, 4096, 0, 1}, {}, implementation_of(job));
  const std::vector<EagerWork> works = eager_work(local, {.routed_elements = 1000});
  double forward = 0, backward = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    const model::OperatorKind kind = local.operators[i].kind;
    if (kind != model::OperatorKind::dispatch && kind != model::OperatorKind::combine) continue;
    forward += works[i].forward_bytes;
    backward += works[i].backward_bytes;
  }
  EXPECT_NEAR(forward, 2 * 31'700, 1e-6);
  EXPECT_GE(backward, 2 * 56'500);
}

// Queries of 16 heads and 192 elements, 64 of them rotated: 12.6 bytes for each of the bytes that are, 3 for the others. The
// keys' rotated part is one head of 64 elements.
TEST(AsWritten, LatentKeysAreRotatedOnce) {
  JobSpec spec = written_spec();
  spec.model = "deepseek-v2-lite";
  const Job job = test_job(spec);
  const model::Layer& layer = job.model.kinds[at(written_kind(job, model::LayerKind::block))];
  const split::LocalLayer local = split::localise(layer, {2, 4096, 0, 1.0}, {}, implementation_of(job));
  const std::vector<EagerWork> works = eager_work(local, {.rotated = 1.0 / 3});
  int found = 0;
  for (std::size_t i = 0; i < works.size(); ++i) {
    const std::string& name = local.operators[i].source->name;
    if (name == "rotary q") {
      EXPECT_NEAR(works[i].forward_bytes, 4 * kEagerTokens * 16 * 192 * (12.6 / 3 + 3 * 2.0 / 3), 1);
    } else if (name == "rotary k") {
      EXPECT_EQ(works[i].forward_bytes, 0);
      EXPECT_EQ(works[i].backward_launches, 24);
    }
    found += name.starts_with("rotary") ? 1 : 0;
  }
  EXPECT_EQ(found, 2);
}

TEST(AsWritten, MasksHideNoWork) {
  const DeviceRates rates = written_rates(test_job(written_spec()));
  AttentionSize size;
  size.sequences = 2;
  size.heads = 16;
  size.queries = size.keys = 4096;
  size.qk_dim = size.value_dim = 128;
  size.masked = true;
  const double flops = 4. * 2 * 16 * 128 * 4096 * 4096;
  EXPECT_NEAR(attention_s(rates, size, false).forward_s, flops / (0.32 * 989.5e12), 1e-12);
  EXPECT_NEAR(attention_s(rates, size, false).backward_s, 2.5 * flops / (0.287 * 989.5e12), 1e-12);
  size.qk_dim = size.value_dim = 64;
  EXPECT_NEAR(attention_s(rates, size, false).forward_s, flops / 2 / (0.78 * 0.32 * 989.5e12), 1e-12);
}

TEST(AsWritten, OtherStacksRunFusedKernels) {
  EXPECT_TRUE(runs_as_written(find_stack("huggingface").value()));
  EXPECT_TRUE(runs_as_written(find_stack("hf-fsdp").value()));
  for (const char* name : {"megatron-core", "fsdp2", "pytorch"}) {
    EXPECT_FALSE(runs_as_written(find_stack(name).value())) << name;
  }
}

}  // namespace
}  // namespace nest::cost
