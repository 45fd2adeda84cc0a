// "Why not mine?": somebody's own setup beside the best plan, where the difference is, and what to change first.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "report/json.h"
#include "report/style.h"

namespace nest::report {

// One term of the time of a step.
struct TermLine {
  std::string name;
  double yours_s = 0;
  double best_s = 0;
  std::string about;   // what of yours makes it so large
  std::string change;  // the single change that helps most, in the framework's words; may be empty
  double gain_s = 0;   // of the whole step, by that change
};

struct ChangeLine {
  std::string options;
  double iteration_s = 0;
};

struct WhyNotMine {
  std::string framework;  // "megatron"
  std::string title;      // of the model
  std::string devices;    // "128 x h100 (dgx-h100)"
  Plan yours;             // compared by expected(), as all that follows
  bool fits = true;
  std::string misfit;            // when it does not
  std::int64_t spare_bytes = 0;  // on the fullest stage
  std::int64_t fullest_stage = 0;
  bool has_best = false;
  Plan best;
  bool proven = false;
  std::vector<TermLine> terms;          // largest difference first
  std::vector<ChangeLine> changes;      // single ones, fastest first
  std::vector<ChangeLine> recommended;  // one change or two at once; empty: nothing helps
  std::vector<std::string> notes;
};

std::string why_not_mine_text(const WhyNotMine& report, const Style& style);
Json why_not_mine_json(const WhyNotMine& report);

}  // namespace nest::report
