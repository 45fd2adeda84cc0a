// Ctrl-C while something long runs.
#pragma once

#include <atomic>

namespace nest::app {

// While one exists, the first Ctrl-C sets its flag; a second one ends the program as usual.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<bool>* flag() const;

 private:
  void (*previous_)(int);
};

}  // namespace nest::app
