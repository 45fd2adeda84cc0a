#include "interrupt.h"

#include <csignal>

namespace nest::app {
namespace {

std::atomic<bool>& interrupted() {
  static std::atomic<bool> flag{false};
  return flag;
}

void on_interrupt(int /*signal*/) {
  interrupted().store(true);
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

Interrupt::Interrupt() {
  interrupted().store(false);
  previous_ = std::signal(SIGINT, on_interrupt);
}

Interrupt::~Interrupt() { std::signal(SIGINT, previous_); }

const std::atomic<bool>* Interrupt::flag() const { return &interrupted(); }

}  // namespace nest::app
