// Candidates side by side (nest/candidates.h), for people and for programs.
#pragma once

#include <string>

#include "nest/candidates.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

// "Llama 3 70B, 128 x 8,192 tokens per step"
std::string candidates_title(const CandidateComparison& comparison);
// One sentence: which is fastest, by how much over the next, and how sure that is.
std::string candidates_headline(const CandidateComparison& comparison);
// What all were judged by.
std::string candidates_judge(const CandidateComparison& comparison);
// What seconds of the breakdown are of: "seconds per step".
std::string candidates_unit(const CandidateComparison& comparison);
// "+0.452", "-0.010", "": a difference with a sign; nothing where three digits do not show it.
std::string signed_seconds(double seconds);

bool has_same_devices(const CandidateComparison& comparison);
// The parts of which some candidate has any.
std::vector<BreakdownPart> shown_parts(const CandidateComparison& comparison);

std::string candidates_text(const CandidateComparison& comparison, const Style& style);
Json candidates_json(const CandidateComparison& comparison);  // nest.candidates/1

}  // namespace nest::report
