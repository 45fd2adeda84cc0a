// Replicas, flows and links that behave alike, found by colour refinement, so that one of each is simulated.
//
// Links that can never limit anything are left out first: those that could carry all their flows at once, each at the
// most that its narrowest link admits.
// Start: links of one capacity, flows of one exchange (with equal bytes and latency) and all replicas have one colour
// each. Refine until nothing changes: a flow takes in the colours of its replica and of its links, a link those of its
// flows, a replica those of its flows. In the stable colouring every link of one colour carries the same number of
// flows of every colour, and every flow of one colour crosses the same number of links of every colour. The max-min
// fair rates are unique, so flows of one colour have one rate whenever all flows of that colour start together; and
// they do, because replicas of one colour do the same things at the same times. Simulating one replica, flow and link
// per colour, with each route loading a link as often as flows of its colour cross it, is therefore exact.
// O((flows · links per flow) · rounds).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "simulate/network.h"
#include "simulate/program.h"

namespace nest::simulate {

// How much of an exchange travels: its flows have so many times their bytes and latencies.
struct Amount {
  double bytes = 1;
  double latencies = 1;
  double beyond_bytes = 0;  // in place of `bytes`, of flows that say so
};

// `count` equal flows that start together.
struct PhysicalFlow {
  std::int32_t exchange = 0;  // which message or collective it belongs to
  std::int32_t replica = -1;  // whose message; -1: a collective of all replicas
  std::int64_t count = 1;
  double bytes = 0;  // of one
  NetworkPath path;
  bool beyond = false;  // Amount::beyond_bytes says how often
};

struct ClassFlow {  // of one exchange of one class of replicas
  std::int32_t route = 0;
  double latency_s = 0;
  double bytes = 0;
  bool beyond = false;

  double bytes_of(const Amount& amount) const { return (beyond ? amount.beyond_bytes : amount.bytes) * bytes; }
};

struct Quotient {
  std::vector<SimulatedLink> links;
  std::vector<SimulatedRoute> routes;
  std::vector<std::int32_t> class_of_replica;
  std::vector<std::int32_t> first_replica;  // of every class
  // flows[exchange][class of replicas]; collectives of all replicas have one entry.
  std::vector<std::vector<std::vector<ClassFlow>>> flows;
  std::int64_t physical_links = 0;
  std::int64_t physical_flows = 0;

  std::size_t replica_classes() const { return first_replica.size(); }
};

// What may be taken for alike. Inside replicas: where every replica does its own things at its own times, flows of one and
// links still behave alike, because all flows of an exchange of a replica start together. Nothing: every replica, flow and
// link for itself, to compare.
enum class Merge : std::uint8_t { alike, inside_replicas, nothing };

Quotient find_symmetry(std::span<const NetworkLink> links, std::vector<PhysicalFlow> flows, std::int64_t replicas,
                       std::int32_t exchanges, Merge merge = Merge::alike);

}  // namespace nest::simulate
