#pragma once

namespace nest {

// "0.1.0"
const char* version();

}  // namespace nest
