#include "growth.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <new>
#include <random>

#include "test_support/growth.h"

// Every allocation of C++ is counted, so that memory can be told without noise.
namespace {

std::int64_t held_bytes = 0;
std::int64_t most_held_bytes = 0;

void* take(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) return nullptr;
  held_bytes += static_cast<std::int64_t>(malloc_usable_size(memory));
  most_held_bytes = std::max(most_held_bytes, held_bytes);
  return memory;
}

void* take_or_throw(std::size_t size) {
  void* memory = take(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void give_back(void* memory) {
  if (memory == nullptr) return;
  held_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return take_or_throw(size); }
void* operator new[](std::size_t size) { return take_or_throw(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return take(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return take(size); }
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete[](void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete[](void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { give_back(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { give_back(memory); }

namespace nest::fuzz {
namespace {

// A file whose part [begin, end) is repeated.
struct Shape {
  const std::string* file;
  std::size_t begin, end;
  bool numbered;  // the first number of the part counts

  std::string text(std::size_t bytes) const {
    const std::string part = file->substr(begin, end - begin);
    const std::size_t number = numbered ? part.find_first_of("0123456789") : std::string::npos;
    const std::size_t after = number == std::string::npos ? 0 : part.find_first_not_of("0123456789", number);
    std::string text = file->substr(0, begin);
    for (std::size_t k = 0; text.size() < begin + bytes; ++k) {
      if (number == std::string::npos) {
        text += part;
      } else {
        text += part.substr(0, number) + std::to_string(k) +
                (after == std::string::npos ? std::string() : part.substr(after));
      }
    }
    return text + file->substr(end);
  }
};

// One past the bracket that closes the one at `begin`; npos where none does. Brackets in quotes count too: shapes that
// are torn for it are inputs as well.
std::size_t after_bracket(const std::string& file, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < file.size(); ++i) {
    if (file[i] == '{' || file[i] == '[') ++depth;
    if ((file[i] == '}' || file[i] == ']') && --depth == 0) return i + 1;
  }
  return std::string::npos;
}

// A line, the elements of a list, a member of an object, a word, or any bytes, as dice say.
Shape random_shape(const std::vector<std::string>& corpus, std::mt19937_64& dice) {
  const auto below = [&](std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(dice); };
  const std::string& file = corpus[below(corpus.size())];
  Shape shape{&file, below(file.size() + 1), 0, below(2) == 0};
  const auto until = [&](const char* ends, std::size_t from) {
    const std::size_t end = file.find_first_of(ends, from);
    return end == std::string::npos ? file.size() : end + 1;
  };
  switch (below(5)) {
    case 0: {  // a line
      const std::size_t before = shape.begin == 0 ? std::string::npos : file.rfind('\n', shape.begin - 1);
      shape.begin = before == std::string::npos ? 0 : before + 1;
      shape.end = until("\n", shape.begin);
      break;
    }
    case 1: {  // what is in brackets, with its comma
      const std::size_t open = file.find_first_of("[{", shape.begin);
      const std::size_t end = open == std::string::npos ? open : after_bracket(file, open);
      if (end != std::string::npos && end < file.size() && file[end] == ',') {
        shape.begin = open;
        shape.end = end + 1;
        break;
      }
      [[fallthrough]];
    }
    case 2: {  // up to the next comma
      const std::size_t comma = file.find(',', shape.begin);
      shape.begin = comma == std::string::npos ? shape.begin : comma + 1;
      shape.end = until(",", shape.begin);
      break;
    }
    case 3:  // a word
      shape.begin = until(" \t\n", shape.begin);
      shape.end = until(" \t\n", shape.begin);
      break;
    default: shape.end = shape.begin + below(32);
  }
  shape.end = std::min(std::max(shape.end, shape.begin), file.size());
  return shape;
}

}  // namespace

bool grows_as_its_input(const std::vector<std::string>& corpus, long shapes,
                        const std::function<void(const std::string&)>& read) {
  constexpr std::size_t kLeast = 1U << 15U, kMost = 1U << 18U;
  std::mt19937_64 dice(20260131);
  for (long number = 0; number < shapes; ++number) {
    const Shape shape = random_shape(corpus, dice);
    if (shape.begin == shape.end) continue;
    std::string text;
    const auto seconds_of = [&](std::size_t bytes) {
      text = shape.text(bytes);
      read(text);
    };
    const auto most_held = [&](std::size_t bytes) {
      text = shape.text(bytes);
      read(text);  // what is kept from the first time on does not count
      most_held_bytes = held_bytes;
      const std::int64_t before = held_bytes;
      read(text);
      return static_cast<double>(std::max<std::int64_t>(most_held_bytes - before, 1 << 14));
    };
    // A second look where the first is not good: other programs run too.
    double time = test::growth(seconds_of, kLeast, kMost);
    if (time >= test::kLinear) time = std::min(time, test::growth(seconds_of, kLeast, kMost));
    const double memory = most_held(kMost) / most_held(kMost / 4);
    if (time < test::kLinear && memory < test::kLinear) continue;
    std::cerr << "four times the input takes " << time << " times the time and " << memory
              << " times the memory; it repeats: " << shape.file->substr(shape.begin, shape.end - shape.begin) << '\n';
    return false;
  }
  return true;
}

}  // namespace nest::fuzz
