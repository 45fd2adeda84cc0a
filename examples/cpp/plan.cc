// Asks nest for the fastest way to train a model, prints it, judges it, and writes it out for the framework that runs it.
//
//   plan [MODEL [CLUSTER [DEVICES]]]      default: llama3-70b dgx-h100 64
#include <cstdlib>
#include <exception>
#include <iostream>

#include "nest/nest.h"

int main(int argc, char** argv) {
  try {
    nest::Question question;
    question.model = argc > 1 ? argv[1] : "llama3-70b";  // a preset, a config.json, a graph, an ONNX file
    question.cluster = argc > 2 ? argv[2] : "dgx-h100";  // a preset or a YAML file
    question.devices = argc > 3 ? std::atoll(argv[3]) : 64;
    question.global_batch = 256;
    const nest::TrainingJob job = nest::read_job(question);

    nest::SearchOptions options;
    options.set = {"tp=1..8"};
    const nest::Answer answer = nest::find_plan(job, options);
    std::cout << nest::to_text(answer);  // the plan and why not otherwise, or what would make one fit
    if (answer.plans.empty()) return 3;

    // A plan is complete: it can be judged, priced again, simulated and exported without anything else.
    const nest::Plan& plan = answer.plans.front();
    const nest::Verdict verdict = nest::check_plan(plan);
    if (!verdict.sound()) std::cout << nest::to_text(verdict);
    std::cout << "\n# " << plan.prediction.iteration_s << " s per step with\n"
              << nest::export_plan(plan, "megatron").text;
    return 0;
  } catch (const nest::InputError& error) {
    std::cerr << error.what() << '\n' << error.excerpt();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
  }
  return 1;
}
