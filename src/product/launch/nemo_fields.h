// Names of Megatron-Bridge's and NeMo 2's fields, and the options of Megatron that say the same.
//
// Megatron-Bridge 067f987d: training/config.py, training/mixed_precision.py, scripts/training/run_recipe.py; NeMo 8cfedd72:
// lightning/pytorch/strategies, collections/llm/recipes.
#pragma once

#include <array>
#include <string_view>

namespace nest::launch {

struct Spelling {
  std::string_view from, to;
};

// Where NeMo 2 keeps what Megatron-Bridge keeps elsewhere; beginnings of keys, the longer first.
inline constexpr std::array kNemoPlaces = {
    Spelling{"trainer.strategy.ddp.", "ddp."},
    Spelling{"trainer.strategy.", "model."},
    Spelling{"trainer.plugins.", "mixed_precision."},
    Spelling{"model.config.", "model."},
    Spelling{"optim.config.", "optimizer."},
    Spelling{"data.seq_length", "dataset.seq_length"},
    Spelling{"data.micro_batch_size", "train.micro_batch_size"},
    Spelling{"data.global_batch_size", "train.global_batch_size"},
};

// Fields whose options have other names.
inline constexpr std::array kRenamed = {
    Spelling{"model.num_moe_experts", "--num-experts"},
    Spelling{"model.virtual_pipeline_model_parallel_size", "--num-virtual-stages-per-pipeline-rank"},
    Spelling{"model.microbatch_group_size_per_vp_stage", "--microbatch-group-size-per-virtual-pipeline-stage"},
    Spelling{"model.num_layers_in_first_pipeline_stage", "--decoder-first-pipeline-num-layers"},
    Spelling{"model.num_layers_in_last_pipeline_stage", "--decoder-last-pipeline-num-layers"},
    Spelling{"model.overlap_p2p_comm_warmup_flush", "--overlap-p2p-communication-warmup-flush"},
    Spelling{"model.layernorm_zero_centered_gamma", "--apply-layernorm-1p"},
    Spelling{"model.layernorm_epsilon", "--norm-epsilon"},
    Spelling{"model.seq_len_interpolation_factor", "--rotary-seq-len-interpolation-factor"},
    Spelling{"dataset.seq_length", "--seq-length"},
    Spelling{"dataset.sequence_length", "--seq-length"},
    Spelling{"dist.use_tp_pp_dp_mapping", "--use-tp-pp-dp-mapping"},
    Spelling{"model.use_tp_pp_dp_mapping", "--use-tp-pp-dp-mapping"},
    Spelling{"dist.use_megatron_fsdp", "--use-megatron-fsdp"},
    Spelling{"dist.use_torch_fsdp2", "--use-torch-fsdp2"},
    Spelling{"ddp.nccl_ub", "--use-nccl-ub"},
    Spelling{"ddp.bucket_size", "--ddp-bucket-size"},
    Spelling{"ddp.average_in_collective", "--ddp-average-in-collective"},
};

// Switches whose options say the opposite.
inline constexpr std::array kInverted = {
    Spelling{"model.add_bias_linear", "--disable-bias-linear"},
    Spelling{"model.share_embeddings_and_output_weights", "--untie-embeddings-and-output-weights"},
    Spelling{"dist.align_grad_reduce", "--no-align-grad-reduce"},
    Spelling{"model.gradient_accumulation_fusion", "--no-gradient-accumulation-fusion"},
};

// Sizes of the model. They say what it is only where all of them are there.
inline constexpr std::array kSizes = {"model.hidden_size",
                                      "model.ffn_hidden_size",
                                      "model.num_attention_heads",
                                      "model.num_query_groups",
                                      "model.kv_channels",
                                      "model.gated_linear_unit",
                                      "model.activation_func",
                                      "model.add_bias_linear",
                                      "model.moe_ffn_hidden_size",
                                      "model.num_moe_experts",
                                      "model.moe_layer_freq",
                                      "model.moe_router_topk",
                                      "model.window_size",
                                      "model.normalization",
                                      "model.q_lora_rank",
                                      "model.kv_lora_rank",
                                      "model.qk_head_dim",
                                      "model.qk_pos_emb_head_dim",
                                      "model.v_head_dim",
                                      "model.multi_latent_attention",
                                      "model.qk_layernorm",
                                      "model.add_qkv_bias",
                                      "model.position_embedding_type",
                                      "model.rotary_percent",
                                      "model.vocab_size",
                                      "model.share_embeddings_and_output_weights",
                                      "model.moe_shared_expert_intermediate_size"};

// Fields that cost nothing, or that others decide.
inline constexpr std::array kWithoutCost = {"model.params_dtype",
                                            "model.pipeline_dtype",
                                            "model.autocast_dtype",
                                            "model.bf16",
                                            "model.fp16",
                                            "model.seq_length",
                                            "model.batch_p2p_comm",
                                            "model.wgrad_deferral_limit",
                                            "model.cross_entropy_fusion_impl",
                                            "model.rope_scaling",
                                            "model.rope_scaling_factor",
                                            "model.scale_factor",
                                            "model.moe_router_dtype",
                                            "model.hf_model_id",
                                            "model.fine_grained_offloading_max_inflight_offloads",
                                            "ddp.check_for_nan_in_grad",
                                            "ddp.grad_reduce_in_fp32",
                                            "optimizer.bf16",
                                            "optimizer.fp16",
                                            "optimizer.params_dtype",
                                            "optimizer.lr",
                                            "optimizer.min_lr",
                                            "optimizer.use_distributed_optimizer"};

// training/mixed_precision.py; the last three are NeMo 2's names for the same.
struct PrecisionRecipe {
  std::string_view name;
  bool half;  // fp16, whose gradients are reduced in 16 bits
  std::string_view format, scaling;
  bool gathered, ends_wide;  // the first and the last layers stay in 16 bits
};
inline constexpr std::array kPrecisions = {
    PrecisionRecipe{"bf16_mixed", false, "", "", false, false},
    PrecisionRecipe{"fp16_mixed", true, "", "", false, false},
    PrecisionRecipe{"bf16_with_fp8_delayed_scaling_mixed", false, "fp8", "delayed", true, false},
    PrecisionRecipe{"fp16_with_fp8_delayed_scaling_mixed", true, "fp8", "delayed", true, false},
    PrecisionRecipe{"bf16_with_mxfp8_mixed", false, "fp8", "mxfp8", true, false},
    PrecisionRecipe{"fp16_with_mxfp8_mixed", true, "fp8", "mxfp8", true, false},
    PrecisionRecipe{"bf16_with_fp8_current_scaling_mixed", false, "fp8", "tensorwise", true, true},
    PrecisionRecipe{"fp16_with_fp8_current_scaling_mixed", true, "fp8", "tensorwise", true, true},
    PrecisionRecipe{"nemotron_h_bf16_with_fp8_current_scaling_mixed", false, "fp8", "tensorwise", true, true},
    PrecisionRecipe{"nanov2_bf16_with_fp8_current_scaling_mixed", false, "fp8", "blockwise", true, true},
    PrecisionRecipe{"bf16_with_fp8_subchannel_scaling_mixed", false, "fp8", "blockwise", false, false},
    PrecisionRecipe{"fp16_with_fp8_subchannel_scaling_mixed", true, "fp8", "blockwise", false, false},
    PrecisionRecipe{"bf16_with_nvfp4_mixed", false, "fp4", "nvfp4", true, false},
    PrecisionRecipe{"nemotron_3_super_bf16_with_nvfp4_mixed", false, "fp4", "nvfp4", true, true},
    PrecisionRecipe{"bf16_with_fp8_mixed", false, "fp8", "delayed", true, false},
    PrecisionRecipe{"fp16_with_fp8_mixed", true, "fp8", "delayed", true, false},
};

// Fields that are read one by one.
inline constexpr std::array kReadApart = {"model.pipeline_model_parallel_layout",
                                          "model.virtual_pipeline_model_parallel_size",
                                          "model.tp_comm_overlap",
                                          "model.overlap_p2p_comm",
                                          "model.defer_embedding_wgrad_compute",
                                          "model.overlap_moe_expert_parallel_comm",
                                          "model.delay_wgrad_compute",
                                          "model.fp8_dot_product_attention",
                                          "model.num_query_groups",
                                          "model.gated_linear_unit",
                                          "model.activation_func",
                                          "model.vocab_size",
                                          "model.cross_entropy_loss_fusion",
                                          "model.attention_backend",
                                          "ddp.overlap_grad_reduce",
                                          "ddp.overlap_param_gather",
                                          "ddp.use_distributed_optimizer"};

// Options of Megatron-Bridge's run_recipe.py for the same.
inline constexpr std::array kShortOptions = {
    Spelling{"-tp", "model.tensor_model_parallel_size"},
    Spelling{"--tensor_model_parallel_size", "model.tensor_model_parallel_size"},
    Spelling{"-pp", "model.pipeline_model_parallel_size"},
    Spelling{"--pipeline_model_parallel_size", "model.pipeline_model_parallel_size"},
    Spelling{"-cp", "model.context_parallel_size"},
    Spelling{"--context_parallel_size", "model.context_parallel_size"},
    Spelling{"-vp", "model.virtual_pipeline_model_parallel_size"},
    Spelling{"--virtual_pipeline_model_parallel_size", "model.virtual_pipeline_model_parallel_size"},
    Spelling{"-ep", "model.expert_model_parallel_size"},
    Spelling{"--expert_model_parallel_size", "model.expert_model_parallel_size"},
    Spelling{"-etp", "model.expert_tensor_parallel_size"},
    Spelling{"--expert_tensor_parallel_size", "model.expert_tensor_parallel_size"},
    Spelling{"-gb", "train.global_batch_size"},
    Spelling{"--global_batch_size", "train.global_batch_size"},
    Spelling{"-mb", "train.micro_batch_size"},
    Spelling{"--micro_batch_size", "train.micro_batch_size"},
    Spelling{"-sl", "dataset.seq_length"},
    Spelling{"--seq_length", "dataset.seq_length"},
};

}  // namespace nest::launch
