// Texts that should change only when somebody means it.
#pragma once

#include <string>

namespace nest::test {

// Compares with tests/cli/golden/<name>; with NEST_UPDATE_GOLDEN=1 in the environment the file is written instead.
void expect_golden(const std::string& name, const std::string& text);

// Fails for every line that is wider than the screen, has trailing spaces, or a tab.
void expect_fits_screen(const std::string& text);

}  // namespace nest::test
