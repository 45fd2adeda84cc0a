// Models, clusters and stacks with some of their keys changed, as documents of their own: what a study's axes such as
// cluster.spine.bandwidth or model.num_hidden_layers stand for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nest/document.h"
#include "nest/input.h"
#include "nest/sweep.h"

namespace nest::sweep {

struct Change {
  std::string path;  // below the document's name: "spine.bandwidth"
  SweepValue value;
};

// All throw InputError where the document has no such key, or none can be changed. Without changes the input as it is.
Input changed_model(const Input& model, const std::vector<Change>& changes);
// `device` changes the description of the cluster's device.
Input changed_cluster(const Input& cluster, const std::vector<Change>& changes, const std::vector<Change>& device);
Input changed_stack(const Input& stack, const std::vector<Change>& changes);

// The same of documents that are at hand, under the names that they have. Links of a graph are counted from 0: "graph.links.3.bandwidth".
Document changed_cluster(const Document& cluster, const std::vector<Change>& changes,
                         const std::vector<Change>& device);
Document changed_stack(const Document& stack, const std::vector<Change>& changes);

}  // namespace nest::sweep
