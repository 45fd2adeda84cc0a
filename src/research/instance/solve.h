// The exact optimum of a layer-profile instance over width, replicas, number of stages and cuts.
//
// Per width, with f[s][i] = least possible max load of s stages that hold the nodes i … N-1 and have a stage before
// them:
//   f[s][i] = min over j of max(load of [i, j) as stage s, f[s-1][j]),    f[0][N] = 0
// serves every number of stages and of replicas at once, because the in- and out-levels of stage s depend on s and the
// width only. A pipeline of S stages then starts with some [0, j) as stage S; the synchronisation depends on the cut j
// through the first stage's parameters P1. The objective grows with max load and with P1, so for each S only the cuts
// that are not beaten in both count, and for each value of ceil(m / d) only the smallest d that gives it:
// synchronisation grows with d. All of these are statements about floating-point values, not only about real ones:
// rounded sums, products by a non-negative factor and maxima are non-decreasing. So the result is the exact minimum of
// the formula's doubles.
//
// Ties go to the smaller width, then to fewer stages, then to fewer replicas, then to the smaller max load, then to the
// shorter first stage; behind it every suffix is the best one for its number of stages, again with the shorter stage
// first.
#pragma once

#include <cstdint>
#include <optional>

#include "instance/instance.h"

namespace nest::instance {

struct ProfileCounters {
  std::int64_t widths = 0;       // graphs that fit on the devices at all
  std::int64_t intervals = 0;    // stages priced
  std::int64_t states = 0;       // (s, i) settled
  std::int64_t transitions = 0;  // (s, i, j) looked at
  std::int64_t candidates = 0;   // (t, S, d, first cut) priced
};

struct ProfileSolution {
  std::optional<ProfilePlan> plan;  // nothing: proven that no plan fits
  double objective_s = 0;
  double lower_bound_s = 0;  // equal to objective_s
  ProfileCounters counters;
};

ProfileSolution solve_profile_instance(const ProfileInstance& instance);

}  // namespace nest::instance
