#include "nest/version.h"

namespace nest {

const char* version() { return NEST_VERSION; }

}  // namespace nest
