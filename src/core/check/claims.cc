#include "check/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/units.h"
#include "check/chunk_order.h"
#include "check/held_tables.h"
#include "split/local_layer.h"

namespace nest::check {
namespace {

// Of a precision whose own peak counts, or from 16 bits on of the 16-bit peak.
double counted_peak(const cluster::Device& device, Precision precision) {
  switch (precision) {
    case Precision::fp8: return device.peak(Precision::fp8);
    case Precision::fp4: return device.peak(Precision::fp8) * device.efficiency_of("fp4_peak").value_or(0);
    default: break;
  }
  const double bf16 = device.peak(Precision::bf16);
  return bf16 > 0 ? bf16 : device.peak(Precision::fp16);
}

void judge_stage_memory(const Plan& plan, std::size_t s, double floor, double room, const Report& report) {
  const StageMemory& m = plan.stages[s].memory;
  const auto bytes = [](auto count) { return format_bytes(static_cast<std::int64_t>(count)); };
  if (m.total > 0) {
    // What the allocator holds beyond live tensors it gives back before it fails: it need not fit.
    const std::int64_t live = m.weights + m.gradients + m.optimizer + m.activations + m.working;
    if (static_cast<double>(live) > room) {
      report(ViolationCode::memory_device,
             fmt::format("stage {} claims {} of tensors on a device of {}", s, bytes(live), bytes(room)));
    }
    if (static_cast<double>(m.total) < floor * (1 - kTolerance)) {
      report(ViolationCode::memory_device,
             fmt::format("stage {} claims {}, less than the {} that it needs", s, bytes(m.total), bytes(floor)));
    }
  }
  if (m.needed > 0) {
    const auto needed = static_cast<double>(m.needed);
    if (needed < floor * (1 - kTolerance)) {
      report(ViolationCode::memory_device,
             fmt::format("stage {} claims to need {}, less than {}", s, bytes(m.needed), bytes(floor)));
    }
    if (plan.fits && needed > room) {
      report(ViolationCode::memory_device,
             fmt::format("stage {} claims to need {} with its margin, and to fit {}", s, bytes(m.needed), bytes(room)));
    }
  }
  if (m.total > 0 && m.allocated > m.total) {
    report(ViolationCode::memory_claims,
           fmt::format("stage {} claims {} of live tensors, and to hold {}", s, bytes(m.allocated), bytes(m.total)));
  }
  if (m.total == 0 || m.in_flight == 0 || plan::lists_chunks(plan.stages)) return;
  const double least = in_flight(plan, static_cast<std::int64_t>(s));
  // Of chunks one more, where stacks compute one while tokens of another travel; what v_half and v_min hold has no closed
  // form.
  const auto v = static_cast<double>(plan.strategy.virtual_stages);
  const bool known = plan.strategy.schedule != Schedule::v_half && plan.strategy.schedule != Schedule::v_min;
  const double most = known ? least + (v > 1 ? 1 / v : 0)
                            : std::max(least, static_cast<double>(micro_batches(plan.strategy, plan.run.global_batch)));
  if (m.in_flight < least * (1 - kTolerance) || m.in_flight > most * (1 + kTolerance)) {
    report(ViolationCode::memory_claims,
           fmt::format("stage {} claims {} micro-batches in flight; the schedule holds {}", s, m.in_flight, least));
  }
}

}  // namespace

bool differs(double claimed, double expected) {
  return !(std::abs(claimed - expected) <= kTolerance * std::max({std::abs(claimed), std::abs(expected), 1e-12}));
}

void judge_memory_claims(const Plan& plan, const cluster::Cluster& cluster, const std::vector<double>& floors,
                         const Report& report) {
  const auto room = static_cast<double>(cluster.device.memory_bytes);
  std::int64_t fullest = 0;
  bool all_needed = true, all_fit = true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    judge_stage_memory(plan, s, floors[s], room, report);
    const StageMemory& memory = plan.stages[s].memory;
    fullest = std::max(fullest, memory.total);
    all_needed = all_needed && memory.needed > 0;
    all_fit = all_fit && static_cast<double>(memory.needed) <= room;
  }
  if (all_needed && all_fit && !plan.fits) {
    report(ViolationCode::memory_claims, "the plan claims not to fit, and every stage fits as it claims");
  }
  for (const Prediction* p : {&plan.prediction, plan.executed ? &*plan.executed : nullptr}) {
    if (p == nullptr || p->peak_memory_bytes == 0 || p->peak_memory_bytes == fullest) continue;
    report(ViolationCode::memory_claims, fmt::format("a peak of {} is claimed; the fullest stage claims {}",
                                                     format_bytes(p->peak_memory_bytes), format_bytes(fullest)));
  }
  if (plan.device_memory_bytes > 0 && plan.device_memory_bytes != cluster.device.memory_bytes) {
    report(ViolationCode::memory_claims,
           fmt::format("devices of {} are claimed, of {} are there", format_bytes(plan.device_memory_bytes),
                       format_bytes(cluster.device.memory_bytes)));
  }
}

void judge_time_claims(const Plan& plan, const Report& report) {
  const Split& split = plan.strategy.split;
  double slowest = 0;
  bool in_parts = false;  // a hand-written plan may claim totals alone
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageTime& t = plan.stages[s].time;
    slowest = std::max(slowest, t.total);
    const double passes = t.forward + t.backward;
    if (passes + t.recompute <= 0) continue;
    in_parts = true;
    const double sum = passes + t.recompute + t.p2p + t.zero;
    if (differs(sum, t.total)) {
      report(ViolationCode::stage_time, fmt::format("stage {}: parts sum to {} s, {} s are claimed", s, sum, t.total));
    }
    if (t.tp + t.cp + t.ep > passes * (1 + kTolerance) || t.weight > t.backward * (1 + kTolerance)) {
      report(ViolationCode::stage_time,
             fmt::format("stage {}: {} s of exchanges and {} s of weight gradients are claimed in passes of {} s", s,
                         t.tp + t.cp + t.ep, t.weight, passes));
    }
    const auto judge_alone = [&](const char* name, double seconds, bool has_group) {
      if (seconds <= 0 || has_group) return;
      report(ViolationCode::stage_time,
             fmt::format("stage {}: {} s of {} exchanges are claimed, and every rank is alone", s, seconds, name));
    };
    judge_alone("tensor", t.tp, split.tp > 1 || split.expert_tp() > 1);
    judge_alone("context", t.cp, split.cp > 1);
    judge_alone("expert", t.ep, split.expert_devices() > 1);
  }
  if (!in_parts || plan.prediction.iteration_s <= 0) return;
  const auto m = static_cast<double>(micro_batches(plan.strategy, plan.run.global_batch));
  const Prediction::Breakdown& b = plan.prediction.breakdown_s;
  const auto is_of = [&](const StageTime& t) {
    const auto same = [&](double claimed, double seconds) {
      return std::abs(claimed - m * seconds) <= kTolerance * m * slowest;
    };
    return same(b.compute, t.forward + t.backward - t.tp - t.cp - t.ep) && same(b.recompute, t.recompute) &&
           same(b.tp, t.tp) && same(b.cp, t.cp) && same(b.ep, t.ep) && same(b.zero, t.zero) &&
           b.p2p >= m * (t.p2p - kTolerance * slowest);
  };
  const bool found = std::any_of(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& stage) {
    return stage.time.total >= slowest * (1 - kTolerance) && is_of(stage.time);
  });
  if (!found) {
    report(ViolationCode::breakdown,
           fmt::format("the breakdown is not that of {} micro-batches on the slowest stage", m));
  }
}

void judge_work_claims(const Plan& plan, const Prediction& claimed, const model::Model& model,
                       const cluster::Cluster& cluster, const Report& report) {
  const auto devices = static_cast<double>(plan.strategy.devices_used());
  const double peak = counted_peak(cluster.device, plan.run.precision);
  if (claimed.flops_per_s_per_device == 0) return;  // older files do not say it
  if (claimed.mfu > 0 && peak > 0 && differs(claimed.flops_per_s_per_device, claimed.mfu * peak)) {
    report(ViolationCode::work, fmt::format("an MFU of {} and {} FLOP/s are claimed of a peak of {}", claimed.mfu,
                                            claimed.flops_per_s_per_device, peak));
  }
  if (claimed.flops_per_s_per_device <= 0) return;
  const split::RunShape shape{1, plan.run.sequence, plan.run.encoder_sequence, 1.0};
  model::Implementation plain;
  plain.stack = model::Stack::plain;  // padding of the vocabulary is no work of the model's
  std::vector<double> of_kind;
  for (const model::Layer& kind : model.kinds) {
    const split::LocalLayer local = split::localise(kind, shape, {}, plain);
    of_kind.push_back(local.flops_forward() + local.flops_backward());
  }
  double flops = 0;
  for (const int kind : model.layers) flops += of_kind[static_cast<std::size_t>(kind)];
  const double follow = flops * static_cast<double>(plan.run.global_batch) / (claimed.iteration_s * devices);
  if (differs(claimed.flops_per_s_per_device, follow)) {
    report(ViolationCode::work, fmt::format("{} FLOP/s per device are claimed, {} follow from the model",
                                            claimed.flops_per_s_per_device, follow));
  }
}

void judge_search_claims(const Plan& plan, const Report& report) {
  if (!plan.search) return;
  const SearchRecord& search = *plan.search;
  const double time = plan.prediction.iteration_s;
  if (time > 0 && search.lower_bound_s > time * (1 + kTolerance)) {
    report(ViolationCode::lower_bound,
           fmt::format("no plan is claimed to take less than {} s, and this one {} s", search.lower_bound_s, time));
  }
  if (!search.execution) return;
  const ExecutionRecord& execution = *search.execution;
  if (execution.simulated_s <= 0) {
    report(ViolationCode::lower_bound, fmt::format("{} s are claimed for an execution", execution.simulated_s));
  }
  if (execution.runs == 0 && execution.least_s > execution.simulated_s * (1 + kTolerance)) {
    report(ViolationCode::lower_bound, fmt::format("no execution is claimed to take less than {} s, and this one {} s",
                                                   execution.least_s, execution.simulated_s));
  }
  if (plan.executed && differs(plan.executed->iteration_s, execution.simulated_s)) {
    report(ViolationCode::lower_bound, fmt::format("an execution is claimed to take {} s and {} s",
                                                   plan.executed->iteration_s, execution.simulated_s));
  }
}

void judge_parameters(const Plan& plan, const model::Model& model, const Report& report) {
  if (plan.model.parameters == 0 || plan.run.mtp_layers > 0 || !plan.run.lora.empty()) return;
  const split::RunShape shape{1, plan.run.sequence, plan.run.encoder_sequence, 1.0};
  model::Implementation plain;
  plain.stack = model::Stack::plain;
  std::set<std::string> tables;
  std::int64_t count = 0;
  for (const int kind : model.layers) {
    const split::LocalLayer local = split::localise(model.kinds[static_cast<std::size_t>(kind)], shape, {}, plain);
    const HeldTables already = held_already(local, tables);
    count += local.dense_parameters + local.expert_parameters + local.frozen_dense + local.frozen_expert -
             already.trained - already.frozen;
  }
  if (count != plan.model.parameters) {
    report(ViolationCode::parameters,
           fmt::format("{} parameters are claimed, the model has {}", plan.model.parameters, count));
  }
}

}  // namespace nest::check
