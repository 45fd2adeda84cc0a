// Schedules that nest does not offer yet, as rules of their own: what is derived from orders must hold for them too.
#pragma once

#include "schedule/rules.h"

namespace nest::schedule::test {

// Interleaved with one more forward ahead, as where the exchanges of experts overlap.
schedule::Rule interleaved_one_ahead();

}  // namespace nest::schedule::test
