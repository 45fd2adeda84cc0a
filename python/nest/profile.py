"""Measures layers and operators on this machine's accelerator, for `nest plan --profile`.

    python -m nest.profile --model llama3-8b --tp 1,2,4,8 --micro-batch 1,2 -o profile.json
    python -m nest.profile --model llama3-8b --tp 1,2,4,8 --list work.json      on a machine with nest
    python -m nest.profile --work work.json -o profile.json                     on the machine with the accelerator

The list of work comes from nest itself: every operator of every kind of layer, in the shape that one device of a split has. It
is measured alone, forward and backward; collectives stay estimated. Whole layers are measured where one device holds them
(tp = cp = ep = 1), together with what autograd keeps. What cannot be measured is left out and stays estimated.

How a number comes about: random operands, warm-up, then repetitions between device events (on a CPU: a clock); the median.
"""
import argparse
import datetime
import gc
import json
import statistics
import sys
import time

SCHEMA = "nest.profile/1"
WORK_SCHEMA = "nest.profile-work/1"
ROWWISE = ("norm", "elementwise", "add", "copy")
DEVICES = [("h200", "h200"), ("h100", "h100"), ("b200", "b200"), ("a100-sxm4-80", "a100-80"), ("a100 80", "a100-80"), ("a100-pcie-80", "a100-80"),
           ("a100", "a100-40"), ("v100", "v100"), ("mi300x", "mi300x")]
KERNELS = {"pytorch": "plain", "fsdp2": "torchtitan"}  # whose operators `nest show` lists; Megatron's otherwise


# --- the list of work ------------------------------------------------------------------------------------------------------


def work_list(model, *, stack="pytorch", precision="bf16", seq=None, micro_batch=(1,), tp=(1,), cp=(1,), ep=(1,), sp=(False,), etp=None):
    """What a profile of this model has to measure, as a dictionary: for splits that the model allows."""
    from . import _api
    from ._errors import InputError

    layers, operators, sequence, name, refused = {}, {}, seq, None, []
    for split in [(t, s, c, e) for t in tp for s in sp if not (s and t == 1) for c in cp for e in ep]:
        for size in micro_batch:
            try:
                facts = _api.show(model, seq=seq, micro_batch=size, kernels=KERNELS.get(stack), tp=split[0], sp=split[1], cp=split[2], ep=split[3],
                                  etp=etp)
            except InputError as error:
                refused.append("tp=%d sp=%d cp=%d ep=%d: %s" % (split[0], split[1], split[2], split[3], error))
                continue
            name, sequence = facts["model"]["name"], facts["run"]["sequence"]
            width = facts["model"]["hidden"]
            for layer in facts["layers"]:
                if split == (1, False, 1, 1):
                    layers[(layer["name"], size)] = {"layer": layer["name"], "kind": layer["kind"], "micro_batch": size, "parameters": layer["parameters"]}
                for op in layer["operators"]:
                    entry = _operator(op, width)
                    if entry is not None:
                        operators[json.dumps(entry, sort_keys=True)] = entry
    if name is None:
        raise InputError("; ".join(refused))
    return {"schema": WORK_SCHEMA, "model": name, "config": _config(model), "stack": stack, "precision": precision, "sequence": sequence,
            "layers": list(layers.values()), "operators": list(operators.values()), "refused": refused}


def _config(model):
    """The Hugging Face configuration behind a preset or a file; None for a graph."""
    from . import _api

    if isinstance(model, dict):
        return model
    plan = _api.evaluate(model, "tp=1", devices=8)
    config = plan.model.get("config")
    return config if config and config.get("schema") is None else None


def _operator(op, width):
    kind = op["kind"]
    if kind in ("matmul", "grouped_matmul"):
        return {"operator": kind, "m": op["m"], "n": op["n"], "k": op["k"], "groups": op["groups"]}
    if kind == "attention" and op.get("attention"):
        size = op["attention"]
        return dict({"operator": kind}, **size) if size["queries"] == size["keys"] or not size["causal"] else None
    if kind in ROWWISE and op["bytes_forward"] > 0:
        return {"operator": kind, "bytes": op["bytes_forward"], "width": width}
    return None


# --- measuring -------------------------------------------------------------------------------------------------------------


class Clock:
    """The device and how it is timed."""

    def __init__(self, device, repetitions=None, rest_s=0.05):
        import torch

        self.torch, self.device = torch, torch.device(device)
        self.cuda = self.device.type == "cuda"
        self.repetitions = repetitions or (20 if self.cuda else 3)
        self.rest_s = rest_s if self.cuda else 0.0
        self.dtype = torch.bfloat16

    def random(self, *shape, grad=False):
        return self.torch.randn(*shape, device=self.device, dtype=self.dtype).requires_grad_(grad)

    def median(self, call, prepare=None):
        """Seconds of one call; `prepare` runs before each and its result is handed on, outside the clock."""
        torch, samples = self.torch, []
        time.sleep(self.rest_s)
        for repetition in range(self.repetitions + 2):
            given = prepare() if prepare else None
            if self.cuda:
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                torch.cuda._sleep(400_000)  # the call is queued before the device comes to it
                begin.record()
                call(given)
                end.record()
                end.synchronize()
                seconds = begin.elapsed_time(end) * 1e-3
            else:
                start = time.perf_counter()
                call(given)
                seconds = time.perf_counter() - start
            if repetition >= 2:
                samples.append(seconds)
        return statistics.median(samples)

    def passes(self, function, *leaves):
        """Forward and backward seconds of a function of tensors that need gradients."""
        torch = self.torch

        def clear():
            for leaf in leaves:
                leaf.grad = None

        with torch.no_grad():
            gradient = torch.randn_like(function())
        forward = self.median(lambda _: function(), clear)

        def run():
            clear()
            return function()

        return forward, self.median(lambda out: torch.autograd.backward(out, gradient), run)


def measure_operator(clock, entry):
    """(forward, backward) seconds of one operator alone."""
    torch, F = clock.torch, clock.torch.nn.functional
    kind = entry["operator"]
    if kind == "matmul" and entry["groups"] == 1:
        m, n, k = int(entry["m"]), entry["n"], entry["k"]
        x, w, g = clock.random(m, k), clock.random(n, k), clock.random(m, n)
        with torch.no_grad():
            return clock.median(lambda _: x @ w.t()), clock.median(lambda _: g @ w) + clock.median(lambda _: g.t() @ x)
    if kind in ("matmul", "grouped_matmul"):
        groups, n, k = entry["groups"], entry["n"], entry["k"]
        rows = max(1, int(entry["m"] / groups))
        x, w, g = clock.random(groups, rows, k), clock.random(groups, k, n), clock.random(groups, rows, n)
        with torch.no_grad():
            back = clock.median(lambda _: torch.bmm(g, w.transpose(1, 2))) + clock.median(lambda _: torch.bmm(x.transpose(1, 2), g))
            return clock.median(lambda _: torch.bmm(x, w)), back
    if kind == "attention":
        return _measure_attention(clock, entry)
    elements = int(entry["bytes"] / (3 if kind in ("add", "elementwise") else 2) / 2)
    width = entry.get("width", 1024)
    rows = max(1, elements // width)
    x, y = clock.random(rows, width, grad=True), clock.random(rows, width, grad=True)
    if kind == "norm":
        weight = clock.random(width, grad=True)
        rms = getattr(F, "rms_norm", None)
        run = (lambda: rms(x, (width,), weight)) if rms else (lambda: F.layer_norm(x, (width,), weight))
        return clock.passes(run, x, weight)
    if kind == "copy":
        return clock.passes(lambda: x.clone(), x)
    return clock.passes((lambda: x + y) if kind == "add" else (lambda: x * y), x, y)


def _measure_attention(clock, entry):
    from ._blocks import attend

    if entry.get("window") or entry["sequences"] != int(entry["sequences"]) or entry["heads"] != int(entry["heads"]):
        return None
    batch, heads = int(entry["sequences"]), int(entry["heads"])
    shape = lambda length, dim: clock.random(batch, heads, int(length), dim, grad=True)
    q, k, v = shape(entry["queries"], entry["qk_dim"]), shape(entry["keys"], entry["qk_dim"]), shape(entry["keys"], entry["value_dim"])
    return clock.passes(lambda: attend(q, k, v, entry["causal"]), q, k, v)


def measure_layer(clock, module, make_inputs):
    """Forward and backward seconds of a module, and what autograd keeps for it, by storage and without its weights."""
    torch = clock.torch
    module = module.to(device=clock.device, dtype=clock.dtype).train()
    inputs = make_inputs()
    weights = {_address(p) for p in module.parameters()}
    kept = {}

    def pack(tensor):
        if _address(tensor) not in weights and tensor.dim():
            kept[_address(tensor)] = (tensor.element_size() * _elements(tensor), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = _first(module(*inputs))
    saved = sum(size for size, _ in kept.values())
    kept.clear()
    del out
    leaves = [t for t in inputs if torch.is_tensor(t) and t.requires_grad] + list(module.parameters())
    forward, backward = clock.passes(lambda: _first(module(*inputs)), *leaves)
    return forward, backward, saved


def _first(out):
    return out[0] if isinstance(out, (tuple, list)) else out


def _address(tensor):
    from ._recorder import storage_of

    return storage_of(tensor).data_ptr()


def _elements(tensor):
    from ._recorder import storage_of

    return storage_of(tensor).nbytes() // tensor.element_size()


def measure(work, *, device=None, device_name=None, repetitions=None, progress=None):
    """Measures a list of work and returns the profile (nest.profile/1) as a dictionary, and what was left out with reasons."""
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    clock = Clock(device, repetitions)
    profile = _header(clock, work["stack"], work["precision"], device_name)
    skipped = []

    def attempt(what, function):
        try:
            gc.collect()
            if clock.cuda:
                torch.cuda.empty_cache()
            found = function()
            if found is None:
                skipped.append("%s: no kernel to measure it with" % what)
            return found
        except Exception as error:  # out of memory, no such kernel: it stays estimated
            skipped.append("%s: %s" % (what, str(error).splitlines()[0][:160] if str(error) else type(error).__name__))
            return None

    for entry in work["layers"]:
        found = attempt("layer %s" % entry["layer"], lambda: _measure_preset_layer(clock, work, entry))
        if found is not None:
            profile["layers"].append(_layer_entry(work["model"], entry["layer"], entry["micro_batch"], work["sequence"], entry["parameters"], found))
    for number, entry in enumerate(work["operators"]):
        if progress:
            progress(number, len(work["operators"]))
        found = attempt(_title(entry), lambda: measure_operator(clock, entry))
        if found is not None:
            kept = {key: value for key, value in entry.items() if key != "width"}
            profile["operators"].append(dict(kept, forward_s=_rounded(found[0]), backward_s=_rounded(found[1])))
    return profile, skipped


def _measure_preset_layer(clock, work, entry):
    from ._blocks import block_of

    if entry["kind"] != "block" or not work.get("config"):
        raise ValueError("only blocks of presets and configurations are measured whole")
    torch = clock.torch
    with torch.device(clock.device) if hasattr(clock.device, "__enter__") else _nothing():
        block = block_of(work["config"])
    if block is None:
        raise ValueError("no plain PyTorch block for %r" % work["config"].get("model_type"))
    count = sum(p.numel() for p in block.parameters())
    if count != entry["parameters"]:
        raise ValueError("the plain PyTorch block has %d parameters, nest's has %d" % (count, entry["parameters"]))
    width = next(iter(block.norm1.parameters())).shape[0]
    return measure_layer(clock, block, lambda: (clock.random(entry["micro_batch"], work["sequence"], width, grad=True),))


def measure_module(module, example_inputs, layers, *, name, sequence, stack="pytorch", device=None, device_name=None, repetitions=None):
    """A profile of layers of a module of yours: `layers` maps the names that `nest show GRAPH` prints to paths of modules.

    The module runs once on the device to see what each layer is given; then each layer is timed alone.
    """
    import torch

    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    clock = Clock(device, repetitions)
    module = module.to(device=clock.device, dtype=clock.dtype).train()
    paths, seen = dict(module.named_modules()), {}
    hooks = [paths[path].register_forward_pre_hook(lambda _, given, layer=layer: seen.setdefault(layer, given)) for layer, path in layers.items()]
    move = lambda t: t.to(device=clock.device, dtype=clock.dtype if t.is_floating_point() else t.dtype) if torch.is_tensor(t) else t
    args = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    with torch.no_grad():
        module(*[move(t) for t in args])
    for hook in hooks:
        hook.remove()
    profile = _header(clock, stack, "bf16", device_name)
    for layer, path in layers.items():
        fresh = lambda: tuple(t.detach().clone().requires_grad_(t.is_floating_point()) if torch.is_tensor(t) else t for t in seen[layer])
        found = measure_layer(clock, paths[path], fresh)
        batch = next(t for t in seen[layer] if torch.is_tensor(t)).shape[0]
        count = sum(p.numel() for p in paths[path].parameters())
        profile["layers"].append(_layer_entry(name, layer, batch, sequence, count, found))
    return profile


# --- the file --------------------------------------------------------------------------------------------------------------


def _header(clock, stack, precision, device_name):
    from ._errors import InputError

    torch = clock.torch
    name = device_name or (_preset_of(torch.cuda.get_device_name(clock.device)) if clock.cuda else "cpu")
    if name is None:
        raise InputError("--device-name: which of nest's devices (nest show devices) is a %s?" % torch.cuda.get_device_name(clock.device))
    about = "%s, torch %s, %s, median of %d" % (datetime.date.today().isoformat(), torch.__version__,
                                               torch.cuda.get_device_name(clock.device) if clock.cuda else "CPU", clock.repetitions)
    return {"schema": SCHEMA, "device": name, "stack": stack, "precision": precision, "measured": about, "layers": [], "operators": []}


def _preset_of(name):
    return next((preset for part, preset in DEVICES if part in name.lower()), None)


def _layer_entry(model, layer, micro_batch, sequence, parameters, found):
    return {"model": model, "layer": layer, "tp": 1, "sp": False, "cp": 1, "ep": 1, "etp": 0, "micro_batch": micro_batch, "sequence": sequence,
            "parameters": parameters, "forward_s": _rounded(found[0]), "backward_s": _rounded(found[1]), "saved_bytes": found[2]}


def _title(entry):
    return " ".join([entry["operator"]] + ["%s=%g" % (key, value) for key, value in entry.items() if isinstance(value, (int, float)) and key != "width"])


def _rounded(seconds):
    return float("%.4g" % seconds)


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def write(path, profile):
    """One entry per line."""
    from ._graph import write_whole

    head = json.dumps({key: value for key, value in profile.items() if key not in ("layers", "operators")})[:-1]
    lists = [' "%s": [\n%s ]' % (key, ",\n".join("  " + json.dumps(row) for row in profile[key])) for key in ("layers", "operators")]
    write_whole(path, head + ",\n" + ",\n".join(lists) + "}\n")


def _numbers(text):
    return [int(part) for part in text.split(",")]


def main(arguments=None):
    from ._errors import InputError

    parser = argparse.ArgumentParser(prog="python -m nest.profile", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a preset or a config.json")
    parser.add_argument("--stack", default="pytorch", help="whose runs the profile is for (default: pytorch)")
    parser.add_argument("--seq", type=int, help="tokens per sequence (default: the model's)")
    parser.add_argument("--micro-batch", type=_numbers, default=[1], help="sizes, as 1,2,4 (default: 1)")
    for flag, what in (("--tp", "tensor"), ("--cp", "context"), ("--ep", "expert")):
        parser.add_argument(flag, type=_numbers, default=[1], help="%s-parallel slices, as 1,2,4,8 (default: 1)" % what)
    parser.add_argument("--sp", action="store_true", help="with sequence parallelism beside tensor parallelism")
    parser.add_argument("--list", metavar="FILE", help="write the list of work here and measure nothing")
    parser.add_argument("--work", metavar="FILE", help="measure this list of work instead of --model")
    parser.add_argument("--device", help="cuda (also for ROCm) or cpu (default: cuda where there is one)")
    parser.add_argument("--device-name", help="name of the device in nest (default: recognised)")
    parser.add_argument("--repetitions", type=int, help="of each measurement (default: 20; on a CPU 3)")
    parser.add_argument("-o", "--output", default="profile.json", help="file to write (default: profile.json)")
    args = parser.parse_args(arguments)
    if (args.model is None) == (args.work is None):
        parser.error("give either --model or --work")
    try:
        if args.work:
            with open(args.work, encoding="utf-8") as file:
                work = json.load(file)
            if work.get("schema") != WORK_SCHEMA:
                raise InputError("%s: schema: %r; this version reads %s" % (args.work, work.get("schema"), WORK_SCHEMA))
        else:
            work = work_list(args.model, stack=args.stack, seq=args.seq, micro_batch=args.micro_batch, tp=args.tp, cp=args.cp, ep=args.ep,
                             sp=(False, True) if args.sp else (False,))
        if args.list:
            with open(args.list, "w", encoding="utf-8") as file:
                json.dump(work, file, indent=1)
            print("%d layers and %d operators to measure -> %s" % (len(work["layers"]), len(work["operators"]), args.list), file=sys.stderr)
            return 0
        start = time.time()
        profile, skipped = measure(work, device=args.device, device_name=args.device_name, repetitions=args.repetitions)
    except (InputError, OSError) as error:
        print("nest.profile: %s" % error, file=sys.stderr)
        return 2
    write(args.output, profile)
    for line in work["refused"] + skipped:
        print("left out: %s" % line, file=sys.stderr)
    print("%d layers and %d operators measured in %.0f s -> %s" % (len(profile["layers"]), len(profile["operators"]), time.time() - start, args.output),
          file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
