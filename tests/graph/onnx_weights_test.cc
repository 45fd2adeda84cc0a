// Which tensors of an ONNX file are weights, and which shapes are believed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/count.h"
#include "onnx_sketch.h"
#include "split/local_layer.h"

#ifdef NEST_ONNX

namespace nest::graph {
namespace {

using ::testing::HasSubstr;

// Shape rules of libonnx 1.12 read dimensions that are not there.
TEST(Onnx, RanksAndAxesAreCheckedBeforeLibonnxReliesOnThem) {
  const auto one = [](const char* type, std::vector<std::string> x, const std::vector<std::vector<std::string>>& others,
                      int opset) {
    OnnxSketch s;
    s.model.mutable_opset_import(0)->set_version(opset);
    s.input("x", onnx::TensorProto::FLOAT, std::move(x));
    std::vector<std::string> inputs = {"x"};
    for (const auto& dims : others) {
      inputs.push_back(fmt::format("w{}", inputs.size()));
      s.input(inputs.back(), onnx::TensorProto::FLOAT, dims);
      s.model.mutable_graph()
          ->mutable_input(static_cast<int>(inputs.size()) - 1)
          ->mutable_type()
          ->mutable_tensor_type()
          ->mutable_shape();
    }
    s.output(s.node(type, "a", inputs));
    return s;
  };
  EXPECT_THAT(refusal(one("Conv", {"7", "6", "1", "5"}, {{}, {"7", "2", "3", "2", "1"}}, 11).bytes()),
              HasSubstr("no shape"));
  for (const int opset : {6, 7, 9, 11, 13}) {
    OnnxSketch gemm = one("Gemm", {"2", "1"}, {{}, {"2"}}, opset);
    gemm.set("transB", std::int64_t{823});
    gemm.set("broadcast", std::int64_t{-436});
    EXPECT_THAT(refusal(gemm.bytes()), HasSubstr("no shape")) << opset;
  }
  for (const char* pool : {"MaxPool", "AveragePool", "GlobalAveragePool"}) {
    OnnxSketch s = one(pool, {"7"}, {}, 11);
    s.set("kernel_shape", std::vector<std::int64_t>{2});
    EXPECT_THAT(refusal(s.bytes()), HasSubstr("no shape")) << pool;
  }
  for (const char* type : {"Softmax", "ReduceMean", "Concat", "Split", "TopK", "Flatten", "LayerNormalization"}) {
    for (const std::int64_t axis : {-1000000, -4, 4, 1000000}) {
      OnnxSketch s = one(type, {"2", "3", "4"}, {}, 11);
      const bool many = std::string(type) == "ReduceMean";
      many ? s.set("axes", std::vector<std::int64_t>{axis}) : s.set("axis", axis);
      EXPECT_NE(refusal(s.bytes()), "accepted") << type << axis;
    }
  }
  OnnxSketch untyped = one("Softmax", {"2", "3"}, {}, 13);
  untyped.set("axis", std::int64_t{1} << 40);
  untyped.last().mutable_attribute(0)->clear_type();
  EXPECT_THAT(refusal(untyped.bytes()), HasSubstr("axis = 1099511627776 is out of range"));
}

double forward_flops(const OnnxSketch& sketch, const split::RunShape& shape) {
  double flops = 0;
  for (const model::Layer& kind : build_graph_models(read(sketch), {}).model.kinds)
    flops += split::localise(kind, shape, {}, {}).flops_forward();
  return flops;
}

std::int64_t parameters(const OnnxSketch& sketch) {
  return static_cast<std::int64_t>(model::count_parameters(build_graph_models(read(sketch), {}).model).total);
}

// What is added to scores: [sequence, sequence] is a mask, what differs between heads or has other sizes is trained.
TEST(Onnx, OnlyAMaskOfPositionsIsNoParameter) {
  const auto scores = [](std::vector<std::int64_t> added) {
    OnnxSketch s;
    s.input("x", onnx::TensorProto::FLOAT, {"batch", "sequence", "8"});
    s.model.mutable_graph()
        ->mutable_input(0)
        ->mutable_type()
        ->mutable_tensor_type()
        ->mutable_shape()
        ->mutable_dim(1)
        ->set_dim_value(16);
    s.input("ids", onnx::TensorProto::INT64, {"batch", "16"});
    const std::string q = s.node("MatMul", "q", {"x", s.weight("q.weight", {8, 8})});
    const std::string four = s.node("Reshape", "q", {q, s.constant({0, 16, 2, 4})});
    const std::string rows = s.node("Transpose", "q", {four});
    s.set("perm", std::vector<std::int64_t>{0, 2, 1, 3});
    const std::string columns = s.node("Transpose", "q", {four});
    s.set("perm", std::vector<std::int64_t>{0, 2, 3, 1});
    const std::string product = s.node("MatMul", "a", {rows, columns});
    s.output(s.node("Softmax", "a", {s.node("Add", "a", {product, s.weight("table", std::move(added))})}));
    return parameters(s) - 64;
  };
  EXPECT_EQ(scores({16, 16}), 0);
  EXPECT_EQ(scores({1, 1, 16, 16}), 0);
  EXPECT_EQ(scores({1, 2, 16, 16}), 512);
  EXPECT_EQ(scores({2, 1, 1}), 2);

  OnnxSketch image;
  image.input("image", onnx::TensorProto::FLOAT, {"N", "3", "8", "8"});
  const std::string x = image.node("Conv", "c", {"image", image.weight("c.weight", {4, 3, 1, 1})});
  const std::string scaled = image.node("Mul", "scale", {x, image.weight("scale.weight", {4, 1, 1})});
  image.output(image.node("Add", "shift", {scaled, image.weight("shift.weight", {1, 4, 8, 8})}));
  EXPECT_EQ(parameters(image), 12 + 4 + 256);
}

TEST(Onnx, WeightsAreFoundWhereverTheyAre) {
  const auto one = [](bool literal, bool left) {
    OnnxSketch s;
    s.input("x", onnx::TensorProto::FLOAT, {"batch", "8", "16"});
    const std::vector<std::int64_t> dims = left ? std::vector<std::int64_t>{4, 8} : std::vector<std::int64_t>{16, 4};
    const std::string w = literal ? s.literal(dims) : s.weight("a.weight", dims);
    s.output(s.node("MatMul", "a", left ? std::vector<std::string>{w, "x"} : std::vector<std::string>{"x", w}));
    return s;
  };
  for (const bool literal : {false, true}) {
    for (const bool left : {false, true}) {
      const OnnxSketch s = one(literal, left);
      EXPECT_EQ(parameters(s), left ? 32 : 64) << literal << left;
      EXPECT_DOUBLE_EQ(forward_flops(s, {.micro_batch = 3, .sequence = 1}), 2.0 * 3 * (left ? 4 * 8 * 16 : 8 * 16 * 4));
      EXPECT_TRUE(read(s).warnings.empty());
    }
  }
}

TEST(Onnx, WeightsThatAreComputedAreWarnedOf) {
  OnnxSketch s;
  s.input("x", onnx::TensorProto::FLOAT, {"batch", "16"});
  auto* packed = s.model.mutable_graph()->add_initializer();
  packed->set_name("packed");
  packed->set_data_type(onnx::TensorProto::INT8);
  packed->add_dims(16);
  packed->add_dims(4);
  const std::string w = s.node("DequantizeLinear", "a", {"packed", s.scalar(0.5F)});
  s.output(s.node("MatMul", "a", {"x", w}));
  EXPECT_THAT(read(s).warnings,
              ::testing::Contains("MatMul with a computed weight: unknown, costed by its bytes (1 times)"));
}

// A vector put into more dimensions is no vector: its shape must not be taken for one.
TEST(Onnx, AReshapedConstantHasTheShapeAskedFor) {
  OnnxSketch s;
  s.input("x", onnx::TensorProto::INT64, {"batch", "2", "2"});
  const std::string table = s.node("Reshape", "a", {s.constant({1, 2, 3, 4}), s.constant({2, 2})});
  s.output(s.node("Add", "a", {"x", table}));
  const RawGraph graph = read(s);
  EXPECT_EQ(graph.tensors[static_cast<std::size_t>(graph.outputs.front())].shape.size(), 3U);
}

// Exported for one sample: the batch is a factor of rows that nothing but inference tells.
TEST(Onnx, OneSampleOfAFixedLengthGrowsLikeAnOpenOne) {
  enum class Layout { flat, sequence_first };
  const auto make = [](Layout layout, bool open) {
    OnnxSketch s;
    s.input("ids", onnx::TensorProto::INT64,
            open ? std::vector<std::string>{"batch", "sequence"} : std::vector<std::string>{"1", "32"});
    std::string x = s.node("Gather", "table", {s.weight("table.weight", {64, 8}), "ids"});
    if (layout == Layout::flat) {
      x = s.node("Reshape", "flat", {x, s.constant({-1, 8})});
    } else {
      x = s.node("Transpose", "first", {x});
      s.set("perm", std::vector<std::int64_t>{1, 0, 2});
    }
    x = s.node("MatMul", "up", {x, s.weight("up.weight", {8, 24})});
    s.output(s.node("MatMul", "down", {s.node("Relu", "act", {x}), s.weight("down.weight", {24, 64})}));
    return s;
  };
  for (const Layout layout : {Layout::flat, Layout::sequence_first}) {
    const RawGraph open = read(make(layout, true)), fixed = read(make(layout, false));
    ASSERT_EQ(open.tensors.size(), fixed.tensors.size());
    for (std::size_t i = 0; i < open.tensors.size(); ++i) {
      EXPECT_EQ(open.tensors[i].shape, fixed.tensors[i].shape) << open.tensors[i].name;
    }
    EXPECT_DOUBLE_EQ(forward_flops(make(layout, false), {.micro_batch = 4, .sequence = 16}),
                     2.0 * 4 * 16 * (8 * 24 + 24 * 64));
  }
}

// Sizes written into the graph: it cannot be asked about others.
TEST(Onnx, FixedReshapesAreReadByValue) {
  OnnxSketch s;
  s.input("ids", onnx::TensorProto::INT64, {"2", "32"});
  std::string x = s.node("Gather", "table", {s.weight("table.weight", {64, 8}), "ids"});
  x = s.node("Reshape", "heads", {x, s.constant({2, 32, 2, 4})});
  x = s.node("Reshape", "joined", {x, s.constant({2, 32, 8})});
  s.output(s.node("MatMul", "up", {x, s.weight("up.weight", {8, 24})}));
  const RawGraph graph = read(s);
  const auto& shape = graph.tensors[static_cast<std::size_t>(graph.outputs.front())].shape;
  EXPECT_EQ(shape, (std::vector<Dimension>{{1, 1, 0}, {1, 0, 1}, {24, 0, 0}}));
}

}  // namespace
}  // namespace nest::graph

#endif
