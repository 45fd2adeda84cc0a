// Chakra traces read and executed, by nothing but the wire format and the meaning of the nodes.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace nest::test {

struct ReadNode {
  std::uint64_t id = 0;
  std::string name;
  std::uint64_t type = 0;
  std::vector<std::uint64_t> data_deps;
  std::uint64_t duration_us = 0;
  std::map<std::string, std::int64_t> numbers;  // integer and bool attributes
  std::map<std::string, std::uint32_t> fields;  // which member of the oneof an attribute is
  std::string group;                            // pg_name

  bool compute() const { return type == 4; }
  bool sends() const { return type == 5; }
  bool receives() const { return type == 6; }
  bool collective() const { return type == 7; }
  bool ends_with(std::string_view end) const { return name.ends_with(end); }
};

struct ReadTrace {
  std::string version;
  std::vector<ReadNode> nodes;
};

// Throws std::runtime_error for anything that is not such a file.
ReadTrace read_trace(std::string_view file);

// The messages of a file, without their lengths.
std::vector<std::string_view> split_messages(std::string_view file);

struct Execution {
  // ASTRA-sim's rule: one compute node and one collective or send at a time, the smallest number first; receives beside
  // them. Otherwise any number of exchanges.
  bool one_at_a_time = true;
  // A send ends when it arrives; otherwise not before its receive is posted either.
  bool eager = true;
};

// Executes all ranks together; exchanges last as long as `random` says. Empty when every node of every rank was
// executed and every exchange found its peers with the same type and size; else what went wrong.
std::string execute(const std::vector<ReadTrace>& traces,
                    const std::map<std::string, std::vector<std::int64_t>>& groups, Execution how,
                    std::mt19937& random);

}  // namespace nest::test
