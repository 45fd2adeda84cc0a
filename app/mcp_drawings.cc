// Tools that pages draw from: maps of many plans, imported clusters, and the numbers behind the pictures of one plan.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "mcp_calls.h"
#include "nest/error.h"
#include "nest/nest.h"
#include "nest/range.h"
#include "nest/text.h"

namespace nest::app {
namespace {

struct ImportCall {
  ImportQuestion question;
  Form form;

  template <class Visitor>
  void visit(Visitor& v) {
    v.documents("files", question.files, "topology",
                "paths or {\"name\", \"text\"}: Slurm's topology.conf or topology.yaml, ibnetdiscover, nvidia-smi topo "
                "-m, NCCL's topology XML; one about the network, one about the inside of a node, or one of each");
    v.require("files");
    v.text("name", question.name, "of the cluster; default: that of the first file");
    v.word("format", question.format, import_formats(), "of the files; default: recognised by content");
    v.document("device", question.device, "device.yaml", "what the nodes hold: a preset or a device file");
    v.texts("devices_per_node", question.devices_per_node, "8, or node[1-4]=8 where hosts differ");
    v.texts("bandwidth", question.bandwidth, "leaf=400Gbps: of one child's link into a level, per direction");
    v.texts("latency", question.latency, "leaf=5us: of a message that climbs to a level");
    v.text("rails", question.rails, "level into which every device has a port of its own, or none");
    v.text("only", question.only, "what is below this switch, or in this block or topology");
    v.texts("exclude", question.exclude, "login[1-2]: hosts without devices");
    visit_form(v, form);
  }
  ToolAnswer run(ToolSession&) const {
    if (question.files.empty()) throw InputError("files: is empty");
    const ClusterImport imported = import_cluster(question);
    if (imported.missing.empty()) return answer_of(form, imported);
    Json missing = Json::array();
    std::string text = "More must be known; add (values are examples):\n";
    for (const MissingFact& fact : imported.missing) {
      missing.push_back(
          {{"option", fact.option}, {"prefix", fact.prefix}, {"example", fact.example}, {"question", fact.question}});
      text += fmt::format("  {}: \"{}{}\"  {}\n", fact.option, fact.prefix, fact.example, fact.question);
    }
    if (!form.json()) return {std::move(text), false, false};
    return {Json{{"schema", "nest.import-missing/1"}, {"missing", std::move(missing)}}.dump(2) + "\n", true, false};
  }
};

// These come as JSON only.
template <class Visitor>
void visit_json_form(Visitor& v, std::string& form) {
  v.word("answer", form, {"json"}, "there is no text");
}

struct MapCall {
  JobArguments job;
  SearchOptions options;
  std::vector<Json> cells;
  std::string objective, offload, judge, form;
  std::optional<std::string> micro_batch;

  template <class Visitor>
  void visit(Visitor& v) {
    visit_job(v, job);
    v.objects("cells", cells,
              "what each cell asks besides: dimensions of a plan, devices, global_batch, seq; [{\"tp\": 8, \"pp\": 4}, "
              "{\"tp\": 8, \"pp\": 8}]");
    v.require("cells");
    v.texts("set", options.set, "admit only some values, in all cells: tp=8, pp=1..16, …");
    v.word("target", options.target, plan_targets(), "plans that this framework can run; default: that of the stack");
    v.text("micro_batch", micro_batch, "auto, or sizes such as 1,2,4");
    v.word("objective", objective, {"time", "device-hours"}, "what is least; default time");
    v.word("offload", offload, words_of(kOffloadWords), "whether state may wait on the host; default needed");
    v.word("judge", judge, words_of(kJudgeWords), "by the formula, or the simulated network where that says otherwise");
    v.integer("max_devices", options.max_devices, kDevices, "use at most so many devices");
    v.number("time_limit", options.time_limit_s, "seconds of each cell, after which its best plan so far is taken");
    visit_json_form(v, form);
  }
  ToolAnswer run(ToolSession& session) const {
    SearchOptions asked = options;
    if (objective == "device-hours") asked.objective = PlanObjective::device_hours;
    if (micro_batch) asked.micro_batch = *micro_batch;
    take_word(offload, kOffloadWords, asked.offload);
    take_word(judge, kJudgeWords, asked.judge);
    asked.stop = session.stop;
    std::vector<MapCell> wanted;
    for (const Json& cell : cells) wanted.push_back(cell_of(cell));
    return {to_json(map_cells(job.asked(), asked, wanted)), true, false};
  }

 private:
  static MapCell cell_of(const Json& given) {
    MapCell cell;
    const auto count = [&](const char* name, const Json& value, const IntegerRange& range) {
      if (!value.is_number_integer() || !range.holds(value.get<std::int64_t>())) fail_range(name, value.dump(), range);
      return value.get<std::int64_t>();
    };
    for (const auto& [name, value] : given.items()) {
      if (name == "devices") {
        cell.devices = count("devices", value, kDevices);
      } else if (name == "global_batch") {
        cell.global_batch = count("global_batch", value, kBatches);
      } else if (name == "seq") {
        cell.seq = count("seq", value, kSequences);
      } else {
        cell.set.push_back(fmt::format("{}={}", name, value.is_string() ? value.get<std::string>() : value.dump()));
      }
    }
    return cell;
  }
};

// Of one plan, always JSON.
template <std::string (*draw)(const Plan&)>
struct DrawCall {
  PlanArgument plan;
  std::string form;

  template <class Visitor>
  void visit(Visitor& v) {
    visit_plan(v, plan);
    v.require("plan");
    visit_json_form(v, form);
  }
  ToolAnswer run(ToolSession& session) const { return {draw(read_plan(plan.given(session))), true, false}; }
};

std::string trace_json(const Plan& plan) { return to_trace(simulate_plan(plan)); }

constexpr std::array kDrawings = {
    Tool{"import", "A cluster from what its tools print",
         "A cluster file from what Slurm, nvidia-smi, ibnetdiscover or NCCL say about a cluster; where they do not say "
         "all, what is missing.",
         schema_of<ImportCall>, read_and_run<ImportCall>, false},
    Tool{"map", "The best plan of many cells",
         "The best plan for each of several settings, say tp by pp, or numbers of devices: its time and strategy, or "
         "how many bytes are missing where nothing fits.",
         schema_of<MapCall>, read_and_run<MapCall>, false},
    Tool{"pipeline", "The schedule of a plan over time", "When every stage runs which micro-batch, and what it holds.",
         schema_of<DrawCall<pipeline_json>>, read_and_run<DrawCall<pipeline_json>>, false, false},
    Tool{"cluster", "A plan on its cluster", "Which stage sits on which device, and how busy the links are.",
         schema_of<DrawCall<placement_json>>, read_and_run<DrawCall<placement_json>>, false, false},
    Tool{"trace", "A step of a plan for Perfetto", "One step, executed on the simulated network, as a trace.",
         schema_of<DrawCall<trace_json>>, read_and_run<DrawCall<trace_json>>, false, false},
};

}  // namespace

std::span<const Tool> drawing_tools() { return kDrawings; }

}  // namespace nest::app
