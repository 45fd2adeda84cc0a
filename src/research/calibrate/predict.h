// Measurement -> seconds, for accuracy reports.
#pragma once

#include "calibrate/burst.h"
#include "calibrate/measurement.h"

namespace nest::calibrate {

// What the burst model says the row should have taken, under the row's own protocol.
double predict_burst(const BurstModel& model, const Measurement& row);

}  // namespace nest::calibrate
