#include "door/option_checks.h"
#include "door/shown_thing.h"
#include "graph/graph_model.h"
#include "load/catalogue.h"
#include "report/model_facts.h"
#include "report/model_report.h"

namespace nest {
namespace {

class ShownModel : public ShownThing {
 public:
  ShownModel(report::ModelFacts facts, bool all_operators) : facts_(std::move(facts)), all_operators_(all_operators) {}
  std::string text(const Style& style) const override { return report::model_text(facts_, style, all_operators_); }
  report::Json json() const override { return report::model_json(facts_); }

 private:
  report::ModelFacts facts_;
  bool all_operators_;
};

void take(std::string_view name, const std::optional<std::int64_t>& given, const IntegerRange& range,
          std::int64_t& target) {
  require_range(name, given, range);
  if (given) target = *given;
}

std::size_t chosen(std::string_view name, const std::optional<std::string>& given,
                   const std::vector<std::string>& words) {
  return given ? require_word(name, *given, words) : 0;
}

report::ModelQuestion question_of(const ShowOptions& options) {
  report::ModelQuestion question;
  take("seq", options.seq, kSequences, question.shape.sequence);
  take("micro_batch", options.micro_batch, kMicroBatches, question.shape.micro_batch);
  take("tp", options.tp, kRanks, question.split.tp);
  take("cp", options.cp, kRanks, question.split.cp);
  take("ep", options.ep, kRanks, question.split.ep);
  take("etp", options.etp, kRanks, question.split.etp);
  question.split.sp = options.sp;
  question.implementation.dropout = options.dropout;
  question.implementation.stack = static_cast<model::Stack>(chosen("kernels", options.kernels, kernel_words()));
  question.implementation.flash_attention = chosen("attention", options.attention, attention_words()) == 0;
  question.recompute = static_cast<Recompute>(chosen("recompute", options.recompute, {"none", "selective", "full"}));
  return question;
}

}  // namespace

// In the order of their enums, the default first.
std::vector<std::string> kernel_words() { return {"megatron", "plain", "huggingface", "torchtitan"}; }
std::vector<std::string> attention_words() { return {"flash", "unfused"}; }

Showing show_model(const Input& what, const ShowOptions& options) {
  const report::ModelQuestion question = question_of(options);
  load::NamedModel named = load::load_model(what);
  load::check_sequence(named, question.shape.sequence);
  report::ModelFacts facts =
      named.graph
          ? report::gather_facts(graph::build_graph_models(*named.graph, question.implementation).model, question)
          : report::gather_facts(named.architecture, question);
  facts.title = std::move(named.title);
  facts.origin = std::move(named.origin);
  return std::make_shared<ShownModel>(std::move(facts), options.operators);
}

}  // namespace nest
