#include "html/pipeline_schedule.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace nest {
namespace {

constexpr std::int64_t kRounds = 4;  // of p micro-batches that are always played
constexpr std::int64_t kFewestPlayed = 12;

struct Step {
  std::int64_t micro_batch = 0;
  std::int64_t chunk = 0;
};

// Micro-batches in rounds of p: each round passes through all chunks before the next one starts.
std::vector<Step> rounds(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches, bool backward) {
  std::vector<Step> order;
  order.reserve(static_cast<std::size_t>(chunks * micro_batches));
  const std::int64_t round = chunks == 1 ? micro_batches : stages;
  for (std::int64_t first = 0; first < micro_batches; first += round) {
    for (std::int64_t c = 0; c < chunks; ++c) {
      for (std::int64_t i = first; i < std::min(first + round, micro_batches); ++i) {
        order.push_back({i, backward ? chunks - 1 - c : c});
      }
    }
  }
  return order;
}

std::int64_t forwards_first(Schedule schedule, std::int64_t p, std::int64_t v, std::int64_t s, std::int64_t m) {
  if (schedule == Schedule::gpipe) return m * v;
  if (v == 1) return std::min(p - 1 - s, m);
  return std::min(2 * (p - 1 - s) + (v - 1) * p, m * v);
}

class Player {
 public:
  Player(Schedule schedule, std::int64_t chunks, const std::vector<PassTimes>& stages, std::int64_t micro_batches)
      : p_(static_cast<std::int64_t>(stages.size())),
        v_(chunks),
        m_(micro_batches),
        times_(stages),
        forward_(rounds(p_, v_, m_, false)),
        backward_(rounds(p_, v_, m_, true)),
        ended_(static_cast<std::size_t>(2 * p_ * v_ * m_), -1.0),
        cells_(stages.size()) {
    for (auto& counts : done_) counts.assign(stages.size(), 0);
    for (std::int64_t s = 0; s < p_; ++s) warm_up_.push_back(forwards_first(schedule, p_, v_, s, m_));
  }

  std::vector<std::vector<ScheduleCell>> play() {
    while (play_in_order() || play_out_of_order()) {}
    for (const auto& stage : cells_) {
      NEST_CHECK(stage.size() == static_cast<std::size_t>(2 * v_ * m_), "a pipeline schedule does not block itself");
    }
    return std::move(cells_);
  }

 private:
  std::vector<ScheduleCell>& at(std::int64_t s) { return cells_[static_cast<std::size_t>(s)]; }

  double& ended(bool backward, std::int64_t s, const Step& step) {
    return ended_[static_cast<std::size_t>((((backward ? p_ : 0) + s) * v_ + step.chunk) * m_ + step.micro_batch)];
  }

  // As far as every stage gets in its order.
  bool play_in_order() {
    bool moved = false;
    for (std::int64_t s = 0; s < p_; ++s) {
      while (advance(s, backward_next(s))) moved = true;
    }
    return moved;
  }

  // A last round of fewer than p micro-batches makes stages of an interleaved schedule wait for each other: one of them
  // takes its next cell of the other direction then. Forwards alone, and then backwards alone, never block.
  bool play_out_of_order() {
    for (std::int64_t s = 0; s < p_; ++s) {
      if (advance(s, !backward_next(s))) return true;
    }
    return false;
  }

  // What stage s runs next: after the first forwards, forward and backward in turn.
  bool backward_next(std::int64_t s) const {
    const auto at = static_cast<std::size_t>(s);
    const std::int64_t turns = done_[0][at] - warm_up_[at];
    return done_[0][at] == m_ * v_ || (turns >= 0 && turns > done_[1][at]);
  }

  // When what the cell waits for has ended; negative while it has not.
  double ready(bool backward, std::int64_t s, const Step& step) {
    if (!backward) {
      if (s > 0) return ended(false, s - 1, step);
      return step.chunk == 0 ? 0 : ended(false, p_ - 1, {step.micro_batch, step.chunk - 1});
    }
    if (s + 1 < p_) return ended(true, s + 1, step);
    if (step.chunk + 1 < v_) return ended(true, 0, {step.micro_batch, step.chunk + 1});
    return ended(false, s, step);
  }

  bool advance(std::int64_t s, bool backward) {
    std::int64_t& done = done_[backward ? 1 : 0][static_cast<std::size_t>(s)];
    if (done == m_ * v_) return false;
    const Step step = (backward ? backward_ : forward_)[static_cast<std::size_t>(done)];
    const double since = ready(backward, s, step);
    if (since < 0) return false;
    const PassTimes& time = times_[static_cast<std::size_t>(s)];
    const double begin = std::max(since, at(s).empty() ? 0.0 : at(s).back().end_s);
    const double end = begin + (backward ? time.backward_s : time.forward_s) / static_cast<double>(v_);
    ended(backward, s, step) = end;
    at(s).push_back({begin, end, step.micro_batch, step.chunk, backward});
    ++done;
    return true;
  }

  std::int64_t p_, v_, m_;
  const std::vector<PassTimes>& times_;
  std::vector<Step> forward_, backward_;
  std::vector<double> ended_;
  std::vector<std::vector<ScheduleCell>> cells_;
  std::vector<std::int64_t> warm_up_;              // forwards before the first backward, by stage
  std::array<std::vector<std::int64_t>, 2> done_;  // forwards and backwards, by stage
};

}  // namespace

PassTimes pass_times(const StagePlan& stage) {
  const StageTime& time = stage.time;
  PassTimes pass;
  pass.forward_s = time.forward + time.p2p / 2 + (stage.zero == 3 ? time.zero / 3 : 0);
  pass.backward_s = time.total - pass.forward_s;
  return pass;
}

PipelineSchedule play_schedule(Schedule schedule, std::int64_t virtual_stages, const std::vector<PassTimes>& stages,
                               std::int64_t micro_batches) {
  NEST_CHECK(!stages.empty() && micro_batches > 0 && virtual_stages > 0, "there is something to schedule");
  const auto p = static_cast<std::int64_t>(stages.size());
  PipelineSchedule result;
  result.micro_batches = micro_batches;
  // Whole rounds are left out, so that the last one is as full as it is in truth.
  const std::int64_t fewest = std::max(kRounds * p, kFewestPlayed);
  result.played = micro_batches;
  if (micro_batches > fewest + p) result.played = fewest + (micro_batches - fewest) % p;
  double slowest_s = 0;
  for (const PassTimes& stage : stages) slowest_s = std::max(slowest_s, stage.forward_s + stage.backward_s);
  result.skipped_s = static_cast<double>(micro_batches - result.played) * slowest_s;
  result.stages = Player(schedule, virtual_stages, stages, result.played).play();
  for (const auto& stage : result.stages) result.played_s = std::max(result.played_s, stage.back().end_s);
  const auto& first = result.stages.front();
  const auto begins = std::find_if(first.begin(), first.end(), [](const ScheduleCell& cell) { return cell.backward; });
  const auto last = std::find_if(first.rbegin(), first.rend(), [](const ScheduleCell& cell) { return !cell.backward; });
  result.warm_up_s = begins->begin_s;
  result.drain_s = result.played_s - last->end_s;
  return result;
}

}  // namespace nest
