#include "foreign.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "nest/text.h"

namespace nest::app {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr Pair kOptions[] = {
    {"--tensor-model-parallel-size", "--tp"},
    {"--tensor-parallel-size", "--tp"},
    {"--tensor-parallel", "--tp"},
    {"--tp-size", "--tp"},
    {"--pipeline-model-parallel-size", "--pp"},
    {"--pipeline-parallel-size", "--pp"},
    {"--pipeline-parallel", "--pp"},
    {"--pp-size", "--pp"},
    {"--stages", "--pp"},
    {"--data-parallel-size", "--dp"},
    {"--data-parallel", "--dp"},
    {"--replicas", "--dp"},
    {"--context-parallel-size", "--cp"},
    {"--context-parallel", "--cp"},
    {"--expert-model-parallel-size", "--ep"},
    {"--expert-parallel-size", "--ep"},
    {"--expert-parallel", "--ep"},
    {"--expert-tensor-parallel-size", "--etp"},
    {"--sequence-parallel", "--sp"},
    {"--num-virtual-stages-per-pipeline-rank", "--vpp"},
    {"--virtual-pipeline-model-parallel-size", "--vpp"},
    {"--virtual-pipeline", "--vpp"},
    {"--micro-batch-size", "--micro-batch"},
    {"--per-device-batch-size", "--micro-batch"},
    {"--per-device-train-batch-size", "--micro-batch"},
    {"--global-batch-size", "--global-batch"},
    {"--train-batch-size", "--global-batch"},
    {"--batch-size", "--global-batch"},
    {"--batch", "--global-batch"},
    {"--bs", "--global-batch"},
    {"--seq-length", "--seq"},
    {"--seq-len", "--seq"},
    {"--seqlen", "--seq"},
    {"--sequence-length", "--seq"},
    {"--max-seq-len", "--seq"},
    {"--max-seq-length", "--seq"},
    {"--context-length", "--seq"},
    {"--context", "--seq"},
    {"--num-gpus", "--gpus"},
    {"--ngpus", "--gpus"},
    {"--n-gpus", "--gpus"},
    {"--world-size", "--gpus"},
    {"--gpu-count", "--gpus"},
    {"--num-devices", "--devices"},
    {"--num-nodes", "--nodes"},
    {"--nnodes", "--nodes"},
    {"--hosts", "--nodes"},
    {"--gpu", "--cluster"},
    {"--hardware", "--cluster"},
    {"--system", "--cluster"},
    {"--topology", "--cluster"},
    {"--network", "--cluster"},
    {"--device", "--cluster"},
    {"--machine", "--cluster"},
    {"--dtype", "--precision"},
    {"--zero-stage", "--zero"},
    {"--gradient-checkpointing", "--recompute"},
    {"--activation-checkpointing", "--recompute"},
    {"--recompute-granularity", "--recompute"},
    {"--framework", "--target"},
    {"--backend", "--stack"},
    {"--software", "--stack"},
    {"--out", "--output"},
    {"--output-file", "--output"},
    {"--save", "--output"},
    {"--report", "--html"},
    {"--cost", "--price"},
    {"--price-per-hour", "--price"},
    {"--timeout", "--time-limit"},
    {"--num-tokens", "--tokens"},
    {"--train-tokens", "--tokens"},
    {"--config", "--model"},
    {"--model-name", "--model"},
    {"--model-path", "--model"},
    {"--script", "--from"},
    {"--jobs", "--threads"},
    {"--format", "--to"},
    {"--set", "--strategy"},
    {"--strategy", "--set"},
};

constexpr Pair kSubcommands[] = {
    {"estimate", "eval"},   {"evaluate", "eval"},       {"cost", "eval"},
    {"predict", "eval"},    {"price", "eval"},          {"memory", "eval"},
    {"search", "plan"},     {"optimize", "plan"},       {"optimise", "plan"},
    {"tune", "plan"},       {"autotune", "plan"},       {"solve", "plan"},
    {"run", "plan"},        {"list", "show"},           {"ls", "show"},
    {"info", "show"},       {"describe", "show"},       {"models", "show"},
    {"clusters", "show"},   {"devices", "show"},        {"stacks", "show"},
    {"validate", "check"},  {"verify", "check"},        {"lint", "check"},
    {"sim", "simulate"},    {"convert", "export"},      {"generate", "export"},
    {"launch", "export"},   {"benchmark", "calibrate"}, {"profile", "calibrate"},
    {"bench", "calibrate"}, {"version", "--version"},   {"grid", "sweep"},
    {"diff", "compare"},
};

template <std::size_t n>
std::string_view look_up(const Pair (&table)[n], std::string_view word) {
  std::string plain = to_lower(word);
  std::replace(plain.begin(), plain.end(), '_', '-');
  for (const auto& [foreign, own] : table) {
    if (plain == foreign) return own;
  }
  return {};
}

}  // namespace

std::string_view own_option(std::string_view foreign) { return look_up(kOptions, foreign); }
std::string_view own_subcommand(std::string_view foreign) { return look_up(kSubcommands, foreign); }

}  // namespace nest::app
