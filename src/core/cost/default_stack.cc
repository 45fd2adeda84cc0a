#include "cost/default_stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace nest::cost {
namespace {

constexpr std::string_view kHopper = "hopper";
constexpr std::array<std::string_view, 3> kRecent = {kHopper, "blackwell", "rubin"};

template <class Test>
bool any_block(const model::Architecture& architecture, const Test& test) {
  return std::any_of(architecture.towers.begin(), architecture.towers.end(), [&](const model::Tower& tower) {
    return std::any_of(tower.kinds.begin(), tower.kinds.end(), test);
  });
}

const char* narrow_recipe(Precision precision, bool hopper, bool experts) {
  if (precision == Precision::bf16) return "";
  if (precision == Precision::fp8 && hopper) return experts ? "" : "-fp8";
  return precision == Precision::fp4 && !experts ? "-nvfp4" : "-mxfp8";
}

}  // namespace

StackChoice default_stack(const model::Architecture& architecture, const cluster::Device& device, Precision precision) {
  const bool known = std::find(kRecent.begin(), kRecent.end(), device.family) != kRecent.end();
  if (!known) {
    return {"megatron-core", fmt::format("recipes of 2026 are for NVIDIA Hopper and newer, not for {}", device.name)};
  }
  if (precision != Precision::bf16 && precision != Precision::fp8 && precision != Precision::fp4) {
    return {"megatron-core",
            fmt::format("recipes of 2026 are for bf16, fp8 and fp4, not for {}", to_string(precision))};
  }
  const bool experts = any_block(architecture, [](const model::Block& block) { return block.mixture.has_value(); });
  const bool latent =
      experts && any_block(architecture, [](const model::Block& block) { return block.attention.latent.has_value(); });
  return {fmt::format("megatron-bridge-2026{}{}{}", experts ? "-moe" : "", latent ? "-mla" : "",
                      narrow_recipe(precision, device.family == kHopper, experts)),
          fmt::format("for {} in {} on {}",
                      latent    ? "experts and latent attention"
                      : experts ? "a mixture of experts"
                                : "a dense model",
                      to_string(precision), device.family)};
}

}  // namespace nest::cost
