// From a question, in the words of people, to a job that can be planned and priced.
//
//   Question question;
//   question.model = "llama3-70b";                  // or a config.json, a graph, an ONNX file, text in memory
//   question.devices = 64;
//   const TrainingJob job = read_job(question);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "nest/input.h"
#include "nest/plan.h"

namespace nest {

// What is trained, where, and with which software. What is left out has a default.
struct Question {
  Input model = {};               // llama3-70b. A preset, a config.json, a folder that holds one, a traced graph,
                                  // an ONNX file
  Input cluster = {};             // dgx-h100. A preset or a YAML file
  std::int64_t devices = 0;       // 0: all of the cluster
  std::int64_t nodes = 0;         // hosts, in place of devices: times what each of them holds; 0: not said
  std::int64_t global_batch = 0;  // sequences per optimizer step; 0: about four million tokens
  std::int64_t batch_tokens = 0;  // the same in tokens, rounded to whole sequences; 0: not said
  std::int64_t seq = 0;           // tokens per sequence; 0: what the model was trained with
  std::int64_t encoder_seq = 0;   // of the encoder of an encoder-decoder model; 0: as seq
  std::int64_t mtp_layers = 0;    // depths that predict further tokens, trained with the model; 0: none
  std::string freeze = {};        // weights that are not trained, patterns with commas between: "vision",
                                  // "embedding,blocks.0-15"; empty: all are
  std::string lora = {};          // low-rank adapters beside frozen weights: "rank=16,targets=q,v", "…,base=nf4"
  Input stack = {};               // by model, device and precision (Run::stack_reason says why). The software that runs
                                  // the training: a preset or a YAML file
  std::string routing = {};       // how evenly tokens choose experts: "forced", "cv=0.3" (variation of the experts'
                                  // loads), "overload=1.2" (rows of the busiest rank over the mean); empty: as the
                                  // stack says
  std::optional<Precision> precision = {};  // of matrix products; bf16
  std::optional<Optimizer> optimizer = {};  // whose state is kept; adam
  std::int64_t optimizer_offload = 0;       // percent of that state that waits, and is updated, on the host
  std::string oom_risk = {};  // probability of running out of memory that a stage may have: "1%"; empty: the stack's
                              // margin (memory_margin) decides what fits
  Input profile = {};         // measured operators or layers that override estimates; none
};

// What to plan for when neither a cluster nor a number of devices is given.
inline constexpr std::int64_t kUsualDevices = 64;

struct JobData;  // internal

// Everything about a training run except how it is divided. Immutable, cheap to copy, may be used by several threads.
class TrainingJob {
 public:
  explicit TrainingJob(std::shared_ptr<const JobData> data) : data_(std::move(data)) {}
  const JobData& data() const { return *data_; }

  const std::string& title() const;  // of the model, for people: "Llama 3 70B"
  std::int64_t devices() const;
  std::int64_t device_memory_bytes() const;
  std::int64_t devices_per_node() const;  // of a full one; 0: the cluster has no nodes
  double price_per_device_hour() const;   // as the cluster's file says; 0: it does not

 private:
  std::shared_ptr<const JobData> data_;
};

// Throws InputError that names what is wrong and the closest names.
TrainingJob read_job(const Question& question);

// The job that a plan was made for, from the plan alone; what a hand-written one leaves out is looked up by name.
TrainingJob job_of(const Plan& plan);

// A plan from its file (nest.plan/3 … /1), or hand-written: times, memory and prediction may be missing. Whether it
// makes sense is not judged. Measurements in `profile` take the place of the plan's own. Throws InputError.
Plan read_plan(const Input& file, const Input& profile = {});

// The text of a plan's file (nest.plan/3).
std::string plan_file(const Plan& plan);

// "bf16" -> Precision::bf16, "adam" -> Optimizer::adam. Throws InputError.
Precision precision_of(const std::string& word);
Optimizer optimizer_of(const std::string& word);

}  // namespace nest
