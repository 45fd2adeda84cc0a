// Ranks against an independent generator of Megatron's groups, and hosts against devices, rank by rank.
#include "exporter/rank_map.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "export_support.h"

namespace nest::test {
namespace {

using Groups = std::set<std::set<std::int64_t>>;

// Megatron's rule, from scratch: an order such as "tp-cp-dp-pp" lists axes, the leftmost fastest; a group of some axes
// are the ranks that agree in all others.
Groups megatron_groups(const std::vector<std::string>& order, const std::map<std::string, std::int64_t>& sizes,
                       const std::set<std::string>& wanted) {
  std::int64_t world = 1;
  for (const auto& [name, size] : sizes) world *= size;
  std::map<std::vector<std::int64_t>, std::set<std::int64_t>> found;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    std::vector<std::int64_t> others;
    std::int64_t rest = rank;
    for (const std::string& axis : order) {
      const std::int64_t coordinate = rest % sizes.at(axis);
      rest /= sizes.at(axis);
      if (!wanted.contains(axis)) others.push_back(coordinate);
    }
    found[others].insert(rank);
  }
  Groups groups;
  for (const auto& [key, group] : found) groups.insert(group);
  return groups;
}

struct Grids {
  std::vector<std::string> dense_order, expert_order;
  std::map<std::string, std::int64_t> dense, expert;
};

Grids grids_of(const Strategy& s, groups::RankOrder order) {
  const std::int64_t etp = s.split.etp == 0 ? s.split.tp : s.split.etp;
  const std::int64_t ep = s.split.ep;
  const std::int64_t world = s.pp * s.dp * s.split.tp * s.split.cp;
  Grids grids;
  const bool pp_last = order == groups::RankOrder::stages_last;
  grids.dense_order =
      pp_last ? std::vector<std::string>{"tp", "cp", "dp", "pp"} : std::vector<std::string>{"tp", "cp", "pp", "dp"};
  grids.expert_order =
      pp_last ? std::vector<std::string>{"etp", "ep", "edp", "pp"} : std::vector<std::string>{"etp", "ep", "pp", "edp"};
  grids.dense = {
      {"tp", s.split.tp}, {"cp", s.split.cp}, {"dp", world / (s.split.tp * s.split.cp * s.pp)}, {"pp", s.pp}};
  grids.expert = {{"etp", etp}, {"ep", ep}, {"edp", world / (etp * ep * s.pp)}, {"pp", s.pp}};
  return grids;
}

// Groups of devices that agree in everything but what `key` leaves out, straight from the plan's own definition.
template <class Key>
Groups plan_groups(const Strategy& s, Key key) {
  std::map<std::vector<std::int64_t>, std::set<std::int64_t>> found;
  for (std::int64_t r = 0; r < s.dp; ++r) {
    for (std::int64_t stage = 0; stage < s.pp; ++stage) {
      for (std::int64_t c = 0; c < s.split.cp; ++c) {
        for (std::int64_t t = 0; t < s.split.tp; ++t) {
          found[key(r, stage, c, t)].insert(device_of(s, r, stage, t + s.split.tp * c));
        }
      }
    }
  }
  Groups groups;
  for (const auto& [ignored, group] : found) groups.insert(group);
  return groups;
}

Groups on_devices(const Strategy& s, groups::RankOrder order, const Groups& ranks) {
  Groups devices;
  for (const auto& group : ranks) {
    std::set<std::int64_t> mapped;
    for (const std::int64_t rank : group) mapped.insert(groups::RankGroups(s).device_of(order, rank));
    devices.insert(mapped);
  }
  return devices;
}

using Key = std::vector<std::int64_t>;

void expect_groups(const Strategy& s, groups::RankOrder order) {
  const Grids grids = grids_of(s, order);
  const auto dense = [&](const std::set<std::string>& axes) {
    return on_devices(s, order, megatron_groups(grids.dense_order, grids.dense, axes));
  };
  const auto expert = [&](const std::set<std::string>& axes) {
    return on_devices(s, order, megatron_groups(grids.expert_order, grids.expert, axes));
  };
  using I = std::int64_t;
  EXPECT_EQ(dense({"tp"}), plan_groups(s, [](I r, I st, I c, I) { return Key{r, st, c}; }));
  EXPECT_EQ(dense({"cp"}), plan_groups(s, [](I r, I st, I, I t) { return Key{r, st, t}; }));
  EXPECT_EQ(dense({"dp"}), plan_groups(s, [](I, I st, I c, I t) { return Key{st, c, t}; }));
  EXPECT_EQ(dense({"dp", "cp"}), plan_groups(s, [](I, I st, I, I t) { return Key{st, t}; }));
  EXPECT_EQ(dense({"pp"}), plan_groups(s, [](I r, I, I c, I t) { return Key{r, c, t}; }));
  // x + etp (e + ep f): a part of an expert, the experts, the replica of them.
  const I etp = s.split.expert_tp(), ep = s.split.ep;
  const auto rank = [&](I r, I c, I t) { return t + s.split.tp * (c + s.split.cp * r); };
  const auto x = [&](I r, I c, I t) { return rank(r, c, t) % etp; };
  const auto e = [&](I r, I c, I t) { return rank(r, c, t) / etp % ep; };
  const auto f = [&](I r, I c, I t) { return rank(r, c, t) / (etp * ep); };
  EXPECT_EQ(expert({"ep"}), plan_groups(s, [&](I r, I st, I c, I t) { return Key{st, x(r, c, t), f(r, c, t)}; }));
  EXPECT_EQ(expert({"etp"}), plan_groups(s, [&](I r, I st, I c, I t) { return Key{st, e(r, c, t), f(r, c, t)}; }));
  EXPECT_EQ(expert({"edp"}), plan_groups(s, [&](I r, I st, I c, I t) { return Key{st, x(r, c, t), e(r, c, t)}; }));
  EXPECT_EQ(expert({"pp"}), plan_groups(s, [&](I r, I, I c, I t) { return Key{rank(r, c, t)}; }));
}

std::vector<Strategy> all_strategies() {
  std::vector<Strategy> all;
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const std::int64_t cp : {1, 2}) {
      for (const std::int64_t ep : {1, 2, 4}) {
        for (const std::int64_t etp : {0, 1, 2, 3}) {
          for (const std::int64_t pp : {1, 2, 3}) {
            for (const std::int64_t dp : {1, 2, 4, 6}) {
              for (std::int64_t inner = 1; inner <= dp; ++inner) {
                if (dp % inner != 0) continue;
                Strategy s;
                s.split.tp = tp;
                s.split.cp = cp;
                s.split.ep = ep;
                s.split.etp = etp == tp ? 0 : etp;
                s.pp = pp;
                s.dp = dp;
                s.dp_inner = inner;
                if (s.block() % s.split.expert_devices() != 0) continue;
                all.push_back(s);
                s.pitch = s.pipeline_block() + 3;
                if (inner < dp) all.push_back(s);
              }
            }
          }
        }
      }
    }
  }
  return all;
}

TEST(RankMap, EveryRankHasItsOwnDeviceOfThePlan) {
  for (const Strategy& s : all_strategies()) {
    std::set<std::int64_t> planned, reached, other;
    for (std::int64_t r = 0; r < s.dp; ++r) {
      for (std::int64_t stage = 0; stage < s.pp; ++stage) {
        for (std::int64_t q = 0; q < s.split.replica_devices(); ++q) planned.insert(device_of(s, r, stage, q));
      }
    }
    for (std::int64_t rank = 0; rank < s.devices_used(); ++rank) {
      reached.insert(groups::RankGroups(s).device_of(groups::RankOrder::stages_last, rank));
      other.insert(groups::RankGroups(s).device_of(groups::RankOrder::replicas_last, rank));
    }
    ASSERT_EQ(planned, reached);
    ASSERT_EQ(planned, other);
  }
}

TEST(RankMap, MegatronsGroupsAreThePlansGroups) {
  std::size_t mapped = 0;
  for (const Strategy& s : all_strategies()) {
    expect_groups(s, groups::RankOrder::stages_last);
    if (exporter::can_put_replicas_last(s)) {
      expect_groups(s, groups::RankOrder::replicas_last);
      ++mapped;
    }
    ASSERT_FALSE(HasFailure()) << "tp " << s.split.tp << " cp " << s.split.cp << " ep " << s.split.ep << " etp "
                               << s.split.etp << " pp " << s.pp << " dp " << s.dp << " inner " << s.dp_inner;
  }
  EXPECT_GT(mapped, 50U);
}

// Megatron: the mapping needs expert and dense layers to have the same data-parallel size.
TEST(RankMap, ReplicasLastOnlyWhereMegatronAllowsIt) {
  for (const Strategy& s : all_strategies()) {
    const std::int64_t etp = s.split.expert_tp();
    const bool allowed = s.pp == 1 || etp * s.split.ep == s.split.tp * s.split.cp;
    EXPECT_TRUE(allowed || !exporter::can_put_replicas_last(s));
  }
}

TEST(HostOrder, StartingHostByHostPutsEveryRankOnItsDevice) {
  std::mt19937 random(7);
  int reached = 0, whole_nodes = 0;
  for (int round = 0; round < 600; ++round) {
    const std::int64_t node = std::int64_t{1} << (random() % 4), nodes = 1 + random() % 12;
    std::vector<exporter::Host> hosts;
    for (std::int64_t i = 0; i < nodes; ++i) hosts.push_back({"n", i * node, node});
    Strategy s;
    s.split.tp = std::int64_t{1} << (random() % 4);
    s.split.ep = random() % 3 == 0 ? 2 : 1;
    s.pp = 1 + random() % 4;
    s.dp = s.split.team() * (1 + static_cast<std::int64_t>(random() % 6));
    std::vector<std::int64_t> inner;
    for (std::int64_t d = s.split.team(); d <= s.dp; d += s.split.team()) {
      if (s.dp % d == 0) inner.push_back(d);
    }
    s.dp_inner = inner[random() % inner.size()];
    if (random() % 4 == 0) s.pitch = (s.pipeline_block() + node - 1) / node * node;
    if (s.devices_spanned() > node * nodes) continue;
    const auto launch = exporter::launch_order(hosts, s);
    if (s.split.team_devices() % node == 0) {
      // Whole nodes per stage: the order of the hosts reaches every placement.
      ++whole_nodes;
      ASSERT_TRUE(launch.has_value());
      EXPECT_EQ(launch->order, groups::RankOrder::stages_last);
    }
    if (s.dp_inner == s.dp) {
      const bool even = s.devices_used() % std::min(node, s.devices_used()) == 0;
      EXPECT_EQ(launch.has_value(), even);
    }
    if (!launch) continue;
    ++reached;
    const exporter::HostOrder& order = launch->hosts;
    std::set<std::int64_t> distinct(order.hosts.begin(), order.hosts.end());
    EXPECT_EQ(distinct.size(), order.hosts.size());
    for (std::int64_t rank = 0; rank < s.devices_used(); ++rank) {
      const exporter::Host& host =
          hosts[static_cast<std::size_t>(order.hosts[static_cast<std::size_t>(rank / order.ranks_per_host)])];
      const std::int64_t device =
          host.first_device + order.local_devices[static_cast<std::size_t>(rank % order.ranks_per_host)];
      ASSERT_EQ(device, groups::RankGroups(s).device_of(launch->order, rank));
    }
  }
  EXPECT_GT(reached, 150);
  EXPECT_GT(whole_nodes, 50);
}

TEST(Hosts, AreTheNodesOfTheClusterByName) {
  const std::vector<exporter::Host> hosts = exporter::hosts_of(*cluster::find_cluster("dgx-h100", 24));
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[2].name, "node0002");
  EXPECT_EQ(hosts[2].first_device, 16);
  EXPECT_EQ(hosts[2].devices, 8);
  const cluster::Cluster named =
      cluster::read_cluster(doc::parse_yaml("c.yaml",
                                            "device: h100\n"
                                            "node_names: [alpha, beta]\n"
                                            "levels:\n"
                                            "  - {name: node, group: 4, bandwidth: 450GB/s, latency: 3us}\n"
                                            "  - {name: pod, group: 2, bandwidth: 50GB/s, latency: 8us}\n"),
                            "c");
  EXPECT_EQ(exporter::hosts_of(named)[1].name, "beta");
  const std::vector<exporter::Host> parts = exporter::hosts_of(named, 2);
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[3].first_device, 6);
  EXPECT_THROW(exporter::hosts_of(named, 3), InputError);
  EXPECT_THROW(exporter::hosts_of(*cluster::find_cluster("tpuv4-torus")), InputError);
  // What would become another line, another word or a command in the files that name hosts.
  for (const char* name : {"a\nb", "a b", "$(a)", "a;b", "-a", "", "a\u00e9", "\x1b[2J"}) {
    cluster::Cluster hostile = named;
    hostile.node_names = {"alpha", name};
    EXPECT_THROW(exporter::hosts_of(hostile), InputError) << name;
  }
}

// The rule without listing ranks, against listing them: all small strategies on hosts of 1 to 8.
TEST(HostOrder, IsForeseenWithoutListingRanks) {
  long reached = 0, all = 0;
  for (std::int64_t size = 1; size <= 8; ++size) {
    for (int grid = 0; grid < 2 * 2 * 3 * 6; ++grid) {
      Strategy s;
      s.split.tp = 1 + grid % 2;
      s.split.cp = 1 + grid / 2 % 2;
      s.pp = 1 + grid / 4 % 3;
      s.dp = 1 + grid / 12;
      for (s.dp_inner = 1; s.dp_inner <= s.dp; ++s.dp_inner) {
        if (s.dp % s.dp_inner != 0) continue;
        for (std::int64_t gap = 0; gap <= (s.dp_inner < s.dp ? size : 0); ++gap) {
          s.pitch = gap == 0 ? 0 : s.pipeline_block() + gap;
          std::vector<exporter::Host> hosts;
          for (std::int64_t first = 0; first < s.devices_spanned(); first += size) hosts.push_back({"", first, size});
          for (const std::int64_t shorter : {0, 1}) {
            if (shorter == size) continue;
            hosts.back().devices = size - shorter;  // hosts that differ
            if (hosts.back().first_device + hosts.back().devices < s.devices_spanned()) continue;
            const bool usual = exporter::host_order(hosts, s, groups::RankOrder::stages_last).has_value();
            const bool either = exporter::launch_order(hosts, s).has_value();
            const std::string what = fmt::format("hosts of {}, tp={} cp={} pp={} dp={} dp_inner={} pitch={}", size,
                                                 s.split.tp, s.split.cp, s.pp, s.dp, s.dp_inner, s.pitch);
            EXPECT_EQ(exporter::starts_host_by_host(hosts, exporter::host_size(hosts), s, false), usual) << what;
            EXPECT_EQ(exporter::starts_host_by_host(hosts, exporter::host_size(hosts), s, true), either) << what;
            reached += either ? 1 : 0;
            ++all;
          }
        }
      }
    }
  }
  EXPECT_GT(reached, 1000);
  EXPECT_GT(all, 2 * reached);
}

// Of a rack of 72 devices 64 are used: 16 trays of 4, each a host.
TEST(Hosts, AreTheTraysOfARack) {
  const std::vector<exporter::Host> hosts = exporter::hosts_of(*cluster::find_cluster("gb200-nvl72", 256));
  ASSERT_EQ(hosts.size(), 64U);
  EXPECT_EQ(hosts[16].first_device, 64);  // the first of the second rack
  EXPECT_EQ(hosts[16].devices, 4);
  EXPECT_EQ(exporter::hosts_of(*cluster::find_cluster("gb200-nvl72", 144)).size(), 36U);
  EXPECT_EQ(exporter::hosts_of(*cluster::find_cluster("gb200-nvl72", 2)).front().devices, 2);
  EXPECT_EQ(exporter::hosts_of(*cluster::find_cluster("gb200-nvl72", 256), 64).size(), 4U);
}

TEST(Hosts, AreNodesAlsoWhereTheyHaveParts) {
  const cluster::Cluster cluster =
      cluster::read_cluster(doc::parse_yaml("c.yaml",
                                            "device: h100\n"
                                            "node_names: [alpha, beta]\n"
                                            "levels:\n"
                                            "  - {name: pair, group: 2, bandwidth: 450GB/s, latency: 3us}\n"
                                            "  - {name: node, group: 4, bandwidth: 100GB/s, latency: 4us}\n"
                                            "  - {name: pod, group: 2, bandwidth: 50GB/s, latency: 8us}\n"),
                            "c");
  const std::vector<exporter::Host> hosts = exporter::hosts_of(cluster);
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[1].name, "beta");
  EXPECT_EQ(hosts[1].first_device, 8);
  EXPECT_EQ(hosts[1].devices, 8);
}

}  // namespace
}  // namespace nest::test
