#include "graph/graph_model.h"
#include "load/catalogue.h"
#include "report/model_facts.h"
#include "report/model_report.h"
#include "show.h"

namespace nest {

std::string show_model(const std::string& name, const ModelQuestion& question, bool all_operators,
                       const Session& session) {
  NamedModel named = load_model(name);
  ModelFacts facts = named.graph
                         ? gather_facts(build_graph_models(*named.graph, question.implementation).model, question)
                         : gather_facts(named.architecture, question);
  facts.title = std::move(named.title);
  facts.origin = std::move(named.origin);
  return session.json ? to_text(model_json(facts)) : model_text(facts, session.style, all_operators);
}

}  // namespace nest
