// Files of a person who has a model, a cluster, a device, a stack and measurements of their own, some of them called like
// a preset: what plans must carry with them.
#pragma once

#include <string>

#include "test_support/temporary_folder.h"

namespace nest::test {

class OwnFiles {
 public:
  OwnFiles();

  // Paths, until forget().
  std::string model;           // llama3-8b.json: 4 blocks of its own, called like a preset
  std::string cluster;         // dgx-h100.yaml: two nodes of 4, called like a preset, with
  std::string cluster_device;  // my-pod.yaml: the same with a device called h100 that is no H100
  std::string stack;           // mine.yaml, like a preset but for three facts
  std::string preset_stack;    // megatron-core.yaml, the same facts, called like a preset
  std::string profile;         // of the model on the preset's H100 under `stack`
  std::string graph;           // of a traced model

  // Nobody finds them any more.
  void forget() const;

 private:
  TemporaryFolder folder_;
};

}  // namespace nest::test
