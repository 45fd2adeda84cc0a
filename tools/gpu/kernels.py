#!/usr/bin/env python3
"""Where the time of a training step of transformers' models goes on one GPU, by kind of kernel, and what the host needs.

    PYTHONPATH=python python3 tools/gpu/kernels.py OUT [recompute] [TYPE...]

Writes OUT/kernels.json, one row a model of transformers_steps.py (all, or the types that are named), with adapters too, or only with recomputation,
and OUT/masked.json, attention with a mask of its own:

    step_s, forward_s, forward_backward_s   medians of steps that follow each other for two seconds
    host_s                                  the same three with 16 tokens, where the device waits for the host
    kernels                                 of forward, backward and update: [count, seconds] by kind of kernel
    operators                               the longest operators of PyTorch with their shapes: [name, shapes, count, seconds]
    memory                                  bytes live before, after and at most in each of the three; bytes held
"""
import json
import os
import re
import sys
import time
import traceback

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import transformers_steps as steps

# First match names the kind.
KINDS = [("attention", "flash|fmha|cudnn"), ("product", "nvjet|cutlass|gemm|xmma|splitK|gemv"), ("update", "multi_tensor|adam"),
         ("norm", "layer_norm|LayerNorm|GammaBeta|rms_norm"), ("softmax", "[sS]oft[mM]ax|nll_loss"), ("reduce", "reduce"),
         ("cat", "CatArray"), ("rows", "embedding|index|gather|scatter|sort|cub|Radix"), ("copy", "Memcpy|Memset"), ("pointwise", "elementwise|fill|unrolled")]


def kind_of(name):
    return next((kind for kind, pattern in KINDS if re.search(pattern, name)), "other")


class Step:
    """One training step in three parts."""

    def __init__(self, model, batch, seq, vocab):
        self.model = model
        self.given = steps.inputs_of("causal", batch, seq, vocab, steps.DEVICE)
        self.weights = [p for p in model.parameters() if p.requires_grad]
        self.master = [w.detach().float().requires_grad_(True) for w in self.weights]
        self.optimizer = torch.optim.AdamW(self.master, lr=1e-5, fused=True)
        self.loss = None

    def resize(self, batch, seq, vocab):
        self.given = steps.inputs_of("causal", batch, seq, vocab, steps.DEVICE)

    def forward(self):
        for weight in self.weights:
            weight.grad = None
        logits = self.model(**self.given).logits
        self.loss = torch.nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]).float(), self.given["input_ids"].view(-1))

    def backward(self):
        self.loss.backward()
        self.loss = None

    @torch.no_grad()
    def update(self):
        for fp32, weight in zip(self.master, self.weights):
            if weight.grad is not None:
                fp32.grad = weight.grad.float()
        self.optimizer.step()
        for fp32, weight in zip(self.master, self.weights):
            weight.copy_(fp32)
            fp32.grad = None

    def parts(self):
        return (self.forward, self.backward, self.update)


def medians(step, seconds):
    """Of forward, forward and backward, and the whole, each with nothing but itself before the clock is read."""
    found = []
    for last in (1, 2, 3):
        taken, begin = [], time.perf_counter()
        while len(taken) < 4 or time.perf_counter() - begin < seconds:
            torch.cuda.synchronize()
            start = time.perf_counter()
            for part in step.parts()[:last]:
                part()
            torch.cuda.synchronize()
            taken.append(time.perf_counter() - start)
            step.loss = None
        found.append(sorted(taken)[len(taken) // 2])
    return found


def by_kind(step):
    kernels, operators = {}, []
    for part in step.parts():
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as profiler:
            part()
            torch.cuda.synchronize()
        sums = kernels.setdefault(part.__name__, {})
        for event in profiler.events():
            if event.device_type != DeviceType.CUDA:
                continue
            entry = sums.setdefault(kind_of(event.name), [0, 0.0])
            entry[0] += 1
            entry[1] += event.time_range.elapsed_us() * 1e-6
            if kind_of(event.name) == "other":
                names = kernels.setdefault("others", {})
                names[event.name[:100]] = names.get(event.name[:100], 0) + 1
        averages = profiler.key_averages(group_by_input_shape=True)
        longest = sorted((a for a in averages if a.device_type != DeviceType.CUDA), key=lambda a: -a.self_device_time_total)[:45]
        operators += [[part.__name__, a.key, str(a.input_shapes)[:160], a.count, a.self_device_time_total * 1e-6] for a in longest
                      if a.self_device_time_total > 0]
    return kernels, operators


def memory(step):
    found = {}
    torch.cuda.empty_cache()
    for part in step.parts():
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        part()
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        found[part.__name__] = [before, torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(),
                                stats.get("requested_bytes.all.peak"), torch.cuda.max_memory_reserved()]
    return found


def recompute(model):
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def variants_of(model_type, only):
    if only:
        yield "recompute", recompute
        return
    yield None, lambda model: None
    if model_type == "llama":
        yield "lora rank=64,targets=all", lambda model: steps.add_lora(
            model, 64, ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"))


def masked_attention():
    """Forward and backward of attention that is given a mask, as sliding windows are in transformers."""
    rows = []
    for batch, heads, seq, dim in ((2, 32, 2048, 64), (2, 32, 4096, 64), (2, 16, 4096, 128), (1, 32, 4096, 128), (1, 16, 8192, 128)):
        q, k, v = (torch.randn(batch, heads, seq, dim, device=steps.DEVICE, dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
        mask = torch.ones(seq, seq, device=steps.DEVICE, dtype=torch.bool).tril()[None, None].expand(batch, 1, seq, seq)
        taken = []
        for backward in (False, True):
            seconds = []
            for _ in range(12):
                torch.cuda.synchronize()
                start = time.perf_counter()
                out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
                if backward:
                    out.backward(out)
                torch.cuda.synchronize()
                seconds.append(time.perf_counter() - start)
            taken.append(sorted(seconds)[6])
        rows.append({"batch": batch, "heads": heads, "seq": seq, "dim": dim, "forward_s": taken[0], "backward_s": taken[1] - taken[0]})
        print(rows[-1], flush=True)
    return rows


def main():
    out, wanted = sys.argv[1], [word for word in sys.argv[2:] if word != "recompute"]
    only = "recompute" in sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "masked.json"), "w", encoding="utf-8") as file:
        json.dump(masked_attention(), file)
    rows = []
    for model_type, changes, seq, batch in steps.STEPS:
        if wanted and model_type not in wanted:
            continue
        for variant, change in variants_of(model_type, only):
            row = {"type": model_type, "variant": variant, "batch": batch, "seq": seq}
            try:
                config = steps.configuration(model_type, changes)
                row["config"] = json.loads(config.to_json_string(use_diff=False))
                torch.manual_seed(0)
                model = steps.build("causal", config, steps.DEVICE)
                change(model)
                step = Step(model, batch, seq, config.vocab_size)
                for part in step.parts() * 2:
                    part()
                row["memory"] = memory(step)
                row["forward_s"], row["forward_backward_s"], row["step_s"] = medians(step, 2)
                row["kernels"], row["operators"] = by_kind(step)
                step.resize(1, 16, config.vocab_size)
                for part in step.parts():
                    part()
                row["host_s"] = medians(step, 0.5)
                row["tensors"] = len(step.weights)
            except Exception as error:
                row["error"] = "%s: %s" % (type(error).__name__, str(error)[:300])
                traceback.print_exc(limit=2)
            model = step = None
            torch.cuda.empty_cache()
            rows.append(row)
            print({k: v for k, v in row.items() if k not in ("config", "operators")}, flush=True)
            with open(os.path.join(out, "kernels.json"), "w", encoding="utf-8") as file:
                json.dump(rows, file)


if __name__ == "__main__":
    main()
