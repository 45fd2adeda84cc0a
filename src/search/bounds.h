// Lower bounds by arithmetic, without looking at cuts. docs/search.md derives them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "search/partition.h"

namespace nest::search {

// (T1) N devices share the work of the whole batch, and one stage holds the largest layer.
//   p * replicas * a <= N and m >= B / (round * replicas)  =>  m * tau >= m * X / p >= B * a * X / (round * N)
// In device_time the devices cancel: m * tau * p * replicas * a >= B * a * X / round.
Score work_bound(const Problem& problem, int split, int micro_batch, const WorkBound& work);

// What cutting alone costs at one hop price, memory and traffic left aside, for every number of stages at once.
struct CutCosts {
  std::vector<std::int64_t> hops_ps;  // [stages]: least sum of all hops
  std::vector<std::int64_t>
      slowest_ps;  // [stages]: least maximum over stages of layer time + hops; made when first needed
};

// However the chain is cut into so many stages, some stage holds at least this many parameters.
struct Peaks {
  std::vector<std::int64_t> dense, expert;  // [stages]
};

// Remembers both; a box has one of few hop prices. One per thread.
class CutCostCache {
 public:
  const CutCosts& get(const Priced& priced, const Line& hop, std::int64_t chunks, bool slowest);
  const Peaks& peaks(const Priced& priced);

 private:
  std::map<std::tuple<const Priced*, std::int64_t, std::int64_t, std::int64_t>, CutCosts> known_;
  std::map<const Priced*, Peaks> peaks_;
};

// (T2) of all plans with this many stages and chunks, at the hop prices of the box. A bound on tau above `enough_ps` is
// not made sharper.
struct ChainBound {
  std::int64_t slowest_ps = 0;  // tau
  std::int64_t sum_ps = 0;      // S, extra included
  std::int64_t extra_ps = 0;    // part of S that is due to the floors of the box
};
ChainBound chain_bound(const Priced& priced, const BoxClass& box, std::int64_t stages, std::int64_t chunks,
                       CutCostCache& cache, std::int64_t enough_ps = kForever);

// The same at the hop prices of one placement.
ChainBound chain_bound(const Priced& priced, const PlacementClass& placed, std::int64_t stages, std::int64_t chunks);

// (T6) With dt_s the ZeRO time of stage s per micro-batch and y_s its time per iteration, over all options and cuts:
class TrafficBound {
 public:
  TrafficBound(const Problem& problem, const Priced& priced, const SyncClass& sync);

  // A lower bound on (weight * sum dt_s + sum y_s) / p.
  std::int64_t average(double weight, std::int64_t stages) const;

  // A lower bound on weight * dt_s + y_s of some stage s, if no stage takes longer than `slowest_ps` per micro-batch.
  std::int64_t peak(double weight, std::int64_t stages, const Peaks& peaks, std::int64_t slowest_ps) const;

 private:
  // One option's exchange is max(0, A1 - B1 * hide) per micro-batch and max(0, A2 - B2 * hide) + step per iteration,
  // where A and step are linear in the dense and expert parameters of the stage.
  struct Exchange {
    double each_dense, each_expert, each_hides;
    double once_dense, once_expert, once_hides;
    double step_dense, step_expert;
  };
  struct Rates {
    double dense, expert;  // per parameter
  };
  Rates with_price(double weight, double price) const;

  std::array<Exchange, 7> exchanges_{};
  std::size_t exchange_count_ = 0;
  double least_exposed_;
  double dense_, expert_, hide_;
  double hide_share_;  // largest part of a layer's time that can hide traffic
};

// Lower bound on T from the two bounds above: the larger of "tau from the chain, ZeRO time through S" and "tau = S / p,
// ZeRO time through both". `fill` is the v by which the fill is divided. With `peaks` the bounds hold for the plans
// that take at most `limit_ps`.
struct IterationBound {
  std::int64_t per_iteration_ps = 0;  // Y
  std::int64_t joint_ps = 0;          // Y + (sum of dt) / fill
  std::int64_t time_ps = 0;           // T
};
IterationBound iteration_bound(const ChainBound& chain, const TrafficBound& traffic, std::int64_t stages,
                               std::int64_t micro_batches, std::int64_t fill, const Peaks* peaks = nullptr,
                               std::int64_t limit_ps = kForever);

// (Lemma) Hops of a placement in excess of those of the box around it.
struct HopExcess {
  std::int64_t least_ps = 0;  // over stages
  std::int64_t sum_ps = 0;
};
HopExcess hop_excess(const Priced& priced, const BoxClass& box, const PlacementClass& placed, std::int64_t stages,
                     std::int64_t chunks);

// If every stage takes at least so much longer than in a relaxed problem with optimum `relaxed` (which counted `extra`
// in its sum), the plans take at least this long.
std::int64_t raise(std::int64_t relaxed, const HopExcess& excess, std::int64_t extra, std::int64_t micro_batches,
                   std::int64_t chunks);

}  // namespace nest::search
