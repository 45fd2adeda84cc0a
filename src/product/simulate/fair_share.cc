#include "simulate/fair_share.h"

#include <algorithm>
#include <limits>

namespace nest::simulate {
namespace {

constexpr double kSameRate = 1e-12;  // relative: links that are full together but for rounding

}  // namespace

FairShare::FairShare(const SimulationProgram& program) {
  routes_.resize(program.routes.size());
  links_.resize(program.links.size());
  for (std::size_t l = 0; l < links_.size(); ++l) links_[l].bytes_per_s = program.links[l].bytes_per_s;
  std::size_t count = 0;
  for (const SimulatedRoute& route : program.routes) count += route.loads.size();
  loads_.reserve(count);
  first_.reserve(routes_.size() + 1);
  first_.push_back(0);
  for (std::size_t r = 0; r < routes_.size(); ++r) {
    for (const RouteLoad& load : program.routes[r].loads) {
      const auto same = std::find_if(loads_.begin() + static_cast<std::ptrdiff_t>(first_.back()), loads_.end(),
                                     [&](const Load& known) { return known.link == load.link; });
      if (same == loads_.end()) {
        loads_.push_back({static_cast<std::int32_t>(r), load.link, 0, static_cast<double>(load.times)});
      } else {
        same->times += static_cast<double>(load.times);
      }
    }
    first_.push_back(loads_.size());
  }
}

void FairShare::touch(std::int32_t route) {
  for (const Load& load : loads(route)) touched_.push_back(load.link);
}

void FairShare::add(std::int32_t route) {
  touch(route);
  if (++routes_[index(route)].flows > 1) return;
  for (Load& load : loads(route)) {
    std::vector<std::int32_t>& on = links_[index(load.link)].loads;
    load.place = static_cast<std::int32_t>(on.size());
    on.push_back(static_cast<std::int32_t>(&load - loads_.data()));
  }
}

void FairShare::remove(std::int32_t route) {
  touch(route);
  if (--routes_[index(route)].flows > 0) return;
  for (const Load& load : loads(route)) {
    std::vector<std::int32_t>& on = links_[index(load.link)].loads;
    loads_[index(on.back())].place = load.place;
    on[index(load.place)] = on.back();
    on.pop_back();
  }
}

void FairShare::reach(std::int32_t link) {
  Link& reached = links_[index(link)];
  if (reached.round == round_) return;
  reached.round = round_;
  reached.left = reached.bytes_per_s;
  reached.demand = 0;
  component_links_.push_back(link);
}

// Routes in use that a change reaches, and their links with what they are asked for.
void FairShare::collect() {
  ++round_;
  component_.clear();
  component_links_.clear();
  for (const std::int32_t link : touched_) reach(link);
  touched_.clear();
  for (std::size_t k = 0; k < component_links_.size(); ++k) {
    for (const std::int32_t on : links_[index(component_links_[k])].loads) {
      const std::int32_t number = loads_[index(on)].route;
      Route& route = routes_[index(number)];
      if (route.round == round_) continue;
      route.round = round_;
      route.settled = false;
      component_.push_back(number);
      for (const Load& load : loads(number)) {
        reach(load.link);
        links_[index(load.link)].demand += load.times * static_cast<double>(route.flows);
      }
    }
  }
}

void FairShare::settle_route(std::int32_t route, double rate) {
  Route& settled = routes_[index(route)];
  settled.settled = true;
  settled.rate = rate;
  for (const Load& load : loads(route)) {
    Link& link = links_[index(load.link)];
    const double demand = load.times * static_cast<double>(settled.flows);
    link.demand -= demand;  // whole numbers: nothing is left of it by rounding
    link.left -= demand * rate;
  }
}

const std::vector<std::int32_t>& FairShare::settle() {
  collect();
  double rate = 0;
  while (true) {
    std::erase_if(component_links_, [&](std::int32_t link) { return links_[index(link)].demand <= 0; });
    if (component_links_.empty()) return component_;
    double next = std::numeric_limits<double>::infinity();
    for (const std::int32_t l : component_links_) {
      const Link& link = links_[index(l)];
      next = std::min(next, link.left / link.demand);
    }
    rate = std::max(rate, next);  // rates rise; rounding must not let them fall
    for (const std::int32_t l : component_links_) {
      const Link& link = links_[index(l)];
      if (link.demand <= 0 || link.left > rate * (1 + kSameRate) * link.demand) continue;
      for (const std::int32_t on : link.loads) {
        const std::int32_t route = loads_[index(on)].route;
        if (!routes_[index(route)].settled) settle_route(route, rate);
      }
    }
  }
}

}  // namespace nest::simulate
