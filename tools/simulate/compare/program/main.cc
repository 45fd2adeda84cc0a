// nest-simulation-check: simulates many plans, compares with the predictions, and writes what it finds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "simulation_check/writing.h"

namespace {

namespace fs = std::filesystem;

struct Options {
  std::uint32_t first = 0;
  std::uint32_t plans = 480;
  std::uint32_t slow_plans = 600;
  int top = 20;
  bool no_top = false;
  nest::SimulationEngine engine = nest::SimulationEngine::own;
  std::string folder;
};

void write_file(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw nest::InputError("cannot write " + path.string());
}

int run(const Options& options) {
  std::vector<nest::ComparedPlan> rows;
  const auto draw = [&](std::uint32_t plans, nest::DrawnFrom from) {
    for (std::uint32_t seed = options.first; seed < options.first + plans; ++seed) {
      rows.push_back(nest::compare(nest::random_plan(seed, from), options.engine));
      std::cerr << fmt::format("\r{} of {} plans", rows.size(), options.plans + options.slow_plans) << std::flush;
    }
  };
  draw(options.plans, nest::DrawnFrom::presets);
  draw(options.slow_plans, nest::DrawnFrom::slow);
  std::cerr << '\n';
  std::vector<nest::TopCase> cases;
  if (!options.no_top) cases = nest::top_cases();
  for (nest::TopCase& one : cases) {
    nest::settle(one, options.top, options.engine);
    std::cerr << fmt::format("{} x {}, {}: {} plans, loss {:.2f} %\n", one.devices, one.cluster, one.model, one.plans,
                             100 * one.loss());
  }
  const std::string page = nest::results_markdown(rows, cases);
  if (options.folder.empty()) {
    std::cout << page;
  } else {
    const fs::path folder = options.folder;
    write_file(folder / "results.md", page);
    write_file(folder / "plans.csv", nest::plans_csv(rows));
    write_file(folder / "difference.svg", nest::difference_svg(rows));
    if (!options.no_top) write_file(folder / "top.csv", nest::cases_csv(cases));
  }
  bool met = true;
  for (const nest::Mark& mark : nest::marks(rows, cases)) {
    std::cerr << fmt::format("{}  {}: {}\n", mark.met ? "met   " : "missed", mark.what, mark.reached);
    met = met && mark.met;
  }
  return met ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("compares predictions with simulations, over many plans", "nest-simulation-check");
  Options options;
  app.add_option("--first", options.first, "first seed");
  app.add_option("--plans", options.plans, "random plans on preset clusters; 0: none");
  app.add_option("--slow-plans", options.slow_plans, "random plans on slow networks; 0: none");
  app.add_option("--top", options.top, "plans of every search that are simulated")->check(CLI::PositiveNumber);
  app.add_flag("--no-top", options.no_top, "random plans only");
  app.add_option("--folder", options.folder, "write results.md, plans.csv, top.csv and difference.svg here");
  bool simgrid = false;
  app.add_flag("--simgrid", simgrid, "execute with SimGrid instead of nest's own engine");
  CLI11_PARSE(app, argc, argv);
  if (simgrid) options.engine = nest::SimulationEngine::simgrid;
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::cerr << "nest-simulation-check: " << error.what() << '\n';
    return 2;
  }
}
