// ONNX files, written here, as graphs.
#include "onnx_graph/read_onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "graph/graph_model.h"
#include "graph/read_graph.h"
#include "model/config.h"
#include "model/count.h"
#include "onnx_sketch.h"
#include "search/planner.h"
#include "split/local_layer.h"
#include "test_support/data.h"

#ifdef NEST_ONNX

#include <fmt/format.h>

namespace nest::graph {
namespace {

using ::testing::HasSubstr;

struct Gpt {
  std::int64_t layers = 2, hidden = 64, heads = 4, vocabulary = 512, positions = 2048;
};

std::string layer_norm(OnnxSketch& s, const std::string& module, const std::string& x, std::int64_t width) {
  const std::string mean = s.node("ReduceMean", module, {x});
  s.set("axes", std::vector<std::int64_t>{-1});
  const std::string d = s.node("Sub", module, {x, mean});
  const std::string square = s.node("Pow", module, {d, s.scalar(2)});
  const std::string variance = s.node("ReduceMean", module, {square});
  s.set("axes", std::vector<std::int64_t>{-1});
  const std::string root = s.node("Sqrt", module, {s.node("Add", module, {variance, s.scalar(1e-5F)})});
  const std::string normed = s.node("Div", module, {d, root});
  const std::string scaled = s.node("Mul", module, {normed, s.weight(module + ".weight", {width})});
  return s.node("Add", module, {scaled, s.weight(module + ".bias", {width})});
}

std::string linear(OnnxSketch& s, const std::string& module, const std::string& x, std::int64_t in, std::int64_t out) {
  const std::string product = s.node("MatMul", module, {x, s.weight(module + ".matrix", {in, out})});
  return s.node("Add", module, {s.weight(module + ".bias", {out}), product});
}

// As torch.onnx.export writes GPT-2: products and softmax apart, LayerNorm and GELU in pieces, shapes computed.
OnnxSketch gpt(const Gpt& z, bool open = true) {
  OnnxSketch s;
  s.input("ids", onnx::TensorProto::INT64,
          open ? std::vector<std::string>{"batch", "sequence"} : std::vector<std::string>{"2", "128"});
  const std::string table = s.weight("wte.weight", {z.vocabulary, z.hidden});
  const std::string length = s.node("Gather", "", {s.node("Shape", "", {"ids"}), s.constant({1})});
  const std::string size = s.node("Squeeze", "", {length, s.constant({0})});
  auto* zero = s.model.mutable_graph()->add_initializer();
  zero->set_name("zero");
  zero->set_data_type(onnx::TensorProto::INT64);
  zero->add_int64_data(0);
  auto* one = s.model.mutable_graph()->add_initializer();
  one->set_name("one");
  one->set_data_type(onnx::TensorProto::INT64);
  one->add_int64_data(1);
  const std::string places = s.node("Range", "", {"zero", size, "one"});
  const std::string tokens = s.node("Gather", "wte", {table, "ids"});
  const std::string position = s.node("Gather", "wpe", {s.weight("wpe.weight", {z.positions, z.hidden}), places});
  std::string x = s.node("Add", "", {tokens, position});
  const std::string row = s.node("Unsqueeze", "", {places, s.constant({0})});
  const std::string column = s.node("Unsqueeze", "", {places, s.constant({1})});
  const std::string mask = s.node("LessOrEqual", "", {row, column});
  for (int l = 0; l < z.layers; ++l) {
    const std::string here = fmt::format("h.{}", l);
    const std::string y = layer_norm(s, here + "/ln_1", x, z.hidden);
    const std::string qkv = linear(s, here + "/attn/c_attn", y, z.hidden, 3 * z.hidden);
    s.node("Split", here + "/attn", {qkv}, 3);
    s.set("axis", std::int64_t{2});
    std::vector<std::string> parts;
    const onnx::NodeProto split = s.last();
    for (int i = 0; i < 3; ++i) {
      const std::string four =
          s.node("Reshape", here + "/attn", {split.output(i), s.constant({0, 0, z.heads, z.hidden / z.heads})});
      parts.push_back(s.node("Transpose", here + "/attn", {four}));
      s.set("perm", i == 1 ? std::vector<std::int64_t>{0, 2, 3, 1} : std::vector<std::int64_t>{0, 2, 1, 3});
    }
    std::string scores = s.node("MatMul", here + "/attn", {parts[0], parts[1]});
    scores = s.node("Div", here + "/attn", {scores, s.scalar(4)});
    scores = s.node("Where", here + "/attn", {mask, scores, s.scalar(-1e9F)});
    scores = s.node("Softmax", here + "/attn", {scores});
    s.set("axis", std::int64_t{-1});
    std::string o = s.node("MatMul", here + "/attn", {scores, parts[2]});
    o = s.node("Transpose", here + "/attn", {o});
    s.set("perm", std::vector<std::int64_t>{0, 2, 1, 3});
    o = s.node("Reshape", here + "/attn", {o, s.constant({0, 0, z.hidden})});
    o = linear(s, here + "/attn/c_proj", o, z.hidden, z.hidden);
    x = s.node("Add", here, {x, o});
    const std::string up =
        linear(s, here + "/mlp/c_fc", layer_norm(s, here + "/ln_2", x, z.hidden), z.hidden, 4 * z.hidden);
    const std::string erf = s.node("Erf", here + "/mlp", {s.node("Div", here + "/mlp", {up, s.scalar(1.414F)})});
    const std::string plus = s.node("Add", here + "/mlp", {erf, s.scalar(1)});
    const std::string active = s.node("Mul", here + "/mlp", {s.node("Mul", here + "/mlp", {up, plus}), s.scalar(0.5F)});
    x = s.node("Add", here, {x, linear(s, here + "/mlp/c_proj", active, 4 * z.hidden, z.hidden)});
  }
  x = layer_norm(s, "ln_f", x, z.hidden);
  const std::string turned = s.node("Transpose", "lm_head", {table});
  s.set("perm", std::vector<std::int64_t>{1, 0});
  s.output(s.node("MatMul", "lm_head", {x, turned}));
  return s;
}

TEST(Onnx, Gpt2ByConfigAndByOnnxAreTheSame) {
  const Gpt z{.layers = 32, .hidden = 4096, .heads = 32, .vocabulary = 50304, .positions = 2048};
  GraphModels models = build_graph_models(read(gpt(z)), {.stack = model::Stack::plain});
  cost::SoftwareStack stack = cost::find_stack("pytorch").value();
  stack.attention = cost::AttentionKernel::unfused;
  const cluster::Cluster cluster = cluster::find_cluster("dgx-h100", 64).value();
  nest::Run run;
  run.global_batch = 256;
  run.sequence = 2048;
  const cost::Job config = cost::make_job(
      model::read_config(doc::parse_json("config.json", R"({"model_type": "gpt2", "n_embd": 4096, "n_layer": 32,
      "n_head": 32, "vocab_size": 50304, "n_positions": 2048, "activation_function": "gelu"})"),
                         "model"),
      run, stack, cluster);
  const cost::Job job = cost::make_job(std::move(models.model), std::move(models.fused_model), run, stack, cluster);
  EXPECT_EQ(model::count_parameters(config.model).total, model::count_parameters(job.model).total);
  ASSERT_EQ(config.model.layers, job.model.layers);
  const split::RunShape shape{.micro_batch = 2, .sequence = 2048};
  double flops[2] = {0, 0}, saved[2] = {0, 0};
  for (std::size_t i = 0; i < job.model.layers.size(); ++i) {
    int which = 0;
    for (const cost::Job* each : {&config, &job}) {
      const auto kind = static_cast<std::size_t>(each->model.layers[i]);
      const split::LocalLayer local =
          split::localise(each->model.kinds[kind], shape, {}, cost::implementation_of(*each));
      flops[which] += local.flops_forward();
      saved[which++] += local.saved.none;
    }
  }
  EXPECT_NEAR(flops[1] / flops[0], 1, 0.01);
  EXPECT_NEAR(saved[1] / saved[0], 1, 0.05);
  const auto plan = [](const cost::Job& each) {
    search::PlanRequest request;
    request.job = &each;
    request.search.threads = 1;
    return search::make_plan(request);
  };
  const search::PlanAnswer a = plan(config), b = plan(job);
  ASSERT_EQ(a.outcome, PlanOutcome::optimal);
  ASSERT_EQ(b.outcome, PlanOutcome::optimal);
  EXPECT_EQ(a.plans.front().strategy, b.plans.front().strategy);
}

// What torch.onnx.export 1.13 wrote of a small Llama: eager attention, RMSNorm and rotation in pieces.
TEST(Onnx, AnExportedLlamaIsWhatItsConfigSays) {
  const std::filesystem::path path = test::source_dir() / "tests" / "fuzz" / "corpus" / "onnx" / "decoder.onnx";
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const model::Implementation plain{.stack = model::Stack::plain, .flash_attention = false};
  const model::Model model = build_graph_models(onnx_graph::read_onnx("decoder.onnx", "decoder", bytes), plain).model;
  const model::Model config = model::build_model(
      model::read_config(
          doc::parse_json("config.json", R"({"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 32, "vocab_size": 64,
          "max_position_embeddings": 64, "tie_word_embeddings": false, "hidden_act": "silu"})"),
          "decoder"),
      plain);
  EXPECT_EQ(model::count_parameters(model).total, model::count_parameters(config).total);
  ASSERT_EQ(model.layers, config.layers);
  const split::RunShape shape{.micro_batch = 3, .sequence = 64};
  for (const Split& split : {Split{}, Split{.tp = 2}}) {
    ASSERT_EQ(split::refuse_split(model, shape, split), "");
    for (std::size_t i = 0; i < model.kinds.size(); ++i) {
      const split::LocalLayer a = split::localise(model.kinds[i], shape, split, plain),
                              b = split::localise(config.kinds[i], shape, split, plain);
      EXPECT_NEAR(a.flops_forward(), b.flops_forward(), 1e-9 * b.flops_forward());
      EXPECT_NEAR(a.saved.none, b.saved.none, 1e-9 * b.saved.none) << model.kinds[i].name;
      EXPECT_EQ(a.collectives.size(), b.collectives.size());
    }
  }
}

TEST(Onnx, FixedSizesAreTakenAtThose) {
  const Gpt z{.layers = 3};
  const model::Model open = build_graph_models(read(gpt(z)), {}).model;
  const RawGraph graph = read(gpt(z, false));
  EXPECT_EQ(graph.batch, 2);
  EXPECT_EQ(graph.sequence, 128);
  const model::Model fixed = build_graph_models(graph, {}).model;
  EXPECT_EQ(open.layers, fixed.layers);
  const split::RunShape shape{.micro_batch = 1, .sequence = 128};
  for (std::size_t i = 0; i < open.kinds.size(); ++i) {
    EXPECT_DOUBLE_EQ(split::localise(open.kinds[i], shape, {}, {}).flops_forward(),
                     split::localise(fixed.kinds[i], shape, {}, {}).flops_forward());
  }
}

TEST(Onnx, WhatItReadsSurvivesAPlanFile) {
  const RawGraph graph = read(gpt({}));
  EXPECT_EQ(build_graph_models(read_graph(write_graph(graph)), {}).model.kinds,
            build_graph_models(graph, {}).model.kinds);
}

TEST(Onnx, AConvolutionNetwork) {
  OnnxSketch s;
  s.input("image", onnx::TensorProto::FLOAT, {"N", "3", "32", "32"});
  std::string x = s.node("Conv", "stem", {"image", s.weight("stem.weight", {16, 3, 3, 3})});
  s.set("pads", std::vector<std::int64_t>{1, 1, 1, 1});
  x = s.node("Relu", "stem", {x});
  x = s.node("GlobalAveragePool", "pool", {x});
  x = s.node("Flatten", "pool", {x});
  s.node("Gemm", "fc", {x, s.weight("fc.weight", {10, 16}), s.weight("fc.bias", {10})});
  s.set("transB", std::int64_t{1});
  s.output(s.last().output(0));
  const GraphModels models = build_graph_models(read(s), {});
  EXPECT_EQ(model::count_parameters(models.model).total, 16 * 27 + 170);
  double flops = 0;
  for (const model::Layer& kind : models.model.kinds)
    flops += split::localise(kind, {.micro_batch = 4, .sequence = 1}, {}, {}).flops_forward();
  EXPECT_DOUBLE_EQ(flops, 4 * 2.0 * (32 * 32 * 16 * 27 + 160));
}

TEST(Onnx, WhatIsNoModelIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("no ONNX model"));
  EXPECT_THAT(refusal("{\"model_type\": \"llama\"}"), HasSubstr("no ONNX model"));
  EXPECT_THAT(refusal(std::string(1 << 20, '\0')), HasSubstr("no ONNX model"));
  const std::string whole = gpt({}).bytes();
  EXPECT_EQ(refusal(whole), "accepted");
  for (const std::size_t part : {std::size_t{10}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_NE(refusal(whole.substr(0, part)), "accepted") << part;
  }
}

TEST(Onnx, WhatCannotBeIsRefused) {
  const auto one = [](std::vector<std::string> dims, std::vector<std::int64_t> matrix, const std::string& reads = "x") {
    OnnxSketch s;
    s.input("x", onnx::TensorProto::FLOAT, std::move(dims));
    s.output(s.node("MatMul", "a", {reads, s.weight("a.weight", std::move(matrix))}));
    return s.bytes();
  };
  EXPECT_EQ(refusal(one({"batch", "8"}, {8, 4})), "accepted");
  EXPECT_THAT(refusal(one({"batch", "8"}, {9, 4})), HasSubstr("no shape"));
  EXPECT_THAT(refusal(one({"batch", "-8"}, {8, 4})), HasSubstr("out of range"));
  EXPECT_THAT(refusal(one({"batch", "9223372036854775807"}, {8, 4})), HasSubstr("out of range"));
  EXPECT_THAT(refusal(one({"batch", "8"}, {8, std::int64_t{1} << 60})), HasSubstr("out of range"));
  EXPECT_THAT(refusal(one({"batch", "1099511627776"}, {1099511627776, 4096})), HasSubstr("more than 2^50"));
  EXPECT_THAT(refusal(one({"batch", "8"}, {8, 4}, "/a/MatMul_1_out0")), HasSubstr("no shape"));  // a cycle

  OnnxSketch unknown;
  unknown.input("x", onnx::TensorProto::FLOAT, {"batch", "8"});
  unknown.output(unknown.node("Frobnicate", "a", {"x"}));
  EXPECT_THAT(refusal(unknown.bytes()), HasSubstr("node 0 (Frobnicate"));

  OnnxSketch branches;
  branches.input("x", onnx::TensorProto::FLOAT, {"batch", "8"});
  branches.output(branches.node("If", "a", {"x"}));
  auto* attribute = branches.last().add_attribute();
  attribute->set_name("then_branch");
  attribute->set_type(onnx::AttributeProto::GRAPH);
  attribute->mutable_g()->set_name("then");
  EXPECT_THAT(refusal(branches.bytes()), HasSubstr("control flow"));

  OnnxSketch strides;
  strides.input("x", onnx::TensorProto::FLOAT, {"batch", "3", "8", "8"});
  strides.output(strides.node("Conv", "a", {"x", strides.weight("a.weight", {4, 3, 3, 3})}));
  strides.set("strides", std::vector<std::int64_t>{0, 0});
  EXPECT_THAT(refusal(strides.bytes()), HasSubstr("strides = 0"));
}

}  // namespace
}  // namespace nest::graph

#endif
