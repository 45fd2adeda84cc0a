"""Kernels of nest.verify's fused modules: what Megatron-Core's keep for backward and no more, in one kernel each where PyTorch can compile.

    norm         keeps its input and the reciprocal root
    gate x up    keeps both, not the activation between them; of experts with the router's weights inside
    product      adds its weight's gradient to the sum as it computes it
    rotary       keeps nothing
    dispatch, combine   one gather, one gather with a sum; each is the other's backward
    loss         keeps the logits in 16 bits and turns them into their gradient in place
"""
import torch
import torch.nn.functional as F

ROWS = 2048  # of logits at a time


class _Compiled:
    """A function that is compiled when it first sees a GPU; as it is where that fails and elsewhere."""

    def __init__(self, function):
        self.function, self.fast = function, None

    def __call__(self, *given):
        if not given[0].is_cuda or not hasattr(torch, "compile"):
            return self.function(*given)
        # Whether gradients are asked for would be compiled for apart.
        given = [each.detach() if isinstance(each, torch.Tensor) else each for each in given]
        if self.fast is None:
            self.fast = torch.compile(self.function, dynamic=True)
            try:
                return self.fast(*given)
            except Exception:  # no compiler on this machine
                self.fast = self.function
        return self.fast(*given)


compiled = _Compiled


@compiled
def _gate_forward(gate, up):
    x = gate.float()
    return (x * torch.sigmoid(x) * up.float()).to(gate.dtype)


@compiled
def _gate_backward(gradient, gate, up):
    g, x, y = gradient.float(), gate.float(), up.float()
    s = torch.sigmoid(x)
    return (g * y * s * (1 + x * (1 - s))).to(gate.dtype), (g * x * s).to(up.dtype)


class Gated(torch.autograd.Function):
    """silu(gate) x up."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return _gate_forward(gate, up)

    @staticmethod
    def backward(ctx, gradient):
        return _gate_backward(gradient, *ctx.saved_tensors)


@compiled
def _weighted_forward(both, shares):
    gate, up = both.float().chunk(2, -1)
    return (gate * torch.sigmoid(gate) * up * shares.float()).to(both.dtype)


@compiled
def _weighted_backward(gradient, both, shares):
    g, w = gradient.float(), shares.float()
    gate, up = both.float().chunk(2, -1)
    s = torch.sigmoid(gate)
    to_both = torch.cat((g * w * up * s * (1 + gate * (1 - s)), g * w * gate * s), -1)
    return to_both.to(both.dtype), (g * gate * s * up).sum(-1, keepdim=True).to(shares.dtype)


class Weighted(torch.autograd.Function):
    """The same of experts' rows, times the share of each."""

    @staticmethod
    def forward(ctx, both, shares):
        ctx.save_for_backward(both, shares)
        return _weighted_forward(both, shares)

    @staticmethod
    def backward(ctx, gradient):
        return _weighted_backward(gradient, *ctx.saved_tensors)


@compiled
def _turn_heads(x, cos, sin):
    half = x.shape[-1] // 2
    return (x.float() * cos.float() + torch.cat((-x[..., half:], x[..., :half]), -1).float() * sin.float()).to(x.dtype)


class Rotated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.angles = cos, sin
        return _turn_heads(x, cos, sin)

    @staticmethod
    def backward(ctx, gradient):
        cos, sin = ctx.angles
        return _turn_heads(gradient, cos, -sin), None, None


class Product(torch.autograd.Function):
    """x times a weight. The weight's gradient goes into the sum over micro-batches at once."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        ctx.weight = weight  # itself: what checkpoints hand back is a copy
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx, gradient):
        (x,), weight = ctx.saved_tensors, ctx.weight
        g, rows = gradient.reshape(-1, gradient.shape[-1]), x.reshape(-1, x.shape[-1])
        to_input = gradient @ weight
        if hasattr(weight, "main"):
            weight.main.add_(g.t() @ rows)
        elif weight.grad is None:
            weight.grad = g.t() @ rows
        else:
            weight.grad.addmm_(g.t(), rows)
        return to_input, None


@compiled
def _take(x, rows):
    return x[rows]


@compiled
def _take_and_add(x, rows, tokens):
    return x[rows].view(tokens, -1, x.shape[-1]).float().sum(1).to(x.dtype)


class Dispatched(torch.autograd.Function):
    """Tokens to rows of experts: row i is of token order[i] / k; `back` is the inverse of `order`."""

    @staticmethod
    def forward(ctx, x, order, back, k):
        ctx.back, ctx.tokens = back, x.shape[0]
        return _take(x, order // k)

    @staticmethod
    def backward(ctx, gradient):
        return _take_and_add(gradient, ctx.back, ctx.tokens), None, None, None


class Combined(torch.autograd.Function):
    """Rows of experts to tokens, added up."""

    @staticmethod
    def forward(ctx, rows, order, back, k):
        ctx.order, ctx.k = order, k
        return _take_and_add(rows, back, rows.shape[0] // k)

    @staticmethod
    def backward(ctx, gradient):
        return _take(gradient, ctx.order // ctx.k), None, None, None


@compiled
def _log_sum(logits, labels):
    x = logits.float()
    total = torch.logsumexp(x, -1)
    return total, total - x.gather(-1, labels.unsqueeze(-1)).squeeze(-1)


@compiled
def _logit_gradient(logits, total, labels, scale):
    chance = torch.exp(logits.float() - total.unsqueeze(-1))
    columns = torch.arange(logits.shape[-1], device=logits.device)
    return ((chance - (columns == labels.unsqueeze(-1)).float()) * scale).to(logits.dtype)


class Loss(torch.autograd.Function):
    """Mean cross entropy."""

    @staticmethod
    def forward(ctx, logits, labels):
        parts = [_log_sum(logits[i : i + ROWS], labels[i : i + ROWS]) for i in range(0, logits.shape[0], ROWS)]
        ctx.save_for_backward(logits, torch.cat([total for total, _ in parts]), labels)
        return torch.cat([loss for _, loss in parts]).mean()

    @staticmethod
    def backward(ctx, gradient):
        logits, totals, labels = ctx.saved_tensors
        logits = logits.detach()
        scale = gradient / logits.shape[0]
        for i in range(0, logits.shape[0], ROWS):
            part = slice(i, i + ROWS)
            logits[part] = _logit_gradient(logits[part], totals[part], labels[part], scale)
        return logits, None


class RootNorm(torch.autograd.Function):
    """For versions of PyTorch whose rms_norm is no kernel of its own."""

    @staticmethod
    def forward(ctx, x, weight):
        y = x.float()
        root = torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        ctx.save_for_backward(x, weight, root)
        return (y * root).to(x.dtype) * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight, root = ctx.saved_tensors
        y, g = x.float() * root, (gradient * weight).float()
        to_input = root * (g - y * (g * y).mean(-1, keepdim=True))
        return to_input.to(x.dtype), (gradient.float() * y).flatten(0, -2).sum(0).to(weight.dtype)


def root_norm(x, weight):
    fused = getattr(F, "rms_norm", None)
    return fused(x, (x.shape[-1],), weight) if fused and x.is_cuda else RootNorm.apply(x, weight)


# --- what is dropped and made again ----------------------------------------------------------------------------------------


class Dropped:
    """Outputs of cheap modules that are not kept for their readers: whoever needs one in backward makes it again, once for all of its
    readers. Used as a context around the readers' forward passes."""

    def __init__(self):
        self.known = {}

    def add(self, tensor, again):
        self.known[_address(tensor)] = _Again(again), tensor  # held until the end: its address is nobody else's

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)
        self.known = {}

    def _pack(self, tensor):
        again, _ = self.known.get(_address(tensor), (None, None))
        if again is None:
            return tensor
        again.readers += 1
        return again, tuple(tensor.shape)

    @staticmethod
    def _unpack(kept):
        return kept[0].value().view(kept[1]) if isinstance(kept, tuple) else kept


class _Again:
    def __init__(self, make):
        self.make, self.readers, self.made = make, 0, None

    def value(self):
        if self.made is None:
            with torch.no_grad():
                self.made = self.make()
        self.readers -= 1
        made = self.made
        if self.readers == 0:
            self.made = None
        return made


def _address(tensor):
    from ._recorder import storage_of

    return storage_of(tensor).data_ptr()
