// Published runs beside their errors: refusals, ratios, releases, settings that are not expressed.
#include <fmt/format.h>

#include "accuracy/report.h"
#include "base/index.h"

namespace nest::accuracy {
namespace {

std::string errors_words(const Errors& errors) {
  return fmt::format("mean {:.1f} %, median {:.1f} %, bias {:+.1f} %, n {}", 100 * errors.mean_absolute,
                     100 * errors.median_absolute, 100 * errors.bias, errors.count);
}

std::string slice_cells(const Errors& errors) {
  if (errors.count == 0) return "– | – | –";
  return fmt::format("{} | {:.1f} % | {:+.1f} %", errors.count, 100 * errors.mean_absolute, 100 * errors.bias);
}

// Ids and changes come from rows: bars would break the table.
std::string plain_cell(std::string text) {
  for (char& c : text) {
    if (c == '|' || c == '<' || c == '`' || static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

std::string files_section(const Summary& summary) {
  if (summary.files.empty()) return {};
  std::string text =
      "\n## Published runs, file by file\n\n| file | part | used | mean | median | bias | worst |\n"
      "|---|---|---:|---:|---:|---:|---:|\n";
  for (const FilePart& file : summary.files) {
    const Errors& errors = file.part.errors;
    text += fmt::format("| {} | {} | {} | {:.1f} % | {:.1f} % | {:+.1f} % | {:+.1f} % |\n", plain_cell(file.file),
                        file.part.name, errors.count, 100 * errors.mean_absolute, 100 * errors.median_absolute,
                        100 * errors.bias, 100 * errors.worst);
  }
  return text;
}

std::string refusals_section(const Summary& summary) {
  if (summary.refusals.empty()) return {};
  std::string text =
      "\n## Runs that ran and are refused\n\nThat a run was measured says that it fits. Refused: the memory that nest "
      "says it needs, margin included, is more than the device has.\n\n"
      "| file | strict runs | refused | share | all runs | refused | share |\n|---|---:|---:|---:|---:|---:|---:|\n";
  for (const Refusals& file : summary.refusals) {
    text += fmt::format("| {} | {} | {} | {:.1f} % | {} | {} | {:.1f} % |\n",
                        file.file.empty() ? "all" : plain_cell(file.file), file.strict, file.strict_refused,
                        100 * file.strict_share(), file.all, file.all_refused, 100 * file.share());
  }
  const Refusals& last = summary.refusals.back();
  if (last.runs.empty()) return text;
  text += "\n| refused | over the device's memory by |\n|---|---:|\n";
  for (const RefusedRun& run : last.runs) {
    text += fmt::format("| {}{} | {:.1f} % |\n", plain_cell(run.id), run.strict ? "" : " (incomplete)", 100 * run.over);
  }
  return text;
}

std::string ratios_section(const Summary& summary) {
  if (summary.ratios.empty()) return {};
  std::string text =
      "\n## What one change does\n\nRuns that differ in one thing, judged by their ratio: what errors they share "
      "cancels.\n\n| group | of | from | to | measured | predicted | error |\n|---|---|---|---|---:|---:|---:|\n";
  std::vector<Point> points;
  for (const Ratio& ratio : summary.ratios) {
    text += fmt::format("| {}{} | {} | {} | {} | {:.3f} | {:.3f} | {:+.1f} % |\n", plain_cell(ratio.group),
                        ratio.strict ? "" : " (incomplete)", ratio.quantity, plain_cell(ratio.from),
                        plain_cell(ratio.to), ratio.point.measured, ratio.point.predicted, 100 * ratio.point.error());
    points.push_back(ratio.point);
  }
  return text + fmt::format("\nRatios: {}.\n", errors_words(errors_of(points)));
}

std::string slices_section(const Summary& summary) {
  if (summary.slices.empty()) return {};
  std::string text =
      "\n## Strict runs by release and device\n\n| release | device | dense | mean | bias | mixtures | mean | bias "
      "|\n|---|---|---:|---:|---:|---:|---:|---:|\n";
  for (const Slice& slice : summary.slices) {
    text += fmt::format("| {} | {} | {} | {} |\n", slice.release.empty() ? "all" : plain_cell(slice.release),
                        plain_cell(slice.device), slice_cells(slice.dense), slice_cells(slice.mixtures));
  }
  return text;
}

std::string unexpressed_section(const Summary& summary) {
  if (summary.not_expressed.empty()) return {};
  std::string text =
      "\n## Settings that are not expressed\n\nWhat rows state and no key of a stack says yet; they are priced with "
      "the nearest.\n\n";
  for (const Unexpressed& one : summary.not_expressed)
    text +=
        fmt::format("- not expressed: {} ({} {})\n", plain_cell(one.name), one.runs, one.runs == 1 ? "run" : "runs");
  return text;
}

}  // namespace

std::string runs_sections(const Summary& summary) {
  return files_section(summary) + refusals_section(summary) + ratios_section(summary) + slices_section(summary) +
         unexpressed_section(summary);
}

std::string runs_text(const Summary& summary) {
  std::string text;
  for (const Part& part : summary.parts) text += fmt::format("{}: {}\n", part.name, errors_words(part.errors));
  for (const FilePart& file : summary.files)
    text += fmt::format("{}, {}: {}\n", file.file, file.part.name, errors_words(file.part.errors));
  for (const Refusals& file : summary.refusals) {
    text += fmt::format("refused although it ran, {}: {} of {} strict ({:.1f} %), {} of {} in all ({:.1f} %)\n",
                        file.file.empty() ? "all files" : file.file, file.strict_refused, file.strict,
                        100 * file.strict_share(), file.all_refused, file.all, 100 * file.share());
  }
  if (!summary.refusals.empty()) {
    for (const RefusedRun& run : summary.refusals.back().runs)
      text += fmt::format("  {}{}: over by {:.1f} %\n", run.id, run.strict ? "" : " (incomplete)", 100 * run.over);
  }
  for (const Ratio& ratio : summary.ratios) {
    text += fmt::format("{}, {}: {} -> {}: measured x{:.3f}, predicted x{:.3f}\n", ratio.group, ratio.quantity,
                        ratio.from, ratio.to, ratio.point.measured, ratio.point.predicted);
  }
  for (const Unexpressed& one : summary.not_expressed)
    text += fmt::format("not expressed: {} ({} runs)\n", one.name, one.runs);
  return text;
}

}  // namespace nest::accuracy
