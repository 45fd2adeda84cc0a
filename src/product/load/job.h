// From the names and files that a person gives to a job that can be priced: what every way into nest (the program, the
// Python package) does first.
#pragma once

#include <cstdint>
#include <string>

#include "cost/job.h"
#include "nest/job.h"
#include "plan/plan.h"

namespace nest::load {

// Throws InputError.
cost::Job load_job(const Question& question);

// Devices that the question asks for, by their number or by that of hosts; 0: it does not say. Throws InputError.
std::int64_t asked_devices(const Question& question);

// The job that a plan was made for: from its own documents; what a hand-written plan leaves out is looked up by name.
// Throws InputError.
cost::Job load_job(const Plan& plan);

}  // namespace nest::load
