#!/usr/bin/env python3
"""Measures what one accelerator does with the operators of training, for `nest calibrate`.

    python3 measure.py -o mine.json            about five minutes
    python3 measure.py -o mine.json --quick    about one minute

Needs PyTorch 1.13 or newer and nothing else; runs on CUDA, ROCm and, to try it out, on a CPU. What this version of PyTorch
or this device cannot do is left out and listed under "skipped".

How a number comes about: fresh random operands, a short rest so that clocks and power recover, at least `warmup` calls and
10 ms, then `repetitions` calls, each between two device events; the median is kept. The calls are queued ahead of the device,
as a training loop does, so `s`, `fwd`, ... are the device's own seconds; what the host needs to issue a call is kept beside
them (`host_s`, ...). Long operators feel the power cap, as the first tenths of a second of any program do. `sustained_gemm` is
the exception: a loop of several seconds, which settles where training runs.
"""
import argparse
import contextlib
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

SCHEMA = "nest.measurements/1"
SPIN_HZ = 2.0e9  # cycles per second of the spinning kernel; a slower clock only spins longer


def names_of(prefix):
    """Members of torch.nn.attention.SDPBackend that exist, by name; empty before PyTorch 2.3."""
    backends = getattr(getattr(torch.nn, "attention", None), "SDPBackend", None)
    return {name: getattr(backends, name) for name in prefix if hasattr(backends, name)} if backends else {}


class Bench:
    """The device, the protocol and the results."""

    def __init__(self, args):
        self.device = torch.device(args.device)
        self.cuda = self.device.type == "cuda"
        self.tiny = not self.cuda
        self.quick = args.quick
        self.warmup = 2 if self.tiny else 5
        self.repetitions = 3 if self.tiny else 20
        self.warmup_s = 0.0 if self.tiny else 0.01
        self.rest_s = 0.0 if self.tiny else 0.2
        self.entries = []
        self.skipped = []

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def random(self, *shape, dtype=torch.bfloat16, grad=False):
        tensor = torch.randn(*shape, device=self.device, dtype=torch.float32).to(dtype)
        return tensor.requires_grad_(grad)

    def once(self, call):
        """Seconds of one call that starts on an idle device, by device events where there are any."""
        if not self.cuda:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def time(self, call, prepare=None):
        """Median (device seconds, host seconds) of `call`; `prepare` runs before each call, outside the clock.

        Calls are queued without waiting, so a device that is slower than its host never waits for it. Where it would, a
        spinning kernel in front of each call keeps the device busy until the host is done.
        """
        host = []

        def clocked():
            start = time.perf_counter()
            call()
            host.append(time.perf_counter() - start)

        def ready():
            if prepare:
                prepare()

        self.sync()
        time.sleep(self.rest_s)
        device = []
        start = time.time()
        while len(device) < self.warmup or time.time() - start < self.warmup_s:
            ready()
            self.sync()
            device.append(self.once(clocked))
        if not self.cuda:
            ready()
            return statistics.median(device), statistics.median(device)
        dispatch = statistics.median(host)
        spin = int((1.5 * dispatch + 30e-6) * SPIN_HZ) if statistics.median(device) < 2 * dispatch + 50e-6 else 0
        host.clear()
        events = []
        for _ in range(self.repetitions):
            ready()
            if spin:
                torch.cuda._sleep(spin)
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            clocked()
            end.record()
            events.append((begin, end))
        self.sync()
        return statistics.median(begin.elapsed_time(end) for begin, end in events) * 1e-3, statistics.median(host)

    def wake(self):
        """A second and a half of load: a device that was idle starts at low clocks."""
        a = self.random(64 if self.tiny else 4096, 64 if self.tiny else 4096)
        start = time.time()
        while time.time() - start < (0.0 if self.tiny else 1.5):
            self.once(lambda: a @ a)

    def add(self, kind, **fields):
        self.entries.append({"kind": kind, **fields})

    def add_timed(self, kind, times, **fields):
        self.add(kind, **fields, s=times[0], host_s=times[1])

    def attempt(self, what, measure, *args, **kwargs):
        """One measurement; what cannot run here is noted and the rest goes on."""
        try:
            with torch.no_grad() if not kwargs.pop("grad", False) else contextlib.nullcontext():
                measure(self, *args, **kwargs)
        except Exception as error:  # out of memory, no such kernel, no such function: all mean "not here"
            self.skipped.append({"what": what, "why": "%s: %s" % (type(error).__name__, str(error).splitlines()[0][:160])})
        if self.cuda:
            torch.cuda.empty_cache()


# --- single operators ------------------------------------------------------------------------------------------------------


def gemm(bench, m, n, k):
    a, b = bench.random(m, k), bench.random(n, k)
    t = b.t()
    bench.add_timed("gemm", bench.time(lambda: a @ t), m=m, n=n, k=k)


def gemm_fp8(bench, m, n, k):
    a = bench.random(m, k).to(torch.float8_e4m3fn)
    b = bench.random(n, k).to(torch.float8_e4m3fn)
    one = torch.ones((), device=bench.device)
    call = lambda: torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    bench.add_timed("gemm_fp8", bench.time(call), m=m, n=n, k=k)


def gemm_grouped(bench, experts, rows, n, k):
    a, b = bench.random(experts * rows, k), bench.random(experts, n, k)
    ends = torch.arange(1, experts + 1, device=bench.device, dtype=torch.int32) * rows
    grouped = getattr(F, "grouped_mm", None) or torch._grouped_mm
    call = lambda: grouped(a, b.transpose(-2, -1), offs=ends)
    bench.add_timed("gemm_grouped", bench.time(call), experts=experts, rows=rows, n=n, k=k)


def sustained_gemm(bench, m, n, k, seconds):
    """A loop of one GEMM, with clock and power once a second where nvidia-smi answers."""
    a, b = bench.random(m, k), bench.random(n, k)
    flops = 2.0 * m * n * k
    burst = flops / bench.time(lambda: a @ b.t())[0]
    batch = max(1, int(0.05 * burst / flops))
    rates, clocks, power = [], [], []
    start = time.time()
    probe, asked = None, 0.0
    while time.time() - start < seconds:
        if probe is None and time.time() - asked > 1:
            probe, asked = start_probe(bench), time.time()
        rates.append(batch * flops / bench.once(lambda: [a @ b.t() for _ in range(batch)]))
        if probe is not None and probe.poll() is not None:
            clock, watts = read_probe(probe)
            if clock:
                clocks.append(clock)
                power.append(watts)
            probe = None
    if probe is not None:
        probe.wait()
    quarter = max(1, len(rates) // 4)
    bench.add("sustained_gemm", m=m, n=n, k=k, burst_tflops=burst * 1e-12,
              first_tflops=statistics.median(rates[:quarter]) * 1e-12, last_tflops=statistics.median(rates[-quarter:]) * 1e-12,
              clock_mhz=clocks, power_w=power)


def start_probe(bench):
    if not bench.cuda:
        return None
    command = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
    except OSError:
        return None


def read_probe(probe):
    try:
        clock, watts = probe.stdout.read().splitlines()[0].split(",")
        return float(clock), float(watts)
    except (ValueError, IndexError):
        return None, None


def memop(bench, op, rows, h):
    x = bench.random(rows, h)
    if op == "copy":
        y = torch.empty_like(x)
        call = lambda: y.copy_(x)
    elif op == "add":
        y = bench.random(rows, h)
        call = lambda: x + y
    elif op == "layernorm":
        w, b = bench.random(h), bench.random(h)
        call = lambda: F.layer_norm(x, (h,), w, b)
    elif op == "rmsnorm":
        w = bench.random(h)
        call = lambda: F.rms_norm(x, (h,), w)
    elif op == "gelu":
        call = lambda: F.gelu(x)
    elif op == "silu_mul":
        y = bench.random(rows, h)
        call = lambda: F.silu(x) * y
    elif op == "softmax":
        call = lambda: F.softmax(x, -1)
    elif op == "dropout":
        call = lambda: F.dropout(x, 0.1, True)
    elif op == "cross_entropy":
        target = torch.randint(h, (rows,), device=bench.device)
        call = lambda: F.cross_entropy(x.float(), target)
    elif op == "adamw":
        p = x.float().requires_grad_(True)
        p.grad = bench.random(rows, h, dtype=torch.float32)
        optimizer = torch.optim.AdamW([p], lr=1e-4, **({"fused": True} if bench.cuda else {}))
        call = optimizer.step
    bench.add_timed("memop", bench.time(call), op=op, rows=rows, h=h)


# --- attention -------------------------------------------------------------------------------------------------------------


def attend(q, k, v, causal):
    """Scaled dot-product attention of [b, heads, seq, hd] with fewer key heads where kv < heads."""
    if k.shape[1] == q.shape[1]:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    try:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    except TypeError:  # before PyTorch 2.5
        groups = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1), is_causal=causal)


def sdpa(bench, b, heads, kv, seq, hd, causal=True, backend=None):
    q = bench.random(b, heads, seq, hd, grad=True)
    k = bench.random(b, kv, seq, hd, grad=True)
    v = bench.random(b, kv, seq, hd, grad=True)
    g = bench.random(b, heads, seq, hd)
    context = torch.nn.attention.sdpa_kernel([backend[1]]) if backend else contextlib.nullcontext()
    with context:
        forward = bench.time(lambda: attend(q, k, v, causal))
        out = attend(q, k, v, causal)
        backward = bench.time(lambda: torch.autograd.grad(out, (q, k, v), g, retain_graph=True))
    shape = dict(b=b, heads=heads, kv=kv, seq=seq, hd=hd, causal=causal, fwd=forward[0], bwd=backward[0], host_fwd=forward[1],
                 host_bwd=backward[1])
    if backend:
        bench.add("sdpa_backend", backend=backend[0], **shape)
    else:
        bench.add("sdpa", **shape)


# --- whole blocks and steps ------------------------------------------------------------------------------------------------


class RmsNorm(torch.nn.Module):
    def __init__(self, h, **where):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(h, **where))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, (x.shape[-1],), self.weight)
        y = x.float()
        return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


class Block(torch.nn.Module):
    """A transformer block as one tensor-parallel rank runs it, without the collectives: fused QKV, sdpa, plain modules."""

    def __init__(self, shape, tp, **where):
        super().__init__()
        h, hd = shape["h"], shape["h"] // shape["heads"]
        self.hd, self.heads, self.kv = hd, shape["heads"] // tp, max(1, shape["kv"] // tp)
        self.gated, self.causal, bias = shape["gated"], shape["causal"], not shape["gated"]
        norm = RmsNorm if self.gated else torch.nn.LayerNorm
        ffn = shape["ffn"] // tp
        self.norm1, self.norm2 = norm(h, **where), norm(h, **where)
        self.qkv = torch.nn.Linear(h, (self.heads + 2 * self.kv) * hd, bias=bias, **where)
        self.out = torch.nn.Linear(self.heads * hd, h, bias=bias, **where)
        self.up = torch.nn.Linear(h, (2 if self.gated else 1) * ffn, bias=bias, **where)
        self.down = torch.nn.Linear(ffn, h, bias=bias, **where)

    def forward(self, x):
        b, s, _ = x.shape
        parts = self.qkv(self.norm1(x)).split([self.heads * self.hd, self.kv * self.hd, self.kv * self.hd], -1)
        q, k, v = (part.view(b, s, -1, self.hd).transpose(1, 2) for part in parts)
        x = x + self.out(attend(q, k, v, self.causal).transpose(1, 2).reshape(b, s, -1))
        y = self.up(self.norm2(x))
        if self.gated:
            gate, up = y.chunk(2, -1)
            return x + self.down(F.silu(gate) * up)
        return x + self.down(F.gelu(y))


SHAPES = {
    "llama3-8b": dict(h=4096, heads=32, kv=8, ffn=14336, gated=True, causal=True),
    "llama2-13b": dict(h=5120, heads=40, kv=40, ffn=13824, gated=True, causal=True),
    "llama3-70b": dict(h=8192, heads=64, kv=8, ffn=28672, gated=True, causal=True),
    "gpt3-175b": dict(h=12288, heads=96, kv=96, ffn=49152, gated=False, causal=True),
    "bert-large": dict(h=1024, heads=16, kv=16, ffn=4096, gated=False, causal=False),
    "tiny": dict(h=64, heads=4, kv=2, ffn=128, gated=True, causal=True),
}


def layer(bench, model, tp, seq, mbs):
    shape = SHAPES[model]
    block = Block(shape, tp, device=bench.device, dtype=torch.bfloat16)
    x, g = bench.random(mbs, seq, shape["h"], grad=True), bench.random(mbs, seq, shape["h"])

    def clear():
        x.grad = None
        block.zero_grad(set_to_none=True)

    forward = bench.time(lambda: block(x))
    both = bench.time(lambda: block(x).backward(g), clear)
    clear()
    kept = 0
    if bench.cuda:
        before = torch.cuda.memory_allocated()
        out = block(x)
        kept = torch.cuda.memory_allocated() - before
        del out
    bench.add("layer", model=model, tp=tp, seq=seq, mbs=mbs, impl="plain", **shape,
              params=sum(p.numel() for p in block.parameters()), fwd=forward[0], fwd_bwd=both[0], host_fwd=forward[1],
              host_fwd_bwd=both[1], saved_bytes=kept)


class Model(torch.nn.Module):
    def __init__(self, shape, layers, vocab, **where):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocab, shape["h"], **where)
        self.blocks = torch.nn.ModuleList(Block(shape, 1, **where) for _ in range(layers))
        self.norm = RmsNorm(shape["h"], **where)
        self.head = torch.nn.Linear(shape["h"], vocab, bias=False, **where)

    def forward(self, tokens, target):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), target.view(-1))


def step(bench, name, layers, h, heads, kv, ffn, vocab, seq, mbs):
    """A whole training step: bf16 weights and gradients, AdamW on fp32 master weights."""
    shape = dict(h=h, heads=heads, kv=kv, ffn=ffn, gated=True, causal=True)
    model = Model(shape, layers, vocab, device=bench.device, dtype=torch.bfloat16)
    weights = list(model.parameters())
    master = [w.detach().float().requires_grad_(True) for w in weights]
    optimizer = torch.optim.AdamW(master, lr=1e-4, **({"fused": True} if bench.cuda else {}))
    tokens = torch.randint(vocab, (mbs, seq), device=bench.device)
    target = torch.randint(vocab, (mbs, seq), device=bench.device)

    def clear():
        for weight in weights:
            weight.grad = None

    def forward_backward():
        model(tokens, target).backward()

    def whole():
        clear()
        forward_backward()
        with torch.no_grad():
            for fp32, weight in zip(master, weights):
                fp32.grad = weight.grad.float()
            optimizer.step()
            for fp32, weight in zip(master, weights):
                weight.copy_(fp32)
                fp32.grad = None

    whole()
    if bench.cuda:
        torch.cuda.reset_peak_memory_stats()
    repetitions, bench.repetitions = bench.repetitions, min(bench.repetitions, 8)
    try:
        both = bench.time(forward_backward, clear)
        total = bench.time(whole)
    finally:
        bench.repetitions = repetitions
    bench.add("step", name=name, layers=layers, h=h, heads=heads, kv=kv, ffn=ffn, vocab=vocab, seq=seq, mbs=mbs, recompute=False,
              params=sum(w.numel() for w in weights), step_s=total[0], fwd_bwd_s=both[0],
              peak_bytes=torch.cuda.max_memory_allocated() if bench.cuda else 0, optim="adamw_fp32_master")


# --- what is measured ------------------------------------------------------------------------------------------------------

MEMOPS = ["copy", "add", "layernorm", "rmsnorm", "gelu", "silu_mul", "softmax", "dropout"]


def gemm_grid(bench):
    if bench.tiny:
        return [(64, 128, 64), (128, 64, 128)]
    weights = [(1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (6144, 4096), (14336, 4096), (4096, 14336), (8192, 8192),
               (10240, 8192), (28672, 8192), (8192, 28672), (12288, 12288), (49152, 12288), (12288, 1536), (1536, 12288),
               (32000, 4096), (5120, 5120), (2560, 2048)]
    rows = [1024, 4096, 16384]
    if bench.quick:
        weights, rows = weights[2:12:2], [1024, 8192]
    else:
        rows = [512, 1024, 2048, 4096, 8192, 16384]
    return [(m, n, k) for m in rows for n, k in weights]


def memop_grid(bench):
    sizes = [(512, 1024), (2048, 2048), (4096, 4096), (8192, 4096), (4096, 14336), (8192, 8192), (16384, 12288), (16384, 28672)]
    if bench.tiny:
        sizes = [(8, 64)]
    elif bench.quick:
        sizes = [(512, 1024), (4096, 4096), (16384, 12288)]
    grid = [(op, rows, h) for op in MEMOPS for rows, h in sizes]
    if bench.tiny:
        return grid + [("cross_entropy", 8, 64), ("adamw", 8, 64)]
    grid += [("cross_entropy", 4096, 32000), ("cross_entropy", 8192, 32000), ("cross_entropy", 4096, 128256)]
    return grid + [("adamw", 4096, 4096), ("adamw", 8192, 8192), ("adamw", 16384, 16384)]


def sdpa_grid(bench):
    if bench.tiny:
        return [(1, 4, 2, 64, 16, True)]
    grid = [(1, 32, 8, 4096, 128, True), (1, 64, 8, 8192, 128, True), (1, 12, 12, 2048, 128, True), (8, 16, 16, 512, 64, False),
            (2, 32, 32, 2048, 128, True), (8, 16, 16, 1024, 64, True), (1, 8, 1, 32768, 128, True)]
    if bench.quick:
        return grid
    return grid + [(1, 16, 16, 512, 64, False), (32, 16, 16, 512, 64, False), (1, 32, 32, 1024, 128, True), (1, 32, 32, 2048, 128, True),
                   (1, 32, 32, 4096, 128, True), (4, 16, 16, 2048, 128, True), (1, 64, 8, 4096, 128, True), (1, 96, 96, 2048, 128, True),
                   (2, 96, 96, 2048, 128, True), (1, 8, 1, 8192, 128, True), (1, 4, 1, 4096, 128, True), (1, 16, 2, 8192, 128, True),
                   (2, 32, 8, 8192, 128, True), (1, 40, 40, 4096, 128, True), (1, 32, 8, 16384, 128, True), (4, 32, 8, 4096, 128, True),
                   (1, 32, 32, 4096, 64, True), (2, 32, 32, 2048, 64, True), (1, 25, 25, 1024, 64, True), (4, 12, 12, 1024, 64, True),
                   (4, 32, 32, 4096, 64, True), (1, 16, 16, 4096, 128, False), (2, 32, 32, 2048, 128, False), (1, 8, 8, 2048, 256, True)]


def layer_grid(bench):
    if bench.tiny:
        return [("tiny", 1, 64, 1), ("tiny", 2, 64, 2)]
    grid = [("llama3-8b", tp, 4096, mbs) for tp, mbs in ((1, 1), (4, 2), (8, 1))] + [("gpt3-175b", 8, 2048, 1), ("bert-large", 1, 512, 8)]
    if bench.quick:
        return grid
    grid += [("llama3-8b", tp, 2048, mbs) for tp in (1, 2, 4, 8) for mbs in (1, 4)]
    grid += [("llama3-8b", 1, 8192, 1), ("llama3-8b", 2, 8192, 2), ("llama3-8b", 8, 8192, 2)]
    grid += [("llama2-13b", tp, 4096, mbs) for tp, mbs in ((1, 1), (1, 2), (2, 1), (4, 4), (8, 2))]
    grid += [("llama3-70b", tp, 4096, mbs) for tp, mbs in ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2))]
    grid += [("gpt3-175b", tp, 2048, mbs) for tp, mbs in ((2, 1), (4, 2), (8, 2))]
    return grid + [("bert-large", tp, 512, mbs) for tp, mbs in ((1, 1), (1, 32), (2, 32), (8, 32))]


def measure_operators(bench):
    for shape in gemm_grid(bench):
        bench.attempt("gemm", gemm, *shape)
    if not bench.tiny:
        fp8 = [(m, n, k) for m, n, k in gemm_grid(bench) if m in (2048, 4096, 8192) and n >= 4096 and k >= 4096 and n < 32000]
        for shape in fp8:
            bench.attempt("gemm_fp8", gemm_fp8, *shape)
    for shape in memop_grid(bench):
        bench.attempt("memop " + shape[0], memop, *shape)
    for shape in sdpa_grid(bench):
        bench.attempt("sdpa", sdpa, *shape, grad=True)
    if not bench.tiny:
        for backend in names_of(["FLASH_ATTENTION", "CUDNN_ATTENTION"]).items():
            for shape in sdpa_grid(bench)[:7]:
                bench.attempt("sdpa " + backend[0], sdpa, *shape, backend=backend, grad=True)
    grouped = [(4, 16, 64, 64)] if bench.tiny else [(8, 1024, 28672, 4096), (8, 1024, 4096, 14336), (128, 256, 1536, 2048), (16, 256, 1536, 2048)]
    if not (bench.tiny or bench.quick):
        grouped += [(8, 4096, 4096, 14336), (2, 4096, 28672, 4096), (128, 64, 1536, 2048), (32, 256, 4096, 7168), (4, 2048, 4096, 7168),
                    (8, 512, 4096, 7168), (32, 512, 7168, 2048), (64, 128, 2816, 2048), (16, 1024, 2048, 1408)]
    for shape in grouped:
        bench.attempt("gemm_grouped", gemm_grouped, *shape)


def measure_whole(bench):
    for shape in layer_grid(bench):
        bench.attempt("layer " + shape[0], layer, *shape, grad=True)
    if bench.tiny:
        bench.attempt("step", step, "tiny", 2, 64, 4, 2, 128, 256, 64, 1, grad=True)
    else:
        bench.attempt("step", step, "llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, 4096, 1, grad=True)
        if not bench.quick:
            bench.attempt("step", step, "llama3.2-1b", 16, 2048, 32, 8, 8192, 128256, 4096, 4, grad=True)
    sustained = [(64, 64, 64)] if bench.tiny else [(8192, 8192, 8192)] if bench.quick else [(4096, 4096, 4096), (8192, 8192, 8192), (8192, 28672, 8192)]
    for shape in sustained:
        bench.attempt("sustained_gemm", sustained_gemm, *shape, 0.2 if bench.tiny else 4 if bench.quick else 6)


def describe(bench):
    device = {"name": platform.processor() or "cpu", "backend": "cpu"}
    if bench.cuda:
        facts = torch.cuda.get_device_properties(bench.device)
        device = {"name": facts.name, "backend": "rocm" if torch.version.hip else "cuda", "multiprocessors": facts.multi_processor_count,
                  "memory_bytes": facts.total_memory}
    software = {"torch": torch.__version__, "python": platform.python_version()}
    for name in ("cuda", "hip"):
        if getattr(torch.version, name, None):
            software[name] = getattr(torch.version, name)
    return device, software


def rounded(value):
    """Four significant digits: what a median of twenty means, and a small file."""
    if isinstance(value, float):
        return float("%.4g" % value)
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return value


def write(path, bench, seconds):
    device, software = describe(bench)
    header = {"schema": SCHEMA, "date": datetime.date.today().isoformat(), "device": device, "software": software,
              "protocol": {"timing": "queued", "mode": "quick" if bench.quick else "full", "warmup": bench.warmup, "repetitions": bench.repetitions,
                           "seconds": round(seconds)}, "skipped": bench.skipped}
    lines = ["{%s," % json.dumps(header)[1:-1], ' "entries": [']
    rows = [json.dumps({key: rounded(value) for key, value in entry.items()}) for entry in bench.entries]
    lines.append(",\n".join("  " + row for row in rows))
    lines.append(" ]}")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description="Measure this device for `nest calibrate`.")
    parser.add_argument("-o", "--output", default="measurements.json", help="file to write (default: measurements.json)")
    parser.add_argument("--quick", action="store_true", help="about one minute instead of five: fewer shapes")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda (also for ROCm) or cpu")
    args = parser.parse_args()
    if args.device != "cpu" and not torch.cuda.is_available():
        parser.error("--device %s: PyTorch sees no such device here; use --device cpu to try the script" % args.device)
    torch.manual_seed(1)
    bench = Bench(args)
    if bench.tiny:
        print("measuring the CPU with tiny shapes: this tries the script, it calibrates nothing", file=sys.stderr)
    start = time.time()
    bench.wake()
    measure_operators(bench)
    print("operators done after %.0f s" % (time.time() - start), file=sys.stderr)
    measure_whole(bench)
    write(args.output, bench, time.time() - start)
    print("%d measurements, %d skipped, %.0f s -> %s" % (len(bench.entries), len(bench.skipped), time.time() - start, args.output),
          file=sys.stderr)


if __name__ == "__main__":
    main()
