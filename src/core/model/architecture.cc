#include "model/architecture.h"

namespace nest::model {

std::int64_t Architecture::layers() const {
  std::int64_t count = 0;
  for (const Tower& tower : towers) count += static_cast<std::int64_t>(tower.blocks.size());
  return count;
}

bool lends_keys(const Attention& attention, const Attention& borrower) {
  return attention.heads > 0 && !attention.borrows_keys && (attention.window > 0) == (borrower.window > 0);
}

const char* to_string(NormKind kind) { return kind == NormKind::rms ? "RMSNorm" : "LayerNorm"; }

const char* to_string(Activation activation) {
  switch (activation) {
    case Activation::relu: return "relu";
    case Activation::gelu: return "gelu";
    case Activation::gelu_tanh: return "gelu_tanh";
    case Activation::gelu_new: return "gelu_new";
    case Activation::quick_gelu: return "quick_gelu";
    case Activation::silu: return "silu";
    case Activation::relu_squared: return "relu_squared";
  }
  return "?";
}

const char* to_string(StateKind kind) {
  switch (kind) {
    case StateKind::gated_delta: return "gated delta rule";
    case StateKind::mamba: return "mamba";
    case StateKind::mamba2: return "mamba2";
    case StateKind::short_conv: return "short convolution";
    case StateKind::rg_lru: return "rg_lru";
    case StateKind::lightning: return "linear attention";
    case StateKind::rwkv: return "rwkv";
  }
  return "?";
}

const char* to_string(PositionKind kind) {
  switch (kind) {
    case PositionKind::none: return "none";
    case PositionKind::rotary: return "rotary";
    case PositionKind::learned: return "learned";
    case PositionKind::alibi: return "alibi";
    case PositionKind::relative: return "relative";
  }
  return "?";
}

}  // namespace nest::model
