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
  std::string precision = "bf16";
  std::string optimizer = "adam";
  std::string profile;  // a file of measured operators or layers
};

// What the options stand for, with the documents it was read from.
struct LoadedJob {
  Job job;
  std::string title;  // of the model
  Document model_config;
  Document cluster_description;
};

// Throw InputError.
LoadedJob load_job(const JobQuestion& question);
LoadedJob load_job(const Plan& plan);

// Gives the job a file of measured operators or layers; nothing for an empty path. Throws InputError, also when it was
// measured on something else.
void load_profile(const std::string& path, Job& job);

// Fills in what the plan is for.
void describe_job(const LoadedJob& loaded, Plan& plan);

}  // namespace nest
