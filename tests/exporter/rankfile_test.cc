// Rank files, read back the way their readers do.
#include "exporter/rankfile.h"

#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/error.h"
#include "export_support.h"
#include "test_support/scale.h"

namespace nest::test {
namespace {

// Devices of all ranks, in rank order.
using Placement = std::vector<std::int64_t>;

struct ReadBack {
  std::vector<std::string> hosts;             // of every rank
  std::vector<std::int64_t> visible;          // CUDA_VISIBLE_DEVICES, if the comment says so
  std::map<std::string, std::int64_t> first;  // device of every host

  // The k-th rank of a host, in order, gets local rank k, and with it the k-th visible device.
  Placement placement() const {
    std::map<std::string, std::int64_t> seen;
    Placement devices;
    for (const std::string& host : hosts) {
      const std::int64_t local = seen[host]++;
      devices.push_back(first.at(host) + (visible.empty() ? local : visible.at(static_cast<std::size_t>(local))));
    }
    return devices;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void read_comment(const std::string& line, ReadBack& back) {
  const std::string key = "# CUDA_VISIBLE_DEVICES=";
  if (!line.starts_with(key)) return;
  std::istringstream list(line.substr(key.size()));
  for (std::string item; std::getline(list, item, ',');) back.visible.push_back(std::stoll(item));
}

// Slurm: one host per line or comma separated, host*N repeats, # comments, first character alphanumeric.
void read_slurm(const std::string& text, ReadBack& back) {
  for (const std::string& line : lines_of(text)) {
    read_comment(line, back);
    std::istringstream items(line.substr(0, line.find('#')));
    for (std::string item; std::getline(items, item, ',');) {
      std::smatch match;
      ASSERT_TRUE(std::regex_match(item, match, std::regex(R"(([A-Za-z0-9][A-Za-z0-9._-]*)(\*([0-9]+))?)"))) << item;
      const int times = match[3].matched ? std::stoi(match[3]) : 1;
      for (int k = 0; k < times; ++k) back.hosts.push_back(match[1]);
    }
  }
}

// Open MPI: rank N=HOST slot=LIST, where S* is all sockets; ranks must not share a core of a list.
void read_openmpi(const std::string& text, ReadBack& back) {
  std::map<std::string, std::set<int>> taken;
  for (const std::string& line : lines_of(text)) {
    read_comment(line, back);
    if (line.starts_with('#')) continue;
    std::smatch match;
    ASSERT_TRUE(std::regex_match(line, match, std::regex(R"(rank ([0-9]+)=([^ ]+) slot=(S\*|([0-9]+)(-([0-9]+))?))")))
        << line;
    ASSERT_EQ(std::stoul(match[1]), back.hosts.size());
    back.hosts.push_back(match[2]);
    if (!match[4].matched) continue;
    const int low = std::stoi(match[4]), high = match[6].matched ? std::stoi(match[6]) : low;
    for (int core = low; core <= high; ++core) ASSERT_TRUE(taken[match[2]].insert(core).second);
  }
}

void read_torchrun(const std::string& text, ReadBack& back) {
  std::smatch match;
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_TRUE(std::regex_search(lines.at(0), match, std::regex(R"(--nnodes ([0-9]+) --nproc-per-node ([0-9]+))")));
  const int nodes = std::stoi(match[1]), each = std::stoi(match[2]);
  int node = 0;
  for (const std::string& line : lines) {
    read_comment(line, back);
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    int rank = -1;
    std::string host;
    words >> rank >> host;
    ASSERT_EQ(rank, node++);
    for (int k = 0; k < each; ++k) back.hosts.push_back(host);  // RANK = node_rank * nproc + LOCAL_RANK
  }
  ASSERT_EQ(node, nodes);
}

Placement planned(const Strategy& s, groups::RankOrder order) {
  Placement devices;
  for (std::int64_t rank = 0; rank < s.devices_used(); ++rank) {
    // Written out once more, without the exporter: stages last, or replicas last.
    const std::int64_t tp = rank % s.split.tp, cp = rank / s.split.tp % s.split.cp;
    const std::int64_t rest = rank / (s.split.tp * s.split.cp), data = s.dp;
    const std::int64_t dp = order == groups::RankOrder::stages_last ? rest % data : rest / s.pp;
    const std::int64_t pp = order == groups::RankOrder::stages_last ? rest / data : rest % s.pp;
    devices.push_back(device_of(s, dp, pp, tp + s.split.tp * cp));
  }
  return devices;
}

class RankfileCases : public ::testing::Test {
 protected:
  void check(const cluster::Cluster& cluster, const Strategy& s, groups::RankOrder order) {
    const std::vector<exporter::Host> hosts = exporter::hosts_of(cluster);
    const exporter::RankfileTask task{s, hosts, order, 12};
    std::map<std::string, std::int64_t> first;
    for (const exporter::Host& host : hosts) first[host.name] = host.first_device;
    const Placement expected = planned(s, order);
    const bool by_host = exporter::host_order(hosts, s, order).has_value();
    bool sayable = true;
    try {
      exporter::visible_devices(task);
    } catch (const InputError&) {
      sayable = false;
    }
    for (const exporter::RankfileForm form : {exporter::RankfileForm::slurm, exporter::RankfileForm::openmpi,
                                              exporter::RankfileForm::torchrun, exporter::RankfileForm::slurm_hosts}) {
      const bool needs_blocks = form == exporter::RankfileForm::torchrun || form == exporter::RankfileForm::slurm_hosts;
      if (!sayable || (needs_blocks && !by_host)) {
        EXPECT_THROW(exporter::rankfile_text(task, form), InputError);
        continue;
      }
      ReadBack back;
      back.first = first;
      const std::string text = exporter::rankfile_text(task, form);
      if (form == exporter::RankfileForm::slurm) read_slurm(text, back);
      if (form == exporter::RankfileForm::openmpi) read_openmpi(text, back);
      if (form == exporter::RankfileForm::torchrun) read_torchrun(text, back);
      if (form == exporter::RankfileForm::slurm_hosts) {
        ReadBack nodes;
        read_slurm(text, nodes);
        back.visible = nodes.visible;
        const std::int64_t each = s.devices_used() / static_cast<std::int64_t>(nodes.hosts.size());
        for (const std::string& host : nodes.hosts)
          back.hosts.insert(back.hosts.end(), static_cast<std::size_t>(each), host);
      }
      EXPECT_EQ(back.placement(), expected) << text.substr(0, 400);
      ++checked_;
    }
    const auto json = nlohmann::json::parse(exporter::rankfile_text(task, exporter::RankfileForm::json));
    ASSERT_EQ(json.at("ranks").size(), expected.size());
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      const auto& entry = json["ranks"][rank];
      EXPECT_EQ(entry.at("rank"), rank);
      EXPECT_EQ(entry.at("device"), expected[rank]);
      EXPECT_EQ(first.at(entry.at("host")) + entry.at("local_device").get<std::int64_t>(), expected[rank]);
    }
  }

  std::uint32_t checked_ = 0;
};

TEST_F(RankfileCases, ReadBackTheyAreThePlansPlacement) {
  const cluster::Cluster cluster = *cluster::find_cluster("dgx-h100", 64);
  std::mt19937 random(11);
  const cost::Job job = export_job("mixtral-8x7b", 64);
  const std::uint32_t rounds = test::scaled(600, 90);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    Strategy s = random_plan(job, random).strategy;
    if (random() % 3 == 0) s.pitch = (s.pipeline_block() + 7) / 8 * 8;
    if (s.devices_spanned() > 64) continue;
    check(cluster, s, groups::RankOrder::stages_last);
    if (exporter::can_put_replicas_last(s)) check(cluster, s, groups::RankOrder::replicas_last);
  }
  EXPECT_GT(checked_, rounds * 4 / 3);
}

TEST_F(RankfileCases, NamesComeFromTheCluster) {
  const cluster::Cluster cluster =
      cluster::read_cluster(doc::parse_yaml("c.yaml",
                                            "device: h100\n"
                                            "node_names: [n-7, n-3, n-5]\n"
                                            "levels:\n"
                                            "  - {name: node, group: 2, bandwidth: 450GB/s, latency: 3us}\n"
                                            "  - {name: pod, group: 3, bandwidth: 50GB/s, latency: 8us}\n"),
                            "c");
  Strategy s;
  s.split.tp = 2;
  s.pp = 3;
  check(cluster, s, groups::RankOrder::stages_last);
  EXPECT_THAT(exporter::rankfile_text({s, exporter::hosts_of(cluster), groups::RankOrder::stages_last, 0},
                                      exporter::RankfileForm::slurm),
              ::testing::HasSubstr("\nn-7\nn-7\nn-3\nn-3\nn-5\nn-5\n"));
}

}  // namespace
}  // namespace nest::test
