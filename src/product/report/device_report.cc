#include "report/device_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/layout.h"
#include "base/units.h"
#include "report/table.h"

namespace nest::report {
namespace {

std::string peaks_table(const cluster::Device& device, const Style& style) {
  constexpr std::size_t kBar = 40;
  const double fastest = *std::max_element(device.peak_flops_per_s.begin(), device.peak_flops_per_s.end());
  Table table({{"", Align::left}, {""}, {"", Align::left, false, Ink::accent}});
  for (const Precision precision : cluster::kDevicePrecisions) {
    const double peak = device.peak(precision);
    if (peak <= 0) continue;
    table.add({to_string(precision), format_compute_rate(peak), bar(peak / fastest, kBar)});
  }
  return table.render(style);
}

}  // namespace

Precision training_precision(const cluster::Device& device) {
  for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::tf32}) {
    if (device.peak(precision) > 0) return precision;
  }
  return Precision::fp32;
}

std::string device_text(const cluster::Device& device, const Style& style) {
  const Precision precision = training_precision(device);
  const std::string headline =
      fmt::format("{}: {} in {}, {} at {}", device.description, format_compute_rate(device.peak(precision)),
                  to_string(precision), format_bytes(device.memory_bytes), format_bandwidth(device.memory_bytes_per_s));
  std::string text = style.paint(Ink::strong, wrap_after("", headline)) + "\n\n" + peaks_table(device, style) + '\n';

  const double balance = device.peak(precision) / device.memory_bytes_per_s;
  Table table({{"", Align::left}, {"", Align::left}});
  table.add({"balance", fmt::format("{:.0f} FLOPs per byte moved keep its arithmetic busy", balance)});
  if (device.link_bytes_per_s > 0) {
    table.add({"links", fmt::format("{} per direction, all together", format_bandwidth(device.link_bytes_per_s))});
  }
  if (device.host_link_bytes_per_s > 0) {
    table.add({"host", fmt::format("{} per direction", format_bandwidth(device.host_link_bytes_per_s))});
  }
  if (device.multiprocessors > 0) table.add({"units", fmt::format("{} multiprocessors", device.multiprocessors)});
  if (device.power_w > 0) table.add({"power", fmt::format("{:.0f} W", device.power_w)});
  text += table.render(style);

  if (!device.efficiency.empty()) {
    std::string constants;
    for (const auto& [name, value] : device.efficiency) {
      constants += fmt::format("{}{} {:g}", constants.empty() ? "" : ", ", name, value);
    }
    text += '\n' + wrap_after("  reached  ", constants) + '\n';
  }
  if (!device.source.empty()) text += wrap_after("  source   ", device.source) + '\n';
  return text;
}

Json device_json(const cluster::Device& device) {
  Json peaks = Json::object();
  for (const Precision precision : cluster::kDevicePrecisions) {
    if (device.peak(precision) > 0) {
      peaks[to_string(precision)] = json_number(device.peak(precision));
    }
  }
  return {{"name", device.name},
          {"description", device.description},
          {"aliases", device.aliases},
          {"source", device.source},
          {"peak_flops_per_s", std::move(peaks)},
          {"memory_bytes", device.memory_bytes},
          {"memory_bytes_per_s", json_number(device.memory_bytes_per_s)},
          {"link_bytes_per_s", json_number(device.link_bytes_per_s)},
          {"host_link_bytes_per_s", json_number(device.host_link_bytes_per_s)},
          {"host_memory_bytes_per_s", json_number(device.host_memory_bytes_per_s)},
          {"multiprocessors", device.multiprocessors},
          {"power_w", json_number(device.power_w)},
          {"efficiency", device.efficiency}};
}

}  // namespace nest::report
