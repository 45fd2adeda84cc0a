// Readers of files that sites have: time grows as the file does.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "importer/import_cluster.h"
#include "test_support/growth.h"

namespace nest::importer {
namespace {

std::string many(const std::string& piece, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

TEST(Growth, OfImportedFiles) {
  struct Case {
    const char* name;
    ImportFormat format;
    std::function<std::string(std::size_t)> text;
  };
  const auto numbered = [](const char* pattern, std::size_t bytes) {
    std::string text;
    for (std::size_t k = 0; text.size() < bytes; ++k) text += fmt::format(fmt::runtime(pattern), k);
    return text;
  };
  const std::vector<Case> cases = {
      {"continued lines", ImportFormat::slurm,
       [](std::size_t n) { return many(" \\\n", n) + "SwitchName=a Nodes=b\n"; }},
      {"continued words", ImportFormat::slurm,
       [&](std::size_t n) { return "SwitchName=a Nodes=b" + numbered(",n{}\\\n", n) + "\n"; }},
      {"switches", ImportFormat::slurm, [&](std::size_t n) { return numbered("SwitchName=s{0} Nodes=n{0}\n", n); }},
      {"a chain of switches", ImportFormat::slurm,
       [](std::size_t n) {
         std::string text = "SwitchName=s0 Nodes=n\n";
         for (std::size_t k = 1; text.size() < n; ++k) text += fmt::format("SwitchName=s{} Switches=s{}\n", k, k - 1);
         return text;
       }},
      {"brackets", ImportFormat::slurm, [](std::size_t n) { return "SwitchName=a Nodes=" + many("[", n) + "\n"; }},
      {"comments", ImportFormat::ibnetdiscover, [](std::size_t n) { return many("# a\n", n); }},
      {"ports", ImportFormat::ibnetdiscover,
       [&](std::size_t n) {
         return "Switch 8 \"S-1\" # \"s\"\n" + numbered("[{0}] \"H-{0}\"[1] # \"h{0}\" lid 1 4xNDR\n", n);
       }},
      {"elements", ImportFormat::nccl,
       [](std::size_t n) { return "<system version=\"1\">" + many("<cpu numaid=\"0\"></cpu>", n) + "</system>"; }},
      {"nested elements", ImportFormat::nccl, [](std::size_t n) { return many("<pci>", n); }},
      {"entities", ImportFormat::nccl, [](std::size_t n) { return "<system a=\"" + many("&amp;", n) + "\"/>"; }},
      {"columns", ImportFormat::nvidia_smi,
       [&](std::size_t n) { return "\t" + numbered("GPU{}\t", n) + "\nGPU0\t X\n"; }}};
  ImportRequest request;
  request.name = "growth";
  request.device = cluster::find_device("h100");
  request.device_yaml = "h100";
  request.devices_per_node = 8;
  for (const Case& one : cases) {
    const double ratio = test::growth(
        [&](std::size_t n) {
          try {
            import_cluster({{"given", one.text(n)}}, one.format, request);
          } catch (const InputError&) {}
        },
        1U << 12U, 1U << 19U);
    EXPECT_LT(ratio, test::kLinear) << one.name;
  }
}

}  // namespace
}  // namespace nest::importer
