#include "split/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace nest::split {
namespace {

std::string refuse_block(const model::Layer& layer, const Split& split) {
  const auto tp = stays_whole(layer, split) ? 1 : split.tp;
  for (const model::Operator& op : layer.operators) {
    if (op.kind != model::OperatorKind::attention || op.attention.heads.axis == model::Axis::none) continue;
    const std::int64_t heads = op.attention.heads.size;
    const std::int64_t kv_heads = op.attention.kv_heads.size;
    if (heads % tp != 0) return fmt::format("tp={} does not divide the {} attention heads", tp, heads);
    if (kv_heads % tp != 0 && tp % kv_heads != 0) {
      return fmt::format("tp={} neither divides nor is a multiple of the {} key/value heads", tp, kv_heads);
    }
  }
  for (const model::Operator& op : layer.operators) {
    if (op.kind != model::OperatorKind::scan) continue;
    for (const model::TensorId id : op.inputs) {
      const model::Extent& first = layer.tensors[static_cast<std::size_t>(id)].width.front();
      if (first.axis == model::Axis::heads && first.size % tp != 0)
        return fmt::format("tp={} does not divide the {} heads or groups of a state", tp, first.size);
    }
  }
  for (const model::Tensor& tensor : layer.tensors) {
    for (const model::Extent& extent : tensor.width) {
      if (extent.axis == model::Axis::ffn && extent.size % tp != 0) {
        return fmt::format("tp={} does not divide the feed-forward width {}", tp, extent.size);
      }
      if (extent.axis == model::Axis::expert_ffn && tp == split.tp && extent.size % split.expert_tp() != 0) {
        return fmt::format("etp={} does not divide the experts' width {}", split.expert_tp(), extent.size);
      }
    }
  }
  if (layer.experts > 0 && split.ep > layer.experts)
    return fmt::format("ep={} is more than the {} experts", split.ep, layer.experts);
  if (layer.experts > 0 && layer.experts % split.ep != 0)
    return fmt::format("ep={} does not divide the {} experts", split.ep, layer.experts);
  return {};
}

std::string refuse_sequence(std::int64_t sequence, const Split& split) {
  if (split.cp > 1 && sequence % (2 * split.cp) != 0) {
    return fmt::format(
        "cp={} needs a sequence that is a multiple of {} (two chunks per rank, to balance the causal mask); {} is not",
        split.cp, 2 * split.cp, sequence);
  }
  if (split.sp && (sequence / split.cp) % split.tp != 0) {
    return fmt::format("sp needs tp={} to divide the sequence of a rank, {}", split.tp, sequence / split.cp);
  }
  return {};
}

// Empty, or why the heads of this layer's states cannot be traded for tokens, as every cp needs.
std::string refuse_states(const model::Layer& layer, const Split& split) {
  if (split.cp == 1) return {};
  const std::int64_t ranks = split.tp * split.cp;
  for (const model::Operator& op : layer.operators) {
    if (op.kind != model::OperatorKind::scan || !op.scan.state) continue;
    const model::Extent& heads = layer.tensors[static_cast<std::size_t>(op.outputs.front())].width.front();
    if (heads.size % ranks != 0) {
      return fmt::format("cp={} divides the {} heads of a state besides tp={}, and does not do so evenly", split.cp,
                         heads.size, split.tp);
    }
  }
  return {};
}

// Empty, or why this layer's heads cannot be traded for tokens.
std::string refuse_heads(const model::Layer& layer, const Split& split) {
  if (auto reason = refuse_states(layer, split); !reason.empty()) return reason;
  const std::int64_t ranks = split.context_heads();
  if (ranks == 1) return {};
  for (const model::Operator& op : layer.operators) {
    if (op.kind != model::OperatorKind::attention) continue;
    const bool divided = op.attention.heads.axis != model::Axis::none && !stays_whole(layer, split);
    const std::int64_t tp = divided ? split.tp : 1;
    for (const std::int64_t heads : {op.attention.heads.size, op.attention.kv_heads.size}) {
      // Where there are fewer than tensor ranks, each holds one.
      if (std::max<std::int64_t>(1, heads / tp) % ranks == 0) continue;
      return fmt::format("cp_comm={} divides heads over {} ranks besides tp={}; {} heads do not divide",
                         to_string(split.cp_comm), ranks, split.tp, heads);
    }
  }
  return {};
}

bool tensor_parallel(model::Axis axis) { return axis != model::Axis::none && axis != model::Axis::experts; }

bool has_divided_axis(const model::Layer& layer) {
  return std::any_of(layer.tensors.begin(), layer.tensors.end(), [](const model::Tensor& tensor) {
    return std::any_of(tensor.width.begin(), tensor.width.end(),
                       [](const model::Extent& extent) { return tensor_parallel(extent.axis); });
  });
}

bool attends_whole(const model::Layer& layer, const Split& split) {
  return std::any_of(layer.operators.begin(), layer.operators.end(), [&](const model::Operator& op) {
    return op.kind == model::OperatorKind::attention &&
           (op.attention.heads.axis == model::Axis::none || stays_whole(layer, split));
  });
}

// What only a graph of any shape can get wrong.
std::string refuse_traced(const model::Model& model, const Split& split) {
  if (!model.divisible_sequence && (split.cp > 1 || split.sp)) {
    return fmt::format("{} divides the sequence; this model has none, or mixes its positions outside attention",
                       split.cp > 1 ? fmt::format("cp={}", split.cp) : "sp");
  }
  if (split.tp == 1) return {};
  bool divided = false;
  for (const model::Layer& layer : model.kinds) {
    divided |= layer.kind == model::LayerKind::block && has_divided_axis(layer) && !stays_whole(layer, split);
    if (split.sp && attends_whole(layer, split)) {
      return fmt::format("sp needs every attention to be divided over the tensor-parallel ranks; that of {} is not",
                         layer.name);
    }
  }
  if (!divided) return fmt::format("tp={} divides no block of this model", split.tp);
  return {};
}

}  // namespace

bool stays_whole(const model::Layer& layer, const Split& split) {
  if (!layer.may_stay_whole || split.tp == 1) return false;
  const auto uneven = [&](const model::Extent& extent) {
    switch (extent.axis) {
      case model::Axis::heads:
      case model::Axis::ffn: return extent.size % split.tp != 0;
      case model::Axis::kv_heads: return extent.size % split.tp != 0 && split.tp % extent.size != 0;
      case model::Axis::expert_ffn: return extent.size % split.expert_tp() != 0;
      case model::Axis::vocabulary:  // padded
      case model::Axis::experts:
      case model::Axis::none: break;
    }
    return false;
  };
  return std::any_of(layer.tensors.begin(), layer.tensors.end(), [&](const model::Tensor& tensor) {
    return std::any_of(tensor.width.begin(), tensor.width.end(), uneven);
  });
}

std::string refuse_context(const model::Model& model, const Split& split) {
  const bool two_levels = split.cp_comm == ContextExchange::a2a_p2p;
  if (split.cp == 1 && split.cp_comm != ContextExchange::p2p) {
    return fmt::format("cp_comm={} needs cp > 1", to_string(split.cp_comm));
  }
  if (two_levels && (split.cp_inner < 2 || split.cp_inner >= split.cp || split.cp % split.cp_inner != 0)) {
    return fmt::format("cp_comm=a2a+p2p needs cp_inner, a divisor of cp={} between 1 and it; {} is none", split.cp,
                       split.cp_inner);
  }
  if (!two_levels && split.cp_inner != 1) {
    return fmt::format("cp_inner={} is for cp_comm=a2a+p2p", split.cp_inner);
  }
  for (const model::Layer& layer : model.kinds) {
    if (auto reason = refuse_heads(layer, split); !reason.empty()) return reason;
  }
  return {};
}

std::string refuse_split(const model::Model& model, const RunShape& shape, const Split& split) {
  constexpr std::int64_t kMost = 1 << 20;
  for (const auto& [name, value] : {std::pair{"tp", split.tp}, {"cp", split.cp}, {"ep", split.ep}}) {
    if (value < 1 || value > kMost) return fmt::format("{}={} is out of range; allowed is 1 … {}", name, value, kMost);
  }
  if (split.etp < 0 || split.etp > kMost) {
    return fmt::format("etp={} is out of range; allowed is 1 … {}", split.etp, kMost);
  }
  if (shape.micro_batch < 1 || shape.micro_batch > kMost) {
    return fmt::format("micro-batch {} is out of range; allowed is 1 … {}", shape.micro_batch, kMost);
  }
  if (shape.sequence < 1) return fmt::format("sequence {} is out of range; it is at least 1", shape.sequence);
  if (split.sp && split.tp == 1) return "sp divides the sequence over the tensor-parallel ranks and needs tp > 1";

  bool has_experts = false;
  for (const model::Layer& layer : model.kinds) {
    has_experts |= layer.experts > 0;
    if (auto reason = refuse_block(layer, split); !reason.empty()) return reason;
  }
  if (auto reason = refuse_context(model, split); !reason.empty()) return reason;
  if (split.ep > 1 && !has_experts)
    return fmt::format("ep={} needs a mixture of experts; this model is dense", split.ep);
  if (split.etp != 0 && split.etp != split.tp && !has_experts)
    return "etp needs a mixture of experts; this model is dense";
  if (has_experts && split.tp > 1 && !split.sp) {
    return fmt::format(
        "a mixture of experts with tp={} needs sp, or every tensor-parallel rank would route the same tokens",
        split.tp);
  }
  if (split.cp > 1 && std::any_of(model.kinds.begin(), model.kinds.end(), [](const auto& each) { return each.mtp; })) {
    return fmt::format(
        "cp={}: layers that predict further tokens shift the sequence, which no framework does across "
        "context ranks",
        split.cp);
  }
  if (model.traced) {
    if (auto reason = refuse_traced(model, split); !reason.empty()) return reason;
  }
  for (const std::int64_t sequence : {shape.sequence, shape.encoder_sequence}) {
    if (sequence <= 0) continue;
    if (auto reason = refuse_sequence(sequence, split); !reason.empty()) return reason;
  }
  return {};
}

}  // namespace nest::split
