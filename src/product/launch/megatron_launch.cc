// pretrain_gpt.py's options -> a setup, with the defaults and refusals of its own validation.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/text.h"
#include "launch/fsdp_options.h"
#include "launch/megatron_deepspeed.h"
#include "launch/options.h"
#include "launch/pipeline_text.h"
#include "launch/setup.h"
#include "launch/stack_options.h"

namespace nest::launch {
namespace {

constexpr std::int64_t kMostLayers = 1 << 14;
constexpr std::int64_t kMostDepths = 64;  // that predict further tokens
constexpr std::int64_t kMostWidth = 1 << 24;
constexpr std::int64_t kMostRanks = 1 << 24;
constexpr std::int64_t kMostSequence = std::int64_t{1} << 31;
constexpr std::int64_t kMostBatch = std::int64_t{1} << 32;

class MegatronReader {
 public:
  MegatronReader(std::string_view source, const TrainingCommand& command)
      : options_(std::string(source), command.arguments), command_(command) {
    setup_.source = source;
  }

  LaunchSetup run(const ReadNamedFile& read_file) {
    setup_.notes = command_.notes;
    read_world();
    read_model();
    read_run();
    read_parallel();
    read_pipeline();
    read_sharding();
    read_recomputation();
    read_stack_options(options_, command_.environment, setup_);
    if (is_deepspeed()) read_megatron_deepspeed(options_, setup_, read_file);
    say_what_is_left_out();
    return std::move(setup_);
  }

 private:
  // Megatron-DeepSpeed, which has words of its own.
  bool is_deepspeed() const { return is_megatron_deepspeed(options_); }

  std::int64_t size_or(std::string_view name, std::int64_t otherwise, std::int64_t most) const {
    return options_.integer(name, 1, most).value_or(otherwise);
  }

  void read_world() {
    setup_.world = command_.world();
    for (const LaunchCount& count : {command_.hosts, command_.ranks_per_host, command_.ranks}) {
      if (!setup_.world && !count.value && !count.unknown.empty()) setup_.world_unknown = count.unknown;
    }
    // Under DeepSpeed's launcher and older scripts.
    if (const auto world = options_.integer("--world-size", 1, kMostRanks)) setup_.world = world;
  }

  void copy_size(const char* option, const char* key, std::int64_t most) {
    if (const auto value = options_.integer(option, 1, most)) setup_.model_config[key] = *value;
  }
  void copy_flag(const char* option, const char* key) {
    if (options_.flag(option)) setup_.model_config[key] = true;
  }

  void read_model() {
    const auto layers = options_.integer("--num-layers", 1, kMostLayers);
    const auto hidden = options_.integer("--hidden-size", 1, kMostWidth);
    const auto heads = options_.integer("--num-attention-heads", 1, kMostWidth);
    if (!layers || !hidden || !heads) {
      if (layers || hidden || heads) {
        setup_.notes.emplace_back("the text gives only some of --num-layers, --hidden-size and --num-attention-heads");
      }
      return;
    }
    auto& config = setup_.model_config;
    config = {
        {"model_type", "megatron"}, {"num_layers", *layers}, {"hidden_size", *hidden}, {"num_attention_heads", *heads}};
    const bool swiglu = options_.flag("--swiglu");
    config["ffn_hidden_size"] =
        size_or("--ffn-hidden-size", swiglu ? 8 * *hidden / 3 / 64 * 64 : 4 * *hidden, kMostWidth);
    copy_size("--kv-channels", "kv_channels", kMostWidth);
    if (options_.flag("--group-query-attention"))
      config["num_query_groups"] = size_or("--num-query-groups", 1, kMostWidth);
    copy_flag("--swiglu", "swiglu");
    copy_flag("--squared-relu", "squared_relu");
    copy_flag("--qk-layernorm", "qk_layernorm");
    copy_flag("--add-qkv-bias", "add_qkv_bias");
    copy_flag("--untie-embeddings-and-output-weights", "untie_embeddings_and_output_weights");
    if (options_.flag("--disable-bias-linear")) config["add_bias_linear"] = false;
    const char* const norms[] = {is_deepspeed() ? "layernorm" : "LayerNorm", is_deepspeed() ? "rmsnorm" : "RMSNorm"};
    if (const auto norm = options_.choice("--normalization", {norms[0], norms[1]})) {
      config["normalization"] = *norm == norms[0] ? "LayerNorm" : "RMSNorm";
    }
    config["position_embedding_type"] = position_kind();
    copy_size("--max-position-embeddings", "max_position_embeddings", kMostSequence);
    if (const auto share = options_.number("--rotary-percent", 0, 1)) config["rotary_percent"] = *share;
    read_window();
    if (const auto dropout = options_.number("--hidden-dropout", 0, 1)) config["hidden_dropout"] = *dropout;
    if (const auto dropout = options_.number("--attention-dropout", 0, 1)) config["attention_dropout"] = *dropout;
    read_vocabulary();
    read_latent_attention();
    read_experts(*layers);
  }

  // Keys before a query and after it, of which causal attention has none; -1 is all.
  void read_window() {
    const std::vector<std::int64_t> sides = options_.tuple("--window-size", -1, kMostSequence - 1, 2);
    if (!sides.empty() && sides.front() >= 0) setup_.model_config["window_size"] = sides.front() + 1;
  }

  std::string position_kind() {
    const auto kind =
        options_.choice("--position-embedding-type", {"learned_absolute", "rope", "yarn", "mrope", "relative", "none"});
    if (options_.flag("--use-rotary-position-embeddings")) return "rope";
    if (!kind) return "learned_absolute";
    return *kind == "yarn" || *kind == "mrope" ? "rope" : *kind;  // the same cost
  }

  void read_vocabulary() {
    auto vocabulary = options_.integer("--padded-vocab-size", 1, kMostWidth * 4);
    if (!vocabulary) vocabulary = options_.integer("--vocab-size", 1, kMostWidth * 4);
    // Without either the tokenizer decides, which is out of reach: the config stays incomplete.
    if (vocabulary) setup_.model_config["vocab_size"] = *vocabulary;
  }

  void read_latent_attention() {
    if (!options_.flag("--multi-latent-attention")) return;
    if (options_.flag("--group-query-attention")) {
      options_.fail("--group-query-attention", "Megatron refuses it beside --multi-latent-attention");
    }
    setup_.model_config["multi_latent_attention"] = true;
    copy_size("--q-lora-rank", "q_lora_rank", kMostWidth);
    copy_size("--kv-lora-rank", "kv_lora_rank", kMostWidth);
    copy_size("--qk-head-dim", "qk_head_dim", kMostWidth);
    copy_size("--qk-pos-emb-head-dim", "qk_pos_emb_head_dim", kMostWidth);
    copy_size("--v-head-dim", "v_head_dim", kMostWidth);
    setup_.model_config.erase("qk_layernorm");  // of the latents, which always have norms
  }

  void read_experts(std::int64_t layers) {
    const std::vector<std::string> experts = options_.texts("--num-experts");
    if (experts.empty()) return;
    if (experts.size() > 1) options_.fail("--num-experts", "different numbers of experts are not supported");
    if (is_deepspeed() && experts.front() == "1") return;  // its word for none
    setup_.model_config["num_experts"] = options_.integer("--num-experts", 1, kMostLayers).value_or(1);
    setup_.model_config["moe_router_topk"] = size_or("--moe-router-topk", 2, kMostLayers);
    copy_size("--moe-router-num-groups", "moe_router_num_groups", kMostLayers);
    copy_size("--moe-router-group-topk", "moe_router_group_topk", kMostLayers);
    copy_size("--moe-ffn-hidden-size", "moe_ffn_hidden_size", kMostWidth);
    copy_size("--moe-shared-expert-intermediate-size", "moe_shared_expert_intermediate_size", kMostWidth);
    const auto frequency = options_.text("--moe-layer-freq");
    if (!frequency) return;
    const auto list = parse_layer_frequency(*frequency, layers);
    if (!list) {
      options_.fail("--moe-layer-freq",
                    fmt::format("found `{}`; expected a whole number, or a list of 0 and 1 for {} layers such as "
                                "([0]*3+[1]*{})",
                                clip(*frequency, 40), layers, std::max<std::int64_t>(0, layers - 3)));
    }
    setup_.model_config["moe_layer_freq"] = *list;
  }

  void read_run() {
    setup_.sequence = options_.integer("--seq-length", 1, kMostSequence);
    setup_.micro_batch = options_.integer("--micro-batch-size", 1, kMostRanks);
    setup_.global_batch = options_.integer("--global-batch-size", 1, kMostBatch);
    if (options_.flag("--bf16") && options_.flag("--fp16")) options_.fail("--fp16", "contradicts --bf16");
    setup_.precision = options_.flag("--bf16")   ? Precision::bf16
                       : options_.flag("--fp16") ? Precision::fp16
                                                 : Precision::fp32;
    if (options_.choice("--fp8-format", {"e4m3", "hybrid"})) setup_.precision = Precision::fp8;
    if (options_.choice("--fp4-format", {"e2m1"})) {
      if (options_.has("--fp8-format")) options_.fail("--fp4-format", "contradicts --fp8-format");
      setup_.precision = Precision::fp4;
    }
    read_optimizer();
  }

  void read_context_exchange() {
    std::vector<std::string> kinds = options_.texts("--cp-comm-type");
    // Help says allgather, and Transformer Engine takes all_gather.
    std::replace(kinds.begin(), kinds.end(), std::string("allgather"), std::string("all_gather"));
    if (!kinds.empty()) {
      const auto* const known = std::find_if(kContextWords.begin(), kContextWords.end(),
                                             [&](const auto& word) { return kinds.front() == word.text; });
      if (known == kContextWords.end()) {
        options_.fail("--cp-comm-type",
                      fmt::format("`{}` is none of p2p, all_gather, a2a and a2a+p2p", clip(kinds.front(), 40)));
      }
      setup_.cp_comm = known->value;
      if (std::any_of(kinds.begin(), kinds.end(), [&](const std::string& kind) { return kind != kinds.front(); })) {
        setup_.notes.emplace_back("--cp-comm-type differs from layer to layer; all are modelled as the first");
      }
    }
    if (setup_.cp_comm != ContextExchange::a2a_p2p || setup_.cp == 1) return;
    const std::vector<std::string> sizes = options_.texts("--hierarchical-context-parallel-sizes");
    const auto size = [&](std::size_t k) {
      std::int64_t value = 0;
      if (k < sizes.size()) std::from_chars(sizes[k].data(), sizes[k].data() + sizes[k].size(), value);
      return value;
    };
    const std::int64_t inner = size(0), outer = size(1);
    if (sizes.size() != 2 || inner < 1 || outer < 1 || inner > kMostRanks || outer > kMostRanks ||
        inner * outer != setup_.cp) {
      options_.fail("--hierarchical-context-parallel-sizes",
                    fmt::format("must be two numbers whose product is --context-parallel-size {}", setup_.cp));
    }
    setup_.cp_inner = inner;
    // One level is one of the plain kinds.
    if (inner == 1) setup_.cp_comm = ContextExchange::p2p;
    if (outer == 1) setup_.cp_comm = ContextExchange::a2a;
    if (outer == 1) setup_.cp_inner = 1;
  }

  void read_optimizer() {
    const std::string optimizer = options_.text("--optimizer").value_or("adam");
    setup_.optimizer = optimizer == "sgd" ? Optimizer::sgd : is_muon(optimizer) ? Optimizer::muon : Optimizer::adam;
    if (optimizer != "sgd" && optimizer != "adam" && !is_muon(optimizer)) {
      setup_.notes.push_back(fmt::format("optimizer {} is modelled as adam", clip(optimizer, 20)));
    }
    if (setup_.optimizer == Optimizer::adam) return;
    if (options_.flag("--use-precision-aware-optimizer")) {
      options_.fail("--use-precision-aware-optimizer", fmt::format("needs --optimizer adam, not {}", optimizer));
    }
    if (setup_.optimizer != Optimizer::muon) return;
    for (const char* option : {"--use-megatron-fsdp", "--use-torch-fsdp2"}) {
      if (options_.flag(option)) options_.fail(option, "needs --optimizer adam or sgd, not muon");
    }
  }

  // dist_muon is the older word for muon with a distributed optimizer.
  static bool is_muon(std::string_view optimizer) { return optimizer == "muon" || optimizer == "dist_muon"; }

  void read_parallel() {
    setup_.tp = size_or("--tensor-model-parallel-size", 1, kMostRanks);
    setup_.cp = size_or("--context-parallel-size", 1, kMostRanks);
    read_context_exchange();
    setup_.pp = size_or("--pipeline-model-parallel-size", 1, kMostRanks);
    setup_.ep = size_or("--expert-model-parallel-size", 1, kMostRanks);
    setup_.expert_tp = options_.integer("--expert-tensor-parallel-size", 1, kMostRanks).value_or(0);
    setup_.sp = options_.flag("--sequence-parallel") && setup_.tp > 1;
    setup_.replicas_last = options_.flag("--use-tp-pp-dp-mapping");
    if (options_.flag("--sequence-parallel") && setup_.tp == 1) {
      setup_.notes.emplace_back("--sequence-parallel does nothing without tensor parallelism");
    }
    const bool has_model = !setup_.model_config.is_null();
    if (has_model && setup_.ep > 1 && !options_.has("--num-experts")) {
      options_.fail("--expert-model-parallel-size", "needs --num-experts");
    }
    if (has_model && options_.has("--moe-ffn-hidden-size") && !options_.has("--num-experts")) {
      options_.fail("--moe-ffn-hidden-size", "needs --num-experts");
    }
  }

  void read_pipeline() {
    constexpr const char* kLayout = "--pipeline-model-parallel-layout";
    constexpr const char* kPerStage = "--num-layers-per-virtual-pipeline-stage";
    constexpr const char* kPerRank = "--num-virtual-stages-per-pipeline-rank";
    const int given =
        (options_.has(kLayout) ? 1 : 0) + (options_.has(kPerStage) ? 1 : 0) + (options_.has(kPerRank) ? 1 : 0);
    if (given > 1) {
      options_.fail(options_.has(kLayout) ? kLayout : kPerStage, "at most one option may say how stages are divided");
    }
    setup_.mtp_layers = options_.integer("--mtp-num-layers", 0, kMostDepths).value_or(0);
    setup_.group = options_.integer("--microbatch-group-size-per-virtual-pipeline-stage", 1, kMostRanks).value_or(0);
    if (const auto layout = options_.text(kLayout)) return read_layout(*layout, kLayout);
    const auto layers = options_.integer("--num-layers", 1, kMostLayers);
    if (const auto per_stage = options_.integer(kPerStage, 1, kMostLayers)) {
      if (!layers || *layers % (setup_.pp * *per_stage) != 0) {
        options_.fail(kPerStage,
                      fmt::format("{} layers a chunk on {} stages do not divide the layers", *per_stage, setup_.pp));
      }
      setup_.vpp = *layers / (setup_.pp * *per_stage);
    }
    setup_.vpp = options_.integer(kPerRank, 1, kMostLayers).value_or(setup_.vpp);
    if (setup_.vpp > 1 && setup_.pp == 1)
      options_.fail(options_.has(kPerRank) ? kPerRank : kPerStage, "needs a pipeline");
    if (layers) spread_layers(*layers);
  }

  void read_layout(const std::string& text, const char* option) {
    for (const char* other : {"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
                              "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"}) {
      if (options_.has(other)) options_.fail(other, fmt::format("contradicts {}", option));
    }
    std::int64_t mtp = 0;
    std::string reason;
    auto chunks = parse_layout(text, mtp, reason);
    if (!chunks) options_.fail(option, fmt::format("`{}`: {}", clip(text, 40), reason));
    const auto count = static_cast<std::int64_t>(chunks->size());
    if (count % setup_.pp != 0) {
      options_.fail(option, fmt::format("{} stages do not divide over {} pipeline ranks", count, setup_.pp));
    }
    if (options_.has("--mtp-num-layers") && mtp != setup_.mtp_layers) {
      options_.fail(option, fmt::format("it has {} m; --mtp-num-layers says {}", mtp, setup_.mtp_layers));
    }
    setup_.mtp_layers = mtp;
    check_further_tokens(*chunks, text, option);
    std::int64_t blocks = 0;
    for (const LaunchChunk& chunk : *chunks) blocks += chunk.blocks;
    const auto layers = options_.integer("--num-layers", 1, kMostLayers);
    if (layers && blocks != *layers) {
      options_.fail(option, fmt::format("it has {} layers; --num-layers says {}", blocks, *layers));
    }
    setup_.vpp = count / setup_.pp;
    setup_.chunks = std::move(*chunks);
  }

  // As Megatron's PipelineParallelLayerLayout has it: in one chunk, the last of its rank.
  void check_further_tokens(const std::vector<LaunchChunk>& chunks, const std::string& text, const char* option) {
    bool seen = false;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const char* wrong = nullptr;
      if (seen && chunks[i].mtp > 0) wrong = "all m stand in one chunk";
      if (chunks[i].mtp > 0 && i + static_cast<std::size_t>(setup_.pp) < chunks.size()) {
        wrong = "m stands in the last chunk of its pipeline rank";
      }
      if (wrong != nullptr) options_.fail(option, fmt::format("`{}`: {}", clip(text, 40), wrong));
      seen = seen || chunks[i].mtp > 0;
    }
  }

  // first, last and account-for: blocks of every stage, then over its chunks.
  void spread_layers(std::int64_t layers) {
    const auto first = options_.integer("--decoder-first-pipeline-num-layers", 1, kMostLayers);
    const auto last = options_.integer("--decoder-last-pipeline-num-layers", 1, kMostLayers);
    const bool embedding = options_.flag("--account-for-embedding-in-pipeline-split");
    const bool loss = options_.flag("--account-for-loss-in-pipeline-split");
    if (!first && !last && !embedding && !loss) {
      if (layers % setup_.pp != 0) {
        options_.fail("--pipeline-model-parallel-size",
                      fmt::format("{} stages do not divide the {} layers", setup_.pp, layers));
      }
      return check_chunks({layers / setup_.pp});
    }
    if ((first || last) && (embedding || loss)) {
      options_.fail("--account-for-embedding-in-pipeline-split",
                    "contradicts --decoder-first/last-pipeline-num-layers");
    }
    if (setup_.pp > layers + 2) {
      options_.fail("--pipeline-model-parallel-size",
                    fmt::format("{} stages are more than the {} layers", setup_.pp, layers));
    }
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(setup_.pp), 0);
    if (embedding || loss) {
      const std::int64_t padded = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
      if (padded % setup_.pp != 0) {
        options_.fail(
            "--pipeline-model-parallel-size",
            fmt::format("{} stages do not divide the {} layers, embedding and loss counted", setup_.pp, padded));
      }
      std::fill(blocks.begin(), blocks.end(), padded / setup_.pp);
      check_chunks({padded / setup_.pp});
      blocks.front() -= embedding ? 1 : 0;
      blocks.back() -= loss ? 1 : 0;
    } else {
      spread_between(layers, first, last, blocks);
      check_chunks(blocks);
    }
    set_chunks(blocks);
  }

  void spread_between(std::int64_t layers, std::optional<std::int64_t> first, std::optional<std::int64_t> last,
                      std::vector<std::int64_t>& blocks) {
    const std::int64_t rest = layers - first.value_or(0) - last.value_or(0);
    const std::int64_t between = setup_.pp - (first ? 1 : 0) - (last ? 1 : 0);
    if (setup_.pp < 2 || rest < 0 || between < 0 || (between == 0) != (rest == 0) ||
        (between > 0 && rest % between != 0)) {
      options_.fail(first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers",
                    fmt::format("{} layers are left for {} stages between", rest, between));
    }
    if (between > 0) std::fill(blocks.begin(), blocks.end(), rest / between);
    if (first) blocks.front() = *first;
    if (last) blocks.back() = *last;
  }

  void check_chunks(const std::vector<std::int64_t>& blocks) {
    for (const std::int64_t count : blocks) {
      if (count % setup_.vpp != 0) {
        options_.fail("--num-virtual-stages-per-pipeline-rank",
                      fmt::format("{} chunks do not divide a stage of {} layers", setup_.vpp, count));
      }
    }
  }

  void set_chunks(const std::vector<std::int64_t>& blocks) {
    for (std::int64_t chunk = 0; chunk < setup_.vpp; ++chunk) {
      for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
        const std::int64_t share = blocks[stage] / setup_.vpp;
        const std::int64_t extra = chunk == setup_.vpp - 1 ? blocks[stage] % setup_.vpp : 0;
        setup_.chunks.push_back(
            {chunk == 0 && stage == 0, share + extra, chunk + 1 == setup_.vpp && stage + 1 == blocks.size()});
      }
    }
  }

  void read_sharding() {
    setup_.shard_instances = size_or("--num-distributed-optimizer-instances", 1, kMostRanks);
    const bool layer_wise = options_.text("--optimizer").value_or("") == "dist_muon";
    setup_.zero = options_.flag("--use-distributed-optimizer") || layer_wise ? 1 : 0;
    if (options_.flag("--use-megatron-fsdp")) {
      read_fsdp_options(options_, setup_);
    } else if (options_.flag("--use-torch-fsdp2")) {
      setup_.zero = options_.flag("--torch-fsdp2-no-reshard-after-forward") ? 2 : 3;
    }
    const bool shards = setup_.zero > 0;
    if (options_.flag("--overlap-param-gather") && !shards) {
      options_.fail("--overlap-param-gather", "needs --use-distributed-optimizer or --use-megatron-fsdp");
    }
    if (options_.flag("--overlap-param-gather") && !options_.flag("--overlap-grad-reduce")) {
      options_.fail("--overlap-param-gather", "needs --overlap-grad-reduce");
    }
  }

  void read_recomputation() {
    auto granularity = options_.choice("--recompute-granularity", {"full", "selective"});
    if (options_.flag("--recompute-activations")) granularity = "selective";
    const auto method = options_.choice("--recompute-method", {"uniform", "block"});
    const auto layers = options_.integer("--recompute-num-layers", 1, kMostLayers);
    if (options_.flag("--checkpoint-activations")) {
      if (!is_deepspeed())
        options_.fail("--checkpoint-activations", "Megatron refuses it; it is --recompute-activations now");
      setup_.recompute = Recompute::full;
    }
    if (!granularity) return;
    if (*granularity == "selective") {
      if (method || layers)
        options_.fail("--recompute-granularity", "selective takes neither method nor number of layers");
      setup_.recompute = Recompute::selective;
      return;
    }
    if (!method || !layers)
      options_.fail("--recompute-granularity", "full needs --recompute-method and --recompute-num-layers");
    const bool block = *method == "block";
    const auto count = static_cast<std::int32_t>(*layers);
    setup_.recompute = Recompute::full;
    if (block || count > 1) {
      setup_.recompute = Recomputation::of_layers(block ? Recompute::block : Recompute::uniform, count);
    }
  }

  void say_what_is_left_out() {
    if (options_.has("--rampup-batch-size")) setup_.notes.emplace_back("--rampup-batch-size is not modelled");
    for (const std::string& name : options_.unseen()) {
      setup_.notes.push_back(
          fmt::format("{} is not set in the text: options it may hold were not seen (--define sets it)", name));
    }
    if (options_.unknown().empty()) return;
    constexpr std::size_t kShown = 4;
    std::vector<std::string> shown(
        options_.unknown().begin(),
        options_.unknown().begin() + static_cast<std::ptrdiff_t>(std::min(kShown, options_.unknown().size())));
    const std::size_t more = options_.unknown().size() - shown.size();
    setup_.notes.push_back(fmt::format("not known to nest, and not modelled: {}{}", join_words(shown),
                                       more > 0 ? fmt::format(" and {} more", more) : ""));
  }

  LaunchOptions options_;
  const TrainingCommand& command_;
  LaunchSetup setup_;
};

}  // namespace

LaunchSetup read_megatron_launch(std::string_view source, const TrainingCommand& command,
                                 const ReadNamedFile& read_file) {
  return MegatronReader(source, command).run(read_file);
}

}  // namespace nest::launch
