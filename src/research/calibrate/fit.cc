#include "calibrate/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/index.h"
#include "calibrate/predict.h"

namespace nest::calibrate {
namespace {

using C = BurstConstant;
using K = MeasuredKind;

// Constants that are fitted together, and the rows they are fitted to. Later groups use the constants of earlier ones.
struct Group {
  std::vector<K> kinds;
  std::vector<C> constants;
};

const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {{K::rowwise},
       {C::memory, C::cache, C::gap_us, C::gelu, C::silu_mul, C::rmsnorm, C::layernorm, C::softmax, C::softmax_power2,
        C::dropout, C::adamw, C::cross_entropy, C::launch_row_us, C::host_call_us}},
      {{K::gemm}, {C::gemm, C::k_ramp, C::small_tile, C::throttle, C::throttle_ms, C::launch_gemm_us}},
      {{K::gemm_fp8}, {C::gemm_fp8, C::k_ramp_fp8, C::launch_fp8_us}},
      {{K::gemm_grouped}, {C::grouped, C::grouped_memory, C::grouped_us, C::launch_grouped_us}},
      {{K::attention_forward, K::attention_backward},
       {C::attention_forward, C::attention_backward, C::softmax_share_forward, C::softmax_share_backward,
        C::tile_overhead, C::tail, C::attention_bytes, C::launch_attention_forward_us,
        C::launch_attention_backward_us}},
      {{K::flash2_forward, K::flash2_backward}, {C::flash2_forward, C::flash2_backward}},
      {{K::host_forward, K::host_both, K::layer_forward, K::layer_both, K::small_layer_forward, K::small_layer_both},
       {C::row_backward, C::host_forward_us, C::host_backward_us, C::host_turn_us}},
  };
  return all;
}

constexpr double kTolerance = 0.03;  // errors below this count quadratically, larger ones linearly
constexpr double kHold = 0.1;        // weight of staying at the start
constexpr double kStep = 0.01;       // of difference quotients, in log x
constexpr int kRounds = 40;
constexpr double kDetermined = 0.001;  // a tenth of a point of mean error

std::vector<Measurement> rows_of(const Group& group, std::span<const Measurement> rows) {
  std::vector<Measurement> picked;
  for (const Measurement& row : rows) {
    if (std::find(group.kinds.begin(), group.kinds.end(), row.kind) != group.kinds.end()) picked.push_back(row);
  }
  return picked;
}

// One group's problem in x = log(constant).
class Problem {
 public:
  Problem(const cluster::Device& device, const BurstConstants& start, const Group& group,
          std::span<const Measurement> rows)
      : device_(device), start_(start), group_(group), rows_(rows) {}

  std::size_t size() const { return group_.constants.size(); }

  std::vector<double> origin() const {
    std::vector<double> x;
    for (const C constant : group_.constants) x.push_back(std::log(bounded(constant, start_[constant])));
    return x;
  }

  void clamp(std::vector<double>& x) const {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::log(bounded(group_.constants[i], std::exp(x[i])));
  }

  BurstConstants constants(const std::vector<double>& x) const {
    BurstConstants values = start_;
    for (std::size_t i = 0; i < x.size(); ++i) values[group_.constants[i]] = std::exp(x[i]);
    return values;
  }

  // Residuals whose squares are the soft loss, then those that hold the start.
  std::vector<double> residuals(const std::vector<double>& x) const {
    const BurstModel model(device_, constants(x));
    std::vector<double> r;
    r.reserve(rows_.size() + x.size());
    for (const Measurement& row : rows_) {
      const double e = std::log(predict_burst(model, row) / row.seconds) / kTolerance;
      r.push_back(std::copysign(std::sqrt(2 * (std::sqrt(1 + e * e) - 1)), e));
    }
    const std::vector<double> from = origin();
    for (std::size_t i = 0; i < x.size(); ++i) r.push_back(kHold * (x[i] - from[i]));
    return r;
  }

  double cost(const std::vector<double>& x) const {
    const std::vector<double> r = residuals(x);
    return std::inner_product(r.begin(), r.end(), r.begin(), 0.0);
  }

 private:
  // Bounds of 0 become a tiny positive value: constants live on a logarithmic scale.
  static double bounded(C constant, double value) {
    return std::clamp(value, std::max(info(constant).low, 1e-3), info(constant).high);
  }

  const cluster::Device& device_;
  const BurstConstants& start_;
  const Group& group_;
  std::span<const Measurement> rows_;
};

using Matrix = std::vector<std::vector<double>>;

// Solves a x = b for symmetric positive definite a, by elimination; sizes here are below 20.
std::vector<double> solve(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = i + 1; j < n; ++j) {
      const double f = a[j][i] / a[i][i];
      for (std::size_t k = i; k < n; ++k) a[j][k] -= f * a[i][k];
      b[j] -= f * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

void descend(const Problem& problem, std::vector<double>& x) {
  double cost = problem.cost(x);
  double damping = 1e-2;
  for (int round = 0; round < kRounds && damping < 1e6; ++round) {
    const std::vector<double> r = problem.residuals(x);
    const std::size_t n = problem.size();
    Matrix jacobian;
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> moved = x;
      moved[i] += kStep;
      std::vector<double> column = problem.residuals(moved);
      for (std::size_t k = 0; k < r.size(); ++k) column[k] = (column[k] - r[k]) / kStep;
      jacobian.push_back(std::move(column));
    }
    Matrix normal(n, std::vector<double>(n));
    std::vector<double> gradient(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        normal[i][j] = std::inner_product(jacobian[i].begin(), jacobian[i].end(), jacobian[j].begin(), 0.0);
      }
      gradient[i] = -std::inner_product(jacobian[i].begin(), jacobian[i].end(), r.begin(), 0.0);
    }
    for (std::size_t i = 0; i < n; ++i) normal[i][i] *= 1 + damping;
    const std::vector<double> step = solve(std::move(normal), std::move(gradient));
    std::vector<double> next = x;
    for (std::size_t i = 0; i < n; ++i) next[i] += std::clamp(step[i], -0.5, 0.5);
    problem.clamp(next);
    const double reached = problem.cost(next);
    if (reached < cost) {
      const bool done = cost - reached < 1e-9 * cost;
      x = std::move(next);
      cost = reached;
      damping = std::max(damping / 5, 1e-6);
      if (done) break;
    } else {
      damping *= 4;
    }
  }
}

void search_coordinates(const Problem& problem, std::vector<double>& x) {
  double cost = problem.cost(x);
  for (double step = 0.04; step > 4e-4; step /= 2) {
    bool improved = true;
    for (int round = 0; improved && round < 10; ++round) {
      improved = false;
      for (std::size_t i = 0; i < x.size(); ++i) {
        for (const double direction : {step, -step}) {
          std::vector<double> next = x;
          next[i] += direction;
          problem.clamp(next);
          const double reached = problem.cost(next);
          if (reached < cost - 1e-12) {
            cost = reached;
            x = std::move(next);
            improved = true;
            break;
          }
        }
      }
    }
  }
}

double mean_error(const BurstModel& model, std::span<const Measurement> rows) {
  double sum = 0;
  for (const Measurement& row : rows) sum += std::abs(predict_burst(model, row) / row.seconds - 1);
  return rows.empty() ? 0 : sum / real(rows.size());
}

FittedConstant judge(const cluster::Device& device, C constant, double before, const BurstConstants& fitted,
                     std::span<const Measurement> rows) {
  FittedConstant result{.constant = constant, .before = before, .after = fitted[constant]};
  if (rows.empty()) return result;
  const double here = mean_error(BurstModel(device, fitted), rows);
  result.sensitivity = HUGE_VAL;
  for (const double factor : {0.8, 1.25}) {
    BurstConstants moved = fitted;
    moved[constant] *= factor;
    const BurstModel model(device, moved);
    for (const Measurement& row : rows) {
      result.measured = result.measured || predict_burst(model, row) != predict_burst(BurstModel(device, fitted), row);
    }
    result.sensitivity = std::min(result.sensitivity, mean_error(model, rows) - here);
  }
  result.determined = result.measured && result.sensitivity >= kDetermined;
  const BurstConstantInfo& known = info(constant);
  result.at_bound =
      result.measured && (result.after <= std::max(known.low, 1e-3) * 1.0001 || result.after >= known.high * 0.9999);
  return result;
}

KindError summarise(K kind, std::vector<std::pair<double, std::string>>& errors) {
  KindError result{.kind = kind, .rows = errors.size()};
  std::vector<double> sizes;
  for (const auto& [error, label] : errors) {
    sizes.push_back(std::abs(error));
    result.bias += error / real(errors.size());
    result.mean += std::abs(error) / real(errors.size());
    if (std::abs(error) > result.worst) {
      result.worst = std::abs(error);
      result.worst_label = label;
    }
  }
  std::sort(sizes.begin(), sizes.end());
  const std::size_t half = sizes.size() / 2;
  result.median = sizes.size() % 2 == 1 ? sizes[half] : (sizes[half - 1] + sizes[half]) / 2;
  return result;
}

// `model_of(i)` gives the model that predicts row i.
template <class ModelOf>
std::vector<KindError> errors_of(std::span<const Measurement> rows, ModelOf model_of) {
  std::array<std::vector<std::pair<double, std::string>>, kMeasuredKinds> errors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double error = predict_burst(model_of(i), rows[i]) / rows[i].seconds - 1;
    errors[at(rows[i].kind)].emplace_back(error, rows[i].label);
  }
  std::vector<KindError> result;
  for (std::size_t k = 0; k < kMeasuredKinds; ++k) {
    if (!errors[k].empty()) result.push_back(summarise(static_cast<K>(k), errors[k]));
  }
  return result;
}

// Even and odd rows of each kind: neighbours in a file are neighbouring shapes.
std::vector<bool> odd_rows(std::span<const Measurement> rows) {
  std::array<std::size_t, kMeasuredKinds> seen{};
  std::vector<bool> odd;
  for (const Measurement& row : rows) odd.push_back(seen[at(row.kind)]++ % 2 == 1);
  return odd;
}

}  // namespace

std::vector<KindError> errors_by_kind(const cluster::Device& device, const BurstConstants& constants,
                                      std::span<const Measurement> rows) {
  const BurstModel model(device, constants);
  return errors_of(rows, [&](std::size_t) -> const BurstModel& { return model; });
}

BurstConstants fit_burst(const cluster::Device& device, const BurstConstants& start,
                         std::span<const Measurement> rows) {
  BurstConstants constants = start;
  for (const Group& group : groups()) {
    const std::vector<Measurement> own = rows_of(group, rows);
    if (own.empty()) continue;
    const BurstConstants before = constants;
    const Problem problem(device, before, group, own);
    std::vector<double> x = problem.origin();
    descend(problem, x);
    search_coordinates(problem, x);
    constants = problem.constants(x);
  }
  return constants;
}

BurstFit calibrate_burst(const cluster::Device& device, const BurstConstants& start,
                         std::span<const Measurement> rows) {
  BurstFit fit;
  fit.constants = fit_burst(device, start, rows);
  for (const Group& group : groups()) {
    const std::vector<Measurement> own = rows_of(group, rows);
    for (const C constant : group.constants) {
      FittedConstant judged = judge(device, constant, start[constant], fit.constants, own);
      if (!judged.measured) {  // nothing depends on it: exactly where it was
        fit.constants[constant] = start[constant];
        judged.after = start[constant];
      }
      fit.fitted.push_back(judged);
    }
  }
  fit.before = errors_by_kind(device, start, rows);
  fit.after = errors_by_kind(device, fit.constants, rows);

  const std::vector<bool> odd = odd_rows(rows);
  std::array<std::vector<Measurement>, 2> halves;
  for (std::size_t i = 0; i < rows.size(); ++i) halves[odd[i] ? 1 : 0].push_back(rows[i]);
  const std::array<BurstModel, 2> models = {BurstModel(device, fit_burst(device, start, halves[0])),
                                            BurstModel(device, fit_burst(device, start, halves[1]))};
  fit.unseen = errors_of(rows, [&](std::size_t i) -> const BurstModel& { return models[odd[i] ? 0 : 1]; });
  return fit;
}

}  // namespace nest::calibrate
