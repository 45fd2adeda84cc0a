#include "mcp_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "mcp_calls.h"
#include "nest/error.h"
#include "nest/nest.h"
#include "nest/range.h"
#include "nest/text.h"
#include "new_folder.h"
#include "output.h"
#include "small_job.h"

namespace nest::app {
namespace {

std::string remember(ToolSession& session, const Plan& plan) {
  std::string name = fmt::format("plan-{}", session.plans.size() + 1);
  session.plans[name] = plan_file(plan);
  return name;
}

std::string name_line(const std::string& name) {
  return fmt::format("\nThis plan is {}: give that as `plan` to evaluate, export or simulate.\n", name);
}

struct ShowCall {
  Input name;
  ShowOptions options;
  Form form;

  template <class Visitor>
  void visit(Visitor& v) {
    v.document(
        "name", name, "config.json",
        "models, devices, clusters or stacks for a list; the name of a preset; or the path of a config.json, graph, "
        "cluster or device file. Without it: all names");
    v.integer("devices", options.devices, kDevices, "of a cluster: with so many devices");
    v.integer("seq", options.seq, kSequences, "of a model: tokens per sequence");
    v.integer("micro_batch", options.micro_batch, kMicroBatches, "of a model: sequences per micro-batch");
    v.integer("tp", options.tp, kRanks, "of a model: tensor parallel");
    v.flag("sp", options.sp, "of a model: sequence parallel");
    v.integer("cp", options.cp, kRanks, "of a model: context parallel");
    v.integer("ep", options.ep, kRanks, "of a model: expert parallel");
    visit_form(v, form);
  }
  ToolAnswer run(ToolSession&) const {
    const Shown shown = show(name, options);
    return answer_of(form, shown);
  }
};

struct SearchCall {
  JobArguments job;
  SearchOptions options;
  std::string objective, offload, save;
  std::optional<std::string> micro_batch;
  Form form;

  template <class Visitor>
  void visit(Visitor& v) {
    visit_job(v, job);
    v.texts("set", options.set, "admit only some values: tp=8, pp=1..16, zero=0,1, recompute=none, …");
    v.word("target", options.target, plan_targets(), "plans that this framework can run; default: that of the stack");
    v.text("micro_batch", micro_batch, "auto, or sizes such as 1,2,4");
    v.word("objective", objective, {"time", "device-hours"}, "what is least; default time");
    v.word("offload", offload, words_of(kOffloadWords), "whether state may wait on the host; default needed");
    v.integer("max_devices", options.max_devices, kDevices, "use at most so many devices");
    v.integer("top", options.top, kTop, "how many plans, each of another kind; default 1");
    v.flag("why", options.why, "say what overruling each decision would cost; default true");
    v.number("time_limit", options.time_limit_s, "seconds after which the best plan so far is taken");
    v.text("save", save, "path of a file to write the plan to (nest.plan/3)");
    visit_form(v, form);
  }
  ToolAnswer run(ToolSession& session) const {
    SearchOptions asked = options;
    if (objective == "device-hours") asked.objective = PlanObjective::device_hours;
    if (micro_batch) asked.micro_batch = *micro_batch;
    take_word(offload, kOffloadWords, asked.offload);
    asked.stop = session.stop;
    if (session.progress) {
      asked.progress = [&session](const PlanProgress& p) { session.progress(static_cast<double>(p.opened)); };
    }
    if (session.incumbent) {
      asked.incumbent = [&session](const Plan& plan) { session.incumbent(to_json(plan)); };
    }
    const Answer answer = find_plan(read_small_job(for_target(job.asked(), asked.target)), asked);
    if (answer.plans.empty()) {
      if (answer.outcome != PlanOutcome::no_plan) return {"stopped before any plan was found", false, true};
      return answer_of(form, answer);
    }
    if (!save.empty()) write_file_atomically(save, plan_file(answer.plans.front()));
    const std::string name = remember(session, answer.plans.front());
    return answer_of(form, answer, name_line(name));
  }
};

struct EvaluateCall {
  PlanArgument plan;
  JobArguments job;
  Input from;
  std::string strategy, judge, save;
  Form form;

  template <class Visitor>
  void visit(Visitor& v) {
    visit_plan(v, plan);
    v.text("strategy", strategy,
           "instead of a plan: tp=8,sp=1,pp=4,vpp=5,mbs=1; what is left out is 1 or off, and dp fills the devices");
    v.document(
        "from", from, "launch line",
        "instead of both: a launch line, or the path of a script or configuration; it is compared with the best plan");
    v.word("judge", judge, words_of(kJudgeWords), "by the formula, or the simulated network where that says otherwise");
    visit_job(v, job);
    v.text("save", save, "path of a file to write the estimated plan to");
    visit_form(v, form);
  }
  ToolAnswer run(ToolSession& session) const {
    if ((plan.plan.empty() ? 0 : 1) + (strategy.empty() ? 0 : 1) + (from.empty() ? 0 : 1) != 1) {
      throw InputError("expected exactly one of plan, strategy and from");
    }
    PlanJudge by = PlanJudge::simulation;
    take_word(judge, kJudgeWords, by);
    if (!from.empty()) {
      LaunchQuestion launch;
      launch.from = from;
      launch.job = job.asked();
      launch.judge = by;
      launch.stop = session.stop;
      const LaunchAnswer answer = evaluate_launch(launch);
      return answer_of(form, answer, name_line(remember(session, answer.yours)));
    }
    const Plan priced = strategy.empty() ? evaluate_plan(read_plan(plan.given(session)), by)
                                         : evaluate_plan(read_job(job.asked()), strategy, by);
    if (!save.empty()) write_file_atomically(save, plan_file(priced));
    return answer_of(form, priced, name_line(remember(session, priced)));
  }
};

struct CompareCall {
  JobArguments job;
  CompareOptions options;
  std::optional<std::string> micro_batch;
  Form form;

  template <class Visitor>
  void visit(Visitor& v) {
    visit_job(v, job);
    v.texts("planners", options.planners, fmt::format("any of {}; default all", join_words(planner_names())));
    v.texts("set", options.set, "admit only some values, for all planners: tp=8, pp=1..16, …");
    v.text("micro_batch", micro_batch, "auto, or sizes such as 1,2,4");
    v.integer("max_devices", options.max_devices, kDevices, "use at most so many devices");
    v.number("time_limit", options.time_limit_s, "seconds per planner");
    v.flag("simulate", options.simulate, "execute every plan on the simulated network, and compare by that");
    visit_form(v, form);
  }
  ToolAnswer run(ToolSession& session) const {
    CompareOptions asked = options;
    if (micro_batch) asked.micro_batch = *micro_batch;
    asked.stop = session.stop;
    const Comparison comparison = compare_planners(read_small_job(job.asked()), asked);
    return answer_of(form, comparison);
  }
};

struct ExportCall {
  PlanArgument plan;
  std::string to, output;
  ExportOptions options;
  Form form;

  template <class Visitor>
  void visit(Visitor& v) {
    visit_plan(v, plan);
    v.require("plan");
    v.word("to", to, export_targets(), export_help());
    v.require("to");
    v.text("format", options.format, formats_text());
    v.text("output", output,
           "path to write to; needed where a folder is written (job, chakra). Without it the text comes back");
    v.flag("model", options.model, "sizes of the model too, not only what the plan decides; default true");
    v.integer("per_host", options.per_host, kPerHost, "devices of one host, where less than the cluster's first level");
    v.text("ranks", options.ranks, "chakra: whose traces, 0,8,16-23 or all");
    visit_form(v, form);
  }
  ToolAnswer run(ToolSession& session) const {
    ExportOptions asked = options;
    asked.stop = session.stop;
    asked.folder = output;
    std::optional<NewFolder> folder;
    if (exports_folder(to)) {
      if (output.empty()) throw InputError(fmt::format("output: is missing; {} writes a folder of files", to));
      asked.write = [&](const std::string& name, const std::string& content) {
        if (!folder) folder.emplace(output);
        folder->write(name, content);
      };
    }
    const Export exported = export_plan(read_plan(plan.given(session)), to, asked);
    if (!exported.found) {
      return {fmt::format("no plan that {} can run fits; it {}", exported.framework, join_words(exported.cannot)),
              false, true};
    }
    if (folder) folder->complete();
    if (!folder && !output.empty()) write_file_atomically(output, exported.text);
    if (form.json()) return {to_json(exported), true, false};
    std::string text = output.empty() ? exported.text + "\n" : fmt::format("Written to {}.\n", output);
    text += exported.about;
    for (const auto& [name, value] : exported.environment) text += fmt::format("Set {}={}.\n", name, value);
    for (const std::string& note : exported.notes) text += wrap_after("Note: ", note) + "\n";
    return {std::move(text), false, false};
  }
};

struct SimulateCall {
  PlanArgument plan;
  SimulateOptions options;
  std::string engine, trace;
  Form form;

  template <class Visitor>
  void visit(Visitor& v) {
    visit_plan(v, plan);
    v.require("plan");
    v.word("engine", engine, words_of(kSimulationEngineWords), "nest itself (default), or SimGrid where installed");
    v.integer("steps", options.steps, kSteps, "optimizer steps to execute; default 1");
    v.integer("runs", options.runs, kRuns, "executions with noise besides");
    v.number("time_limit", options.time_limit_s, "seconds that one execution may take; default 600");
    v.text("trace", trace, "path to write a trace for Perfetto to");
    visit_form(v, form);
  }
  ToolAnswer run(ToolSession& session) const {
    SimulateOptions asked = options;
    take_word(engine, kSimulationEngineWords, asked.engine);
    asked.stop = session.stop;
    const Simulation simulation = simulate_plan(read_plan(plan.given(session)), asked);
    if (!trace.empty()) write_file_atomically(trace, to_trace(simulation));
    return answer_of(form, simulation);
  }
};

constexpr std::array kTools = {
    Tool{"show", "What nest knows",
         "Models, devices, clusters and software stacks that nest knows by name; or one of them: parameters, FLOPs and "
         "memory of a model's layers, the network of a cluster.",
         schema_of<ShowCall>, read_and_run<ShowCall>, false},
    Tool{"plan", "Find the fastest plan",
         "The fastest way to train a model on a cluster that fits in memory, proven: TP, PP, DP, CP, EP, ZeRO, "
         "recomputation, micro-batch; with the time of a step, memory, and what alternatives would cost. Usually takes "
         "a second or two. Where nothing fits it says what would.",
         schema_of<SearchCall>, read_and_run<SearchCall>, true},
    Tool{"evaluate", "Price a plan or a launch line",
         "Time and memory of one given strategy, of a plan, or of somebody's own launch line (torchrun … "
         "pretrain_gpt.py …), which is also compared with the best plan.",
         schema_of<EvaluateCall>, read_and_run<EvaluateCall>, true},
    Tool{"compare", "Planners side by side", "What other published planners would have chosen, under one cost model.",
         schema_of<CompareCall>, read_and_run<CompareCall>, false},
    Tool{"export", "A plan for a framework",
         "A plan as the launch line or configuration of Megatron, NeMo, DeepSpeed, torchtitan, FSDP, as rank files, or "
         "as a folder for Slurm. What the framework cannot be told is said.",
         schema_of<ExportCall>, read_and_run<ExportCall>, true},
    Tool{"simulate", "Execute a plan on the simulated network",
         "One step of a plan executed message by message, beside its prediction, with what differs and why.",
         schema_of<SimulateCall>, read_and_run<SimulateCall>, true},
};

// Every tool there is.
template <class Visit>
bool visit_tools(const Visit& visit) {
  const std::span<const Tool> drawings = drawing_tools();
  return std::any_of(kTools.begin(), kTools.end(), visit) || std::any_of(drawings.begin(), drawings.end(), visit);
}

}  // namespace

Json tool_list() {
  Json tools = Json::array();
  visit_tools([&](const Tool& tool) {
    if (!tool.listed) return false;
    tools.push_back({{"name", tool.name},
                     {"title", tool.title},
                     {"description", tool.description},
                     {"inputSchema", tool.schema()},
                     {"annotations", {{"readOnlyHint", !tool.writes}, {"openWorldHint", false}}}});
    return false;
  });
  return tools;
}

bool is_tool(const std::string& name) {
  return visit_tools([&](const Tool& tool) { return name == tool.name; });
}

ToolAnswer call_tool(const std::string& name, const Json& arguments, ToolSession& session) {
  ToolAnswer answer;
  const bool known = visit_tools([&](const Tool& tool) {
    if (name != tool.name) return false;
    answer = tool.run(arguments, session);
    return true;
  });
  if (!known) throw InternalError("no such tool: " + name);
  return answer;
}

}  // namespace nest::app
