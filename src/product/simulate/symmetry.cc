#include "simulate/symmetry.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <numeric>

#include "base/bits.h"
#include "base/error.h"

namespace nest::simulate {
namespace {

using Colour = std::uint64_t;

constexpr std::int64_t kLink = 1, kFlow = 2, kReplica = 3;  // salts

// One step of a hash with full avalanche.
Colour mixed(Colour a, Colour b) {
  Colour x = a * 0x9E3779B97F4A7C15ULL + b;
  x ^= x >> 30U;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 27U;
  x *= 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

// Colours as small numbers in the order of first appearance, with the first owner and the number of owners of each.
struct Classes {
  std::vector<std::int32_t> of;
  std::vector<std::int32_t> first;
  std::vector<std::int64_t> members;

  std::size_t count() const { return first.size(); }
};

// Numbers colours; keeps its memory from one list to the next. Colours are mixed, so their low bits are places in a table.
class Numbering {
 public:
  Classes number(const std::vector<Colour>& colours) {
    const std::size_t size = std::bit_ceil(2 * colours.size() + 1);
    places_.assign(size, -1);
    Classes classes;
    classes.of.reserve(colours.size());
    for (std::size_t i = 0; i < colours.size(); ++i) {
      std::size_t place = colours[i] & (size - 1);
      while (places_[place] >= 0 && colours[first_owner(classes, place)] != colours[i])
        place = (place + 1) & (size - 1);
      if (places_[place] < 0) {
        places_[place] = static_cast<std::int32_t>(classes.count());
        classes.first.push_back(static_cast<std::int32_t>(i));
        classes.members.push_back(0);
      }
      classes.of.push_back(places_[place]);
      ++classes.members[static_cast<std::size_t>(places_[place])];
    }
    return classes;
  }

 private:
  std::size_t first_owner(const Classes& classes, std::size_t place) const {
    return static_cast<std::size_t>(classes.first[static_cast<std::size_t>(places_[place])]);
  }

  std::vector<std::int32_t> places_;  // the class whose colour is there; -1: none
};

class Refinement {
 public:
  Refinement(std::span<const NetworkLink> links, std::span<const PhysicalFlow> flows, std::int64_t replicas,
             Merge merge)
      : flows_(flows), replica_(static_cast<std::size_t>(replicas), mixed(kReplica, 0)) {
    link_.reserve(links.size());
    for (const NetworkLink& link : links) link_.push_back(mixed(kLink, bits_of(link.bytes_per_s)));
    flow_.reserve(flows.size());
    first_crossed_.reserve(flows.size() + 1);
    first_crossed_.push_back(0);
    for (const PhysicalFlow& flow : flows) {
      Colour colour = mixed(kFlow, static_cast<Colour>(flow.exchange));
      colour = mixed(colour, bits_of(flow.bytes));
      colour = mixed(colour, bits_of(flow.path.latency_s));
      colour = mixed(colour, flow.beyond ? 1 : 0);
      flow_.push_back(mixed(colour, static_cast<Colour>(flow.count)));
      crossed_.insert(crossed_.end(), flow.path.links.begin(), flow.path.links.end());
      first_crossed_.push_back(crossed_.size());
    }
    if (merge == Merge::alike) return;
    tell_apart(replica_);
    if (merge == Merge::inside_replicas) return;
    tell_apart(link_);
    tell_apart(flow_);
  }

  void run() {
    number();
    for (std::size_t before = 0; before != count();) {
      before = count();
      refine();
      number();
    }
  }

  const Classes& links() const { return link_classes_; }
  const Classes& flows() const { return flow_classes_; }
  const Classes& replicas() const { return replica_classes_; }

 private:
  static void tell_apart(std::vector<Colour>& colours) {
    for (std::size_t i = 0; i < colours.size(); ++i) colours[i] = mixed(colours[i], i);
  }

  void number() {
    link_classes_ = numbering_.number(link_);
    flow_classes_ = numbering_.number(flow_);
    replica_classes_ = numbering_.number(replica_);
  }
  std::size_t count() const { return link_classes_.count() + flow_classes_.count() + replica_classes_.count(); }

  std::span<const std::int32_t> crossed(std::size_t flow) const {
    return std::span(crossed_).subspan(first_crossed_[flow], first_crossed_[flow + 1] - first_crossed_[flow]);
  }

  // Multisets are summed up: order does not matter, and a 64-bit sum of mixed values does not collide by chance.
  void refine() {
    const std::vector<Colour> links = mixed_all(kLink, link_);
    std::vector<Colour> carried(link_.size(), 0);
    std::vector<Colour> sent(replica_.size(), 0);
    for (std::size_t f = 0; f < flow_.size(); ++f) {
      Colour over = 0;
      for (const std::int32_t l : crossed(f)) over += links[static_cast<std::size_t>(l)];
      Colour& colour = flow_[f];
      colour = mixed(colour, over);
      const std::int32_t replica = flows_[f].replica;
      if (replica >= 0) colour = mixed(colour, replica_[static_cast<std::size_t>(replica)]);
      const Colour added = mixed(kFlow, colour);
      for (const std::int32_t l : crossed(f)) carried[static_cast<std::size_t>(l)] += added;
      if (replica >= 0) sent[static_cast<std::size_t>(replica)] += added;
    }
    for (std::size_t l = 0; l < link_.size(); ++l) link_[l] = mixed(link_[l], carried[l]);
    for (std::size_t r = 0; r < replica_.size(); ++r) replica_[r] = mixed(replica_[r], sent[r]);
  }

  static std::vector<Colour> mixed_all(Colour salt, std::vector<Colour> colours) {
    for (Colour& colour : colours) colour = mixed(salt, colour);
    return colours;
  }

  std::span<const PhysicalFlow> flows_;
  std::vector<Colour> link_, flow_, replica_;
  std::vector<std::int32_t> crossed_;  // links, flow by flow
  std::vector<std::size_t> first_crossed_;
  Numbering numbering_;
  Classes link_classes_, flow_classes_, replica_classes_;
};

// loads[route][link]: how often flows of that class cross one link of that class.
using Loads = std::vector<std::map<std::int32_t, std::int64_t>>;

Loads count_loads(std::span<const PhysicalFlow> flows, const Classes& flow_classes, const Classes& link_classes) {
  Loads loads(flow_classes.first.size());
  for (std::size_t f = 0; f < flows.size(); ++f) {
    const auto route = static_cast<std::size_t>(flow_classes.of[f]);
    for (const std::int32_t l : flows[f].path.links) {
      const std::int32_t group = link_classes.of[static_cast<std::size_t>(l)];
      if (link_classes.first[static_cast<std::size_t>(group)] == l) loads[route][group] += flows[f].count;
    }
  }
  return loads;
}

// Takes links that bind nothing out of the paths.
void drop_wide_links(std::span<const NetworkLink> links, std::vector<PhysicalFlow>& flows) {
  const auto capacity = [&](std::int32_t link) { return links[static_cast<std::size_t>(link)].bytes_per_s; };
  std::vector<double> demand(links.size(), 0);
  for (const PhysicalFlow& flow : flows) {
    double most = std::numeric_limits<double>::infinity();
    for (const std::int32_t l : flow.path.links) most = std::min(most, capacity(l));
    for (const std::int32_t l : flow.path.links) demand[static_cast<std::size_t>(l)] += most;
  }
  for (PhysicalFlow& flow : flows) {
    // The narrowest link of a path has its whole capacity asked for, so at least one stays.
    std::erase_if(flow.path.links,
                  [&](std::int32_t l) { return demand[static_cast<std::size_t>(l)] < capacity(l) * (1 - 1e-12); });
  }
}

void add_links(Quotient& quotient, const Loads& loads, std::span<const NetworkLink> links,
               const Classes& link_classes) {
  std::vector<std::int64_t> divisor(link_classes.first.size(), 0);
  for (const auto& route : loads) {
    for (const auto& [group, times] : route) {
      divisor[static_cast<std::size_t>(group)] = std::gcd(divisor[static_cast<std::size_t>(group)], times);
    }
  }
  std::vector<std::int32_t> kept(divisor.size(), -1);
  for (std::size_t group = 0; group < divisor.size(); ++group) {
    if (divisor[group] == 0) continue;
    kept[group] = static_cast<std::int32_t>(quotient.links.size());
    const NetworkLink& link = links[static_cast<std::size_t>(link_classes.first[group])];
    quotient.links.push_back({link.name, link.bytes_per_s / static_cast<double>(divisor[group]),
                              link_classes.members[group], divisor[group]});
  }
  for (std::size_t route = 0; route < loads.size(); ++route) {
    for (const auto& [group, times] : loads[route]) {
      const auto g = static_cast<std::size_t>(group);
      quotient.routes[route].loads.push_back({kept[g], times / divisor[g]});
    }
  }
}

}  // namespace

Quotient find_symmetry(std::span<const NetworkLink> links, std::vector<PhysicalFlow> flows, std::int64_t replicas,
                       std::int32_t exchanges, Merge merge) {
  drop_wide_links(links, flows);
  Refinement refinement(links, flows, replicas, merge);
  refinement.run();
  const Classes &link_classes = refinement.links(), &flow_classes = refinement.flows();
  const Classes& replica_classes = refinement.replicas();

  Quotient quotient;
  quotient.physical_links = static_cast<std::int64_t>(links.size());
  quotient.class_of_replica = replica_classes.of;
  quotient.first_replica = replica_classes.first;
  quotient.routes.resize(flow_classes.first.size(), SimulatedRoute{{}, 0});
  for (std::size_t f = 0; f < flows.size(); ++f) {
    quotient.physical_flows += flows[f].count;
    quotient.routes[static_cast<std::size_t>(flow_classes.of[f])].alike += flows[f].count;
  }
  add_links(quotient, count_loads(flows, flow_classes, link_classes), links, link_classes);

  quotient.flows.resize(static_cast<std::size_t>(exchanges));
  for (std::size_t route = 0; route < flow_classes.first.size(); ++route) {
    const PhysicalFlow& flow = flows[static_cast<std::size_t>(flow_classes.first[route])];
    auto& of_exchange = quotient.flows[static_cast<std::size_t>(flow.exchange)];
    const std::size_t replica_class =
        flow.replica < 0 ? 0 : static_cast<std::size_t>(replica_classes.of[static_cast<std::size_t>(flow.replica)]);
    if (of_exchange.size() <= replica_class) of_exchange.resize(replica_class + 1);
    of_exchange[replica_class].push_back(
        {static_cast<std::int32_t>(route), flow.path.latency_s, flow.bytes, flow.beyond});
  }
  for (auto& of_exchange : quotient.flows) of_exchange.resize(std::max<std::size_t>(1, quotient.replica_classes()));
  return quotient;
}

}  // namespace nest::simulate
