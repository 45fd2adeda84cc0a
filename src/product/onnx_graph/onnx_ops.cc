#include "onnx_graph/onnx_ops.h"

#ifdef NEST_ONNX

#include <initializer_list>
#include <set>
#include <utility>

namespace nest::onnx_graph {

const std::map<std::string, OpEntry>& known_ops() {
  static const std::map<std::string, OpEntry> table = [] {
    std::map<std::string, OpEntry> ops;
    const auto add = [&](graph::RawOp op, Keeps keeps, std::initializer_list<const char*> names) {
      for (const char* name : names) ops[name] = {op, "", keeps};
    };
    add(graph::RawOp::view, Keeps::nothing,
        {"Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Split", "Expand", "Identity", "Dropout"});
    add(graph::RawOp::copy, Keeps::nothing,
        {"Concat", "Pad", "Tile", "Cast", "DepthToSpace", "SpaceToDepth", "Trilu", "CumSum"});
    add(graph::RawOp::gather, Keeps::nothing, {"Gather", "GatherElements", "GatherND"});
    add(graph::RawOp::scatter, Keeps::nothing, {"ScatterND", "ScatterElements", "Scatter"});
    add(graph::RawOp::softmax, Keeps::outputs, {"Softmax", "LogSoftmax"});
    add(graph::RawOp::reduce, Keeps::nothing,
        {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare", "ArgMax",
         "ArgMin"});
    add(graph::RawOp::reduce, Keeps::inputs, {"ReduceL2", "ReduceLogSumExp"});
    add(graph::RawOp::norm, Keeps::by_rule,
        {"LayerNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LpNormalization",
         "SimplifiedLayerNormalization", "RMSNormalization", "LRN"});
    add(graph::RawOp::pool, Keeps::inputs, {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"});
    add(graph::RawOp::resize, Keeps::nothing, {"Resize", "Upsample", "GridSample"});
    add(graph::RawOp::topk, Keeps::nothing, {"TopK"});
    add(graph::RawOp::loss, Keeps::by_rule, {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"});
    add(graph::RawOp::elementwise, Keeps::nothing,
        {"Sub", "Neg",  "Where", "Not",  "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or",
         "Xor", "Sign", "Floor", "Ceil", "Round", "IsNaN",   "IsInf",          "Sum",  "Mean",        "Mod", "Add"});
    add(graph::RawOp::elementwise, Keeps::inputs,
        {"Mul",      "Div",         "Pow",       "Erf",       "Gelu",
         "Log",      "Sin",         "Cos",       "Tan",       "Abs",
         "Softplus", "Softsign",    "HardSwish", "LeakyRelu", "Elu",
         "Selu",     "Celu",        "Clip",      "Max",       "Min",
         "PRelu",    "HardSigmoid", "Mish",      "Swish",     "ThresholdedRelu"});
    add(graph::RawOp::elementwise, Keeps::outputs, {"Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal"});
    for (const auto& [name, kind] :
         std::initializer_list<std::pair<const char*, const char*>>{{"Add", "add"},
                                                                    {"Sub", "sub"},
                                                                    {"Mul", "mul"},
                                                                    {"Div", "div"},
                                                                    {"Pow", "pow"},
                                                                    {"Sqrt", "sqrt"},
                                                                    {"Erf", "erf"},
                                                                    {"Sigmoid", "sigmoid"},
                                                                    {"ReduceMean", "mean"},
                                                                    {"LayerNormalization", "layer"},
                                                                    {"BatchNormalization", "batch"},
                                                                    {"GroupNormalization", "group"},
                                                                    {"InstanceNormalization", "group"},
                                                                    {"SimplifiedLayerNormalization", "rms"},
                                                                    {"RMSNormalization", "rms"},
                                                                    {"Reciprocal", "reciprocal"}}) {
      ops[name].kind = kind;
    }
    return ops;
  }();
  return table;
}

bool makes_constant(const std::string& type) {
  static const std::set<std::string> kConstants = {
      "Shape",        "Size",          "Constant",         "ConstantOfShape",  "Range", "NonZero", "EyeLike",
      "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"};
  return kConstants.contains(type);
}

}  // namespace nest::onnx_graph

#endif
