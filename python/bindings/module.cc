// nest._core: the program, run inside Python. Every function of the package is one of the program's subcommands with
// --json, so that both give the same answers and the same messages; Python only packs arguments and unpacks JSON.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli.h"

namespace nest {
namespace {

namespace py = pybind11;

constexpr std::chrono::milliseconds kListens{50};  // between two looks at Ctrl-C

constexpr const char* kRunText =
    "Runs the program with these arguments and returns (exit code, standard output, standard error). Other threads of "
    "Python go on meanwhile, and Ctrl-C ends a search.";

using Answer = std::tuple<int, std::string, std::string>;

// A worker runs the program; this thread waits and lets Python see its signals. An exception that a signal raises stops
// the search and is thrown when the worker has ended.
Answer run(const std::vector<std::string>& arguments) {
  std::atomic<bool> stop{false};
  std::future<ProgramResult> worker = std::async(std::launch::async, [&] { return run_inside(arguments, stop); });
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
  ProgramResult result = worker.get();
  if (raised) throw *raised;
  return {result.code, std::move(result.out), std::move(result.err)};
}

}  // namespace
}  // namespace nest

PYBIND11_MODULE(_core, module) {
  module.doc() = "The nest program as a module.";
  module.def("run", &nest::run, pybind11::arg("arguments"), nest::kRunText);
}
