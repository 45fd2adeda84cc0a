#include "patient_signals.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

namespace nest::app {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

// What a handler may touch.
volatile std::sig_atomic_t& noted_signal() {
  static volatile std::sig_atomic_t signal = 0;
  return signal;
}

struct Patience {
  int depth = 0;
  std::array<void (*)(int), kEndingSignals.size()> before{};
};

Patience& patience() {
  static Patience now;
  return now;
}

void note_signal(int signal) { noted_signal() = signal; }

}  // namespace

PatientSignals::PatientSignals() {
  if (patience().depth++ > 0) return;
  noted_signal() = 0;
  for (std::size_t k = 0; k < kEndingSignals.size(); ++k) {
    // What is ignored (nohup) stays so.
    patience().before[k] = std::signal(kEndingSignals[k], note_signal);
    if (patience().before[k] == SIG_IGN) std::signal(kEndingSignals[k], SIG_IGN);
  }
}

PatientSignals::~PatientSignals() {
  if (--patience().depth > 0) return;
  for (std::size_t k = 0; k < kEndingSignals.size(); ++k) std::signal(kEndingSignals[k], patience().before[k]);
  if (came()) obey();
}

bool PatientSignals::came() { return noted_signal() != 0; }

void PatientSignals::obey() {
  const int signal = noted_signal();
  std::signal(signal, SIG_DFL);
  ::raise(signal);
  std::_Exit(128 + signal);  // where the signal is blocked
}

}  // namespace nest::app
