// Standard output, standard error, and files that are written whole.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "patient_signals.h"

namespace nest::app {

enum class ColorMode : std::uint8_t { automatic, always, never };

// Whether text for standard output may be coloured: it goes to a terminal that can, and NO_COLOR is not set.
bool use_color(ColorMode mode);

// Everything below is the one place where text leaves the program: what a terminal would obey or hide is shown escaped
// (printable() of nest/text.h), in what is printed, in messages and in files.

// Whether colours of a Style may stay in what is printed.
void show_inks(bool inked);

// Files that arguments name: what is named twice is not written to.
void watch_arguments(int argc, const char* const* argv);

// Writes everything. A reader that closed its end early is no error (it had enough); anything else that prevents the
// text from arriving, a full disk for example, throws InputError.
void write_stdout(std::string_view text);

// Best effort: there is nobody left to tell when this fails.
void write_stderr(std::string_view text);
// Columns of the terminal that standard error is; 0: it is none, and lines are as long as they are.
std::size_t stderr_columns();
// In place of what the line says so far.
void write_progress(std::string_view text);

// A new name beside `path`, with which `make` succeeds; it fails with EEXIST where the name is taken. Unlike mkstemp
// and mkdtemp it lets the kernel apply the process's mask of permissions, which a library inside another program must
// not touch. What else prevents it is left in errno.
std::string make_beside(const std::string& path, const std::function<bool(const char*)>& make);

// The file's name without folder and ending.
std::string stem_of(const std::string& path);

// Replaces a file, or leaves it as it was: the text goes to a new file beside it that takes its name, and its
// permissions, when complete. Links are followed. Throws InputError when that fails; nothing is left behind then, nor where a
// signal ends the program. What is
// no plain file (/dev/stdout) is written to. Pieces of a text end between characters.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view text);
  void finish();  // without it the file stays as it was

 private:
  [[noreturn]] void fail(int reason);

  std::optional<PatientSignals> signals_;  // of plain files only: a pipe may never take what it is given
  std::string path_, target_, beside_;     // beside_ is empty for what is no plain file
  int descriptor_ = -1;
};

// The same with all of the text at once.
void write_file_atomically(const std::string& path, std::string_view text);

}  // namespace nest::app
