"""What a GPU runs as one kernel, and what that keeps.

On meta tensors PyTorch takes functions apart that a GPU runs as one kernel. Here they stay one operator. Scaled dot-product
attention becomes what PyTorch's choice of kernels on a GPU makes of it (Kernel).
"""
import enum
import math

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from ._errors import TraceError

HALF = (torch.float16, torch.bfloat16)
WIDEST_FLASH = 256  # the widest head of flash attention
MASK_STRIDE = 8  # masks of the memory-efficient kernel start their rows at multiples of it; others are copied


class Kernel(enum.Enum):
    """Which attention PyTorch chooses on a GPU.

    flash      takes no mask, 16-bit numbers and heads of one width; its result lies in memory as the queries do
    efficient  takes a mask whose last dimension is contiguous; its result is (batch, length, heads, width) in memory
    products   takes everything: products and a softmax in fp32, whose scores and probabilities are kept
    """

    flash = 1
    efficient = 2
    products = 3


def attention_kernel(query, key, value, mask):
    if any(t.dim() != 4 for t in (query, key, value)):
        return Kernel.products
    width, value_width = query.shape[-1], value.shape[-1]
    contiguous = all(t.stride(-1) == 1 for t in (query, key, value))
    if mask is None and query.dtype in HALF and width == value_width <= WIDEST_FLASH and (contiguous or width == 1):
        return Kernel.flash
    aligned = width * query.element_size() % 16 == 0 and value_width * value.element_size() % 16 == 0
    if contiguous and aligned and (mask is None or mask.stride(-1) == 1):
        return Kernel.efficient
    return Kernel.products


class Leaves(TorchFunctionMode):
    """Functions that a GPU runs as one kernel, and that PyTorch would take apart on meta tensors, stay one operator."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder
        self.known = {"scaled_dot_product_attention": self.attention, "dropout": self.dropout, "rms_norm": self.rms_norm,
                      "_scaled_dot_product_attention": self.old_attention, "repeat_interleave": self.repeat_interleave,
                      "one_hot": self.one_hot, "tolist": self.tolist, "numpy": self.tolist}
        self.patched = []
        self.autocast = torch.autocast.__init__

    def __enter__(self):
        start = self.autocast
        torch.autocast.__init__ = lambda mode, device_type, *args, **kwargs: start(
            mode, "cpu" if device_type == "meta" else device_type, *args, **kwargs)
        # Functions of torch.nn.functional call each other unseen by a function mode.
        for name in ("dropout", "rms_norm", "scaled_dot_product_attention", "_scaled_dot_product_attention"):
            if hasattr(F, name):
                self.patched.append((name, getattr(F, name)))
                setattr(F, name, self._wrapped(getattr(F, name), self.known[name]))
        return super().__enter__()

    def __exit__(self, *error):
        for name, function in self.patched:
            setattr(F, name, function)
        self.patched = []
        torch.autocast.__init__ = self.autocast
        return super().__exit__(*error)

    def _wrapped(self, function, leaf):
        return lambda *args, **kwargs: leaf(function, *args, **kwargs)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        leaf = self.known.get("dropout" if name in ("dropout", "dropout_") else name.split(".")[0])
        if leaf is None:
            return func(*args, **(kwargs or {}))
        return leaf(func, *args, **(kwargs or {}))

    def attention(self, func, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if query.device.type != "meta":
            given = {name: x for name, x in (("scale", scale), ("enable_gqa", enable_gqa)) if x}
            return func(query, key, value, attn_mask, dropout_p, is_causal, **given)
        kernel = attention_kernel(query, key, value, attn_mask)
        if kernel is Kernel.products:
            return self._written_out(query, key, value, attn_mask, dropout_p, is_causal, scale)
        own = []

        def make():
            own.append(torch.empty(query.shape[:3], dtype=torch.float32, device="meta"))  # logarithms of sums
            if attn_mask is not None and not _as_kernels_take_it(attn_mask):
                own.append(_mask_copy(attn_mask, query.dtype))
            rows = query.transpose(1, 2)
            if kernel is Kernel.efficient:
                rows = torch.empty(rows.shape[:3] + value.shape[3:], dtype=query.dtype, device="meta")
            like = torch.empty_like(rows).transpose(1, 2)
            return torch.empty_strided(like.shape, like.stride(), dtype=query.dtype, device="meta")

        tensors = [query, key, value] + ([attn_mask] if attn_mask is not None else [])
        kept = [t for t in tensors if t is not attn_mask or _as_kernels_take_it(t)]
        attributes = {"causal": bool(is_causal), "flash": True, "heads": query.shape[1], "kv_heads": key.shape[1]}
        return self.recorder.leaf("attention", "scaled_dot_product_attention", tensors, make, lambda out: kept + [out] + own, attributes)

    def _written_out(self, query, key, value, mask, dropout_p, is_causal, scale):
        """What PyTorch runs where no fused kernel takes the arguments."""
        q, k, v = (t.float() if t.dtype in HALF else t for t in (query, key, value))
        factor = math.sqrt(abs(scale) if scale else 1 / math.sqrt(query.shape[-1]))
        if is_causal:
            mask = torch.empty((query.shape[-2], key.shape[-2]), dtype=query.dtype, device="meta")
        elif mask is not None and mask.dtype == torch.bool:
            bounds = torch.empty(2, dtype=query.dtype, device="meta")  # zero and minus infinity
            mask = torch.where(mask, bounds[0], bounds[1])
        if q.dim() >= 3 and q.shape[-3] != k.shape[-3]:
            k, v = (self.repeat_interleave(torch.repeat_interleave, t, q.shape[-3] // t.shape[-3], -3) for t in (k, v))
        scores = torch.matmul(q * factor, k.transpose(-2, -1) * factor)
        probabilities = torch.softmax(scores if mask is None else scores + mask, -1)
        return torch.matmul(self.dropout(F.dropout, probabilities, dropout_p), v).to(query.dtype)

    def old_attention(self, func, query, key, value, attn_mask=None, dropout_p=0.0, need_attn_weights=False, is_causal=False):
        if need_attn_weights or query.dim() != 4:
            return func(query, key, value, attn_mask, dropout_p, need_attn_weights, is_causal)
        return self.attention(func, query, key, value, attn_mask, dropout_p, is_causal), None

    def dropout(self, func, input, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return input
        if input.device.type != "meta":
            return func(input, p, training)
        mask = []

        def make():
            mask.append(torch.empty(input.shape, dtype=torch.bool, device="meta"))
            return torch.empty_like(input)

        return self.recorder.leaf("dropout", "dropout", [input], make, lambda _: mask)

    def rms_norm(self, func, input, normalized_shape, weight=None, eps=None):
        if input.device.type != "meta":
            return func(input, normalized_shape, weight, eps)
        rows = []

        def make():
            rows.append(torch.empty(input.shape[: input.dim() - len(normalized_shape)], dtype=torch.float32, device="meta"))
            return torch.empty_like(input)

        tensors = [input] + ([weight] if weight is not None else [])
        return self.recorder.leaf("norm", "rms_norm", tensors, make, lambda _: [input] + rows, {"kind": "rms"})

    def repeat_interleave(self, func, input, repeats=None, dim=None, **other):
        if input.device.type != "meta" or not isinstance(repeats, int):
            return func(input, repeats, dim, **other)
        if dim is None:
            input, dim = input.reshape(-1), 0
        dim %= input.dim()
        shape = list(input.shape)
        wide = input.unsqueeze(dim + 1).expand(shape[: dim + 1] + [repeats] + shape[dim + 1 :])
        return wide.reshape(shape[:dim] + [shape[dim] * repeats] + shape[dim + 1 :])

    def tolist(self, func, tensor, **other):
        values = self.recorder.value_of(tensor)
        if values is None:
            raise TraceError(self.recorder.refusal(func))
        return func(values, **other)

    def one_hot(self, func, tensor, num_classes=-1):
        if tensor.device.type != "meta" or num_classes < 0:
            return func(tensor, num_classes)
        return torch.empty(tuple(tensor.shape) + (num_classes,), dtype=torch.long, device="meta")


def _as_kernels_take_it(mask):
    return mask.dtype != torch.bool and all(stride % MASK_STRIDE == 0 for stride in mask.stride()[:-1])


def _mask_copy(mask, dtype):
    """What a fused kernel is given instead of a mask of booleans, or of one whose rows it cannot read."""
    shape = list(mask.shape)
    if any(stride % MASK_STRIDE for stride in torch.empty_like(mask, device="meta").stride()[:-1]):
        shape[-1] += MASK_STRIDE - shape[-1] % MASK_STRIDE
    return torch.empty(shape, dtype=dtype if mask.dtype == torch.bool else mask.dtype, device="meta")
