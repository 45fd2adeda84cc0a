#include "nest/job.h"

#include "cluster/cluster.h"
#include "doc/value.h"
#include "door/job_data.h"
#include "door/option_checks.h"
#include "load/input.h"
#include "load/job.h"
#include "plan/plan_json.h"
#include "report/json.h"

namespace nest {
namespace {

template <class Enum, class Words>
Enum value_of(std::string_view name, const std::string& word, const Words& words) {
  std::vector<std::string> texts;
  texts.reserve(std::size(words));
  for (const auto& each : words) texts.emplace_back(each.text);
  return words[require_word(name, word, texts)].value;
}

}  // namespace

const std::string& TrainingJob::title() const { return unwrap(*this).title; }
std::int64_t TrainingJob::devices() const { return unwrap(*this).cluster.devices; }
std::int64_t TrainingJob::device_memory_bytes() const { return unwrap(*this).cluster.device.memory_bytes; }
std::int64_t TrainingJob::devices_per_node() const {
  return cluster::devices_per_node(unwrap(*this).cluster).value_or(0);
}
double TrainingJob::price_per_device_hour() const { return unwrap(*this).cluster.price_per_device_hour; }

TrainingJob read_job(const Question& question) {
  require_given("devices", question.devices, kDevices);
  require_given("nodes", question.nodes, kDevices);
  require_given("global_batch", question.global_batch, kBatches);
  require_given("batch_tokens", question.batch_tokens, kBatchTokens);
  require_given("seq", question.seq, kSequences);
  require_given("encoder_seq", question.encoder_seq, kSequences);
  require_given("mtp_layers", question.mtp_layers, kMtpLayers);
  return wrap_job(load::load_job(question));
}

TrainingJob job_of(const Plan& plan) { return wrap_job(load::load_job(plan)); }

Plan read_plan(const Input& file, const Input& profile) {
  Plan plan = plan::read_plan(doc::parse_json(load::source_name(file), load::read_text(file)));
  plan.source = load::source_name(file);
  if (!profile.empty()) plan.profile = doc::parse_json(load::source_name(profile), load::read_text(profile));
  return plan;
}

std::string plan_file(const Plan& plan) { return report::to_text(plan::plan_to_json(plan)); }

Precision precision_of(const std::string& word) { return value_of<Precision>("precision", word, kPrecisionWords); }
Optimizer optimizer_of(const std::string& word) { return value_of<Optimizer>("optimizer", word, kOptimizerWords); }

}  // namespace nest
