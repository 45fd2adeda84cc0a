// Three layers small enough to price by hand.
#pragma once

#include "instance/instance.h"

namespace nest::test {

// Chain 0 -> 1 -> 2 with a skip 0 -> 2, on two levels of pairs and one above: 8 devices.
//   hop_0(c) = c/10 + 1,  hop_1(c) = 2 (c/5 + 2),  hop_2(c) = 2 (c/5 + 3): the level above is faster, but reached
//   through level 1.
inline instance::ProfileInstance example() {
  instance::ProfileInstance instance;
  instance.devices = 8;
  instance.levels = {{2, 10, 1}, {2, 5, 2}, {2, 20, 3}};
  instance.device_memory_bytes = 1000;
  instance.micro_batches = 5;
  instance::ProfileGraph graph;
  graph.width = 1;
  graph.nodes = {{0, 40, 3, 4, 7}, {1, 2, 4, 5, 8}, {2, 0, 5, 6, 9}};
  graph.edges = {{0, 1, 20}, {1, 2, 30}, {0, 2, 40}};
  instance.graphs = {graph};
  return instance;
}

}  // namespace nest::test
