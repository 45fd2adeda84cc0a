#include "launch/fsdp_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace nest::launch {
namespace {

// Without several instances Megatron does not look at it.
void read_outer_sharding(const LaunchOptions& options, LaunchSetup& setup) {
  constexpr const char* kOption = "--outer-dp-sharding-strategy";
  if (options.choice(kOption, {"no_shard", "optim"}).value_or("no_shard") != "optim") return;
  if (setup.zero != 3) options.fail(kOption, "optim needs --data-parallel-sharding-strategy optim_grads_params");
  setup.shard_outer = setup.shard_instances > 1;
  if (!setup.shard_outer) {
    setup.notes.push_back(fmt::format("{} does nothing: one instance of the optimizer has all ranks", kOption));
  }
}

// What its adapter asserts.
void check_second_version(const LaunchOptions& options, const LaunchSetup& setup) {
  constexpr const char* kOption = "--megatron-fsdp-version";
  if (options.choice(kOption, {"1", "2"}).value_or("1") != "2") return;
  if (setup.tp > 1 || setup.cp > 1 || setup.pp > 1) {
    options.fail(kOption, fmt::format("2 needs tp, cp and pp of 1, not {}, {} and {}", setup.tp, setup.cp, setup.pp));
  }
  if (setup.zero != 3) options.fail(kOption, "2 needs --data-parallel-sharding-strategy optim_grads_params");
  if (setup.shard_outer) options.fail(kOption, "2 excludes --outer-dp-sharding-strategy optim");
  if (options.flag("--use-distributed-optimizer")) options.fail(kOption, "2 excludes --use-distributed-optimizer");
  if (setup.precision == Precision::fp8 || setup.precision == Precision::fp4) {
    options.fail(kOption, "2 computes in 16 bits");
  }
}

// Memory is priced with double buffers, which user buffers of NCCL and the pool of maxima bring along.
void check_buffers(const LaunchOptions& options, LaunchSetup& setup) {
  if (setup.zero < 2) return;
  constexpr const char* kPlain = "--fsdp-double-buffer";
  const bool overlap = options.flag("--overlap-moe-expert-parallel-comm");
  for (const char* option : {kPlain, "--megatron-fsdp-max-pool-double-buffer", "--use-nccl-ub"}) {
    if (!options.flag(option)) continue;
    if (overlap) options.fail(option, "excludes --overlap-moe-expert-parallel-comm");
    return;
  }
  if (overlap) return;
  setup.notes.push_back(
      fmt::format("modelled with {}: without it Megatron-FSDP may fetch half a billion parameters ahead and hold a "
                  "billion gradients",
                  kPlain));
}

}  // namespace

void read_fsdp_options(const LaunchOptions& options, LaunchSetup& setup) {
  const std::vector<std::string> words = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
  const std::string strategy =
      options.choice("--data-parallel-sharding-strategy", words).value_or("optim_grads_params");
  setup.zero = static_cast<int>(std::find(words.begin(), words.end(), strategy) - words.begin());
  read_outer_sharding(options, setup);
  check_second_version(options, setup);
  check_buffers(options, setup);
}

void read_fsdp_formats(const LaunchOptions& options, Precision precision, cost::SoftwareStack& stack) {
  constexpr double kSingle = 4, kHalf = 2;
  const auto read = [&](const char* option, double otherwise) {
    const std::string format = options.choice(option, {"fp32", "bf16", "fp16", "auto"}).value_or("auto");
    return format == "auto" ? otherwise : format == "fp32" ? kSingle : kHalf;
  };
  stack.gradient_bytes = read("--megatron-fsdp-main-grads-dtype", precision == Precision::fp32 ? kSingle : kHalf);
  stack.gradient_traffic_bytes = read("--megatron-fsdp-grad-comm-dtype", stack.gradient_bytes);
  constexpr const char* kMasters = "--megatron-fsdp-main-params-dtype";
  if (options.has(kMasters)) stack.master_bytes = read(kMasters, 0);  // "auto": weights are their own masters
}

}  // namespace nest::launch
