// Small random problems, and a text form in which a failing one is printed and read back.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "search/problem.h"

namespace nest::search::test {

struct Instance {
  Problem problem;  // network and pricer are set by finish()
  std::vector<NetworkLevel> levels;
  std::vector<LayerTable> tables;  // [split][micro-batch size]

  const LayerTable& table(int split, int micro_batch) const;
};

// Owns what a Problem points to.
class World {
 public:
  explicit World(Instance instance, bool lazy = false);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Instance& instance() const { return instance_; }
  Problem& problem() { return instance_.problem; }
  const Problem& problem() const { return instance_.problem; }

 private:
  class TablePricer;
  Instance instance_;
  LevelNetwork network_;
  std::unique_ptr<Pricer> pricer_;
};

Instance random_instance(std::uint64_t seed);

std::string dump(const Instance& instance);
Instance load(const std::string& text);

// 5,000 in the regular run; multiplied by $NEST_TEST_SCALE where that is set (sanitizers: 0.1; long runs: 20).
int scaled(int count);

}  // namespace nest::search::test
