// One importer: what it accepts must become a cluster file that the reader of clusters accepts too.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/error.h"
#include "importer/import_cluster.h"

namespace nest::fuzz {

inline void import_file(const std::uint8_t* data, std::size_t size, importer::ImportFormat format) {
  const doc::SourceText source{"fuzz", std::string(reinterpret_cast<const char*>(data), size)};
  importer::ImportRequest request;
  request.name = "fuzz";
  request.device = cluster::find_device("h100");
  request.device_yaml = "h100";
  importer::ImportedCluster imported;
  try {
    static_cast<void>(importer::recognise_format(source));
  } catch (const InputError&) {
    // Not recognised; it is still read as what it is said to be.
  }
  try {
    imported = importer::import_cluster({source}, format, request);
    // How many devices a node has decides which bandwidths are asked for: twice is enough, and there is no third time.
    for (int round = 0; round < 2 && !imported.missing.empty(); ++round) {
      for (const MissingFact& fact : imported.missing) {
        if (fact.option == "devices_per_node") request.devices_per_node = 2;
        if (fact.option != "bandwidth") continue;
        request.bandwidth_bytes_per_s[fact.prefix.substr(0, fact.prefix.size() - 1)] = 50e9;
      }
      imported = importer::import_cluster({source}, format, request);
    }
  } catch (const InputError&) {
    return;  // the right answer to most of what comes here; anything else escapes and fails the run
  }
  try {
    cluster::read_cluster(doc::parse_yaml("fuzz.yaml", importer::cluster_yaml(imported)), "fuzz");
  } catch (const InputError& error) {
    std::cerr << "imported, but not readable: " << error.what() << '\n' << importer::cluster_yaml(imported);
    std::abort();
  }
}

}  // namespace nest::fuzz
