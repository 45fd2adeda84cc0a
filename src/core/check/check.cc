#include "check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/checked.h"
#include "base/units.h"
#include "check/chunk_order.h"
#include "check/claims.h"
#include "check/held_tables.h"
#include "check/levels.h"
#include "split/local_layer.h"

namespace nest::check {
namespace {

class Judge {
 public:
  Judge(const Plan& plan, const model::Model& model, const cluster::Cluster& cluster, const StateFloor& state,
        const ListedDevices& listed)
      : plan_(plan), s_(plan.strategy), model_(model), cluster_(cluster), state_(state), listed_(listed) {}

  std::vector<Violation> run() {
    check_layers();
    check_schedule();
    check_split();
    check_devices();
    check_batch();
    check_sharding();
    // Memory and time need a plan whose shape is sound.
    if (violations_.empty()) {
      check_memory();
      check_time();
      check_claims();
    }
    std::stable_sort(violations_.begin(), violations_.end(),
                     [](const auto& a, const auto& b) { return a.code < b.code; });
    return std::move(violations_);
  }

  std::vector<double> floors() const {
    std::vector<double> bytes;
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) bytes.push_back(memory_floor(s));
    return bytes;
  }

 private:
  void report(ViolationCode code, std::string text) { violations_.push_back({code, std::move(text)}); }

  const model::Layer& layer(std::size_t position) const {
    return model_.kinds[static_cast<std::size_t>(model_.layers[position])];
  }

  bool lists_chunks() const { return plan::lists_chunks(plan_.stages); }

  void check_layers() {
    if (static_cast<std::int64_t>(plan_.stages.size()) != s_.pp) {
      report(ViolationCode::stage_count, fmt::format("{} stages are listed and pp is {}", plan_.stages.size(), s_.pp));
    }
    const int layers = static_cast<int>(model_.layers.size());
    std::vector<int> holder(model_.layers.size(), -1);
    int expected = 0;
    for (const auto& [s, run] : runs_in_order(plan_)) {
      const auto [first, last] = std::pair(run.first, run.last);
      const bool none = lists_chunks() && last + 1 == first;  // an empty chunk
      if (first < 0 || last >= layers || (first > last && !none)) {
        report(ViolationCode::layer_range,
               fmt::format("stage {} names layers {} … {}; the model has 0 … {}", s, first, last, layers - 1));
        continue;
      }
      if (first < expected)
        report(ViolationCode::layer_order,
               fmt::format("stage {} starts at layer {}, before layer {}", s, first, expected));
      expected = last + 1;
      bool told = false;  // once per stage
      for (int i = first; i <= last; ++i) {
        int& held = holder[static_cast<std::size_t>(i)];
        if (held >= 0 && !told) {
          report(ViolationCode::layer_twice, fmt::format("layer {} is in stages {} and {}", i, held, s));
          told = true;
        }
        held = static_cast<int>(s);
      }
    }
    const auto missing = std::find(holder.begin(), holder.end(), -1);
    if (missing != holder.end()) {
      report(ViolationCode::layer_missing, fmt::format("layer {} is in no stage", missing - holder.begin()));
    }
  }

  void check_schedule() {
    const bool folded = is_v(s_.schedule);
    const bool interleaved = s_.schedule == Schedule::interleaved || folded;
    if (interleaved != (s_.virtual_stages > 1) || (folded && s_.virtual_stages != 2)) {
      report(ViolationCode::virtual_stages,
             fmt::format("schedule {} with {} virtual stages", to_string(s_.schedule), s_.virtual_stages));
    }
    const std::int64_t m = micro_batches(s_, plan_.run.global_batch);
    if (s_.schedule == Schedule::dualpipev && m < 2 * s_.pp) {
      report(ViolationCode::virtual_stages, fmt::format("{} micro-batches are too few for {} stages", m, s_.pp));
    }
    if (s_.group != 0) {
      const std::int64_t last = m % s_.group;
      if (s_.schedule != Schedule::interleaved || s_.group < s_.pp || s_.group > m || (last > 0 && last < s_.pp)) {
        report(ViolationCode::virtual_stages,
               fmt::format("groups of {} of {} micro-batches on {} stages under schedule {}", s_.group, m, s_.pp,
                           to_string(s_.schedule)));
      }
    }
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const std::size_t listed = plan_.stages[s].chunks.size();
      if (lists_chunks() ? static_cast<std::int64_t>(listed) != s_.virtual_stages : listed > 0) {
        report(ViolationCode::virtual_stages,
               fmt::format("stage {} lists {} chunks for {} virtual stages", s, listed, s_.virtual_stages));
      }
    }
    if (!interleaved) return;
    if (s_.pp < 2) report(ViolationCode::virtual_stages, "interleaving needs at least two stages");
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      if (lists_chunks()) break;
      const std::int64_t held = plan_.stages[s].last - plan_.stages[s].first + 1;
      if (held < s_.virtual_stages) {
        report(ViolationCode::virtual_stages,
               fmt::format("stage {} has {} layers for {} virtual stages", s, held, s_.virtual_stages));
      }
    }
  }

  void check_split() {
    const std::int64_t tp = s_.split.tp, ep = s_.split.ep, etp = expert_tensor();
    std::set<std::string> seen;  // one line per fact, not per layer kind
    const auto once = [&](ViolationCode code, const std::string& text) {
      if (seen.insert(text).second) report(code, text);
    };
    bool experts = false;
    for (const model::Layer& kind : model_.kinds) {
      const bool whole = split::stays_whole(kind, s_.split);
      for (const model::Operator& op : kind.operators) {
        if (op.kind != model::OperatorKind::attention || op.attention.heads.axis == model::Axis::none || whole)
          continue;
        const auto [heads, kv] = std::pair(op.attention.heads.size, op.attention.kv_heads.size);
        if (heads % tp != 0) once(ViolationCode::split_heads, fmt::format("tp {} does not divide {} heads", tp, heads));
        // All-to-alls of contexts hand every rank some of its tensor group's heads.
        const std::int64_t traders = s_.split.cp_comm == ContextExchange::a2a       ? s_.split.cp
                                     : s_.split.cp_comm == ContextExchange::a2a_p2p ? s_.split.cp_inner
                                                                                    : 1;
        if (traders > 1 && (heads % (tp * traders) != 0 || kv % (tp * traders) != 0)) {
          once(ViolationCode::split_heads,
               fmt::format("tp {} with {} ranks that trade heads does not divide {} and {}", tp, traders, heads, kv));
        }
        if (kv % tp != 0 && tp % kv != 0)
          once(ViolationCode::split_heads, fmt::format("tp {} and {} key/value heads do not divide", tp, kv));
      }
      for (const model::Tensor& tensor : kind.tensors) {
        for (const model::Extent& extent : tensor.width) {
          const std::int64_t parts = extent.axis == model::Axis::ffn          ? tp
                                     : extent.axis == model::Axis::expert_ffn ? etp
                                                                              : 1;
          if (!whole && extent.size % parts != 0)
            once(ViolationCode::split_width, fmt::format("{} does not divide width {}", parts, extent.size));
        }
      }
      experts |= kind.experts > 0;
      if (kind.experts > 0 && kind.experts % ep != 0) {
        once(ViolationCode::split_experts, fmt::format("ep {} does not divide {} experts", ep, kind.experts));
      }
    }
    if (!experts && ep > 1) report(ViolationCode::split_experts, fmt::format("ep {} on a model without experts", ep));
    if (experts && tp > 1 && !s_.split.sp)
      report(ViolationCode::split_experts, fmt::format("experts with tp {} and without sp", tp));
    const std::int64_t sequence = plan_.run.sequence, inner = s_.split.cp_inner;
    if (inner != 1 && (s_.split.cp_comm != ContextExchange::a2a_p2p || inner < 1 || s_.split.cp % inner != 0)) {
      report(ViolationCode::split_sequence, fmt::format("{} of {} context ranks trade heads, and exchange by {}", inner,
                                                        s_.split.cp, to_string(s_.split.cp_comm)));
    }
    if (s_.split.cp > 1 && sequence % (2 * s_.split.cp) != 0) {
      report(ViolationCode::split_sequence,
             fmt::format("2 x cp {} does not divide the sequence {}", s_.split.cp, sequence));
    }
    if (s_.split.sp && (tp == 1 || sequence / s_.split.cp % tp != 0)) {
      report(ViolationCode::split_sequence,
             fmt::format("sp needs tp > 1 that divides {}; tp is {}", sequence / s_.split.cp, tp));
    }
  }

  void check_devices() {
    if (s_.dp % s_.dp_inner != 0) {
      report(ViolationCode::replica_groups, fmt::format("dp_inner {} does not divide dp {}", s_.dp_inner, s_.dp));
      return;
    }
    const std::int64_t block = s_.split.tp * s_.split.cp * s_.dp_inner;
    if (block % expert_set() != 0) {
      report(ViolationCode::expert_groups, fmt::format("etp {} x ep {} does not divide the {} devices of a block",
                                                       expert_tensor(), s_.split.ep, block));
    }
    if (s_.effective_pitch() < s_.pipeline_block() && s_.dp > s_.dp_inner) {
      report(ViolationCode::device_twice,
             fmt::format("pipelines of {} devices start every {}", s_.pipeline_block(), s_.effective_pitch()));
    }
    if (s_.devices_spanned() > cluster_.devices) {
      report(ViolationCode::device_count,
             fmt::format("the last rank sits on device {} of {}", s_.devices_spanned() - 1, cluster_.devices));
    }
    check_listed();
  }

  void check_listed() {
    const std::size_t stages = std::min(listed_.size(), plan_.stages.size());
    for (std::size_t s = 0; s < stages; ++s) {
      const auto& devices = listed_[s];
      if (devices.empty()) continue;
      const std::int64_t replica = s_.split.tp * s_.split.cp;
      const bool whole_sets = replica * s_.dp_inner % expert_set() == 0;
      const auto ranks = static_cast<std::size_t>(whole_sets ? std::lcm(replica, expert_set()) : replica);
      if (devices.size() != ranks) {
        report(ViolationCode::device_list,
               fmt::format("stage {} lists {} devices for {} ranks", s, devices.size(), ranks));
        continue;
      }
      for (std::size_t q = 0; q < ranks; ++q) {
        const std::int64_t place =
            device_of(s_, 0, static_cast<std::int64_t>(s), 0) + static_cast<std::int64_t>(q);  // neighbours
        if (devices[q] == place) continue;
        report(ViolationCode::device_list,
               fmt::format("stage {} lists device {} for rank {}, whose place is device {}", s, devices[q], q, place));
        break;  // once per stage
      }
    }
  }

  void check_batch() {
    const std::int64_t ranks = s_.dp;
    if (s_.micro_batch * (ranks - 1) >= plan_.run.global_batch) {
      report(ViolationCode::batch_idle, fmt::format("{} sequences leave some of {} ranks without a micro-batch of {}",
                                                    plan_.run.global_batch, ranks, s_.micro_batch));
    }
  }

  // Ranks that hold the same weights of a stage: of the tp cp dp ranks in all, tp hold different dense ones and etp ep
  // different experts.
  std::int64_t dense_group() const { return s_.dp * s_.split.cp; }
  std::int64_t expert_tensor() const { return s_.split.etp > 0 ? s_.split.etp : s_.split.tp; }
  // Neighbouring ranks that hold one set of routed experts; of a model without any, those that hold its layers.
  std::int64_t expert_set() const {
    const bool experts = std::any_of(model_.kinds.begin(), model_.kinds.end(),
                                     [](const model::Layer& kind) { return kind.experts > 0; });
    return experts ? expert_tensor() * s_.split.ep : s_.split.tp;
  }
  double expert_group() const {
    return static_cast<double>(s_.split.tp * s_.split.cp * s_.dp) / static_cast<double>(expert_tensor() * s_.split.ep);
  }

  void check_sharding() {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const StagePlan& stage = plan_.stages[s];
      if (stage.zero > 0 && (stage.zero_degree < 1 || dense_group() % stage.zero_degree != 0)) {
        report(ViolationCode::zero_degree,
               fmt::format("stage {}: degree {} does not divide the data-parallel group of {}", s, stage.zero_degree,
                           dense_group()));
      }
      if (stage.zero_outer && (stage.zero != 3 || stage.zero_degree >= dense_group())) {
        report(ViolationCode::zero_degree,
               fmt::format("stage {}: optimizer state over all {} ranks needs ZeRO 3 over fewer, not ZeRO {} over {}",
                           s, dense_group(), stage.zero, stage.zero_degree));
      }
    }
  }

  // Bytes that must be there at once, whatever the allocator does.
  double memory_floor(std::size_t index) const {
    const StagePlan& stage = plan_.stages[index];
    const split::RunShape shape{s_.micro_batch, plan_.run.sequence, plan_.run.encoder_sequence, 1.0};
    double dense = 0;
    double expert = 0;
    double frozen_dense = 0, frozen_expert = 0;
    std::vector<double> kept_by_run;
    std::set<std::string> tables;  // that several layers share
    const model::Implementation implementation{.kept_input_bytes = state_.kept_input_bytes,
                                               .kept_attention_bytes = state_.kept_attention_bytes};
    for (const ChunkPlan& run : plan::runs_of(stage)) {
      double& kept = kept_by_run.emplace_back(0);
      for (int i = run.first; i <= run.last; ++i) {
        const split::LocalLayer local =
            split::localise(layer(static_cast<std::size_t>(i)), shape, s_.split, implementation);
        const HeldTables already = held_already(local, tables);
        dense += static_cast<double>(local.dense_parameters - already.trained);
        expert += static_cast<double>(local.expert_parameters);
        frozen_dense += static_cast<double>(local.frozen_dense - already.frozen);
        frozen_expert += static_cast<double>(local.frozen_expert);
        // What stacks recompute selectively differs; the layer's input is kept by all of them.
        if (state_.activations && layer(static_cast<std::size_t>(i)).kind == model::LayerKind::block) {
          const double inputs = local.saved.full / std::max(1, stage.recompute.layers);
          const double away = local.saved.none_host.freed;
          // Of an input that waits on the host nothing is here.
          const double some = s_.split.offload == 0 ? inputs : 0;
          kept += stage.recompute == Recompute::none ? local.saved.none - away : some;
        }
      }
    }
    const auto at = static_cast<std::int64_t>(index);
    const double degree = static_cast<double>(stage.zero_degree);
    const double share = degree / static_cast<double>(dense_group());
    const double expert_degree = std::max(1.0, share * expert_group());
    const auto held = [&](double bytes, int from_zero) {
      return stage.zero >= from_zero ? bytes * (dense / degree + expert / expert_degree) : bytes * (dense + expert);
    };
    const double spread = dense / static_cast<double>(dense_group()) + expert / std::max(1.0, expert_group());
    const double optimizer = stage.zero_outer ? state_.optimizer * spread : held(state_.optimizer, 1);
    // What is not trained is there in few bits at least, shared where weights are.
    const double few =
        model_.frozen_matrix_bytes > 0 ? std::min(model_.frozen_matrix_bytes, state_.weights) : state_.weights;
    const double frozen =
        few * (stage.zero >= 3 ? frozen_dense / degree + frozen_expert / expert_degree : frozen_dense + frozen_expert);
    return held(state_.weights, 3) + held(state_.gradients, 2) + optimizer + frozen +
           held_bytes(plan_, at, kept_by_run);
  }

  void check_memory() {
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const double floor = memory_floor(s);
      if (floor > static_cast<double>(cluster_.device.memory_bytes)) {
        report(ViolationCode::memory,
               fmt::format("stage {} needs at least {} of {}", s, format_bytes(std::llround(floor)),
                           format_bytes(cluster_.device.memory_bytes)));
      }
      const StageMemory& m = plan_.stages[s].memory;
      const std::int64_t sum = m.weights + m.gradients + m.optimizer + m.activations + m.working + m.buffers;
      if (m.total > 0 && std::llabs(sum - m.total) > 8) {
        report(ViolationCode::memory_sum,
               fmt::format("stage {}: parts sum to {} bytes, {} are claimed", s, sum, m.total));
      }
    }
  }

  void check_time() {
    const Prediction& p = plan_.prediction;
    if (plan_.executed) check_totals(*plan_.executed);
    // A plan that claims nothing of its time is not judged by it; one that claims anything claims a time.
    const bool claims = p.samples_per_s > 0 || p.tokens_per_s_per_device > 0 || p.flops_per_s_per_device > 0 ||
                        p.mfu > 0 || p.spread > 0 ||
                        std::any_of(kBreakdownParts.begin(), kBreakdownParts.end(),
                                    [&](const BreakdownPart& part) { return p.breakdown_s.*part.seconds > 0; }) ||
                        std::any_of(plan_.stages.begin(), plan_.stages.end(),
                                    [](const StagePlan& stage) { return stage.time.total > 0; });
    if (p.iteration_s <= 0 && !claims) return;
    check_totals(p);
    if (p.iteration_s <= 0) return;
    const Prediction::Breakdown& b = p.breakdown_s;
    double total = 0;
    double slowest = 0;
    double waits = 0;  // of the slowest stage, for messages
    for (const StagePlan& stage : plan_.stages) {
      total += stage.time.total;
      if (stage.time.total > slowest) waits = stage.time.p2p;
      slowest = std::max(slowest, stage.time.total);
      double chunks_s = 0;
      for (const ChunkPlan& chunk : stage.chunks) chunks_s += chunk.forward_s + chunk.backward_s;
      if (!stage.chunks.empty() && differs(chunks_s, stage.time.total)) {
        report(ViolationCode::time_sum,
               fmt::format("a stage's chunks take {} s, {} s are claimed", chunks_s, stage.time.total));
      }
    }
    const auto m = static_cast<double>(micro_batches(s_, plan_.run.global_batch));
    // How much of the bubble weight gradients fill does not follow from whole stages: it is no less than nothing.
    const bool fills = s_.pp > 1 && (is_v(s_.schedule) || s_.schedule == Schedule::zb_h1);
    double bubble = fills ? std::max(0.0, b.bubble) : (total - slowest) / static_cast<double>(s_.virtual_stages);
    if (lists_chunks()) bubble = played_s(plan_) - m * slowest;
    // Nor what messages add that hide in a full pipeline only, of several chunks: it is no less than nothing either, and
    // told with the messages.
    const double filling = s_.virtual_stages > 1 ? std::max(0.0, b.p2p - m * waits) : 0;
    const double law = m * slowest + bubble + filling + b.grad_sync + b.optimizer + b.other;
    if (slowest > 0 && differs(law, p.iteration_s)) {
      report(ViolationCode::time_law, fmt::format("stages give {} s, {} s are claimed", law, p.iteration_s));
    }
    check_level_times();
  }

  void check_claims() {
    const Report into = [this](ViolationCode code, std::string text) { report(code, std::move(text)); };
    judge_memory_claims(plan_, cluster_, floors(), into);
    judge_time_claims(plan_, into);
    judge_search_claims(plan_, into);
    judge_parameters(plan_, model_, into);
    for (const Prediction* p : {&plan_.prediction, plan_.executed ? &*plan_.executed : nullptr}) {
      if (p != nullptr && p->iteration_s > 0) judge_work_claims(plan_, *p, model_, cluster_, into);
    }
  }

  // Of the formula's prediction as of an execution's.
  void check_totals(const Prediction& p) {
    if (p.iteration_s <= 0) {
      report(ViolationCode::time_peak, fmt::format("{} s are claimed for a step", p.iteration_s));
      return;
    }
    double sum = 0;
    for (const BreakdownPart& part : kBreakdownParts) sum += p.breakdown_s.*part.seconds;
    if (differs(sum, p.iteration_s)) {
      report(ViolationCode::time_sum, fmt::format("parts sum to {} s, {} s are claimed", sum, p.iteration_s));
    }
    check_peak(p.iteration_s);
    const double samples = static_cast<double>(plan_.run.global_batch) / p.iteration_s;
    const double tokens = samples * static_cast<double>(plan_.run.sequence) / static_cast<double>(s_.devices_used());
    if (p.samples_per_s > 0 && differs(p.samples_per_s, samples)) {
      report(ViolationCode::throughput, fmt::format("{} samples/s are claimed, {} follow", p.samples_per_s, samples));
    }
    if (p.tokens_per_s_per_device > 0 && differs(p.tokens_per_s_per_device, tokens)) {
      report(ViolationCode::throughput,
             fmt::format("{} tokens/s/device are claimed, {} follow", p.tokens_per_s_per_device, tokens));
    }
  }

  void check_peak(double step_s) {
    const double least =
        least_device_seconds(plan_.run, model_, cluster_.device) / static_cast<double>(s_.devices_used());
    if (step_s < least) {
      report(ViolationCode::time_peak,
             fmt::format("{} s are claimed; peak arithmetic alone takes {} s", step_s, least));
    }
  }

  // A stage waits at least for one message from each neighbour, at the speed of the level between them; where tensor
  // ranks may send a share each, for that share. Interleaved schedules may hide any part of it.
  void check_level_times() {
    if (s_.pp < 2 || s_.virtual_stages > 1 || (cluster_.levels.empty() && !cluster_.torus)) return;
    const split::RunShape shape{s_.micro_batch, plan_.run.sequence, plan_.run.encoder_sequence, 1.0};
    const std::vector<double> bytes = split::cut_bytes(model_, shape, s_.split);
    const std::vector<BoundaryCrossing> boundaries = boundaries_crossed(s_, cluster_);
    std::vector<double> least(plan_.stages.size(), 0);
    for (const BoundaryCrossing& boundary : boundaries) {
      const auto from = static_cast<std::size_t>(boundary.from);
      const double sent =
          bytes[static_cast<std::size_t>(plan_.stages[from].last)] / static_cast<double>(s_.split.sp ? 1 : s_.split.tp);
      // On a torus pairs of one boundary differ by single hops, which hardly matter; a tree's level does.
      const std::int64_t way = cluster_.torus ? boundary.crossing.least : boundary.crossing.most;
      const double seconds = least_message_s(cluster_, way, sent);
      least[from] += seconds;
      least[from + 1] += seconds;
    }
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const StageTime& time = plan_.stages[s].time;
      if (time.total <= 0 || time.p2p >= least[s] * (1 - kTolerance)) continue;
      const std::size_t boundary = s + 1 < plan_.stages.size() ? s : s - 1;
      report(ViolationCode::time_level,
             fmt::format("stage {}: {} of messages are claimed; over {} they take at least {}, {} more", s,
                         format_duration(time.p2p), crossing_name(cluster_, boundaries[boundary].crossing),
                         format_duration(least[s]), format_duration(least[s] - time.p2p)));
    }
  }

  const Plan& plan_;
  const Strategy& s_;
  const model::Model& model_;
  const cluster::Cluster& cluster_;
  const StateFloor& state_;
  const ListedDevices& listed_;
  std::vector<Violation> violations_;
};

}  // namespace

double least_device_seconds(const Run& run, const model::Model& model, const cluster::Device& device) {
  const split::RunShape shape{1, run.sequence, run.encoder_sequence, 1.0};
  std::vector<double> of_kind;  // FLOPs of one sequence, forward and backward
  for (const model::Layer& kind : model.kinds) {
    const split::LocalLayer local = split::localise(kind, shape, {}, {});
    of_kind.push_back(local.flops_forward() + local.flops_backward());
  }
  double flops = 0;
  for (const int kind : model.layers) flops += of_kind[static_cast<std::size_t>(kind)];
  const double peak = std::max({device.peak(Precision::bf16), device.peak(Precision::fp16), device.peak(Precision::fp8),
                                device.peak(Precision::fp32)}) *
                      (run.precision == Precision::fp4 ? 3 : 1);
  return peak > 0 ? flops * static_cast<double>(run.global_batch) / peak : 0;
}

StateFloor state_floor(const Run& run) {
  StateFloor state;
  switch (run.optimizer) {
    case Optimizer::adam: break;
    case Optimizer::sgd:
    case Optimizer::muon: state.optimizer /= 2; break;
    case Optimizer::adam8bit: state.optimizer /= 4; break;
  }
  state.optimizer *= 1 - static_cast<double>(run.optimizer_offload) / 100;
  return state;
}

std::vector<Violation> check_plan(const Plan& plan, const model::Model& model, const cluster::Cluster& cluster,
                                  const StateFloor& state, const ListedDevices& listed) {
  return Judge(plan, model, cluster, state, listed).run();
}

std::vector<Violation> check_plan(const Plan& plan, const model::Model& model, const cluster::Cluster& cluster) {
  return check_plan(plan, model, cluster, state_floor(plan.run));
}

std::vector<double> memory_floors(const Plan& plan, const model::Model& model, const StateFloor& state) {
  return Judge(plan, model, {}, state, {}).floors();
}

const char* to_string(ViolationCode code) {
  switch (code) {
    case ViolationCode::stage_count: return "stage_count";
    case ViolationCode::layer_range: return "layer_range";
    case ViolationCode::layer_missing: return "layer_missing";
    case ViolationCode::layer_twice: return "layer_twice";
    case ViolationCode::layer_order: return "layer_order";
    case ViolationCode::virtual_stages: return "virtual_stages";
    case ViolationCode::split_heads: return "split_heads";
    case ViolationCode::split_width: return "split_width";
    case ViolationCode::split_experts: return "split_experts";
    case ViolationCode::split_sequence: return "split_sequence";
    case ViolationCode::device_count: return "device_count";
    case ViolationCode::device_twice: return "device_twice";
    case ViolationCode::device_list: return "device_list";
    case ViolationCode::replica_groups: return "replica_groups";
    case ViolationCode::expert_groups: return "expert_groups";
    case ViolationCode::batch_idle: return "batch_idle";
    case ViolationCode::zero_degree: return "zero_degree";
    case ViolationCode::memory: return "memory";
    case ViolationCode::memory_sum: return "memory_sum";
    case ViolationCode::time_sum: return "time_sum";
    case ViolationCode::time_law: return "time_law";
    case ViolationCode::time_peak: return "time_peak";
    case ViolationCode::time_level: return "time_level";
    case ViolationCode::throughput: return "throughput";
    case ViolationCode::memory_device: return "memory_device";
    case ViolationCode::memory_claims: return "memory_claims";
    case ViolationCode::stage_time: return "stage_time";
    case ViolationCode::breakdown: return "breakdown";
    case ViolationCode::work: return "work";
    case ViolationCode::lower_bound: return "lower_bound";
    case ViolationCode::parameters: return "parameters";
    case ViolationCode::repeated: return "repeated";
  }
  return "?";
}

}  // namespace nest::check
