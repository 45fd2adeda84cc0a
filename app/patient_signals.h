// Signals that end the program wait until what lies unfinished on the disk is gone or complete.
#pragma once

namespace nest::app {

// While one exists, SIGINT, SIGTERM and SIGHUP are noted instead of obeyed. Whoever writes asks between two pieces whether one came,
// removes what is unfinished and obeys. The last one to go obeys what nobody asked about. Not for several threads.
class PatientSignals {
 public:
  PatientSignals();
  ~PatientSignals();
  PatientSignals(const PatientSignals&) = delete;
  PatientSignals& operator=(const PatientSignals&) = delete;

  static bool came();
  [[noreturn]] static void obey();  // ends the program by the signal that came
};

}  // namespace nest::app
