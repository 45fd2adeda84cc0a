// Clusters, devices and software stacks: what is accepted must also survive being summarised and priced on.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "cluster/cluster.h"
#include "cost/stack.h"

namespace {

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
}

void use_cluster(const nest::Document& document) {
  const nest::cluster::Cluster cluster = nest::cluster::read_cluster(document, "fuzz");
  nest::cluster::summarise(cluster);
  if (cluster.devices >= 2 && cluster.devices <= 4096) {
    const nest::cluster::GroupLayout layout =
        nest::cluster::place_group(cluster, {0, {{1, 2}}, {{2, cluster.devices / 2}}});
    nest::cluster::collective_time(cluster, layout, nest::cluster::Collective::all_reduce, 1e6);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  attempt([&] {
    const nest::Document document = nest::doc::parse_yaml(
        "fuzz.yaml", std::string(reinterpret_cast<const char*>(data), size), {.bytes = 1U << 20U});
    attempt([&] { use_cluster(document); });
    attempt([&] { nest::cluster::read_device(document, "fuzz"); });
    attempt([&] { nest::cost::read_stack(document, "fuzz"); });
  });
  return 0;
}
