// What a TrainingJob holds.
#pragma once

#include "cost/job.h"
#include "nest/job.h"

namespace nest {

struct JobData {
  Job job;
};

inline TrainingJob wrap_job(Job job) { return TrainingJob(std::make_shared<JobData>(JobData{std::move(job)})); }
inline const Job& unwrap(const TrainingJob& job) { return job.data().job; }

}  // namespace nest
