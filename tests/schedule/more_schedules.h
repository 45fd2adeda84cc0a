// Schedules that nest does not offer yet, as rules of their own: what is derived from orders must hold for them too.
#pragma once

#include "schedule/rules.h"

namespace nest::schedule::test {

// Zero bubble, handcrafted 1: 1F1B with I for B; stage s lets s of its W wait, then runs one after every I.
schedule::Rule zb_h1();

// Zero bubble in a V: two chunks per stage, at positions s and 2p-1-s. m >= 2p-1.
schedule::Rule zbv();

// Interleaved with one more forward ahead, as where the exchanges of experts overlap.
schedule::Rule interleaved_one_ahead();

}  // namespace nest::schedule::test
