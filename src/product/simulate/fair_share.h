// Rates of flows that share links max-min fair, kept up to date while flows come and go.
//
// Route r is used by n_r flows and loads link l, of capacity C_l, w_rl times. Flows of one route meet the same links,
// so they have one rate x_r, and
//     sum over r of w_rl n_r x_r <= C_l         for every link.
// Max-min fair are the only rates at which every route crosses a full link on which no other route is faster.
// Progressive filling finds them: raise all rates together; routes over the link that is full first keep that rate; go
// on with the others and with what is left of the links.
// A change is felt only by routes that are connected with it by links in use: those are worked out again, in
// O(their loads + rounds · their links) for as many rounds as there are different rates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulate/program.h"

namespace nest::simulate {

class FairShare {
 public:
  // Of a sound program (refuse_program), whose activities do not matter.
  explicit FairShare(const SimulationProgram& program);

  // Whether flows on this route meet any link; only those may be added.
  bool is_shared(std::int32_t route) const { return first_[index(route)] < first_[index(route) + 1]; }
  void add(std::int32_t route);
  void remove(std::int32_t route);  // one that was added

  // Brings the rates up to date. Returns the routes in use whose rate was worked out again.
  const std::vector<std::int32_t>& settle();
  // Bytes per second of every flow on a route in use, as of the last settle().
  double rate(std::int32_t route) const { return routes_[index(route)].rate; }

 private:
  struct Load {
    std::int32_t route = 0;
    std::int32_t link = 0;
    std::int32_t place = 0;  // in the link's list, while the route is in use
    double times = 0;
  };
  struct Route {
    std::int64_t flows = 0;
    double rate = 0;
    std::uint64_t round = 0;  // of settle() that saw it last
    bool settled = false;
  };
  struct Link {
    double bytes_per_s = 0;
    std::vector<std::int32_t> loads;  // of routes in use
    std::uint64_t round = 0;
    double left = 0;    // bytes per second that no settled route has
    double demand = 0;  // sum of w n of routes that are not settled
  };

  static std::size_t index(std::int32_t number) { return static_cast<std::size_t>(number); }
  std::span<Load> loads(std::int32_t route) {
    const std::size_t begin = first_[index(route)];
    return std::span(loads_).subspan(begin, first_[index(route) + 1] - begin);
  }
  void touch(std::int32_t route);
  void reach(std::int32_t link);
  void collect();
  void settle_route(std::int32_t route, double rate);

  std::vector<Load> loads_;         // route by route
  std::vector<std::size_t> first_;  // of every route, and the end
  std::vector<Route> routes_;
  std::vector<Link> links_;
  std::vector<std::int32_t> touched_;  // links whose routes changed
  // What the last change reaches.
  std::vector<std::int32_t> component_;
  std::vector<std::int32_t> component_links_;
  std::uint64_t round_ = 0;
};

}  // namespace nest::simulate
