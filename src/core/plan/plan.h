// Plans (nest/plan.h) inside nest.
#pragma once

#include "nest/plan.h"
#include "split/split.h"
