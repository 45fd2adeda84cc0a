#include "accuracy/sets.h"

namespace nest::accuracy {

std::vector<Set> all_sets(const std::filesystem::path& folder) {
  std::vector<Set> sets;
  const auto add = [&](Set set) {
    if (set.rows > 0 || !set.left_out.empty()) sets.push_back(std::move(set));
  };
  add(published_time(folder));
  add(published_memory(folder));
  add(published_activations(folder));
  add(vtrain(folder, "single"));
  add(vtrain(folder, "multi"));
  add(step_time(folder));
  add(step_memory(folder));
  add(operators(folder));
  add(layer_time(folder));
  add(layer_host(folder));
  add(layer_saved(folder));
  add(huggingface_saved(folder));
  add(parameter_counts(folder));
  add(collectives(folder));
  return sets;
}

}  // namespace nest::accuracy
