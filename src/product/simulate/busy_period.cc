#include "simulate/busy_period.h"

#include <algorithm>
#include <limits>

#include "base/index.h"

namespace nest::simulate {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct WorkSince {
  double work_s = 0;
  double first_s = kUnbounded, after_s = kUnbounded;
};

}  // namespace

BusyPeriods::BusyPeriods(const Quotient& network, std::vector<double> times_s)
    : network_(network), times_s_(std::move(times_s)), exchanges_(network.flows.size()) {
  times_s_.push_back(0);
  std::sort(times_s_.begin(), times_s_.end());
  times_s_.erase(std::unique(times_s_.begin(), times_s_.end()), times_s_.end());
}

void BusyPeriods::add(std::int32_t exchange, const Amount& amount, double begin_s, double after_s) {
  if (amount.bytes <= 0 && amount.beyond_bytes <= 0) return;
  Exchange& added = exchanges_[at(exchange)];
  if (added.begun.empty()) {
    added.begun.assign(times_s_.size(), {0, 0, kUnbounded});
    added.after_s = kUnbounded;
  }
  const auto since = std::upper_bound(times_s_.begin(), times_s_.end(), begin_s) - times_s_.begin();
  Begun& begun = added.begun[at(std::max<std::ptrdiff_t>(since, 1) - 1)];
  begun.bytes += amount.bytes;
  begun.beyond_bytes += amount.beyond_bytes;
  begun.first_s = std::min(begun.first_s, begin_s);
  added.after_s = std::min(added.after_s, after_s);
}

double BusyPeriods::end_s() const {
  const std::size_t times = times_s_.size();
  std::vector<std::vector<WorkSince>> links(network_.links.size());
  for (std::size_t e = 0; e < exchanges_.size(); ++e) {
    const Exchange& exchange = exchanges_[e];
    if (exchange.begun.empty()) continue;
    for (const std::vector<ClassFlow>& flows : network_.flows[e]) {
      for (const ClassFlow& flow : flows) {
        for (const RouteLoad& load : network_.routes[at(flow.route)].loads) {
          std::vector<WorkSince>& link = links[at(load.link)];
          if (link.empty()) link.resize(times);
          const double each_s = real(load.times) * flow.bytes / network_.links[at(load.link)].bytes_per_s;
          for (std::size_t t = 0; t < times; ++t) {
            const Begun& begun = exchange.begun[t];
            const double amount = flow.beyond ? begun.beyond_bytes : begun.bytes;
            if (amount <= 0) continue;
            link[t].work_s += amount * each_s;
            link[t].first_s = std::min(link[t].first_s, begun.first_s);
            link[t].after_s = std::min(link[t].after_s, exchange.after_s);
          }
        }
      }
    }
  }
  double end_s = 0;
  for (const std::vector<WorkSince>& link : links) {
    WorkSince since;
    for (std::size_t t = link.size(); t-- > 0;) {
      since.work_s += link[t].work_s;
      since.first_s = std::min(since.first_s, link[t].first_s);
      since.after_s = std::min(since.after_s, link[t].after_s);
      if (since.work_s > 0) end_s = std::max(end_s, since.first_s + since.work_s + since.after_s);
    }
  }
  return end_s;
}

}  // namespace nest::simulate
