// Random small planning problems: models, clusters, software, cost tables, memory and limits, small enough to try every
// plan (oracle.h). All but the few named below can be written as files that `nest plan` reads (problem_text.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "cost/job.h"
#include "cost/profile.h"
#include "search/planner.h"
#include "test_support/scale.h"

namespace nest::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t count) { return random_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  double real(double low, double high) { return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53; }
  double magnitude(double low, double high);  // uniform in the logarithm
  template <class T>
  T any(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }
  template <class T>
  const T& any(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::mt19937_64 random_;
};

// What a problem leans towards, so that every feature of a plan is the best one now and then.
enum class Leaning : std::uint8_t {
  plain,        // dense decoders
  context,      // long sequences and few heads: context parallelism
  experts,      // mixtures of experts
  node_shards,  // slow network between nodes, little memory: sharding inside a node
  pitch,        // groups that do not divide nodes
  interleaved,  // many equal layers, few micro-batches
  motif,        // layers of two kinds in turn, interleaved
  crossing,     // encoder and decoder; tensors that cross several cuts
  tied,         // a table shared by embedding and head, encoders
  measured,     // random cost tables through a profile
  uneven,       // a batch that nothing divides
  irregular,    // tori, levels of uneven counts
  long_chain,   // many layers of a few kinds, few keys
};
inline constexpr std::uint32_t kLeanings = 13;

struct Problem {
  std::uint32_t seed = 0;
  std::uint64_t draw = 0;
  Leaning leaning = Leaning::plain;
  std::string config;  // the model's config.json
  cost::Job job;
  std::vector<std::string> settings;  // as --set takes them
  bool megatron = false;              // --target megatron
  plan::PlanLimits limits;            // all of the above, and replicas_together
  std::int64_t most_devices = 0;      // 0: all
  int top = 1;
  PlanObjective objective = PlanObjective::time;
  std::vector<model::Edge> more_edges;  // beyond the model's own; no file can say that
  bool tiny = false;                    // solved, and every plan of it listed, in a millisecond or two

  std::int64_t devices() const { return most_devices > 0 ? most_devices : job.cluster.devices; }
  search::PlanRequest request() const;
};

// Deterministic in seed and draw (test_support/scale.h); the leaning is that of the seed's number unless given.
Problem random_problem(std::uint32_t seed, std::uint64_t draw = draw());
Problem random_problem(std::uint32_t seed, Leaning leaning, std::uint64_t draw = draw());

// The same of one to three layers, eight devices at most, and few keys and options: what a whole problem meets once in a
// while, met thousands of times.
Problem tiny_problem(std::uint32_t seed, std::uint64_t draw = draw());

// Gives model, layers, cluster and levels other names, in the profile too.
void rename(Problem& problem);

// Parts of it.
std::string random_config(Dice& dice, Leaning leaning);
// The same config with so many layers, of encoder and decoder each.
std::string shortened(const std::string& config, std::int64_t layers);
cluster::Cluster random_cluster(Dice& dice, Leaning leaning);
// Every layer of every split and micro-batch that the limits admit, measured at its own price.
cost::MeasuredProfile own_profile(const cost::Job& job, const plan::PlanLimits& limits, std::int64_t devices);
// A plan of the strategy: cuts and options at random. Empty when the strategy admits no cuts.
std::vector<StagePlan> random_stages(Dice& dice, const cost::Job& job, const plan::PlanLimits& limits,
                                     const Strategy& strategy);

}  // namespace nest::test
