// Colour and weight of text: nest/style.h.
#pragma once

#include "nest/style.h"
