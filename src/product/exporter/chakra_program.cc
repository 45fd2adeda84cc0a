#include "exporter/chakra_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "plan/pipeline_shape.h"

namespace nest::exporter {
namespace {

using Id = std::uint64_t;
using Ids = std::vector<Id>;
using schedule::Operation;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

void join(Ids& into, const Ids& more) { into.insert(into.end(), more.begin(), more.end()); }

std::int64_t whole(double amount) { return std::max<std::int64_t>(1, std::llround(amount)); }

TraceCollective traced(split::CollectiveKind kind) {
  switch (kind) {
    case split::CollectiveKind::all_reduce: return TraceCollective::all_reduce;
    case split::CollectiveKind::all_gather:
    case split::CollectiveKind::ring_exchange: return TraceCollective::all_gather;
    case split::CollectiveKind::reduce_scatter: return TraceCollective::reduce_scatter;
    case split::CollectiveKind::all_to_all: return TraceCollective::all_to_all;
  }
  return TraceCollective::all_reduce;
}

TraceGroup traced_group(const LayerStep& step) {
  switch (step.routed) {
    case Routed::as_group: break;
    case Routed::whole_set: return TraceGroup::tensor_expert;
    case Routed::inside_unit: return TraceGroup::expert_unit;
    case Routed::across_units: return TraceGroup::expert_lane;
  }
  switch (step.group) {
    case split::Group::tensor: return TraceGroup::tensor;
    case split::Group::context:
      if (!step.part_of_context) return TraceGroup::context;
      return step.collective == split::CollectiveKind::all_to_all ? TraceGroup::context_heads
                                                                  : TraceGroup::context_ring;
    case split::Group::expert: return TraceGroup::expert;
    case split::Group::expert_tensor: return TraceGroup::expert_tensor;
  }
  return TraceGroup::tensor;
}

TraceGroup traced(const simulate::StateCall& call) {
  if (call.weights == groups::Weights::dense)
    return call.between ? TraceGroup::dense_replicas : TraceGroup::dense_shard;
  return call.between ? TraceGroup::expert_replicas : TraceGroup::expert_shard;
}

std::vector<int> layer_numbers(const StagePlan& stage) {
  std::vector<int> layers;
  for (const ChunkPlan& run : plan::runs_of(stage)) {
    for (int i = run.first; i <= run.last; ++i) layers.push_back(i);
  }
  return layers;
}

// The layers of a stage over its chunks, as numbers in the stage: as they are listed, or blocks evenly, the embedding with
// the first, the head with the last. An interleaved stage that is one run of layers is priced as such, so which block
// is in which chunk is a matter of taste.
std::vector<std::vector<int>> chunk_layers(const cost::Job& job, const StagePlan& stage, std::int64_t chunks) {
  if (!stage.chunks.empty()) {
    std::vector<std::vector<int>> listed(stage.chunks.size());
    int next = 0;
    for (std::size_t c = 0; c < listed.size(); ++c) {
      for (int i = stage.chunks[c].first; i <= stage.chunks[c].last; ++i) listed[c].push_back(next++);
    }
    return listed;
  }
  std::vector<int> blocks;
  for (int i = stage.first; i <= stage.last; ++i) {
    if (job.model.layer(i).counted_block()) blocks.push_back(i);
  }
  const int count = stage.last - stage.first + 1;
  const bool by_blocks = static_cast<std::int64_t>(blocks.size()) >= chunks;
  std::vector<std::vector<int>> layers(at(chunks));
  for (int i = stage.first; i <= stage.last; ++i) {
    std::int64_t chunk = (i - stage.first) * chunks / count;
    if (by_blocks) {
      const auto before = std::lower_bound(blocks.begin(), blocks.end(), i) - blocks.begin();
      chunk = std::min(chunks - 1, before * chunks / static_cast<std::int64_t>(blocks.size()));
    }
    layers[at(chunk)].push_back(i - stage.first);
  }
  return layers;
}

// One layer of one pass.
struct Visit {
  schedule::Operation operation;
  int layer = 0;  // in the stage
};

class StageProgram {
 public:
  StageProgram(const cost::Job& job, const Strategy& strategy, const StagePlan& plan, std::int64_t stage,
               const simulate::PlanWork& work, const schedule::Chain& chain, const cost::SyncRule& rule,
               std::vector<TracedLayer> layers)
      : chain_(chain),
        plan_(plan),
        stage_(stage),
        all_(work),
        work_(work.stages[at(stage)]),
        rule_(rule),
        layers_(std::move(layers)),
        numbers_(layer_numbers(plan)),
        last_(kTraceGroups) {
    const cost::DataOverlap overlap = job.stack.data_overlap;
    overlaps_ = overlap != cost::DataOverlap::none;
    const cost::ShardingTraffic often = rule.traffic(cost::sharding_row(plan));
    gathers_layers_ = often.forward_gathers > 0;
    scatters_between_ = often.across > 0;
    replicas_ = groups::zero_degrees(strategy, 0);
    gathers_first_ = often.step_gathers > 0 && overlaps_ && overlap != cost::DataOverlap::per_tensor;
    const std::vector<std::vector<int>> chunks = chunk_layers(job, plan, strategy.virtual_stages);
    order_ = schedule::order_of(schedule::rule_of(strategy.schedule), chain.shape(), stage);
    for (const schedule::Operation& operation : order_) {
      std::vector<int> visited = chunks[at(operation.chunk)];
      if (!operation.is_forward()) std::reverse(visited.begin(), visited.end());
      for (const int layer : visited) visits_.push_back({operation, layer});
    }
  }

  std::vector<TraceNode> run() {
    std::size_t next = 0;
    for (std::size_t k = 0; k < order_.size(); ++k) {
      receive(k);
      for (; next < visits_.size() && visits_[next].operation == order_[k]; ++next) visit(next);
      send(order_[k]);
      ends_.push_back(front_);
    }
    finish();
    return std::move(nodes_);
  }

 private:
  // --- nodes

  Id add(TraceNode node, Ids after) {
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    node.after = std::move(after);
    nodes_.push_back(std::move(node));
    return nodes_.size() - 1;
  }

  // Durations are whole microseconds; what rounding takes from one node it gives to the next. Work that does not make a
  // microsecond joins the next node.
  void compute(double seconds, double flops, double bytes, std::string name) {
    if (seconds <= 0) return;
    exact_us_ += seconds * 1e6;
    joined_flops_ += flops;
    joined_bytes_ += bytes;
    TraceNode node;
    node.name = std::move(name);
    node.duration_us = std::llround(exact_us_) - written_us_;
    if (node.duration_us > 0) {
      written_us_ += node.duration_us;
      node.operations = whole(joined_flops_);  // a roofline divides by both
      node.bytes = whole(joined_bytes_);
      joined_flops_ = joined_bytes_ = 0;
      front_ = {add(std::move(node), front_)};
    }
    join(front_, beside_);
    beside_.clear();
  }

  Id collective(TraceCollective kind, TraceGroup group, double bytes, std::string name) {
    TraceNode node;
    node.kind = TraceNode::Kind::collective;
    node.name = std::move(name);
    node.collective = kind;
    node.group = group;
    node.bytes = whole(bytes);
    Ids& last = last_[static_cast<std::size_t>(group)];
    Ids after = front_;
    join(after, last);
    last = {add(std::move(node), std::move(after))};
    return last.front();
  }

  std::string named(const char* part, const schedule::Operation& operation, int layer) const {
    return fmt::format("{} mb{} L{}", part, operation.micro_batch, numbers_[at(layer)]);
  }

  void play(const std::vector<LayerStep>& steps, const std::string& name) {
    Ids late, issued;
    for (const LayerStep& step : steps) {
      if (step.kind == LayerStep::Kind::compute) {
        compute(step.seconds, step.flops, step.bytes, name);
        continue;
      }
      if (step.wait == Wait::at_once) {
        join(front_, beside_);
        beside_.clear();
      }
      Ids before;
      if (step.with_last && step.wait == Wait::at_once) before = std::exchange(front_, issued);
      issued = front_;
      const Id id = collective(traced(step.collective), traced_group(step), step.bytes, name + " " + step.tensor);
      if (step.wait == Wait::at_once) {
        front_ = std::move(before);
        front_.push_back(id);
      } else {
        (step.wait == Wait::beside ? beside_ : late).push_back(id);
      }
    }
    join(front_, late);
    join(front_, beside_);
    beside_.clear();
  }

  // --- messages

  TraceNode message(TraceNode::Kind kind, const schedule::Operation& operation, const schedule::Neighbour& peer,
                    std::int32_t receiver_chunk) const {
    TraceNode node;
    node.kind = kind;
    node.name = fmt::format("{} {} mb{} chunk {} {} stage {}", kind == TraceNode::Kind::send ? "send" : "recv",
                            operation.is_forward() ? "activation" : "gradient", operation.micro_batch, receiver_chunk,
                            kind == TraceNode::Kind::send ? "to" : "from", peer.stage);
    node.bytes = whole(all_.message_bytes(chain_, peer.link));
    node.peer_stage = peer.stage;
    const std::int64_t pass = operation.micro_batch * chain_.shape().chunks + receiver_chunk;
    node.tag = static_cast<std::int32_t>(2 * pass + (operation.is_forward() ? 0 : 1));
    return node;
  }

  void receive(std::size_t k) {
    const std::optional<schedule::Neighbour> from = chain_.source(stage_, order_[k]);
    if (!from) return;
    const std::size_t ahead = chain_.shape().chunks > 1 ? 2 : 1;
    front_.push_back(add(message(TraceNode::Kind::receive, order_[k], *from, order_[k].chunk),
                         k >= ahead ? ends_[k - ahead] : Ids()));
  }

  void send(const schedule::Operation& operation) {
    const std::optional<schedule::Neighbour> to = chain_.target(stage_, operation);
    if (to) add(message(TraceNode::Kind::send, operation, *to, to->operation.chunk), front_);
  }

  // --- state

  double parameters(const simulate::StateCall& call, const TracedLayer& layer) const {
    return call.weights == groups::Weights::dense ? layer.dense_parameters : layer.expert_parameters;
  }
  double degree(const simulate::StateCall& call) const {
    return static_cast<double>(call.weights == groups::Weights::dense ? work_.dense_degree : work_.expert_degree);
  }

  void gather(const std::vector<simulate::StateCall>& calls, int layer, const std::string& name, Ids& done) {
    for (const simulate::StateCall& call : calls) {
      const double elements = parameters(call, layers_[at(layer)]);
      if (call.bytes <= 0 || elements <= 0) continue;
      const auto all = static_cast<double>(call.weights == groups::Weights::dense ? replicas_.dense : replicas_.expert);
      done.push_back(collective(TraceCollective::all_gather, traced(call),
                                rule_.weight_bytes * elements / (call.between ? all : degree(call)),
                                name + " weights"));
    }
  }

  // Reductions of one layer's gradients; `waits`: compute waits for them.
  void reduce(const std::vector<simulate::StateCall>& calls, std::size_t first, int layer, const std::string& name,
              bool waits) {
    for (std::size_t i = first; i < calls.size(); ++i) {
      const simulate::StateCall& call = calls[i];
      const double elements = parameters(call, layers_[at(layer)]);
      if (call.bytes <= 0 || elements <= 0) continue;
      const double bytes = rule_.gradient_bytes * elements;
      Id done = 0;
      if (call.between) {
        // What was reduced inside the sharding groups is summed between them.
        done = collective(scatters_between_ ? TraceCollective::reduce_scatter : TraceCollective::all_reduce,
                          traced(call), bytes / degree(call), name + " gradients");
        Ids& shard = last_[static_cast<std::size_t>(call.weights == groups::Weights::dense ? TraceGroup::dense_shard
                                                                                           : TraceGroup::expert_shard)];
        Ids& after = nodes_[done].after;
        join(after, shard);
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
      } else {
        double all = 0;
        for (const TracedLayer& of_stage : layers_) all += parameters(call, of_stage);
        const bool fully = std::llround(call.bytes / (rule_.gradient_bytes * all)) == 2;  // passes over the buffer
        done = collective(fully ? TraceCollective::all_reduce : TraceCollective::reduce_scatter, traced(call), bytes,
                          name + " gradients");
      }
      if (waits) front_ = {done};
    }
  }

  bool gathers(const Visit& visit) const {
    if (gathers_layers_) return true;
    return gathers_first_ && visit.operation.is_forward() && visit.operation.micro_batch == 0;
  }

  void gather_for(const Visit& visit, Ids& done) {
    if (!gathers(visit)) return;
    gather(gathers_layers_ ? work_.in_forward.calls : work_.gather.calls, visit.layer,
           named(!visit.operation.is_forward() ? "bwd" : "fwd", visit.operation, visit.layer), done);
  }

  // --- passes

  void visit(std::size_t index) {
    const Visit& visit = visits_[index];
    if (!overlaps_) {
      gather_for(visit, front_);
    } else {
      if (index == 0) gather_for(visit, gathered_);
      join(front_, gathered_);
      gathered_.clear();
      if (index + 1 < visits_.size()) gather_for(visits_[index + 1], gathered_);
    }
    const TracedLayer& layer = layers_[at(visit.layer)];
    if (visit.operation.is_forward()) {
      play(layer.forward, named("fwd", visit.operation, visit.layer));
      return;
    }
    play(layer.again, named("again", visit.operation, visit.layer));
    play(layer.backward, named("bwd", visit.operation, visit.layer));
    end_backward(visit, layer);
  }

  void end_backward(const Visit& visit, const TracedLayer& layer) {
    const std::string name = named("bwd", visit.operation, visit.layer);
    const bool puts_off = layer.deferred_s > 0;
    if (puts_off && visit.operation.micro_batch >= all_.put_off) {
      compute(layer.deferred_s, layer.deferred_flops, 1, name + " head gradient");
    }
    const std::size_t gathers = gathers_layers_ ? work_.in_forward.calls.size() : 0;
    reduce(work_.in_backward.calls, gathers, visit.layer, name, !overlaps_);
    if (visit.operation.micro_batch + 1 < all_.micro_batches) return;
    if (overlaps_ && !puts_off) {
      reduce(work_.reduce.calls, 0, visit.layer, name, false);
    } else {
      late_.push_back(visit.layer);
    }
  }

  // Front and the last exchange of every group.
  void wait_for_state() {
    for (const Ids& last : last_) join(front_, last);
  }

  void finish() {
    for (const TracedLayer& layer : layers_) {
      const auto waiting = static_cast<double>(all_.put_off);
      compute(waiting * layer.deferred_s, waiting * layer.deferred_flops, 1, "head gradient");
    }
    for (const int layer : late_) reduce(work_.reduce.calls, 0, layer, fmt::format("L{}", numbers_[at(layer)]), false);
    wait_for_state();
    const double bytes = work_.optimizer_s * rule_.memory_bytes_per_s;
    compute(work_.optimizer_s, bytes, bytes, "optimizer");  // one operation per byte: bound by memory on any device
    if (!gathers_first_) {
      Ids gathered;
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        const int layer = static_cast<int>(i);
        gather(work_.gather.calls, layer, fmt::format("L{}", numbers_[at(layer)]), gathered);
      }
      join(front_, gathered);
    }
    compute(all_.step_s, 1, 1, "step overhead");
  }

  const schedule::Chain& chain_;
  const StagePlan& plan_;
  std::int64_t stage_;
  const simulate::PlanWork& all_;
  const simulate::StageWork& work_;
  const cost::SyncRule& rule_;
  std::vector<TracedLayer> layers_;
  std::vector<int> numbers_;  // of these in the model
  bool overlaps_ = false;
  bool gathers_layers_ = false;    // weights are gathered layer by layer, in every pass
  bool scatters_between_ = false;  // the optimizer's state is divided over all replicas
  groups::ZeroDegrees replicas_;   // so many
  bool gathers_first_ = false;     // weights are gathered in the first forward instead of after the optimizer
  schedule::Order order_;
  std::vector<Visit> visits_;
  std::vector<TraceNode> nodes_;
  Ids front_;              // what the next compute waits for
  Ids beside_;             // exchanges that run beside the next compute
  Ids gathered_;           // weights of the next layer
  std::vector<Ids> last_;  // by group
  std::vector<Ids> ends_;  // front at the end of every pass
  std::vector<int> late_;  // layers whose gradients are exchanged after all passes
  double exact_us_ = 0;
  std::int64_t written_us_ = 0;
  double joined_flops_ = 0, joined_bytes_ = 0;  // of work that is in no node yet
};

}  // namespace

TracePlan::TracePlan(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages)
    : job_(job),
      strategy_(strategy),
      stages_(stages),
      work_(simulate::plan_work(job, strategy, stages)),
      table_(cost::price_table(job, strategy.split, strategy.micro_batch, cost::treatments_of(stages))),
      chain_(schedule::rule_of(strategy.schedule), plan::pipeline_shape(strategy, job.run.global_batch)),
      rule_(cost::sync_rule(job, strategy.pp)),
      context_(job, strategy.split, table_.treatments) {}

std::vector<TracedLayer> TracePlan::layers_of(std::int64_t stage) const {
  const StagePlan& plan = stages_[at(stage)];
  const bool defers = cost::defers_head(job_.stack, strategy_);
  std::vector<TracedLayer> layers;
  bool embeds = false, predicts = false;
  const cost::StageTreatment treated =
      cost::stage_treatment(table_.treatments, plan.recompute, plan::chunks_per_run(plan, strategy_.virtual_stages));
  for (const ChunkPlan& run : plan::runs_of(plan)) {
    std::int64_t block = 0;
    for (int i = run.first; i <= run.last; ++i) {
      const std::size_t kind = at(job_.model.layers[at(i)]);
      const model::LayerKind what = job_.model.kinds[kind].kind;
      const int treatment = what == model::LayerKind::block ? treated.of_block(block++) : cost::kNothing;
      layers.push_back(trace_layer(job_, i, strategy_.split, strategy_.micro_batch, context_, table_.kinds[kind],
                                   treatment, defers));
      embeds = embeds || what == model::LayerKind::embedding;
      // A table that several share is exchanged once.
      const bool again = job_.model.kinds[kind].mtp, heads = what == model::LayerKind::head;
      if (again) layers.back().dense_parameters -= static_cast<double>(table_.repeated_parameters(embeds, true, false));
      if (heads && (embeds || predicts)) layers.back().dense_parameters -= static_cast<double>(table_.tied_parameters);
      predicts = predicts || again;
    }
  }
  return layers;
}

std::vector<TraceNode> TracePlan::stage(std::int64_t stage) const {
  return StageProgram(job_, strategy_, stages_[at(stage)], stage, work_, chain_, rule_, layers_of(stage)).run();
}

double TracePlan::node_bound(std::int64_t stage) const {
  const simulate::StageWork& work = work_.stages[at(stage)];
  const auto state = static_cast<double>(work.in_forward.calls.size() + work.in_backward.calls.size());
  const auto once = static_cast<double>(work.reduce.calls.size() + work.gather.calls.size());
  double nodes = 2.0 * 2.0 * static_cast<double>(strategy_.virtual_stages);  // a message in and out of every pass
  double last = 3;                                                           // head gradient, optimizer, overhead
  for (const TracedLayer& layer : layers_of(stage)) {
    nodes += static_cast<double>(layer.forward.size() + layer.again.size() + layer.backward.size()) + state;
    nodes += layer.deferred_s > 0 ? 1 : 0;
    last += once;
  }
  return static_cast<double>(work_.micro_batches) * nodes + last;
}

}  // namespace nest::exporter
