// What backward computes and keeps where some weights are frozen: sums that a reader can redo.
#include "split/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/presets.h"
#include "model/training.h"
#include "split/local_layer.h"

namespace nest::split {
namespace {

constexpr std::int64_t kFrozenRows = 4096;
constexpr double kHidden = 4096, kWide = 14'336, kKeys = 1024;  // Llama 3 8B

struct TrainedModel {
  model::Model model;
  LocalLayer at(std::size_t position, const Split& split = {}) const {
    const RunShape shape{.micro_batch = 1, .sequence = kFrozenRows, .routing_imbalance = 1};
    return localise(model.kinds[static_cast<std::size_t>(model.layers[position])], shape, split, {});
  }
};

TrainedModel llama_with(const char* freeze, const char* lora) {
  TrainedModel trained{model::build_model(model::find_model_preset("llama3-8b").value())};
  model::apply_training(model::read_training(freeze, lora), trained.model);
  return trained;
}

double matrix_flops(const LocalLayer& local) {
  double sum = 0;
  for (const LocalOperator& op : local.operators) {
    if (op.kind == model::OperatorKind::matmul) sum += op.flops_backward;
  }
  return sum;
}

constexpr double kBlockWeights = 2 * kHidden * kHidden + 2 * kHidden * kKeys + 3 * kHidden * kWide;

TEST(FrozenLayers, BelowTheFirstTrainedOneNothingRunsBackward) {
  const TrainedModel trained = llama_with("embedding,blocks.0-1", "");
  for (const std::size_t position : {0, 1, 2}) {
    const LocalLayer local = trained.at(position);
    EXPECT_FALSE(local.backward);
    EXPECT_EQ(local.flops_backward(), 0);
    EXPECT_EQ(local.saved.none, 0);
    EXPECT_EQ(local.saved.full, 0);
    EXPECT_EQ(local.dense_parameters, 0);
    EXPECT_GT(local.frozen_dense, 0);
  }
  // Everything in the next block is trained, but nobody needs the gradient of its input: its norm's, its qkv's.
  const LocalLayer next = trained.at(3);
  EXPECT_TRUE(next.backward);
  EXPECT_EQ(next.frozen_dense, 0);
  EXPECT_DOUBLE_EQ(matrix_flops(next), 2 * 2 * kFrozenRows * kBlockWeights);  // the norm before qkv is trained
  EXPECT_DOUBLE_EQ(matrix_flops(trained.at(4)), matrix_flops(next));
}

TEST(FrozenLayers, AboveATrainedOneOnlyTheStreamGetsGradients) {
  const TrainedModel trained = llama_with("blocks.3", "");
  const LocalLayer frozen = trained.at(4), free = trained.at(3);
  EXPECT_TRUE(frozen.backward);
  EXPECT_DOUBLE_EQ(matrix_flops(frozen), 2 * kFrozenRows * kBlockWeights);  // one product of two
  EXPECT_DOUBLE_EQ(matrix_flops(free), 2 * matrix_flops(frozen));
  // Kept for weight gradients alone: the results of both norms and gate x up, in bf16. The attention keeps its result
  // itself.
  EXPECT_DOUBLE_EQ(free.saved.none - frozen.saved.none, 2 * kFrozenRows * (2 * kHidden + kWide));
  EXPECT_EQ(free.saved.full, frozen.saved.full);
}

TEST(FrozenLayers, NothingIsGatheredOrSummedForGradientsThatNobodyComputes) {
  const Split split{.tp = 2, .sp = true};
  const auto count = [](const LocalLayer& local, Phase phase, CollectiveKind kind) {
    return std::count_if(local.collectives.begin(), local.collectives.end(), [&](const LayerCollective& exchange) {
      return exchange.phase == phase && exchange.kind == kind;
    });
  };
  const TrainedModel trained = llama_with("embedding,blocks.0-1,blocks.5", "");
  const LocalLayer below = trained.at(1, split), above = trained.at(6, split), free = trained.at(7, split);
  EXPECT_EQ(count(below, Phase::backward, CollectiveKind::all_gather), 0);
  EXPECT_EQ(count(below, Phase::backward, CollectiveKind::reduce_scatter), 0);
  EXPECT_EQ(count(below, Phase::forward, CollectiveKind::all_gather), 2);
  // Two gathers of output gradients; a trained block gathers the inputs of qkv and gate+up once more.
  EXPECT_EQ(count(above, Phase::backward, CollectiveKind::all_gather), 2);
  EXPECT_EQ(count(free, Phase::backward, CollectiveKind::all_gather), 4);
  EXPECT_EQ(count(above, Phase::backward, CollectiveKind::reduce_scatter), 2);
}

TEST(Adapters, CostTwoSmallProductsAndNoWeightGradientOfTheBase) {
  const double r = 16;
  const TrainedModel trained = llama_with("", "rank=16,targets=q,v");
  const LocalLayer local = trained.at(5);
  const double adapters = r * (kHidden + kHidden) + r * (kHidden + kKeys);
  EXPECT_EQ(local.dense_parameters, static_cast<std::int64_t>(adapters));
  EXPECT_DOUBLE_EQ(static_cast<double>(local.frozen_dense), kBlockWeights + 2 * kHidden);
  EXPECT_DOUBLE_EQ(matrix_flops(local), 2 * kFrozenRows * (kBlockWeights + 2 * adapters));
  // Beside what a frozen block keeps: the input of A, which q and v share, and both results of A.
  const LocalLayer frozen = llama_with("blocks.4", "").at(5);
  EXPECT_DOUBLE_EQ(local.saved.none - frozen.saved.none, 2 * kFrozenRows * (kHidden + 2 * r));
}

// The embedding is frozen and the first block's input has no gradient: what comes before its adapters has no backward.
TEST(Adapters, BeginWhereTheFirstOneStands) {
  const TrainedModel trained = llama_with("", "rank=16,targets=q,v");
  const double r = 16, adapters = r * 2 * kHidden + r * (kHidden + kKeys);
  const LocalLayer first = trained.at(1);
  // qkv runs no product backward; A has its weight gradient alone.
  const double qkv = kHidden * (kHidden + 2 * kKeys);
  EXPECT_DOUBLE_EQ(matrix_flops(first), 2 * kFrozenRows * (kBlockWeights - qkv + 2 * adapters - 2 * r * kHidden));
  EXPECT_FALSE(first.operators.front().backward);  // the norm
}

TEST(Adapters, AreDividedAsTheirProducts) {
  const Split split{.tp = 4, .sp = true};
  const TrainedModel trained = llama_with("", "rank=16,targets=q,o");
  // q: A is whole, B divided; o: A is divided, B whole.
  const double q = 16 * (kHidden + kHidden / 4), o = 16 * (kHidden / 4 + kHidden);
  EXPECT_EQ(trained.at(5, split).dense_parameters, static_cast<std::int64_t>(q + o));
}

// transformers' norms keep fp32 copies and statistics; the normalised rows wait for the gradient of the weight.
TEST(Adapters, FrozenNormsThatAreWrittenOutKeepLess) {
  const model::Implementation written{.stack = model::Stack::huggingface};
  TrainedModel all{model::build_model(model::find_model_preset("llama3-8b").value(), written)};
  TrainedModel frozen = all;
  model::apply_training(model::read_training("blocks.*.norm", ""), frozen.model);
  const auto kept = [&](const TrainedModel& trained) {
    return localise(trained.model.kinds[at(trained.model.layers[5])], {1, 1024, 0, 1}, {}, written).saved.none;
  };
  EXPECT_DOUBLE_EQ(kept(all) - kept(frozen), 2 * 2 * 1024 * 4096);
}

}  // namespace
}  // namespace nest::split
