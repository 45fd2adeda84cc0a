// Single operators and layers measured in bursts on one H200, against the burst model with the constants that ship.
#include "accuracy/sets.h"
#include "base/error.h"
#include "calibrate/measurement.h"
#include "calibrate/predict.h"
#include "cluster/device.h"

namespace nest::accuracy {
namespace {

bool is_layer(calibrate::MeasuredKind kind) {
  return kind == calibrate::MeasuredKind::layer_forward || kind == calibrate::MeasuredKind::layer_both ||
         kind == calibrate::MeasuredKind::small_layer_forward || kind == calibrate::MeasuredKind::small_layer_both;
}

bool is_host(calibrate::MeasuredKind kind) {
  return kind == calibrate::MeasuredKind::host_forward || kind == calibrate::MeasuredKind::host_both;
}

// Blocks whose time is the host's: the device would be done this much earlier if kernels were queued.
bool waits_for_host(const calibrate::BurstModel& model, calibrate::Measurement row) {
  constexpr double kWaits = 1.05;
  const double seconds = calibrate::predict_burst(model, row);
  row.queued = true;
  return is_layer(row.kind) && seconds > kWaits * calibrate::predict_burst(model, row);
}

// "llama3_8b" of "llama3_8b tp 8, 2 x 2048 tokens".
std::string family_of(const std::string& label) { return label.substr(0, label.find(' ')); }

enum class Rows { operators, blocks, blocks_of_the_host };

void add_file(const std::filesystem::path& path, Rows wanted, Set& set) {
  const bool layers = wanted != Rows::operators;
  const auto document = read_list(path, set);
  if (!document) return;
  try {
    const cluster::Device device = cluster::find_device("h200").value();
    const calibrate::BurstModel model(device);
    const calibrate::Measurements measured = calibrate::read_measurements(*document);
    for (const calibrate::Measurement& row : measured.rows) {
      if (is_layer(row.kind) != layers || is_host(row.kind)) continue;
      if (waits_for_host(model, row) != (wanted == Rows::blocks_of_the_host)) continue;
      ++set.rows;
      const std::string kind = to_string(row.kind);
      set.readings.push_back({kind + " " + row.label,
                              layers ? family_of(row.label) : kind,
                              {calibrate::predict_burst(model, row), row.seconds},
                              "s",
                              false,
                              true,
                              0,
                              ""});
    }
    for (std::size_t i = 0; i < measured.left_out && !layers; ++i) {
      ++set.rows;
      set.leave_out("entry", "other entries", "no formula for this kind of entry");
    }
  } catch (const InputError& error) {
    ++set.rows;
    set.leave_out(path.filename().string(), path.filename().string(), error.what());
  }
}

}  // namespace

Set operators(const std::filesystem::path& folder) {
  Set set{"operators", "Single operators on one H200, in bursts", "s", 0, {}, {}};
  for (const char* file : {"ops.json", "ops2.json"}) add_file(folder / "h200" / file, Rows::operators, set);
  return set;
}

Set layer_time(const std::filesystem::path& folder) {
  Set set{"layer_time", "Transformer blocks on one H200, in bursts: time", "s", 0, {}, {}};
  add_file(folder / "h200" / "layers.json", Rows::blocks, set);
  return set;
}

Set layer_host(const std::filesystem::path& folder) {
  Set set{"layer_host", "Transformer blocks on one H200 that wait for the host, in bursts: time", "s", 0, {}, {}};
  add_file(folder / "h200" / "layers.json", Rows::blocks_of_the_host, set);
  return set;
}

}  // namespace nest::accuracy
