#include "chakra_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <set>
#include <stdexcept>
#include <tuple>

namespace nest::test {
namespace {

class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t tag = varint();
    field = static_cast<std::uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0: number = varint(); break;
      case 2: content = take(varint()); break;
      default: throw std::runtime_error(fmt::format("wire type {} of field {}", tag & 7, field));
    }
    return true;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw std::runtime_error("a varint of more than ten bytes");
  }

  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) throw std::runtime_error("a field ends after its message");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  bool empty() const { return bytes_.empty(); }

  std::uint32_t field = 0;
  std::uint64_t number = 0;
  std::string_view content;

 private:
  std::string_view bytes_;
};

void read_attribute(std::string_view bytes, ReadNode& node) {
  Fields fields(bytes);
  std::string name;
  while (fields.next()) {
    if (fields.field == 1) {
      name = fields.content;
    } else if (fields.field == 29) {
      node.group = fields.content;
      node.fields[name] = fields.field;
    } else {
      node.numbers[name] = static_cast<std::int64_t>(fields.number);
      node.fields[name] = fields.field;
    }
  }
}

ReadNode read_node(std::string_view bytes) {
  ReadNode node;
  Fields fields(bytes);
  while (fields.next()) {
    switch (fields.field) {
      case 1: node.id = fields.number; break;
      case 2: node.name = fields.content; break;
      case 3: node.type = fields.number; break;
      case 5: {
        Fields list(fields.content);
        while (!list.empty()) node.data_deps.push_back(list.varint());
        break;
      }
      case 7: node.duration_us = fields.number; break;
      case 10: read_attribute(fields.content, node); break;
      default: throw std::runtime_error(fmt::format("field {} of a node", fields.field));
    }
  }
  return node;
}

class Executor {
 public:
  Executor(const std::vector<ReadTrace>& traces, const std::map<std::string, std::vector<std::int64_t>>& groups,
           Execution how, std::mt19937& random)
      : traces_(traces), groups_(groups), how_(how), random_(random), ranks_(traces.size()) {}

  std::string run() {
    for (std::size_t r = 0; r < traces_.size(); ++r) prepare(r);
    for (std::size_t r = 0; r < traces_.size(); ++r) issue(r);
    while (!events_.empty() && wrong_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.arrival) {
        arrive(event);
      } else {
        finish(event.rank, event.node);
      }
    }
    if (wrong_.empty()) say_unfinished();
    return wrong_;
  }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // from, to, tag

  struct Event {
    double time;
    std::uint64_t sequence;
    std::size_t rank;
    std::uint64_t node;
    bool arrival;  // of a message, at the receiver
    bool operator<(const Event& other) const { return std::tie(time, sequence) > std::tie(other.time, other.sequence); }
  };
  struct Rank {
    std::vector<std::size_t> waits_for;
    std::vector<std::vector<std::uint64_t>> before;
    std::set<std::uint64_t> ready;
    std::size_t done = 0;
    bool computing = false, exchanging = false;
    std::uint64_t last_issued = 0;
    std::map<std::string, std::size_t> calls;  // by group
  };
  struct Call {
    std::vector<std::pair<std::size_t, std::uint64_t>> members;
    std::int64_t type = 0, size = 0;
    std::string name;
  };
  struct Message {
    bool sent = false, posted = false, arrived = false;
    std::size_t sender = 0, receiver = 0;
    std::uint64_t send = 0, receive = 0;
    std::int64_t sent_size = 0, posted_size = 0;
  };

  void prepare(std::size_t r) {
    Rank& rank = ranks_[r];
    const auto& nodes = traces_[r].nodes;
    rank.waits_for.resize(nodes.size());
    rank.before.resize(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].id != i) wrong_ = fmt::format("rank {}: node {} has id {}", r, i, nodes[i].id);
      rank.waits_for[i] = nodes[i].data_deps.size();
      for (const std::uint64_t before : nodes[i].data_deps) {
        if (before >= i) {
          wrong_ = fmt::format("rank {}: node {} waits for node {}", r, i, before);
          return;
        }
        rank.before[before].push_back(i);
      }
      if (nodes[i].data_deps.empty()) rank.ready.insert(i);
    }
  }

  void issue(std::size_t r) {
    Rank& rank = ranks_[r];
    const std::vector<std::uint64_t> ready(rank.ready.begin(), rank.ready.end());
    for (const std::uint64_t id : ready) {
      const ReadNode& node = traces_[r].nodes[id];
      const bool exchanges = node.sends() || node.collective();
      if (node.compute() && rank.computing) continue;
      if (exchanges && how_.one_at_a_time && rank.exchanging) continue;
      rank.ready.erase(id);
      if (node.compute()) {
        rank.computing = true;
        push(now_ + static_cast<double>(node.duration_us), r, id);
      } else if (exchanges) {
        if (how_.one_at_a_time && id < rank.last_issued) {
          wrong_ = fmt::format("rank {}: {} ({}) is issued after {}", r, id, node.name, rank.last_issued);
        }
        rank.last_issued = std::max(rank.last_issued, id);
        rank.exchanging = true;
        if (node.sends()) {
          send(r, node);
        } else {
          call(r, node);
        }
      } else {
        receive(r, node);
      }
    }
  }

  double lasting() { return static_cast<double>(random_() % 4000) / 2; }

  void push(double time, std::size_t rank, std::uint64_t node, bool arrival = false) {
    events_.push({time, sequence_++, rank, node, arrival});
  }

  static Key key(const ReadNode& node) {
    return {node.numbers.at("comm_src"), node.numbers.at("comm_dst"), node.numbers.at("comm_tag")};
  }

  void send(std::size_t r, const ReadNode& node) {
    Message& message = messages_[key(node)];
    if (message.sent || std::get<0>(key(node)) != static_cast<std::int64_t>(r)) wrong_ = "two sends: " + node.name;
    message.sent = true;
    message.sender = r;
    message.send = node.id;
    message.sent_size = node.numbers.at("comm_size");
    if (how_.eager || message.posted) push(now_ + lasting(), r, node.id, true);
    compare(message, node.name);
  }

  void receive(std::size_t r, const ReadNode& node) {
    Message& message = messages_[key(node)];
    if (message.posted || std::get<1>(key(node)) != static_cast<std::int64_t>(r)) wrong_ = "two receives: " + node.name;
    message.posted = true;
    message.receiver = r;
    message.receive = node.id;
    message.posted_size = node.numbers.at("comm_size");
    if (message.arrived) push(now_, r, node.id);
    if (!how_.eager && message.sent) push(now_ + lasting(), message.sender, message.send, true);
    compare(message, node.name);
  }

  void compare(const Message& message, const std::string& name) {
    if (message.sent && message.posted && message.sent_size != message.posted_size) wrong_ = "sizes differ: " + name;
  }

  void arrive(const Event& event) {
    Message& message = messages_[key(traces_[event.rank].nodes[event.node])];
    message.arrived = true;
    if (message.posted) push(now_, message.receiver, message.receive);
    finish(event.rank, event.node);
  }

  void call(std::size_t r, const ReadNode& node) {
    const auto group = groups_.find(node.group);
    if (group == groups_.end()) {
      wrong_ = fmt::format("rank {}: {} names group {}", r, node.name, node.group);
      return;
    }
    const auto& members = group->second;
    if (std::find(members.begin(), members.end(), static_cast<std::int64_t>(r)) == members.end()) {
      wrong_ = fmt::format("rank {} is not in group {} ({})", r, node.group, node.name);
      return;
    }
    Call& call = calls_[{node.group, ranks_[r].calls[node.group]++}];
    const std::int64_t type = node.numbers.at("comm_type"), size = node.numbers.at("comm_size");
    if (call.members.empty()) {
      call.type = type;
      call.size = size;
      call.name = node.name;
    } else if (call.type != type || call.size != size || call.name != node.name) {
      wrong_ = fmt::format("rank {}: {} meets {}", r, node.name, call.name);
      return;
    }
    call.members.emplace_back(r, node.id);
    if (call.members.size() < members.size()) return;
    const double end = now_ + lasting();
    for (const auto& [rank, id] : call.members) push(end, rank, id);
  }

  void finish(std::size_t r, std::uint64_t id) {
    Rank& rank = ranks_[r];
    const ReadNode& node = traces_[r].nodes[id];
    if (node.compute()) rank.computing = false;
    if (node.sends() || node.collective()) rank.exchanging = false;
    ++rank.done;
    for (const std::uint64_t next : rank.before[id]) {
      if (--rank.waits_for[next] == 0) rank.ready.insert(next);
    }
    issue(r);
  }

  void say_unfinished() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].done == traces_[r].nodes.size()) continue;
      const auto& ready = ranks_[r].ready;
      wrong_ = fmt::format("deadlock: rank {} executed {} of {} nodes; next {}", r, ranks_[r].done,
                           traces_[r].nodes.size(), ready.empty() ? "none" : traces_[r].nodes[*ready.begin()].name);
      return;
    }
  }

  const std::vector<ReadTrace>& traces_;
  const std::map<std::string, std::vector<std::int64_t>>& groups_;
  Execution how_;
  std::mt19937& random_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event> events_;
  std::map<Key, Message> messages_;
  std::map<std::pair<std::string, std::size_t>, Call> calls_;
  std::string wrong_;
  double now_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::vector<std::string_view> split_messages(std::string_view file) {
  std::vector<std::string_view> messages;
  Fields rest(file);
  while (!rest.empty()) messages.push_back(rest.take(rest.varint()));
  return messages;
}

ReadTrace read_trace(std::string_view file) {
  ReadTrace trace;
  const auto messages = split_messages(file);
  if (messages.empty()) throw std::runtime_error("no metadata");
  Fields metadata(messages.front());
  while (metadata.next()) {
    if (metadata.field == 1) trace.version = metadata.content;
  }
  for (std::size_t i = 1; i < messages.size(); ++i) trace.nodes.push_back(read_node(messages[i]));
  return trace;
}

std::string execute(const std::vector<ReadTrace>& traces,
                    const std::map<std::string, std::vector<std::int64_t>>& groups, Execution how,
                    std::mt19937& random) {
  return Executor(traces, groups, how, random).run();
}

}  // namespace nest::test
