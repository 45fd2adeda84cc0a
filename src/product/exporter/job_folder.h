// A plan as a folder that can be submitted: the framework's configuration, a script that starts it on one host, a job for
// Slurm that runs the script on every host in the plan's order, the hosts, and what there is to know.
//
//   launch.sh     NODE_RANK=i MASTER_ADDR=first-host bash launch.sh [more options]
//   job.sbatch    sbatch job.sbatch, inside the folder
//   hosts         line i is the host of node rank i
//   README.md     what is planned, what must be set, what is not carried
//
// Programs that are not the framework's own (a training script, its checkout, a recipe's name) come from variables that the
// script asks for.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "exporter/megatron.h"
#include "launch/frameworks.h"

namespace nest::exporter {

// What a framework adds to a folder.
struct JobParts {
  std::vector<std::pair<std::string, std::string>> files;  // its configuration: name, content
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> notes;
  std::string before;                                          // lines of bash before it starts
  std::string command;                                         // what the launcher starts, quoted for bash
  bool accelerate = false;                                     // started by accelerate's launcher; else by torchrun
  std::vector<std::pair<std::string, std::string>> variables;  // that must be set, with what they are
};

struct JobKind {
  const char* name;
  const char* words;
  launch::Framework framework;
  JobParts (*parts)(const ExportTask& task);
};
std::span<const JobKind> job_kinds();

struct JobFile {
  std::string name, content;
};
// Of a task whose hosts can be started one by one.
std::vector<JobFile> job_files(const ExportTask& task, const JobKind& kind, const JobParts& parts);

}  // namespace nest::exporter
