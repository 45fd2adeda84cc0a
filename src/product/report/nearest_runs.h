// Published training runs that are nearest to a plan, and how nest does on them: evidence beside an answer.
//
// The runs are those of data/accuracy that have a time, with the prediction of the version that wrote data/runs
// (`make accuracy`; a test compares it with today's).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nest/document.h"
#include "report/plan_report.h"

namespace nest::report {

struct PublishedTime {
  std::string id;
  std::string source;
  std::string device;
  std::string precision;
  std::string stack;
  std::int64_t devices = 0;
  std::int64_t sequence = 0;
  double parameters = 0;
  bool experts = false;
  bool complete = true;  // states everything that a prediction needs; else something was assumed
  double measured_s = 0;
  double predicted_s = 0;

  double error() const { return predicted_s / measured_s - 1; }
};

struct NearRun {
  PublishedTime run;
  // Doublings of parameters, and half of those of devices and sequence; 1 for another precision or stack each, 2 for
  // another device, 3 for a mixture beside a dense model, 0.5 for a run of which something was assumed.
  double distance = 0;
  std::string apart;  // "4 x the devices, another precision"; empty: nothing
};

std::vector<PublishedTime> read_runs(const Document& document);
std::string write_runs(const std::vector<PublishedTime>& runs);  // that read_runs() reads
const std::vector<PublishedTime>& published_runs();              // those that ship

// The nearest first.
std::vector<NearRun> nearest_runs(const PlanReport& report, std::size_t at_most = 3);
std::string nearest_text(const std::vector<NearRun>& runs);  // of the first
Json nearest_json(const std::vector<NearRun>& runs);

}  // namespace nest::report
