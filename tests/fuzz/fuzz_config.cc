// A model config that is accepted must also survive everything that is done with it.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "model/config.h"
#include "model/count.h"
#include "split/local_layer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const nest::model::Architecture architecture = nest::model::read_config(
        nest::doc::parse_json("config.json", std::string(reinterpret_cast<const char*>(data), size),
                              {.bytes = 1U << 20U}),
        "fuzz");
    for (const nest::model::Stack stack : {nest::model::Stack::megatron, nest::model::Stack::huggingface}) {
      const nest::model::Implementation implementation{.stack = stack, .dropout = true};
      const nest::model::Model model = nest::model::build_model(architecture, implementation);
      nest::model::count_parameters(model);
      const nest::split::RunShape shape{.micro_batch = 2, .sequence = architecture.default_sequence};
      for (const nest::Split& split :
           {nest::Split{}, nest::Split{.tp = 2, .sp = true, .cp = 2}, nest::Split{.ep = 2}}) {
        if (!nest::split::refuse_split(model, shape, split).empty()) continue;
        for (const nest::model::Layer& layer : model.kinds) nest::split::localise(layer, shape, split, implementation);
        nest::split::cut_bytes(model, shape, split);
      }
    }
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
  return 0;
}
