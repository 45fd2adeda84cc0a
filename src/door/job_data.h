// What a TrainingJob holds.
#pragma once

#include "cost/job.h"
#include "nest/job.h"

namespace nest {

struct JobData {
  cost::Job job;
};

inline TrainingJob wrap_job(cost::Job job) { return TrainingJob(std::make_shared<JobData>(JobData{std::move(job)})); }
inline const cost::Job& unwrap(const TrainingJob& job) { return job.data().job; }

}  // namespace nest
