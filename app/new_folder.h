// A folder that appears when it is complete, or not at all.
#pragma once

#include <string>

#include "patient_signals.h"

namespace nest::app {

// Stands beside the one that is asked for; takes its name when everything is in it, and is gone otherwise. One that is
// there already must be empty. Throws InputError when it cannot be written.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  void write(const std::string& name, const std::string& content) const;
  void complete();

 private:
  [[noreturn]] void fail(int reason) const;

  PatientSignals signals_;  // the first to come and the last to go
  std::string path_;
  std::string beside_;
};

}  // namespace nest::app
