// How far predictions are off on sources that their constants never saw.
//
// Constants scale parts of a step: rates of a device its compute, those of exchanges the exposed ones. To first order a
// source that is left out changes them by what the errors of all others ask for: with x the shares of the parts of a
// step and z = log(measured / predicted), the correction b maximises
//
//     Σ_rows log t4((z - x · b) / s) - Σ_k b_k² / (2 · 0.3²)
//
// over the strict rows of all other sources, s being the row's spread as it ships (cost/error_bar.h) and t4 Student's
// law with four degrees of freedom. The run of the source is then judged by predicted · exp(x · b). A part that no other
// source has keeps its constant, which the page says.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "accuracy/set.h"

namespace nest::accuracy {

struct UnseenRow {
  double z = 0;                        // log(measured / predicted)
  double spread = 1;                   // s
  std::map<std::string, double> part;  // share of the step by the name of its constant
  std::string source;
};

// Corrections by name, fitted to the rows of all sources but one.
std::map<std::string, double> correction_without(const std::vector<UnseenRow>& rows, const std::string& source);

struct UnseenSource {
  std::string source;
  Errors shipped;
  Errors unseen;                     // with the correction of the others
  std::vector<std::string> its_own;  // constants that no other source has
};

struct UnseenSources {
  std::vector<UnseenSource> sources;
  Errors all;  // of all rows, each judged without its source
};

std::vector<UnseenRow> unseen_rows(const Set& published_time);
UnseenSources judge_unseen(const std::vector<UnseenRow>& rows);
std::string unseen_section(const UnseenSources& judged);

}  // namespace nest::accuracy
