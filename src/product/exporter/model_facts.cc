#include "exporter/model_facts.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

namespace nest::exporter {
namespace {

using FactJson = nlohmann::json;

std::optional<double> fact_number(const FactJson& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_number()) return found->get<double>();
  }
  return std::nullopt;
}

std::string fact_word(const FactJson& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string()) return found->get<std::string>();
  }
  return {};
}

bool is_on(const FactJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// `rope_scaling`, or since transformers 5 `rope_parameters`, which holds the base too.
void read_positions(const FactJson& config, ModelFacts& facts) {
  facts.rotary_base = fact_number(config, {"rope_theta", "rotary_emb_base", "rotary_base"});
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    if (!facts.rotary_base) facts.rotary_base = fact_number(*found, {"rope_theta"});
    const std::string kind = fact_word(*found, {"rope_type", "type"});
    if (kind.empty() || kind == "default") continue;
    RopeScaling scaling;
    scaling.kind = kind;
    scaling.factor = fact_number(*found, {"factor"}).value_or(1);
    scaling.low_frequency = fact_number(*found, {"low_freq_factor"}).value_or(scaling.low_frequency);
    scaling.high_frequency = fact_number(*found, {"high_freq_factor"}).value_or(scaling.high_frequency);
    scaling.beta_fast = fact_number(*found, {"beta_fast"}).value_or(scaling.beta_fast);
    scaling.beta_slow = fact_number(*found, {"beta_slow"}).value_or(scaling.beta_slow);
    scaling.mscale = fact_number(*found, {"mscale"}).value_or(scaling.mscale);
    scaling.mscale_all_dim = fact_number(*found, {"mscale_all_dim"}).value_or(scaling.mscale_all_dim);
    scaling.original_positions = fact_number(*found, {"original_max_position_embeddings"});
    facts.scaling = scaling;
    return;
  }
}

// Keys that change what is computed and that no exporter has a word for, with the value that changes nothing.
struct Uncarried {
  const char* key;
  double neutral;
};
constexpr std::array kUncarried = {Uncarried{"attn_logit_softcapping", 0},
                                   Uncarried{"final_logit_softcapping", 0},
                                   Uncarried{"clip_qkv", 0},
                                   Uncarried{"logit_scale", 1},
                                   Uncarried{"logits_scaling", 1},
                                   Uncarried{"embedding_multiplier", 1},
                                   Uncarried{"residual_multiplier", 1},
                                   Uncarried{"attention_multiplier", 0},
                                   Uncarried{"query_pre_attn_scalar", 0}};

bool is_whole(double value) { return value == std::floor(value) && std::abs(value) < 0x1p53; }

std::string fact_text(double value) {
  return is_whole(value) ? fmt::format("{}", static_cast<std::int64_t>(value)) : fmt::format("{}", value);
}

class FactWriter {
 public:
  FactWriter(const ModelFacts& facts, const GptModel& gpt) : facts_(facts), gpt_(gpt) {}

 protected:
  bool rotates() const { return gpt_.position == model::PositionKind::rotary; }
  void say(std::string note) { out_.notes.push_back(std::move(note)); }
  void add(const char* name, std::string value = {}) { out_.options.emplace_back(name, std::move(value)); }
  void add(const char* name, double value) { add(name, fact_text(value)); }

  // Megatron rotates as Llama 3 does with these, whatever it is told (rotary_pos_embedding.py, _apply_scaling).
  void check_llama_scaling(const RopeScaling& scaling) {
    if (scaling.low_frequency == 1 && scaling.high_frequency == 4 && scaling.original_positions.value_or(8192) == 8192)
      return;
    say(fmt::format(
        "positions are stretched with low_freq_factor 1, high_freq_factor 4 and 8192 original positions; config.json "
        "says {}, {} and {}",
        fact_text(scaling.low_frequency), fact_text(scaling.high_frequency),
        fact_text(scaling.original_positions.value_or(8192))));
  }

  void name_the_rest(const char* who) {
    for (const std::string& fact : facts_.unknown_to_export) {
      say(fmt::format("config.json says {}, which {} cannot be told: the model that is trained differs", fact, who));
    }
    if (rotates() && facts_.scaling && !said_scaling_) {
      say(fmt::format("config.json stretches positions by {} (factor {}), which {} cannot be told: positions differ",
                      facts_.scaling->kind, fact_text(facts_.scaling->factor), who));
    }
  }

  const ModelFacts& facts_;
  const GptModel& gpt_;
  FactOptions out_;
  bool said_scaling_ = false;
};

class MegatronFacts : FactWriter {
 public:
  using FactWriter::FactWriter;

  FactOptions run() {
    if (rotates()) add_positions();
    if (facts_.norm_epsilon) {
      add("--norm-epsilon", fmt::format("{}", *facts_.norm_epsilon));
    } else {
      say("config.json says no epsilon of norms: Megatron's 1e-5 holds");
    }
    if (facts_.norm_plus_one) add("--apply-layernorm-1p");
    if (facts_.init_std) add("--init-method-std", fmt::format("{}", *facts_.init_std));
    if (gpt_.experts) add_router();
    name_the_rest("pretrain_gpt.py");
    return std::move(out_);
  }

 private:
  void add_positions() {
    if (facts_.rotary_base) {
      if (is_whole(*facts_.rotary_base)) {
        add("--rotary-base", *facts_.rotary_base);
      } else {
        say(fmt::format("--rotary-base takes whole numbers; config.json says {}", *facts_.rotary_base));
      }
    }
    if (gpt_.latent) return add_latent_scaling();
    if (!facts_.scaling) return;
    const RopeScaling& scaling = *facts_.scaling;
    if (scaling.kind == "llama3") {
      said_scaling_ = true;
      add("--use-rope-scaling");
      add("--rope-scaling-factor", scaling.factor);
      check_llama_scaling(scaling);
      // gpt_builders.py, model_provider: the option is parsed and not handed on (core 0.14 to 0.19).
      if (scaling.factor != 8) {
        say(
            fmt::format("pretrain_gpt.py does not hand --rope-scaling-factor on: positions are stretched by 8, "
                        "config.json says {}",
                        fact_text(scaling.factor)));
      }
    } else if (scaling.kind == "linear" && is_whole(scaling.factor)) {
      said_scaling_ = true;
      add("--rotary-seq-len-interpolation-factor", scaling.factor);
    } else if (scaling.kind == "yarn") {
      said_scaling_ = true;
      add_yarn(scaling);
      add("--yarn-original-max-position-embeddings", scaling.original_positions.value_or(4096));
      add("--yarn-beta-fast", scaling.beta_fast);
      add("--yarn-beta-slow", scaling.beta_slow);
      say("YaRN beside plain attention needs Megatron-Core 0.19 (--yarn-original-max-position-embeddings)");
    }
  }

  void add_yarn(const RopeScaling& scaling) {
    add("--rotary-scaling-factor", scaling.factor);
    add("--mscale", scaling.mscale);
    add("--mscale-all-dim", scaling.mscale_all_dim);
  }

  // Latent attention is rotated by YaRN, whose factor of 1 is no stretching; its fused kernels know nothing else
  // (MLATransformerConfig). Original positions and betas are no options there.
  void add_latent_scaling() {
    add("--rope-type", std::string("yarn"));
    add_yarn(facts_.is_yarn() ? *facts_.scaling : RopeScaling{});
    if (!facts_.is_yarn()) return;
    said_scaling_ = true;
    const RopeScaling& scaling = *facts_.scaling;
    if (scaling.original_positions.value_or(4096) != 4096 || scaling.beta_fast != 32 || scaling.beta_slow != 1) {
      say(fmt::format(
          "YaRN of latent attention starts from 4096 positions with betas 32 and 1; config.json says {}, {} "
          "and {}, which no option carries",
          fact_text(scaling.original_positions.value_or(4096)), fact_text(scaling.beta_fast),
          fact_text(scaling.beta_slow)));
    }
  }

  void add_router() {
    if (facts_.router_scores.empty()) {
      say("the router's scores and losses are Megatron's defaults: they cost nothing, but set them");
      return;
    }
    add("--moe-router-score-function", facts_.router_scores);
    if (facts_.router_scale && *facts_.router_scale != 1) add("--moe-router-topk-scaling-factor", *facts_.router_scale);
    if (facts_.router_bias) add("--moe-router-enable-expert-bias");
    if (facts_.router_loss) add("--moe-aux-loss-coeff", fmt::format("{}", *facts_.router_loss));
  }
};

class NemoFacts : FactWriter {
 public:
  NemoFacts(const ModelFacts& facts, const GptModel& gpt, bool nemo2) : FactWriter(facts, gpt), nemo2_(nemo2) {}

  FactOptions run() {
    if (rotates()) add_positions();
    if (facts_.norm_epsilon) add("layernorm_epsilon", fmt::format("{}", *facts_.norm_epsilon));
    if (facts_.norm_plus_one) add("layernorm_zero_centered_gamma", std::string("true"));
    name_the_rest("these overrides");
    return std::move(out_);
  }

 private:
  void add_positions() {
    if (facts_.rotary_base) add("rotary_base", *facts_.rotary_base);
    if (!facts_.scaling) return;
    const RopeScaling& scaling = *facts_.scaling;
    if (gpt_.latent && scaling.kind == "yarn") {
      said_scaling_ = true;
      add("rotary_scaling_factor", scaling.factor);
      add("mscale", scaling.mscale);
      add("mscale_all_dim", scaling.mscale_all_dim);
    } else if (!gpt_.latent && scaling.kind == "llama3") {
      said_scaling_ = true;
      if (!nemo2_) add("rope_scaling", std::string("true"));
      add(nemo2_ ? "scale_factor" : "rope_scaling_factor", scaling.factor);
      check_llama_scaling(scaling);
    } else if (!gpt_.latent && scaling.kind == "linear") {
      said_scaling_ = true;
      add("seq_len_interpolation_factor", scaling.factor);
    }
  }

  bool nemo2_;
};

}  // namespace

ModelFacts read_model_facts(const model::Architecture& architecture) {
  ModelFacts facts;
  const FactJson config = FactJson::parse(architecture.document.json());
  if (!config.is_object()) return facts;
  read_positions(config, facts);
  facts.norm_epsilon = fact_number(config, {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon",
                                            "norm_eps", "layernorm_epsilon"});
  facts.init_std = fact_number(config, {"initializer_range", "init_method_std"});
  // transformers' NemotronLayerNorm1P is the one family whose norms add 1.
  facts.norm_plus_one = architecture.family == "nemotron" || is_on(config, "apply_layernorm_1p");
  facts.router_scores = fact_word(config, {"scoring_func"});
  facts.router_scale = fact_number(config, {"routed_scaling_factor"});
  facts.router_bias = fact_word(config, {"topk_method"}) == "noaux_tc" && facts.router_scores == "sigmoid";
  facts.router_loss = fact_number(config, {"aux_loss_alpha", "router_aux_loss_coef"});
  for (const Uncarried& row : kUncarried) {
    const std::optional<double> value = fact_number(config, {row.key});
    if (value && *value != row.neutral) {
      facts.unknown_to_export.push_back(fmt::format("{} = {}", row.key, fact_text(*value)));
    }
  }
  return facts;
}

FactOptions megatron_facts(const ModelFacts& facts, const GptModel& gpt) { return MegatronFacts(facts, gpt).run(); }

FactOptions nemo_facts(const ModelFacts& facts, const GptModel& gpt, bool nemo2) {
  return NemoFacts(facts, gpt, nemo2).run();
}

}  // namespace nest::exporter
