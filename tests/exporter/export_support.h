// Jobs and plans that the exporters' tests share.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cost/evaluate.h"
#include "cost/group_time.h"
#include "exporter/framework.h"
#include "exporter/gpt.h"
#include "model/presets.h"

namespace nest::test {

inline cost::Job export_job(const model::Architecture& architecture, const std::string& cluster, std::int64_t devices,
                            std::int64_t batch, std::int64_t sequence, const std::string& stack = "megatron-core") {
  Run run;
  run.global_batch = batch;
  run.sequence = sequence;
  run.stack = stack;
  return cost::make_job(architecture, run, *cost::find_stack(stack), *cluster::find_cluster(cluster, devices));
}

inline cost::Job export_job(const std::string& preset, std::int64_t devices = 64, std::int64_t batch = 512,
                            std::int64_t sequence = 4096, const std::string& stack = "megatron-core") {
  const model::Architecture architecture = *model::find_model_preset(preset);
  return export_job(architecture, "dgx-h100", devices, batch, std::min(sequence, architecture.max_positions), stack);
}

struct SomePlan {
  Strategy strategy;
  std::vector<StagePlan> stages;
};

// A sound strategy with random degrees and cuts for this job; not necessarily one that fits or is fast.
inline SomePlan random_plan(const cost::Job& job, std::mt19937& random) {
  const auto pick = [&](std::initializer_list<std::int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  for (;;) {
    SomePlan plan;
    Strategy& s = plan.strategy;
    s.split.tp = pick({1, 1, 2, 4, 8});
    const bool experts = exporter::has_experts(job.model);
    s.split.sp = s.split.tp > 1 && (random() % 4 != 0 || experts);
    s.split.cp = pick({1, 1, 1, 2, 4});
    s.split.ep = experts ? pick({1, 2, 4, 8}) : 1;
    s.split.etp = experts && random() % 2 == 0 ? pick({1, 1, 2}) : 0;
    if (s.split.etp == s.split.tp) s.split.etp = 0;
    s.pp = pick({1, 1, 2, 3, 4, 5, 8});
    s.dp = experts ? pick({1, 2, 4, 8, 16}) : pick({1, 2, 3, 4, 8});
    std::vector<std::int64_t> inner;
    for (std::int64_t d = 1; d <= s.dp; ++d) {
      if (s.dp % d == 0) inner.push_back(d);
    }
    s.dp_inner = inner[random() % inner.size()];
    s.micro_batch = pick({1, 1, 2, 4});
    if (s.pp > 1 && random() % 3 == 0) {
      s.virtual_stages = pick({2, 3});
      s.schedule = Schedule::interleaved;
    }
    const int layers = static_cast<int>(job.model.layers.size());
    const auto recompute = static_cast<Recompute>(random() % 3);
    const int zero = static_cast<int>(random() % 4);
    std::vector<int> cuts;
    for (std::int64_t k = 1; k < s.pp; ++k)
      cuts.push_back(1 + static_cast<int>(random() % static_cast<unsigned>(layers - 1)));
    std::sort(cuts.begin(), cuts.end());
    cuts.push_back(layers);
    int first = 0;
    for (const int cut : cuts) {
      StagePlan stage;
      stage.first = first;
      stage.last = cut - 1;
      stage.recompute = recompute;
      stage.zero = zero;
      plan.stages.push_back(stage);
      first = cut;
    }
    if (random() % 3 == 0) plan.stages = cost::even_stages(job, s, recompute, zero);
    if (cost::refuse_strategy(job, s, plan.stages).empty()) return plan;
  }
}

}  // namespace nest::test
