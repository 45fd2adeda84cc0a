// Configurations of torchtitan's main: Python that is read, never run.
//
// Understood are literals (numbers and their products, strings, lists, True, False, None) as arguments of ParallelismConfig,
// TrainingConfig, CompileConfig, model_registry, the activation_checkpoint policies, dataclasses.replace of one of these, and
// as what is assigned to `config.parallelism.….` and so on, in the order of the text; functions of torchtitan's own
// config_registry by their facts (titan_main.h). Everything else is passed over; a parallelism that is no literal is an error.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nest::launch {

bool looks_like_titan_python(std::string_view text);

// Sections, keys and values of main's names, the values as TOML writes them.
using TitanSections = std::map<std::string, std::map<std::string, std::string>>;

// The configuration of this name; empty: the only one. Throws InputError where there are several, or none of the name.
TitanSections read_titan_python(std::string_view source, std::string_view text, std::string_view config = {});

// What a configuration of torchtitan's own says; empty where it has none of that name.
TitanSections titan_main_config(std::string_view name);

// The same in the words of 0.2.2's TOML. Throws InputError where batches and sequences are no whole numbers.
std::string titan_toml(std::string_view source, TitanSections sections);

}  // namespace nest::launch
