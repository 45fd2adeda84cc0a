#include "rivals/alpa_layer.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/index.h"
#include "cost/rates.h"
#include "cost/tables.h"
#include "split/local_layer.h"

namespace nest::rivals {
namespace {

enum class Choice : std::uint8_t {
  replicate,
  data,
  column,
  gather_column,
  contraction,
  scatter,
  along,
  experts,
};
constexpr int kChoices = 8;

enum class Lie : std::uint8_t { whole, rows, columns, experts };

Lie input_lie(Choice choice) {
  switch (choice) {
    case Choice::replicate:
    case Choice::column: return Lie::whole;
    case Choice::data:
    case Choice::gather_column: return Lie::rows;
    case Choice::contraction:
    case Choice::scatter:
    case Choice::along: return Lie::columns;
    case Choice::experts: return Lie::experts;
  }
  return Lie::whole;
}

Lie output_lie(Choice choice) {
  switch (choice) {
    case Choice::replicate:
    case Choice::contraction: return Lie::whole;
    case Choice::data:
    case Choice::scatter: return Lie::rows;
    case Choice::column:
    case Choice::gather_column:
    case Choice::along: return Lie::columns;
    case Choice::experts: return Lie::experts;
  }
  return Lie::whole;
}

using Choices = std::array<Choice, 2>;  // along the axes of the mesh

// An operator, or a tensor that comes from elsewhere.
struct Node {
  const model::Operator* op = nullptr;
  std::vector<Choices> strategies;
  double compute_s = 0;  // undivided
  double flops = 0;
  double input_bytes = 0, output_bytes = 0;
  double gradient_bytes = 0;  // of its weights, through the network, per micro-batch

  bool is_grouped() const { return op != nullptr && op->kind == model::OperatorKind::grouped_matmul; }
};

bool is_product(const model::Operator& op) {
  return op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul ||
         op.kind == model::OperatorKind::attention;
}

bool follows(const model::Operator& op) {
  return op.kind == model::OperatorKind::elementwise || op.kind == model::OperatorKind::copy ||
         op.kind == model::OperatorKind::router || op.kind == model::OperatorKind::dispatch;
}

class LayerProgram {
 public:
  LayerProgram(const cost::Job& job, int kind, const LogicalMesh& mesh, std::int64_t sequences, const AxisRules& rules)
      : job_(job),
        layer_(job.fused_model.kinds[at(kind)]),
        mesh_(mesh),
        sequences_(sequences),
        rules_(rules),
        producer_(layer_.tensors.size(), -1) {
    const split::RunShape shape{1, job.run.sequence, job.run.encoder_sequence, 1.0};
    const split::LocalLayer local = split::localise(layer_, shape, Split{}, cost::timed_implementation(job));
    for (const split::LocalOperator& op : local.operators) add(op);
    if (layer_.output >= 0 && layer_.input >= 0) join(layer_.output, node_of(layer_.input), true);
    for (const auto& [ends, cost] : edges_) problem_.edges.push_back({std::get<0>(ends), std::get<1>(ends), cost});
    for (const Node& node : nodes_) problem_.nodes.push_back({costs(node)});
  }

  const IlpProblem& problem() const { return problem_; }

  std::array<AxisWork, 2> work(const std::vector<int>& choice) const {
    std::array<AxisWork, 2> work;
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      const Choices& chosen = nodes_[v].strategies[at(choice[v])];
      for (std::size_t a = 0; a < 2; ++a) tally(nodes_[v], chosen[a], work[a]);
    }
    return work;
  }

 private:
  static void tally(const Node& node, Choice choice, AxisWork& work) {
    const bool grouped = node.is_grouped();
    switch (choice) {
      case Choice::replicate: work.replicated += node.flops; break;
      case Choice::data: (grouped ? work.expert_data : work.data) += node.flops; break;
      case Choice::experts: work.expert_whole += node.flops; break;
      default: (grouped ? work.expert_tensor : work.tensor) += node.flops; break;
    }
  }

  const model::Tensor& tensor(model::TensorId id) const { return layer_.tensors[at(id)]; }

  double tokens() const {
    const bool encodes = layer_.encoder && job_.run.encoder_sequence > 0;
    return real(sequences_) * real(encodes ? job_.run.encoder_sequence : job_.run.sequence);
  }

  // Of the whole micro-batch.
  double bytes(model::TensorId id) const {
    const model::Tensor& t = tensor(id);
    double rows = tokens();
    if (t.rows == model::Rows::routed) rows *= real(std::max<std::int64_t>(1, layer_.top_k));
    if (t.rows == model::Rows::samples) rows = real(sequences_);
    if (t.rows == model::Rows::memory && job_.run.encoder_sequence > 0) {
      rows = real(sequences_) * real(job_.run.encoder_sequence);
    }
    return rows * t.rows_per_unit * real(model::row_elements(t)) * t.element_bytes;
  }

  // Whether columns can be divided, and evenly. Keys may have fewer heads than queries: those are copied.
  static bool divides(const std::vector<model::Extent>& width, std::int64_t parts) {
    bool labelled = false;
    for (const model::Extent& extent : width) {
      if (extent.axis == model::Axis::none || extent.axis == model::Axis::experts) continue;
      labelled = true;
      if (extent.axis != model::Axis::kv_heads && extent.size % parts != 0) return false;
    }
    return labelled;
  }

  std::int64_t parts(const Choices& choices, std::initializer_list<Choice> wanted) const {
    std::int64_t product = 1;
    for (std::size_t a = 0; a < 2; ++a) {
      if (std::find(wanted.begin(), wanted.end(), choices[a]) != wanted.end()) product *= mesh_[a].size;
    }
    return product;
  }

  bool is_possible(const model::Operator& op, const Choices& choices) const {
    const auto has = [&](Choice choice) { return choices[0] == choice || choices[1] == choice; };
    const bool weighs = op.kind == model::OperatorKind::matmul || op.kind == model::OperatorKind::grouped_matmul;
    const bool with_weights = weighs && op.product.batches == 0;
    const bool embeds = op.kind == model::OperatorKind::embedding;
    if ((embeds && op.weights.empty()) || (weighs && (op.inputs.empty() || op.outputs.empty()))) {
      return choices == Choices{Choice::replicate, Choice::replicate};
    }
    const std::int64_t rows = parts(choices, {Choice::data});
    if (is_product(op) ? sequences_ % rows != 0 : static_cast<std::int64_t>(tokens()) % rows != 0) return false;
    if (has(Choice::column) || has(Choice::gather_column)) {
      const std::int64_t columns = parts(choices, {Choice::column, Choice::gather_column});
      const bool all = std::all_of(op.outputs.begin(), op.outputs.end(),
                                   [&](model::TensorId id) { return divides(tensor(id).width, columns); });
      if (!with_weights || !all) return false;
    }
    if (has(Choice::contraction) || has(Choice::scatter)) {
      const std::int64_t terms = parts(choices, {Choice::contraction, Choice::scatter});
      if (embeds ? !divides(op.weights.front().shape, terms)
                 : !with_weights || !divides(tensor(op.inputs.front()).width, terms)) {
        return false;
      }
    }
    if (has(Choice::along)) {
      if (with_weights || embeds || op.inputs.empty()) return false;
      if (!divides(tensor(op.inputs.front()).width, parts(choices, {Choice::along}))) return false;
    }
    if (!has(Choice::experts)) return true;
    return op.kind == model::OperatorKind::grouped_matmul && layer_.experts % parts(choices, {Choice::experts}) == 0;
  }

  bool keeps_rules(const Choices& choices) const {
    for (std::size_t a = 0; a < 2; ++a) {
      const bool data = choices[a] == Choice::data || choices[a] == Choice::experts;
      if (mesh_[a].size == 1 || rules_[a] == AxisRule::open) continue;
      if (rules_[a] == AxisRule::data ? !data : choices[a] == Choice::data) return false;
    }
    return true;
  }

  // Products are replicated along an axis only where nothing else is possible.
  std::vector<Choices> strategies(const model::Operator& op) const {
    std::vector<Choices> kept, divided, all;
    for (int first = 0; first < kChoices; ++first) {
      for (int second = 0; second < kChoices; ++second) {
        const Choices choices{static_cast<Choice>(first), static_cast<Choice>(second)};
        bool idle = false, whole = false;
        for (std::size_t a = 0; a < 2; ++a) {
          idle = idle || (mesh_[a].size == 1 && choices[a] != Choice::replicate);
          whole = whole || (mesh_[a].size > 1 && choices[a] == Choice::replicate);
        }
        if (idle || !is_possible(op, choices)) continue;
        all.push_back(choices);
        if (!whole) divided.push_back(choices);
        if (!whole && keeps_rules(choices)) kept.push_back(choices);
      }
    }
    if (!is_product(op)) return all;
    if (!kept.empty()) return kept;
    return divided.empty() ? all : divided;
  }

  int add_input(model::TensorId id) {
    Node node;
    for (const Choice first : {Choice::replicate, Choice::data}) {
      for (const Choice second : {Choice::replicate, Choice::data}) {
        if ((mesh_[0].size == 1 && first == Choice::data) || (mesh_[1].size == 1 && second == Choice::data)) continue;
        if (static_cast<std::int64_t>(tokens()) % parts({first, second}, {Choice::data}) != 0) continue;
        node.strategies.push_back({first, second});
      }
    }
    nodes_.push_back(std::move(node));
    producer_[at(id)] = static_cast<int>(nodes_.size()) - 1;
    return producer_[at(id)];
  }

  int node_of(model::TensorId id) {
    const int node = producer_[at(id)];
    return node >= 0 ? node : add_input(id);
  }

  void add(const split::LocalOperator& local) {
    const model::Operator& op = *local.source;
    if (follows(op) && !op.inputs.empty()) {
      const int leader = node_of(op.inputs.front());
      for (const model::TensorId id : op.outputs) producer_[at(id)] = leader;
      for (const model::TensorId id : op.inputs) join(id, leader, true);
      return;
    }
    Node node;
    node.op = &op;
    node.strategies = strategies(op);
    const auto times = real(sequences_);
    node.flops = local.flops_forward + local.flops_backward;
    const cost::DeviceRates rates = cost::sustained_rates(job_.cluster.device, job_.run.precision, job_.stack);
    const double moved = (local.bytes_forward + local.bytes_backward) / rates.memory_bytes_per_s;
    node.compute_s = times * std::max(node.flops / rates.matrix_flops_per_s, moved);
    if (!op.inputs.empty()) node.input_bytes = bytes(op.inputs.front());
    for (const model::TensorId id : op.outputs) node.output_bytes += bytes(id);
    const double micro_batches = std::max(1.0, real(job_.run.global_batch) / times);
    node.gradient_bytes = real(local.parameters) * cost::sync_rule(job_, 1).gradient_bytes / micro_batches;
    for (const model::TensorId id : op.inputs) node_of(id);  // tensors from elsewhere come before who reads them
    const int index = static_cast<int>(nodes_.size());
    nodes_.push_back(std::move(node));
    for (const model::TensorId id : op.inputs) join(id, index, false);
    for (const model::TensorId id : op.outputs) producer_[at(id)] = index;
  }

  // The tensor must lie as node `to` reads it (or, beside what `to` makes, as that lies).
  void join(model::TensorId id, int to, bool beside) {
    const int from = node_of(id);
    if (from == to) return;
    const double moved = bytes(id);
    std::vector<double>& cost = edges_[{from, to}];
    const auto& sources = nodes_[at(from)].strategies;
    const auto& targets = nodes_[at(to)].strategies;
    cost.resize(sources.size() * targets.size(), 0.0);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      for (std::size_t j = 0; j < targets.size(); ++j) {
        std::array<Lie, 2> lies{}, wanted{};
        for (std::size_t a = 0; a < 2; ++a) {
          lies[a] = output_lie(sources[i][a]);
          wanted[a] = beside ? output_lie(targets[j][a]) : input_lie(targets[j][a]);
        }
        cost[i * targets.size() + j] += reshard_s(lies, wanted, moved) + reshard_s(wanted, lies, moved);
      }
    }
  }

  double reshard_s(const std::array<Lie, 2>& from, const std::array<Lie, 2>& to, double whole_bytes) const {
    double seconds = 0;
    for (std::size_t a = 0; a < 2; ++a) {
      if (from[a] == to[a] || from[a] == Lie::whole) continue;
      const std::size_t other = 1 - a;
      const bool divided = from[other] == to[other] && from[other] != Lie::whole;
      const double moved = divided ? whole_bytes / real(mesh_[other].size) : whole_bytes;
      seconds += to[a] == Lie::whole ? mesh_[a].all_gather_s(moved) : mesh_[a].all_to_all_s(moved);
    }
    return seconds;
  }

  std::vector<double> costs(const Node& node) const {
    std::vector<double> costs;
    for (const Choices& choices : node.strategies) {
      double seconds = node.compute_s;
      for (std::size_t a = 0; a < 2; ++a) {
        if (choices[a] != Choice::replicate) seconds /= real(mesh_[a].size);
      }
      for (std::size_t a = 0; a < 2; ++a) seconds += exchange_s(node, choices, a);
      costs.push_back(seconds);
    }
    return costs;
  }

  double exchange_s(const Node& node, const Choices& choices, std::size_t axis) const {
    const MeshAxis& line = mesh_[axis];
    const Choice other = choices[1 - axis];
    const auto beside = real(mesh_[1 - axis].size);
    const double input = node.input_bytes / (input_lie(other) == Lie::whole ? 1.0 : beside);
    const double output = node.output_bytes / (output_lie(other) == Lie::whole ? 1.0 : beside);
    switch (choices[axis]) {
      case Choice::data: {
        const bool divided = other != Choice::data && other != Choice::replicate;
        return node.gradient_bytes > 0 ? line.all_reduce_s(node.gradient_bytes / (divided ? beside : 1.0)) : 0;
      }
      case Choice::column: return line.all_reduce_s(input);
      case Choice::gather_column: return line.all_gather_s(input) + line.reduce_scatter_s(input);
      case Choice::contraction: return line.all_reduce_s(output);
      case Choice::scatter: return line.reduce_scatter_s(output) + line.all_gather_s(output);
      default: return 0;
    }
  }

  const cost::Job& job_;
  const model::Layer& layer_;
  const LogicalMesh& mesh_;
  std::int64_t sequences_;
  const AxisRules& rules_;
  std::vector<int> producer_;  // node that a tensor comes from; -1: none yet
  std::vector<Node> nodes_;
  std::map<std::tuple<int, int>, std::vector<double>> edges_;
  IlpProblem problem_;
};

}  // namespace

void AxisWork::add(const AxisWork& other, double times) {
  data += times * other.data;
  tensor += times * other.tensor;
  replicated += times * other.replicated;
  expert_data += times * other.expert_data;
  expert_tensor += times * other.expert_tensor;
  expert_whole += times * other.expert_whole;
}

MeshAnswer mesh_layer(const cost::Job& job, int kind, const LogicalMesh& mesh, std::int64_t sequences,
                      const AxisRules& rules, double time_limit_s) {
  const LayerProgram program(job, kind, mesh, sequences, rules);
  const IlpAnswer answer = solve_ilp(program.problem(), time_limit_s);
  if (!answer.solution) return {std::nullopt, answer.proven};
  return {MeshedLayer{answer.solution->cost, program.work(answer.solution->choice)}, answer.proven};
}

}  // namespace nest::rivals
