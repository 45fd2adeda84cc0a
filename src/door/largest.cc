#include "nest/largest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "cost/memory.h"
#include "doc/value.h"
#include "door/job_data.h"
#include "door/option_checks.h"
#include "door/search_limits.h"
#include "load/catalogue.h"
#include "nest/option.h"
#include "questions/largest.h"
#include "search/planner.h"
#include "split/split.h"
#include "sweep/variant.h"

namespace nest {
namespace {

constexpr std::int64_t kUsualStep = 1024;       // tokens
constexpr std::int64_t kMostDepth = 1024;       // layers that are tried
constexpr std::int64_t kMostPass = 1 << 20;     // sequences at once
constexpr std::int64_t kMostContextRanks = 64;  // search/space.h
constexpr std::int64_t kMostTensorRanks = 64;

std::string layers_key(const Input& input) {
  const load::NamedModel model = load::load_model(input.empty() ? Input("llama3-70b") : input);
  const auto refuse = [&](const char* why) {
    throw InputError(
        fmt::format("{}: layers of {} cannot be counted otherwise: {}", option("largest"), clip(model.title, 60), why));
  };
  if (model.graph || model.architecture.document.empty()) refuse("it is a graph, not a configuration");
  if (model.architecture.towers.size() != 1) refuse("it has several towers");
  const doc::Object* root = model.architecture.document.root().as_object();
  for (const std::string prefix : {"", "text_config"}) {
    const doc::Value* part = root == nullptr || prefix.empty() ? nullptr : root->find(prefix);
    const doc::Object* config = prefix.empty() ? root : part != nullptr ? part->as_object() : nullptr;
    if (config == nullptr) continue;
    for (const char* key : {"num_hidden_layers", "num_layers", "n_layers", "n_layer", "layers"}) {
      const doc::Value* value = config->find(key);
      const std::int64_t* number = value != nullptr ? value->as_integer() : nullptr;
      if (number != nullptr && *number == model.architecture.layers()) return prefix.empty() ? key : prefix + "." + key;
    }
  }
  refuse("no key of its configuration says how many there are");
  return {};
}

// What may divide a sequence: 2 cp, and tp of a rank's part where what lies between is divided too.
std::int64_t sequence_divisor(const cost::Job& job, std::int64_t devices) {
  std::int64_t divisor = 1;
  for (std::int64_t tp = 1; tp <= std::min(devices, kMostTensorRanks); ++tp) {
    Split split;
    split.tp = tp;
    if (!split::refuse_split(job.model, {1, job.run.sequence, job.run.encoder_sequence, 1.0}, split).empty()) continue;
    for (std::int64_t cp = 1; cp <= kMostContextRanks && tp * cp <= devices; cp *= 2)
      divisor = std::lcm(divisor, std::lcm(cp * tp, cp > 1 ? 2 * cp : 1));
  }
  return divisor;
}

class LargestSearch {
 public:
  LargestSearch(const Question& question, const SearchOptions& options, LargestAnswer& out)
      : question_(question),
        options_(options),
        end_(options.time_limit_s > 0 ? options.time_limit_s : std::numeric_limits<double>::infinity(), options.stop),
        out_(out) {
    if (out.of == LargestOf::layers) key_ = layers_key(question.model);
    const cost::Job& job = unwrap(out.job);
    devices_ = search::device_limit(job, options.max_devices);
    set_limits(asked_, options.micro_batch, options.set);
    is_limited_ = !options.set.empty() || !(options.micro_batch.empty() || options.micro_batch == "auto");
  }

  void run() {
    const bool any = options_.offload == OffloadSearch::any;
    run(any ? OffloadSearch::any : OffloadSearch::never);
    if (out_.outcome == PlanOutcome::no_plan && options_.offload == OffloadSearch::needed) run(OffloadSearch::any);
    if (out_.outcome == PlanOutcome::no_plan) explain();
  }

 private:
  void run(OffloadSearch offload) {
    offload_ = offload;
    known_.clear();
    is_stopped_ = false;
    const auto is_over = [&] { return is_stopped_ || end_.has_passed(); };
    bool proven = false;
    if (out_.of == LargestOf::batch) {
      const questions::LargestProduct found = questions::largest_product(
          replica_counts(), out_.most, [&](std::int64_t count, std::int64_t each) { return fits(count * each, count); },
          is_over);
      proven = found.proven;
    } else {
      const questions::Largest found = questions::largest_value(
          {out_.step, rounds(), out_.most}, start(), [&](std::int64_t value) { return may_fit(value); },
          [&](std::int64_t value) { return fits(value, 0); }, is_over);
      proven = found.proven;
    }
    out_.outcome = !proven ? PlanOutcome::limit : kept_ ? PlanOutcome::optimal : PlanOutcome::no_plan;
    if (kept_) take_plan();
    if (!kept_ && proven && refusal_ && !was_searched_) throw InputError(*refusal_);
  }

  Question at(std::int64_t value) const {
    Question question = question_;
    switch (out_.of) {
      case LargestOf::batch: question.global_batch = value; break;
      case LargestOf::seq: question.seq = value; break;
      case LargestOf::layers: {
        SweepValue layers{std::to_string(value), static_cast<double>(value), true};
        question.model = sweep::changed_model(question.model.empty() ? Input("llama3-70b") : question.model,
                                              {{key_, std::move(layers)}});
        break;
      }
    }
    return question;
  }

  SearchOptions for_pass(SearchOptions options, std::int64_t value, std::int64_t replicas) const {
    options.offload = offload_;
    options.time_limit_s = seconds_left(end_);
    if (replicas == 0) return options;
    options.micro_batch = std::to_string(value / replicas);
    options.set.push_back("dp=" + std::to_string(replicas));
    return options;
  }

  // The best plan by the formula; nothing where none fits.
  std::optional<Answer> best_plan(std::int64_t value, std::int64_t replicas, SearchOptions options) {
    std::optional<Answer> found;
    try {
      const TrainingJob job = read_job(at(value));
      if (!has_room(unwrap(job))) {
        was_searched_ = true;
        return found;
      }
      Answer answer = find_plan(job, for_pass(bare_search(std::move(options)), value, replicas));
      was_searched_ = true;
      if (answer.plans.empty() && answer.outcome == PlanOutcome::limit) is_stopped_ = true;
      if (!answer.plans.empty()) found = std::move(answer);
    } catch (const InputError& error) {
      // No plan at all with this value, or no such model. With every value that is a mistake in the question.
      if (!refusal_) refusal_ = error;
    }
    out_.tries.push_back({value, replicas, found.has_value()});
    return found;
  }

  bool fits(std::int64_t value, std::int64_t replicas) {
    const auto [place, is_new] = known_.try_emplace({value, replicas}, false);
    if (!is_new) return place->second;
    std::optional<Answer> found = best_plan(value, replicas, options_);
    place->second = found.has_value();
    if (found && value > out_.value) {
      out_.value = value;
      kept_ = std::move(found);
    }
    return place->second;
  }

  // Whether devices can hold what must be on them: the state, or where that may wait on the host the weights.
  bool has_room(const cost::Job& job) const {
    if (offload_ == OffloadSearch::never) return search::fewest_devices(job) <= devices_;
    if (!job.run.freeze.empty() || !job.run.lora.empty()) return true;
    return cost::state_bytes(job).weight * static_cast<double>(job.parameters) <=
           static_cast<double>(devices_) * static_cast<double>(job.cluster.device.memory_bytes);
  }

  // No less than fits(), and monotone.
  bool may_fit(std::int64_t value) {
    if (out_.of == LargestOf::seq || (options_.target == "any" && !is_limited_)) return fits(value, 0);
    if (is_limited_) {
      try {
        return has_room(unwrap(read_job(at(value))));
      } catch (const InputError&) {
        return true;  // no such model: nothing is known of larger ones
      }
    }
    SearchOptions options = options_;
    options.target = "any";
    return best_plan(value, 0, std::move(options)).has_value();
  }

  std::int64_t rounds() const {
    if (out_.of != LargestOf::seq) return out_.step;
    return std::lcm(out_.step, sequence_divisor(unwrap(out_.job), devices_));
  }

  std::int64_t start() const {
    const cost::Job& job = unwrap(out_.job);
    return out_.of == LargestOf::seq ? job.run.sequence : job.model.layer_count();
  }

  // Without experts, of the counts with which every replica has room on equally many devices the largest: it has all the
  // others' plans, with no more of the state on each device.
  std::vector<std::int64_t> replica_counts() const {
    const auto& kinds = unwrap(out_.job).model.kinds;
    const bool experts = std::any_of(kinds.begin(), kinds.end(), [](const model::Layer& k) { return k.experts > 0; });
    const bool all = experts || asked_.all_devices || !asked_.dp.is_free() || !asked_.dp_inner.is_free();
    std::vector<std::int64_t> counts;
    for (std::int64_t count = devices_; count >= 1; --count) {
      if (!asked_.dp.admits(count)) continue;
      if (all || count == devices_ || devices_ / count != devices_ / (count + 1)) counts.push_back(count);
    }
    return counts;
  }

  // Of all ways to make up a batch, the best; 0: no time is left.
  std::int64_t best_replicas() {
    std::int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t count = 1; count <= std::min(devices_, out_.value) && !end_.has_passed(); ++count) {
      if (out_.value % count != 0 || !asked_.dp.admits(count)) continue;
      const std::optional<Answer> found = best_plan(out_.value, count, options_);
      if (!found || found->plans.front().prediction.iteration_s >= least) continue;
      least = found->plans.front().prediction.iteration_s;
      best = count;
    }
    return best;
  }

  // The plan with everything that is told of it; where no time is left for that, as it was found.
  void take_plan() {
    out_.job = kept_->job;
    out_.answer = std::move(kept_);
    const std::int64_t replicas = out_.of == LargestOf::batch ? best_replicas() : 0;
    if (end_.has_passed()) return;
    Answer answer = find_plan(read_job(at(out_.value)), for_pass(options_, out_.value, replicas));
    if (!answer.plans.empty()) out_.answer = std::move(answer);
  }

  void explain() {
    const std::int64_t smallest = out_.step;
    out_.job = read_job(at(smallest));
    offload_ = options_.offload;
    out_.answer = find_plan(out_.job, for_pass(options_, smallest, 0));
  }

  const Question& question_;
  const SearchOptions& options_;
  search::Deadline end_;
  LargestAnswer& out_;
  std::string key_;  // of the configuration, where layers are asked for
  std::int64_t devices_ = 0;
  plan::PlanLimits asked_;
  bool is_limited_ = false;
  OffloadSearch offload_ = OffloadSearch::never;
  std::map<std::pair<std::int64_t, std::int64_t>, bool> known_;
  bool is_stopped_ = false, was_searched_ = false;
  std::optional<InputError> refusal_;
  std::optional<Answer> kept_;  // with the largest value that fits so far
};

void check_question(const Question& question, LargestOf of, const SearchOptions& options) {
  const auto refuse = [&](const char* name, const char* why) {
    throw InputError(fmt::format("{}: {}", option(name), why));
  };
  constexpr const char* kAsked = "is what is asked for; leave it out";
  if (of == LargestOf::seq && question.seq > 0) refuse("seq", kAsked);
  if (of == LargestOf::seq && question.batch_tokens > 0)
    refuse("global_batch", "give it in sequences where their length is asked for");
  if (of != LargestOf::batch) return;
  if (question.global_batch > 0 || question.batch_tokens > 0) refuse("global_batch", kAsked);
  plan::PlanLimits asked;
  set_limits(asked, options.micro_batch, options.set);
  if (!asked.micro_batch.is_free()) refuse("micro_batch", "all sequences pass at once here; leave it out");
}

}  // namespace

const char* to_string(LargestOf of) {
  for (const auto& word : kLargestWords) {
    if (word.value == of) return word.text;
  }
  return "?";
}

LargestAnswer find_largest(const Question& question, LargestOf of, const SearchOptions& options, std::int64_t step) {
  require_given("multiple_of", step, kMultiples);
  require_seconds("time_limit", options.time_limit_s);
  check_question(question, of, options);
  LargestAnswer answer{of, step, 0, read_job(question), PlanOutcome::limit, 0, {}, {}};
  Question asked = question;
  if (of == LargestOf::seq && asked.global_batch == 0) {
    asked.global_batch = search::device_limit(unwrap(answer.job), options.max_devices);
    answer.job = read_job(asked);
  }
  if (step == 0) answer.step = of == LargestOf::seq ? kUsualStep : 1;
  if (of == LargestOf::batch && answer.step != 1) {
    throw InputError(fmt::format("{}: every batch is looked at; leave it out", option("multiple_of")));
  }
  answer.most = of == LargestOf::seq ? kSequences.high : of == LargestOf::layers ? kMostDepth : kMostPass;
  LargestSearch(asked, options, answer).run();
  return answer;
}

}  // namespace nest
