// Launch lines, scripts and the configuration files of other frameworks.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "launch/pipeline_text.h"
#include "launch/setup.h"
#include "launch/toml.h"
#include "model/config.h"

namespace {

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const nest::InputError&) {
    // Refusing is the right answer to most of what comes here; anything else escapes and fails the run.
  }
}

// A model and a cluster to lay setups out on.
const nest::cost::Job& small_job() {
  static const nest::cost::Job job = [] {
    const nest::Document config = nest::doc::parse_json(
        "m.json", R"({"model_type": "megatron", "num_layers": 8, "hidden_size": 512, "num_attention_heads": 8,
                      "ffn_hidden_size": 1024, "vocab_size": 1000, "max_position_embeddings": 4096, "num_experts": 8})");
    nest::Run run;
    run.global_batch = 128;
    run.sequence = 4096;
    return nest::cost::make_job(nest::model::read_config(config, "small"), run,
                                *nest::cost::find_stack("megatron-core"), *nest::cluster::find_cluster("dgx-h100", 64));
  }();
  return job;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const nest::launch::ReadNamedFile read_file = [&](const std::string&) { return std::optional<std::string>(text); };
  attempt([&] {
    const nest::launch::LaunchSetup setup = nest::launch::read_launch("fuzz", text, {}, "", read_file);
    attempt([&] { nest::launch::lay_out(setup, small_job()); });
    if (setup.model_config.is_null()) return;
    attempt([&] { nest::model::read_config(nest::doc::parse_json("fuzz", setup.model_config.dump()), "fuzz"); });
  });
  attempt([&] { nest::launch::parse_toml("fuzz.toml", text); });
  std::int64_t mtp = 0;
  std::string reason;
  nest::launch::parse_layout(text, mtp, reason);
  nest::launch::parse_layer_frequency(text, 8);
  return 0;
}
