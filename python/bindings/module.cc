// nest._core: the front door (include/nest) for Python. Questions and options are objects whose members are set, answers
// come back as JSON and text; nest/*.py makes objects of them. Long calls run in a thread of their own: other threads of
// Python go on meanwhile, and Ctrl-C ends them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "nest/nest.h"
#include "nest/option.h"
#include "nest/range.h"
#include "nest/text.h"

namespace nest {
namespace {

namespace py = pybind11;

constexpr std::chrono::milliseconds kListens{50};  // between two looks at Ctrl-C

// A worker does it; this thread waits and lets Python see its signals. An exception that a signal raises stops the work
// and is thrown when the worker has ended.
template <class Work>
auto run_long(Work work) {
  std::atomic<bool> stop{false};
  std::future<std::invoke_result_t<Work&, std::atomic<bool>*>> worker;
  try {
    worker = std::async(std::launch::async, [&] { return work(&stop); });
  } catch (const std::system_error&) {  // no thread is to be had: done here, and signals wait
    const py::gil_scoped_release others;
    return work(&stop);
  }
  std::optional<py::error_already_set> raised;
  while (true) {
    std::future_status status = std::future_status::timeout;
    {
      const py::gil_scoped_release others;
      status = worker.wait_for(kListens);
    }
    if (status == std::future_status::ready) break;
    if (!raised && PyErr_CheckSignals() != 0) {
      raised.emplace();
      stop.store(true);
    }
  }
  if (raised) {
    try {
      worker.get();
    } catch (const std::exception&) {  // what the signal raised counts
    }
    throw *raised;
  }
  return worker.get();
}

// Numbers that Python gives are never "not given": 0 is refused where the library would take a default.
void require_number(const std::string& name, std::int64_t value) {
  static const std::map<std::string, IntegerRange> kRanges = {{"devices", kDevices},
                                                              {"max_devices", kDevices},
                                                              {"lost_nodes", kLostNodes},
                                                              {"global_batch", kBatches},
                                                              {"seq", kSequences},
                                                              {"encoder_seq", kSequences},
                                                              {"mtp_layers", kMtpLayers},
                                                              {"optimizer_offload", kPercent},
                                                              {"multiple_of", kMultiples},
                                                              {"micro_batch", kMicroBatches},
                                                              {"top", kTop},
                                                              {"threads", kThreads},
                                                              {"seed", kSeeds},
                                                              {"steps", kSteps},
                                                              {"runs", kRuns},
                                                              {"per_host", kPerHost},
                                                              {"cores_per_device", kCores},
                                                              {"tp", kRanks},
                                                              {"cp", kRanks},
                                                              {"ep", kRanks},
                                                              {"etp", kRanks}};
  const IntegerRange& range = kRanges.at(name);
  if (!range.holds(value)) fail_range(option(name), std::to_string(value), range);
}

std::string objective_word(PlanObjective objective) {
  return objective == PlanObjective::time ? "time" : "device-hours";
}

void set_objective(SearchOptions& options, const std::string& word) {
  if (word != "time" && word != "device-hours") {
    throw InputError(option("objective") + ": \"" + word + "\" is not one of time or device-hours");
  }
  options.objective = word == "time" ? PlanObjective::time : PlanObjective::device_hours;
}

// A member of an enumeration as its word.
template <class Options, class Enum, std::size_t count>
void worded(py::class_<Options>& options, const char* name, Enum Options::*member,
            const std::array<Word<Enum>, count>& words) {
  const auto get = [=](const Options& self) {
    const auto known = std::find_if(words.begin(), words.end(), [&](const auto& w) { return w.value == self.*member; });
    return std::string(known->text);
  };
  const auto set = [=](Options& self, const std::string& word) {
    const auto known = std::find_if(words.begin(), words.end(), [&](const auto& w) { return word == w.text; });
    if (known == words.end()) {
      std::string list;
      for (std::size_t k = 0; k < count; ++k)
        list += std::string(k == 0 ? "" : k + 1 < count ? ", " : " or ") + words[k].text;
      throw InputError(option(name) + ": \"" + word + "\" is not one of " + list);
    }
    self.*member = known->value;
  };
  options.def_property(name, get, set);
}

// "plan", "no_plan" or "limit", and the answer.
std::pair<std::string, std::string> find(const Question& question, const SearchOptions& asked, bool sensitivity) {
  return run_long([&](const std::atomic<bool>* stop) -> std::pair<std::string, std::string> {
    SearchOptions options = asked;
    options.stop = stop;
    if (has_pools(question.cluster)) {
      const PoolsAnswer pools = plan_pools(question, options);
      if (pools.chosen) return {"plan", to_json(pools)};
      if (pools.is_stopped) return {"limit", ""};
      return {"no_plan", to_text(pools)};
    }
    const TrainingJob job = read_job(for_target(question, options.target));
    Answer answer = find_plan(job, options);
    if (sensitivity && !answer.plans.empty()) answer.sensitivity = find_sensitivity(job, options);
    if (!answer.plans.empty()) return {"plan", to_json(answer)};
    if (answer.outcome == PlanOutcome::limit) return {"limit", ""};
    return {"no_plan", to_text(answer)};
  });
}

// Members by their name, of text: "30d".
void set_demand(Demand& demand, const std::string& name, const std::string& text) {
  try {
    if (name == "tokens") demand.tokens = parse_count(text);
    if (name == "deadline") demand.deadline_s = parse_duration(text);
    if (name == "budget") demand.budget = parse_money(text);
    if (name == "price") demand.price_per_device_hour = parse_money(text);
  } catch (const InputError& error) {
    throw InputError(option(name) + ": " + error.what());
  }
}

// Of --objective's words; empty: the fewest devices for a deadline, the fastest plan for a budget.
void set_aim(Demand& demand, const std::string& word) {
  if (word.empty()) {
    demand.aim = demand.deadline_s != 0 ? DemandAim::devices : DemandAim::time;
    return;
  }
  const std::string name = word == "device-hours" ? "cost" : word;
  const auto known = std::find_if(kAimWords.begin(), kAimWords.end(), [&](const auto& w) { return name == w.text; });
  if (known == kAimWords.end()) {
    throw InputError(option("objective") + ": \"" + word + "\" is not one of devices, cost, device-hours or time");
  }
  demand.aim = known->value;
}

std::pair<std::string, std::string> meet(const Question& question, const Demand& demand, const SearchOptions& asked) {
  return run_long([&](const std::atomic<bool>* stop) -> std::pair<std::string, std::string> {
    SearchOptions options = asked;
    options.stop = stop;
    const DemandAnswer answer = meet_demand(for_target(question, options.target), demand, options);
    if (answer.answer) return {"plan", to_json(answer)};
    if (answer.outcome == PlanOutcome::limit) return {"limit", ""};
    return {"no_plan", to_text(answer)};
  });
}

std::pair<std::string, std::string> largest(const Question& question, const std::string& of, std::int64_t step,
                                            const SearchOptions& asked) {
  const auto known =
      std::find_if(kLargestWords.begin(), kLargestWords.end(), [&](const auto& word) { return of == word.text; });
  if (known == kLargestWords.end())
    throw InputError(option("largest") + ": \"" + of + "\" is not one of batch, seq or layers");
  return run_long([&](const std::atomic<bool>* stop) -> std::pair<std::string, std::string> {
    SearchOptions options = asked;
    options.stop = stop;
    const LargestAnswer answer = find_largest(for_target(question, options.target), known->value, options, step);
    if (answer.has_plan()) return {"plan", to_json(answer)};
    if (answer.outcome == PlanOutcome::limit) return {"limit", ""};
    return {"no_plan", to_text(answer)};
  });
}

// Members by their name, of text; "" for what was not given.
std::pair<std::string, std::string> fail(const Question& question, const std::map<std::string, std::string>& words,
                                         std::int64_t lost_nodes, bool best_goodput, const SearchOptions& asked) {
  return run_long([&](const std::atomic<bool>* stop) -> std::pair<std::string, std::string> {
    SearchOptions options = asked;
    options.stop = stop;
    const TrainingJob job = read_job(for_target(question, options.target));
    FailureOptions failures;
    failures.lost_nodes = lost_nodes;
    failures.best_goodput = best_goodput;
    for (const auto& [name, text] : words) {
      try {
        if (name == "mtbf")
          failures.device_mtbf_s = parse_mtbf(text, std::max<std::int64_t>(1, job.devices_per_node()));
        if (name == "checkpoint_bandwidth") failures.storage_bytes_per_s = parse_bandwidth(text);
        if (name == "restart") failures.restart_s = parse_duration(text);
        if (name == "repair") failures.repair_s = parse_duration(text);
      } catch (const InputError& error) {
        throw InputError(option(name) + ": " + error.what());
      }
    }
    const FailureAnswer answer = plan_with_failures(job, failures, options);
    if (!answer.answer.plans.empty()) return {"plan", to_json(answer)};
    if (answer.answer.outcome == PlanOutcome::limit) return {"limit", ""};
    return {"no_plan", to_text(answer.answer)};
  });
}

std::string evaluate_strategy(const Question& question, const std::string& strategy) {
  return run_long([&](const std::atomic<bool>*) { return to_json(evaluate_plan(read_job(question), strategy)); });
}

std::string evaluate_file(const Input& plan, const Input& profile) {
  return run_long([&](const std::atomic<bool>*) { return to_json(evaluate_plan(read_plan(plan, profile))); });
}

std::string plan_text(const Input& plan) {
  return run_long([&](const std::atomic<bool>*) { return to_text(evaluate_plan(read_plan(plan))); });
}

std::string plan_html(const Input& plan) {
  return run_long([&](const std::atomic<bool>*) { return to_html(evaluate_plan(read_plan(plan))); });
}

std::string check(const Input& plan) {
  return run_long([&](const std::atomic<bool>*) { return to_json(check_file(plan)); });
}

// The answer, and the trace where it is asked for.
std::pair<std::string, std::string> simulate(const Input& plan, const Input& profile, const SimulateOptions& asked,
                                             bool trace) {
  return run_long([&](const std::atomic<bool>* stop) -> std::pair<std::string, std::string> {
    SimulateOptions options = asked;
    options.stop = stop;
    const Simulation simulation = simulate_plan(read_plan(plan, profile), options);
    return {to_json(simulation), trace ? to_trace(simulation) : std::string()};
  });
}

std::string compare(const Question& question, const CompareOptions& asked) {
  return run_long([&](const std::atomic<bool>* stop) {
    CompareOptions options = asked;
    options.stop = stop;
    return to_json(compare_planners(read_job(question), options));
  });
}

// The answer as JSON, and as a page.
std::pair<std::string, std::string> compare_lists(const CandidateLists& lists, const SearchOptions& asked) {
  return run_long([&](const std::atomic<bool>* stop) {
    CandidateOptions options;
    options.search = asked;
    options.search.stop = stop;
    const CandidateComparison comparison = compare_candidates(lists, options);
    return std::pair{to_json(comparison), to_html(comparison)};
  });
}

// `write` is given every file of a target that writes a folder, as (name, bytes).
Export export_to(const Input& plan, const Input& profile, const std::string& target, const ExportOptions& asked,
                 const py::object& write) {
  return run_long([&](const std::atomic<bool>* stop) {
    ExportOptions options = asked;
    options.stop = stop;
    if (!write.is_none()) {
      options.write = [&write](const std::string& name, const std::string& content) {
        const py::gil_scoped_acquire python;
        write(name, py::bytes(content));
      };
    }
    return export_plan(read_plan(plan, profile), target, options);
  });
}

// Runs what is open of a study, and gives the table; `shard` of `shards`.
std::string sweep(const Input& file, const std::string& database, std::int64_t shard, std::int64_t shards,
                  std::int64_t threads) {
  return run_long([&](const std::atomic<bool>* stop) {
    const Study study = read_study(file);
    SweepOptions options;
    options.database = database;
    options.shard = shard;
    options.shards = shards;
    options.threads = threads;
    options.stop = stop;
    run_sweep(study, options);
    return to_json(read_results(study, database));
  });
}

// A report of what is there: "csv", "html" or "jsonl".
std::string sweep_report(const Input& file, const std::string& database, const std::string& format) {
  return run_long([&](const std::atomic<bool>*) {
    const SweepResults results = read_results(read_study(file), database);
    if (format == "csv") return to_csv(results);
    if (format == "html") return to_html(results);
    std::string text;
    to_json_lines(results, [&](std::string_view line) { text += line; });
    return text;
  });
}

std::string sweep_plan(const std::string& name, const std::string& database, std::int64_t point) {
  SweepResults results;
  results.study.name = name;
  results.database = database;
  return read_sweep_plan(results, point);
}

std::string merge_databases(const std::vector<std::string>& databases, const std::string& output) {
  return run_long([&](const std::atomic<bool>*) {
    std::string json;
    for (const SweepMerge& study : merge_sweeps(databases, output)) {
      json += (json.empty() ? "" : ",") + std::string("{\"study\":\"") + study.study +
              "\",\"points_of_study\":" + std::to_string(study.points) + ",\"points\":" + std::to_string(study.merged) +
              ",\"twice\":" + std::to_string(study.twice) + "}";
    }
    return "[" + json + "]";
  });
}

std::string show_json(const Input& what, const ShowOptions& options) {
  return run_long([&](const std::atomic<bool>*) { return to_json(show(what, options)); });
}

void add_questions(py::module_& module) {
  py::class_<Input>(module, "Input")
      .def(py::init<>())
      .def(py::init<std::string>())
      .def_static("memory", &Input::memory);
  py::class_<Question>(module, "Question")
      .def(py::init<>())
      .def_readwrite("model", &Question::model)
      .def_readwrite("cluster", &Question::cluster)
      .def_readwrite("devices", &Question::devices)
      .def_readwrite("global_batch", &Question::global_batch)
      .def_readwrite("seq", &Question::seq)
      .def_readwrite("encoder_seq", &Question::encoder_seq)
      .def_readwrite("mtp_layers", &Question::mtp_layers)
      .def_readwrite("routing", &Question::routing)
      .def_readwrite("oom_risk", &Question::oom_risk)
      .def_readwrite("freeze", &Question::freeze)
      .def_readwrite("lora", &Question::lora)
      .def_readwrite("optimizer_offload", &Question::optimizer_offload)
      .def_readwrite("stack", &Question::stack)
      .def_readwrite("profile", &Question::profile)
      .def_property(
          "precision", [](const Question& q) { return q.precision ? std::string(to_string(*q.precision)) : ""; },
          [](Question& q, const std::string& word) { q.precision = precision_of(word); })
      .def_property(
          "optimizer", [](const Question& q) { return q.optimizer ? std::string(to_string(*q.optimizer)) : ""; },
          [](Question& q, const std::string& word) { q.optimizer = optimizer_of(word); });
}

void add_options(py::module_& module) {
  py::class_<SearchOptions> search(module, "SearchOptions");
  worded(search, "offload", &SearchOptions::offload, kOffloadWords);
  worded(search, "judge", &SearchOptions::judge, kJudgeWords);
  search.def(py::init<>())
      .def_readwrite("set", &SearchOptions::set)
      .def_readwrite("micro_batch", &SearchOptions::micro_batch)
      .def_readwrite("target", &SearchOptions::target)
      .def_property(
          "objective", [](const SearchOptions& options) { return objective_word(options.objective); }, &set_objective)
      .def_readwrite("max_devices", &SearchOptions::max_devices)
      .def_readwrite("top", &SearchOptions::top)
      .def_readwrite("tie", &SearchOptions::tie_percent)
      .def_readwrite("threads", &SearchOptions::threads)
      .def_readwrite("time_limit", &SearchOptions::time_limit_s)
      .def_readwrite("why", &SearchOptions::why);
  py::class_<Demand>(module, "Demand").def(py::init<>()).def("set", &set_demand).def("set_aim", &set_aim);
  py::class_<CompareOptions>(module, "CompareOptions")
      .def(py::init<>())
      .def_readwrite("planners", &CompareOptions::planners)
      .def_readwrite("set", &CompareOptions::set)
      .def_readwrite("micro_batch", &CompareOptions::micro_batch)
      .def_readwrite("max_devices", &CompareOptions::max_devices)
      .def_readwrite("seed", &CompareOptions::seed)
      .def_readwrite("threads", &CompareOptions::threads)
      .def_readwrite("time_limit", &CompareOptions::time_limit_s)
      .def_readwrite("simulate", &CompareOptions::simulate);
  py::class_<CandidateLists>(module, "CandidateLists")
      .def(py::init<>())
      .def_readwrite("question", &CandidateLists::question)
      .def_readwrite("clusters", &CandidateLists::clusters)
      .def_readwrite("devices", &CandidateLists::devices)
      .def_readwrite("stacks", &CandidateLists::stacks)
      .def_readwrite("strategies", &CandidateLists::strategies)
      .def_readwrite("plans", &CandidateLists::plans)
      .def_readwrite("only_plans", &CandidateLists::only_plans);
  py::class_<SimulateOptions> simulate(module, "SimulateOptions");
  worded(simulate, "engine", &SimulateOptions::engine, kSimulationEngineWords);
  simulate.def(py::init<>())
      .def_readwrite("steps", &SimulateOptions::steps)
      .def_readwrite("runs", &SimulateOptions::runs)
      .def_readwrite("noise", &SimulateOptions::noise_percent)
      .def_readwrite("seed", &SimulateOptions::seed)
      .def_readwrite("time_limit", &SimulateOptions::time_limit_s);
  py::class_<ExportOptions>(module, "ExportOptions")
      .def(py::init<>())
      .def_readwrite("format", &ExportOptions::format)
      .def_readwrite("model", &ExportOptions::model)
      .def_readwrite("target", &ExportOptions::target)
      .def_readwrite("per_host", &ExportOptions::per_host)
      .def_readwrite("cores_per_device", &ExportOptions::cores_per_device)
      .def_readwrite("ranks", &ExportOptions::ranks);
  py::class_<ShowOptions>(module, "ShowOptions")
      .def(py::init<>())
      .def_readwrite("devices", &ShowOptions::devices)
      .def_readwrite("seq", &ShowOptions::seq)
      .def_readwrite("micro_batch", &ShowOptions::micro_batch)
      .def_readwrite("kernels", &ShowOptions::kernels)
      .def_readwrite("attention", &ShowOptions::attention)
      .def_readwrite("recompute", &ShowOptions::recompute)
      .def_readwrite("dropout", &ShowOptions::dropout)
      .def_readwrite("tp", &ShowOptions::tp)
      .def_readwrite("sp", &ShowOptions::sp)
      .def_readwrite("cp", &ShowOptions::cp)
      .def_readwrite("ep", &ShowOptions::ep)
      .def_readwrite("etp", &ShowOptions::etp);
}

// Python hands a module that the main interpreter has loaded to others without initialising it again.
bool in_main_interpreter() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return true;
  PyErr_SetString(PyExc_ImportError, "nest._core works in the main interpreter only, not in sub-interpreters");
  return false;
}

// Called without pybind11, whose own calls wait for ever in sub-interpreters when they fail.
PyObject* require_main_interpreter(PyObject* /*module*/, PyObject* /*arguments*/) {
  return in_main_interpreter() ? py::none().release().ptr() : nullptr;
}
PyMethodDef main_interpreter_method = {"require_main_interpreter", &require_main_interpreter, METH_NOARGS, nullptr};

// InputError with the lines it is about, as the exception of the package.
void translate(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const InputError& error) {
    std::string message = error.what();
    if (!error.excerpt().empty()) message += "\n\n" + error.excerpt();
    PyErr_SetString(py::module_::import("nest._errors").attr("InputError").ptr(), message.c_str());
  }
}

}  // namespace
}  // namespace nest

// What pybind11 makes of the module waits for ever in interpreters other than the main one: there PyInit__core, below,
// refuses before it is called.
#define PyInit__core init_in_main_interpreter  // NOLINT(cppcoreguidelines-macro-usage): the name that the macro makes
PYBIND11_MODULE(_core, module) {
  namespace py = pybind11;
  module.doc() = "The C++ library nest.";
  py::register_exception_translator(nest::translate);
  nest::add_questions(module);
  nest::add_options(module);
  py::class_<nest::Export>(module, "Export")
      .def_readonly("found", &nest::Export::found)
      .def_readonly("cannot", &nest::Export::cannot)
      .def_readonly("text", &nest::Export::text)
      .def_readonly("about", &nest::Export::about)
      .def("json", [](const nest::Export& exported) { return nest::to_json(exported); });
  module.attr("require_main_interpreter") =
      py::reinterpret_steal<py::object>(PyCFunction_New(&nest::main_interpreter_method, nullptr));
  module.def("version", &nest::version);
  module.def("require_number", &nest::require_number);
  module.def("plan", &nest::find);
  module.def("demand", &nest::meet);
  module.def("largest", &nest::largest);
  module.def("failures", &nest::fail);
  module.def("evaluate_strategy", &nest::evaluate_strategy);
  module.def("evaluate_file", &nest::evaluate_file);
  module.def("plan_text", &nest::plan_text);
  module.def("plan_html", &nest::plan_html);
  module.def("check", &nest::check);
  module.def("simulate", &nest::simulate);
  module.def("compare", &nest::compare);
  module.def("compare_candidates", &nest::compare_lists);
  module.def("export", &nest::export_to);
  module.def("exports_folder", &nest::exports_folder);
  module.def("show", &nest::show_json);
  module.def("sweep", &nest::sweep);
  module.def("sweep_report", &nest::sweep_report);
  module.def("sweep_plan", &nest::sweep_plan);
  module.def("merge_sweeps", &nest::merge_databases);
}
#undef PyInit__core

extern "C" PYBIND11_EXPORT PyObject* PyInit__core() {
  return nest::in_main_interpreter() ? init_in_main_interpreter() : nullptr;
}
