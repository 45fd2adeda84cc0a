// The job that is planned where nothing says how many devices there are.
#pragma once

#include "nest/job.h"

namespace nest::app {

// The question, and the job; for `plan` and `compare`, where neither a cluster nor a number of devices is given, on a few devices.
Question small_question(Question question);
TrainingJob read_small_job(Question question);

// Throws InputError for a model that is none but a setting, "tp=8", without its flag.
void refuse_stray_setting(const Question& question);

}  // namespace nest::app
