// nest-accuracy: compares predictions with measurements and writes what it finds.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "accuracy/recipes.h"
#include "accuracy/report.h"
#include "accuracy/sets.h"
#include "base/error.h"

namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& text) {
  if (path.has_parent_path()) fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw nest::InputError("cannot write " + path.string());
}

struct Options {
  std::string data;
  std::string json;
  std::string markdown;
  std::string plots;
  std::string explain;
  std::string recipes;
  std::string near;
};

// Where the page finds the pictures.
std::string link_to(const std::string& plots, const std::string& markdown) {
  return plots.empty() || markdown.empty()
             ? ""
             : fs::relative(fs::absolute(plots), fs::absolute(markdown).parent_path()).generic_string();
}

// Published recipes beside our plans for the same jobs.
int compare_recipes(const Options& options) {
  if (options.data.empty()) {
    throw nest::InputError("--recipes needs --data FOLDER: the recipes are not part of the rows that ship with nest");
  }
  const auto recipes = nest::accuracy::read_recipes(options.data);
  std::vector<nest::accuracy::RecipeAnswer> answers;
  for (const auto& job : recipes.jobs) answers.push_back(nest::accuracy::plan_recipes(job));
  write_file(options.recipes, nest::accuracy::recipes_page(recipes, answers));
  const std::size_t wins = nest::accuracy::recipes_that_win(recipes, answers);
  std::cerr << recipes.jobs.size() << " jobs planned; recipes faster than our plan in the same memory: " << wins
            << "\n";
  return wins > 0 ? 1 : 0;
}

int compare(const Options& options) {
  const bool carried = options.data.empty();
  const fs::path folder = carried ? fs::path(NEST_CARRIED_ROWS) : fs::path(options.data);
  if (!fs::is_directory(folder)) throw nest::InputError("--data: " + folder.string() + " is not a folder");
  if (!options.explain.empty()) {
    std::cout << nest::accuracy::explain(folder, options.explain);
    return 0;
  }
  if (!options.recipes.empty()) return compare_recipes(options);
  if (!options.near.empty()) {
    write_file(options.near, nest::report::write_runs(nest::accuracy::published_times(folder)));
    return 0;
  }
  const auto sets = nest::accuracy::all_sets(folder);
  const auto summary = nest::accuracy::summarise(sets);
  if (!options.json.empty())
    write_file(options.json, nest::accuracy::to_json(sets, summary, carried ? "carried" : options.data));
  if (!options.plots.empty()) {
    for (const auto& picture : nest::accuracy::draw(sets))
      write_file(fs::path(options.plots) / picture.file, picture.text);
  }
  const std::string page =
      nest::accuracy::to_markdown(sets, summary, carried, link_to(options.plots, options.markdown));
  if (!options.markdown.empty()) write_file(options.markdown, page);
  if (options.json.empty() && options.markdown.empty()) std::cout << page;
  std::cerr << nest::accuracy::runs_text(summary);
  for (const auto& mark : summary.marks) {
    std::cerr << (mark.met() ? "met     " : "missed  ") << mark.what << ", " << mark.measure << ": " << mark.reached
              << " (aim " << mark.aim << ")\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Compares nest's predictions with measurements.", "nest-accuracy");
  app.add_option("--data", options.data, "folder of measurements (default: the rows that ship with nest)");
  app.add_option("--json", options.json, "write the figures to this file");
  app.add_option("--markdown", options.markdown, "write the page to this file");
  app.add_option("--plots", options.plots, "write the pictures into this folder");
  app.add_option("--explain", options.explain, "only show how this published run is priced");
  app.add_option("--recipes", options.recipes, "only plan the jobs of published recipes and write that page here");
  app.add_option("--near", options.near, "only write the published runs that answers are compared with to this file");
  CLI11_PARSE(app, argc, argv);
  try {
    return compare(options);
  } catch (const nest::InputError& error) {
    std::cerr << "nest-accuracy: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "nest-accuracy: " << error.what() << "\n";
    return 1;
  }
}
