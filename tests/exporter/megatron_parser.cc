#include "megatron_parser.h"

#include <algorithm>
#include <regex>
#include <set>
#include <sstream>

namespace nest::test {
namespace {

enum class Kind { flag, integer, real, word, words };

struct Rule {
  Kind kind = Kind::flag;
  std::set<std::string> choices = {};
};

const std::set<std::string> kRecomputeModules = {
    "core_attn",      "moe_act",      "layernorm",   "mla_up_proj", "mlp", "moe",
    "shared_experts", "gdn_norm_out", "gdp_in_proj", "gdp_qkv",     "mhc"};

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all = {
      {"--num-layers", {Kind::integer}},
      {"--hidden-size", {Kind::integer}},
      {"--ffn-hidden-size", {Kind::integer}},
      {"--num-attention-heads", {Kind::integer}},
      {"--kv-channels", {Kind::integer}},
      {"--group-query-attention", {}},
      {"--num-query-groups", {Kind::integer}},
      {"--seq-length", {Kind::integer}},
      {"--max-position-embeddings", {Kind::integer}},
      {"--position-embedding-type", {Kind::word, {"learned_absolute", "rope", "yarn", "mrope", "relative", "none"}}},
      {"--rotary-percent", {Kind::real}},
      {"--window-size", {Kind::word}},
      {"--rotary-base", {Kind::integer}},
      {"--rotary-seq-len-interpolation-factor", {Kind::integer}},
      {"--use-rope-scaling", {}},
      {"--rope-scaling-factor", {Kind::real}},
      {"--rope-type", {Kind::word, {"rope", "yarn"}}},
      {"--rotary-scaling-factor", {Kind::real}},
      {"--mscale", {Kind::real}},
      {"--mscale-all-dim", {Kind::real}},
      {"--yarn-original-max-position-embeddings", {Kind::integer}},
      {"--yarn-beta-fast", {Kind::real}},
      {"--yarn-beta-slow", {Kind::real}},
      {"--norm-epsilon", {Kind::real}},
      {"--apply-layernorm-1p", {}},
      {"--init-method-std", {Kind::real}},
      {"--moe-router-score-function", {Kind::word, {"softmax", "sigmoid", "sqrtsoftplus"}}},
      {"--moe-router-topk-scaling-factor", {Kind::real}},
      {"--moe-router-enable-expert-bias", {}},
      {"--moe-aux-loss-coeff", {Kind::words}},
      {"--no-create-attention-mask-in-dataloader", {}},
      {"--normalization", {Kind::word, {"LayerNorm", "RMSNorm"}}},
      {"--swiglu", {}},
      {"--squared-relu", {}},
      {"--disable-bias-linear", {}},
      {"--add-qkv-bias", {}},
      {"--qk-layernorm", {}},
      {"--untie-embeddings-and-output-weights", {}},
      {"--attention-dropout", {Kind::real}},
      {"--hidden-dropout", {Kind::real}},
      {"--multi-latent-attention", {}},
      {"--q-lora-rank", {Kind::integer}},
      {"--kv-lora-rank", {Kind::integer}},
      {"--qk-head-dim", {Kind::integer}},
      {"--qk-pos-emb-head-dim", {Kind::integer}},
      {"--v-head-dim", {Kind::integer}},
      {"--num-experts", {Kind::integer}},
      {"--moe-router-topk", {Kind::integer}},
      {"--moe-ffn-hidden-size", {Kind::integer}},
      {"--moe-layer-freq", {Kind::word}},
      {"--moe-shared-expert-intermediate-size", {Kind::integer}},
      {"--moe-shared-expert-overlap", {}},
      {"--moe-grouped-gemm", {}},
      {"--moe-token-dispatcher-type", {Kind::word, {"allgather", "alltoall", "flex"}}},
      {"--moe-flex-dispatcher-backend", {Kind::word, {"deepep", "hybridep", "ncclep"}}},
      {"--moe-router-num-groups", {Kind::integer}},
      {"--moe-router-group-topk", {Kind::integer}},
      {"--overlap-moe-expert-parallel-comm", {}},
      {"--moe-flex-dispatcher-num-sms", {Kind::integer}},
      {"--moe-expert-capacity-factor", {Kind::real}},
      {"--moe-pad-expert-input-to-capacity", {}},
      {"--moe-expert-rank-capacity-factor", {Kind::real}},
      {"--moe-paged-stash", {}},
      {"--moe-paged-stash-buffer-size-factor-cuda", {Kind::real}},
      {"--use-transformer-engine-op-fuser", {}},
      {"--cuda-graph-impl", {Kind::word, {"none", "local", "transformer_engine", "full_iteration"}}},
      {"--cuda-graph-modules", {Kind::words, {"attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"}}},
      {"--no-check-for-nan-in-loss-and-grad", {}},
      {"--cross-entropy-loss-fusion", {}},
      {"--deterministic-mode", {}},
      {"--attention-backend", {Kind::word, {"flash", "fused", "unfused", "local", "auto"}}},
      {"--fp8-dot-product-attention", {}},
      {"--fp8-param-gather", {}},
      {"--fp8-output-proj", {}},
      {"--moe-router-fusion", {}},
      {"--fp4-param-gather", {}},
      {"--reuse-grad-buf-for-mxfp8-param-ag", {}},
      {"--fine-grained-activation-offloading", {}},
      {"--offload-modules",
       {Kind::words,
        {"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act", "fused_group_mlp"}}},
      {"--fine-grained-offloading-max-inflight-offloads", {Kind::integer}},
      {"--optimizer-cpu-offload", {}},
      {"--optimizer-offload-fraction", {Kind::real}},
      {"--overlap-cpu-optimizer-d2h-h2d", {}},
      {"--use-precision-aware-optimizer", {}},
      {"--main-grads-dtype", {Kind::word, {"fp32", "bf16"}}},
      {"--exp-avg-dtype", {Kind::word, {"fp32", "fp16", "bf16", "fp8"}}},
      {"--exp-avg-sq-dtype", {Kind::word, {"fp32", "fp16", "bf16", "fp8"}}},
      {"--mtp-num-layers", {Kind::integer}},
      {"--tensor-model-parallel-size", {Kind::integer}},
      {"--sequence-parallel", {}},
      {"--tp-comm-overlap", {}},
      {"--pipeline-model-parallel-size", {Kind::integer}},
      {"--pipeline-model-parallel-layout", {Kind::word}},
      {"--num-virtual-stages-per-pipeline-rank", {Kind::integer}},
      {"--microbatch-group-size-per-virtual-pipeline-stage", {Kind::integer}},
      {"--num-layers-per-virtual-pipeline-stage", {Kind::integer}},
      {"--no-overlap-p2p-communication", {}},
      {"--overlap-p2p-communication-warmup-flush", {}},
      {"--no-align-grad-reduce", {}},
      {"--context-parallel-size", {Kind::integer}},
      {"--cp-comm-type", {Kind::words, {"p2p", "a2a", "all_gather", "a2a+p2p"}}},
      {"--hierarchical-context-parallel-sizes", {Kind::words}},
      {"--expert-model-parallel-size", {Kind::integer}},
      {"--expert-tensor-parallel-size", {Kind::integer}},
      {"--use-tp-pp-dp-mapping", {}},
      {"--use-distributed-optimizer", {}},
      {"--num-distributed-optimizer-instances", {Kind::integer}},
      {"--overlap-grad-reduce", {}},
      {"--overlap-param-gather", {}},
      {"--grad-reduce-in-bf16", {}},
      {"--use-megatron-fsdp", {}},
      {"--data-parallel-sharding-strategy", {Kind::word, {"no_shard", "optim", "optim_grads", "optim_grads_params"}}},
      {"--outer-dp-sharding-strategy", {Kind::word, {"no_shard", "optim"}}},
      {"--megatron-fsdp-main-grads-dtype", {Kind::word, {"fp32", "bf16", "fp16", "auto"}}},
      {"--megatron-fsdp-grad-comm-dtype", {Kind::word, {"fp32", "bf16", "fp16", "auto"}}},
      {"--fsdp-double-buffer", {}},
      {"--megatron-fsdp-max-pool-double-buffer", {}},
      {"--ckpt-format", {Kind::word, {"torch", "torch_dist", "torch_dcp", "fsdp_dtensor"}}},
      {"--recompute-granularity", {Kind::word, {"full", "selective"}}},
      {"--recompute-method", {Kind::word, {"uniform", "block"}}},
      {"--recompute-num-layers", {Kind::integer}},
      {"--recompute-modules", {Kind::words, kRecomputeModules}},
      {"--micro-batch-size", {Kind::integer}},
      {"--global-batch-size", {Kind::integer}},
      {"--bf16", {}},
      {"--fp16", {}},
      {"--fp8-format", {Kind::word, {"e4m3", "hybrid"}}},
      {"--fp8-recipe", {Kind::word, {"tensorwise", "delayed", "mxfp8", "blockwise", "custom"}}},
      {"--fp4-format", {Kind::word, {"e2m1"}}},
      {"--optimizer", {Kind::word, {"adam", "sgd", "muon", "dist_muon", "lion", "soap", "adaptive_muon"}}},
      {"--defer-embedding-wgrad-compute", {}},
      {"--delay-wgrad-compute", {}},
      {"--wgrad-deferral-limit", {Kind::integer}},
      {"--train-iters", {Kind::integer}},
      {"--lr", {Kind::real}},
      {"--mock-data", {}},
      {"--tokenizer-type", {Kind::word}},
      {"--vocab-size", {Kind::integer}}};
  return all;
}

bool is_integer(const std::string& text) { return std::regex_match(text, std::regex("-?[0-9]+")); }
bool is_real(const std::string& text) {
  return std::regex_match(text, std::regex(R"(-?[0-9]*\.?[0-9]+([eE]-?[0-9]+)?)"));
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

void check_values(const std::string& name, const Rule& rule, const std::vector<std::string>& given,
                  std::vector<std::string>& problems) {
  if (rule.kind == Kind::flag && !given.empty()) problems.push_back(name + " takes no value");
  if (rule.kind == Kind::words && given.empty()) problems.push_back(name + " needs values");
  if (rule.kind != Kind::flag && rule.kind != Kind::words && given.size() != 1)
    problems.push_back(name + " needs one value");
  for (const std::string& value : given) {
    if (rule.kind == Kind::integer && !is_integer(value)) problems.push_back(name + ": no integer: " + value);
    if (rule.kind == Kind::real && !is_real(value)) problems.push_back(name + ": no number: " + value);
    if (!rule.choices.empty() && !rule.choices.contains(value)) problems.push_back(name + ": no choice: " + value);
  }
}

class Validator {
 public:
  Validator(const MegatronArguments& a, long world, std::vector<std::string>& problems)
      : a_(a), world_(world), problems_(problems) {
    tp_ = a.number("--tensor-model-parallel-size", 1);
    pp_ = a.number("--pipeline-model-parallel-size", 1);
    cp_ = a.number("--context-parallel-size", 1);
    ep_ = a.number("--expert-model-parallel-size", 1);
    etp_ = a.number("--expert-tensor-parallel-size", tp_);
    layers_ = a.number("--num-layers", 0);
    vpp_ = a.number("--num-virtual-stages-per-pipeline-rank", 1);
  }

  void run() {
    check_sizes();
    check_parallel();
    check_pipeline();
    check_data_parallel();
    check_recomputation();
    check_experts();
    check_rows();
    check_graphs();
    check_formats();
    check_host_activations();
  }
  long tp() const { return tp_; }
  long cp() const { return cp_; }

 private:
  void refuse(bool wrong, const std::string& what) {
    if (wrong) problems_.push_back(what);
  }
  bool has(const char* name) const { return a_.has(name); }

  void check_sizes() {
    for (const char* name : {"--num-layers", "--hidden-size", "--num-attention-heads", "--max-position-embeddings",
                             "--seq-length", "--micro-batch-size"}) {
      refuse(!has(name), std::string(name) + " is required");
    }
    const long heads = a_.number("--num-attention-heads", 1);
    refuse(a_.number("--max-position-embeddings", 0) < a_.number("--seq-length", 0), "positions < sequence");
    refuse(!has("--kv-channels") && a_.number("--hidden-size", 0) % heads != 0, "heads do not divide hidden");
    refuse(heads % tp_ != 0, "heads % tp");
    if (has("--group-query-attention")) {
      const long groups = a_.number("--num-query-groups", 1);
      refuse(groups % tp_ != 0 && tp_ % groups != 0, "query groups and tp");
      refuse(has("--multi-latent-attention"), "MLA with GQA");
    }
    refuse(has("--num-query-groups") && !has("--group-query-attention"), "query groups without the flag are ignored");
    refuse(has("--bf16") && has("--fp16"), "bf16 and fp16");
    refuse(has("--fp8-format") && has("--fp4-format"), "fp8 and fp4");
  }

  void check_parallel() {
    refuse(world_ % (tp_ * pp_ * cp_) != 0, "world % (tp pp cp)");
    refuse(world_ % (etp_ * ep_ * pp_) != 0, "world % (etp ep pp)");
    refuse(cp_ > 1 && a_.number("--seq-length", 0) % (2 * cp_) != 0, "seq % 2cp");
    refuse(has("--sequence-parallel") && tp_ == 1, "sequence parallel is silently off");
    refuse(has("--tp-comm-overlap") && !has("--sequence-parallel"), "tp-comm-overlap needs sp");
    refuse(has("--tp-comm-overlap") && has("--multi-latent-attention"), "tp-comm-overlap is silently off");
    refuse(has("--deterministic-mode") && (has("--tp-comm-overlap") || has("--cross-entropy-loss-fusion")),
           "determinism.py");
    if (has("--use-tp-pp-dp-mapping") && pp_ > 1) refuse(etp_ * ep_ != tp_ * cp_, "mapping needs expert-dp == dp");
    const long dp = world_ / (tp_ * pp_ * cp_);
    const long mbs = a_.number("--micro-batch-size", 1), gbs = a_.number("--global-batch-size", mbs * dp);
    refuse(gbs % (mbs * dp) != 0, "gbs % (mbs dp)");
    micro_batches_ = gbs / (mbs * dp);
  }

  void check_pipeline() {
    const int forms = (has("--pipeline-model-parallel-layout") ? 1 : 0) +
                      (has("--num-virtual-stages-per-pipeline-rank") ? 1 : 0) +
                      (has("--num-layers-per-virtual-pipeline-stage") ? 1 : 0);
    refuse(forms > 1, "more than one VPP option");
    if (has("--pipeline-model-parallel-layout")) {
      const auto stages = expand_layout(a_.word("--pipeline-model-parallel-layout", ""), problems_);
      const long count = static_cast<long>(stages.size());
      refuse(count % pp_ != 0, "layout % pp");
      vpp_ = count / pp_;
      long blocks = 0;
      for (const std::string& stage : stages) blocks += std::count(stage.begin(), stage.end(), 't');
      refuse(blocks != layers_, "layers of the layout");
      refuse(std::any_of(stages.begin(), stages.end(), [](const std::string& s) { return s.empty(); }),
             "an empty stage");
    } else {
      refuse(layers_ % pp_ != 0, "layers % pp");
      refuse(layers_ / pp_ % vpp_ != 0, "layers of a rank % vpp");
    }
    refuse(vpp_ > 1 && pp_ == 1, "VPP without PP");
    refuse(vpp_ > 1 && pp_ == 2 && has("--no-overlap-p2p-communication"), "VPP, PP 2, no overlap");
    // Groups of micro-batches: from the stages to all of a step, a last one of no fewer than the stages.
    const auto group = a_.number("--microbatch-group-size-per-virtual-pipeline-stage", pp_);
    const auto last = micro_batches_ % group;
    refuse(vpp_ > 1 && (group < pp_ || group > micro_batches_ || (last > 0 && last < pp_)), "rounds");
    refuse(has("--defer-embedding-wgrad-compute") && pp_ == 1, "deferred gradients need a pipeline");
  }

  void check_data_parallel() {
    const bool fsdp = has("--use-megatron-fsdp"), dist = has("--use-distributed-optimizer");
    refuse(has("--overlap-param-gather") && !has("--overlap-grad-reduce"), "param gather without grad reduce");
    refuse(has("--overlap-param-gather") && !dist && !fsdp, "param gather without dist-opt");
    refuse(fsdp && a_.word("--ckpt-format", "") != "fsdp_dtensor", "fsdp checkpoint format");
    refuse(has("--data-parallel-sharding-strategy") && !fsdp, "sharding strategy without fsdp");
    const long instances = a_.number("--num-distributed-optimizer-instances", 1);
    const bool whole =
        fsdp && a_.word("--data-parallel-sharding-strategy", "optim_grads_params") == "optim_grads_params";
    refuse(a_.word("--outer-dp-sharding-strategy", "no_shard") == "optim" && (!whole || instances == 1),
           "outer strategy");
    refuse(fsdp && has("--overlap-moe-expert-parallel-comm") && pp_ > 1, "expert overlap and fsdp in a pipeline");
    const bool buffers = has("--fsdp-double-buffer") || has("--megatron-fsdp-max-pool-double-buffer");
    refuse(fsdp && has("--overlap-moe-expert-parallel-comm") && buffers, "expert overlap and double buffers");
    refuse(instances > 1 && (!dist || world_ / (tp_ * pp_) % instances != 0), "instances");
    refuse(instances > 1 && has("--num-experts") && world_ / (etp_ * ep_ * pp_) % instances != 0, "experts' instances");
    refuse(instances > 1 && a_.word("--optimizer", "adam") == "muon", "instances of a layer-wise optimizer");
  }

  void check_recomputation() {
    const std::string granularity = a_.word("--recompute-granularity", "");
    const bool method = has("--recompute-method"), number = has("--recompute-num-layers");
    refuse(granularity == "full" && (!method || !number), "full needs method and number");
    refuse(granularity == "selective" && (method || number), "selective takes no method");
    refuse(granularity.empty() && (method || number || has("--recompute-modules")), "recompute options alone");
    if (!has("--recompute-modules")) return;
    for (const std::string& module : a_.values.at("--recompute-modules")) {
      refuse(module == "moe_act" && !has("--moe-grouped-gemm"), "moe_act without grouped gemm");
      refuse(module == "mla_up_proj" && !has("--multi-latent-attention"), "mla_up_proj without MLA");
      refuse((module == "moe_act" || module == "layernorm") && has("--fp8-format") &&
                 a_.word("--fp8-recipe", "delayed") == "delayed",
             "delayed fp8 with this module");
    }
  }

  void check_experts() {
    const long experts = a_.number("--num-experts", 0);
    refuse(ep_ > 1 && experts == 0, "EP without experts");
    refuse(experts > 0 && experts % ep_ != 0, "experts % ep");
    refuse(has("--moe-ffn-hidden-size") && experts == 0, "moe ffn without experts");
    refuse(experts > 0 && tp_ > 1 && !has("--sequence-parallel"), "MoE with TP needs SP");
    if (has("--moe-layer-freq")) {
      refuse(!std::regex_match(a_.word("--moe-layer-freq", ""), std::regex(R"([,0-9\[\]()+*]+)")),
             "charset of moe-layer-freq");
    }
    if (has("--overlap-moe-expert-parallel-comm")) {
      refuse(ep_ == 1 || (pp_ > 1 && vpp_ == 1) || a_.word("--recompute-granularity", "") == "full" ||
                 a_.word("--moe-token-dispatcher-type", "allgather") == "allgather",
             "expert overlap");
    }
  }

  bool lists(const char* name, const std::string& value) const {
    const auto found = a_.values.find(name);
    return found != a_.values.end() &&
           std::find(found->second.begin(), found->second.end(), value) != found->second.end();
  }

  void check_rows() {
    const std::string backend = a_.word("--moe-flex-dispatcher-backend", "deepep");
    const bool flex = a_.word("--moe-token-dispatcher-type", "allgather") == "flex";
    refuse(flex && etp_ * ep_ == 1, "flex among one rank");
    refuse(has("--moe-pad-expert-input-to-capacity") && !has("--moe-expert-capacity-factor"), "padding to no capacity");
    const bool rank = has("--moe-expert-rank-capacity-factor");
    refuse(rank && (!flex || backend == "deepep"), "rank capacity without hybridep or ncclep");
    refuse(rank && backend == "hybridep" && !has("--use-transformer-engine-op-fuser"),
           "rank capacity without op fuser");
    refuse(has("--moe-paged-stash") && !rank, "stash without rank capacity");
    refuse(has("--delay-wgrad-compute") && !has("--overlap-moe-expert-parallel-comm"), "delayed without overlap");
    refuse(has("--overlap-moe-expert-parallel-comm") &&
               (has("--moe-shared-expert-overlap") || lists("--recompute-modules", "moe") ||
                a_.number("--mtp-num-layers", 0) > 1),
           "expert overlap beside what it excludes");
  }

  void check_graphs() {
    const std::string impl = a_.word("--cuda-graph-impl", "none");
    const bool step = impl == "full_iteration", modules = has("--cuda-graph-modules");
    refuse(modules && impl != "local" && impl != "transformer_engine", "modules without graphs of layers");
    refuse(step && !has("--no-check-for-nan-in-loss-and-grad"), "full iteration with checks for NaN");
    refuse(impl != "none" && !step && a_.word("--recompute-granularity", "") == "full",
           "graphs with full recomputation");
    const bool experts = a_.number("--num-experts", 0) > 0;
    refuse(!experts && (lists("--cuda-graph-modules", "moe_router") || lists("--cuda-graph-modules", "moe")),
           "graphs of experts without any");
    refuse(lists("--cuda-graph-modules", "moe_preprocess") && !lists("--cuda-graph-modules", "moe_router"),
           "preprocess without router");
    refuse(lists("--cuda-graph-modules", "mlp") && experts && !has("--moe-layer-freq"),
           "mlp graphs without dense layers");
    refuse(lists("--cuda-graph-modules", "moe_router") && lists("--recompute-modules", "moe"),
           "router graphs, moe again");
  }

  // transformer_config.py, "Fine-grained Activation Offloading" and what graphs ask for.
  void check_host_activations() {
    const bool away = has("--fine-grained-activation-offloading");
    refuse(away != has("--offload-modules"), "offload of no modules");
    if (!away) return;
    const auto moves = [&](const char* module) { return lists("--offload-modules", module); };
    refuse(moves("attn_proj") && !moves("core_attn"), "attn_proj without core_attn");
    const bool parts = moves("expert_fc1") || moves("moe_act"), fused = moves("fused_group_mlp");
    refuse(fused && (parts || !has("--use-transformer-engine-op-fuser")), "fused_group_mlp");
    refuse((parts || fused) && (lists("--recompute-modules", "moe") || has("--moe-paged-stash")), "experts twice");
    const std::string impl = a_.word("--cuda-graph-impl", "none");
    refuse(impl == "full_iteration" && !has("--fine-grained-offloading-max-inflight-offloads"), "copies of a step");
    refuse(impl == "transformer_engine" && (moves("attn_norm") || moves("mlp_norm")), "norms beside graphs");
  }

  void check_formats() {
    refuse(has("--fp8-dot-product-attention") && !has("--fp8-format"), "fp8 attention without fp8");
    refuse(has("--fp8-param-gather") && (!has("--fp8-format") || !has("--use-distributed-optimizer")), "fp8 gather");
    refuse(has("--fp4-param-gather") && !has("--fp4-format"), "fp4 gather without fp4");
    const bool aware = has("--use-precision-aware-optimizer");
    refuse(aware && !has("--use-distributed-optimizer"), "precision-aware without distributed optimizer");
    refuse(!aware && (has("--exp-avg-dtype") || has("--exp-avg-sq-dtype")), "narrow moments of the plain optimizer");
    refuse(!aware && has("--main-grads-dtype"), "narrow gradients of the plain optimizer");
    refuse(has("--optimizer-cpu-offload") && !aware, "offload without precision-aware");
    refuse(has("--optimizer-cpu-offload") && has("--fp8-param-gather"), "offload of weights gathered in 8 bits");
    const std::string optimizer = a_.word("--optimizer", "adam");
    refuse(aware && optimizer != "adam", "precision-aware is for adam");
    refuse(has("--use-megatron-fsdp") && optimizer != "adam" && optimizer != "sgd", "fsdp is for adam and sgd");
  }

  const MegatronArguments& a_;
  long world_;
  std::vector<std::string>& problems_;
  long tp_ = 1, pp_ = 1, cp_ = 1, ep_ = 1, etp_ = 1, layers_ = 0, vpp_ = 1, micro_batches_ = 1;
};

}  // namespace

long MegatronArguments::number(const std::string& name, long otherwise) const {
  const auto found = values.find(name);
  return found == values.end() || found->second.empty() ? otherwise : std::stol(found->second.front());
}

std::string MegatronArguments::word(const std::string& name, const std::string& otherwise) const {
  const auto found = values.find(name);
  return found == values.end() || found->second.empty() ? otherwise : found->second.front();
}

MegatronArguments parse_megatron(const std::string& text, std::vector<std::string>& problems) {
  MegatronArguments arguments;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> words = words_of(line);
    if (words.empty()) {
      problems.emplace_back("an empty line");
      continue;
    }
    const std::string name = words.front();
    words.erase(words.begin());
    const auto rule = rules().find(name);
    if (rule == rules().end()) {
      problems.push_back("unrecognised argument " + name);
      continue;
    }
    if (arguments.has(name)) problems.push_back(name + " twice");
    check_values(name, rule->second, words, problems);
    arguments.values[name] = words;
  }
  return arguments;
}

std::vector<std::string> expand_layout(std::string text, std::vector<std::string>& problems) {
  text = std::regex_replace(text, std::regex(","), "");
  std::smatch match;
  while (std::regex_search(text, match, std::regex(R"(\(([^)]*)\)\*([0-9]+))"))) {
    std::string repeated;
    for (int k = 0; k < std::stoi(match[2]); ++k) repeated += match[1];
    text = match.prefix().str() + repeated + match.suffix().str();
  }
  while (std::regex_search(text, match, std::regex(R"((.)\*([0-9]+))"))) {
    const std::string repeated(std::stoul(match[2]), match[1].str().front());
    text = match.prefix().str() + repeated + match.suffix().str();
  }
  if (!std::regex_match(text, std::regex("E[tm|]*L"))) problems.push_back("layout: " + text);
  std::vector<std::string> stages(1);
  for (const char c : text) {
    if (c == '|') {
      stages.emplace_back();
    } else {
      stages.back() += c;
    }
  }
  return stages;
}

void validate_megatron(const MegatronArguments& arguments, long world, bool before_blackwell,
                       const std::map<std::string, std::string>& environment, std::vector<std::string>& problems) {
  Validator validator(arguments, world, problems);
  validator.run();
  const bool fsdp = arguments.has("--use-megatron-fsdp");
  const auto connections = environment.find("CUDA_DEVICE_MAX_CONNECTIONS");
  const bool one = connections != environment.end() && connections->second == "1";
  if (fsdp && one) problems.emplace_back("fsdp with one connection");
  const bool wanted = before_blackwell && (validator.tp() > 1 || validator.cp() > 1) && !fsdp &&
                      !arguments.has("--overlap-moe-expert-parallel-comm");
  if (wanted && !one) problems.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS=1 is asserted");
  const auto allocator = environment.find("PYTORCH_CUDA_ALLOC_CONF");
  const bool pages = allocator != environment.end() && allocator->second.find("expandable") != std::string::npos;
  const auto registers = environment.find("NCCL_GRAPH_REGISTER");
  if (pages && arguments.word("--cuda-graph-impl", "none") == "transformer_engine" &&
      (registers == environment.end() || registers->second != "0")) {
    problems.emplace_back("NCCL_GRAPH_REGISTER=0 is asserted");
  }
}

}  // namespace nest::test
