// What the calls of all tools are made of: the arguments that several share, the form of the answer, and the table's rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcp_tools.h"
#include "nest/job.h"
#include "nest/option.h"
#include "nest/range.h"

namespace nest::app {

template <class Words>
std::vector<std::string> words_of(const Words& words) {
  std::vector<std::string> texts;
  for (const auto& word : words) texts.emplace_back(word.text);
  return texts;
}

template <class Enum, class Words>
void take_word(const std::string& chosen, const Words& words, Enum& target) {
  for (const auto& word : words) {
    if (chosen == word.text) target = word.value;
  }
}

// How the answer comes, of every tool.
struct Form {
  std::string answer = "text";
  bool json() const { return answer == "json"; }
};

template <class Visitor>
void visit_form(Visitor& v, Form& form) {
  v.word("answer", form.answer, {"text", "json"}, "text for reading (default), or the whole answer as JSON");
}

struct JobArguments {
  Question question;
  std::string precision, optimizer;

  Question asked() const {
    Question q = question;
    if (!precision.empty()) q.precision = precision_of(precision);
    if (!optimizer.empty()) q.optimizer = optimizer_of(optimizer);
    return q;
  }
};

template <class Visitor>
void visit_job(Visitor& v, JobArguments& job) {
  Question& q = job.question;
  v.document("model", q.model, "config.json",
             "a preset such as llama3-70b (show lists them), the path of a Hugging Face config.json or a traced graph, "
             "or the configuration itself; default llama3-70b");
  v.document("cluster", q.cluster, "cluster.yaml",
             "a preset such as dgx-h100, the path of a cluster file, or its content as an object; default dgx-h100");
  v.integer("devices", q.devices, kDevices, "how many devices; default: all of the cluster");
  v.integer("global_batch", q.global_batch, kBatches, "sequences per optimizer step; default: about 4 million tokens");
  v.integer("seq", q.seq, kSequences, "tokens per sequence; default: what the model was trained with");
  v.document("stack", q.stack, "stack.yaml",
             "the training software: a preset (show stacks), the path of a stack file, or an object; default by model, "
             "device and precision");
  v.word("precision", job.precision, words_of(kPrecisionWords), "of matrix products; default bf16");
  v.word("optimizer", job.optimizer, words_of(kOptimizerWords), "whose state is kept; default adam");
  v.integer("optimizer_offload", q.optimizer_offload, kPercent, "percent of the optimizer's state on the host");
  v.text("routing", q.routing, "how evenly tokens choose experts: forced, cv=0.18 or overload=1.2");
  v.text("freeze", q.freeze, "weights that are not trained: vision, embedding, blocks.0-15; commas between");
  v.text("lora", q.lora, "low-rank adapters beside frozen weights: rank=16,targets=q,v");
  v.text("oom_risk", q.oom_risk, "probability of running out of memory that a plan may have: 1%");
}

struct PlanArgument {
  Input plan;

  Input given(const ToolSession& session) const {
    const auto known = session.plans.find(plan.name);
    if (plan.text || known == session.plans.end()) return plan;
    return Input::memory(plan.name, known->second);
  }
};

template <class Visitor>
void visit_plan(Visitor& v, PlanArgument& argument) {
  v.document("plan", argument.plan, "plan.json",
             "a plan: the name that plan or evaluate gave it (plan-1), the path of a plan file, or its content");
}

// In the form that was asked for; `more` follows the text.
template <class Answered>
ToolAnswer answer_of(const Form& form, const Answered& answered, const std::string& more = {}) {
  if (form.json()) return {to_json(answered), true, false};
  return {to_text(answered) + more, false, false};
}

template <class Call>
Json schema_of() {
  SchemaVisitor visitor;
  Call().visit(visitor);
  return visitor.schema();
}

template <class Call>
ToolAnswer read_and_run(const Json& arguments, ToolSession& session) {
  Call call;
  ArgumentVisitor visitor(arguments);
  call.visit(visitor);
  visitor.finish();
  return call.run(session);
}

struct Tool {
  const char* name;
  const char* title;
  const char* description;
  Json (*schema)();
  ToolAnswer (*run)(const Json& arguments, ToolSession& session);
  bool writes;         // files, where an argument names one
  bool listed = true;  // false: numbers to draw from, which only fill an agent's context
};

// Those of mcp_drawings.cc.
std::span<const Tool> drawing_tools();

}  // namespace nest::app
