// What a simulator is asked to execute: activities that wait for each other, and the links they share. Nothing in it
// knows of models, plans or SimGrid; docs/simulation.md has the same as JSON.
//
// An activity starts when all activities in `after` have ended. It is one of
//   a delay     `seconds` long, on nothing that is shared
//   a transfer  flows that start together; each waits for its latency, then moves its bytes along its route. It ends
//               with the last of them
//   a join      neither: ends at once
// Links are shared max-min fair. A route may load a link more than once: it stands for that many equal flows there, all
// of which run at one rate, that of the route. A link of capacity C that routes i load w_i times admits rates r_i with
// sum w_i r_i <= C.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nest::simulate {

struct SimulatedLink {
  std::string name;
  double bytes_per_s = 0;
  std::int64_t alike = 1;  // links that this one stands for
  std::int64_t parts = 1;  // equal parts of the real link of which this is one: all routes load each of them alike

  bool operator==(const SimulatedLink&) const = default;
};

struct RouteLoad {
  std::int32_t link = 0;
  std::int64_t times = 1;

  bool operator==(const RouteLoad&) const = default;
};

struct SimulatedRoute {
  std::vector<RouteLoad> loads;
  std::int64_t alike = 1;  // flows that one on this route stands for

  bool operator==(const SimulatedRoute&) const = default;
};

struct SimulatedFlow {
  std::int32_t route = 0;
  double latency_s = 0;
  double bytes = 0;

  bool operator==(const SimulatedFlow&) const = default;
};

struct SimulatedActivity {
  double seconds = 0;
  std::vector<SimulatedFlow> flows;
  std::vector<std::int32_t> after;  // indices into SimulationProgram::activities

  bool operator==(const SimulatedActivity&) const = default;
};

struct SimulationProgram {
  std::vector<SimulatedLink> links;
  std::vector<SimulatedRoute> routes;
  std::vector<SimulatedActivity> activities;

  bool operator==(const SimulationProgram&) const = default;
};

// When everything happened.
struct Timeline {
  std::vector<double> start_s;  // of every activity
  std::vector<double> end_s;
  double total_s = 0;
  std::string engine;  // "SimGrid 3.32"
};

// Empty when indices are in range and numbers finite and not negative, else what is wrong.
std::string refuse_program(const SimulationProgram& program);

// Empty when the timeline can be one of the program: one entry per activity, in the order of its dependencies, no delay
// shorter than it is and no flow faster than its narrowest link. Else what is wrong.
std::string refuse_timeline(const SimulationProgram& program, const Timeline& timeline);

}  // namespace nest::simulate
