// Writes the operators of one layer. Internal to the graph builder.
#pragma once

#include <string>
#include <vector>

#include "model/build.h"
#include "model/graph.h"
#include "model/huggingface_habits.h"

namespace nest::model {

// The stream that a layer works on.
struct Stream {
  std::int64_t hidden = 0;
  double rows = 0;   // of one picture or clip; 0: a row per token
  double media = 1;  // pictures or clips of a sequence
};

class LayerBuilder {
 public:
  LayerBuilder(const Architecture& architecture, const Implementation& implementation, LayerKind kind, std::string name,
               bool encoder);
  LayerBuilder(const Architecture& architecture, const Implementation& implementation, LayerKind kind, std::string name,
               bool encoder, const Stream& stream);

  Layer take() { return std::move(layer_); }
  Layer& layer() { return layer_; }

  TensorId tensor(std::string name, std::vector<Extent> width, Rows rows = Rows::tokens, int element_bytes = 0);
  TensorId stream(std::string name) { return tensor(std::move(name), {{hidden()}}); }
  std::int64_t hidden() const { return stream_.hidden; }

  Operator& add_operator(OperatorKind kind, std::string name, Module module, std::vector<TensorId> inputs,
                         std::vector<TensorId> outputs, std::vector<TensorId> saves);

  // The sub-layers. Each takes and returns tensors; `x` is kept by whoever needs it in backward.
  TensorId norm(const std::string& name, TensorId x, NormKind kind, bool weight, bool bias,
                const std::string& weight_name = "norm.weight", Module module = Module::norm);
  // Transformer Engine runs a norm and the matmul after it as one module; others keep norms apart.
  Module norm_before_matmul() const { return megatron() ? Module::other : Module::norm; }
  TensorId attention(const Attention& attention, TensorId x);
  TensorId cross_attention(const Attention& attention, TensorId x, TensorId memory);
  TensorId state_mixer(const StateMixer& mixer, TensorId x);
  TensorId feed_forward(const FeedForward& part, TensorId x, const std::string& prefix, Axis axis, Rows rows);
  TensorId mixture(const Mixture& mixture, TensorId x);
  TensorId residual(const std::string& name, std::vector<TensorId> terms);
  TensorId gate_residual(const std::string& name, TensorId x);                     // x times a learned number
  TensorId scale(const std::string& name, TensorId x, const std::string& weight);  // by a learned vector
  TensorId dropout(TensorId x);                                                    // x itself where the run has none

  // Parts that few families have (layer_parts.cc).
  TensorId shared_block(const SharedBlock& shared, TensorId x);  // what is added to the stream
  TensorId gated_convolution(std::int64_t taps, TensorId x);     // of conformers, without its residual
  TensorId laurel(std::int64_t rank, TensorId x);                // x and what its low-rank branch adds
  TensorId layer_input(const Block& block, TensorId x);          // what the layer's own embeddings add, gated by x
  struct Streams {
    TensorId active = -1;  // what the block works on
    TensorId others = -1;
  };
  Streams predict_streams(TensorId streams);
  Streams correct_streams(const Streams& predicted, TensorId activated);
  TensorId join_streams(const Streams& corrected, TensorId added);  // which is added to all but the active one

  TensorId matmul(const std::string& name, Module module, TensorId x, std::vector<TensorId> outputs,
                  std::vector<Weight> weights);

  const Architecture& architecture() const { return architecture_; }
  const Implementation& implementation() const { return implementation_; }
  bool huggingface() const { return implementation_.stack == Stack::huggingface; }
  bool megatron() const { return implementation_.stack == Stack::megatron; }

 private:
  struct Projected {
    TensorId q = -1;
    TensorId k = -1;
    TensorId v = -1;
  };

  Projected project(const Attention& attention, TensorId x, TensorId keys_from, const std::string& prefix);
  Projected project_latent(const Attention& attention, TensorId x);
  // Reads the latent of queries; attention waits for what it chooses. Every tensor-parallel rank runs all of it.
  void choose_keys(const Attention& attention, TensorId x, TensorId query_latent);
  TensorId gate_heads(const Attention& attention, TensorId x, TensorId heads_out);
  // A norm over rows that the split divides, or over parts of them.
  TensorId inner_norm(const std::string& name, TensorId x, NormKind kind, const std::string& weight,
                      std::vector<Extent> shape, const std::vector<Extent>& statistics, Module module);
  TensorId like(TensorId x, std::string name) { return beside(tensor(std::move(name), width_of(x)), x); }
  TensorId beside(TensorId y, TensorId x);  // y with as many rows as x
  std::vector<Extent> width_of(TensorId x) const;
  std::int64_t width_in(TensorId x) const;  // elements of a row
  Rows rows_of(TensorId x) const;
  // The results of products with x, each with what two further products of rank `rank` add.
  std::vector<TensorId> adapt(const std::string& name, TensorId x, std::int64_t rank,
                              const std::vector<TensorId>& results);
  TensorId stream_coefficients(const std::string& name, TensorId x, std::int64_t out, bool first);
  TensorId convolve(const StateMixer& mixer, TensorId x, bool kept);
  Operator& scan(const std::string& name, std::vector<TensorId> inputs, TensorId out, double flops);
  TensorId gated_delta(const StateMixer& mixer, TensorId x);
  TensorId mamba(const StateMixer& mixer, TensorId x);
  TensorId mamba2(const StateMixer& mixer, TensorId x);
  TensorId short_convolution(const StateMixer& mixer, TensorId x);
  TensorId gated_lru(const StateMixer& mixer, TensorId x);
  TensorId lightning(const StateMixer& mixer, TensorId x);
  TensorId rwkv(const StateMixer& mixer, TensorId x);
  TensorId state_out(const StateMixer& mixer, TensorId x);
  // Megatron gathers latents: every tensor-parallel rank keeps those of all tokens.
  void keep_whole(const std::vector<TensorId>& tensors);
  void normalise_heads(const Attention& attention, Projected& heads);
  void rotate(const Attention& attention, Projected& heads);
  void keep_projection(const Attention& attention, const Projected& projected, const Projected& qkv,
                       std::vector<TensorId>& saves);
  TensorId attend(const Attention& attention, const Projected& projected, Projected heads, bool cross);
  TensorId project_out(const Attention& attention, TensorId heads, const std::string& prefix);
  TensorId activate(const FeedForward& part, TensorId gate, TensorId up, Axis axis, Rows rows, Module module);
  TensorId activate_plain(const FeedForward& part, TensorId up, const Extent& width, Rows rows, Module module);
  TensorId route(const Mixture& mixture, TensorId x);
  // What a norm's backward needs: its input and statistics, or what transformers' eager RMSNorm keeps instead.
  std::vector<TensorId> kept_by_norm(const std::string& name, TensorId x, const std::vector<Extent>& width,
                                     NormKind kind, const std::vector<Extent>& statistics);
  bool needs_explicit_mask(const Attention& attention) const;
  bool eager_attention(const Attention& attention) const;

  const Architecture& architecture_;
  const Implementation& implementation_;
  Stream stream_;
  HuggingFaceHabits habits_;
  Layer layer_;
  TensorId chosen_keys_ = -1;  // what an indexer hands to the attention that follows
};

// Elements of a weight as a matrix [rows, columns].
Weight matrix(std::string name, std::vector<Extent> shape);

}  // namespace nest::model
