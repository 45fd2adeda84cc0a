// The dimensions of a plan, for front ends that offer each as an option of its own: --tp 8 for tp=8.
#pragma once

#include <string>
#include <vector>

namespace nest {

struct Dimension {
  std::string name;                      // "cp_comm"
  std::vector<std::string> other_names;  // "micro_batch" of "mbs"
  std::string label;                     // "tensor parallel"
  std::string meaning;
  std::string otherwise;           // where nobody says anything, in strategies
  bool is_flag = false;            // 0 or 1
  std::vector<std::string> words;  // that its value may be; empty for numbers
  bool is_limited = false;         // whether searches may be limited to some of its values
};

// In the order in which people read them.
std::vector<Dimension> dimensions();

}  // namespace nest
