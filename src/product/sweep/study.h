// A study from its file: axes, fixed values, and which combinations are points. Nothing that it names is opened here.
#pragma once

#include "doc/value.h"
#include "nest/sweep.h"
#include "sweep/keys.h"

namespace nest::sweep {

// Whether a study may be called so: its table will be.
bool is_study_name(std::string_view name);

// All but Study::definition. Throws InputError.
Study read_study(const Document& document, const std::string& name);

// Everything but the name of the program and the contents of files that decides results.
struct NamedHash {
  std::string name;  // "cluster fabric.yaml"
  std::uint64_t hash = 0;
};
std::string definition_of(const Study& study, const std::string& version, const std::vector<NamedHash>& inputs);

// What differs between two definitions, in words; empty: nothing.
std::string difference(const std::string& stored, const std::string& wanted);

}  // namespace nest::sweep
