// Where a chain of n layers is cut into p stages and which option every stage takes, exactly:
//
//     T = form(tau, S) + Y,   tau = max t_s,  S = sum (a_s t_s + c_s e_s),  Y = max y_s        least, every stage fitting
//
// t_s: seconds of stage s per micro-batch, y_s: per step, e_s: what stage s does after its passes. The form says what of them
// makes S (a_s = 1, c_s = 0 by the formula) and rises with tau and S: m tau + (S - tau) / v with m micro-batches and v chunks
// per stage, or another one of schedule/step_time.h. With layers [i, j) and option o, stage s takes
//
//     t_s = prefix_s[j] - prefix_s[i] + extra_s + boundary_{s-1}[i] + boundary_s[j] + micro_s(s, i, j, o)
//     y_s = step_s(s, i, j, o)
//     e_s = after_s(s, i, j, o)
//
// The solver knows nothing else: not what an option is, nor which split, device or network a stage has.
//
// A dynamic program over (stage, boundary) finds the least S under a cap on every t_s and on every y_s. Lowering the
// caps finds the optimum:
//   - with S_k least under the cap h_k and tau_k the largest time of that plan, a plan with tau in [tau_k, h_k] has a
//     sum >= S_k and is no better; one with a smaller tau is better only if form(tau, S_k) < R, R the least form(tau, S)
//     so far: the next cap;
//   - when no cap is left, every plan whose y stay below theta costs at least R + Y, so only Y < best - R can improve:
//     the next theta, which is below the Y of the plan that attained R.
// Both sequences fall strictly, through finitely many values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedule/step_time.h"
#include "search/deadline.h"

namespace nest::search {

// Pressures (PartitionStage::pressure) under which layers and option are known to fit, and not to fit.
struct FitRange {
  double most = -1, least_not = std::numeric_limits<double>::infinity();
};

struct OptionPrice {
  double micro_s = 0;  // beside layers and boundaries
  double step_s = 0;
  double first_after_s = 0, after_s = 0;  // of the first stage, and of others
  int option = 0;                         // 0 … PartitionProblem::options - 1; the smaller is preferred at equal cost
  bool grows = false;                     // where it does not fit, there may be more options (StagePrices::extend)
  FitRange* fit = nullptr;                // what is known of these layers with this option; outlives the solution
};

// What the solver asks while it works.
class StagePrices {
 public:
  StagePrices() = default;
  StagePrices(const StagePrices&) = delete;
  StagePrices& operator=(const StagePrices&) = delete;
  virtual ~StagePrices() = default;

  // Appends the options of layers [begin, end) as that stage, in any order. Asked once for all stages and layers of one
  // name.
  virtual void price_options(std::int64_t stage, std::int64_t begin, std::int64_t end,
                             std::vector<OptionPrice>& prices) = 0;
  virtual bool fits(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) const = 0;
  // An option that grows does not fit as that stage. Whether it has more now: then they are priced again. More options
  // than were asked for are slower than the one that does not fit, and need less memory.
  virtual bool extend(std::int64_t stage, std::int64_t begin, std::int64_t end, int option) = 0;
  // Of uniform problems: from now on only this option is priced. False where no plan with it alone is within the limit.
  virtual bool restrict_to(int option, double limit_s) = 0;
};

struct PartitionStage {
  const double* prefix = nullptr;  // seconds of layers [0, i), 0 <= i <= n; does not fall
  // names[i * (n + 1) + j] of layers [i, j): wherever equal names stand, in this stage's table or in another's, prices
  // are equal and memory differs by pressure only.
  const int* names = nullptr;
  double extra_s = 0;
  double waiting_low_s = 0;  // extra and boundaries, at least
  double pressure = 0;       // layers that fit with an option fit under any smaller one
  std::int64_t fewest_layers = 1;
};

struct PartitionProblem {
  std::int64_t layers = 0;
  schedule::StepForm form;
  std::vector<PartitionStage> stages;
  std::vector<std::vector<double>> boundary_s;  // [s][i]: what stages s and s + 1 wait each when cut at i
  std::vector<char> may_cut;                    // by position, 1 … n - 1
  int names = 0;                                // are smaller
  int options = 0;                              // are smaller
  bool uniform = false;                         // all stages take the same option
  // Bounds that hold for every plan. They save work; 0 is always right.
  double sum_low_s = 0, slowest_low_s = 0;  // of sum t_s, and of tau
  double step_low_s = 0;                    // of every y_s
  double once_low_s = 0;                    // of T - form.low(tau, S'), S' = least_sum_s(sum_low_s, T)

  // The largest tau with form.low(tau, sum) <= limit.
  double cap(double sum_s, double limit_s) const;
  // S at least, of plans within a limit whose t_s have this sum at least: none of them is longer than limit / m.
  double least_sum_s(double sum_s, double limit_s) const;
};

struct PartitionPlan {
  double time_s = 0;
  std::vector<std::int64_t> cuts;  // 0 = cuts[0] < … < cuts[p] = n
  std::vector<int> options;        // of every stage
};

// Working memory of one thread.
class PartitionSolver {
 public:
  // Relative width within which two times count as equal: far above the error of their sums, far below any difference
  // that matters.
  static constexpr double kEqual = 1e-12;

  // Passes look at it, and throw Interrupted. May be null.
  explicit PartitionSolver(const Deadline* deadline = nullptr) : deadline_(deadline) {}

  // The optimum if it is <= limit.
  std::optional<PartitionPlan> solve(const PartitionProblem& problem, StagePrices& prices, double limit_s);

  std::int64_t passes() const { return passes_; }  // of the dynamic program, since it was made

 private:
  struct NamedPrices {  // pool_[begin … begin + count - 1], fastest first
    std::uint64_t epoch = 0;
    std::uint32_t begin = 0, count = 0;
  };
  struct Cell {
    double sum_s;
    std::int32_t from, priced;
  };
  struct Found {
    double slowest_s, sum_s, step_s;
  };

  void price(NamedPrices& named, std::int64_t stage, std::int64_t begin, std::int64_t end);
  bool fits(const OptionPrice& option, std::int64_t stage, std::int64_t begin, std::int64_t end);
  bool find_windows(double cap_s);
  std::optional<Found> pass(double cap_s, double theta_s, PartitionPlan& plan);
  double stage_s(std::int64_t stage, std::int64_t begin, std::int64_t end, const OptionPrice& option) const;
  Found trace(PartitionPlan& plan) const;
  std::optional<PartitionPlan> search(double limit_s);
  std::optional<PartitionPlan> search_uniform(double limit_s);

  const Deadline* deadline_;
  std::uint32_t calls_ = 0;
  const PartitionProblem* problem_ = nullptr;
  StagePrices* prices_ = nullptr;
  double slack_s_ = 0;                    // within which times are equal
  std::vector<std::int64_t> alike_;       // per stage: the first later one that differs by more than a smaller pressure
  std::vector<std::int64_t> low_, high_;  // positions of every cut
  std::uint64_t epoch_ = 0;
  std::vector<NamedPrices> named_;
  std::vector<OptionPrice> pool_;
  std::vector<Cell> cells_;
  std::int64_t passes_ = 0;
};

}  // namespace nest::search
