// nest mcp: the Model Context Protocol over standard input and output, for agents. JSON-RPC 2.0, one message a line.
//
// One thread reads; another runs the calls of tools, one after the other, so that a call can be cancelled, and the
// server answers ping, while it runs. At the end of the input the calls that are left are answered; where nobody reads
// them any more they are stopped.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "command.h"
#include "mcp_tools.h"
#include "nest/error.h"
#include "nest/option.h"
#include "nest/simulate.h"
#include "nest/version.h"
#include "output.h"

namespace nest::app {
namespace {

constexpr const char* kDescription =
    "serve agents: the Model Context Protocol on standard input and output\n"
    "Offers show, plan, evaluate, compare, export, simulate, import and map as tools with typed arguments, to any "
    "program that "
    "speaks the protocol. It reads and writes the files that calls name, and nothing else.";

constexpr const char* kExamples =
    "  claude mcp add nest -- nest mcp\n"
    "  {\"mcpServers\": {\"nest\": {\"command\": \"nest\", \"args\": [\"mcp\"]}}}";

constexpr const char* kInstructions =
    "nest finds the provably fastest parallelisation (TP, PP, DP, CP, EP, ZeRO, recomputation) of a training run. "
    "Start "
    "with plan (model, cluster, devices, global_batch); show lists the names of models, clusters and stacks. A plan is "
    "remembered under a name (plan-1) that export, simulate and evaluate take. To judge somebody's own set-up give "
    "evaluate its strategy or launch line. Times are predictions with an interval, not measurements.";

constexpr std::array kVersions = {"2025-06-18", "2025-03-26", "2024-11-05"};  // of the protocol, the newest first
constexpr std::size_t kLongestLine = std::size_t{64} << 20U;

enum RpcError : int { kParseError = -32700, kInvalidRequest = -32600, kNoMethod = -32601, kInvalidParams = -32602 };

struct Call {
  Json id;
  std::string tool;
  Json arguments;
  Json progress_token = nullptr;
};

class Server {
 public:
  void serve();

 private:
  void take(const std::string& line);
  void take_request(const Json& id, const std::string& method, const Json& params);
  void take_call(const Json& id, const Json& params);
  void cancel(const Json& id);
  void work();
  void run(const Call& call);
  void end();

  void send(const Json& message);
  void answer(const Json& id, Json result) { send({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}}); }
  void refuse(const Json& id, RpcError code, const std::string& message) {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", static_cast<int>(code)}, {"message", message}}}});
  }

  std::mutex output_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::deque<Call> waiting_;
  Json running_ = nullptr;  // id of the call that runs
  bool ended_ = false;      // no more input
  bool idle_ = true;
  std::atomic<bool> stop_{false};  // the call that runs is cancelled
  ToolSession session_;            // the worker's
};

// Invalid UTF-8 inside texts that users gave must not end the server.
void Server::send(const Json& message) {
  const std::lock_guard lock(output_);
  try {
    write_stdout(message.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n');
  } catch (const InputError&) {  // nobody can be told
  }
}

// Readers of JSON follow its nesting; a line of brackets must not lead them too deep.
bool is_too_deep(const std::string& line) {
  constexpr int kDeepest = 128;
  int depth = 0;
  bool quoted = false;
  for (std::size_t k = 0; k < line.size(); ++k) {
    if (quoted && line[k] == '\\') {
      ++k;  // and what it escapes
      continue;
    }
    if (line[k] == '"') quoted = !quoted;
    if (quoted) continue;
    if (line[k] == '[' || line[k] == '{') ++depth;
    if (line[k] == ']' || line[k] == '}') --depth;
    if (depth > kDeepest) return true;
  }
  return false;
}

Json initialized(const Json& params) {
  std::string version = kVersions.front();
  const Json asked = params.value("protocolVersion", Json());
  for (const char* known : kVersions) {
    if (asked == known) version = known;
  }
  return {{"protocolVersion", version},
          {"capabilities", {{"tools", Json::object()}}},
          {"serverInfo",
           {{"name", "nest"}, {"title", "nest, planner for distributed training"}, {"version", nest::version()}}},
          {"instructions", kInstructions}};
}

void Server::take(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  if (is_too_deep(line)) return refuse(nullptr, kInvalidRequest, "more than 128 levels of nesting");
  const Json message = Json::parse(line, nullptr, false);
  if (message.is_discarded()) return refuse(nullptr, kParseError, "this line is not JSON");
  if (!message.is_object() || message.value("jsonrpc", Json()) != "2.0") {
    return refuse(nullptr, kInvalidRequest, "expected one JSON-RPC 2.0 message a line");
  }
  const auto method = message.find("method");
  if (method == message.end()) {  // an answer, though nothing was asked
    if (!message.contains("result") && !message.contains("error"))
      refuse(nullptr, kInvalidRequest, "method is missing");
    return;
  }
  const Json params = message.value("params", Json::object());
  const Json id = message.value("id", Json());
  const bool named = id.is_string() || id.is_number_integer();
  if (!method->is_string() || !params.is_object() || (message.contains("id") && !named)) {
    return refuse(named ? id : Json(), kInvalidRequest, "method is text, params an object, id text or a whole number");
  }
  if (named) return take_request(id, method->get<std::string>(), params);
  if (*method == "notifications/cancelled") cancel(params.value("requestId", Json()));
}

void Server::take_request(const Json& id, const std::string& method, const Json& params) {
  if (method == "initialize") return answer(id, initialized(params));
  if (method == "ping") return answer(id, Json::object());
  if (method == "tools/list") return answer(id, {{"tools", tool_list()}});
  if (method == "tools/call") return take_call(id, params);
  refuse(id, kNoMethod, fmt::format("{} is not known; there are initialize, ping, tools/list and tools/call", method));
}

void Server::take_call(const Json& id, const Json& params) {
  const Json name = params.value("name", Json());
  const Json arguments = params.value("arguments", Json::object());
  if (!name.is_string() || !is_tool(name.get<std::string>())) {
    return refuse(id, kInvalidParams, fmt::format("there is no tool {}", name.dump()));
  }
  if (!arguments.is_object()) return refuse(id, kInvalidParams, "arguments: expected an object");
  const Json meta = params.value("_meta", Json::object());
  Call call{id, name.get<std::string>(), arguments, meta.is_object() ? meta.value("progressToken", Json()) : Json()};
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(call));
  idle_ = false;
  changed_.notify_all();
}

// A cancelled call gets no answer.
void Server::cancel(const Json& id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const Call& call) { return call.id == id; });
  if (!running_.is_null() && running_ == id) stop_.store(true);
}

void Server::run(const Call& call) {
  session_.stop = &stop_;
  session_.progress = nullptr;
  double told = 0;
  if (!call.progress_token.is_null()) {
    session_.progress = [&](double done) {
      if (done <= told) return;
      told = done;
      send(
          {{"jsonrpc", "2.0"},
           {"method", "notifications/progress"},
           {"params", {{"progressToken", call.progress_token}, {"progress", done}, {"message", "candidates opened"}}}});
    };
  }
  ToolAnswer result;
  try {
    result = call_tool(call.tool, call.arguments, session_);
  } catch (const InputError& error) {
    result = {error.what() + (error.excerpt().empty() ? "" : "\n\n" + error.excerpt()), false, true};
  } catch (const SimulatorError& error) {
    result = {error.what(), false, true};
  } catch (const std::bad_alloc&) {
    result = {"not enough memory", false, true};
  } catch (const std::exception& error) {
    result = {fmt::format("this is a bug in nest: {}", error.what()), false, true};
  }
  if (stop_.load()) return;
  Json content = {{"content", Json::array({{{"type", "text"}, {"text", result.text}}})}, {"isError", result.error}};
  if (result.json) content["structuredContent"] = Json::parse(result.text);
  answer(call.id, std::move(content));
}

void Server::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Call call = std::move(waiting_.front());
    waiting_.pop_front();
    running_ = call.id;
    stop_.store(false);
    lock.unlock();
    run(call);
    lock.lock();
    running_ = nullptr;
    idle_ = waiting_.empty();
    changed_.notify_all();
  }
}

// What is left is answered, unless nobody reads it.
void Server::end() {
  std::unique_lock lock(mutex_);
  ended_ = true;
  changed_.notify_all();
  while (!changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return idle_; })) {
    pollfd reader{STDOUT_FILENO, 0, 0};
    if (::poll(&reader, 1, 0) > 0 && (reader.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
      waiting_.clear();
      stop_.store(true);
    }
  }
}

void Server::serve() {
  std::thread worker([this] { work(); });
  std::string buffer;
  bool skipping = false;  // the rest of a line that is too long
  std::array<char, 1U << 16U> block{};
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    std::size_t begin = 0;
    const std::size_t seen = buffer.size();
    buffer.append(block.data(), static_cast<std::size_t>(got));
    for (std::size_t end = buffer.find('\n', seen); end != std::string::npos; end = buffer.find('\n', begin)) {
      if (!skipping) take(buffer.substr(begin, end - begin));
      skipping = false;
      begin = end + 1;
    }
    buffer.erase(0, begin);
    if (buffer.size() > kLongestLine) {
      if (!skipping) refuse(nullptr, kInvalidRequest, "a line of more than 64 MiB");
      skipping = true;
      buffer.clear();
    }
  }
  if (!skipping) take(buffer);
  end();
  worker.join();
}

}  // namespace

Command add_mcp(CLI::App& program) {
  CLI::App* app = program.add_subcommand("mcp", kDescription);
  app->footer(kExamples);
  return {app,
          [](Session&) {
            Server().serve();
            return kExitOk;
          },
          [] { return std::vector<std::string>(); }};
}

}  // namespace nest::app
