"""Small models of many kinds, written as people write them: for tests and as examples."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, causal, fused=True):
    """Attention over (batch, heads, length, width), by one kernel or by hand."""
    if k.shape[1] != q.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    if fused and hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    if fused:
        return F._scaled_dot_product_attention(q, k, v, None, 0.0, False, causal)[0]
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads=None, causal=False, bias=True, fused=True, rotary=False):
        super().__init__()
        self.heads, self.kv_heads, self.causal, self.fused, self.rotary = heads, kv_heads or heads, causal, fused, rotary
        self.head_dim = width // heads
        self.q_proj = nn.Linear(width, width, bias=bias)
        self.k_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(width, self.kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(width, width, bias=bias)

    def forward(self, x, memory=None, rotation=None):
        source = x if memory is None else memory
        q, k, v = (y.view(y.shape[0], y.shape[1], -1, self.head_dim).transpose(1, 2)
                   for y in (self.q_proj(x), self.k_proj(source), self.v_proj(source)))
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        y = attend(q, k, v, self.causal and memory is None, self.fused)
        return self.o_proj(y.transpose(1, 2).reshape(x.shape))


def rotate(x, rotation):
    cos, sin = rotation
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class Block(nn.Module):
    """Pre-norm transformer block; with `cross` also attends to an encoder's output."""

    def __init__(self, width, heads, ffn, causal=False, cross=False, fused=True, dropout=0.0):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, causal=causal, fused=fused)
        if cross:
            self.norm_cross, self.cross = nn.LayerNorm(width), Attention(width, heads, fused=fused)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, ffn), nn.GELU(), nn.Linear(ffn, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory=None):
        x = x + self.dropout(self.attention(self.norm1(x)))
        if memory is not None:
            x = x + self.dropout(self.cross(self.norm_cross(x), memory))
        return x + self.dropout(self.mlp(self.norm2(x)))


class VisionTransformer(nn.Module):
    def __init__(self, image=32, patch=8, width=64, depth=4, heads=4, ffn=256, classes=100):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, ffn) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, pixels):
        x = self.patches(pixels).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class SpeechModel(nn.Module):
    """Like Whisper: convolutions and an encoder over 2 * frames of sound, a decoder over text."""

    def __init__(self, mels=16, frames=32, tokens=64, width=64, depth=2, heads=4, vocabulary=128):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(mels, width, 3, padding=1), nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("sound_positions", torch.zeros(frames, width))
        self.encoder = nn.ModuleList(Block(width, heads, 4 * width) for _ in range(depth))
        self.encoder_norm = nn.LayerNorm(width)
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(tokens, width))
        self.decoder = nn.ModuleList(Block(width, heads, 4 * width, causal=True, cross=True) for _ in range(depth))
        self.decoder_norm = nn.LayerNorm(width)

    def forward(self, sound, tokens):
        x = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2) + self.sound_positions
        for block in self.encoder:
            x = block(x)
        memory = self.encoder_norm(x)
        y = self.embedding(tokens) + self.positions[: tokens.shape[1]]
        for block in self.decoder:
            y = block(y, memory)
        return self.decoder_norm(y) @ self.embedding.weight.t()


class Residual(nn.Module):
    def __init__(self, inner, outer, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, inner), nn.Conv2d(inner, outer, 3, padding=1)
        self.time = nn.Linear(time, outer)
        self.norm2, self.conv2 = nn.GroupNorm(8, outer), nn.Conv2d(outer, outer, 3, padding=1)
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class UNet(nn.Module):
    """A diffusion model's U-Net: skip connections join every level down with the same level up."""

    def __init__(self, channels=16, levels=3, time=32):
        super().__init__()
        sizes = [channels * 2**k for k in range(levels)]
        self.time = nn.Sequential(nn.Linear(1, time), nn.SiLU(), nn.Linear(time, time))
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.ModuleList(Residual(sizes[max(0, k - 1)], sizes[k], time) for k in range(levels))
        self.shrink = nn.ModuleList(nn.Conv2d(c, c, 3, stride=2, padding=1) for c in sizes[:-1])
        self.middle = Residual(sizes[-1], sizes[-1], time)
        self.up = nn.ModuleList(Residual(sizes[k] + sizes[min(levels - 1, k + 1)] if k < levels - 1 else 2 * sizes[k], sizes[k], time)
                                for k in reversed(range(levels)))
        self.leave = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x, t):
        t = self.time(t[:, None])
        x, kept = self.enter(x), []
        for k, block in enumerate(self.down):
            x = block(x, t)
            kept.append(x)
            if k < len(self.shrink):
                x = self.shrink[k](x)
        x = self.middle(x, t)
        for k, block in enumerate(self.up):
            x = block(torch.cat((x, kept.pop()), 1), t)
            if k < len(self.up) - 1:
                x = F.interpolate(x, scale_factor=2, mode="nearest")
        return self.leave(x)


class TwoTowers(nn.Module):
    """Like CLIP: one transformer for images, one for texts, compared by cosine."""

    def __init__(self, image=32, patch=8, width=64, depth=2, heads=4, vocabulary=128, tokens=16, joint=32):
        super().__init__()
        self.vision = VisionTransformer(image, patch, width, depth, heads, 4 * width, joint)
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(tokens, width))
        self.text = nn.ModuleList(Block(width, heads, 4 * width, causal=True) for _ in range(depth))
        self.projection = nn.Linear(width, joint, bias=False)
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, pixels, tokens):
        images = F.normalize(self.vision(pixels), dim=-1)
        x = self.embedding(tokens) + self.positions
        for block in self.text:
            x = block(x)
        texts = F.normalize(self.projection(x[:, -1]), dim=-1)
        return self.scale.exp() * images @ texts.t()


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return self.weight * (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class GatedMlp(nn.Module):
    def __init__(self, width, ffn):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(width, ffn, bias=False), nn.Linear(width, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """A mixture of experts by hand, with routing that depends on the data."""

    def __init__(self, width, ffn, experts=8, top_k=2):
        super().__init__()
        self.top_k = top_k
        self.gate = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(GatedMlp(width, ffn) for _ in range(experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen = self.gate(flat).softmax(-1).topk(self.top_k, -1)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, rank = torch.where(chosen == index)
            if rows.numel():
                out.index_add_(0, rows, expert(flat[rows]) * weights[rows, rank, None])
        return out.view_as(x)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, ffn, experts=0, top_k=2, fused=True):
        super().__init__()
        self.input_layernorm = RmsNorm(width)
        self.self_attn = Attention(width, heads, kv_heads, causal=True, bias=False, fused=fused)
        self.post_attention_layernorm = RmsNorm(width)
        self.mlp = Experts(width, ffn, experts, top_k) if experts else GatedMlp(width, ffn)

    def forward(self, x, rotation):
        x = x + self.self_attn(self.input_layernorm(x), rotation=rotation)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Llama, and with `experts` Mixtral, with Hugging Face's names."""

    def __init__(self, vocabulary=256, width=64, depth=4, heads=4, kv_heads=2, ffn=128, experts=0, top_k=2, tied=False, fused=True):
        super().__init__()
        self.head_dim = width // heads
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(LlamaBlock(width, heads, kv_heads, ffn, experts, top_k, fused) for _ in range(depth))
        self.norm = RmsNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.lm_head.weight = self.embed_tokens.weight

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        frequencies = 10000.0 ** (-torch.arange(0, self.head_dim, 2, device=x.device).float() / self.head_dim)
        angles = torch.outer(torch.arange(tokens.shape[1], device=x.device).float(), frequencies).repeat(1, 2)
        rotation = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, rotation)
        return self.lm_head(self.norm(x))


class Conv1D(nn.Module):
    """A linear layer with its weight stored (in, out), as GPT-2's."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(inner, outer).normal_(std=0.02)), nn.Parameter(torch.zeros(outer))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(x.shape[:-1] + self.bias.shape)


class Gpt2Block(nn.Module):
    def __init__(self, width, heads, dropout, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)
        self.c_fc, self.mlp_proj = Conv1D(width, 4 * width), Conv1D(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2) for y in self.c_attn(self.ln_1(x)).split(x.shape[-1], -1))
        y = attend(q, k, v, True, self.fused).transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.c_proj(y))
        return x + self.dropout(self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)))))


class Gpt2(nn.Module):
    def __init__(self, vocabulary=256, positions=128, width=64, depth=4, heads=4, dropout=0.1, fused=True):
        super().__init__()
        self.wte, self.wpe, self.drop = nn.Embedding(vocabulary, width), nn.Embedding(positions, width), nn.Dropout(dropout)
        self.h = nn.ModuleList(Gpt2Block(width, heads, dropout, fused) for _ in range(depth))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)
