// Mixers that carry a state along the sequence: projections, a causal convolution, the scan, a gate, the output.
//
// What is kept for backward follows the kernels that people train with (flash-linear-attention, mamba-ssm): inputs of
// projections and convolutions, what the scan reads, its result and what leaves the gate. Per token, t ranks:
//     gated_delta  4h + 4 + 2 (2GN + 2HP + 2H)/t + 2 (2GN + HP)/t + 4 HP/t
//     mamba2       4h + 4 + 2 (2HP + 2GN + H)/t + 4 HP/t: one kernel convolves and scans, and convolves again backward
// FLOPs of a scan per element of its result: gated_delta 8 N (decay, two products with the state, the update), mamba
// and mamba2 7 N, lightning 4 N; convolutions 2 taps. Kernels of states move kStatePasses times what they read and
// write.
#include "base/error.h"
#include "base/index.h"
#include "model/layer_builder.h"

namespace nest::model {
namespace {

// Chunks of a sequence are read for the state, for what lies inside the chunk, and for the result.
constexpr double kStatePasses = 3;

}  // namespace

std::vector<Extent> LayerBuilder::width_of(TensorId x) const { return layer_.tensors[at(x)].width; }

Rows LayerBuilder::rows_of(TensorId x) const { return layer_.tensors[at(x)].rows; }

TensorId LayerBuilder::beside(TensorId y, TensorId x) {
  layer_.tensors[at(y)].rows = layer_.tensors[at(x)].rows;
  layer_.tensors[at(y)].rows_per_unit = layer_.tensors[at(x)].rows_per_unit;
  return y;
}

TensorId LayerBuilder::inner_norm(const std::string& name, TensorId x, NormKind kind, const std::string& weight,
                                  std::vector<Extent> shape, const std::vector<Extent>& statistics, Module module) {
  const TensorId out = like(x, name + " out");
  Operator& op =
      add_operator(OperatorKind::norm, name, module, {x}, {out}, kept_by_norm(name, x, width_of(x), kind, statistics));
  op.weights.push_back(matrix(weight, shape));
  if (kind == NormKind::layer) op.weights.push_back(matrix(weight + "_bias", std::move(shape)));
  return out;
}

Operator& LayerBuilder::scan(const std::string& name, std::vector<TensorId> inputs, TensorId out, double flops) {
  std::vector<TensorId> saves = inputs;
  Operator& op = add_operator(OperatorKind::scan, name, Module::other, std::move(inputs), {out}, std::move(saves));
  op.scan = {flops, kStatePasses, true};
  return op;
}

TensorId LayerBuilder::convolve(const StateMixer& mixer, TensorId x, bool kept) {
  const TensorId out = like(x, layer_.tensors[at(x)].name + " convolved");
  Operator& op = add_operator(OperatorKind::scan, "convolution", Module::other, {x}, {out},
                              kept ? std::vector<TensorId>{x} : std::vector<TensorId>{});
  op.scan = {2 * real(mixer.taps), 1, false};
  std::vector<Extent> shape = width_of(x);
  if (mixer.conv_bias) op.weights.push_back(matrix("state.conv_bias", shape));
  shape.push_back({mixer.taps});
  op.weights.push_back(matrix("state.conv", std::move(shape)));
  return out;
}

TensorId LayerBuilder::state_out(const StateMixer& mixer, TensorId x) {
  std::vector<Extent> shape = {{hidden()}};
  for (const Extent& extent : width_of(x)) shape.push_back(extent);
  std::vector<Weight> weights = {matrix("state.out", std::move(shape))};
  if (mixer.proj_bias) weights.push_back(matrix("state.out_bias", {{hidden()}}));
  return matmul("state out", Module::other, x, {stream("state out")}, std::move(weights));
}

TensorId LayerBuilder::gated_delta(const StateMixer& mixer, TensorId x) {
  const Extent hidden_width{hidden()}, key{mixer.state}, value{mixer.width}, rank{mixer.rank};
  const Extent heads{mixer.heads, Axis::heads}, groups{mixer.groups, Axis::heads};
  const bool vectors = mixer.rank > 0;
  const TensorId q = tensor("q", {groups, key});
  const TensorId k = tensor("k", {groups, key});
  const TensorId v = tensor("v", {heads, value});
  const TensorId gate = tensor("gate", {heads, value});
  const TensorId decay = vectors ? tensor("decay", {heads, key}) : tensor("decay", {heads});
  const TensorId beta = tensor("beta", {heads});
  std::vector<TensorId> outputs = {q, k, v, beta};
  std::vector<Weight> weights = {
      matrix("state.q", {groups, key, hidden_width}), matrix("state.k", {groups, key, hidden_width}),
      matrix("state.v", {heads, value, hidden_width}), matrix("state.beta", {heads, hidden_width})};
  if (!vectors) {
    outputs.insert(outputs.end(), {gate, decay});
    weights.push_back(matrix("state.gate", {heads, value, hidden_width}));
    weights.push_back(matrix("state.decay", {heads, hidden_width}));
  }
  matmul("state in", Module::other, x, std::move(outputs), std::move(weights));
  if (vectors) {
    struct Low {
      const char* name;
      TensorId out;
      Extent width;
    };
    for (const Low& low : {Low{"decay", decay, key}, Low{"gate", gate, value}}) {
      const std::string name = low.name;
      const TensorId down = matmul(name + " down", Module::other, x, {tensor(name + " latent", {rank})},
                                   {matrix("state." + name + "_down", {rank, hidden_width})});
      matmul(name + " up", Module::other, down, {low.out}, {matrix("state." + name, {heads, low.width, rank})});
    }
  }
  const TensorId core = tensor("state result", {heads, value});
  const std::vector<TensorId> read = {convolve(mixer, q, true), convolve(mixer, k, true), convolve(mixer, v, true),
                                      decay, beta};
  Operator& op = scan("gated delta rule", read, core, 8 * real(mixer.state));
  op.weights = {matrix("state.decay_rate", {heads}),
                matrix("state.decay_bias", vectors ? std::vector<Extent>{heads, key} : std::vector<Extent>{heads})};
  const TensorId gated = tensor("gated", {heads, value});
  add_operator(OperatorKind::norm, "gated norm", Module::other, {core, gate}, {gated}, {core, gate})
      .weights.push_back(matrix("state.norm", {value}));
  return state_out(mixer, gated);
}

TensorId LayerBuilder::mamba2(const StateMixer& mixer, TensorId x) {
  const Extent hidden_width{hidden()}, width{mixer.width}, state{mixer.state};
  const Extent heads{mixer.heads, Axis::heads}, groups{mixer.groups, Axis::heads};
  const TensorId gate = tensor("gate", {heads, width});
  const TensorId values = tensor("values", {heads, width});
  const TensorId keys = tensor("keys", {groups, state});
  const TensorId queries = tensor("queries", {groups, state});
  const TensorId steps = tensor("steps", {heads});
  std::vector<Weight> weights = {
      matrix("state.gate", {heads, width, hidden_width}), matrix("state.values", {heads, width, hidden_width}),
      matrix("state.keys", {groups, state, hidden_width}), matrix("state.queries", {groups, state, hidden_width}),
      matrix("state.steps", {heads, hidden_width})};
  if (mixer.proj_bias) {
    weights.push_back(matrix("state.in_bias", {heads, {2 * mixer.width + 1}}));
    weights.push_back(matrix("state.in_bias", {groups, {2 * mixer.state}}));
  }
  matmul("state in", Module::other, x, {gate, values, keys, queries, steps}, std::move(weights));
  const TensorId core = tensor("state result", {heads, width});
  const std::vector<TensorId> read = {convolve(mixer, values, false), convolve(mixer, keys, false),
                                      convolve(mixer, queries, false), steps};
  Operator& op = scan("mamba2 scan", read, core, 7 * real(mixer.state));
  // Forward convolves inside the same kernel, which keeps what it read before the convolution.
  op.saves = {values, keys, queries, steps, core};
  op.weights = {matrix("state.decay_rate", {heads}), matrix("state.step_bias", {heads}), matrix("state.skip", {heads})};
  const TensorId gated = tensor("gated", {heads, width});
  Operator& norm = add_operator(mixer.norm ? OperatorKind::norm : OperatorKind::elementwise,
                                mixer.norm ? "gated norm" : "gate", Module::other, {core, gate}, {gated}, {core, gate});
  if (mixer.norm) norm.weights.push_back(matrix("state.norm", {heads, width}));
  return state_out(mixer, gated);
}

TensorId LayerBuilder::mamba(const StateMixer& mixer, TensorId x) {
  const Extent hidden_width{hidden()}, channels{mixer.inner(), Axis::ffn};
  const TensorId values = tensor("values", {channels});
  const TensorId gate = tensor("gate", {channels});
  std::vector<Weight> weights = {matrix("state.values", {channels, hidden_width}),
                                 matrix("state.gate", {channels, hidden_width})};
  if (mixer.proj_bias) weights.push_back(matrix("state.in_bias", {{2}, channels}));
  matmul("state in", Module::other, x, {values, gate}, std::move(weights));
  const TensorId convolved = convolve(mixer, values, true);
  const TensorId selection = tensor("steps, keys, queries", {{mixer.rank + 2 * mixer.state}});
  matmul("selection", Module::other, convolved, {selection},
         {matrix("state.selection", {{mixer.rank + 2 * mixer.state}, channels})});
  TensorId chosen = selection;
  if (mixer.inner_norm) {
    chosen = inner_norm("selection norm", selection, NormKind::rms, "state.selection_norm",
                        {{mixer.rank + 2 * mixer.state}}, {{3}}, Module::other);
  }
  const TensorId steps = tensor("steps", {channels});
  matmul("step", Module::other, chosen, {steps},
         {matrix("state.step", {channels, {mixer.rank}}), matrix("state.step_bias", {channels})});
  // Of the row that it reads only the steps are multiplied.
  layer_.operators.back().taps = real(mixer.rank) / real(mixer.rank + 2 * mixer.state);
  const TensorId core = tensor("state result", {channels});
  Operator& op = scan("selective scan", {convolved, steps, chosen, gate}, core, 7 * real(mixer.state));
  op.weights = {matrix("state.decay_rate", {channels, {mixer.state}}), matrix("state.skip", {channels})};
  return state_out(mixer, core);
}

TensorId LayerBuilder::short_convolution(const StateMixer& mixer, TensorId x) {
  const Extent channels{mixer.inner(), Axis::ffn};
  const TensorId before = tensor("gate before", {channels});
  const TensorId after = tensor("gate after", {channels});
  const TensorId values = tensor("values", {channels});
  std::vector<Weight> weights = {matrix("state.in", {{3}, channels, {hidden()}})};
  if (mixer.proj_bias) weights.push_back(matrix("state.in_bias", {{3}, channels}));
  matmul("state in", Module::other, x, {before, after, values}, std::move(weights));
  const TensorId gated = tensor("gated values", {channels});
  add_operator(OperatorKind::elementwise, "gate", Module::other, {before, values}, {gated}, {before, values});
  const TensorId convolved = convolve(mixer, gated, true);
  const TensorId out = tensor("gated", {channels});
  add_operator(OperatorKind::elementwise, "gate", Module::other, {after, convolved}, {out}, {after, convolved});
  return state_out(mixer, out);
}

TensorId LayerBuilder::gated_lru(const StateMixer& mixer, TensorId x) {
  const Extent heads{mixer.heads, Axis::heads}, width{mixer.width};
  const TensorId values = tensor("values", {heads, width});
  const TensorId gate = tensor("gate", {heads, width});
  std::vector<Weight> weights = {matrix("state.in", {{2}, heads, width, {hidden()}})};
  if (mixer.proj_bias) weights.push_back(matrix("state.in_bias", {{2}, heads, width}));
  matmul("state in", Module::other, x, {values, gate}, std::move(weights));
  const TensorId convolved = convolve(mixer, values, true);
  std::vector<TensorId> read = {convolved};
  for (const char* name : {"input gate", "decay gate"}) {
    // Heads are products of their own: [rows, P] x [P, P] each.
    const TensorId out = tensor(name, {heads, width});
    matmul(name, Module::other, convolved, {out},
           {matrix("state.gates", {heads, width, width}), matrix("state.gates_bias", {heads, width})});
    layer_.operators.back().product = {1, heads, {}, {real(mixer.width), false}, {real(mixer.width), false}};
    read.push_back(out);
  }
  const TensorId core = tensor("state result", {heads, width});
  scan("recurrence", read, core, 8).weights = {matrix("state.decay_rate", {heads, width})};
  const TensorId gated = tensor("gated", {heads, width});
  add_operator(OperatorKind::elementwise, "gate", Module::other, {core, gate}, {gated}, {core, gate});
  return state_out(mixer, gated);
}

TensorId LayerBuilder::lightning(const StateMixer& mixer, TensorId x) {
  const Extent heads{mixer.heads, Axis::heads}, width{mixer.width};
  const TensorId q = tensor("q", {heads, width});
  const TensorId k = tensor("k", {heads, width});
  const TensorId v = tensor("v", {heads, width});
  const TensorId gate = tensor("gate", {heads, width});
  matmul("state in", Module::other, x, {q, k, v, gate}, {matrix("state.in", {{4}, heads, width, {hidden()}})});
  const TensorId core = tensor("state result", {heads, width});
  scan("linear attention", {q, k, v}, core, 4 * real(mixer.state));
  const TensorId normed =
      inner_norm("state norm", core, NormKind::rms, "state.norm", {heads, width}, {{1}}, Module::other);
  const TensorId gated = tensor("gated", {heads, width});
  add_operator(OperatorKind::elementwise, "gate", Module::other, {normed, gate}, {gated}, {normed, gate});
  return state_out(mixer, gated);
}

TensorId LayerBuilder::rwkv(const StateMixer& mixer, TensorId x) {
  const Extent channels{mixer.inner(), Axis::ffn};
  // Every projection reads its own mixture of this token and the one before.
  std::vector<TensorId> read;
  for (const char* name : {"key", "value", "receptance"}) {
    const TensorId mixed = stream(std::string(name) + " mixed");
    add_operator(OperatorKind::elementwise, std::string("mix ") + name, Module::other, {x}, {mixed}, {x})
        .weights.push_back(matrix("state.mix", {{hidden()}}));
    read.push_back(matmul(name, Module::other, mixed, {tensor(name, {channels})},
                          {matrix(std::string("state.") + name, {channels, {hidden()}})}));
  }
  const TensorId core = tensor("state result", {channels});
  scan("decayed sum", {read[0], read[1]}, core, 10).weights = {matrix("state.decay_rate", {channels}),
                                                               matrix("state.first", {channels})};
  const TensorId gated = tensor("gated", {channels});
  add_operator(OperatorKind::elementwise, "gate", Module::other, {core, read[2]}, {gated}, {core, read[2]});
  return state_out(mixer, gated);
}

TensorId LayerBuilder::state_mixer(const StateMixer& mixer, TensorId x) {
  switch (mixer.kind) {
    case StateKind::gated_delta: return gated_delta(mixer, x);
    case StateKind::mamba: return mamba(mixer, x);
    case StateKind::mamba2: return mamba2(mixer, x);
    case StateKind::short_conv: return short_convolution(mixer, x);
    case StateKind::rg_lru: return gated_lru(mixer, x);
    case StateKind::lightning: return lightning(mixer, x);
    case StateKind::rwkv: break;
  }
  return rwkv(mixer, x);
}

}  // namespace nest::model
