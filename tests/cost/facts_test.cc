// Precisions and optimizers: every word that may be asked for has its row.
#include "cost/facts.h"

#include <gtest/gtest.h>

namespace nest::cost {
namespace {

TEST(Facts, EveryWordHasARow) {
  for (const auto& word : kPrecisionWords) {
    EXPECT_EQ(facts_of(word.value).precision, word.value) << word.text;
    EXPECT_GE(facts_of(word.value).activation_bytes, facts_of(word.value).element_bytes) << word.text;
  }
  for (const auto& word : kOptimizerWords) EXPECT_EQ(facts_of(word.value).optimizer, word.value) << word.text;
}

TEST(Facts, BytesAreTheBitsOverEight) {
  EXPECT_EQ(facts_of(Precision::fp32).element_bytes, 4);
  EXPECT_EQ(facts_of(Precision::bf16).element_bytes, 2);
  EXPECT_EQ(facts_of(Precision::fp16).element_bytes, 2);
  EXPECT_EQ(facts_of(Precision::fp8).element_bytes, 1);
  EXPECT_EQ(facts_of(Precision::fp4).element_bytes, 0.5);
  // Narrow products keep 16 bits between operators.
  EXPECT_EQ(facts_of(Precision::fp8).activation_bytes, 2);
  // Momentum alone is half of Adam's two moments.
  EXPECT_EQ(facts_of(Optimizer::adam).moment_share, 1);
  EXPECT_EQ(facts_of(Optimizer::sgd).moment_share, 0.5);
  EXPECT_EQ(facts_of(Optimizer::sgd).moments(8), 4);
  EXPECT_EQ(facts_of(Optimizer::adam).rest_moments(4), 4);
  EXPECT_EQ(facts_of(Optimizer::muon).moments(4), 4);  // in fp32, whatever the stack keeps for Adam
  EXPECT_EQ(facts_of(Optimizer::muon).rest_moments(4), 8);
  EXPECT_EQ(facts_of(Optimizer::adam8bit).moments(8), 2);
  EXPECT_EQ(facts_of(Optimizer::adam8bit).rest_moments(8), 2);
}

TEST(Facts, StorageCountsScales) {
  EXPECT_EQ(facts_of(Storage::bf16).input_bytes, 0);
  EXPECT_EQ(facts_of(Storage::fp8_tensor).input_bytes, 1);
  EXPECT_EQ(facts_of(Storage::fp8_block).input_bytes, 1.03125);
  EXPECT_EQ(facts_of(Storage::mxfp8).input_bytes, 1.03125);
  EXPECT_EQ(facts_of(Storage::nvfp4).input_bytes, 0.5625);
  EXPECT_EQ(facts_of(Storage::mxfp8).attention_bytes, 1.03125);
}

}  // namespace
}  // namespace nest::cost
