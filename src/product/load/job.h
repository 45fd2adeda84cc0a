// From the names and files that a person gives to a job that can be priced: what every way into nest (the program, the
// Python package) does first.
#pragma once

#include <cstdint>
#include <string>

#include "cost/job.h"
#include "plan/plan.h"

namespace nest {

struct JobQuestion {
  std::string model = "llama3-70b";
  std::string cluster = "dgx-h100";
  std::int64_t devices = 0;       // 0: the cluster's own size
  std::int64_t global_batch = 0;  // 0: about four million tokens
  std::int64_t sequence = 0;      // 0: the model's default
  std::int64_t encoder_sequence = 0;
  std::string stack = "megatron-core";
  Precision precision = Precision::bf16;
  Optimizer optimizer = Optimizer::adam;
  std::string profile;  // a file of measured operators or layers
};

// Throws InputError.
Job load_job(const JobQuestion& question);

// The job that a plan was made for: from its own documents; what a hand-written plan leaves out is looked up by name.
// Throws InputError.
Job load_job(const Plan& plan);

// A plan from a file, with its job. The job is priced with the measurements of `profile` where that is given, else with
// the plan's own. Throws InputError.
struct OpenedPlan {
  Plan plan;
  Job job;
  Document document;  // the whole file
};
OpenedPlan open_plan(const std::string& path, const std::string& profile = {});

// The plan of a file, priced anew. Throws InputError when it cannot be priced.
OpenedPlan price_plan(const std::string& path, const std::string& profile = {});

}  // namespace nest
