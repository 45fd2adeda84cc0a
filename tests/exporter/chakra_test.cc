// Traces against the bytes that the schema asks for, and executed: every rank to its end, with the compute of the
// prediction and the bytes of the plan.
#include "exporter/chakra.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/error.h"
#include "chakra_support.h"
#include "exporter/protobuf_writer.h"
#include "plan/strategy_text.h"
#include "test_support/temporary_folder.h"

namespace nest::test {
namespace {

using ::testing::HasSubstr;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// --- bytes

TEST(Protobuf, FieldsAsOnTheWire) {
  exporter::ProtobufWriter message;
  message.integer(1, 150);  // the example of the encoding's documentation: 08 96 01
  message.text(2, "testing");
  message.packed(4, std::array<std::uint64_t, 3>{3, 270, 86942});
  message.packed(5, {});
  EXPECT_EQ(hex(message.bytes()), "089601120774657374696e672206038e029ea705");
  std::string file;
  exporter::append_delimited(file, message);
  EXPECT_EQ(hex(file), "14" + hex(message.bytes()));
  exporter::ProtobufWriter large;
  large.integer(27, ~std::uint64_t{0});
  EXPECT_EQ(hex(large.bytes()), "d801ffffffffffffffffff01");
}

TEST(Chakra, OneNodeOfEveryKindByHand) {
  const cost::Job job = export_job(few_layers("llama3-8b", 4), "dgx-h100", 16, 16, 512);
  Strategy strategy;
  strategy.split.tp = 2;
  strategy.pp = 2;
  const auto stages = cost::even_stages(job, strategy, Recompute::none, 0);
  const exporter::ChakraExport exported(job, strategy, stages);
  std::vector<exporter::TraceNode> nodes(3);
  nodes[0].name = "a";
  nodes[0].duration_us = 300;
  nodes[0].operations = 5;
  nodes[0].bytes = 6;
  nodes[1].kind = exporter::TraceNode::Kind::collective;
  nodes[1].name = "b";
  nodes[1].collective = exporter::TraceCollective::reduce_scatter;
  nodes[1].bytes = 128;
  nodes[1].after = {0};
  nodes[2].kind = exporter::TraceNode::Kind::send;
  nodes[2].name = "c";
  nodes[2].bytes = 9;
  nodes[2].peer_stage = 1;
  nodes[2].tag = 4;
  nodes[2].after = {0, 1};
  const std::string file = exported.trace(nodes, 1);
  const auto messages = split_messages(file);
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(hex(messages[0]), "0a05" + hex("0.0.4"));
  const std::string gpu = "520e0a09" + hex("is_cpu_op") + "d80100";  // attribute 10, 14 bytes: name, bool 27 = false
  // name 2, type 3 = 4, duration 7 = 300; num_ops int64 9 = 5; tensor_size uint64 13 = 6
  EXPECT_EQ(hex(messages[1]),
            "120161"
            "1804"
            "38ac02" +
                gpu + "520b0a07" + hex("num_ops") + "4805" + "520f0a0b" + hex("tensor_size") + "6806");
  // id 1 = 1, data_deps 5 = [0], comm_type 9 = 7, comm_size = 128, pg_name string 29 = group 1, priority int32 7 = 0
  EXPECT_EQ(hex(messages[2]),
            "0801"
            "120162"
            "1807"
            "2a0100" +
                gpu + "520d0a09" + hex("comm_type") + "4807" + "520e0a09" + hex("comm_size") + "488001" + "520d0a07" +
                hex("pg_name") + "ea010131" + "52110a0d" + hex("comm_priority") + "3800");
  // Rank 1 is tensor rank 1 of stage 0; its peer in stage 1 is rank 3.
  EXPECT_EQ(hex(messages[3]),
            "0802"
            "120163"
            "1805"
            "2a020001" +
                gpu + "520c0a08" + hex("comm_src") + "3801" + "520c0a08" + hex("comm_dst") + "3803" + "520c0a08" +
                hex("comm_tag") + "3804" + "520d0a09" + hex("comm_size") + "4809");
}

// --- execution

bool of_layers(const ReadNode& node) {
  return node.compute() && !node.ends_with("head gradient") && node.name != "optimizer" && node.name != "step overhead";
}

double bytes_of(const std::vector<simulate::StateCall>& calls, std::size_t first = 0) {
  double bytes = 0;
  for (std::size_t i = first; i < calls.size(); ++i) bytes += calls[i].bytes;
  return bytes;
}

// Bytes that exchanges of gradients pass over, and of weights: what plan_work counts.
void expect_state_bytes(const Traces& traces, const exporter::ChakraExport& exported, std::int64_t rank, int zero) {
  const simulate::PlanWork& work = exported.plan().work();
  const simulate::StageWork& stage = work.stages[static_cast<std::size_t>(exported.place(rank).stage)];
  const auto m = static_cast<double>(work.micro_batches);
  double gradients = 0, weights = 0, nodes = 0;
  for (const ReadNode& node : traces.read[static_cast<std::size_t>(rank)].nodes) {
    const bool gradient = node.ends_with(" gradients"), weight = node.ends_with(" weights");
    if (!gradient && !weight) continue;
    const auto size = static_cast<double>(node.numbers.at("comm_size"));
    const auto members = static_cast<double>(traces.groups.at(node.group).size());
    ++nodes;
    const std::int64_t type = node.numbers.at("comm_type");
    if (gradient) {
      ASSERT_TRUE(type == 0 || type == 7) << type;
      gradients += type == 0 ? 2 * size : size;
    } else {
      ASSERT_EQ(type, 2);
      weights += size * members;
    }
  }
  const double scattered = bytes_of(stage.in_backward.calls, zero == 3 ? stage.in_forward.calls.size() : 0);
  const double gathered = bytes_of(stage.in_backward.calls) - scattered + bytes_of(stage.in_forward.calls);
  EXPECT_NEAR(gradients, m * scattered + bytes_of(stage.reduce.calls), nodes);
  EXPECT_NEAR(weights, m * gathered + bytes_of(stage.gather.calls), 64 * nodes);
}

void expect_compute(const ReadTrace& trace, const simulate::PlanWork& work, const simulate::StageWork& stage,
                    const StagePlan& plan) {
  const auto m = static_cast<double>(work.micro_batches);
  const StageTime& time = stage.time;
  EXPECT_TRUE(std::all_of(trace.nodes.begin(), trace.nodes.end(), [](const ReadNode& node) {
    return !node.compute() ||
           (node.duration_us > 0 && node.numbers.at("num_ops") > 0 && node.numbers.at("tensor_size") > 0);
  }));
  const double plain_us = 1e6 * m * (time.forward + time.backward - time.tp - time.cp - time.ep);
  const double layers_us = sum_durations(trace, of_layers);
  if (plan.recompute == Recompute::none) {
    EXPECT_NEAR(layers_us, plain_us, 1.001);
  }
  EXPECT_GE(layers_us, plain_us - 1.001);
  EXPECT_LE(layers_us, plain_us + 1e6 * m * time.recompute + 1.001);
  const double communicates = time.tp + time.cp + time.ep;
  if (communicates <= 0) {
    EXPECT_NEAR(layers_us, plain_us + 1e6 * m * time.recompute, 1.001);
  }
  const double others_us =
      sum_durations(trace, [](const ReadNode& node) { return node.compute() && !of_layers(node); });
  EXPECT_NEAR(others_us, 1e6 * (m * stage.head_gradient_s + stage.optimizer_s + work.step_s), 1.001);
}

// Which member of the schema's oneof every attribute is.
void expect_fields(const ReadTrace& trace) {
  const std::map<std::string, std::uint32_t> known = {
      {"is_cpu_op", 27},    {"num_ops", 9},  {"tensor_size", 13}, {"comm_type", 9}, {"comm_size", 9},
      {"comm_priority", 7}, {"comm_src", 7}, {"comm_dst", 7},     {"comm_tag", 7},  {"pg_name", 29}};
  EXPECT_EQ(trace.version, "0.0.4");
  for (const ReadNode& node : trace.nodes) {
    for (const auto& [name, field] : node.fields) ASSERT_EQ(field, known.at(name)) << name;
  }
}

void expect_sound(const cost::Job& job, const SomePlan& plan, std::mt19937& random) {
  SCOPED_TRACE(plan::strategy_text(plan.strategy) + fmt::format(" zero={} degree={} recompute={}", plan.stages[0].zero,
                                                                plan.stages[0].zero_degree,
                                                                to_string(plan.stages[0].recompute)));
  const exporter::ChakraExport exported(job, plan.strategy, plan.stages);
  const Traces traces = write_all(exported, plan.strategy);
  double size = 0;
  for (const std::string& file : traces.files) size += static_cast<double>(file.size());
  EXPECT_LE(size, exported.refuse_size(exporter::parse_ranks("all", exported.ranks()), 1e15));
  for (const bool one_at_a_time : {true, false}) {
    for (const bool eager : {true, false}) {
      const std::string wrong = execute(traces.read, traces.groups, {one_at_a_time, eager}, random);
      EXPECT_EQ(wrong, "") << (one_at_a_time ? "one exchange at a time" : "exchanges beside each other")
                           << (eager ? "" : ", sends wait for receives");
    }
  }
  for (std::int64_t r = 0; r < exported.ranks(); ++r) {
    SCOPED_TRACE(fmt::format("rank {}", r));
    const auto s = static_cast<std::size_t>(exported.place(r).stage);
    const ReadTrace& trace = traces.read[static_cast<std::size_t>(r)];
    expect_fields(trace);
    expect_compute(trace, exported.plan().work(), exported.plan().work().stages[s], plan.stages[s]);
    expect_state_bytes(traces, exported, r, plan.stages[s].zero);
  }
}

// Random plans of few ranks and micro-batches, with every way to shard state.
void try_plans(const cost::Job& job, unsigned seed, int count, const std::function<bool(const SomePlan&)>& wanted) {
  std::mt19937 random(seed);
  for (int tried = 0; tried < count;) {
    SomePlan plan = random_plan(job, random);
    const Strategy& strategy = plan.strategy;
    if (strategy.devices_used() > 32 || micro_batches(strategy, job.run.global_batch) > 8) continue;
    const std::int64_t replicas = groups::dense_replicas(strategy);
    const std::array<std::int64_t, 4> degrees = {0, 1, 2, replicas / 2};
    for (StagePlan& stage : plan.stages) stage.zero_degree = degrees[random() % degrees.size()];
    if (!cost::refuse_strategy(job, strategy, plan.stages).empty() || !wanted(plan)) continue;
    const bool whole_groups = micro_batches(strategy, job.run.global_batch) % strategy.pp == 0;
    if (strategy.virtual_stages > 1 && !whole_groups) continue;
    plan.stages = cost::evaluate(job, strategy, plan.stages).stages;
    expect_sound(job, plan, random);
    ++tried;
  }
}

TEST(ChakraExecution, DensePlans) {
  try_plans(export_job(few_layers("llama3-8b", 6), "dgx-h100", 32, 24, 2048), 1, 25,
            [](const SomePlan&) { return true; });
}

TEST(ChakraExecution, PlansWithExperts) {
  try_plans(export_job(few_layers("mixtral-8x7b", 6), "dgx-h100", 32, 24, 2048), 2, 25,
            [](const SomePlan& plan) { return plan.strategy.split.ep > 1; });
}

TEST(ChakraExecution, InterleavedPlans) {
  try_plans(export_job(few_layers("llama3-8b", 14), "dgx-h100", 32, 24, 2048), 3, 20,
            [](const SomePlan& plan) { return plan.strategy.virtual_stages > 1; });
}

TEST(ChakraExecution, ShardedWeights) {
  try_plans(export_job(few_layers("llama3-8b", 6), "dgx-h100", 32, 24, 2048, "fsdp2"), 4, 20,
            [](const SomePlan& plan) { return plan.stages[0].zero == 3 && plan.strategy.dp > 1; });
}

TEST(ChakraExecution, StacksWithoutOverlap) {
  for (const char* stack : {"megatron-deepspeed", "pytorch", "internevo"}) {
    try_plans(export_job(few_layers("gpt3-35b", 6), "dgx-h100", 32, 24, 2048, stack), 5, 8,
              [](const SomePlan&) { return true; });
  }
}

TEST(ChakraExecution, TiedEmbeddingsAndGpipe) {
  const cost::Job job = export_job(few_layers("bert-large", 4), "dgx-h100", 8, 16, 512);
  std::mt19937 random(6);
  SomePlan plan;
  plan.strategy.pp = 2;
  plan.strategy.dp = plan.strategy.dp_inner = 4;
  plan.strategy.schedule = Schedule::gpipe;
  for (const int zero : {0, 1, 2, 3}) {
    plan.stages =
        cost::evaluate(job, plan.strategy, cost::even_stages(job, plan.strategy, Recompute::full, zero)).stages;
    expect_sound(job, plan, random);
  }
  plan.strategy.pp = 1;
  plan.strategy.schedule = Schedule::one_f_one_b;
  plan.stages = cost::evaluate(job, plan.strategy, cost::even_stages(job, plan.strategy, Recompute::none, 1)).stages;
  expect_sound(job, plan, random);
}

TEST(Chakra, ComputeOfTheSlowestStageIsThatOfThePrediction) {
  const cost::Job job = export_job(few_layers("llama3-8b", 8), "dgx-h100", 16, 32, 4096);
  Strategy strategy;
  strategy.split = {.tp = 4, .sp = true};
  strategy.pp = 2;
  strategy.dp = 2;
  const Plan evaluation = cost::evaluate(job, strategy, cost::even_stages(job, strategy, Recompute::none, 1));
  const exporter::ChakraExport exported(job, strategy, evaluation.stages);
  const Traces traces = write_all(exported, strategy);
  const std::size_t slowest = evaluation.stages[0].time.total > evaluation.stages[1].time.total ? 0 : 1;
  double layers_us = 0;
  for (std::int64_t r = 0; r < exported.ranks(); ++r) {
    if (static_cast<std::size_t>(exported.place(r).stage) != slowest) continue;
    layers_us = sum_durations(traces.read[static_cast<std::size_t>(r)], of_layers);
    EXPECT_NEAR(layers_us, 1e6 * evaluation.prediction.breakdown_s.compute, 1.001);
  }
  EXPECT_GT(layers_us, 0);
}

TEST(ChakraExecution, FaultsAreFound) {
  const cost::Job job = export_job(few_layers("llama3-8b", 4), "dgx-h100", 16, 16, 512);
  SomePlan plan;
  plan.strategy.split.tp = 2;
  plan.strategy.pp = 2;
  plan.strategy.dp = 2;
  plan.stages = cost::evaluate(job, plan.strategy, cost::even_stages(job, plan.strategy, Recompute::none, 1)).stages;
  const exporter::ChakraExport exported(job, plan.strategy, plan.stages);
  const Traces sound = write_all(exported, plan.strategy);
  std::mt19937 random(7);
  const auto run = [&](const std::vector<ReadTrace>& traces) { return execute(traces, sound.groups, {}, random); };
  ASSERT_EQ(run(sound.read), "");
  const auto first = [](ReadTrace& trace, auto&& is) -> ReadNode& {
    return *std::find_if(trace.nodes.begin(), trace.nodes.end(), is);
  };
  auto other_size = sound.read;
  first(other_size[0], [](const ReadNode& node) { return node.collective(); }).numbers["comm_size"] += 1;
  EXPECT_THAT(run(other_size), HasSubstr("meets"));
  auto other_tag = sound.read;
  first(other_tag[0], [](const ReadNode& node) { return node.sends(); }).numbers["comm_tag"] = 999;
  EXPECT_THAT(run(other_tag), HasSubstr("deadlock"));
  auto no_group = sound.read;
  first(no_group[1], [](const ReadNode& node) { return node.collective(); }).group = "77";
  EXPECT_THAT(run(no_group), HasSubstr("names group 77"));
}

// The last group of micro-batches is smaller than the pipeline.
TEST(ChakraExecution, MicroBatchesNeedNotDivideByTheStages) {
  for (const std::int64_t batch : {5, 6}) {
    const cost::Job job = export_job(few_layers("llama3-8b", 14), "dgx-h100", 8, batch, 512);
    Strategy strategy;
    strategy.pp = 4;
    strategy.virtual_stages = 3;
    strategy.schedule = Schedule::interleaved;
    const auto stages = cost::even_stages(job, strategy, Recompute::none, 0);
    std::mt19937 random(8);
    expect_sound(job, {strategy, cost::evaluate(job, strategy, stages).stages}, random);
  }
}

// --- protoc

constexpr const char* kSchema = R"(syntax = "proto3";
package ChakraProtoMsg;
message AttributeProto {
  string name = 1; string doc_string = 2;
  oneof value { int32 int32_val = 7; int64 int64_val = 9; uint64 uint64_val = 13; bool bool_val = 27; string string_val = 29; }
}
message GlobalMetadata { string version = 1; repeated AttributeProto attr = 2; }
enum NodeType { INVALID_NODE = 0; METADATA_NODE = 1; MEM_LOAD_NODE = 2; MEM_STORE_NODE = 3; COMP_NODE = 4; COMM_SEND_NODE = 5; COMM_RECV_NODE = 6; COMM_COLL_NODE = 7; }
message IOInfo { string values = 1; string shapes = 2; string types = 3; }
message Node {
  uint64 id = 1; string name = 2; NodeType type = 3; repeated uint64 ctrl_deps = 4; repeated uint64 data_deps = 5;
  uint64 start_time_micros = 6; uint64 duration_micros = 7; IOInfo inputs = 8; IOInfo outputs = 9;
  repeated AttributeProto attr = 10;
}
message File { GlobalMetadata metadata = 1; repeated Node nodes = 2; }
)";

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(Chakra, ProtocReadsATraceAndWritesTheSameBytes) {
  if (std::system("protoc --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "protoc is not installed";
  const cost::Job job = export_job(few_layers("mixtral-8x7b", 3), "dgx-h100", 16, 16, 512);
  Strategy strategy;
  strategy.split = {.tp = 2, .sp = true, .ep = 2};
  strategy.pp = 2;
  strategy.dp = strategy.dp_inner = 4;
  const auto stages = cost::even_stages(job, strategy, Recompute::full, 1);
  const exporter::ChakraExport exported(job, strategy, stages);
  const Traces traces = write_all(exported, strategy);
  const auto messages = split_messages(traces.files[1]);
  exporter::ProtobufWriter whole;  // the delimited messages as fields of one
  for (std::size_t i = 0; i < messages.size(); ++i) whole.text(i == 0 ? 1 : 2, messages[i]);
  const TemporaryFolder folder;
  const std::filesystem::path at = folder.path();
  std::ofstream(at / "et.proto") << kSchema;
  std::ofstream(at / "in.bin", std::ios::binary) << whole.bytes();
  const auto protoc = [&](const char* how, const char* in, const char* out) {
    return std::system(
        fmt::format("cd '{}' && protoc --{}=ChakraProtoMsg.File et.proto < {} > {}", at.string(), how, in, out)
            .c_str());
  };
  ASSERT_EQ(protoc("decode", "in.bin", "text"), 0);
  const std::string text = content_of(at / "text");
  EXPECT_THAT(text, HasSubstr("version: \"0.0.4\""));
  EXPECT_THAT(text, HasSubstr("type: COMM_COLL_NODE"));
  EXPECT_THAT(text, HasSubstr("type: COMM_SEND_NODE"));
  EXPECT_EQ(text.find("\n  11:"), std::string::npos);  // a field that the schema does not have
  ASSERT_EQ(protoc("encode", "text", "out.bin"), 0);
  EXPECT_TRUE(content_of(at / "out.bin") == whole.bytes());
}

}  // namespace
}  // namespace nest::test
