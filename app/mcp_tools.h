// What `nest mcp` offers: tools with typed arguments over the front door. No protocol here (mcp.cc).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>

#include "mcp_arguments.h"

namespace nest::app {

// What the calls of one client share, and what one call sees of the world.
struct ToolSession {
  std::map<std::string, std::string> plans;  // "plan-1" -> the text of its file; given back by name
  const std::atomic<bool>* stop = nullptr;   // becomes true: the call is cancelled
  std::function<void(double done)> progress = {};
  std::function<void(const std::string& plan)> incumbent = {};  // plans on the way, in JSON as the answer
};

struct ToolAnswer {
  std::string text;
  bool json = false;   // which is what the call asked for
  bool error = false;  // no plan was found in time, or none that the framework can run fits
};

// Of all tools but those that only pages want (mcp_drawings.cc): name, title, description, inputSchema, annotations.
Json tool_list();
bool is_tool(const std::string& name);

// Throws InputError, SimulatorError.
ToolAnswer call_tool(const std::string& name, const Json& arguments, ToolSession& session);

}  // namespace nest::app
