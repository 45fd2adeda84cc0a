// Options by their own names in messages. The library does not know how it is called: "global_batch" is --global-batch
// on a command line and an argument in Python. A message marks where it names an option, InputError::what() shows the
// plain name, and a front end that has another way of writing it asks InputError::told() for the message in its words.
#pragma once

#include <string>
#include <string_view>

namespace nest {

// The name, marked. Names are those of the members of questions and options: "stack", "micro_batch".
std::string option(std::string_view name);

// The text with every marked name as it stands.
std::string plain_options(std::string_view text);

// The text with every marked name as a flag: "--micro-batch".
std::string flag_options(std::string_view text);

}  // namespace nest
