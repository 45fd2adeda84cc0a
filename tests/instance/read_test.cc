#include "instance/read.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "example.h"
#include "test_support/refusal.h"

namespace nest::test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

// example() as a file, with its nodes listed out of order.
Json example_json() {
  return Json::parse(R"({
    "maxDevices": 8, "devices_per_level": [2, 2, 2], "bws": [10, 5.0, 20], "latency_per_level": [1, 2, 3.0],
    "maxMemoryPerDevice": 1000.0, "mbsInBatch": 5.0, "activationRecomputation": false, "optimizerAlgorithm": "SGD",
    "ep_degree": 1, "cp_degree": 1, "bandwidth": 7, "frequency": 1.5, "sp_enabled": true, "baselines": {"any": [1]},
    "nodes": {"1": [
      {"id": 1, "parameterSize": 2, "activationSize": 4, "optimalLatencyFw": 5, "optimalLatencyBw": 8, "energy": 0},
      {"id": 0, "parameterSize": 40, "activationSize": 3, "optimalLatencyFw": 4, "optimalLatencyBw": 7},
      {"id": 2, "parameterSize": 0, "activationSize": 5, "optimalLatencyFw": 6, "optimalLatencyBw": 9,
       "isTensorParallelized": false}]},
    "edges": {"1": [
      {"sourceId": 0, "destId": 1, "communicationCost": 20},
      {"sourceId": 1, "destId": 2, "communicationCost": 30},
      {"sourceId": 0, "destId": 2, "communicationCost": 40}]}})");
}

instance::ProfileInstance read(const std::string& text) {
  return instance::read_profile_instance(doc::parse_json("x.json", text));
}

std::string refusal(const std::string& text) {
  return refusal_of([&] { read(text); });
}

// The refusal of the example after one change at a JSON pointer.
std::string refusal_with(const std::string& pointer, const Json& value) {
  Json json = example_json();
  json[Json::json_pointer(pointer)] = value;
  return refusal(json.dump());
}

TEST(Read, Example) { EXPECT_EQ(read(example_json().dump()), example()); }

TEST(Read, OptionalAndOtherValues) {
  Json json = example_json();
  json.erase("ep_degree");
  json.erase("cp_degree");
  EXPECT_EQ(read(json.dump()), example());
  json["ep_degree"] = 4;
  json["cp_degree"] = 2;
  json["optimizerAlgorithm"] = "Adam";
  json["activationRecomputation"] = true;
  json["maxMemoryPerDevice"] = 10.75;
  const instance::ProfileInstance instance = read(json.dump());
  EXPECT_EQ(instance.expert_degree, 4);
  EXPECT_EQ(instance.context_degree, 2);
  EXPECT_EQ(instance.stage_devices(instance.graphs[0]), 8);
  EXPECT_EQ(instance.optimizer, instance::ProfileOptimizer::adam);
  EXPECT_TRUE(instance.recompute);
  EXPECT_EQ(instance.device_memory_bytes, 10);
}

TEST(Read, WidthsInAscendingOrder) {
  Json json = example_json();
  for (const char* width : {"10", "2"}) {
    json["nodes"][width] = json["nodes"]["1"];
    json["edges"][width] = Json::array();
  }
  const instance::ProfileInstance instance = read(json.dump());
  ASSERT_EQ(instance.graphs.size(), 3U);
  EXPECT_EQ(instance.graphs[1].width, 2);
  EXPECT_EQ(instance.graphs[2].width, 10);
  // Without edges all nodes are ready at once, and the last one is on top of the stack.
  EXPECT_EQ(instance.graphs[1].nodes[0].id, 2);
  EXPECT_EQ(instance.graphs[1].nodes[2].id, 1);
}

TEST(Read, RequiredKeys) {
  for (const char* key : {"maxDevices", "devices_per_level", "bws", "latency_per_level", "maxMemoryPerDevice",
                          "mbsInBatch", "activationRecomputation", "optimizerAlgorithm", "nodes", "edges"}) {
    Json json = example_json();
    json.erase(key);
    EXPECT_THAT(refusal(json.dump()), HasSubstr(std::string("x.json: ") + key + ": missing"));
  }
  for (const char* key : {"id", "parameterSize", "activationSize", "optimalLatencyFw", "optimalLatencyBw"}) {
    Json json = example_json();
    json["nodes"]["1"][1].erase(key);
    EXPECT_THAT(refusal(json.dump()), HasSubstr(std::string("nodes.1[1].") + key + ": missing"));
  }
  for (const char* key : {"sourceId", "destId", "communicationCost"}) {
    Json json = example_json();
    json["edges"]["1"][2].erase(key);
    EXPECT_THAT(refusal(json.dump()), HasSubstr(std::string("edges.1[2].") + key + ": missing"));
  }
}

TEST(Read, UnknownKeys) {
  EXPECT_THAT(refusal_with("/maxDevice", 3), HasSubstr("maxDevice: unknown key"));
  EXPECT_THAT(refusal_with("/nodes/1/0/weight", 3), HasSubstr("nodes.1[0].weight: unknown key"));
  EXPECT_THAT(refusal_with("/edges/1/0/cost", 3), HasSubstr("edges.1[0].cost: unknown key"));
  EXPECT_THAT(refusal_with("/edges/2", Json::array()), HasSubstr("edges.2: unknown key"));
}

TEST(Read, NumbersOutOfRange) {
  for (const char* pointer : {"/maxDevices", "/mbsInBatch", "/ep_degree", "/cp_degree"}) {
    for (const Json& bad : {Json(0), Json(-1), Json(1.5), Json(1e18), Json("4"), Json(true), Json::array()}) {
      EXPECT_THAT(refusal_with(pointer, bad), HasSubstr(std::string("x.json: ") + (pointer + 1))) << bad;
    }
  }
  for (const char* key : {"parameterSize", "activationSize"}) {
    for (const Json& bad : {Json(-1), Json(0.5), Json(1e300), Json(1LL << 51), Json("4")}) {
      EXPECT_THAT(refusal_with(std::string("/nodes/1/1/") + key, bad), HasSubstr(std::string("nodes.1[1].") + key))
          << bad;
    }
  }
  for (const char* key : {"optimalLatencyFw", "optimalLatencyBw"}) {
    for (const Json& bad : {Json(-1e-9), Json(1e31), Json("fast")}) {
      EXPECT_THAT(refusal_with(std::string("/nodes/1/1/") + key, bad), HasSubstr(std::string("nodes.1[1].") + key))
          << bad;
    }
  }
  EXPECT_THAT(refusal_with("/edges/1/0/communicationCost", -5),
              HasSubstr("edges.1[0].communicationCost: -5 is out of range"));
  EXPECT_THAT(refusal_with("/maxMemoryPerDevice", -1), HasSubstr("maxMemoryPerDevice"));
  EXPECT_THAT(refusal_with("/maxMemoryPerDevice", 1e19), HasSubstr("maxMemoryPerDevice"));
}

TEST(Read, NotANumber) {
  std::string text = example_json().dump();
  const std::string time = "\"optimalLatencyFw\":5";
  for (const char* bad : {"NaN", "Infinity", "-Infinity", "1e999", "nan"}) {
    std::string changed = text;
    changed.replace(changed.find(time), time.size(), fmt::format("\"optimalLatencyFw\":{}", bad));
    EXPECT_THAT(refusal(changed), HasSubstr("x.json:1: ")) << bad;
  }
}

TEST(Read, NetworkLists) {
  EXPECT_THAT(refusal_with("/bws", Json{10, 5}), HasSubstr("bws: 2 entries for the 3 levels"));
  EXPECT_THAT(refusal_with("/latency_per_level", Json{1, 2, 3, 4}),
              HasSubstr("latency_per_level: 4 entries for the 3 levels"));
  EXPECT_THAT(refusal_with("/bws", Json{10, 0, 5}), HasSubstr("bws: entry 0 is not a number"));
  EXPECT_THAT(refusal_with("/bws", Json{10, -4, 5}), HasSubstr("bws: entry -4"));
  EXPECT_THAT(refusal_with("/bws", Json{10, "x", 5}), HasSubstr("bws: entry"));
  EXPECT_THAT(refusal_with("/bws", 10), HasSubstr("bws: found 10; expected a list"));
  EXPECT_THAT(refusal_with("/latency_per_level", Json{1, -2, 3}), HasSubstr("latency_per_level: entry -2"));
  EXPECT_THAT(refusal_with("/devices_per_level", Json::array()), HasSubstr("devices_per_level: empty"));
  EXPECT_THAT(refusal_with("/devices_per_level", Json{2, 0, 4}), HasSubstr("devices_per_level: entry 0"));
  EXPECT_THAT(refusal_with("/devices_per_level", Json(std::vector<int>(9, 2))), HasSubstr("at most 8"));
  EXPECT_THAT(refusal_with("/maxDevices", 9),
              HasSubstr("maxDevices: 9 devices, but the groups of devices_per_level hold 8"));
  EXPECT_EQ(refusal_with("/maxDevices", 7), "accepted");
  EXPECT_EQ(refusal_with("/devices_per_level", Json{1 << 20, 1 << 20, 1 << 20}), "accepted");
}

TEST(Read, Choices) {
  EXPECT_THAT(refusal_with("/optimizerAlgorithm", "adam"), HasSubstr("did you mean `Adam`"));
  EXPECT_THAT(refusal_with("/activationRecomputation", 1),
              HasSubstr("activationRecomputation: found 1; expected true or false"));
}

TEST(Read, Graphs) {
  EXPECT_THAT(refusal_with("/edges/1/0/destId", 9),
              HasSubstr("edges.1[0].destId: 9 is not the id of a node of nodes.1"));
  EXPECT_THAT(refusal_with("/edges/1/0/sourceId", -1), HasSubstr("edges.1[0].sourceId: -1 is not the id"));
  EXPECT_THAT(refusal_with("/edges/1/0/destId", 0), HasSubstr("edges.1[0].destId: an edge from a node to itself"));
  EXPECT_THAT(refusal_with("/edges/1/1", Json{{"sourceId", 2}, {"destId", 0}, {"communicationCost", 1}}),
              HasSubstr("edges.1: the edges form a cycle"));
  EXPECT_THAT(refusal_with("/nodes/1/2/id", 1), HasSubstr("nodes.1[2].id: 1 is the id of an earlier node too"));
  EXPECT_THAT(refusal_with("/nodes/1/2", 5), HasSubstr("nodes.1[2]: expected an object"));
  EXPECT_THAT(refusal_with("/nodes/1", Json::array()), HasSubstr("nodes.1: no nodes"));
  EXPECT_THAT(refusal_with("/nodes", Json::object()), HasSubstr("nodes: empty"));
  EXPECT_THAT(refusal_with("/nodes", Json::array()), HasSubstr("nodes: found"));
  EXPECT_THAT(refusal_with("/edges", Json::object()), HasSubstr("edges.1: missing, although nodes has the width 1"));
  for (const char* width : {"0", "01", "-1", "1.5", "x", "", "1048577", "99999999999999999999"}) {
    Json json = example_json();
    json["nodes"][width] = json["nodes"]["1"];
    EXPECT_THAT(refusal(json.dump()), HasSubstr("is not a tensor width")) << width;
  }
}

TEST(Read, HugeCounts) {
  Json json = example_json();
  Json nodes = Json::array();
  for (int i = 0; i <= instance::ProfileLimits::kNodes; ++i) {
    Json node = json["nodes"]["1"][0];
    node["id"] = i;
    nodes.push_back(node);
  }
  EXPECT_THAT(refusal_with("/nodes/1", nodes), HasSubstr("nodes.1: 2049 nodes; at most 2048"));

  for (int width = 2; width <= instance::ProfileLimits::kWidths + 1; ++width)
    json["nodes"][std::to_string(width)] = json["nodes"]["1"];
  EXPECT_THAT(refusal(json.dump()), HasSubstr("nodes: 65 tensor widths; at most 64"));

  // Each size is allowed, their sum is not.
  json = example_json();
  json["nodes"]["1"][0]["parameterSize"] = instance::ProfileLimits::kGraphBytes;
  EXPECT_THAT(refusal(json.dump()), HasSubstr("add up to more than"));
}

TEST(Read, NotAnInstance) {
  EXPECT_THAT(refusal("[]"), HasSubstr("x.json: expected an object"));
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal("{"), HasSubstr("x.json:1"));
}

}  // namespace
}  // namespace nest::test
