#include "simulate_client/client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "simulate/engine.h"
#include "simulate/program_json.h"

namespace nest {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kName = "nest-simulate";
constexpr double kLookAround_s = 0.1;      // between two looks at whether it is to be ended
constexpr std::size_t kErrorBytes = 4096;  // of what it says on standard error

bool is_program(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

// Closed when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return number_; }
  void set(int number) { number_ = number; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

// `socket`: writing to one whose reader is gone is an error and not a signal.
void open_pipe(Pipe& pipe, bool socket) {
  std::array<int, 2> ends{};
  const int failed =
      socket ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) : ::pipe2(ends.data(), O_CLOEXEC);
  if (failed != 0) throw SimulatorUnavailable(fmt::format("cannot start {}: {}", kName, std::strerror(errno)));
  pipe.read.set(ends[0]);
  pipe.write.set(ends[1]);
}

// The child; killed and collected at the latest when it goes out of scope.
class Child {
 public:
  Child(const std::string& path, Pipe& in, Pipe& out, Pipe& err) : Child(path, in, out, err, ::getpid()) {}

  Child(const std::string& path, Pipe& in, Pipe& out, Pipe& err, pid_t parent) : process_(::fork()) {
    if (process_ < 0) throw SimulatorUnavailable(fmt::format("cannot start {}: {}", kName, std::strerror(errno)));
    if (process_ > 0) return;
    // Only what may be called between fork and exec.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever ends this program ends it too
    if (::getppid() != parent) ::_exit(127);
    ::dup2(in.read.get(), STDIN_FILENO);
    ::dup2(out.write.get(), STDOUT_FILENO);
    ::dup2(err.write.get(), STDERR_FILENO);
    ::signal(SIGPIPE, SIG_DFL);
    std::array<char*, 2> arguments = {const_cast<char*>(path.c_str()), nullptr};
    ::execv(path.c_str(), arguments.data());
    ::_exit(127);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {}
  }

  // What waitpid says; nothing where it still runs.
  std::optional<int> has_ended() {
    int status = 0;
    const pid_t found = ::waitpid(process_, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
    process_ = -1;
    return status;
  }

 private:
  pid_t process_;
};

struct Exchange {
  std::string_view input;
  std::string answer;
  std::string errors;
};

// Appends what is there; false at the end of the stream.
bool read_some(int descriptor, std::string& text) {
  std::array<char, 1U << 16U> block{};
  const ssize_t got = ::read(descriptor, block.data(), block.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  text.append(block.data(), static_cast<std::size_t>(got));
  return got > 0;
}

// Seconds that are left. Throws where that is none, or somebody stops it.
double left_s(Clock::time_point begun, const SimulatorLimits& limits) {
  const double left = limits.seconds - std::chrono::duration<double>(Clock::now() - begun).count();
  if (left <= 0) throw SimulatorError(fmt::format("{} took more than {:g} s", kName, limits.seconds));
  if (limits.stop != nullptr && limits.stop->load()) throw SimulatorError(fmt::format("{} was stopped", kName));
  return left;
}

// Its status. One that has closed its ends may still run.
int wait_for(Child& child, Clock::time_point begun, const SimulatorLimits& limits) {
  constexpr std::chrono::milliseconds kLonger{10};
  std::chrono::microseconds pause{50};
  for (;;) {
    if (const std::optional<int> status = child.has_ended()) return *status;
    left_s(begun, limits);
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(2 * pause, kLonger);
  }
}

// Feeds and listens until the child has closed its ends.
void converse(Pipe& in, Pipe& out, Pipe& err, Exchange& exchange, Clock::time_point begun,
              const SimulatorLimits& limits) {
  while (out.read.get() >= 0 || err.read.get() >= 0) {
    std::array<pollfd, 3> watched = {pollfd{in.write.get(), POLLOUT, 0}, pollfd{out.read.get(), POLLIN, 0},
                                     pollfd{err.read.get(), POLLIN, 0}};
    const double left = left_s(begun, limits);
    const double patience_s = limits.stop == nullptr ? std::min(left, 1e6) : std::min(left, kLookAround_s);
    if (::poll(watched.data(), watched.size(), static_cast<int>(patience_s * 1e3) + 1) < 0 && errno != EINTR) {
      throw SimulatorError(fmt::format("cannot listen to {}: {}", kName, std::strerror(errno)));
    }
    if (watched[0].revents != 0 && in.write.get() >= 0) {
      const ssize_t sent =
          ::send(in.write.get(), exchange.input.data(), exchange.input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) exchange.input.remove_prefix(static_cast<std::size_t>(sent));
      const bool later = sent < 0 && (errno == EINTR || errno == EAGAIN);
      if ((sent < 0 && !later) || exchange.input.empty()) in.write.close();  // it may have seen enough: let it explain
    }
    if (watched[1].revents != 0 && !read_some(out.read.get(), exchange.answer)) out.read.close();
    if (watched[2].revents != 0 && !read_some(err.read.get(), exchange.errors)) err.read.close();
    if (exchange.errors.size() > kErrorBytes) exchange.errors.resize(kErrorBytes);
    if (exchange.answer.size() > limits.answer_bytes) {
      throw SimulatorError(fmt::format("{} answers with more than {} bytes", kName, limits.answer_bytes));
    }
  }
}

// The last line it said, for messages.
std::string last_words(const std::string& errors) {
  const std::size_t end = errors.find_last_not_of("\n\r ");
  if (end == std::string::npos) return {};
  const std::size_t begin = errors.find_last_of('\n', end);
  std::string line = errors.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
  const std::string prefix = std::string(kName) + ": ";
  if (line.starts_with(prefix)) line.erase(0, prefix.size());
  return ": " + line.substr(0, 300);
}

void refuse_status(int status, const std::string& simulator, const std::string& errors) {
  if (WIFSIGNALED(status)) {
    throw SimulatorError(
        fmt::format("{} was killed by signal {} ({})", kName, WTERMSIG(status), strsignal(WTERMSIG(status))));
  }
  const int code = WEXITSTATUS(status);
  if (code == 127) throw SimulatorError(fmt::format("{} cannot be run{}", simulator, last_words(errors)));
  if (code != 0) throw SimulatorError(fmt::format("{} failed with exit code {}{}", kName, code, last_words(errors)));
}

}  // namespace

std::string find_simulator() {
  if (const char* given = std::getenv("NEST_SIMULATE"); given && *given != '\0') {
    if (is_program(given)) return given;
    throw SimulatorError(fmt::format("NEST_SIMULATE: {} is no program", given));
  }
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path() / kName;
  if (is_program(beside)) return beside;
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path candidate = fs::path(folders.substr(begin, end - begin)) / kName;
    if (end > begin && is_program(candidate)) return candidate;
    begin = end + 1;
  }
  throw SimulatorError(
      fmt::format("{} is not installed. It needs SimGrid: install libsimgrid-dev (Debian, Ubuntu) and build nest "
                  "again; or name the program in NEST_SIMULATE",
                  kName));
}

simulate::Timeline run_simulator(const std::string& simulator, const simulate::SimulationProgram& program,
                                 const SimulatorLimits& limits) {
  const std::string input = simulate::program_to_json(program);
  Exchange exchange{input, {}, {}};
  Pipe in, out, err;
  open_pipe(in, true);
  open_pipe(out, false);
  open_pipe(err, false);
  const auto begun = Clock::now();
  Child child(simulator, in, out, err);
  in.read.close();
  out.write.close();
  err.write.close();
  converse(in, out, err, exchange, begun, limits);
  refuse_status(wait_for(child, begun, limits), simulator, exchange.errors);
  simulate::Timeline timeline;
  try {
    timeline = simulate::read_timeline(exchange.answer);
  } catch (const InputError& error) {
    throw SimulatorError(fmt::format("{} answered with something else than a timeline: {}", kName, error.what()));
  }
  if (const std::string reason = simulate::refuse_timeline(program, timeline); !reason.empty()) {
    throw SimulatorError(fmt::format("{} answered with a timeline that cannot be: {}", kName, reason));
  }
  return timeline;
}

simulate::Timeline execute_program(SimulationEngine engine, const simulate::SimulationProgram& program,
                                   const SimulatorLimits& limits) {
  if (engine == SimulationEngine::simgrid) return run_simulator(find_simulator(), program, limits);
  return simulate::execute(program, {.seconds = limits.seconds, .stop = limits.stop});
}

}  // namespace nest
