#include "simulate/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "nest/option.h"
#include "plan/pipeline_shape.h"
#include "schedule/pipeline.h"
#include "schedule/sends.h"
#include "simulate/exchanges.h"

namespace nest::simulate {
namespace {

using Id = std::int32_t;
using schedule::Operation;
constexpr Id kNone = -1;

// One forward or backward of one class of replicas on one stage.
struct Pass {
  schedule::Operation operation;
  double seconds = 0;
  std::vector<Id> compute;  // pieces, one after the other
  Id done = kNone;
  Id free = kNone;  // when its stage may go on: where it waits until the output has arrived, a join with the message
};

struct Track {
  std::vector<Pass> passes;
  Id mark = kNone;      // activity after which the hidden gradient exchange may begin
  bool at_once = true;  // no such activity: with the step
};

class Lowering {
 public:
  Lowering(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages, std::int64_t steps,
           Merge merge, ExchangeCache& known)
      : kind_(strategy.schedule), pp_(strategy.pp), chunks_(strategy.virtual_stages) {
    plan_.steps = steps;
    plan_.work = plan_work(job, strategy, stages);
    shape_ = plan::pipeline_shape(strategy, job.run.global_batch);
    plan_.exchanges = known.get(strategy, plan_.work, schedule::Chain(schedule::rule_of(kind_), shape_), merge);
    classes_ = static_cast<Id>(plan_.symmetry().replica_classes());
    plan_.program.links = plan_.symmetry().links;
    plan_.program.routes = plan_.symmetry().routes;
  }

  LoweredPlan run() {
    refuse_size();
    pipeline_.emplace(kind_, shape_);
    Id begin = kNone;
    for (step_ = 0; step_ < plan_.steps; ++step_) begin = add_step(begin);
    return std::move(plan_);
  }

 private:
  void refuse_size() const {
    const double passes = (schedule::rule_of(kind_).is_split() ? 3.0 : 2.0) *
                          static_cast<double>(plan_.work.micro_batches * chunks_ * pp_) *
                          static_cast<double>(classes_) * static_cast<double>(plan_.steps);
    const bool routes = std::any_of(plan_.work.stages.begin(), plan_.work.stages.end(),
                                    [](const StageWork& stage) { return !stage.to_experts.empty(); });
    if (passes * (routes ? 6 : 3) <= static_cast<double>(kMostActivities)) return;
    throw InputError(
        fmt::format("{:.0f} passes of {} kinds of replicas are too many to simulate; fewer {} or a smaller "
                    "global batch would do",
                    passes, classes_, option("steps")));
  }

  Id add(SimulatedActivity activity, ActivityLabel label) {
    label.step = static_cast<std::int32_t>(step_);
    plan_.program.activities.push_back(std::move(activity));
    plan_.labels.push_back(label);
    return static_cast<Id>(plan_.labels.size()) - 1;
  }

  // A transfer of so much of an exchange, of one class of replicas.
  Id add_transfer(Id exchange, Id replicas, const Amount& amount, ActivityLabel label) {
    label.exchange = exchange;
    SimulatedActivity activity;
    const std::vector<ClassFlow>& flows = plan_.symmetry().flows[at(exchange)][at(replicas)];
    activity.flows.reserve(flows.size());
    for (const ClassFlow& flow : flows) {
      activity.flows.push_back({flow.route, amount.latencies * flow.latency_s, flow.bytes_of(amount)});
    }
    return add(std::move(activity), label);
  }

  void wait(Id activity, Id before) {
    if (before == kNone) return;
    std::vector<Id>& after = plan_.program.activities[at(activity)].after;
    if (std::find(after.begin(), after.end(), before) == after.end()) after.push_back(before);
  }
  void wait(Id activity, const std::vector<Id>& before) {
    for (const Id one : before) wait(activity, one);
  }

  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  Track& track(Id replicas, std::int64_t stage) { return tracks_[at(replicas * pp_ + stage)]; }
  const StageWork& work(std::int64_t stage) const { return plan_.work.stages[at(stage)]; }
  const ChunkShare& share(std::int64_t stage, const schedule::Operation& operation) const {
    return work(stage).chunks[at(operation.chunk)];
  }

  // --- passes

  double pass_seconds(std::int64_t stage, const schedule::Operation& operation) const {
    const StageWork& stage_work = work(stage);
    const ChunkShare& chunk = share(stage, operation);
    if (operation.is_forward()) return stage_work.forward_s * chunk.forward;
    const double weight_s = std::min(stage_work.weight_s, stage_work.backward_s);
    const double input_s = (stage_work.backward_s - weight_s) * chunk.backward;
    if (operation.pass == schedule::Pass::input_gradient) return input_s;
    double seconds = weight_s * chunk.weight + (operation.pass == schedule::Pass::backward ? input_s : 0);
    const bool puts_off = operation.micro_batch < plan_.work.put_off;
    if (operation.chunk == chunks_ - 1 && !puts_off) seconds += stage_work.head_gradient_s;
    return seconds;
  }

  Id add_compute(double seconds, const schedule::Operation& operation, std::int64_t stage, Id replicas) {
    ActivityLabel label;
    label.part = operation.is_forward() ? Part::forward : Part::backward;
    label.backward = !operation.is_forward();
    label.stage = static_cast<Id>(stage);
    label.replicas = replicas;
    label.micro_batch = operation.micro_batch;
    label.chunk = operation.chunk;
    return add({seconds, {}, {}}, label);
  }

  // The passes of one track, the one in which `hidden_s` of compute are left cut in two.
  void add_track(Id replicas, std::int64_t stage, double hidden_s) {
    Track& added = track(replicas, stage);
    added = {};
    for (const schedule::Operation& operation : pipeline_->order(stage)) {
      added.passes.push_back({operation, pass_seconds(stage, operation), {}, kNone});
    }
    double left_s = 0;
    std::size_t cut = added.passes.size();
    while (cut > 0 && left_s < hidden_s) left_s += added.passes[--cut].seconds;
    const double before_s = left_s - hidden_s;  // of the pass that is cut
    for (std::size_t k = 0; k < added.passes.size(); ++k) {
      Pass& pass = added.passes[k];
      const bool cuts = k == cut && before_s > 0 && hidden_s > 0;
      if (cuts) {
        pass.compute.push_back(add_compute(before_s, pass.operation, stage, replicas));
        added.mark = pass.compute.back();
        added.at_once = false;
      } else if (k == cut && k > 0 && hidden_s > 0) {
        added.mark = added.passes[k - 1].compute.back();
        added.at_once = false;
      }
      pass.compute.push_back(
          add_compute(cuts ? pass.seconds - before_s : pass.seconds, pass.operation, stage, replicas));
      for (std::size_t i = 1; i < pass.compute.size(); ++i) wait(pass.compute[i], pass.compute[i - 1]);
      pass.done = pass.compute.back();
    }
    if (cut < added.passes.size()) return;
    added.mark = added.passes.back().done;
    added.at_once = false;
  }

  std::size_t index_of(const schedule::Operation& operation) const {
    const std::int64_t pass = operation.is_forward() ? 0 : operation.pass == schedule::Pass::weight_gradient ? 2 : 1;
    return at((pass * plan_.work.micro_batches + operation.micro_batch) * chunks_ + operation.chunk);
  }

  const Pass& find_pass(Id replicas, std::int64_t stage, const schedule::Operation& operation) {
    return track(replicas, stage).passes[at(positions_[at(stage)][index_of(operation)])];
  }

  void index_passes() {
    positions_.assign(at(pp_), std::vector<std::int32_t>(at(3 * plan_.work.micro_batches * chunks_)));
    for (std::int64_t s = 0; s < pp_; ++s) {
      const auto& passes = track(0, s).passes;
      for (std::size_t k = 0; k < passes.size(); ++k) {
        positions_[at(s)][index_of(passes[k].operation)] = static_cast<std::int32_t>(k);
      }
    }
  }

  // --- messages

  double message_bytes(const schedule::Neighbour& source) const {
    return plan_.work.message_bytes(*pipeline_, source.link);
  }

  Id add_message(const schedule::Neighbour& source, std::int64_t stage, Id replicas) {
    ActivityLabel label;
    label.part = Part::message;
    label.hidden = plan_.work.sends.overlapped;
    label.backward = !source.operation.is_forward();
    label.stage = static_cast<Id>(stage);
    label.replicas = replicas;
    label.micro_batch = source.operation.micro_batch;
    label.chunk = source.operation.chunk;
    label.from_stage = static_cast<Id>(source.stage);
    return add_transfer(plan_.exchanges->message(source.stage, stage), replicas, {message_bytes(source)}, label);
  }

  // Of passes whose stage goes on when their message has arrived: the joins must be known before anything waits for them.
  void add_held_joins() {
    for (std::int64_t s = 0; s < pp_; ++s) {
      const std::vector<bool> held = schedule::held_sends(pipeline_->order(s), plan_.work.sends);
      for (Id c = 0; c < classes_; ++c) {
        std::vector<Pass>& passes = track(c, s).passes;
        for (std::size_t k = 0; k < passes.size(); ++k) {
          Pass& pass = passes[k];
          pass.free = pass.done;
          const std::optional<schedule::Neighbour> target = pipeline_->target(s, pass.operation);
          if (!held[k] || !target || target->stage == s || message_bytes(*target) <= 0) continue;
          ActivityLabel label;
          label.stage = static_cast<Id>(s);
          label.replicas = c;
          pass.free = add({}, label);
          wait(pass.free, pass.done);
        }
      }
    }
  }

  // When a stage asks for what pass k needs: its pass before in the same direction has ended.
  Id asked(Id replicas, std::int64_t stage, std::size_t k) {
    const std::vector<Pass>& passes = track(replicas, stage).passes;
    const bool forward = passes[k].operation.is_forward();
    while (k-- > 0) {
      const schedule::Operation& operation = passes[k].operation;
      if (operation.is_forward() == forward && operation.pass != schedule::Pass::weight_gradient) return passes[k].done;
    }
    return kNone;
  }

  // What a pass waits for: the one before on its track, and its message.
  std::vector<Id> inputs_of(Id replicas, std::int64_t stage, std::size_t k, Id before) {
    const Pass& pass = track(replicas, stage).passes[k];
    std::vector<Id> inputs;
    if (before != kNone) inputs.push_back(before);
    const std::optional<schedule::Neighbour> source = pipeline_->source(stage, pass.operation);
    if (!source) {
      // The last chunk's backward follows its own forward.
      if (pass.operation.pass != schedule::Pass::forward && pass.operation.pass != schedule::Pass::weight_gradient) {
        schedule::Operation forward = pass.operation;
        forward.pass = schedule::Pass::forward;
        inputs.push_back(find_pass(replicas, stage, forward).done);
      }
      return inputs;
    }
    const Id sent = find_pass(replicas, source->stage, source->operation).done;
    if (source->stage == stage || message_bytes(*source) <= 0) {
      inputs.push_back(sent);
      return inputs;
    }
    const Id message = add_message(*source, stage, replicas);
    wait(message, sent);
    if (!plan_.work.sends.overlapped) {
      wait(message, before);
      return {message};
    }
    const Pass& sender = find_pass(replicas, source->stage, source->operation);
    if (sender.free != sender.done) {
      wait(sender.free, message);
    } else {
      wait(message, asked(replicas, stage, k));
    }
    inputs.push_back(message);
    return inputs;
  }

  // --- exchanges of state

  // Plays `share` of the calls one after the other and returns the last; kNone when there is nothing to play.
  Id add_state(const StateTraffic& traffic, double share, std::int64_t stage, ActivityLabel label,
               const std::vector<Id>& after) {
    label.stage = static_cast<Id>(stage);
    Id last = kNone;
    const auto follow = [&](Id added) {
      if (last == kNone) {
        wait(added, after);
      } else {
        wait(added, last);
      }
      last = added;
    };
    if (share <= 0) return kNone;
    for (const StateCall& call : traffic.calls) {
      const std::vector<Id>& transfers = plan_.exchanges->state(stage, call);
      if (transfers.empty()) follow(add({share * call.predicted_s, {}, {}}, label));
      for (const Id exchange : transfers) follow(add_transfer(exchange, 0, amount_of(call, share), label));
    }
    return last;
  }

  // Weight gradients that are computed apart send nothing.
  const TokenTraffic& tokens(std::int64_t stage, const schedule::Operation& operation) const {
    static const TokenTraffic kNothing;
    if (operation.pass == schedule::Pass::weight_gradient) return kNothing;
    return operation.is_forward() ? work(stage).to_experts : work(stage).from_experts;
  }

  const StateTraffic& state(std::int64_t stage, const schedule::Operation& operation) const {
    static const StateTraffic kNothing;
    if (operation.pass == schedule::Pass::weight_gradient) return kNothing;
    return operation.is_forward() ? work(stage).in_forward : work(stage).in_backward;
  }

  // Plays `share` of a pass's tokens on one class of replicas.
  Id add_tokens(double share, std::int64_t stage, Id replicas, const schedule::Operation& operation, bool hidden,
                const std::vector<Id>& after) {
    ActivityLabel label;
    label.part = Part::tokens;
    label.hidden = hidden;
    label.backward = !operation.is_forward();
    label.stage = static_cast<Id>(stage);
    label.replicas = replicas;
    label.micro_batch = operation.micro_batch;
    label.chunk = operation.chunk;
    const std::vector<Id>& transfers = plan_.exchanges->tokens(stage, label.backward);
    std::vector<Id> before = after;
    if (transfers.empty()) {
      const Id delay = add({share * tokens(stage, operation).predicted_s, {}, {}}, label);
      wait(delay, before);
      return delay;
    }
    for (const Id exchange : transfers) {
      const Id added = add_transfer(exchange, replicas, amount_of(tokens(stage, operation), share), label);
      wait(added, before);
      before = {added};
    }
    return before.front();
  }

  // A pass after `inputs`, with its tokens before and beside it.
  void start_pass(std::int64_t stage, Id replicas, std::size_t k, const std::vector<Id>& inputs) {
    Pass& pass = track(replicas, stage).passes[k];
    const TokenTraffic& traffic = tokens(stage, pass.operation);
    const ChunkShare& own = share(stage, pass.operation);
    const double chunk = pass.operation.is_forward() ? own.to_experts : own.from_experts;
    std::vector<Id> ready = inputs;
    if (chunk * traffic.exposed_s() > 0) {
      ready = {add_tokens(chunk * traffic.exposed, stage, replicas, pass.operation, false, inputs)};
    }
    wait(pass.compute.front(), ready);
    if (chunk > 0 && hides_tokens(traffic)) {
      // Paired passes run as one: what is hidden may travel until the next one ends.
      const bool another = plan_.work.pairs_passes && k + 1 < track(replicas, stage).passes.size();
      wait(done_join(replicas, stage, another ? k + 1 : k),
           add_tokens(chunk * (1 - traffic.exposed), stage, replicas, pass.operation, true, ready));
    }
  }

  static bool hides_tokens(const TokenTraffic& traffic) { return !traffic.empty() && traffic.exposed < 1; }
  Id done_join(Id replicas, std::int64_t stage, std::size_t k) const {
    return done_joins_[at(replicas * pp_ + stage)][k];
  }

  // One pass of one stage on all classes of replicas, with what must happen before and beside it.
  void connect_passes(std::int64_t stage, std::size_t k, Id begin) {
    std::vector<std::vector<Id>> inputs;
    for (Id c = 0; c < classes_; ++c) {
      Track& on = track(c, stage);
      inputs.push_back(inputs_of(c, stage, k, k == 0 ? begin : on.passes[k - 1].free));
    }
    const schedule::Operation operation = track(0, stage).passes[k].operation;
    const StateTraffic& traffic = state(stage, operation);
    if (traffic.calls.empty()) {
      for (Id c = 0; c < classes_; ++c) start_pass(stage, c, k, inputs[at(c)]);
      return;
    }
    std::vector<Id> all;
    for (const auto& of_class : inputs) all.insert(all.end(), of_class.begin(), of_class.end());
    ActivityLabel label;
    label.part = Part::shard;
    label.backward = !operation.is_forward();
    label.micro_batch = operation.micro_batch;
    label.chunk = operation.chunk;
    const double chunk = share(stage, operation).state;
    const Id exposed = add_state(traffic, chunk * traffic.exposed, stage, label, all);
    label.hidden = true;
    const std::vector<Id> ready = exposed == kNone ? all : std::vector<Id>{exposed};
    const Id hidden = add_state(traffic, chunk * (1 - traffic.exposed), stage, label, ready);
    for (Id c = 0; c < classes_; ++c) {
      start_pass(stage, c, k, exposed == kNone ? inputs[at(c)] : ready);
      wait(done_join(c, stage, k), hidden);
    }
  }

  // Where state or tokens are exchanged beside compute, a pass is done when both are: the joins must be known before anything
  // waits for them.
  void add_done_joins() {
    done_joins_.assign(at(classes_ * pp_), {});
    for (Id c = 0; c < classes_; ++c) {
      for (std::int64_t s = 0; s < pp_; ++s) {
        std::vector<Id>& joins = done_joins_[at(c * pp_ + s)];
        joins.assign(track(c, s).passes.size(), kNone);
        for (std::size_t k = 0; k < joins.size(); ++k) {
          Pass& pass = track(c, s).passes[k];
          const StateTraffic& traffic = state(s, pass.operation);
          if (traffic.calls.empty() && !hides_tokens(tokens(s, pass.operation))) continue;
          ActivityLabel label;
          label.stage = static_cast<Id>(s);
          label.replicas = c;
          const Id join = add({}, label);
          wait(join, pass.done);
          pass.done = join;
          joins[k] = join;
        }
      }
    }
  }

  // --- one step

  Id add_delay(double seconds, Part part, std::int64_t stage, const std::vector<Id>& after) {
    ActivityLabel label;
    label.part = part;
    label.stage = static_cast<Id>(stage);
    const Id delay = add({seconds, {}, {}}, label);
    wait(delay, after);
    return delay;
  }

  // Gradients of one stage; returns what must have ended before the optimizer may start anywhere.
  std::vector<Id> add_reduce(std::int64_t stage, Id begin) {
    const StageWork& stage_work = work(stage);
    std::vector<Id> marks;
    std::vector<Id> ends;
    for (Id c = 0; c < classes_; ++c) {
      const Track& on = track(c, stage);
      marks.push_back(on.at_once ? begin : on.mark);
      ends.push_back(on.passes.back().done);
    }
    if (stage_work.head_gradient_s > 0) {
      const double seconds = static_cast<double>(plan_.work.put_off) * stage_work.head_gradient_s;
      ends = {add_delay(seconds, Part::head_gradient, stage, ends)};
    }
    ActivityLabel label;
    label.part = Part::reduce;
    label.hidden = true;
    const Id hidden = add_state(stage_work.reduce, 1 - stage_work.reduce.exposed, stage, label, marks);
    if (hidden != kNone) ends.push_back(hidden);
    label.hidden = false;
    const Id exposed = add_state(stage_work.reduce, stage_work.reduce.exposed, stage, label, ends);
    return exposed == kNone ? ends : std::vector<Id>{exposed};
  }

  Id add_step(Id begin) {
    tracks_.assign(at(classes_ * pp_), {});
    for (Id c = 0; c < classes_; ++c) {
      for (std::int64_t s = 0; s < pp_; ++s) {
        const StateTraffic& reduce = work(s).reduce;
        const bool after_all = plan_.work.aligned_gradients && s > 0;
        add_track(c, s, after_all ? 0 : (1 - reduce.exposed) * reduce.predicted_s());
      }
    }
    index_passes();
    add_done_joins();
    add_held_joins();
    for (std::int64_t s = 0; s < pp_; ++s) {
      for (std::size_t k = 0; k < track(0, s).passes.size(); ++k) connect_passes(s, k, begin);
    }
    std::vector<Id> ends;
    std::vector<Id> reduced;
    for (std::int64_t s = 0; s < pp_; ++s) {
      const StateTraffic& gather = work(s).gather;
      ActivityLabel label;
      label.part = Part::gather;
      label.hidden = true;
      const Id hidden = add_state(gather, 1 - gather.exposed, s, label, {begin});
      if (hidden != kNone) ends.push_back(hidden);
      const std::vector<Id> ready = add_reduce(s, begin);
      reduced.insert(reduced.end(), ready.begin(), ready.end());
    }
    const Id norm = add_delay(0, Part::join, -1, reduced);
    for (std::int64_t s = 0; s < pp_; ++s) {
      const Id update = add_delay(work(s).optimizer_s, Part::optimizer, s, {norm});
      ActivityLabel label;
      label.part = Part::gather;
      const Id gathered = add_state(work(s).gather, work(s).gather.exposed, s, label, {update});
      ends.push_back(gathered == kNone ? update : gathered);
    }
    return add_delay(plan_.work.step_s, Part::overhead, -1, ends);
  }

  Schedule kind_;
  std::int64_t pp_;
  std::int64_t chunks_;
  schedule::Shape shape_;
  std::optional<schedule::Pipeline> pipeline_;
  LoweredPlan plan_;
  Id classes_ = 1;
  std::int64_t step_ = 0;
  std::vector<Track> tracks_;                         // class by class
  std::vector<std::vector<std::int32_t>> positions_;  // of every pass in the order of its stage
  std::vector<std::vector<Id>> done_joins_;           // by track and pass
};

}  // namespace

void refuse_ranks(const Strategy& strategy) {
  if (strategy.devices_used() <= kMostRanks) return;
  throw InputError(fmt::format("{} ranks are too many to simulate; up to {} would do",
                               format_integer(strategy.devices_used()), format_integer(kMostRanks)));
}

LoweredPlan lower_plan(const cost::Job& job, const Strategy& strategy, const std::vector<StagePlan>& stages,
                       std::int64_t steps, Merge merge, ExchangeCache* known) {
  refuse_ranks(strategy);
  if (known != nullptr) return Lowering(job, strategy, stages, steps, merge, *known).run();
  ExchangeCache none(job.cluster);
  return Lowering(job, strategy, stages, steps, merge, none).run();
}

const char* to_string(Part part) {
  constexpr std::array kNames = {"forward", "backward", "head gradient", "message",  "tokens", "shard",
                                 "reduce",  "gather",   "optimizer",     "overhead", "join"};
  return kNames[static_cast<std::size_t>(part)];
}

}  // namespace nest::simulate
