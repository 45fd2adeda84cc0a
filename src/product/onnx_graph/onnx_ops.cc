#include "onnx_graph/onnx_ops.h"

#ifdef NEST_ONNX

#include <initializer_list>
#include <set>
#include <utility>

namespace nest {

const std::map<std::string, OpEntry>& known_ops() {
  static const std::map<std::string, OpEntry> table = [] {
    std::map<std::string, OpEntry> ops;
    const auto add = [&](RawOp op, Keeps keeps, std::initializer_list<const char*> names) {
      for (const char* name : names) ops[name] = {op, "", keeps};
    };
    add(RawOp::view, Keeps::nothing,
        {"Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Split", "Expand", "Identity", "Dropout"});
    add(RawOp::copy, Keeps::nothing,
        {"Concat", "Pad", "Tile", "Cast", "DepthToSpace", "SpaceToDepth", "Trilu", "CumSum"});
    add(RawOp::gather, Keeps::nothing, {"Gather", "GatherElements", "GatherND"});
    add(RawOp::scatter, Keeps::nothing, {"ScatterND", "ScatterElements", "Scatter"});
    add(RawOp::softmax, Keeps::outputs, {"Softmax", "LogSoftmax"});
    add(RawOp::reduce, Keeps::nothing,
        {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare", "ArgMax",
         "ArgMin"});
    add(RawOp::reduce, Keeps::inputs, {"ReduceL2", "ReduceLogSumExp"});
    add(RawOp::norm, Keeps::by_rule,
        {"LayerNormalization", "BatchNormalization", "InstanceNormalization", "GroupNormalization", "LpNormalization",
         "SimplifiedLayerNormalization", "RMSNormalization", "LRN"});
    add(RawOp::pool, Keeps::inputs, {"MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool"});
    add(RawOp::resize, Keeps::nothing, {"Resize", "Upsample", "GridSample"});
    add(RawOp::topk, Keeps::nothing, {"TopK"});
    add(RawOp::loss, Keeps::by_rule, {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"});
    add(RawOp::elementwise, Keeps::nothing,
        {"Sub", "Neg",  "Where", "Not",  "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or",
         "Xor", "Sign", "Floor", "Ceil", "Round", "IsNaN",   "IsInf",          "Sum",  "Mean",        "Mod", "Add"});
    add(RawOp::elementwise, Keeps::inputs, {"Mul",      "Div",         "Pow",       "Erf",       "Gelu",
                                            "Log",      "Sin",         "Cos",       "Tan",       "Abs",
                                            "Softplus", "Softsign",    "HardSwish", "LeakyRelu", "Elu",
                                            "Selu",     "Celu",        "Clip",      "Max",       "Min",
                                            "PRelu",    "HardSigmoid", "Mish",      "Swish",     "ThresholdedRelu"});
    add(RawOp::elementwise, Keeps::outputs, {"Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Reciprocal"});
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

}  // namespace nest

#endif
