// Devices, tiles and units of a cluster as drawings, coloured by stage. Internal to the folder.
#pragma once

#include <cstdint>
#include <string>

#include "cluster/cluster.h"
#include "html/device_map.h"
#include "html/markup.h"

namespace nest::html {

inline constexpr std::size_t kLongestName = 24;         // of a node, a device or a level; names come from files
inline constexpr const char* kIdleFill = "url(#idle)";  // the pattern that idle_pattern() defines

struct Size {
  double width = 0;
  double height = 0;
};

// Idle devices are hatched wherever they are drawn.
Markup idle_pattern();

class TileArt {
 public:
  TileArt(const Strategy& strategy, const cluster::Cluster& cluster, std::int64_t columns)
      : ranks_(strategy), cluster_(cluster), columns_(columns) {}

  // The devices begin … end-1 as squares of `cell`, runs of a stage joined and numbered, lines between devices.
  Markup tile(std::int64_t begin, std::int64_t end, double cell) const;
  Size tile_size(std::int64_t devices, double cell) const;

  // The same with everything that each device does; a whole <svg>.
  Markup large_tile(std::int64_t begin, std::int64_t end) const;

  // The devices in one row, `full` devices wide (a unit that is not full ends early), at most `stripes` stripes.
  Markup strip(std::int64_t begin, std::int64_t end, std::int64_t full, std::size_t stripes, const Size& size) const;

 private:
  std::string fill(std::int64_t stage) const;
  void draw_run(Markup& art, const DeviceRun& run, std::int64_t begin, double cell) const;
  void draw_device(Markup& art, std::int64_t device, double x, double y) const;
  std::string ranks_of(const groups::Place& place) const;
  std::string title_of(std::int64_t device, const std::optional<groups::Place>& place) const;

  groups::RankGroups ranks_;
  const cluster::Cluster& cluster_;
  std::int64_t columns_;
};

}  // namespace nest::html
