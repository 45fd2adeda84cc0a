"""The passes of one pipeline stage on one device: their order, what is in flight, and what they take."""
import gc
import statistics
import time

import torch
from torch import nn

from . import _verify_blocks as blocks_of
from . import _verify_modules as modules

WORKSPACE = 64 << 20  # of the buffers that nest predicts, what libraries take by themselves; collectives have the rest
SCHEDULES = ("1f1b", "interleaved", "gpipe")


def order_of(schedule, stages, chunks, micro_batches, stage, group=None):
    """The passes of a stage as ("F" or "B", chunk, micro-batch), in the order in which it runs them."""
    if schedule not in SCHEDULES:
        raise modules.Unsupported("schedule %s: its backward passes are split in two; nest.verify runs %s" % (schedule, ", ".join(SCHEDULES)))
    if schedule == "gpipe":
        return [("F", 0, i) for i in range(micro_batches)] + [("B", 0, i) for i in reversed(range(micro_batches))]
    if chunks == 1:
        forwards, backwards = [("F", 0, i) for i in range(micro_batches)], [("B", 0, i) for i in range(micro_batches)]
        first = min(stages - 1 - stage, micro_batches)
    else:
        group = group or stages
        rest = micro_batches % group
        counted = micro_batches - rest + stages if 0 < rest < stages else micro_batches
        forwards, backwards = [], []
        for begin in range(0, counted, group):
            for chunk in range(chunks):
                for i in range(begin, min(begin + group, counted)):
                    forwards.append(("F", chunk, i))
                    backwards.append(("B", chunks - 1 - chunk, i))
        first = min(2 * (stages - 1 - stage) + (chunks - 1) * group, counted * chunks)
    order = forwards[:first]
    for f, b in zip(forwards[first:], backwards):
        order += [f, b]
    order += backwards[len(forwards) - first :]
    return [one for one in order if one[2] < micro_batches]


def most_in_flight(order):
    """Passes forward whose backward is still to come, at most."""
    held = most = 0
    for kind, _, _ in order:
        held += 1 if kind == "F" else -1
        most = max(most, held)
    return most


def short_order(schedule, stages, chunks, micro_batches, stage, group=None):
    """The order of fewer micro-batches that holds as many at once as all of them do."""
    whole = most_in_flight(order_of(schedule, stages, chunks, micro_batches, stage, group))
    if schedule == "gpipe":
        return order_of(schedule, stages, chunks, micro_batches, stage, group)
    step = (group or stages) if chunks > 1 else 1
    for fewer in range(step, micro_batches + 1, step):
        order = order_of(schedule, stages, chunks, fewer, stage, group)
        if most_in_flight(order) == whole and fewer >= min(micro_batches, whole // chunks + 1):
            return order
    return order_of(schedule, stages, chunks, micro_batches, stage, group)


class _Start(torch.autograd.Function):
    """What the stage before would have sent. Its gradient would be sent back, and is dropped."""

    @staticmethod
    def forward(ctx, token, received):
        ctx.token = token.shape
        return received.view_as(received)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.new_zeros(ctx.token), None


class _End(torch.autograd.Function):
    """What would be sent to the stage after is gone once it is sent; a gradient of its size comes back."""

    @staticmethod
    def forward(ctx, sent):
        ctx.shape = tuple(sent.shape)
        ctx.kind = (sent.dtype, sent.device)
        return sent.new_zeros(1)

    @staticmethod
    def backward(ctx, gradient):
        return torch.randn(ctx.shape, dtype=ctx.kind[0], device=ctx.kind[1])


def recomputed(treatment, block, blocks):
    """What happens to one of a chunk's blocks: "none", "full", or the modules that run again. treatment: as the work says."""
    kind = treatment["kind"]
    if kind == "block":
        return "full" if block < treatment["count"] else "none"
    if kind == "modules":
        return treatment["modules"]
    return "full" if kind in ("full", "uniform") else "none"


class Chunk(nn.Module):
    """A run of layers of one stage."""

    def __init__(self, cut, layers, treatment):
        super().__init__()
        self.cut, self.treatment = cut, treatment
        self.layers, self.groups = nn.ModuleList(), []
        blocks = sum(layer["kind"] == "block" for layer in layers)
        block = 0
        for layer in layers:
            again = recomputed(treatment, block, blocks) if layer["kind"] == "block" else "none"
            if layer["kind"] == "embedding":
                self.layers.append(modules.Embedding(cut, layer["spec"]))
            elif layer["kind"] == "head":
                self.layers.append(modules.Head(cut, layer["spec"]))
            elif layer["kind"] == "block":
                self.layers.append(blocks_of.Block(cut, layer["spec"], again if isinstance(again, list) else ()))
                block += 1
            else:
                raise modules.Unsupported("layer %r: a %s is not among what nest.verify builds" % (layer["name"], layer["kind"]))
            self.groups.append(again == "full")
        self.hidden = next(layer["spec"]["hidden"] for layer in layers)
        self.first, self.last = layers[0]["kind"] == "embedding", layers[-1]["kind"] == "head"

    def forward(self, token):
        cut = self.cut
        if self.first:
            shape = (cut.micro_batch, cut.tokens)
            x = torch.randint(self.layers[0].rows, shape, device=cut.device)
        else:
            x = _Start.apply(token, torch.randn(cut.micro_batch, cut.stream_tokens, self.hidden, device=cut.device, dtype=cut.dtype))
        size = self.treatment.get("count", 1) if self.treatment["kind"] == "uniform" else 1
        i = 0
        while i < len(self.layers):
            layer = self.layers[i]
            if isinstance(layer, modules.Head):
                return layer(x, torch.randint(layer.rows, (cut.micro_batch, cut.tokens), device=cut.device))
            if not self.groups[i]:
                x = layer(x)
                i += 1
                continue
            run = [one for one, again in zip(self.layers[i : i + size], self.groups[i : i + size]) if again]
            x = modules.run_again(nn.Sequential(*run), x)
            i += len(run)
        return _End.apply(x)


class Stage:
    """One rank of one stage: modules, gradients and the optimizer's shard; and its passes, one by one.

    work: the list that nest.verify writes. state: bytes per parameter (gradient, master, moments), and over how many ranks the
    optimizer's are divided (dense, expert)."""

    def __init__(self, work, stage, cut):
        self.cut, self.work, self.stage = cut, work, stage
        table = work["layers"]
        self.chunks = [Chunk(cut, [table[kind] for kind in run], stage["recompute"]) for run in stage["chunks"]]
        self.token = torch.zeros(1, device=cut.device, requires_grad=True)
        self.held = {}
        self.parameters = [p for chunk in self.chunks for p in chunk.parameters()]
        if stage.get("tied") and len(self.chunks) >= 1:
            self._tie()
        self.experts = {id(p) for chunk in self.chunks for p in blocks_of.expert_parameters(chunk)}
        self.optimizer, self.main = [], None

    def _tie(self):
        """Embedding and head on one stage are one table."""
        table = next((l.table for c in self.chunks for l in c.layers if isinstance(l, modules.Embedding)), None)
        head = next((l for c in self.chunks for l in c.layers if isinstance(l, modules.Head)), None)
        if table is not None and head is not None:
            head.projection.weight = table
            seen = {}
            self.parameters = [seen.setdefault(id(p), p) for c in self.chunks for p in c.parameters() if id(p) not in seen]

    def count(self):
        experts = sum(p.numel() for p in self.parameters if id(p) in self.experts)
        return sum(p.numel() for p in self.parameters) - experts, experts

    def allocate_state(self):
        """The optimizer's shard in fp32, and main gradients where they are wider than the weights."""
        state, stage = self.work["state"], self.stage
        dense, experts = self.count()
        shard = dense / stage["degrees"]["dense"] + experts / stage["degrees"]["expert"]
        words = [state["master"] / 4, state["moments"] / 4]
        self.shard = int(shard)
        self.optimizer = [torch.zeros(int(shard * each), device=self.cut.device) for each in words if each]
        self.buffers = torch.empty(max(0, stage["predicted"]["buffer_bytes"] - WORKSPACE), dtype=torch.uint8, device=self.cut.device)
        if state["gradient"] > 2:
            self.main = {}
            for p in self.parameters:
                p.main = self.main[id(p)] = torch.zeros(p.shape, device=self.cut.device, dtype=torch.float32)
                if hasattr(p, "register_post_accumulate_grad_hook"):
                    p.register_post_accumulate_grad_hook(self._move)

    def _move(self, p):
        if p.grad is not None:
            self.main[id(p)].add_(p.grad)
            p.grad = None

    def forward(self, chunk, micro_batch):
        self.held[(chunk, micro_batch)] = self.chunks[chunk](self.token)

    def backward(self, chunk, micro_batch):
        self.held.pop((chunk, micro_batch)).backward()
        self.token.grad = None
        if self.main is not None:
            for p in self.parameters:
                self._move(p)

    def step(self):
        """What the optimizer's step needs besides: fp32 copies of 16-bit gradients, of this rank's shard; then an update of the shard."""
        if not self.optimizer:
            return
        shard = self.shard
        if self.main is None:
            gradient = torch.zeros(shard, device=self.cut.device)
            if self.stage["zero"] == 0 and not self.cut.fused:
                self.clear()
        else:
            gradient = None
        self.optimizer[0].mul_(0.999)
        del gradient

    def clear(self):
        for p in self.parameters:
            p.grad = None


class _Timer:
    """Seconds of passes: device events on an accelerator, a clock elsewhere."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.taken = []

    def __call__(self, kind, chunk, run):
        if self.cuda:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            run()
            end.record()
            self.taken.append((kind, chunk, begin, end))
        else:
            begin = time.perf_counter()
            run()
            self.taken.append((kind, chunk, begin, time.perf_counter()))

    def medians(self):
        if self.cuda:
            torch.cuda.synchronize()
        samples = {}
        for kind, chunk, begin, end in self.taken:
            seconds = begin.elapsed_time(end) * 1e-3 if self.cuda else end - begin
            samples.setdefault((kind, chunk), []).append(seconds)
        return {key: statistics.median(values) for key, values in samples.items()}


def run_order(stage, order, timer=None):
    """Runs the passes in their order; returns the most that were in flight at once."""
    most = 0
    for kind, chunk, micro_batch in order:
        run = (lambda: stage.forward(chunk, micro_batch)) if kind == "F" else (lambda: stage.backward(chunk, micro_batch))
        if timer:
            timer(kind, chunk, run)
        else:
            run()
        most = max(most, len(stage.held))
    return most


def measure_stage(work, entry, *, device, seconds=2.0, dtype=torch.bfloat16):
    """What one stage takes here: seconds of a forward and a backward pass of a micro-batch, bytes at the peak."""
    device = torch.device(device)
    cuda = device.type == "cuda"
    split = work["split"]
    order = short_order(work["schedule"], work["stages_in_all"], len(entry["chunks"]), work["micro_batches"], entry["index"], work["group"])
    gc.collect()
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
    cut = modules.Slice(tp=split["tp"], sp=split["sp"], cp=split["cp"], ep=split["ep"], etp=split["etp"], micro_batch=work["micro_batch"],
                        sequence=work["sequence"], device=device, dtype=dtype, eight_bits=work["precision"] == "fp8", fused=work["modules"] == "fused")
    stage = Stage(work, entry, cut)
    dense, experts = stage.count()
    found = {"index": entry["index"], "dense_parameters": dense, "expert_parameters": experts}
    stage.allocate_state()
    # Megatron-Core's gradients have buffers of their own; autograd's are gone after the step.
    accumulates = work["micro_batches"] > 1 or work["modules"] == "fused"
    run_order(stage, order)  # gradients, workspaces and the allocator's blocks are there after it
    stage.step()
    if not accumulates:
        stage.clear()
    if cuda:
        torch.cuda.synchronize()
        found["state_bytes"] = torch.cuda.memory_allocated() - before
        torch.cuda.reset_peak_memory_stats()
    found["in_flight"] = run_order(stage, order) / len(entry["chunks"])
    if cuda:
        torch.cuda.synchronize()
        found["passes_bytes"] = torch.cuda.max_memory_allocated() - before
        stage.step()
        torch.cuda.synchronize()
        found["peak_bytes"] = torch.cuda.max_memory_allocated() - before
        found["reserved_bytes"] = torch.cuda.max_memory_reserved()
    timer, begin = _Timer(device), time.time()
    while True:
        if time.time() - begin < seconds / 2:
            timer.taken.clear()  # until the clock has settled
        run_order(stage, order, timer)
        if not accumulates:
            stage.clear()
        if cuda:
            torch.cuda.synchronize()
        if time.time() - begin >= seconds:
            break
    medians = timer.medians()
    found["forward_s"] = sum(value for (kind, _), value in medians.items() if kind == "F")
    found["backward_s"] = sum(value for (kind, _), value in medians.items() if kind == "B")
    del stage, cut
    gc.collect()
    return found
