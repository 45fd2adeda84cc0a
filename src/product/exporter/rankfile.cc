#include "exporter/rankfile.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "nest/option.h"

namespace nest::exporter {
namespace {

std::string comma_list(const std::vector<std::int64_t>& numbers) { return fmt::format("{}", fmt::join(numbers, ",")); }

std::string order_comment(const RankfileTask& task) {
  std::string text = fmt::format("# rank order {}{}\n", to_string(task.order),
                                 task.order == groups::RankOrder::replicas_last ? " (--use-tp-pp-dp-mapping)" : "");
  if (const std::string devices = visible_devices(task); !devices.empty()) {
    text += fmt::format("# CUDA_VISIBLE_DEVICES={}\n", devices);
  }
  return text;
}

HostOrder require_host_order(const RankfileTask& task) {
  auto found = host_order(task.hosts, task.strategy, task.order);
  if (found) return std::move(*found);
  throw InputError(
      "rankfile: this placement gives hosts ranks that are not consecutive, so hosts cannot be started one by one; "
      "--format slurm, openmpi and json place rank by rank");
}

std::string slurm_text(const RankfileTask& task) {
  std::string text =
      "# SLURM_HOSTFILE: line i is the host of rank i; srun --distribution=arbitrary\n" + order_comment(task);
  for (const PlacedRank& rank : place_ranks(task.hosts, task.strategy, task.order)) {
    text += task.hosts[static_cast<std::size_t>(rank.host)].name + "\n";
  }
  return text;
}

std::string slurm_hosts_text(const RankfileTask& task) {
  const HostOrder order = require_host_order(task);
  std::string text =
      fmt::format("# SLURM_HOSTFILE for one torchrun per host: --nproc-per-node {} --node_rank=$SLURM_PROCID\n",
                  order.ranks_per_host) +
      order_comment(task);
  for (const std::int64_t host : order.hosts) text += task.hosts[static_cast<std::size_t>(host)].name + "\n";
  return text;
}

std::string torchrun_text(const RankfileTask& task) {
  const HostOrder order = require_host_order(task);
  const std::string& master = task.hosts[static_cast<std::size_t>(order.hosts.front())].name;
  std::string text = fmt::format(
      "# torchrun --nnodes {} --nproc-per-node {} --node-rank N --master-addr {} --master-port 29500\n"
      "# (static rendezvous: c10d would sort the hosts by name)\n",
      order.hosts.size(), order.ranks_per_host, master);
  text += order_comment(task);
  for (std::size_t k = 0; k < order.hosts.size(); ++k) {
    text += fmt::format("{} {}\n", k, task.hosts[static_cast<std::size_t>(order.hosts[k])].name);
  }
  return text;
}

std::string openmpi_text(const RankfileTask& task) {
  const bool binds = task.cores_per_device > 0;
  std::string text = fmt::format("# Open MPI 4: mpirun --rankfile THIS; 5: mpirun --map-by rankfile:file=THIS{}\n",
                                 binds ? "" : " --bind-to none") +
                     order_comment(task);
  for (const PlacedRank& rank : place_ranks(task.hosts, task.strategy, task.order)) {
    text += fmt::format("rank {}={}", rank.rank, task.hosts[static_cast<std::size_t>(rank.host)].name);
    if (binds) {
      const std::int64_t first = rank.local_device * task.cores_per_device;
      const std::int64_t last = first + task.cores_per_device - 1;
      text += first == last ? fmt::format(" slot={}\n", first) : fmt::format(" slot={}-{}\n", first, last);
    } else {
      // A line without slots is refused by 4.x and 5.0.0 to 5.0.9. All sockets: bound to nothing (socket_to_cpu_set of
      // Open MPI 4.1.6, package_to_cpu_set of PRRTE 3.0).
      text += " slot=S*\n";
    }
  }
  return text;
}

std::string json_text(const RankfileTask& task) {
  nlohmann::ordered_json document = {
      {"schema", "nest.ranks/1"}, {"rank_order", to_string(task.order)}, {"world", task.strategy.devices_used()}};
  if (const auto order = host_order(task.hosts, task.strategy, task.order)) {
    document["ranks_per_host"] = order->ranks_per_host;
    document["hosts"] = nlohmann::ordered_json::array();
    for (const std::int64_t host : order->hosts) {
      document["hosts"].push_back(task.hosts[static_cast<std::size_t>(host)].name);
    }
    if (!order->natural_devices()) document["visible_devices"] = order->local_devices;
  }
  document["ranks"] = nlohmann::ordered_json::array();
  const groups::Grid grid(groups::sizes_of(task.strategy));  // as the framework forms its groups
  for (const PlacedRank& rank : place_ranks(task.hosts, task.strategy, task.order)) {
    const Host& host = task.hosts[static_cast<std::size_t>(rank.host)];
    const groups::Coordinates at = grid.coordinates(grid.place_of(task.order, rank.rank));
    document["ranks"].push_back({{"rank", rank.rank},
                                 {"host", host.name},
                                 {"local_device", rank.local_device},
                                 {"device", host.first_device + rank.local_device},
                                 {"tp", at.tensor},
                                 {"cp", at.context},
                                 {"dp", at.data},
                                 {"pp", at.stage},
                                 {"etp", at.expert_tensor},
                                 {"ep", at.expert},
                                 {"edp", at.expert_data}});
  }
  return document.dump(1) + "\n";
}

}  // namespace

std::string visible_devices(const RankfileTask& task) {
  // The k-th rank of a host, in file order, gets local rank k.
  std::vector<std::vector<std::int64_t>> devices(task.hosts.size());
  for (const PlacedRank& rank : place_ranks(task.hosts, task.strategy, task.order)) {
    devices[static_cast<std::size_t>(rank.host)].push_back(rank.local_device);
  }
  bool natural = true;
  const std::vector<std::int64_t>* common = nullptr;
  bool alike = true;
  for (const std::vector<std::int64_t>& host : devices) {
    if (host.empty()) continue;
    for (std::size_t k = 0; k < host.size(); ++k) natural = natural && host[k] == static_cast<std::int64_t>(k);
    if (common == nullptr) common = &host;
    alike = alike && host == *common;
  }
  if (natural || common == nullptr) return {};
  if (alike) return comma_list(*common);
  throw InputError(fmt::format(
      "rankfile: hosts take their devices in different orders, which no hostfile can say; {} json lists them all",
      option("format")));
}

std::string rankfile_text(const RankfileTask& task, RankfileForm form) {
  switch (form) {
    case RankfileForm::slurm: return slurm_text(task);
    case RankfileForm::slurm_hosts: return slurm_hosts_text(task);
    case RankfileForm::openmpi: return openmpi_text(task);
    case RankfileForm::torchrun: return torchrun_text(task);
    case RankfileForm::json: return json_text(task);
  }
  return {};
}

}  // namespace nest::exporter
