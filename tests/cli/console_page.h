// Pages that show commands with what they print: README.md, docs and examples. Every ```console block holds commands,
// each after "$ ", and their output, errors included. A command goes on in lines that begin with "> ", and after a
// backslash at the end of a line.
#pragma once

#include <filesystem>

namespace nest::test {

struct ConsolePage {
  std::filesystem::path file;
  std::filesystem::path inputs = {};  // a folder whose files lie beside the commands; empty: none
};

// Runs all commands of the page, in order, in one fresh folder that holds copies of the inputs, and compares. With
// NEST_UPDATE_GOLDEN=1 in the environment the page is written anew instead, where it is no longer true.
//
// What a machine decides is not compared: how long searches took, and how many of the comparisons under "Why not …" it
// settled in their time. Those that it did settle must be on the page as they are.
void expect_page_is_true(const ConsolePage& page);

}  // namespace nest::test
