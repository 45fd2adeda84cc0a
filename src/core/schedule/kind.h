#pragma once
#include <cstdint>
namespace nest {
enum class Schedule : std::uint8_t { one_f_one_b, interleaved, gpipe };
}
