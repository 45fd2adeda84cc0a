#include <algorithm>

#include "rivals/aceso.h"
#include "rivals/alpa.h"
#include "rivals/manual.h"
#include "rivals/mcmc.h"
#include "rivals/mist.h"
#include "rivals/phaze.h"
#include "rivals/rival.h"

namespace nest::rivals {

const std::vector<Rival>& rivals() {
  static const std::vector<Rival> kRivals = {
      {"mcmc", "a random walk over the same plans, with the network in its cost",
       "Jia et al., MLSys 2019; Wang et al., NSDI 2023", plan_mcmc},
      {"manual", "an expert's rules, published degrees, or sharded data parallelism",
       "Narayanan et al., SC 2021; Korthikanti et al., MLSys 2023", plan_manual},
#ifdef NEST_HAS_CBC
      {"alpa", "an integer program per layer and submesh, a dynamic program over stages", "Zheng et al., OSDI 2022",
       plan_alpa},
#endif
      {"aceso", "relieves the bottleneck of a start, change by change", "Liu et al., EuroSys 2024", plan_aceso},
      {"phaze", "exact over stages and replicas, on a network of one bandwidth",
       "Tarnawski et al., NeurIPS 2021; Wang et al., ICML 2024", plan_phaze},
      {"mist", "exact over memory measures and uneven stages, replicas placed as frameworks do",
       "Zhu et al., EuroSys 2025", plan_mist},
  };
  return kRivals;
}

const Rival* find_rival(std::string_view name) {
  const auto& all = rivals();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Rival& rival) { return rival.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace nest::rivals
