#include "model/build.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "model/build_ends.h"
#include "model/layer_builder.h"
#include "model/layer_steps.h"

namespace nest::model {
namespace {

bool is_encoder(const Architecture& arch, int tower) {
  return tower + 1 < static_cast<int>(arch.towers.size()) && !arch.towers[static_cast<std::size_t>(tower)].media;
}

// Attention, a state, or the sum of both.
TensorId first_half(LayerBuilder& b, const Block& block, TensorId x) {
  if (!block.state) return b.attention(block.attention, x);
  const TensorId state = b.state_mixer(*block.state, x);
  if (!block.attends()) return state;
  return b.residual("mixers", {b.attention(block.attention, x), state});
}

// Feed-forward and mixture each between norms of its own; `before` is what the experts' norm and the router read.
TensorId normed_branches(LayerBuilder& b, const Block& block, TensorId x, TensorId before) {
  const auto norm = [&](const char* name, TensorId in) { return b.norm(name, in, block.norm, true, false); };
  const TensorId fed = norm("ffn branch norm", b.feed_forward(*block.feed_forward, x, "ffn", Axis::ffn, Rows::tokens));
  const TensorId mixed = b.mixture(*block.mixture, norm("moe norm", before));
  return b.residual("dense + mixture", {fed, norm("moe branch norm", mixed)});
}

// Feed-forward or mixture, whichever the block has, or the sum of both.
TensorId second_half(LayerBuilder& b, const Block& block, TensorId x) {
  const auto feed = [&] { return b.feed_forward(*block.feed_forward, x, "ffn", Axis::ffn, Rows::tokens); };
  if (!block.mixture) return feed();
  const TensorId mixed = b.mixture(*block.mixture, x);
  return block.feed_forward ? b.residual("dense + mixture", {mixed, feed()}) : mixed;
}

std::string block_name(const Tower& tower, const Block& block, bool several_towers) {
  std::string name;
  if (several_towers) name = tower.name + " ";
  const bool mixed = std::any_of(tower.kinds.begin(), tower.kinds.end(), [&](const Block& other) {
    return other.mixture.has_value() != block.mixture.has_value();
  });
  if (mixed) name += block.mixture ? "moe " : block.feeds() ? "dense " : "";
  const bool states = std::any_of(tower.kinds.begin(), tower.kinds.end(), [&](const Block& other) {
    return other.state != block.state || other.attends() != block.attends();
  });
  if (states && block.state) name += std::string(to_string(block.state->kind)) + " ";
  if (states && block.attends()) name += "attention ";
  if (states && !block.mixes() && block.cross_attention) name += "cross attention ";
  const auto differs = [&](auto&& what) {
    return std::any_of(tower.kinds.begin(), tower.kinds.end(),
                       [&](const Block& other) { return what(other) != what(block); });
  };
  const auto number = [](const Block& each) { return each.shared ? each.shared->number : 0; };
  if (block.shared) name += differs(number) ? "hybrid " + std::to_string(block.shared->number + 1) + " " : "hybrid ";
  const auto borrows = [](const Block& each) { return each.attention.borrows_keys; };
  if (differs(borrows) && borrows(block)) name += "borrowing ";
  const auto takes = [](const Block& each) { return each.attention.indexer && each.attention.indexer->shared; };
  if (differs(takes) && takes(block)) name += "choice-sharing ";
  const bool gates = std::any_of(tower.kinds.begin(), tower.kinds.end(), [&](const Block& other) {
    return other.residual_gates != block.residual_gates && other.cross_attention == block.cross_attention;
  });
  if (gates && block.residual_gates) name += "gated ";
  const bool windows = std::any_of(tower.kinds.begin(), tower.kinds.end(), [&](const Block& other) {
    return other.attention.window != block.attention.window;
  });
  if (windows) name += block.attention.window > 0 ? "sliding " : "full ";
  return name + "block";
}

// What a cross attention reads: the output of the tower before, rows of pictures or sound where it reads those.
TensorId memory_of(LayerBuilder& b) {
  const auto& towers = b.architecture().towers;
  const Tower& source = towers[towers.size() - 2];
  if (!source.media) return b.tensor("encoder output", {{b.architecture().hidden}}, Rows::memory);
  const bool projected = !source.media->projector.empty();
  const std::int64_t own = source.hidden > 0 ? source.hidden : b.architecture().hidden;
  const std::int64_t width = projected ? source.media->projector.back().out : own;
  const TensorId memory = b.tensor("encoder output", {{width}}, Rows::samples);
  b.layer().tensors[static_cast<std::size_t>(memory)].rows_per_unit =
      source.media->each * (projected ? source.media->projector.back().rows : source.media->rows);
  return memory;
}

// The operators of a block that reads x; returns what it hands on.
TensorId add_block(LayerBuilder& b, const Block& block, TensorId x) {
  const auto norm = [&](const char* name, TensorId in, Module module = Module::norm) {
    return b.norm(name, in, block.norm, block.norm_weight, block.norm_bias, "norm.weight", module);
  };
  // What reads a norm decides whether it is a module of its own: latent projections and routers take it ready-made.
  const Module before_attention = block.attention.latent || block.state ? Module::norm : b.norm_before_matmul();
  const Module before_ffn = block.mixture ? Module::norm : b.norm_before_matmul();

  if (block.wiring == Wiring::parallel_one || block.wiring == Wiring::parallel_two) {
    const TensorId normed = norm("norm 1", x, before_attention);
    const TensorId second = block.wiring == Wiring::parallel_two ? norm("norm 2", x, before_ffn) : normed;
    const TensorId attended = b.dropout(first_half(b, block, normed));
    const TensorId fed = b.dropout(second_half(b, block, second));
    return b.residual("residual", {x, attended, fed});
  }

  const bool pre = block.wiring == Wiring::pre_norm || block.wiring == Wiring::sandwich;
  const bool post = block.wiring == Wiring::output_norm || block.wiring == Wiring::sandwich;
  TensorId branch = -1;  // a further term of the sum, which a part may leave
  // The part reads `read` where that is not what its result is added to.
  const auto around = [&](const std::string& name, Module before, TensorId in, auto&& part, TensorId read = -1) {
    const bool normed = pre && (block.first_norm || name != "attention");
    if (read < 0) read = in;
    TensorId y = part(normed ? norm((name + " norm").c_str(), read, before) : read);
    if (post) y = norm((name + " output norm").c_str(), y);
    if (block.residual_gates) y = b.gate_residual(name + " gate", y);
    std::vector<TensorId> terms = {in, b.dropout(y)};
    if (branch >= 0) terms.push_back(branch);
    branch = -1;
    TensorId sum = b.residual(name + " residual", terms);
    if (block.wiring == Wiring::post_norm) sum = norm((name + " norm").c_str(), sum);
    return sum;
  };
  if (block.conformer_taps > 0) {
    x = around("first ffn", before_ffn, x, [&](TensorId in) {
      return b.feed_forward(*block.feed_forward, in, "first_ffn", Axis::ffn, Rows::tokens);
    });
  }
  TensorId read = x;
  if (block.shared) read = b.residual("shared residual", {x, b.shared_block(*block.shared, x)});
  if (block.mixes()) {
    const auto mix = [&](TensorId in) {
      if (block.laurel_rank > 0) branch = b.laurel(block.laurel_rank, in);
      return first_half(b, block, in);
    };
    x = around(block.attends() ? "attention" : "mixer", before_attention, x, mix, read);
  }
  if (block.conformer_taps > 0) {
    const TensorId normed = norm("convolution norm before", x);
    x = b.residual("convolution residual", {x, b.gated_convolution(block.conformer_taps, normed)});
  }
  if (block.cross_attention) {
    b.layer().memory = memory_of(b);
    x = around("cross attention", b.norm_before_matmul(), x,
               [&](TensorId in) { return b.cross_attention(*block.cross_attention, in, b.layer().memory); });
  }
  if (block.feeds()) {
    const TensorId before = x;
    x = around("ffn", before_ffn, x, [&](TensorId in) {
      return block.branch_norms ? normed_branches(b, block, in, before) : second_half(b, block, in);
    });
  }
  if (block.adapter) {
    x = b.residual("adapter residual", {x, b.feed_forward(*block.adapter, x, "adapter", Axis::ffn, Rows::tokens)});
  }
  if (block.conformer_taps > 0) x = norm("output norm", x);
  return x;
}

// The block, and what its layer's own embeddings add at its end.
TensorId add_whole_block(LayerBuilder& b, const Block& block, TensorId in) {
  if (b.architecture().streams == 1) {
    const TensorId x = add_block(b, block, in);
    if (block.layer_input == 0) return x;
    return b.residual("layer input residual", {x, b.layer_input(block, x)});
  }
  const LayerBuilder::Streams predicted = b.predict_streams(in);
  const LayerBuilder::Streams corrected = b.correct_streams(predicted, add_block(b, block, predicted.active));
  const TensorId scaled = b.scale("scale corrected", corrected.active, "streams.scale");
  return b.join_streams(corrected, b.layer_input(block, scaled));
}

Layer build_block(const Architecture& arch, const Implementation& implementation, int tower_index, const Block& block) {
  const Tower& tower = arch.towers[static_cast<std::size_t>(tower_index)];
  LayerBuilder b(arch, implementation, LayerKind::block, block_name(tower, block, arch.towers.size() > 1),
                 is_encoder(arch, tower_index), stream_of(arch, tower));
  const bool several = arch.streams > 1 && !tower.media;
  b.layer().input = several ? b.tensor("input", {{arch.streams}, {arch.hidden}}) : b.stream("input");
  b.layer().output = tower.media ? add_block(b, block, b.layer().input) : add_whole_block(b, block, b.layer().input);
  std::vector<Weight>& last = b.layer().operators.back().weights;
  if (block.scales > 0) last.push_back(matrix("norm.scales", {{block.scales}}));
  if (block.unused > 0) last.push_back(matrix("spare.block", {{block.unused}}));
  if (block.same_weights > 0) {
    for (Operator& op : b.layer().operators) {
      for (Weight& weight : op.weights) {
        weight.tied_to = "blocks " + std::to_string(block.same_weights) + ", " + op.name + ", " + weight.name;
      }
    }
  }
  return b.take();
}

// Multi-token prediction as Megatron runs it: every depth norms the stream and the embeddings of the tokens that follow,
// projects both together back to the hidden size, runs a block like the last one, and a final norm. Depths are one
// layer, because they stay on one stage. The table is a copy of the embedding's; the projections to logits are the
// head's, which runs once more per depth (build_head).
//     parameters  depths · (block + 2h·h + 3h), the table apart
//     FLOPs       depths · (block + 4h²) a token forward, and depths · 2hV of the head
// Limit: the projection of 2h to h is whole on every tensor-parallel rank, where Megatron divides its columns.
Layer build_mtp(const Architecture& arch, const Implementation& implementation) {
  const Tower& tower = arch.towers.back();
  Block block = tower.kinds[static_cast<std::size_t>(tower.blocks.back())];
  if (block.attention.indexer) block.attention.indexer->shared = false;  // it chooses for itself
  const Extent hidden{arch.hidden};
  LayerBuilder b(arch, implementation, LayerKind::block, "mtp", false);
  b.layer().mtp = true;
  TensorId x = b.stream("input");
  b.layer().input = x;
  std::vector<TensorId> tokens, outputs;
  for (std::int64_t depth = 0; depth < implementation.mtp_layers; ++depth) tokens.push_back(b.stream("further tokens"));
  b.add_operator(OperatorKind::embedding, "further tokens", Module::other, {}, tokens, {})
      .weights.push_back({"embedding.tokens", {{arch.vocabulary, Axis::vocabulary}, hidden}, kTokenTable});
  for (const TensorId token : tokens) {
    const auto norm = [&](const char* name, TensorId in) {
      return b.norm(name, in, tower.final_norm_kind, tower.final_norm_weight, tower.final_norm_bias, "mtp.norm");
    };
    const TensorId token_out = norm("token norm", token);
    const TensorId stream_out = norm("stream norm", x);
    const TensorId both = b.tensor("tokens and stream", {{2 * arch.hidden}});
    b.add_operator(OperatorKind::copy, "concatenate", Module::other, {token_out, stream_out}, {both}, {});
    const TensorId projected = b.matmul("eh projection", Module::other, both, {b.stream("projected")},
                                        {matrix("mtp.projection", {hidden, {2 * arch.hidden}})});
    x = norm("final norm", add_block(b, block, projected));
    outputs.push_back(x);
  }
  if (outputs.size() > 1) {
    x = b.tensor("predictions", {{implementation.mtp_layers * arch.hidden}});
    b.add_operator(OperatorKind::copy, "gather predictions", Module::other, outputs, {x}, {});
  }
  b.layer().output = x;
  return b.take();
}

Layer build_tower_norm(const Architecture& arch, const Implementation& implementation, int tower_index) {
  const Tower& tower = arch.towers[static_cast<std::size_t>(tower_index)];
  LayerBuilder b(arch, implementation, LayerKind::norm, tower.name + " norm", true);
  b.layer().input = b.stream("input");
  b.layer().output = b.norm("final norm", b.layer().input, tower.final_norm_kind, tower.final_norm_weight,
                            tower.final_norm_bias, "final.norm");
  return b.take();
}

// Appends layers to a model, keeping one copy of equal ones.
class Assembly {
 public:
  explicit Assembly(Model& model) : model_(model) {}

  int add_kind(Layer layer) {
    const auto same = std::find(model_.kinds.begin(), model_.kinds.end(), layer);
    if (same != model_.kinds.end()) return static_cast<int>(same - model_.kinds.begin());
    model_.kinds.push_back(std::move(layer));
    return static_cast<int>(model_.kinds.size()) - 1;
  }

  // Returns the layer's position. It reads the layer at `before` unless that is -1.
  int append(int kind, int before) {
    model_.layers.push_back(kind);
    edge_from_.push_back(-1);
    const int position = static_cast<int>(model_.layers.size()) - 1;
    if (before >= 0) connect(before, position);
    return position;
  }

  void connect(int from, int to) {
    int& edge = edge_from_[static_cast<std::size_t>(from)];
    if (edge < 0) {
      const Layer& producer = model_.kinds[static_cast<std::size_t>(model_.layers[static_cast<std::size_t>(from)])];
      const Tensor& tensor = producer.tensors[static_cast<std::size_t>(producer.output)];
      edge = static_cast<int>(model_.edges.size());
      model_.edges.push_back({from, {}, row_elements(tensor), tensor.element_bytes});
      if (tensor.rows == Rows::samples) {
        model_.edges.back().rows = tensor.rows;
        model_.edges.back().rows_per_unit = tensor.rows_per_unit;
      }
    }
    model_.edges[static_cast<std::size_t>(edge)].to.push_back(to);
  }

  // A further tensor of layer `from`, known by `what`, that layer `to` reads.
  void carry(int from, int to, const std::string& what, std::int64_t width, int element_bytes) {
    const auto [place, fresh] = carried_.try_emplace({from, what}, model_.edges.size());
    if (fresh) model_.edges.push_back({from, {}, width, element_bytes});
    model_.edges[place->second].to.push_back(to);
  }

 private:
  Model& model_;
  std::vector<int> edge_from_;  // per layer: its edge, or -1
  std::map<std::pair<int, std::string>, std::size_t> carried_;
};

// What a block reads of layers further back than the one before it: the embeddings, its layer's own, keys and values,
// chosen keys. `first` is the position of the tower's first block, `index` counts from it.
void connect_further(Assembly& assembly, const Tower& tower, const Implementation& implementation, int first,
                     int index) {
  const auto block_at = [&](int i) -> const Block& { return tower.kinds[at(tower.blocks[at(i)])]; };
  const Block& block = block_at(index);
  const int to = first + index, embedding = first - 1;
  // The last block before for which `makes` says so; files are checked to have one.
  const auto source = [&](auto&& makes) {
    int i = index - 1;
    while (i >= 0 && !makes(block_at(i))) --i;
    NEST_CHECK(i >= 0, "a block reads what no block before it made");
    return first + i;
  };
  if (block.shared && index > 0) assembly.connect(embedding, to);
  if (block.layer_input > 0) {
    assembly.carry(embedding, to, "layer input " + std::to_string(index), block.layer_input,
                   implementation.activation_bytes);
  }
  const Attention& attention = block.attention;
  if (attention.borrows_keys) {
    const int from = source([&](const Block& other) { return lends_keys(other.attention, attention); });
    assembly.carry(from, to, "keys and values", attention.kv_heads * (attention.head_dim + attention.value_width()),
                   implementation.activation_bytes);
  }
  if (attention.indexer && attention.indexer->shared) {
    const int from =
        source([](const Block& other) { return other.attention.indexer && !other.attention.indexer->shared; });
    assembly.carry(from, to, "chosen keys", attention.indexer->top_k, 4);
  }
}

// A tower that reads pictures or sound: what turns them into rows, blocks, what its readers take. Returns the position
// of the last layer.
int append_media(Assembly& assembly, const Architecture& arch, const Implementation& implementation, int tower_index,
                 int before) {
  const Tower& tower = arch.towers[static_cast<std::size_t>(tower_index)];
  const Media& media = *tower.media;
  int at = assembly.append(assembly.add_kind(build_stem(arch, implementation, tower)), media.follows ? before : -1);
  std::vector<int> kinds;
  for (const Block& block : tower.kinds) {
    kinds.push_back(assembly.add_kind(build_block(arch, implementation, tower_index, block)));
  }
  for (const int kind : tower.blocks) at = assembly.append(kinds[static_cast<std::size_t>(kind)], at);
  if (media.projector.empty() && !tower.final_norm) return at;
  return assembly.append(assembly.add_kind(build_projector(arch, implementation, tower)), at);
}

}  // namespace

Model build_model(const Architecture& architecture, const Implementation& implementation) {
  NEST_CHECK(!architecture.towers.empty(), "an architecture has at least one tower");
  Model model;
  model.architecture = architecture;
  model.notes = architecture.notes;
  Assembly assembly(model);
  int memory = -1;
  std::vector<int> prefixes;
  for (int t = 0; t < static_cast<int>(architecture.towers.size()); ++t) {
    const Tower& tower = architecture.towers[static_cast<std::size_t>(t)];
    const bool last = t + 1 == static_cast<int>(architecture.towers.size());
    if (tower.media) {
      memory = append_media(assembly, architecture, implementation, t, memory);
      if (tower.media->prefix) prefixes.push_back(memory);
      continue;
    }
    int at = assembly.append(
        assembly.add_kind(build_embedding(architecture, implementation, is_encoder(architecture, t), last)), -1);
    if (last) {
      for (const int prefix : prefixes) assembly.connect(prefix, at);
    }
    std::vector<int> kinds;
    for (const Block& block : tower.kinds) {
      kinds.push_back(assembly.add_kind(build_block(architecture, implementation, t, block)));
    }
    const int first = at + 1;
    for (const int kind : tower.blocks) {
      at = assembly.append(kinds[static_cast<std::size_t>(kind)], at);
      if (tower.kinds[static_cast<std::size_t>(kind)].cross_attention) assembly.connect(memory, at);
      connect_further(assembly, tower, implementation, first, at - first);
    }
    if (last) {
      const int blocks_end = at;
      if (implementation.mtp_layers > 0) {
        at = assembly.append(assembly.add_kind(build_mtp(architecture, implementation)), at);
      }
      const int head = assembly.append(assembly.add_kind(build_head(architecture, implementation, tower)), at);
      if (head != blocks_end + 1) assembly.connect(blocks_end, head);
    } else {
      if (tower.final_norm)
        at = assembly.append(assembly.add_kind(build_tower_norm(architecture, implementation, t)), at);
      memory = at;
    }
  }
  return model;
}

std::string refuse_mtp(const Architecture& architecture, std::int64_t depths) {
  if (depths == 0) return {};
  if (architecture.towers.size() != 1 || !architecture.towers.front().kinds.front().attention.causal) {
    return "only decoders without further towers predict further tokens";
  }
  if (architecture.embedding_width > 0 || architecture.head_transform) {
    return "its embeddings or its head are more than a table; they cannot be used again for further tokens";
  }
  const Tower& tower = architecture.towers.back();
  const Block& last = tower.kinds[at(tower.blocks.back())];
  if (architecture.streams > 1 || last.layer_input > 0 || last.shared || last.attention.borrows_keys) {
    return "its last block reads more than the stream; it cannot stand once more behind the others";
  }
  return {};
}

const char* to_string(Stack stack) {
  switch (stack) {
    case Stack::megatron: return "megatron";
    case Stack::plain: return "plain";
    case Stack::huggingface: return "huggingface";
    case Stack::torchtitan: return "torchtitan";
  }
  return "?";
}

}  // namespace nest::model
