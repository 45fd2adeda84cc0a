// Constants of the time model that do not depend on the device or the stack. Each says how it was found:
//   measured  on an H200 with micro-benchmarks
//   fitted    to published training runs (237 complete rows of 11 sources), together with the devices' efficiencies
//   set       by hand from physics or from what the software does; the data leave it undetermined
// Constants of a device stand in data/devices, those of a stack in data/stacks; docs/cost-model.md shows all of them in
// use.
#pragma once

#include <cstdint>

namespace nest::cost::constants {

// Matrix products.
inline constexpr double kShortK = 208;            // measured: k + 208 columns' worth of time (prologue, epilogue)
inline constexpr double kMisaligned = 0.284;      // fitted: rate when n or k is no multiple of 8
inline constexpr double kGrouped = 1.08;          // measured: grouped over batched products of the same size
inline constexpr double kGap_s = 8e-6;            // measured (8 … 11 us): between kernels of one stream
inline constexpr double kWrittenGap_s = 1.5e-6;   // measured: the same where a queue of small kernels waits
inline constexpr double kWrittenProducts = 1.10;  // measured: rate of products between such kernels, over long runs
inline constexpr int kOtherKernels = 8;           // set: kernels of a block beside its matrix products
inline constexpr int kAttentionKernels = 4;       // set: of those, for every attention beyond the first

// Attention.
inline constexpr double kAttentionStart = 64;  // set: keys' worth of time per query beside those it sees
inline constexpr double kSmallHead = 0.6;      // set: rate at head sizes of at most kSmallHeadDim
inline constexpr std::int64_t kSmallHeadDim = 64;
inline constexpr std::int64_t kPlainHeadDim = 128;  // wider ones have rates of their own where they were measured
inline constexpr double kFlashBackward = 2.5;       // five products against two
inline constexpr double kDeterministic = 1.5;       // set: backward without atomic additions
inline constexpr double kScoreProducts = 0.7;       // set: batched products of unfused attention, share of the peak
inline constexpr double kScoreProductsMisaligned = 0.0318;  // fitted: with heads of no multiple of 8
inline constexpr double kScorePasses = 4;                   // write, read, write, read
inline constexpr double kScoreDropoutPasses = 2.5;          // read, write, one-byte mask
inline constexpr double kScoreMemory = 0.982;               // fitted
inline constexpr int kUnfusedKernels = 4;
// Where modules run as written, native kernels by themselves (H200, cuDNN, sequences of 1,024 … 8,192): measured, over
// what a device's native_forward and native_backward say, and 0.95 of it for long runs. Heads of 64 and of 96 elements.
inline constexpr double kWrittenForward = 1.17, kWrittenBackward = 1.34;
inline constexpr double kWrittenStart = 408, kWrittenStartBack = 500;
inline constexpr double kWrittenSmall = 0.73, kWrittenSmallBack = 0.80;
inline constexpr double kWrittenMiddle = 0.77, kWrittenMiddleBack = 0.78;
inline constexpr double kWrittenWide = 0.82, kWrittenWideBack = 0.63;
// Kernels that are given a mask see all keys: measured, share of the peak, and of that with heads of at most 64.
inline constexpr double kMaskedForward = 0.32, kMaskedBackward = 0.287;
inline constexpr double kMaskedSmall = 0.78, kMaskedSmallBack = 0.86;

// Chunked scans of states: their products are small, and run at this share of the peak (set, not measured).
inline constexpr double kStateProducts = 0.25;

// Operators that are limited by memory.
inline constexpr double kRowwise = 0.888;  // fitted: of the bytes that operators name, fused kernels move this many
inline constexpr double kEager = 2.67;     // fitted: times as many without fusion
inline constexpr double kRowwiseBackward = 2.0;   // set
inline constexpr double kExpertActivation = 2.5;  // set: elements moved per element of a gated expert activation
inline constexpr double kPermute = 3.0;           // set: elements moved per routed element by dispatch and by combine
inline constexpr double kRouter = 4.0;            // set: elements moved per (token, expert) by softmax and top-k
inline constexpr double kCastForwardBytes = 3.0;  // set: casts of matrix inputs to 8 or 4 bits, per element
inline constexpr double kCastBackwardBytes = 6.0;
inline constexpr double kCastBothBytes = 4.0625;  // read in 16 bits, written by rows and by columns with scales (MXFP8)
// Per element of the experts' results where their bias is added by itself: Megatron multiplies it by the probabilities
// (4 bytes written), adds (2 + 4 read, 4 written), joins the experts (4 + 4) and rounds (4 + 2), all in fp32; backward
// the same steps, and sums over rows and over columns (TEGroupedMLP._apply_bias).
inline constexpr double kBiasForwardBytes = 28.0;
inline constexpr double kBiasBackwardBytes = 40.0;
inline constexpr double kLossForwardBytes = 10.0;  // set: per logit
inline constexpr double kLossBackwardBytes = 8.0;
inline constexpr double kEagerLossForwardBytes = 20.0 / 3;  // set: additional passes of an eager loss
inline constexpr double kEagerLossBackwardBytes = 40.0 / 3;
inline constexpr double kWrittenLoss = 27.0;  // measured: where modules run as written (cost/eager_time.h), per logit
inline constexpr double kWrittenLossBack = 25.5;

// Where modules run as written, in launches' worth of backward, which is no Python: a launch of forward, and what a block's
// modules do besides; measured on opt, qwen3, stablelm and cohere with 16 tokens. Under a checkpoint 1.9 to 2.3 times that.
inline constexpr double kWrittenLaunch = 0.6;
inline constexpr double kWrittenBlock = 20;
inline constexpr double kWrittenCheckpoint = 2;
inline constexpr double kWrittenCast_s = 2e-6;  // measured: of the shortest kernel, beside the gap before it

// Host.
inline constexpr double kHostKernels = 18;             // set: launches of a dense block forward
inline constexpr double kHostPerOperator = 18.0 / 11;  // set: the same for layers of any kind; a dense block has 11
inline constexpr double kHostTensor = 4;               // set: more of them with tensor parallelism
inline constexpr double kHostAttention = 11.0 / 18;    // set: of a dense block's, attention's share
inline constexpr double kHostRouter = 8;               // set: with routed experts: choosing,
inline constexpr double kHostFusedRouter = 3;          // set: the same as fused kernels: scores, choice, loss
inline constexpr double kHostPreprocess = 6;           // set: counting and sorting,
inline constexpr double kHostExperts = 14;             // set: dispatch, experts, combine
inline constexpr double kHostShared = 8;               // set: with shared experts
inline constexpr double kHostLatent = 15;              // set: with latent attention
inline constexpr double kHostCross = 10;               // set: with cross attention
inline constexpr double kHostBackward = 5.69;          // fitted: host time of backward over forward
inline constexpr double kHostCheckpoint = 15;  // measured: of a function that backward runs again, beside what it
                                               // launches: Moonlight's core attention, expert activations, latent
                                               // projections and norms cost 0.35 … 0.88 ms each, 32.2 us a launch
inline constexpr double kHostCaptured = 0.1;   // set: share of host time left of what a CUDA graph captures

// Exposed communication.
inline constexpr double kTensorExposed = 0.579;  // fitted: of tensor-parallel collectives where the stack overlaps them
inline constexpr double kRegatherExposed = 0.5;  // set: of the second gathering for weight gradients, without overlap
inline constexpr double kCrossingLoss = 0.5;     // set: what compute loses beside routed tokens that cross nodes; of
                                                 // 8.25 s of them a run of Qwen3-30B on 16 H100 kept 55 % exposed
inline constexpr double kContextExposed = 0.1;   // set: of the ring exchange that attention could hide
inline constexpr double kShardExposed = 0.34;    // fitted: of gathers and scatters per micro-batch that could hide
inline constexpr double kSyncExposed = 0.17;     // fitted: of the gradient exchange that compute could hide
inline constexpr double kSyncHide = 0.8;         // set: share of a micro-batch's compute behind which gradients hide
inline constexpr double kBucketParameters = 40e6;        // Megatron: at least this many per bucket,
inline constexpr double kBucketParametersPerRank = 1e6;  // and this many per rank

// Dispatch of routed tokens (cost/dispatch.h).
inline constexpr double kAllToAllRate = 0.47;         // set: NCCL's all-to-all on the innermost links, of other
                                                      // collectives' rate: 0.37 of the data sheet's
inline constexpr double kAllToAllPeer_s = 2e-6;       // set: per peer
inline constexpr double kAllToAll_s = 20e-6;          // set: per call
inline constexpr double kForwarded_s = 20e-6;         // set: per call of DeepEP and its like
inline constexpr double kForwardedDoubling_s = 2e-6;  // set: and per doubling of the ranks
inline constexpr double kUsualLink = 0.788;           // efficiency of inner links where they were measured
inline constexpr double kUsualNetwork = 0.647;        // and of the network (data/clusters/dgx-h100.yaml)
inline constexpr double kForwardedPerMultiprocessor = 22.6e9;  // measured: 362 GB/s with 16 (DeepEP pull request 420)
// HybridEP's combine, with its default settings: two pipelines per multiprocessor sum up one copy after the other.
// Measured on 8 Blackwells with 32: 577 and 877 us for 8192 tokens of 1 KB from 5.3 and 8 ranks, so 0.85 us per copy;
// 598 us for 4096 tokens of 14.3 KB from 5.4 (DeepEP pull request 420 and the hybrid-ep branch), so 1.72 us.
inline constexpr double kCombinePipelines = 2;
inline constexpr double kCombineCopy_s = 0.78e-6;
inline constexpr double kCombineBytes_per_s = 15.3e9;
inline constexpr double kRouterWidth = 2;      // rows that the allgather dispatcher sums up have 32 bits
inline constexpr double kRoutingMapBytes = 5;  // per token and expert: map and probability

// Once per step.
inline constexpr double kNormBytes = 6;                    // per local parameter: gradient norm, zeroing
inline constexpr double kStep_s = 5.3e-3;                  // fitted: data loading, logging, synchronisation
inline constexpr std::int64_t kDeferredMicroBatches = 22;  // NeMo: head gradients that wait for the drain at most

}  // namespace nest::cost::constants
