// ONNX models, written by hand.
#pragma once

#ifdef NEST_ONNX

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph_model.h"
#include "onnx_graph/read_onnx.h"
#include "test_support/refusal.h"

namespace nest::graph {

class OnnxSketch {
 public:
  OnnxSketch() {
    model.set_ir_version(8);
    auto* set = model.add_opset_import();
    set->set_domain("");
    set->set_version(16);
  }

  std::string node(const std::string& type, const std::string& module, std::vector<std::string> inputs,
                   int outputs = 1) {
    auto* made = model.mutable_graph()->add_node();
    made->set_op_type(type);
    made->set_name(fmt::format("/{}{}{}_{}", module, module.empty() ? "" : "/", type, model.graph().node_size()));
    for (const std::string& in : inputs) made->add_input(in);
    for (int i = 0; i < outputs; ++i) made->add_output(fmt::format("{}_out{}", made->name(), i));
    return made->output(0);
  }
  onnx::NodeProto& last() { return *model.mutable_graph()->mutable_node(model.graph().node_size() - 1); }
  void set(const char* name, std::int64_t value) {
    auto* attribute = last().add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  void set(const char* name, std::vector<std::int64_t> values) {
    auto* attribute = last().add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : values) attribute->add_ints(value);
  }
  std::string weight(const std::string& name, std::vector<std::int64_t> dims) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) tensor->add_dims(dim);
    return name;
  }
  std::string constant(std::vector<std::int64_t> values) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(fmt::format("c{}", model.graph().initializer_size()));
    tensor->set_data_type(onnx::TensorProto::INT64);
    tensor->add_dims(static_cast<std::int64_t>(values.size()));
    for (const std::int64_t value : values) tensor->add_int64_data(value);
    return tensor->name();
  }
  std::string scalar(float value) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(fmt::format("c{}", model.graph().initializer_size()));
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_float_data(value);
    return tensor->name();
  }
  // A weight as a node of the graph.
  std::string literal(std::vector<std::int64_t> dims) {
    const std::string name = node("Constant", "", {});
    auto* attribute = last().add_attribute();
    attribute->set_name("value");
    attribute->set_type(onnx::AttributeProto::TENSOR);
    attribute->mutable_t()->set_data_type(onnx::TensorProto::FLOAT);
    for (const std::int64_t dim : dims) attribute->mutable_t()->add_dims(dim);
    return name;
  }
  void input(const std::string& name, int type, std::vector<std::string> dims) {
    auto* value = model.mutable_graph()->add_input();
    value->set_name(name);
    value->mutable_type()->mutable_tensor_type()->set_elem_type(type);
    for (const std::string& dim : dims) {
      auto* made = value->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim();
      const bool number = dim.find_first_not_of("-0123456789") == std::string::npos;
      if (number) {
        made->set_dim_value(std::stoll(dim));
      } else {
        made->set_dim_param(dim);
      }
    }
  }
  void output(const std::string& name) { model.mutable_graph()->add_output()->set_name(name); }
  std::string bytes() const { return model.SerializeAsString(); }

  onnx::ModelProto model;
};

inline RawGraph read(const OnnxSketch& sketch) { return onnx_graph::read_onnx("model.onnx", "model", sketch.bytes()); }

inline std::string refusal(const std::string& bytes) {
  return test::refusal_of([&] {
    const RawGraph graph = onnx_graph::read_onnx("model.onnx", "model", bytes);
    build_graph_models(graph, {});
  });
}

}  // namespace nest::graph

#endif
