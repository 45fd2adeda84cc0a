"""The part of a model that one rank holds, as plain PyTorch modules: what `python -m nest.verify` runs.

Modules are built from what nest says about a layer (the operators of `nest show`, unsplit) and sliced here: heads, feed-forward
columns and the vocabulary by tp, experts by ep and etp, tokens by sp and cp. They are written as transformers' modules are, one
kernel after the other, because that is what nest's stack `huggingface` prices.

Nothing travels. What a collective would bring is a tensor that is there already (`Slice.elsewhere`): it has the right size, costs
no time, and its gradient ends where the rank's own part ends.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

from . import _verify_fused as fused
from ._errors import InputError


class Unsupported(InputError):
    """A layer that these modules cannot spell, named."""


class Slice:
    """How one rank's tensors are cut, and what other ranks would send."""

    def __init__(self, *, tp=1, sp=False, cp=1, ep=1, etp=None, micro_batch=1, sequence=1, device="cpu", dtype=torch.bfloat16, eight_bits=False,
                 fused=False):
        self.fused = fused
        self.tp, self.sp, self.cp, self.ep, self.etp = tp, bool(sp) and tp > 1, cp, ep, etp or tp
        self.micro_batch, self.sequence = micro_batch, sequence
        self.device, self.dtype, self.eight_bits = torch.device(device), dtype, eight_bits
        self._elsewhere, self._rotary = {}, {}

    @property
    def tokens(self):
        """Of a sequence, on one context-parallel rank."""
        return self.sequence // self.cp

    @property
    def stream_tokens(self):
        """The same outside of tensor-parallel products."""
        return self.tokens // self.tp if self.sp else self.tokens

    def vocabulary(self, rows):
        """Of a table, on one rank; fused kernels pad it to multiples of 128."""
        return math.ceil(rows / (128 * self.tp)) * 128 if self.fused else math.ceil(rows / self.tp)

    def elsewhere(self, *shape):
        if shape not in self._elsewhere:
            self._elsewhere[shape] = torch.randn(*shape, device=self.device, dtype=self.dtype)
        return self._elsewhere[shape]

    def rotary(self, width):
        """Of all positions of a rank, made once for all layers."""
        if width not in self._rotary:
            self._rotary[width] = Rotary(self, width)
        return self._rotary[width]

    def parameter(self, *shape):
        value = torch.empty(*shape, device=self.device, dtype=self.dtype)
        if self.device.type != "meta":
            value.normal_(std=0.02)
        return nn.Parameter(value)

    def gather(self, x, keeps=True):
        """All tokens of the tensor-parallel group, of which x is this rank's part; `keeps`: a product needs it for backward."""
        if not self.sp:
            return x
        return Received.apply(x, self.elsewhere(x.shape[0], x.shape[1] * self.tp, x.shape[2]), 1, keeps)

    def scatter(self, x):
        if not self.sp:
            return x
        return Kept.apply(x, 1, x.shape[1] // self.tp, self)


class Received(torch.autograd.Function):
    """x goes away, the whole comes back; x itself is kept for backward, the whole is not."""

    @staticmethod
    def forward(ctx, x, whole, dim, keeps=True):
        if keeps:
            ctx.save_for_backward(x)
        ctx.dim, ctx.size = dim, x.shape[dim]
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.narrow(ctx.dim, 0, ctx.size), None, None, None


class Kept(torch.autograd.Function):
    """The other way: of a sum over ranks this rank keeps its part, and gets the whole gradient back."""

    @staticmethod
    def forward(ctx, x, dim, size, cut):
        ctx.shape, ctx.cut = tuple(x.shape), cut
        return x.narrow(dim, 0, size)

    @staticmethod
    def backward(ctx, gradient):
        return ctx.cut.elsewhere(*ctx.shape), None, None, None


class Repeated(torch.autograd.Function):
    """Rows of several ranks, kept as rows of their own."""

    @staticmethod
    def forward(ctx, x, times, dim=0):
        ctx.dim, ctx.rows = dim, x.shape[dim]
        return torch.cat([x] * times, dim)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.narrow(ctx.dim, 0, ctx.rows), None, None


class _EightBits(torch.autograd.Function):
    """A product whose operands are cast to 8 bits with a scale of one, forward and backward; it keeps its own copy of the input.
    Products of 8 bits contract rows with rows, so that backward needs operands turned as well."""

    @staticmethod
    def forward(ctx, x, weight):
        rows = x.reshape(-1, x.shape[-1]).to(torch.float8_e4m3fn)
        ctx.save_for_backward(rows, weight)
        ctx.shape = x.shape
        return _scaled(rows, weight.to(torch.float8_e4m3fn)).view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx, gradient):
        rows, weight = ctx.saved_tensors
        back = gradient.reshape(-1, gradient.shape[-1])
        to_input = _scaled(back.to(torch.float8_e5m2), _turned(weight, torch.float8_e4m3fn)).view(ctx.shape)
        return to_input, _scaled(_turned(back, torch.float8_e5m2), _turned(rows, torch.float8_e4m3fn))


def _scaled(a, b):
    """a [m, k] times the transpose of b [n, k]."""
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


@fused.compiled
def _turned(x, kind):
    """A transposed copy in 8 bits."""
    return x.t().to(kind).contiguous()


class Linear(nn.Module):
    def __init__(self, cut, columns, rows, bias=False, sixteen=False):
        super().__init__()
        self.weight = cut.parameter(columns, rows)
        self.bias = cut.parameter(columns) if bias else None
        self.eight_bits = cut.eight_bits and not sixteen
        self.fused = cut.fused

    def forward(self, x):
        if not self.eight_bits and not self.fused:
            return F.linear(x, self.weight, self.bias)
        y = _EightBits.apply(x, self.weight) if self.eight_bits else fused.Product.apply(x, self.weight)
        return y if self.bias is None else y + self.bias


class RmsNorm(nn.Module):
    """In fp32, one kernel after the other; `late`: cast back after the weight, not before."""

    def __init__(self, cut, width, late=False):
        super().__init__()
        self.weight, self.late, self.fused = cut.parameter(width), late, cut.fused

    def forward(self, x):
        if self.fused:
            return fused.root_norm(x, self.weight)
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * self.weight.float()).to(x.dtype) if self.late else self.weight * y.to(x.dtype)


class LayerNorm(nn.Module):
    def __init__(self, cut, width, bias):
        super().__init__()
        self.weight, self.bias = cut.parameter(width), cut.parameter(width) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias)


def attend(q, k, v, causal):
    """Attention over (batch, heads, length, width); fewer heads of keys where there are fewer."""
    if hasattr(F, "scaled_dot_product_attention"):
        grouped = {"enable_gqa": True} if k.shape[1] != q.shape[1] else {}
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, **grouped)
    return _Fused.apply(q, k, v, causal)


class _Fused(torch.autograd.Function):
    """For versions of PyTorch without fused attention: keeps what that keeps, and computes the scores again for backward."""

    @staticmethod
    def forward(ctx, q, k, v, causal):
        ctx.causal = causal
        out = _by_hand(q, k, v, causal).transpose(1, 2).contiguous().transpose(1, 2)  # in the order of tokens, as fused kernels write it
        ctx.save_for_backward(q, k, v, out, q.new_zeros(q.shape[:-1], dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx, gradient):
        given = [x.detach().requires_grad_() for x in ctx.saved_tensors[:3]]
        with torch.enable_grad():
            return (*torch.autograd.grad(_by_hand(*given, ctx.causal), given, gradient), None)


def _by_hand(q, k, v, causal):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), float("-inf"))
    return scores.softmax(-1) @ v


class Rotary:

    def __init__(self, cut, width):
        angles = torch.arange(cut.tokens, device=cut.device, dtype=torch.float32)[:, None] * torch.ones(width, device=cut.device)
        self.cos, self.sin, self.fused = angles.cos().to(cut.dtype), angles.sin().to(cut.dtype), cut.fused

    def __call__(self, x):
        if self.fused:
            return fused.Rotated.apply(x, self.cos, self.sin)
        half = x.shape[-1] // 2
        return x * self.cos + torch.cat((-x[..., half:], x[..., :half]), -1) * self.sin


class Core:
    """Attention itself. Where the sequence is divided, a rank's queries meet on average half of all keys under a causal mask: they are
    run against so many, without a mask, which is the work that ring attention does; its own keys and values are kept."""

    def __init__(self, cut, causal):
        self.cut, self.causal = cut, causal

    def __call__(self, q, k, v):
        cut = self.cut
        if cut.cp == 1:
            return attend(q, k, v, self.causal)
        seen = cut.sequence // 2 if self.causal else cut.sequence
        k, v = (Received.apply(x, cut.elsewhere(x.shape[0], x.shape[1], seen, x.shape[3]), 2) for x in (k, v))
        return attend(q, k, v, False)


def run_again(function, *given):
    from torch.utils.checkpoint import checkpoint

    return checkpoint(function, *given, use_reentrant=False, preserve_rng_state=False)


class Attention(nn.Module):
    """Queries, keys and values by products of their own, and grouped or latent."""

    def __init__(self, cut, spec, again):
        super().__init__()
        self.cut, self.again = cut, again
        self.qk_dim, self.value_dim = spec["qk_dim"], spec["value_dim"]
        self.heads = spec["heads"] // cut.tp
        hidden = spec["hidden"]
        self.latent = spec.get("latent")
        if self.latent:
            rank = self.latent
            self.kv_heads = self.heads
            self.nope, self.rope = rank["nope"], rank["rope"]
            if rank["query_rank"]:
                self.q_down, self.q_norm = Linear(cut, rank["query_rank"], hidden), RmsNorm(cut, rank["query_rank"])
                self.q_up = Linear(cut, self.heads * self.qk_dim, rank["query_rank"])
            else:
                self.q = Linear(cut, self.heads * self.qk_dim, hidden)
            self.kv_down, self.kv_norm = Linear(cut, rank["kv_rank"] + self.rope, hidden), RmsNorm(cut, rank["kv_rank"])
            self.kv_up = Linear(cut, self.heads * (self.nope + self.value_dim), rank["kv_rank"])
            self.rotary = cut.rotary(self.rope)
        else:
            if spec["one_weight"] and not cut.fused:
                raise Unsupported("attention with one weight for queries, keys and values: nest.verify builds it with fused modules (--modules fused)")
            self.kv_heads = max(1, spec["kv_heads"] // cut.tp)
            self.q = Linear(cut, self.heads * self.qk_dim, hidden, spec["q_bias"])
            self.k = Linear(cut, self.kv_heads * self.qk_dim, hidden, spec["k_bias"])
            self.v = Linear(cut, self.kv_heads * self.value_dim, hidden, spec["v_bias"])
            self.norms = nn.ModuleList()
            if spec["head_norm"]:
                whole = spec["head_norm"] == "all"  # over all heads of the rank, not each
                self.norms.extend(RmsNorm(cut, n * self.qk_dim if whole else self.qk_dim, spec["late"]) for n in (self.heads, self.kv_heads))
            self.norms_whole = spec["head_norm"] == "all"
            self.rotary = cut.rotary(self.qk_dim) if spec["rotary"] else None
        self.core = Core(cut, spec["causal"])
        self.o = Linear(cut, hidden, self.heads * self.value_dim, spec["o_bias"])

    def _split(self, x, heads, width):
        return x.view(x.shape[0], x.shape[1], heads, width).transpose(1, 2)

    def _plain(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        if len(self.norms) and self.norms_whole:
            q, k = self.norms[0](q), self.norms[1](k)
        q, k, v = (self._split(y, n, w) for y, n, w in ((q, self.heads, self.qk_dim), (k, self.kv_heads, self.qk_dim), (v, self.kv_heads, self.value_dim)))
        if len(self.norms) and not self.norms_whole:
            q, k = self.norms[0](q), self.norms[1](k)
        if self.rotary:
            q, k = self.rotary(q), self.rotary(k)
        return q, k, v

    def _latent(self, x):
        """Projections to latents see this rank's tokens; what they are widened to, those of all ranks. Fused kernels norm whole latents."""
        cut = self.cut
        early = (lambda y: Repeated.apply(y, cut.tp, 1)) if cut.fused and cut.sp else (lambda y: y)
        late = (lambda y: y) if cut.fused else cut.gather
        q = self.q_up(late(self.q_norm(early(self.q_down(x))))) if hasattr(self, "q_up") else self.q(cut.gather(x))
        passed, turned = self._split(q, self.heads, self.qk_dim).split([self.nope, self.rope], -1)
        q = torch.cat((passed, self.rotary(turned)), -1)
        compressed, key = early(self.kv_down(x)).split([self.latent["kv_rank"], self.rope], -1)
        k, v = self._split(self.kv_up(late(self.kv_norm(compressed))), self.heads, self.nope + self.value_dim).split([self.nope, self.value_dim], -1)
        key = self.rotary(self._split(key if cut.fused else cut.gather(key, keeps=False), 1, self.rope))
        # A view of what was projected would keep all of it.
        return q, torch.cat((k, key.expand(-1, self.heads, -1, -1)), -1), v.contiguous() if cut.fused else v

    def forward(self, x):
        q, k, v = self._latent(x) if self.latent else self._plain(self.cut.gather(x))
        y = run_again(self.core, q, k, v) if "core_attention" in self.again else self.core(q, k, v)
        return self.cut.scatter(self.o(y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)))


ACTIVATIONS = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu,
               "relu_squared": lambda x: F.relu(x).square()}


class FeedForward(nn.Module):
    def __init__(self, cut, hidden, width, activation, gated, up_bias=False, down_bias=False):
        super().__init__()
        self.gate = Linear(cut, width, hidden, up_bias) if gated else None
        self.up, self.down = Linear(cut, width, hidden, up_bias), Linear(cut, hidden, width, down_bias)
        self.activation = ACTIVATIONS[activation]
        if cut.fused and gated:
            if activation != "silu":
                raise Unsupported("activation %s with a gate: nest.verify has fused modules for silu; --modules written runs it" % activation)
            self.join = fused.Gated.apply
        else:
            self.join = lambda gate, up: self.activation(gate) * up

    def forward(self, x):
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        return self.down(self.join(self.gate(x), self.up(x)))


class Embedding(nn.Module):
    def __init__(self, cut, spec):
        super().__init__()
        self.cut, self.rows = cut, cut.vocabulary(spec["vocabulary"])
        self.table = cut.parameter(self.rows, spec["hidden"])
        self.positions = cut.parameter(spec["positions"], spec["hidden"]) if spec.get("positions") else None

    def forward(self, tokens):
        x = F.embedding(tokens, self.table)
        if self.positions is not None:
            x = x + self.positions[: x.shape[1]]
        return self.cut.scatter(x).clone() if self.cut.sp else x


class Head(nn.Module):
    """Last norm, projection, and the loss on this rank's part of the vocabulary, in fp32."""

    def __init__(self, cut, spec):
        super().__init__()
        self.cut = cut
        self.norm = norm_of(cut, spec.get("norm"))
        self.rows = cut.vocabulary(spec["vocabulary"])
        self.projection = Linear(cut, self.rows, spec["hidden"], spec.get("bias", False), sixteen=True)

    def forward(self, x, labels):
        x = self.cut.gather(self.norm(x) if self.norm else x)
        if self.cut.fused:
            return fused.Loss.apply(self.projection(x).view(-1, self.rows), labels.reshape(-1))
        logits = self.projection(x).float()
        return F.cross_entropy(logits.view(-1, self.rows), labels.reshape(-1))


def norm_of(cut, spec):
    if not spec:
        return None
    norm = LayerNorm(cut, spec["width"], spec["bias"]) if spec["kind"] == "layer" else RmsNorm(cut, spec["width"], spec["late"])
    norm.alone = spec.get("alone", True)  # a module of its own, not part of the product after it
    return norm
