#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "base/text.h"

namespace nest::test {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe failed");
  return {ends[0], ends[1]};
}

Pipe make_terminal() {
  Pipe pair;
  termios raw{};
  ::cfmakeraw(&raw);  // no translation of line ends
  if (::openpty(&pair.read, &pair.write, nullptr, &raw, nullptr) != 0) throw std::runtime_error("openpty failed");
  return pair;
}

Pipe make_sink(Sink sink) {
  switch (sink) {
    case Sink::terminal: return make_terminal();
    case Sink::full_disk: return {-1, ::open("/dev/full", O_WRONLY)};
    case Sink::closed_pipe: {
      Pipe pipe = make_pipe();
      ::close(pipe.read);
      return {-1, pipe.write};
    }
    case Sink::pipe: break;
  }
  return make_pipe();
}

[[noreturn]] void become(const Call& call, const Pipe& in, const Pipe& out, const Pipe& err) {
  ::dup2(in.read, STDIN_FILENO);
  ::dup2(out.write, STDOUT_FILENO);
  ::dup2(err.write, STDERR_FILENO);
  for (int descriptor = STDERR_FILENO + 1; descriptor < 64; ++descriptor) ::close(descriptor);
  std::signal(SIGPIPE, SIG_DFL);

  std::vector<std::string> words = {call.program.empty() ? program_path() : call.program};
  words.insert(words.end(), call.arguments.begin(), call.arguments.end());
  const char* path = std::getenv("PATH");
  std::vector<std::string> settings = {std::string("PATH=") + (path ? path : "/usr/bin:/bin")};
  if (!call.environment.contains("TERM")) settings.emplace_back("TERM=xterm");
  for (const auto& [name, value] : call.environment) settings.push_back(name + "=" + value);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (std::string& setting : settings) environment.push_back(setting.data());
  environment.push_back(nullptr);
  ::execvpe(arguments[0], arguments.data(), environment.data());
  ::_exit(127);
}

// Feeds `input` and collects both outputs until they are closed.
void exchange(const std::string& input, int to, int out, int err, Result& result) {
  std::string_view rest = input;
  std::array<pollfd, 3> watched = {pollfd{to, POLLOUT, 0}, pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  const auto drop = [](pollfd& entry) {
    ::close(entry.fd);
    entry.fd = -1;
  };
  if (rest.empty()) drop(watched[0]);
  while (watched[0].fd >= 0 || watched[1].fd >= 0 || watched[2].fd >= 0) {
    if (::poll(watched.data(), watched.size(), 60'000) == 0) throw std::runtime_error("the program hangs");
    if (watched[0].fd >= 0 && watched[0].revents != 0) {
      const ssize_t sent = ::write(to, rest.data(), rest.size());
      if (sent > 0) rest.remove_prefix(static_cast<std::size_t>(sent));
      if (sent <= 0 || rest.empty()) drop(watched[0]);
    }
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].fd < 0 || watched[i].revents == 0) continue;
      std::array<char, 1U << 16U> block{};
      const ssize_t got = ::read(watched[i].fd, block.data(), block.size());
      if (got > 0) {
        (i == 1 ? result.out : result.err).append(block.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {  // a terminal whose other end is closed answers EIO
        drop(watched[i]);
      }
    }
  }
}

// Keeps what the program printed as JSON, under the name of the test, for tests/formats.
void keep_json(const Call& call, const Result& result) {
  static int count = 0;
  const bool asked = std::find(call.arguments.begin(), call.arguments.end(), "--json") != call.arguments.end();
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (!asked || !call.program.empty() || test == nullptr || !result.out.starts_with('{')) return;
  const std::string name = std::string(test->test_suite_name()) + '.' + test->name() + '-' + std::to_string(count++);
  std::ofstream(std::filesystem::path(NEST_JSON_OUTPUTS) / (name + ".json")) << result.out;
}

}  // namespace

std::string program_path() { return NEST_PROGRAM; }

Result run(const Call& call) {
  std::signal(SIGPIPE, SIG_IGN);
  const Pipe in = make_pipe();
  const Pipe out = make_sink(call.sink);
  const Pipe err = make_pipe();
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become(call, in, out, err);
  ::close(in.read);
  ::close(out.write);
  ::close(err.write);
  Result result;
  exchange(call.input, in.write, out.read, err.read, result);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  keep_json(call, result);
  return result;
}

Result nest(const std::vector<std::string>& arguments) { return run({.arguments = arguments}); }

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  for (const std::string_view line : split_text(text, '\n')) found.emplace_back(line);
  if (!found.empty() && found.back().empty()) found.pop_back();
  return found;
}

}  // namespace nest::test
