// Programs and timelines as JSON: what nest and its simulator say to each other (docs/simulation.md).
#pragma once

#include <string>
#include <string_view>

#include "simulate/program.h"

namespace nest::simulate {

inline constexpr const char* kProgramSchema = "nest.program/1";
inline constexpr const char* kTimelineSchema = "nest.timeline/1";

std::string program_to_json(const SimulationProgram& program);
std::string timeline_to_json(const Timeline& timeline);

// Throw InputError for anything that is not such a document. A program that is read is sound (refuse_program); whether
// a timeline fits a program is for refuse_timeline.
SimulationProgram read_program(std::string_view text);
Timeline read_timeline(std::string_view text);

}  // namespace nest::simulate
