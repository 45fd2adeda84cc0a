// Aceso's primitives: the changes of a plan that relieve one resource of one stage.
#pragma once

#include <cstdint>
#include <vector>

#include "rivals/configuration.h"

namespace nest::rivals {

enum class Resource : std::uint8_t { arithmetic, communication, memory };

// Stages by how much they hold the plan back, the worst first: what lacks memory, else what is slow.
std::vector<std::int64_t> bottleneck_order(const ConfigurationPrice& price);

// What a stage spends most of, the worst first. A stage that does not fit lacks memory before all else.
std::vector<Resource> scarce_resources(const ConfigurationPrice& price, std::int64_t stage);

// All plans that one primitive makes of this one to spare `resource` on `stage`.
std::vector<Configuration> relieved(const search::PlanSpace& space, ConfigurationPricer& pricer,
                                    const Configuration& configuration, const ConfigurationPrice& price,
                                    std::int64_t stage, Resource resource);

// Replicas fill the devices, in the rank order that the plan has; cuts stay where they are if they can. Nothing when
// the key is not admitted.
std::optional<Configuration> refilled(const search::PlanSpace& space, ConfigurationPricer& pricer,
                                      Configuration configuration, bool together);

}  // namespace nest::rivals
