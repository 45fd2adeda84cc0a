#include "simulate/program_json.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace nest::simulate {
namespace {

using Json = nlohmann::ordered_json;

// Unknown keys, missing ones and wrong types all end as one message; nobody writes these documents by hand.
template <typename Body>
auto checked(const char* what, Body body) {
  try {
    return body();
  } catch (const Json::exception& error) {
    throw InputError(std::string("no ") + what + ": " + error.what());
  }
}

Json parse(std::string_view text, const char* schema) {
  Json json = Json::parse(text);
  if (json.at("schema") != schema) throw InputError(std::string("the schema is not ") + schema);
  return json;
}

Json activity_json(const SimulatedActivity& activity) {
  Json json = Json::object();
  if (activity.seconds > 0) json["s"] = activity.seconds;
  if (!activity.flows.empty()) {
    Json& flows = json["flows"] = Json::array();
    for (const SimulatedFlow& flow : activity.flows) flows.push_back({flow.route, flow.latency_s, flow.bytes});
  }
  if (!activity.after.empty()) json["after"] = activity.after;
  return json;
}

SimulatedActivity read_activity(const Json& json) {
  SimulatedActivity activity;
  activity.seconds = json.value("s", 0.0);
  if (json.contains("flows")) {
    for (const Json& flow : json.at("flows")) {
      activity.flows.push_back({flow.at(0).get<std::int32_t>(), flow.at(1).get<double>(), flow.at(2).get<double>()});
    }
  }
  if (json.contains("after")) activity.after = json.at("after").get<std::vector<std::int32_t>>();
  return activity;
}

}  // namespace

std::string program_to_json(const SimulationProgram& program) {
  Json json = {{"schema", kProgramSchema}};
  Json& links = json["links"] = Json::array();
  for (const SimulatedLink& link : program.links) {
    links.push_back(
        {{"name", link.name}, {"bytes_per_s", link.bytes_per_s}, {"alike", link.alike}, {"parts", link.parts}});
  }
  Json& routes = json["routes"] = Json::array();
  for (const SimulatedRoute& route : program.routes) {
    Json loads = Json::array();
    for (const RouteLoad& load : route.loads) loads.push_back({load.link, load.times});
    routes.push_back({{"links", std::move(loads)}, {"alike", route.alike}});
  }
  Json& activities = json["activities"] = Json::array();
  for (const SimulatedActivity& activity : program.activities) activities.push_back(activity_json(activity));
  return json.dump();
}

std::string timeline_to_json(const Timeline& timeline) {
  const Json json = {{"schema", kTimelineSchema},
                     {"engine", timeline.engine},
                     {"total_s", timeline.total_s},
                     {"start_s", timeline.start_s},
                     {"end_s", timeline.end_s}};
  return json.dump();
}

SimulationProgram read_program(std::string_view text) {
  SimulationProgram program = checked("program", [&] {
    const Json json = parse(text, kProgramSchema);
    SimulationProgram read;
    for (const Json& link : json.at("links")) {
      read.links.push_back({link.at("name").get<std::string>(), link.at("bytes_per_s").get<double>(),
                            link.at("alike").get<std::int64_t>(), link.value("parts", std::int64_t{1})});
    }
    for (const Json& route : json.at("routes")) {
      SimulatedRoute& added = read.routes.emplace_back();
      added.alike = route.at("alike").get<std::int64_t>();
      for (const Json& load : route.at("links")) {
        added.loads.push_back({load.at(0).get<std::int32_t>(), load.at(1).get<std::int64_t>()});
      }
    }
    for (const Json& activity : json.at("activities")) read.activities.push_back(read_activity(activity));
    return read;
  });
  if (const std::string reason = refuse_program(program); !reason.empty()) throw InputError("no program: " + reason);
  return program;
}

Timeline read_timeline(std::string_view text) {
  return checked("timeline", [&] {
    const Json json = parse(text, kTimelineSchema);
    Timeline timeline;
    timeline.engine = json.at("engine").get<std::string>();
    timeline.total_s = json.at("total_s").get<double>();
    timeline.start_s = json.at("start_s").get<std::vector<double>>();
    timeline.end_s = json.at("end_s").get<std::vector<double>>();
    return timeline;
  });
}

}  // namespace nest::simulate
