// The one function of the browser's module: a question as JSON in, an answer as JSON out.
//
//   {"tool": "plan", "arguments": {"model": "llama3-70b", "devices": 64}}
//
// Tools and arguments are those of `nest mcp`; answers are what the matching command prints with --json, and every
// failure is a nest.error/1. Of a plan that takes a while the module's `told` hears plans on the way, with what bounds them,
// where the question says {…, "partial": true}. Nothing is kept from call to call: plans go back as the documents that they are. One call
// at a time, in one thread; whoever has a newer question ends the worker that this runs in.
#include <emscripten/emscripten.h>

#include <cerrno>
#include <exception>
#include <new>
#include <string>

#include "failure.h"
#include "mcp_tools.h"
#include "nest/error.h"
#include "nest/simulate.h"
#include "nest/version.h"

// Called in the middle of a search: whoever listens gets the text out of this thread, which goes on.
EM_JS(void, nest_tell, (const char* plan), {
  if (Module["told"]) Module["told"](UTF8ToString(plan));
});

namespace nest::app {
namespace {

std::string bug(const std::string& what) {
  return to_json(Failure{kExitBug, "this is a bug in nest: " + what, {}, "Please report it with the question."});
}

std::string answer(const std::string& text) {
  const Json question = Json::parse(text, nullptr, false);
  if (!question.is_object() || !question.contains("tool") || !question["tool"].is_string()) {
    throw InputError("expected {\"tool\": name, \"arguments\": {…}}");
  }
  const auto tool = question["tool"].get<std::string>();
  Json arguments = question.value("arguments", Json::object());
  if (!arguments.is_object()) throw InputError("arguments: expected an object");
  if (tool == "version") return Json{{"version", version()}}.dump();
  if (tool == "tools") return tool_list().dump();
  if (!is_tool(tool)) throw InputError("there is no tool " + question["tool"].dump());
  if (!arguments.contains("answer")) arguments["answer"] = "json";
  ToolSession session;
  if (question.contains("partial") && question["partial"] == true) {
    session.incumbent = [](const std::string& plan) { nest_tell(plan.c_str()); };
  }
  ToolAnswer answered = call_tool(tool, arguments, session);
  if (answered.error) return to_json(Failure{kExitNoPlan, answered.text});
  if (arguments["answer"] == "json") return std::move(answered.text);
  return Json{{"text", answered.text}}.dump();
}

std::string answer_or_failure(const std::string& text) {
  try {
    return answer(text);
  } catch (const InputError& error) {
    return to_json(Failure{kExitInput, error.what(), error.excerpt()});
  } catch (const SimulatorError& error) {
    return to_json(Failure{kExitBug, error.what()});
  } catch (const std::bad_alloc&) {
    return to_json(Failure{kExitInput, "not enough memory"});
  } catch (const std::exception& error) {
    return bug(error.what());
  } catch (...) {
    return bug("an unknown exception");
  }
}

}  // namespace
}  // namespace nest::app

extern "C" {

// There are no processes here: whoever asks for SimGrid, which is one, is told that it is missing. Emscripten has no
// such function at all.
int prctl(int /*option*/, ...) {
  errno = ENOSYS;
  return -1;
}

// The answer stays where it is until the next call.
EMSCRIPTEN_KEEPALIVE const char* nest_call(const char* question) {
  static std::string answer;
  answer = nest::app::answer_or_failure(question);
  return answer.c_str();
}
}
