// Hand-computed cases: every expected number is written out as the sum a reader can redo.
#include "split/local_layer.h"

#include <gtest/gtest.h>

#include <map>

#include "model/build.h"
#include "split/attention_work.h"

namespace nest::split {
namespace {

model::Architecture tiny(model::Block block, std::int64_t hidden = 8, std::int64_t vocabulary = 256) {
  model::Architecture arch;
  arch.name = "tiny";
  arch.family = "llama";
  arch.hidden = hidden;
  arch.vocabulary = vocabulary;
  arch.max_positions = arch.default_sequence = 16;
  model::Tower tower;
  tower.name = "decoder";
  tower.kinds = {std::move(block)};
  tower.blocks = {0, 0};
  arch.towers = {tower};
  return arch;
}

// hidden 8, 4 heads of 2, 2 key/value heads, gated feed-forward of 16.
model::Block gqa_gated() {
  model::Block block;
  block.attention.heads = 4;
  block.attention.kv_heads = 2;
  block.attention.head_dim = 2;
  block.feed_forward = model::FeedForward{16, true, model::Activation::silu, false, false};
  return block;
}

LocalLayer local_block(const model::Model& model, const RunShape& shape, const Split& split,
                       const model::Implementation& impl = {}) {
  return localise(model.kinds[static_cast<std::size_t>(model.layers[1])], shape, split, impl);
}

const LocalOperator& find(const LocalLayer& layer, const std::string& name) {
  for (const LocalOperator& op : layer.operators) {
    if (op.source->name == name) return op;
  }
  throw std::runtime_error("no operator " + name);
}

// "all-gather forward tensor" -> total bytes
std::map<std::string, double> exchanged(const LocalLayer& layer) {
  std::map<std::string, double> sums;
  for (const LayerCollective& c : layer.collectives) {
    sums[std::string(to_string(c.kind)) + (c.phase == Phase::forward ? " forward " : " backward ") +
         to_string(c.group)] += c.bytes;
  }
  return sums;
}

using Sums = std::map<std::string, double>;

TEST(LocalLayer, DenseGqaGatedByHand) {
  const model::Architecture arch = tiny(gqa_gated());
  const model::Model model = model::build_model(arch);
  const LocalLayer layer = local_block(model, {.micro_batch = 3, .sequence = 16}, {});
  // T = 48 tokens. qkv: 2*48*8*(8+4+4); o: 2*48*8*8; gate+up: 2*48*8*32; down: 2*48*16*8
  // attention: 3 sequences, 16*17/2 = 136 pairs, 4 heads, 2*(2+2) FLOPs
  EXPECT_EQ(find(layer, "qkv").flops_forward, 12288);
  EXPECT_EQ(find(layer, "o").flops_forward, 6144);
  EXPECT_EQ(find(layer, "ffn gate+up").flops_forward, 24576);
  EXPECT_EQ(find(layer, "ffn down").flops_forward, 12288);
  EXPECT_EQ(find(layer, "attention").flops_forward, 3 * 136 * 4 * 8);
  EXPECT_EQ(layer.flops_forward(), 12288 + 6144 + 24576 + 12288 + 13056);
  EXPECT_EQ(layer.flops_backward(), 2 * layer.flops_forward());
  // 8*16 + 8*8 + 3*8*16 + two norms of 8
  EXPECT_EQ(layer.dense_parameters, 128 + 64 + 384 + 16);
  EXPECT_EQ(layer.expert_parameters, 0);
  EXPECT_TRUE(layer.collectives.empty());
  EXPECT_EQ(layer.output_bytes, 48 * 8 * 2);
}

TEST(LocalLayer, SavedBytesOfMegatronByHand) {
  const model::Model model = model::build_model(tiny(gqa_gated()));
  const LocalLayer layer = local_block(model, {.micro_batch = 1, .sequence = 16}, {});
  // per token: norm inputs and outputs 4*2h, their rstd 2*4, q,k,v 2(a+2k)d, out 2ad, log-sum-exp 4a, gate, up and
  // product 6f
  EXPECT_EQ(layer.saved.none, 16 * (4 * 16 + 8 + 32 + 16 + 16 + 96));
  EXPECT_EQ(layer.saved.full, 16 * 16);
  // norms recomputed: their outputs and rstd go; attention core recomputed: log-sum-exp goes
  // Recomputing the core drops them; the norms run inside the projections' kernels and stay.
  EXPECT_EQ(layer.saved.selective, 16 * (4 * 16 + 8 + 32 + 16 + 96));
}

TEST(LocalLayer, TensorParallelSumsToTheWhole) {
  const model::Model model = model::build_model(tiny(gqa_gated()));
  const RunShape shape{.micro_batch = 2, .sequence = 16};
  const LocalLayer whole = local_block(model, shape, {});
  for (const std::int64_t tp : {2, 4}) {
    for (const bool sp : {false, true}) {
      const LocalLayer part = local_block(model, shape, {.tp = tp, .sp = sp});
      if (tp <= 2) {
        EXPECT_EQ(part.flops_forward() * static_cast<double>(tp), whole.flops_forward()) << tp;
      } else {
        // 4 ranks share 2 key/value heads: each pair of ranks computes one of them twice: k and v projections cost 2x
        const double kv_projections = 2.0 * 32 * 8 * (4 + 4);
        EXPECT_EQ(part.flops_forward() * 4, whole.flops_forward() + kv_projections);
      }
    }
  }
}

TEST(LocalLayer, TensorParallelCollectivesByHand) {
  const model::Model model = model::build_model(tiny(gqa_gated()));
  const RunShape shape{.micro_batch = 2, .sequence = 16};  // stream of 32 tokens x 8 x 2 bytes = 512 bytes
  EXPECT_EQ(exchanged(local_block(model, shape, {.tp = 2})),
            (Sums{{"all-reduce forward tensor", 2 * 512}, {"all-reduce backward tensor", 2 * 512}}));
  EXPECT_EQ(exchanged(local_block(model, shape, {.tp = 2, .sp = true})),
            (Sums{{"all-gather forward tensor", 2 * 512},
                  {"reduce-scatter forward tensor", 2 * 512},
                  {"all-gather backward tensor", 4 * 512},  // two for gradients, two to gather kept inputs again
                  {"reduce-scatter backward tensor", 2 * 512}}));
}

TEST(LocalLayer, SequenceParallelDividesTheStream) {
  const model::Model model = model::build_model(tiny(gqa_gated()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const LocalLayer with = local_block(model, shape, {.tp = 2, .sp = true});
  const LocalLayer without = local_block(model, shape, {.tp = 2});
  const double sharded = 16 * (32 + 16 + 16 + 96) / 2.0;  // q,k,v, out, log-sum-exp, feed-forward
  EXPECT_EQ(without.saved.none, 16 * (4 * 16 + 8) + sharded);
  EXPECT_EQ(with.saved.none, 16 * (4 * 16 + 8) / 2.0 + sharded);
  EXPECT_EQ(with.output_bytes, 16 * 16 / 2.0);
  EXPECT_EQ(with.dense_parameters, (128 + 64 + 384) / 2 + 16);
}

TEST(LocalLayer, ContextParallelByHand) {
  const model::Model model = model::build_model(tiny(gqa_gated()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const LocalLayer whole = local_block(model, shape, {});
  const LocalLayer part = local_block(model, shape, {.cp = 4});
  EXPECT_EQ(part.flops_forward() * 4, whole.flops_forward());
  EXPECT_EQ(part.saved.none * 4, whole.saved.none);
  EXPECT_EQ(part.dense_parameters, whole.dense_parameters);
  // 4 tokens x (k 4 + v 4) x 2 bytes per step; backward also carries the gradients
  EXPECT_EQ(exchanged(part), (Sums{{"ring exchange forward context", 64}, {"ring exchange backward context", 128}}));
}

// What Transformer Engine sends for every --cp-comm-type. Bytes are per rank: 16 tokens over cp ranks, q and out of 4
// heads x 2, k and v of 2 heads x 2 elements of 2 bytes.
TEST(LocalLayer, ContextExchangesByHand) {
  const model::Model model = model::build_model(tiny(gqa_gated()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const auto sums = [&](const Split& split) {
    EXPECT_EQ(refuse_split(model, shape, split), "");
    return exchanged(local_block(model, shape, split));
  };
  // 8 tokens: q 128, k 64, v 64, out 128. Keys and values of both ranks are gathered, again in backward, where their
  // gradients are scattered.
  EXPECT_EQ(sums({.cp = 2, .cp_comm = ContextExchange::all_gather}),
            (Sums{{"all-gather forward context", 2 * 128},
                  {"all-gather backward context", 2 * 128},
                  {"reduce-scatter backward context", 2 * 128}}));
  // q, k, v and out; backward out and its gradient, then the gradients of q, k and v.
  EXPECT_EQ(sums({.cp = 2, .cp_comm = ContextExchange::a2a}),
            (Sums{{"all-to-all forward context", 128 + 64 + 64 + 128},
                  {"all-to-all backward context", 2 * 128 + 128 + 64 + 64}}));
  // 4 tokens on each of two by two ranks: half of everything trades heads, and the ring passes on keys and values of
  // twice the tokens with half the heads: 4 x (4 + 4) x 2.
  const Split two{.cp = 4, .cp_comm = ContextExchange::a2a_p2p, .cp_inner = 2};
  EXPECT_EQ(sums(two), (Sums{{"all-to-all forward context", 64 + 32 + 32 + 64},
                             {"all-to-all backward context", 2 * 64 + 64 + 32 + 32},
                             {"ring exchange forward context", 64},
                             {"ring exchange backward context", 128}}));
  int calls = 0;
  for (const LayerCollective& exchange : local_block(model, shape, two).collectives) {
    EXPECT_EQ(exchange.ranks, 2);
    ++calls;
  }
  EXPECT_EQ(calls, 4 + 5 + 2);
  // With tensor ranks each has half of the heads.
  EXPECT_EQ(sums({.tp = 2, .cp = 2, .cp_comm = ContextExchange::all_gather})["all-gather forward context"], 128);
}

TEST(Split, ContextExchangesNeedHeads) {
  const model::Model model = model::build_model(tiny(gqa_gated()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const auto reason = [&](const Split& split) { return refuse_split(model, shape, split); };
  EXPECT_EQ(reason({.cp = 2, .cp_comm = ContextExchange::a2a}), "");
  EXPECT_EQ(reason({.cp = 4, .cp_comm = ContextExchange::a2a}),
            "cp_comm=a2a divides heads over 4 ranks besides tp=1; 2 heads do not divide");
  EXPECT_EQ(reason({.tp = 2, .cp = 2, .cp_comm = ContextExchange::a2a}),
            "cp_comm=a2a divides heads over 2 ranks besides tp=2; 2 heads do not divide");
  EXPECT_EQ(reason({.cp = 4, .cp_comm = ContextExchange::all_gather}), "");
  EXPECT_EQ(reason({.cp = 4, .cp_comm = ContextExchange::a2a_p2p, .cp_inner = 2}), "");
  EXPECT_EQ(reason({.cp = 4, .cp_comm = ContextExchange::a2a_p2p}),
            "cp_comm=a2a+p2p needs cp_inner, a divisor of cp=4 between 1 and it; 1 is none");
  EXPECT_EQ(reason({.cp = 4, .cp_inner = 2}), "cp_inner=2 is for cp_comm=a2a+p2p");
  EXPECT_EQ(reason({.cp_comm = ContextExchange::a2a}), "cp_comm=a2a needs cp > 1");
}

TEST(LocalLayer, ParallelBlockPaysOneReduction) {
  model::Block block = gqa_gated();
  block.wiring = model::Wiring::parallel_one;
  const model::Model model = model::build_model(tiny(block));
  const LocalLayer layer = local_block(model, {.micro_batch = 1, .sequence = 16}, {.tp = 2});
  EXPECT_EQ(exchanged(layer), (Sums{{"all-reduce forward tensor", 256}, {"all-reduce backward tensor", 256}}));
}

model::Block mixture_block() {
  model::Block block = gqa_gated();
  block.feed_forward.reset();
  model::Mixture mixture;
  mixture.experts = 4;
  mixture.top_k = 2;
  mixture.expert = {12, true, model::Activation::silu, false, false};
  mixture.shared = model::FeedForward{4, true, model::Activation::silu, false, false};
  block.mixture = mixture;
  return block;
}

TEST(LocalLayer, MixtureByHand) {
  const model::Model model = model::build_model(tiny(mixture_block()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const LocalLayer layer = local_block(model, shape, {});
  // router 2*16*8*4; experts see 16*2 rows: 2*32*8*24 + 2*32*12*8; shared 2*16*8*8 + 2*16*4*8
  EXPECT_EQ(find(layer, "router").flops_forward, 1024);
  EXPECT_EQ(find(layer, "experts gate+up").flops_forward, 12288);
  EXPECT_EQ(find(layer, "experts gate+up").groups, 4);
  EXPECT_EQ(find(layer, "experts down").flops_forward, 6144);
  EXPECT_EQ(find(layer, "shared gate+up").flops_forward + find(layer, "shared down").flops_forward, 2048 + 1024);
  EXPECT_EQ(layer.expert_parameters, 4 * 3 * 8 * 12);
  // attention 128 + 64, norms 16, router 32, shared 3*8*4
  EXPECT_EQ(layer.dense_parameters, 192 + 16 + 32 + 96);
  // per token: attention half 2*16 + 4 + 32 + 16 + 16; ffn norm 2*16 + 4; router 16E and row map 8E + 4; routed 2*(2h +
  // 6*12); shared 6*4
  EXPECT_EQ(layer.saved.none, 16 * (100 + 36 + 64 + 36 + 2 * (16 + 72) + 24));
}

TEST(LocalLayer, ExpertParallelByHand) {
  const model::Model model = model::build_model(tiny(mixture_block()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const LocalLayer whole = local_block(model, shape, {});
  const LocalLayer part = local_block(model, shape, {.ep = 4});
  // Every rank brings its own 16 tokens: the same rows per rank on a quarter of the experts, so a rank's work is
  // unchanged.
  EXPECT_EQ(part.flops_forward(), whole.flops_forward());
  EXPECT_EQ(part.expert_parameters * 4, whole.expert_parameters);
  EXPECT_EQ(part.dense_parameters, whole.dense_parameters);
  EXPECT_EQ(find(part, "experts down").groups, 1);
  // dispatch and combine, 32 rows x 8 x 2 bytes each
  EXPECT_EQ(exchanged(part), (Sums{{"all-to-all forward expert", 2 * 512}, {"all-to-all backward expert", 2 * 512}}));
}

TEST(LocalLayer, ExpertsUnderTensorParallelism) {
  const model::Model model = model::build_model(tiny(mixture_block()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const LocalLayer whole = local_block(model, shape, {});
  const LocalLayer sliced = local_block(model, shape, {.tp = 2, .sp = true});  // etp = tp: experts cut in half
  const LocalLayer spread =
      local_block(model, shape, {.tp = 2, .sp = true, .ep = 2, .etp = 1});  // whole experts, half the tokens
  EXPECT_EQ(find(sliced, "experts down").flops_forward * 2, find(whole, "experts down").flops_forward);
  EXPECT_EQ(find(spread, "experts down").flops_forward * 2, find(whole, "experts down").flops_forward);
  EXPECT_EQ(sliced.expert_parameters * 2, whole.expert_parameters);
  EXPECT_EQ(spread.expert_parameters * 2, whole.expert_parameters);  // half of the experts, each whole
  EXPECT_EQ(find(sliced, "experts down").m, 32);
  EXPECT_EQ(find(spread, "experts down").m, 16);
}

// Experts divided less and more than the rest: rows are K T etp/tp, columns f/etp.
TEST(LocalLayer, ExpertsHaveAGridOfTheirOwn) {
  const model::Model model = model::build_model(tiny(mixture_block()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};  // 16 tokens to 2 of 4 experts of width 12
  const LocalLayer less = local_block(model, shape, {.tp = 4, .sp = true, .ep = 2, .etp = 2});
  EXPECT_EQ(find(less, "experts down").m, 16);
  EXPECT_EQ(find(less, "experts down").k, 6);
  EXPECT_EQ(find(less, "experts down").groups, 2);
  const LocalLayer more = local_block(model, shape, {.ep = 2, .etp = 3});
  EXPECT_EQ(find(more, "experts down").m, 96);
  EXPECT_EQ(find(more, "experts down").k, 4);
  // Own rows travel: 32 x 8 x 2 bytes; then three ranks gather each other's, and sum what they made of them.
  EXPECT_EQ(exchanged(more), (Sums{{"all-to-all forward expert", 2 * 512},
                                   {"all-to-all backward expert", 2 * 512},
                                   {"all-gather forward expert tensor", 1536},
                                   {"reduce-scatter backward expert tensor", 1536},
                                   {"reduce-scatter forward expert tensor", 1536},
                                   {"all-gather backward expert tensor", 1536}}));
  // Context ranks change nothing but the tokens.
  const LocalLayer context = local_block(model, shape, {.cp = 2, .ep = 4, .etp = 1});
  EXPECT_EQ(find(context, "experts down").m, 16);
}

TEST(LocalLayer, LatentAttentionByHand) {
  model::Block block = gqa_gated();
  block.attention = {};
  block.attention.heads = block.attention.kv_heads = 2;
  block.attention.head_dim = 6;
  block.attention.latent =
      model::LatentAttention{.query_rank = 5, .kv_rank = 3, .nope_dim = 4, .rope_dim = 2, .value_dim = 3};
  const model::Model model = model::build_model(tiny(block));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const LocalLayer layer = local_block(model, shape, {});
  // q down 8x5, q up 5x12, kv down 8x5, kv up 3x14, o 6x8: 2*16*(40+60+40+42+48); core 136 pairs, 2 heads, 2*(6+3); ffn
  // 36864/3
  EXPECT_EQ(layer.flops_forward(), 32.0 * (40 + 60 + 40 + 42 + 48) + 136 * 2 * 18 + 32 * (8 * 32 + 16 * 8));
  EXPECT_EQ(layer.dense_parameters, 40 + 5 + 60 + 40 + 3 + 42 + 48 + 384 + 16);
  // attention half: norm pair 2*16 + 4, q latent 10 + rstd 4 + normed 10, kv latent 10 + 4 + normed 6, q k v
  // 2*2*(6+6+3), out 12, log-sum-exp 8; ffn half: 2*16 + 4 + 96
  EXPECT_EQ(layer.saved.none, 16 * (36 + 24 + 20 + 60 + 12 + 8 + 132));
  const LocalLayer half = local_block(model, shape, {.tp = 2});
  // Down projections are repeated on every rank, the rest is halved.
  EXPECT_EQ(2 * half.flops_forward() - layer.flops_forward(), 32.0 * (40 + 40));
  // With sequence parallelism each rank projects its own tokens, and gathers the latents after that.
  const LocalLayer own = local_block(model, shape, {.tp = 2, .sp = true});
  EXPECT_EQ(find(own, "q down").m, 8);
  EXPECT_EQ(2 * own.flops_forward(), layer.flops_forward());
}

TEST(LocalLayer, EncoderAttendsBothWays) {
  model::Block block = gqa_gated();
  block.attention.causal = false;
  block.wiring = model::Wiring::post_norm;
  block.norm = model::NormKind::layer;
  block.norm_bias = true;
  block.feed_forward = model::FeedForward{16, false, model::Activation::gelu, true, true};
  const model::Model model = model::build_model(tiny(block));
  const LocalLayer layer = local_block(model, {.micro_batch = 2, .sequence = 16}, {});
  EXPECT_EQ(find(layer, "attention").flops_forward, 2 * 256 * 4 * 8);
  EXPECT_EQ(find(layer, "ffn up").flops_forward, 2 * 32 * 8 * 16);
  EXPECT_EQ(layer.dense_parameters, 128 + 64 + 8 * 16 + 16 + 16 * 8 + 8 + 2 * 2 * 8);
}

TEST(LocalLayer, UnfusedAttentionWritesScores) {
  model::Implementation unfused{.flash_attention = false};
  const model::Model model = model::build_model(tiny(gqa_gated()), unfused);
  const LocalLayer layer = local_block(model, {.micro_batch = 1, .sequence = 16}, {}, unfused);
  // instead of the log-sum-exp, probabilities: 2 bytes x 4 heads x 16 keys per token
  EXPECT_EQ(layer.saved.none, 16 * (4 * 16 + 8 + 32 + 16 + 96 + 2 * 4 * 16));
  // Recomputing the core drops them; the norms run inside the projections' kernels and stay.
  EXPECT_EQ(layer.saved.selective, 16 * (4 * 16 + 8 + 32 + 16 + 96));
}

TEST(LocalLayer, HeadAndEmbeddingByHand) {
  const model::Model model = model::build_model(tiny(gqa_gated(), 8, 500));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const LocalLayer head = localise(model.kinds.back(), shape, {.tp = 2}, {});
  // 500 tokens padded to 512 for two ranks of a multiple of 128
  EXPECT_EQ(find(head, "lm head").n, 256);
  EXPECT_EQ(find(head, "lm head").flops_forward, 2.0 * 16 * 8 * 256);
  EXPECT_EQ(exchanged(head), (Sums{{"all-reduce backward tensor", 256}, {"all-reduce forward tensor", 12 * 16}}));
  const LocalLayer embedding = localise(model.kinds.front(), shape, {.tp = 2}, {});
  EXPECT_EQ(embedding.dense_parameters, 256 * 8);
}

TEST(LocalLayer, AttentionPairs) {
  EXPECT_EQ(attention_pairs(4, 4, true, 0), 10);
  EXPECT_EQ(attention_pairs(4, 4, true, 2), 7);  // 1 + 2 + 2 + 2
  EXPECT_EQ(attention_pairs(4, 4, true, 9), 10);
  EXPECT_EQ(attention_pairs(4, 6, false, 0), 24);
}

TEST(LocalLayer, CutCarriesEveryCrossingTensor) {
  model::Architecture arch = tiny(gqa_gated());
  model::Tower encoder = arch.towers[0];
  encoder.name = "encoder";
  arch.towers[0].kinds[0].cross_attention = arch.towers[0].kinds[0].attention;
  arch.towers.insert(arch.towers.begin(), encoder);
  const model::Model model = model::build_model(arch);
  // encoder: embedding, 2 blocks, norm; decoder: embedding, 2 blocks, head
  ASSERT_EQ(model.layers.size(), 8U);
  const auto cuts = cut_bytes(model, {.micro_batch = 1, .sequence = 8, .encoder_sequence = 16}, {});
  // encoder stream 16*8*2 = 256; decoder stream 128; the encoder's output crosses until the last decoder block has read
  // it
  EXPECT_EQ(cuts, (std::vector<double>{256, 256, 256, 256, 256 + 128, 256 + 128, 128}));
}

TEST(Split, RefusesWithTheReason) {
  const model::Model dense = model::build_model(tiny(gqa_gated()));
  const model::Model moe = model::build_model(tiny(mixture_block()));
  const RunShape shape{.micro_batch = 1, .sequence = 16};
  const auto refuse = [&](const model::Model& model, const Split& split) { return refuse_split(model, shape, split); };
  EXPECT_EQ(refuse(dense, {.tp = 2, .sp = true, .cp = 2}), "");
  EXPECT_EQ(refuse(dense, {.tp = 3}), "tp=3 does not divide the 4 attention heads");
  EXPECT_EQ(refuse(dense, {.tp = 8}), "tp=8 does not divide the 4 attention heads");
  EXPECT_EQ(refuse(dense, {.ep = 2}), "ep=2 needs a mixture of experts; this model is dense");
  EXPECT_EQ(refuse(moe, {.ep = 8}), "ep=8 is more than the 4 experts");
  EXPECT_EQ(refuse(moe, {.ep = 3}), "ep=3 does not divide the 4 experts");
  EXPECT_EQ(refuse(dense, {.sp = true}), "sp divides the sequence over the tensor-parallel ranks and needs tp > 1");
  EXPECT_NE(refuse(dense, {.cp = 3}), "");
  EXPECT_EQ(refuse(moe, {.tp = 2, .etp = 1}),
            "a mixture of experts with tp=2 needs sp, or every tensor-parallel rank would route the same tokens");
  EXPECT_NE(refuse(moe, {.tp = 2}), "");
  EXPECT_EQ(refuse(moe, {.tp = 2, .sp = true, .ep = 4, .etp = 3}), "");
  EXPECT_EQ(refuse(moe, {.ep = 2, .etp = 5}), "etp=5 does not divide the experts' width 12");
  EXPECT_EQ(refuse(dense, {.tp = 2, .etp = 1}), "etp needs a mixture of experts; this model is dense");
  EXPECT_NE(refuse(moe, {.etp = -1}), "");
  EXPECT_NE(refuse(dense, {.tp = 0}), "");
  model::Block odd = gqa_gated();
  odd.feed_forward->width = 15;
  EXPECT_EQ(refuse(model::build_model(tiny(odd)), {.tp = 2}), "tp=2 does not divide the feed-forward width 15");
}

}  // namespace
}  // namespace nest::split
