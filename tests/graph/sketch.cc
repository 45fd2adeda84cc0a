#include "sketch.h"

namespace nest::graph {
namespace {

std::string block(int layer, const std::string& part) { return "model.layers." + std::to_string(layer) + "." + part; }

class Llama {
 public:
  explicit Llama(const Sizes& sizes) : z(sizes), s("llama-like", 2, sizes.sequence) {}

  RawGraph run() {
    const int ids = s.input({kB, kS}, DataType::int64);
    const int labels = s.input({kB, kS}, DataType::int64);
    cos = s.tensor({kS, fixed(static_cast<double>(dim()))});
    sin = s.tensor({kS, fixed(static_cast<double>(dim()))});
    int x = s.add(RawOp::embedding, "model.embed_tokens", {ids}, stream(),
                  {s.weight("model.embed_tokens.weight", {z.vocabulary, z.hidden})});
    for (int l = 0; l < z.layers; ++l) x = layer(l, x);
    const int normed = norm("model.norm", x);
    const int logits = s.linear("lm_head", normed, z.vocabulary, z.hidden);
    const int kept = s.tensor(s.graph.tensors[static_cast<std::size_t>(logits)].shape, DataType::float32);
    s.graph.outputs = {s.add(RawOp::loss, "loss", {logits, labels}, {}, {}, {kept}, DataType::float32)};
    return s.graph;
  }

 private:
  std::int64_t dim() const { return z.hidden / z.heads; }
  std::vector<Dimension> stream() const { return {kB, kS, fixed(static_cast<double>(z.hidden))}; }

  int norm(const std::string& module, int x) {
    const int wide = s.add(RawOp::copy, module, {x}, stream(), {}, {}, DataType::float32);
    const int square = s.add(RawOp::elementwise, module, {wide}, stream(), {}, {wide}, DataType::float32);
    const int mean = s.add(RawOp::reduce, module, {square}, {kB, kS, fixed(1)}, {}, {}, DataType::float32);
    const int root = s.add(RawOp::elementwise, module, {mean}, {kB, kS, fixed(1)}, {}, {}, DataType::float32);
    s.keeps_result();
    const int scaled = s.add(RawOp::elementwise, module, {wide, root}, stream(), {}, {wide, root}, DataType::float32);
    const int narrow = s.add(RawOp::copy, module, {scaled}, stream());
    return s.add(RawOp::elementwise, module, {narrow}, stream(), {s.weight(module + ".weight", {z.hidden})}, {narrow});
  }

  int rotate(const std::string& module, int x, std::int64_t heads) {
    const auto h = static_cast<double>(heads), d = static_cast<double>(dim());
    const std::vector<Dimension> shape = {kB, fixed(h), kS, fixed(d)};
    const int four = s.view(s.view(x, {kB, kS, fixed(h), fixed(d)}), shape);
    const int a = s.add(RawOp::elementwise, module, {four, cos}, shape, {}, {cos});
    const int low = s.view(four, {kB, fixed(h), kS, fixed(d / 2)});
    const int high = s.view(four, {kB, fixed(h), kS, fixed(d / 2)});
    const int negative = s.add(RawOp::elementwise, module, {high}, {kB, fixed(h), kS, fixed(d / 2)});
    const int joined = s.add(RawOp::copy, module, {negative, low}, shape);
    const int b = s.add(RawOp::elementwise, module, {joined, sin}, shape, {}, {sin});
    return s.add(RawOp::add, module, {a, b}, shape);
  }

  int layer(int l, int x) {
    const std::string self = block(l, "self_attn"), mlp = block(l, "mlp");
    const auto h = static_cast<double>(z.heads), kv = static_cast<double>(z.kv_heads), d = static_cast<double>(dim());
    int y = norm(block(l, "input_layernorm"), x);
    int q = s.linear(self + ".q_proj", y, z.heads * dim(), z.hidden);
    int k = s.linear(self + ".k_proj", y, z.kv_heads * dim(), z.hidden);
    int v = s.linear(self + ".v_proj", y, z.kv_heads * dim(), z.hidden);
    q = rotate(self, q, z.heads);
    k = rotate(self, k, z.kv_heads);
    v = s.view(s.view(v, {kB, kS, fixed(kv), fixed(d)}), {kB, fixed(kv), kS, fixed(d)});
    const int sums = s.tensor({kB, fixed(h), kS}, DataType::float32);
    int o = s.add(RawOp::attention, self, {q, k, v}, {kB, fixed(h), kS, fixed(d)}, {}, {q, k, v, sums});
    s.keeps_result();
    s.last().attributes.causal = true;
    o = s.view(s.view(o, {kB, kS, fixed(h), fixed(d)}), stream());
    o = s.linear(self + ".o_proj", o, z.hidden, z.hidden);
    x = s.add(RawOp::add, "model.layers." + std::to_string(l), {x, o}, stream());
    y = norm(block(l, "post_attention_layernorm"), x);
    const int gate = s.linear(mlp + ".gate_proj", y, z.ffn, z.hidden);
    const auto wide = s.graph.tensors[static_cast<std::size_t>(gate)].shape;
    const int active = s.add(RawOp::elementwise, mlp, {gate}, wide, {}, {gate});
    const int up = s.linear(mlp + ".up_proj", y, z.ffn, z.hidden);
    const int product = s.add(RawOp::elementwise, mlp, {active, up}, wide, {}, {active, up});
    const int down = s.linear(mlp + ".down_proj", product, z.hidden, z.ffn);
    return s.add(RawOp::add, "model.layers." + std::to_string(l), {x, down}, stream());
  }

  Sizes z;
  Sketch s;
  int cos = -1, sin = -1;
};

}  // namespace

RawGraph sketch_llama(const Sizes& sizes) { return Llama(sizes).run(); }

RawGraph sketch_gpt2(const Sizes& z) {
  Sketch s("gpt2-like", 2, z.sequence);
  const auto hidden = static_cast<double>(z.hidden), h = static_cast<double>(z.heads), d = hidden / h;
  const std::vector<Dimension> stream = {kB, kS, fixed(hidden)};
  const int ids = s.input({kB, kS}, DataType::int64);
  const int positions = s.tensor({fixed(1), kS}, DataType::int64);  // a constant
  const int table = s.weight("wte.weight", {z.vocabulary, z.hidden});
  const int tokens = s.add(RawOp::embedding, "wte", {ids}, stream, {table});
  const int places = s.add(RawOp::embedding, "wpe", {positions}, {fixed(1), kS, fixed(hidden)},
                           {s.weight("wpe.weight", {z.sequence, z.hidden})});
  int x = s.add(RawOp::add, "", {tokens, places}, stream);
  const auto norm = [&](const std::string& module, int in) {
    const int statistics = s.tensor({kB, kS, fixed(2)}, DataType::float32);
    const int out =
        s.add(RawOp::norm, module, {in}, stream,
              {s.weight(module + ".weight", {z.hidden}), s.weight(module + ".bias", {z.hidden})}, {in, statistics});
    s.last().attributes.kind = "layer";
    return out;
  };
  for (int l = 0; l < z.layers; ++l) {
    const std::string here = "h." + std::to_string(l);
    const int y = norm(here + ".ln_1", x);
    const int qkv = s.linear(here + ".attn.c_attn", y, 3 * z.hidden, z.hidden, true);
    std::vector<int> parts;
    for (int i = 0; i < 3; ++i) {
      parts.push_back(s.view(s.view(qkv, stream), {kB, fixed(h), kS, fixed(d)}));
    }
    const int sums = s.tensor({kB, fixed(h), kS}, DataType::float32);
    int o = s.add(RawOp::attention, here + ".attn", parts, {kB, fixed(h), kS, fixed(d)}, {},
                  {parts[0], parts[1], parts[2], sums});
    s.keeps_result();
    s.last().attributes.causal = true;
    o = s.linear(here + ".attn.c_proj", s.view(o, stream), z.hidden, z.hidden, true);
    x = s.add(RawOp::add, here, {x, o}, stream);
    const int up = s.linear(here + ".mlp.c_fc", norm(here + ".ln_2", x), z.ffn, z.hidden, true);
    const int active =
        s.add(RawOp::elementwise, here + ".mlp", {up}, s.graph.tensors[static_cast<std::size_t>(up)].shape, {}, {up});
    const int down = s.linear(here + ".mlp.c_proj", active, z.hidden, z.ffn, true);
    x = s.add(RawOp::add, here, {x, down}, stream);
  }
  const int last = norm("ln_f", x);
  const int logits =
      s.add(RawOp::linear, "lm_head", {last}, {kB, kS, fixed(static_cast<double>(z.vocabulary))}, {table}, {last});
  const int kept = s.tensor(s.graph.tensors[static_cast<std::size_t>(logits)].shape, DataType::float32);
  s.graph.outputs = {s.add(RawOp::loss, "", {logits}, {}, {}, {kept}, DataType::float32)};
  return s.graph;
}

RawGraph sketch_unet() {
  Sketch s("unet-like", 2, 1);
  const auto image = [](double channels, double side) {
    return std::vector<Dimension>{kB, fixed(channels), fixed(side), fixed(side)};
  };
  const auto conv = [&](const std::string& module, int x, std::int64_t in, std::int64_t out, double side) {
    const int y = s.add(RawOp::conv, module, {x}, image(static_cast<double>(out), side),
                        {s.weight(module + ".weight", {out, in, 3, 3})}, {x});
    s.last().attributes.kernel = {3, 3};
    const int z = s.add(RawOp::elementwise, module, {y}, image(static_cast<double>(out), side));
    s.keeps_result();
    return z;
  };
  const auto twice = [&](const std::string& module, int x, std::int64_t in, std::int64_t out, double side) {
    return conv(module + ".b", conv(module + ".a", x, in, out, side), out, out, side);
  };
  int x = s.input(image(3, 64));
  const int first = x = twice("down.0", x, 3, 32, 64);
  x = s.add(RawOp::pool, "down.1", {x}, image(32, 32));
  const int second = x = twice("down.1", x, 32, 64, 32);
  x = s.add(RawOp::pool, "mid.0", {x}, image(64, 16));
  x = twice("mid.0", x, 64, 128, 16);
  x = s.add(RawOp::resize, "up.0", {x}, image(128, 32));
  x = s.add(RawOp::copy, "up.0", {x, second}, image(192, 32));
  x = twice("up.0", x, 192, 64, 32);
  x = s.add(RawOp::resize, "up.1", {x}, image(64, 64));
  x = s.add(RawOp::copy, "up.1", {x, first}, image(96, 64));
  x = twice("up.1", x, 96, 32, 64);
  s.graph.outputs = {x};
  return s.graph;
}

}  // namespace nest::graph
