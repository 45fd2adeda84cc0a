#include "rivals/neighbours.h"

#include <algorithm>

#include "base/index.h"

namespace nest::rivals {

std::vector<int> carried_options(const search::PlanSpace& space, const std::vector<int>& options, std::int64_t stages,
                                 const std::vector<int>& admitted) {
  const auto is_admitted = [&](int option) {
    return std::find(admitted.begin(), admitted.end(), option) != admitted.end();
  };
  std::vector<int> carried;
  for (std::int64_t s = 0; s < stages; ++s) {
    int option = options[at(s * std::ssize(options) / stages)];
    if (!is_admitted(option)) {  // then it may be admitted over all replicas
      search::StageChoice choice = space.choices()[at(option)];
      choice.in_node = choice.outer = false;
      option = search::find_choice(space.choices(), choice).value_or(admitted.front());
    }
    carried.push_back(is_admitted(option) ? option : admitted.front());
  }
  return carried;
}

std::vector<int> neighbouring_splits(const search::PlanSpace& space, int split) {
  const Split& here = space.splits()[at(split)];
  // Which degrees differ; etp of 0 follows tp.
  const auto differ = [&](const Split& other) {
    return (other.tp != here.tp ? 1 : 0) + (other.cp != here.cp ? 1 : 0) + (other.ep != here.ep ? 1 : 0) +
           (other.sp != here.sp && other.tp == here.tp ? 1 : 0) + (other.etp != here.etp ? 1 : 0);
  };
  std::vector<int> list;
  for (int k = 0; k < static_cast<int>(space.splits().size()); ++k) {
    const Split& other = space.splits()[at(k)];
    if (k == split || differ(other) != 1) continue;
    // Nothing legal lies between.
    const bool jumps = std::any_of(space.splits().begin(), space.splits().end(), [&](const Split& between) {
      const auto inside = [](std::int64_t a, std::int64_t b, std::int64_t c) {
        return std::min(a, c) < b && b < std::max(a, c);
      };
      return differ(between) == 1 && (inside(here.tp, between.tp, other.tp) || inside(here.cp, between.cp, other.cp) ||
                                      inside(here.ep, between.ep, other.ep));
    });
    if (!jumps) list.push_back(k);
  }
  return list;
}

}  // namespace nest::rivals
