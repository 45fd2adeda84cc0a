// A plan in the words of the framework that runs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nest/plan.h"

namespace nest {

struct ExportOptions {
  std::string format = {};  // of the target, one of export_formats(); empty: the first
  bool model = true;        // sizes of the model too; false: only what the plan decides
  // rankfile: the ranks of the plan that this framework runs, where it cannot run the one asked for (plan_targets() of
  // nest/search.h); empty: the stack's own framework, "any": the plan as it is.
  std::string target = {};
  std::int64_t per_host = 0;          // devices of one host, where that is less than the cluster's first level
  std::int64_t cores_per_device = 0;  // openmpi: binds every rank to so many cores; 0: does not
  std::string folder = {};            // chakra: where the files go, for the report
  std::string ranks = "all";          // chakra: whose traces, "0,8,16-23"
  std::int64_t threads = 0;           // of the search for the nearest plan; 0: one per core
  double time_limit_s = 0;            // of each search; 0: none
  const std::atomic<bool>* stop = nullptr;
  // chakra: given every file with its name, one at a time. Where it is missing, Export::files holds them.
  std::function<void(const std::string& name, const std::string& content)> write = {};
};

// "megatron", …: frameworks, rank files, traces.
std::vector<std::string> export_targets();
// Of a target, the default first.
std::vector<std::string> export_formats(const std::string& target);
// For help: "the framework, or rankfile: which rank …", and "megatron: args, script; …".
std::string export_help();
std::string formats_text();
// Whether it writes a folder of files rather than one text.
bool exports_folder(const std::string& target);

struct ExportedPlan;  // internal

struct Export {
  bool found = true;                // false: no plan that the framework can run fits, for the reasons of `cannot`
  std::string framework;            // whose rules the plan keeps; empty: nobody's
  std::vector<std::string> cannot;  // what of the plan the framework cannot be told, each after "it …"
  std::vector<std::string> set;     // settings of the search that found it, to which the nearest plan keeps too
  bool fits = true;                 // the plan that was asked for, in memory
  Plan plan;                        // that is written: the one asked for, or the fastest that the framework can run
  std::string text;                 // the file
  struct File {
    std::string name, content;
  };
  std::vector<File> files;  // of a target that writes a folder
  std::string about;        // what was written, for people: lines
  // How ranks get to the devices that the plan gives them.
  enum class Placing : std::uint8_t { natural, hosts_in_order, rank_by_rank } placing = Placing::natural;
  std::vector<std::pair<std::string, std::string>> environment;  // to be set where it runs
  std::vector<std::string> notes;
  std::shared_ptr<const ExportedPlan> exported;
};

// Throws InputError for a plan that cannot be priced, and where the target cannot say it.
Export export_plan(const Plan& plan, const std::string& target, const ExportOptions& options = {});

std::string to_json(const Export& exported);  // nest.export/1

}  // namespace nest
