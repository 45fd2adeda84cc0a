#include "launch/megatron_deepspeed.h"

#include <fmt/format.h>

#include "base/text.h"
#include "cost/stack.h"

namespace nest::launch {
namespace {

constexpr std::int64_t kMostDeepspeedRanks = std::int64_t{1} << 24;

// Its own kernels write scores out; FlashAttention is a switch (megatron/arguments.py of Megatron-DeepSpeed).
cost::AttentionKernel deepspeed_attention(const LaunchOptions& options, cost::AttentionKernel otherwise) {
  if (options.flag("--use-flash-attn-v2")) return cost::AttentionKernel::flash2;
  for (const char* name : {"--use-flash-attn", "--use-flash-attn-v1", "--use-flash-attn-triton"}) {
    if (options.flag(name)) return cost::AttentionKernel::triton;
  }
  return otherwise;
}

}  // namespace

bool is_megatron_deepspeed(const LaunchOptions& options) {
  return options.flag("--deepspeed") || options.has("--zero-stage");
}

void read_megatron_deepspeed(const LaunchOptions& options, LaunchSetup& setup, const ReadNamedFile& read_file) {
  setup.framework = Framework::deepspeed;
  const std::vector<model::Module> modules = setup.stack.selective_modules;
  setup.stack = *cost::find_stack("megatron-deepspeed");
  setup.stack.selective_modules = modules;
  setup.stack.attention = deepspeed_attention(options, setup.stack.attention);
  if (setup.recompute.layers > 0) {
    setup.notes.push_back(
        fmt::format("recomputation {} is modelled as that of every layer from its input", to_string(setup.recompute)));
    setup.recompute = Recompute::full;
  }
  setup.zero = static_cast<int>(options.integer("--zero-stage", 0, 3).value_or(setup.zero));
  if (const auto ep = options.integer("--moe-expert-parallel-size", 1, kMostDeepspeedRanks)) setup.ep = *ep;
  if (const auto ulysses = options.integer("--ds-sequence-parallel-size", 1, kMostDeepspeedRanks)) {
    setup.cp = *ulysses;
    setup.cp_comm = ContextExchange::a2a;
  }
  const auto file = options.text("--deepspeed_config");
  if (!file) return;
  const auto text = read_file ? read_file(*file) : std::nullopt;
  if (text) {
    add_deepspeed_file(setup, *file, *text);
  } else {
    setup.notes.push_back(
        fmt::format("--deepspeed_config {} cannot be read here: what it says is not modelled", clip(*file, 40)));
  }
}

}  // namespace nest::launch
