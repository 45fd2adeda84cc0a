#include "model/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "nest/option.h"

namespace nest::model {
namespace {

constexpr std::int64_t kMostRank = 65'536;

// What people call the linears of a block, and the weights that they are here. The last four are Megatron's, whose
// adapters span the outputs of a fused product.
struct Target {
  const char* word;
  std::vector<std::string> weights;
  bool fused = false;
};

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"q", {"attention.q", "attention.q_down", "attention.q_up", "cross_attention.q"}},
      {"k", {"attention.k", "cross_attention.k"}},
      {"v", {"attention.v", "cross_attention.v"}},
      {"kv", {"attention.kv_down", "attention.kv_up"}},
      {"o", {"attention.o", "cross_attention.o"}},
      {"gate", {"ffn.gate", "shared.gate"}},
      {"up", {"ffn.up", "shared.up"}},
      {"down", {"ffn.down", "shared.down"}},
      {"experts", {"experts.gate", "experts.up", "experts.down"}},
      {"linear_qkv", {"attention.q", "attention.k", "attention.v"}, true},
      {"linear_proj", {"attention.o"}, true},
      {"linear_fc1", {"ffn.gate", "ffn.up", "shared.gate", "shared.up"}, true},
      {"linear_fc2", {"ffn.down", "shared.down"}, true},
  };
  return all;
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || last != text.data() + text.size()) return std::nullopt;
  return value;
}

bool matches_text(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matches_part(std::string_view pattern, std::string_view text) {
  if (const std::size_t dash = pattern.find('-'); dash != std::string_view::npos) {
    const auto from = whole_number(pattern.substr(0, dash)), to = whole_number(pattern.substr(dash + 1));
    const auto number = whole_number(text);
    if (from && to && number) return *from <= *number && *number <= *to;
  }
  return matches_text(pattern, text);
}

bool matches(const std::vector<std::string_view>& pattern, const std::string& path) {
  const std::vector<std::string_view> parts = split_text(path, '.');
  if (pattern.size() > parts.size()) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!matches_part(pattern[i], parts[i])) return false;
  }
  return true;
}

// Where the layers of a model stand: "embedding", "blocks.3", "vision.blocks.3", "vision.projector".
std::vector<std::string> layer_paths(const Model& model) {
  const auto& towers = model.architecture.towers;
  std::map<std::string, int> blocks;
  std::vector<std::string> paths;
  paths.reserve(model.layers.size());
  for (const int kind : model.layers) {
    const Layer& layer = model.kinds[at(kind)];
    std::string tower, rest = layer.name;
    for (const Tower& each : towers) {
      if (towers.size() < 2 || !rest.starts_with(each.name + " ")) continue;
      rest.erase(0, each.name.size() + 1);
      tower = each.name + ".";
      break;
    }
    if (layer.counted_block()) rest = fmt::format("blocks.{}", blocks[tower]++);
    std::replace(rest.begin(), rest.end(), ' ', '_');
    paths.push_back(tower + rest);
  }
  return paths;
}

bool is_matrix_product(const Operator& op) {
  return (op.kind == OperatorKind::matmul || op.kind == OperatorKind::grouped_matmul) && op.product.batches == 0 &&
         op.taps == 1;
}

// Adds adapters to one block.
class Adapter {
 public:
  Adapter(const Lora& lora, Layer& layer) : lora_(lora), layer_(layer) {}

  // How many it added, by target.
  void run(std::map<std::string, int>& used) {
    std::vector<Operator> before = std::exchange(layer_.operators, {});
    layer_.operators.reserve(2 * before.size());
    for (Operator& op : before) {
      const std::vector<Part> parts = is_matrix_product(op) ? parts_to_adapt(op, used) : std::vector<Part>{};
      std::vector<std::vector<TensorId>> plain;  // what the product itself gives, part by part
      plain.reserve(parts.size());
      for (const Part& part : parts) plain.push_back(move_outputs(op, part));
      layer_.operators.push_back(std::move(op));
      for (std::size_t i = 0; i < parts.size(); ++i) add(at_operator(layer_.operators.size() - 1), parts[i], plain[i]);
    }
  }

 private:
  struct Part {
    std::string name;
    std::vector<std::size_t> outputs;
  };
  struct Base {
    std::string name;
    OperatorKind kind;
    Module module;
    TensorId input;
    bool experts;
  };

  Base at_operator(std::size_t index) const {
    while (layer_.operators[index].adapter) --index;  // adapters follow their product
    const Operator& op = layer_.operators[index];
    return {op.name, op.kind, op.module, op.inputs.front(), op.kind == OperatorKind::grouped_matmul};
  }

  std::vector<const Weight*> matrices(const Operator& op) const {
    std::vector<const Weight*> found;
    const std::size_t least = op.kind == OperatorKind::grouped_matmul ? 3 : 2;
    for (const Weight& weight : op.weights) {
      if (weight.shape.size() >= least && !weight.name.ends_with("_bias")) found.push_back(&weight);
    }
    return found;
  }

  std::vector<Part> parts_to_adapt(const Operator& op, std::map<std::string, int>& used) const {
    std::vector<Part> parts;
    const std::vector<const Weight*> weights = matrices(op);
    if (weights.empty() || weights.front()->name.starts_with("router.")) return parts;
    const bool each = weights.size() == op.outputs.size();
    std::vector<std::size_t> together;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Target* target = target_of(*weights[i]);
      if (target == nullptr) continue;
      ++used[target->word];
      std::vector<std::size_t> outputs;
      if (each) {
        outputs = {i};
      } else if (together.empty()) {
        outputs.resize(op.outputs.size());
        for (std::size_t k = 0; k < outputs.size(); ++k) outputs[k] = k;
      }
      if (target->fused || !each) {
        together.insert(together.end(), outputs.begin(), outputs.end());
      } else {
        parts.push_back({weights[i]->name, std::move(outputs)});
      }
    }
    if (!together.empty()) parts.push_back({op.name, std::move(together)});
    return parts;
  }

  const Target* target_of(const Weight& weight) const {
    static const Target all{"all", {}};
    for (const std::string& word : lora_.targets) {
      if (word == all.word && !weight.name.starts_with("experts.")) return &all;
      for (const Target& target : targets()) {
        const auto& names = target.weights;
        if (word == target.word && std::find(names.begin(), names.end(), weight.name) != names.end()) return &target;
      }
    }
    return nullptr;
  }

  TensorId copy_of(TensorId id, const std::string& suffix) {
    Tensor copy = layer_.tensors[at(id)];
    copy.name += suffix;
    layer_.tensors.push_back(std::move(copy));
    return static_cast<TensorId>(layer_.tensors.size()) - 1;
  }

  // The tensors that others read become sums; the product gives new ones.
  std::vector<TensorId> move_outputs(Operator& op, const Part& part) {
    std::vector<TensorId> plain;
    for (const std::size_t k : part.outputs) {
      sums_.push_back(op.outputs[k]);
      plain.push_back(op.outputs[k] = copy_of(op.outputs[k], " of the base"));
    }
    return plain;
  }

  void add(const Base& base, const Part& part, const std::vector<TensorId>& plain) {
    const Extent rank{lora_.rank};
    const auto operation = [&](OperatorKind kind, const std::string& what, std::vector<TensorId> inputs,
                               std::vector<TensorId> outputs, std::vector<TensorId> saves) -> Operator& {
      Operator& op = layer_.operators.emplace_back();
      op.name = fmt::format("{} lora {}", part.name, what);
      op.kind = kind;
      op.module = base.module;
      op.inputs = std::move(inputs);
      op.outputs = std::move(outputs);
      op.saves = std::move(saves);
      op.adapter = true;
      return op;
    };
    const auto weight = [&](const char* name, std::vector<Extent> shape) {
      if (base.experts) shape.insert(shape.begin(), Extent{layer_.experts, Axis::experts});
      return Weight{name, std::move(shape), {}};
    };
    const TensorId low = copy_of(base.input, " lora");
    layer_.tensors[at(low)].width = {rank};
    std::vector<Extent> down = {rank};
    for (const Extent& extent : layer_.tensors[at(base.input)].width) down.push_back(extent);
    operation(base.kind, "A", {base.input}, {low}, {base.input}).weights = {weight("lora.A", std::move(down))};
    std::vector<TensorId> up;
    std::vector<Weight> weights;
    for (const TensorId id : plain) {
      std::vector<Extent> shape = layer_.tensors[at(id)].width;
      shape.push_back(rank);
      weights.push_back(weight("lora.B", std::move(shape)));
      up.push_back(copy_of(id, " lora"));
    }
    operation(base.kind, "B", {low}, up, {low}).weights = std::move(weights);
    std::vector<TensorId> scaled;
    scaled.reserve(up.size());
    for (const TensorId id : up) scaled.push_back(copy_of(id, " scaled"));
    operation(OperatorKind::elementwise, "scale", up, scaled, {});
    for (std::size_t k = 0; k < plain.size(); ++k) {
      operation(OperatorKind::add, "sum", {plain[k], scaled[k]}, {sums_[next_++]}, {});
    }
  }

  const Lora& lora_;
  Layer& layer_;
  std::vector<TensorId> sums_;  // what others read, in the order in which adapters are added
  std::size_t next_ = 0;
};

// Kinds of a model whose layers become different from each other.
class KindMaker {
 public:
  explicit KindMaker(Model& model) : model_(model), old_(std::exchange(model.kinds, {})) {}

  // The layer at `position` with `mark` done to it. `signature` tells different marks apart.
  template <class Mark>
  void replace(std::size_t position, const std::string& signature, const Mark& mark) {
    int& kind = model_.layers[position];
    const auto [place, fresh] = known_.try_emplace({kind, signature}, 0);
    if (fresh) {
      Layer layer = old_[at(kind)];
      mark(layer);
      place->second = static_cast<int>(model_.kinds.size());
      model_.kinds.push_back(std::move(layer));
    }
    kind = place->second;
  }

 private:
  Model& model_;
  std::vector<Layer> old_;
  std::map<std::pair<int, std::string>, int> known_;
};

template <class Visit>
void for_each_weight(Layer& layer, const Visit& visit) {
  for (Operator& op : layer.operators) {
    for (Weight& weight : op.weights) visit(weight);
  }
}

void add_adapters(const Lora& lora, Model& model) {
  std::map<std::string, int> used;
  for (Layer& layer : model.kinds) {
    for_each_weight(layer, [](Weight& weight) { weight.frozen = true; });
    if (layer.counted_block()) Adapter(lora, layer).run(used);
  }
  for (const std::string& word : lora.targets) {
    if (used[word] == 0) {
      throw InputError(
          fmt::format("{}: {} has no `{}` to adapt", option("lora"), model.architecture.name, clip(word, 40)));
    }
  }
}

void freeze(const std::vector<std::string>& patterns, Model& model) {
  const std::vector<std::string> paths = layer_paths(model);
  std::vector<std::vector<std::string_view>> wanted;
  wanted.reserve(patterns.size());
  for (const std::string& pattern : patterns) wanted.push_back(split_text(pattern, '.'));
  std::vector<bool> used(patterns.size(), false);
  const auto is_frozen = [&](const std::string& path) {
    bool found = false;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!matches(wanted[i], path)) continue;
      used[i] = true;
      found = true;
    }
    return found;
  };
  std::set<std::string> tied;  // labels of tables that are frozen somewhere
  std::vector<std::string> signatures(model.layers.size());
  for (std::size_t p = 0; p < model.layers.size(); ++p) {
    for_each_weight(model.kinds[at(model.layers[p])], [&](const Weight& weight) {
      const bool frozen = is_frozen(fmt::format("{}.{}", paths[p], weight.name));
      signatures[p] += frozen ? '1' : '0';
      if (frozen && !weight.tied_to.empty()) tied.insert(weight.tied_to);
    });
  }
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (used[i]) continue;
    std::set<std::string> first;
    for (const std::string& path : paths) first.insert(path.substr(0, path.find('.')));
    throw InputError(fmt::format("{}: `{}` matches nothing in {}; names begin with {}", option("freeze"),
                                 clip(patterns[i], 60), model.architecture.name,
                                 join_words(std::vector<std::string>(first.begin(), first.end()))));
  }
  KindMaker maker(model);
  for (std::size_t p = 0; p < model.layers.size(); ++p) {
    maker.replace(p, signatures[p], [&](Layer& layer) {
      std::size_t k = 0;
      for_each_weight(layer, [&](Weight& weight) {
        const bool named = signatures[p][k++] == '1';
        weight.frozen = weight.frozen || named || (!weight.tied_to.empty() && tied.contains(weight.tied_to));
      });
    });
  }
}

bool has_trained_weights(const Layer& layer) {
  return std::any_of(layer.operators.begin(), layer.operators.end(), [](const Operator& op) {
    return std::any_of(op.weights.begin(), op.weights.end(), [](const Weight& weight) { return !weight.frozen; });
  });
}

}  // namespace

Training read_training(std::string_view freeze_text, std::string_view lora_text) {
  Training training;
  if (!freeze_text.empty()) {
    for (const std::string_view pattern : split_text(freeze_text, ',')) {
      if (pattern.empty()) throw InputError(fmt::format("{}: an empty pattern", option("freeze")));
      training.frozen.emplace_back(pattern);
    }
  }
  if (lora_text.empty()) return training;
  std::vector<std::string> words = {"all"};
  for (const Target& target : targets()) words.emplace_back(target.word);
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{}: {}; expected rank=R (1 … {}), targets= some of {}, base=nf4, with commas between",
                                 option("lora"), why, kMostRank, join_words(words)));
  };
  Lora lora;
  bool in_targets = false;
  for (const std::string_view part : split_text(lora_text, ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    std::string_view value = part;
    if (equals != std::string_view::npos) {
      value = part.substr(equals + 1);
      in_targets = key == "targets";
    }
    if (in_targets) {
      std::string word(value);
      if (word.ends_with("_proj")) word.erase(word.size() - 5);
      if (word == "all-linear") word = "all";
      if (std::find(words.begin(), words.end(), word) == words.end())
        refuse(fmt::format("target `{}`", clip(word, 40)));
      if (std::find(lora.targets.begin(), lora.targets.end(), word) == lora.targets.end()) {
        lora.targets.push_back(std::move(word));
      }
    } else if (equals != std::string_view::npos && key == "rank") {
      const auto rank = whole_number(value);
      if (!rank || *rank < 1 || *rank > kMostRank) refuse(fmt::format("rank `{}`", clip(std::string(value), 40)));
      lora.rank = rank.value_or(1);
    } else if (equals != std::string_view::npos && key == "base") {
      if (value != "nf4") refuse(fmt::format("base `{}`", clip(std::string(value), 40)));
      lora.nf4 = true;
    } else {
      refuse(fmt::format("found `{}`", clip(std::string(part), 40)));
    }
  }
  if (lora.targets.empty()) lora.targets = {"q", "v"};
  training.lora = std::move(lora);
  return training;
}

void mark_gradients(Model& model) {
  std::vector<bool> gets(model.layers.size(), false), reads(model.layers.size(), false);
  std::vector<std::vector<int>> readers(model.layers.size());
  std::vector<bool> fed(model.layers.size(), false);
  for (const Edge& edge : model.edges) {
    for (const int to : edge.to) {
      readers[at(edge.from)].push_back(to);
      fed[at(to)] = true;
    }
  }
  bool all = true;
  for (std::size_t p = 0; p < model.layers.size(); ++p) {
    gets[p] = reads[p] || has_trained_weights(model.kinds[at(model.layers[p])]);
    all = all && gets[p] && (reads[p] || !fed[p]);
    if (!gets[p]) continue;
    for (const int to : readers[p]) reads[at(to)] = true;
  }
  if (all) return;  // as every layer says already
  KindMaker maker(model);
  for (std::size_t p = 0; p < model.layers.size(); ++p) {
    // What no layer made (pictures, rows that are looked up) is left as it was: it had no gradient before either.
    const bool gradient = reads[p] || (!fed[p] && gets[p]);
    maker.replace(p, gradient ? "1" : "0", [&](Layer& layer) { layer.input_gradient = gradient; });
  }
}

void apply_training(const Training& training, Model& model) {
  if (training.frozen.empty() && !training.lora) return;
  if (model.traced) {
    throw InputError(
        fmt::format("{}: a model that was read from a graph says itself what is trained; call "
                    "requires_grad_(False), or add adapters, before it is traced",
                    option(training.lora ? "lora" : "freeze")));
  }
  if (training.lora) {
    add_adapters(*training.lora, model);
    if (training.lora->nf4) model.frozen_matrix_bytes = kNf4Bytes;
  }
  if (!training.frozen.empty()) freeze(training.frozen, model);
  if (count_trained(model) == 0) {
    throw InputError(fmt::format("{}: nothing of {} is left to train", option(training.lora ? "lora" : "freeze"),
                                 model.architecture.name));
  }
  mark_gradients(model);
}

bool shares_frozen(const Model& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const Layer& layer) {
    return std::any_of(layer.operators.begin(), layer.operators.end(), [](const Operator& op) {
      return std::any_of(op.weights.begin(), op.weights.end(),
                         [](const Weight& weight) { return weight.frozen && !weight.tied_to.empty(); });
    });
  });
}

std::int64_t count_trained(const Model& model) {
  std::int64_t trained = 0;
  std::set<std::string> seen;
  for (const int kind : model.layers) {
    for (const Operator& op : model.kinds[at(kind)].operators) {
      for (const Weight& weight : op.weights) {
        if (weight.frozen || (!weight.tied_to.empty() && !seen.insert(weight.tied_to).second)) continue;
        trained = checked_sum({trained, elements(weight)});
      }
    }
  }
  return trained;
}

}  // namespace nest::model
