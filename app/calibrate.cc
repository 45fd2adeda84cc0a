// nest calibrate: constants of a device from measurements on it.
#include "nest/calibrate.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "command.h"
#include "nest/text.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "fit a device's constants to measurements on it\n"
    "tools/measure/measure.py measures operators and layers on a device with PyTorch; this fits the constants of "
    "nest's "
    "operator formulas to them, shows what error remains, and writes the device for use in cluster files.";

constexpr const char* kExamples =
    "  python3 tools/measure/measure.py -o mine.json    on the device, five minutes\n"
    "  nest calibrate mine.json --device h200           errors and constants\n"
    "  nest calibrate mine.json --device h200 -o mine.yaml\n"
    "  nest calibrate a.json b.json --device my-gpu.yaml --json";

struct CalibrateQuestion {
  std::vector<std::string> files;
  std::string device;
  std::string output;
};

ExitCode run_calibrate(const CalibrateQuestion& question, Session& session) {
  const std::vector<Input> files(question.files.begin(), question.files.end());
  const CalibratedDevice calibrated = calibrate_device(question.device, files, stem_of(question.output));
  if (!question.output.empty()) {
    write_file_atomically(question.output, calibrated.yaml);
    write_stderr(fmt::format("nest: wrote {}\n", question.output));
  }
  session.out = session.json ? to_json(calibrated) : to_text(calibrated, session.style);
  return kExitOk;
}

}  // namespace

Command add_calibrate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("calibrate", kDescription);
  app->footer(kExamples);
  const auto question = std::make_shared<CalibrateQuestion>();
  app->add_option("MEASUREMENTS", question->files, "files of measurements (nest.measurements/1); - for standard input")
      ->required()
      ->type_name("FILE")
      ->group("Arguments");
  app->add_option("--device", question->device, "the device that was measured: a name, or a YAML file")
      ->required()
      ->type_name("NAME");
  app->add_option("-o,--output", question->output, "write the device with its new constants to this YAML file")
      ->type_name("FILE");
  return {app, [question](Session& session) { return run_calibrate(*question, session); }, {}};
}

}  // namespace nest::app
