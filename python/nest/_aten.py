"""Which kind of operator of nest.graph/1 an operator of PyTorch's aten library is.

Kinds are given by the name of the operator without its overload and without the trailing underscore of in-place variants:
`add` for aten.add.Tensor and aten.add_.Tensor.
"""

PRODUCTS = frozenset("mm addmm bmm baddbmm mv addmv dot linear _scaled_mm _int_mm addbmm".split())
GROUPED_PRODUCTS = frozenset("_grouped_mm _scaled_grouped_mm".split())

_KINDS = {
    "conv": "convolution _convolution cudnn_convolution mkldnn_convolution miopen_convolution convolution_overrideable "
    "slow_conv3d thnn_conv2d conv_depthwise3d _conv_depthwise2d slow_conv_transpose2d slow_conv_transpose3d",
    "attention": "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_fused_attention_overrideable "
    "_flash_attention_forward _efficient_attention_forward",
    "embedding": "embedding embedding_bag _embedding_bag _embedding_bag_forward_only",
    "norm": "native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
    "cudnn_batch_norm miopen_batch_norm _batch_norm_with_update _fused_rms_norm rms_norm _batch_norm_impl_index native_norm",
    "softmax": "_softmax _log_softmax _safe_softmax softmax log_softmax",
    "dropout": "native_dropout _fused_dropout",
    "reduce": "sum mean var var_mean std std_mean amax amin aminmax max min argmax argmin prod any all norm linalg_vector_norm "
    "logsumexp cumsum cumprod logcumsumexp nansum count_nonzero mse_loss l1_loss smooth_l1_loss huber_loss kl_div "
    "binary_cross_entropy binary_cross_entropy_with_logits cumulative_trapezoid median mode nanmedian trace frobenius_norm "
    "poisson_nll_loss soft_margin_loss cosine_similarity _cdist_forward",
    "copy": "clone copy _to_copy cat stack repeat repeat_interleave roll flip tril triu constant_pad_nd reflection_pad1d "
    "reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d fill zero index_copy slice_scatter "
    "select_scatter pixel_shuffle pixel_unshuffle im2col col2im channel_shuffle contiguous fill_diagonal new_zeros new_empty "
    "new_full new_ones new_empty_strided zeros_like ones_like full_like empty_like rand_like randn_like _reshape_copy hstack vstack resolve_conj "
    "resolve_neg diag_embed _pin_memory lift_fresh_copy as_strided_copy unfold_copy expand_copy permute_copy",
    "gather": "gather index index_select take take_along_dim masked_select _unsafe_index searchsorted bucketize",
    "scatter": "scatter scatter_add scatter_reduce index_add index_put _index_put_impl masked_scatter index_fill index_reduce "
    "put _unsafe_index_put",
    "topk": "topk sort argsort kthvalue multinomial msort",
    "pool": "max_pool2d_with_indices max_pool3d_with_indices max_pool1d max_pool1d_with_indices avg_pool1d avg_pool2d avg_pool3d "
    "adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d "
    "fractional_max_pool2d",
    "resize": "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
    "upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa "
    "grid_sampler_2d grid_sampler_3d",
    "loss": "nll_loss_forward nll_loss2d_forward nll_loss _linear_cross_entropy",
    "view": "view _unsafe_view _reshape_alias reshape t transpose permute expand slice select split split_with_sizes chunk "
    "unsqueeze squeeze unbind alias detach as_strided unfold diagonal narrow movedim view_as_complex view_as_real lift_fresh "
    "lift numpy_T real imag unsafe_split unsafe_chunk unsafe_split_with_sizes swapaxes tensor_split unflatten flatten _conj _neg_view",
    "elementwise": "abs acos acosh add addcdiv addcmul angle asin asinh atan atan2 atanh bernoulli bitwise_and bitwise_not bitwise_or "
    "bitwise_xor bitwise_left_shift bitwise_right_shift ceil celu clamp clamp_max clamp_min clip complex copysign cos cosh deg2rad "
    "digamma div elu eq erf erfc erfinv exp exp2 expm1 exponential floor floor_divide fmax fmin fmod frac ge gelu glu gt hardshrink "
    "hardsigmoid hardswish hardtanh heaviside hypot isfinite isinf isnan isneginf isposinf ldexp le leaky_relu lerp lgamma log log10 "
    "log1p log2 log_normal log_sigmoid_forward logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt "
    "masked_fill maximum minimum mish mul multiply nan_to_num ne neg negative nextafter normal polar pow prelu _prelu_kernel rad2deg "
    "random reciprocal relu relu6 remainder renorm round rrelu_with_noise rsqrt rsub sgn sigmoid sign signbit silu sin sinc sinh "
    "softplus softshrink special_erf special_expit sqrt square sub subtract tan tanh threshold true_divide trunc uniform where "
    "xlogy selu dropout feature_dropout alpha_dropout bernoulli_ cauchy geometric hardswish_ quick_gelu native_channel_shuffle",
}

KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}

# Operators whose backward keeps their first result. Results after the first (mean, rstd, indices, logsumexp) are kept by the
# operator that made them whatever it is.
KEEPS_RESULT = frozenset(
    "_softmax _log_softmax _safe_softmax sigmoid tanh exp exp2 expm1 sqrt rsqrt reciprocal relu amax amin logsumexp cumprod tan erfinv "
    "linalg_vector_norm norm prod elu celu selu hardtanh _cdist_forward".split()
)


def base_name(func):
    """'add' of aten.add_.Tensor."""
    packet = getattr(func, "overloadpacket", func)
    name = getattr(packet, "__name__", str(packet)).split("::")[-1]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def writes_argument(func):
    """Whether the operator changes one of its arguments."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return False
    return any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)


def is_pointwise(func):
    """What newer versions of PyTorch say about operators that the table does not know."""
    return any("pointwise" in str(tag) for tag in getattr(func, "tags", ()))
