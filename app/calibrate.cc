// nest calibrate: constants of a device from measurements on it.
#include "calibrate/calibration.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/text.h"
#include "calibrate/device_yaml.h"
#include "command.h"
#include "load/input.h"
#include "output.h"

namespace nest {
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

Device load_device(const std::string& name) {
  if (auto device = find_device(name)) return *device;
  if (path_exists(name)) return read_device(parse_yaml(source_name(name), read_text(name)), file_stem(name));
  std::vector<std::string> known;
  for (const Device& device : device_presets()) known.push_back(device.name);
  throw InputError(fmt::format("--device: `{}` is neither a known device nor a file; known are {}{}", clip(name, 60),
                               join_words(known), did_you_mean(name, known)));
}

ExitCode run_calibrate(const CalibrateQuestion& question, Session& session) {
  const Device device = load_device(question.device);
  std::vector<Document> documents;
  for (const std::string& path : question.files) documents.push_back(parse_json(source_name(path), read_text(path)));
  Calibration calibration = calibrate(device, documents);
  if (!question.output.empty()) {
    calibration.after.name = file_stem(question.output);
    write_file_atomically(question.output, device_yaml(calibration.after));
    write_stderr(fmt::format("nest: wrote {}\n", question.output));
  }
  session.out = session.json ? to_text(calibration_json(calibration)) : calibration_text(calibration, session.style);
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

}  // namespace nest
