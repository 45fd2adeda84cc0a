// Slurm's topology.yaml.
#include "fuzz_import.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nest::fuzz::import_file(data, size, nest::importer::ImportFormat::slurm_yaml);
  return 0;
}
