#include "paper/publications.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"

namespace nest::paper {
namespace {

using Settings = std::vector<std::string>;

void add(Settings& settings, std::initializer_list<const char*> more) {
  settings.insert(settings.end(), more.begin(), more.end());
}

// What the artifact's instances of a model admit.
void add_instance(const std::string& model, Settings& settings) {
  if (model == "bert-large") {
    add(settings, {"tp=1,2,4,8", "recompute=none"});
  } else if (model.starts_with("gpt3")) {
    add(settings, {"tp=4,8", "recompute=full"});
  } else if (model.starts_with("mixtral")) {
    add(settings, {"tp=1", "ep=4", "recompute=full"});
  } else {
    add(settings, {"tp=1", "recompute=full"});
  }
}

// One strategy per model, as published for one of about its size: Table 1 of Narayanan et al., SC 2021, and of Mixtral
// the recipe of NeMo.
struct FixedDegrees {
  const char* model;
  int tp, pp, ep;
};
constexpr std::array<FixedDegrees, 6> kFixed = {{{"bert-large", 1, 1, 1},
                                                 {"llama2-7b", 4, 1, 1},
                                                 {"gpt3-35b", 8, 2, 1},
                                                 {"llama3-70b", 8, 4, 1},
                                                 {"gpt3-175b", 8, 8, 1},
                                                 {"mixtral-8x7b", 1, 4, 8}}};

void add_fixed(const std::string& model, int deeper, Settings& settings) {
  for (const FixedDegrees& one : kFixed) {
    if (model != one.model) continue;
    settings.push_back(fmt::format("tp={}", one.tp));
    settings.push_back(fmt::format("pp={}", one.pp << deeper));
    settings.push_back(fmt::format("ep={}", one.ep));
    add(settings, {"sp=0", "recompute=full", "even_cuts=1", "uniform=1"});
    return;
  }
  throw InternalError("no published degrees of " + model);
}

}  // namespace

const std::vector<Publication>& publications() {
  static const std::vector<Publication> kPublications = {
      {"nest", "replicas, stages, cuts, places; tensor widths, experts and recomputation as the artifact's instances"},
      {"mcmc", "the same choices"},
      {"manual",
       "one fixed strategy per model (SC 2021, Table 1; NeMo's recipe of Mixtral), everything recomputed, even "
       "cuts, Megatron's rank order; stages doubled until it fits"},
      {"alpa", "tensor and data parallelism per submesh, no recomputation, no sharded state"},
      {"phaze", "the same choices as nest, on a network of one bandwidth"},
      {"mist", "tensor widths, recomputation and ZeRO per stage, replicas together"},
  };
  return kPublications;
}

plan::PlanLimits publication_limits(const std::string& planner, const Point& point, int deeper) {
  Settings settings = {fmt::format("mbs={}", point.micro_batch)};
  add(settings, {"schedule=1f1b", "vpp=1", "cp=1", "pitch=0", "shard_in_node=0", "offload=none"});
  if (planner != "mist") settings.emplace_back("zero=0");
  if (planner == "manual") {
    add_fixed(point.model, deeper, settings);
  } else if (planner == "alpa") {
    settings.emplace_back("recompute=none");
  } else if (planner == "mist") {
    settings.emplace_back("recompute=none,selective,full");
  } else {
    add_instance(point.model, settings);
  }
  plan::PlanLimits limits = limits_of(settings);
  limits.replicas_together = planner == "manual";
  return limits;
}

}  // namespace nest::paper
