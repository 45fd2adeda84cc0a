#include "accuracy/settings.h"

#include <cctype>

#include "base/index.h"
#include "base/text.h"

namespace nest::accuracy {
namespace {

std::vector<std::string> words_of(const doc::Value* list) {
  std::vector<std::string> words;
  if (!list || !list->as_array()) return words;
  for (const doc::Value& word : *list->as_array()) {
    if (word.as_string()) words.push_back(*word.as_string());
  }
  return words;
}

std::string word(const Fields& fields, const char* key) { return to_lower(fields.text(key).value_or("")); }

void read_formats(const Fields& row, Settings& settings) {
  settings.precision_recipe = row.text("precision_recipe");
  settings.main_params = row.text("main_params_dtype");
  settings.main_gradients = row.text("main_grads_dtype");
  settings.first_moment = row.text("exp_avg_dtype");
  settings.second_moment = row.text("exp_avg_sq_dtype");
  settings.gather_fp8 = row.flag("fp8_param_gather");
  settings.gather_fp4 = row.flag("fp4_param_gather");
  settings.fp8_attention = row.flag("fp8_attention");
  settings.fp8_head = row.flag("fp8_output_proj");
  settings.reduce_in_fp32 = row.flag("grad_reduce_in_fp32");
  settings.optimizer = word(row, "optimizer");
}

void read_overlap(const Fields& row, Settings& settings) {
  settings.distributed_optimizer = row.flag("distributed_optimizer");
  settings.megatron_fsdp = row.flag("megatron_fsdp");
  settings.optimizer_instances = row.integer("num_distributed_optimizer_instances");
  settings.outer_sharding = word(row, "outer_dp_sharding_strategy") == "optim";
  settings.overlap_gradients = row.flag("overlap_grad_reduce");
  settings.overlap_weights = row.flag("overlap_param_gather");
  settings.overlap_tensor = row.flag("tp_comm_overlap");
  settings.overlap_experts = row.flag("ep_overlap");
  settings.delay_weight_gradients = row.flag("delay_wgrad");
  settings.overlap_shared_experts = row.flag("shared_expert_overlap");
  settings.context_exchange = word(row, "cp_comm_type");
}

void read_experts(const Fields& row, Settings& settings) {
  settings.dispatcher = word(row, "dispatcher");
  settings.dispatcher_sms = row.integer("dispatcher_sms");
  settings.forced_balance = row.flag("force_balanced_routing");
  settings.drop_capacity = row.number("token_drop_capacity_factor");
  settings.overload = row.number("rank_overload_mean");
  const Fields stash = row.object("paged_stash");
  settings.rank_capacity = stash.number("rank_capacity_factor");
  settings.stash_on_device = stash.number("buffer_cuda");
  settings.grouped_mlp = row.flag("fused_grouped_mlp");
  settings.grouped_gemm = row.flag("grouped_gemm");
  settings.permute_fusion = row.flag("permute_fusion");
  settings.router_fusion = row.flag("router_fusion");
}

void read_memory(const Fields& row, Settings& settings) {
  settings.extra_layers = row.integer("mtp_layers");
  settings.layout = row.text("pipeline_layout").value_or("").substr(0, 4000);
  settings.offloaded_layers = row.integer("activation_offload_layers");
  settings.offloaded_optimizer = row.number("optimizer_offload_fraction");
  const Fields kept = row.object("kept_activations");
  for (const char* name : {"decoder_layer_input", "mlpwo", "query_proj", "key_proj", "value_proj", "out_proj"}) {
    settings.offloaded_activations = settings.offloaded_activations || word(kept, name) == "offload";
  }
  if (const auto allocator = row.object("env").text("PYTORCH_CUDA_ALLOC_CONF"))
    settings.expandable_segments = allocator->find("expandable_segments:True") != std::string::npos;
}

// A reader of layouts: text -> the same text without repetitions. Long results are refused: rows are not trusted.
class LayoutText {
 public:
  explicit LayoutText(const std::string& text) : text_(text) {}

  std::optional<std::string> expanded() {
    const auto all = sequence(0);
    return all && at_ == text_.size() ? all : std::nullopt;
  }

 private:
  static constexpr std::size_t kLongest = 20'000;
  static constexpr int kDeepest = 8;

  std::optional<std::string> sequence(int depth) {
    std::string all;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string item(1, text_[at_++]);
      if (item == "(") {
        const auto inner = depth < kDeepest ? sequence(depth + 1) : std::nullopt;
        if (!inner || at_ >= text_.size()) return std::nullopt;
        ++at_;
        item = *inner;
      }
      const auto times = repetitions();
      if (!times || all.size() + item.size() * *times > kLongest) return std::nullopt;
      for (std::size_t i = 0; i < *times; ++i) all += item;
    }
    return all;
  }

  std::optional<std::size_t> repetitions() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    std::size_t times = 0;
    const std::size_t first = ++at_;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) && at_ - first < 5)
      times = times * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    return at_ > first ? std::optional(times) : std::nullopt;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

Settings read_settings(const Fields& row) {
  Settings settings;
  settings.stated = !row.empty();
  settings.framework = word(row, "framework");
  read_formats(row, settings);
  read_overlap(row, settings);
  read_experts(row, settings);
  read_memory(row, settings);
  const Fields graph = row.object("cuda_graph");
  settings.graphs = word(graph, "impl");
  settings.graph_scopes = words_of(graph.value("scope"));
  settings.loss = word(row, "cross_entropy_fusion");
  settings.unfused_attention = word(row, "attention_backend").find("unfused") != std::string::npos;
  settings.schedule = word(row, "schedule");
  return settings;
}

std::optional<std::vector<StageLetters>> read_layout(const std::string& text, std::int64_t stages) {
  const auto plain = LayoutText(text).expanded();
  if (!plain || plain->empty() || stages < 1) return std::nullopt;
  std::vector<StageLetters> result(at(stages));
  std::int64_t chunk = 0;
  for (const char letter : *plain) {
    StageLetters& stage = result[at(chunk % stages)];
    switch (letter) {
      case 'E': ++stage.embedding; break;
      case 't': ++stage.layers; break;
      case 'm': ++stage.extra; break;
      case 'L': ++stage.loss; break;
      case '|': ++chunk; break;
      default: return std::nullopt;
    }
  }
  return (chunk + 1) % stages == 0 ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace nest::accuracy
