"""Transformer blocks as plain PyTorch modules, from a Hugging Face configuration: what the measured layers of a preset run."""
import torch
import torch.nn.functional as F
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, (x.shape[-1],), self.weight)
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def attend(q, k, v, causal):
    """Attention over (batch, heads, length, width), with fewer key heads where there are fewer."""
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril(), float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads, head_dim, bias, out_bias, causal, rotary):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim, self.causal, self.rotary = heads, kv_heads, head_dim, causal, rotary
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * head_dim, bias=bias)
        self.out = nn.Linear(heads * head_dim, width, bias=out_bias)

    def forward(self, x):
        sizes = [n * self.head_dim for n in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (y.view(y.shape[0], y.shape[1], -1, self.head_dim).transpose(1, 2) for y in self.qkv(x).split(sizes, -1))
        if self.rotary:
            q, k = rotate(q), rotate(k)
        return self.out(attend(q, k, v, self.causal).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


def rotate(x):
    angles = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)[:, None] * torch.ones(x.shape[-1], device=x.device)
    first, second = x.chunk(2, -1)
    return x * angles.cos().to(x.dtype) + torch.cat((-second, first), -1) * angles.sin().to(x.dtype)


class Mlp(nn.Module):
    def __init__(self, width, ffn, gated, bias):
        super().__init__()
        self.gated = gated
        self.up = nn.Linear(width, (2 if gated else 1) * ffn, bias=bias)
        self.down = nn.Linear(ffn, width, bias=bias)

    def forward(self, x):
        y = self.up(x)
        if not self.gated:
            return self.down(F.gelu(y))
        gate, up = y.chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Experts(nn.Module):
    """Experts with a perfectly balanced router: every expert gets the same number of rows, whatever the data."""

    def __init__(self, width, ffn, experts, top_k):
        super().__init__()
        self.experts, self.top_k = experts, top_k
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, width, 2 * ffn).normal_(std=0.02))
        self.down = nn.Parameter(torch.empty(experts, ffn, width).normal_(std=0.02))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights = self.router(flat).softmax(-1).topk(self.top_k, -1)[0].reshape(-1, 1).to(x.dtype)
        rows = torch.arange(flat.shape[0] * self.top_k, device=x.device)
        order = (rows % self.experts).argsort()
        routed = flat[order // self.top_k].view(self.experts, -1, flat.shape[1])
        gate, up = torch.bmm(routed, self.up).chunk(2, -1)
        done = torch.bmm(F.silu(gate) * up, self.down).view(-1, flat.shape[1]) * weights[order]
        return torch.zeros_like(flat).index_add(0, order // self.top_k, done).view_as(x)


class Block(nn.Module):
    def __init__(self, norm, attention, mlp):
        super().__init__()
        self.norm1, self.attention, self.norm2, self.mlp = norm(), attention, norm(), mlp

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


GATED = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "gemma", "olmo2", "phi3")
LAYER_NORM = ("gpt2", "bert", "roberta", "opt", "gpt_neox", "bloom", "phi", "falcon", "starcoder2", "nemotron", "megatron", "gpt")


def block_of(config):
    """The block of a model, or None for an architecture that these modules cannot spell."""
    get = lambda *names: next((config[name] for name in names if config.get(name) is not None), None)
    width, heads = get("hidden_size", "n_embd", "d_model"), get("num_attention_heads", "n_head")
    ffn = get("moe_intermediate_size", "intermediate_size", "n_inner", "ffn_dim") or (4 * width if width else None)
    family = config.get("model_type", "")
    if not width or not heads or family not in GATED + LAYER_NORM:
        return None
    gated = family in GATED
    bias = config.get("attention_bias", family == "qwen2") if gated else True
    attention = Attention(width, heads, get("num_key_value_heads") or heads, get("head_dim") or width // heads, bias,
                          bias and family != "qwen2", family not in ("bert", "roberta"), gated)
    experts = get("num_local_experts", "num_experts", "n_routed_experts")
    mlp = Experts(width, ffn, experts, get("num_experts_per_tok")) if experts else Mlp(width, ffn, gated, not gated)
    return Block((lambda: RmsNorm(width)) if gated else (lambda: nn.LayerNorm(width)), attention, mlp)
