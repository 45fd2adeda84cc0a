// When a search has to end. Long computations look at it while they run.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace nest::search {

// Thrown out of a computation that is not worth finishing; what it was part of stays as it was before.
struct Interrupted {};

class Deadline {
 public:
  Deadline() = default;  // never
  Deadline(double seconds, const std::atomic<bool>* stop) : stop_(stop) {
    constexpr double kFar = 1e8;  // seconds; further away is never
    if (std::isfinite(seconds) && seconds < kFar) {
      const std::chrono::duration<double> left(seconds > 0 ? seconds : 0.0);
      end_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(left);
    }
  }

  bool has_passed() const {
    return (stop_ != nullptr && stop_->load(std::memory_order_relaxed)) ||
           (end_ && std::chrono::steady_clock::now() >= *end_);
  }
  // Seconds; infinite where nothing but the flag ends it.
  double left_s() const {
    if (!end_) return std::numeric_limits<double>::infinity();
    return std::max(0.0, std::chrono::duration<double>(*end_ - std::chrono::steady_clock::now()).count());
  }
  std::chrono::steady_clock::time_point at() const {
    return end_.value_or(std::chrono::steady_clock::time_point::max());
  }
  void check() const {
    if (has_passed()) throw Interrupted{};
  }
  // The same for inner loops, which call it often: looks at the clock once in a thousand calls.
  void check_often(std::uint32_t& calls) const {
    constexpr std::uint32_t kCalls = 1024;
    if (++calls % kCalls == 0) check();
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> end_;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace nest::search
