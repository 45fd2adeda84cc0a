// Time and memory of a reader grow as its input does.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace nest::fuzz {

// Of files of the corpus, chosen by seed, some part (a line, an element of a list, a word …) is repeated to 32 … 256 KiB,
// with its number counting or not. False, and a message, where four times the input takes eight times the processor time,
// or the most memory that is held at once is eight times as much. (Smaller files would show what is bounded: pairs of the
// at most 1,024 devices of one node are looked at.)
bool grows_as_its_input(const std::vector<std::string>& corpus, long shapes,
                        const std::function<void(const std::string&)>& read);

}  // namespace nest::fuzz
