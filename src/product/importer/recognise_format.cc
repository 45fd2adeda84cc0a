#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "base/text.h"
#include "importer/import_cluster.h"
#include "importer/line_reader.h"
#include "nest/option.h"

namespace nest::importer {
namespace {

constexpr std::size_t kLinesLookedAt = 4096;

std::optional<ImportFormat> format_of_line(std::string_view line) {
  if (line.starts_with("<")) return ImportFormat::nccl;
  const std::string lower = to_lower(line.substr(0, 40));
  for (const std::string_view key : {"switchname=", "blockname=", "ringname=", "blocksizes="}) {
    if (lower.starts_with(key)) return ImportFormat::slurm;
  }
  if (line.starts_with("- topology:")) return ImportFormat::slurm_yaml;
  for (const std::string_view start :
       {"vendid=", "devid=", "switchguid=", "caguid=", "Switch\t", "Ca\t", "SW  ", "CA  "}) {
    if (line.starts_with(start)) return ImportFormat::ibnetdiscover;
  }
  // The header of the matrix may begin with an escape sequence.
  const std::size_t gpu = line.find("GPU0");
  if (gpu < 12 && (line.find("GPU1") < line.size() || line.find("Affinity") < line.size())) {
    return ImportFormat::nvidia_smi;
  }
  return std::nullopt;
}

}  // namespace

const char* to_string(ImportFormat format) {
  constexpr std::array kNames = {"slurm", "slurm-yaml", "nvidia-smi", "ibnetdiscover", "nccl"};
  return kNames[static_cast<std::size_t>(format)];
}

ImportFormat recognise_format(const doc::SourceText& source) {
  LineReader lines(source);
  TextLine line;
  while (lines.next(line) && line.number <= kLinesLookedAt) {
    const std::string_view text = trim(line.text);
    if (text.starts_with("# nccl-tests") || text.starts_with("# nThread") || text.starts_with("# Collective test")) {
      throw InputError(
          fmt::format("{}: this is a measurement of nccl-tests; it says how fast a cluster is, not how it is "
                      "built",
                      source.name));
    }
    if (text.starts_with('#')) continue;
    if (const auto format = format_of_line(text)) return *format;
  }
  throw InputError(fmt::format(
      "{}: not recognised; known are Slurm's topology.conf (slurm) and topology.yaml (slurm-yaml), what `nvidia-smi "
      "topo "
      "-m` (nvidia-smi) and ibnetdiscover (ibnetdiscover) print, and NCCL's topology XML (nccl); if it is one of them, "
      "say which with {}",
      source.name, option("format")));
}

}  // namespace nest::importer
