// Whole blocks: their kernels in order, and the queue between host and device.
#include <algorithm>

#include "base/index.h"
#include "calibrate/burst.h"

namespace nest::calibrate {
namespace {

using C = BurstConstant;

constexpr double kMicro = 1e-6;
constexpr double kElementBytes = 2;
constexpr double kAttentionShare = 0.5;

std::vector<GemmCall> linears(const BlockShape& block) {
  const std::int64_t tokens = block.micro_batch * block.sequence;
  return {{.m = tokens, .n = (block.heads + 2 * block.kv_heads) * block.head_dim, .k = block.hidden},
          {.m = tokens, .n = block.hidden, .k = block.heads * block.head_dim},
          {.m = tokens, .n = (block.gated ? 2 : 1) * block.ffn, .k = block.hidden},
          {.m = tokens, .n = block.hidden, .k = block.ffn}};
}

AttentionCall attention_of(const BlockShape& block, bool backward) {
  return {.batch = block.micro_batch,
          .heads = block.heads,
          .sequence = block.sequence,
          .head_dim = block.head_dim,
          .causal = block.causal,
          .backward = backward};
}

}  // namespace

std::vector<BurstModel::Kernel> BurstModel::forward_kernels(const BlockShape& block) const {
  const std::vector<GemmCall> matmuls = linears(block);
  const std::int64_t tokens = block.micro_batch * block.sequence;
  const auto matmul = [&](std::size_t i) { return Kernel{cool_gemm(matmuls[i]), 1}; };
  const auto row = [&](RowwiseOperator op, std::int64_t width) { return Kernel{cool_rowwise({op, tokens, width}), 0}; };
  const RowwiseOperator norm = block.gated ? RowwiseOperator::rmsnorm : RowwiseOperator::layernorm;
  std::vector<Kernel> kernels = {row(norm, block.hidden),
                                 matmul(0),
                                 {cool_attention(attention_of(block, false)), kAttentionShare},
                                 matmul(1),
                                 row(RowwiseOperator::add, block.hidden),
                                 row(norm, block.hidden),
                                 matmul(2)};
  if (block.gated) {
    const Kernel both = row(RowwiseOperator::silu_mul, block.ffn);
    kernels.insert(kernels.end(), 2, {both.seconds / 2, 0});
  } else {
    kernels.push_back(row(RowwiseOperator::gelu, block.ffn));
  }
  kernels.push_back(matmul(3));
  kernels.push_back(row(RowwiseOperator::add, block.hidden));
  return kernels;
}

std::vector<BurstModel::Kernel> BurstModel::backward_kernels(const BlockShape& block) const {
  const auto tokens = real(block.micro_batch * block.sequence);
  const auto hidden = real(block.hidden), ffn = real(block.ffn);
  std::vector<Kernel> kernels;
  const auto rows = [&](double passes, double width, int count = 1) {
    const double bytes = passes * tokens * width * kElementBytes * c_[C::row_backward] / count;
    for (int i = 0; i < count; ++i) kernels.push_back({c_[C::gap_us] * kMicro + traffic_s(bytes), 0});
  };
  const std::vector<GemmCall> matmuls = linears(block);
  const auto linear_backward = [&](std::size_t i) {
    const GemmCall& f = matmuls[i];
    kernels.push_back({cool_gemm({.m = f.m, .n = f.k, .k = f.n}), 1});
    kernels.push_back({cool_gemm({.m = f.n, .n = f.k, .k = f.m}), 1});
    if (!block.gated) rows(1, real(f.n));  // gradient of the bias
  };
  const auto norm_and_residual = [&] {
    rows(block.gated ? 5 : 5.5, hidden, 2);  // reads x and dy, writes dx, sums the weight's gradient
    rows(3, hidden);                         // gradients of the two branches are added
  };
  linear_backward(3);
  if (block.gated) {
    rows(3 + 3 + 3 + 4, ffn, 4);  // two products, the derivative of SiLU, and the two halves put side by side
  } else {
    rows(3.5, ffn);
  }
  linear_backward(2);
  norm_and_residual();
  linear_backward(1);
  kernels.push_back({cool_attention(attention_of(block, true)), kAttentionShare});
  rows(2, real(matmuls[0].n));  // gradients of Q, K and V put side by side
  linear_backward(0);
  norm_and_residual();
  return kernels;
}

double BurstModel::host_forward(const BlockShape& block) const {
  return real(forward_kernels(block).size()) * c_[C::host_forward_us] * kMicro;
}

double BurstModel::host_both(const BlockShape& block) const {
  return host_forward(block) + real(backward_kernels(block).size()) * c_[C::host_backward_us] * kMicro;
}

double BurstModel::block_time(const BlockShape& block, bool backward, const Protocol& protocol) const {
  std::vector<Kernel> kernels = forward_kernels(block);
  const std::size_t forward = kernels.size();
  if (backward) {
    const std::vector<Kernel> more = backward_kernels(block);
    kernels.insert(kernels.end(), more.begin(), more.end());
  }
  double cool = 0;
  for (const Kernel& kernel : kernels) cool += kernel.seconds;
  double host_s = 0;
  double device_s = 0;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (!protocol.queued) host_s += c_[i < forward ? C::host_forward_us : C::host_backward_us] * kMicro;
    const double seconds = kernels[i].seconds * throttle(cool, kernels[i].power_share, protocol);
    device_s = std::max(device_s, host_s) + seconds;
  }
  return backward && !protocol.queued ? device_s + c_[C::host_turn_us] * kMicro : device_s;
}

}  // namespace nest::calibrate
