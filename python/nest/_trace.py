"""nest.trace: any PyTorch module becomes a graph of operators, without weights and without a GPU.

The module is copied with parameters that have shapes and no memory (meta tensors) and run a few times under a dispatch mode
that sees every operator below autograd. Plain Python runs as it always does, so control flow, hooks and modules of other
libraries need no special care. Running at twice the batch and twice the sequence tells how every extent grows.
"""
import contextlib
import copy

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from ._errors import InputError, TraceError, suggest
from ._graph import Graph
from ._kernels import Leaves
from ._moe import find_blocks, moe_leaf
from ._recorder import MOST_VALUES, Recorder, convert, tensors_in
from ._sizes import Sizes

SPLITS = ("column", "row", "heads", "vocabulary", "whole")
DTYPES = {"bf16": torch.bfloat16, "bfloat16": torch.bfloat16, "fp16": torch.float16, "float16": torch.float16, "fp32": torch.float32,
          "float32": torch.float32}


def trace(module, example_inputs, *, batch_dim=0, sequence_dim=1, layers=None, splits=None, name=None, dtype="auto", loss="auto",
          moe=None, training=True):
    """Traces one training step's forward pass of a module and returns its Graph.

    module          a torch.nn.Module (its weights are neither read nor changed; see nest.meta() for models too large to
                    build), a torch.fx.GraphModule or a torch.export.ExportedProgram
    example_inputs  a tensor, a tuple of positional arguments, or a dictionary of named ones; only shapes and dtypes matter
    batch_dim, sequence_dim   which dimension of the inputs is which: one number for all, or {input: number}; None: there is none
    layers          paths of the modules that are one layer each, in order; found by repetition where left out
    splits          {path or pattern: "column" | "row" | "heads" | "vocabulary" | "whole"} where tensor parallelism
                    must not guess
    name            of the model; its class where left out
    dtype           of the floating-point parameters and inputs; None: as they are; "auto": bfloat16, as training runs, and as
                    they are in exported programs, whose conversions are fixed
    loss            "auto" adds a cross entropy where the output looks like (batch, sequence, vocabulary) or the module's own
                    output has no loss; "cross_entropy", None, or a function of the module's output
    moe             nest.moe_leaf(...) or a list of them: blocks whose routing depends on data; the common ones are recognised
    training        run as model.train() does, with dropout
    """
    module = _as_module(module)
    moe = [moe] if isinstance(moe, moe_leaf) else list(moe or [])
    args, kwargs = _arguments(example_inputs)
    _check_splits(splits)
    runner = _Runner(module, _dtype(dtype, module), loss, moe, training)
    _check_layers(layers, runner.module)
    sizes = Sizes(args, kwargs, batch_dim, sequence_dim)
    runs = sizes.run_all(runner)
    return Graph(_build(runner, sizes, runs, layers, splits, name or type(module).__name__))


@contextlib.contextmanager
def meta():
    """Inside, modules are built without memory: `with nest.meta(): model = LlamaForCausalLM(config)`."""
    context = torch.device("meta")
    with context if hasattr(context, "__enter__") else _FactoriesOnMeta():
        yield


class _FactoriesOnMeta(TorchFunctionMode):
    """What torch.device("meta") does as a context since PyTorch 2.0."""

    NAMES = frozenset("empty zeros ones full rand randn randint randperm arange linspace eye empty_strided tensor as_tensor "
                      "scalar_tensor logspace normal tril_indices triu_indices".split())

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") in self.NAMES and getattr(torch, func.__name__, None) is func and kwargs.get("device") is None:
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


class _Runner:
    """The copy of the module without memory, and how one run of it is recorded."""

    def __init__(self, module, dtype, loss, moe, training):
        self.dtype, self.loss = dtype, loss
        self.warnings = []
        self.module, self.buffers = _copy_on_meta(module, dtype)
        self.module.train(training)
        for child in self.module.modules():
            config = getattr(child, "config", None)
            if getattr(config, "use_cache", None) is True:
                config.use_cache = False  # a cache for generation is no part of training
        named = self.module.inner if isinstance(self.module, _Interpreted) else self.module
        self.names = [name for name, _ in named.named_parameters()]
        self.parameters = [parameter for _, parameter in named.named_parameters()]
        self.blocks = find_blocks(self.module, moe)
        self.recorder = None
        for path, child in self.module.named_modules():
            self._follow(path, child)

    def _follow(self, path, child):
        def leave(*_):
            self.recorder.path.pop()

        child.register_forward_pre_hook(lambda *_: self.recorder.path.append(path))
        child.register_forward_hook(leave)

    def __call__(self, args, kwargs):
        """One run: the recorder, the inputs and the outputs as tensors of it."""
        recorder = self.recorder = Recorder(self.parameters)
        if isinstance(self.module, _Interpreted):
            self.module.path_of = recorder.inside
        for block in self.blocks:
            block.replace(recorder)
        for bare, values in self.buffers:
            recorder.give_values(bare, values.clone())
        args, kwargs = self._inputs(args), self._inputs(kwargs)
        inputs = [recorder.add_tensor(t) for t in tensors_in((args, kwargs))]
        hooks = torch.autograd.graph.saved_tensors_hooks(recorder.pack, lambda t: t)
        try:
            with torch.enable_grad(), hooks, Leaves(recorder), recorder:
                out = self.module(*args, **kwargs)
                recorder.path = [""]
                out = self._with_loss(out, tensors_in((args, kwargs)))
        except TraceError:
            raise
        except Exception as error:
            where = " in module %r" % recorder.path[-1] if recorder.path[-1] else ""
            raise Refused("%s%s: %s" % (type(error).__name__, where, str(error).splitlines()[0][:200] if str(error) else "no message")) from error
        recorder.finish()
        outputs = [recorder.find(t) for t in tensors_in(out)]
        return Run(recorder, inputs, list(dict.fromkeys(o for o in outputs if isinstance(o, int))))

    def _inputs(self, value):
        def change(tensor):
            dtype = self.dtype if self.dtype is not None and tensor.is_floating_point() else tensor.dtype
            bare = torch.empty(tensor.shape, dtype=dtype, device="meta")
            if tensor.device.type != "meta" and not tensor.is_floating_point():
                self.recorder.give_values(bare, tensor.cpu())
            return bare

        return convert(value, change)

    def _with_loss(self, out, inputs):
        if callable(self.loss):
            return self.loss(out)
        own = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
        if self.loss is None or own is not None:
            return out
        logits = _logits(out)
        if self.loss == "cross_entropy" and logits is None:
            raise InputError("loss='cross_entropy': the module gives no floating-point tensor (batch, ..., classes) to take it of")
        if self.loss == "auto" and not _like_logits(logits, inputs):
            return out
        with self.recorder.inside("loss"):
            flat = logits.reshape(-1, logits.shape[-1]).float()
            return F.cross_entropy(flat, torch.empty(flat.shape[0], dtype=torch.long, device="meta"))


class Run:
    """One recorded run. Two runs are alike when the same operators ran in the same modules."""

    def __init__(self, recorder, inputs, outputs):
        self.operators, self.shapes, self.dtypes, self.unknown = recorder.operators, recorder.shapes, recorder.dtypes, recorder.unknown
        self.inputs, self.outputs = inputs, outputs

    def alike(self, other):
        key = lambda op: (op.aten, op.module, op.inputs, op.outputs)
        return (len(self.operators) == len(other.operators) and len(self.shapes) == len(other.shapes)
                and all(key(a) == key(b) for a, b in zip(self.operators, other.operators)))


class Refused(TraceError):
    """The module itself raised an exception."""


# --- what is given ---------------------------------------------------------------------------------------------------------


def _as_module(module):
    if isinstance(module, torch.nn.Module):
        graph = getattr(module, "graph", None)
        if isinstance(graph, getattr(torch, "fx").Graph) and any("nn_module_stack" in node.meta for node in graph.nodes):
            return _Interpreted(module)
        return module
    if hasattr(module, "graph_module") and hasattr(module, "module"):  # torch.export.ExportedProgram
        return _Interpreted(module.module())
    raise InputError("nest.trace: %s is no torch.nn.Module, torch.fx.GraphModule or torch.export.ExportedProgram" % type(module).__name__)


class _Interpreted(torch.nn.Module):
    """A flattened graph, run node by node so that operators keep the path of the module they came from."""

    def __init__(self, graph_module):
        super().__init__()
        self.inner = graph_module
        self.path_of = None

    def forward(self, *args, **kwargs):
        where = self.path_of

        class Paths(torch.fx.Interpreter):
            def run_node(self, node):
                stack = node.meta.get("nn_module_stack")
                path = list(stack.values())[-1][0] if stack else ""
                with where(path.replace("L['self'].", "").replace("L__self___", "").strip(".")):
                    return super().run_node(node)

        named = [node.target for node in self.inner.graph.nodes if node.op == "placeholder"]
        positional = list(args) + [kwargs[name] for name in named[len(args):] if name in kwargs]
        out = Paths(self.inner).run(*positional)
        return out[0] if isinstance(out, (list, tuple)) and len(out) == 1 else out


def _copy_on_meta(module, dtype):
    """A copy whose tensors have shapes and no memory, and the values of its integer buffers. deepcopy takes what `memo`
    holds instead of copying it."""
    memo, known = {}, []

    def bare(tensor):
        kind = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=kind, device="meta") if not tensor.is_sparse else tensor

    for parameter in module.parameters():
        memo[id(parameter)] = torch.nn.Parameter(bare(parameter.detach()), requires_grad=parameter.requires_grad)
    for child in module.modules():
        for tensor in list(child._buffers.values()) + tensors_in([v for k, v in vars(child).items() if not k.startswith("_")]):
            if tensor is not None and id(tensor) not in memo:
                memo[id(tensor)] = bare(tensor.detach())
                if tensor.device.type == "cpu" and not tensor.is_floating_point() and tensor.numel() <= MOST_VALUES:
                    known.append((memo[id(tensor)], tensor.detach()))
    try:
        copied = copy.deepcopy(module, memo)
    except Exception as error:
        raise TraceError("the module cannot be copied (%s: %s); build it in `with nest.meta():` and keep no open files, locks or "
                         "processes in it" % (type(error).__name__, str(error)[:120])) from error
    swapped = {}
    for child in copied.modules():  # modules that copy themselves, as those of torch.fx, do not look into the memo
        for held in (child._parameters, child._buffers):
            for key, tensor in held.items():
                if tensor is not None and tensor.device.type != "meta":
                    if id(tensor) not in swapped:
                        twin = bare(tensor.detach())
                        swapped[id(tensor)] = torch.nn.Parameter(twin, tensor.requires_grad) if held is child._parameters else twin
                    held[key] = swapped[id(tensor)]
    return copied, known


def _arguments(example):
    if isinstance(example, torch.Tensor):
        return (example,), {}
    if isinstance(example, dict) or (hasattr(example, "keys") and hasattr(example, "__getitem__")):
        return (), {key: example[key] for key in example.keys()}
    if isinstance(example, (tuple, list)):
        return tuple(example), {}
    raise InputError("example_inputs: %s; give a tensor, a tuple of arguments or a dictionary of named ones" % type(example).__name__)


def _dtype(dtype, module):
    if dtype == "auto":
        return None if isinstance(module, _Interpreted) else torch.bfloat16
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in DTYPES:
        raise InputError("dtype: %r; one of %s, auto, or None" % (dtype, ", ".join(sorted(DTYPES))))
    return DTYPES[dtype]


def _check_splits(splits):
    for path, word in (splits or {}).items():
        if word not in SPLITS:
            raise InputError("splits[%r]: %r; one of %s.%s" % (path, word, ", ".join(SPLITS), suggest(str(word), SPLITS)))


def _check_layers(layers, module):
    known = dict(module.named_modules())
    for path in layers or []:
        if path not in known:
            raise InputError("layers: the model has no module %r.%s" % (path, suggest(path, known)))


def _logits(out):
    named = out.get("logits") if isinstance(out, dict) else getattr(out, "logits", None)
    candidates = [named] if isinstance(named, torch.Tensor) else tensors_in(out)
    return next((t for t in candidates if t.is_floating_point() and t.dim() >= 2), None)


def _like_logits(logits, inputs):
    """(batch, sequence, vocabulary) of a module that was fed (batch, sequence) tokens."""
    if logits is None or logits.dim() != 3:
        return False
    return any(not t.is_floating_point() and t.dim() == 2 and t.shape == logits.shape[:2] for t in inputs) and logits.shape[2] > 32


# --- the graph -------------------------------------------------------------------------------------------------------------


def _build(runner, sizes, runs, layers, splits, name):
    run = runs[0]
    weights, part_of = _weights(runner, run)
    names, operators = {}, []
    for op in _joined_losses(run.operators):
        title = op.module if op.kind in ("linear", "conv", "norm", "embedding", "moe") and op.module else ".".join(filter(None, [op.module, op.aten]))
        names[title] = names.get(title, 0) + 1
        entry = {"name": title if names[title] == 1 else "%s#%d" % (title, names[title]), "op": op.kind, "module": op.module,
                 "inputs": op.inputs, "outputs": op.outputs, "weights": [part_of(w) for w in op.weights]}
        if op.saves is not None:
            entry["saves"] = op.saves
        if op.attributes:
            entry["attributes"] = op.attributes
        operators.append(entry)
    data = {"schema": "nest.graph/1", "name": name, "source": {"tool": "torch " + torch.__version__, "class": type(runner.module).__name__},
            "batch": sizes.batch, "sequence": sizes.sequence, "tensors": _tensors(run, sizes, runs), "weights": weights,
            "operators": operators, "inputs": run.inputs, "outputs": run.outputs}
    if layers:
        data["layers"] = list(layers)
    if splits:
        data["splits"] = dict(splits)
    data["warnings"] = runner.warnings + sizes.warnings + [
        "aten.%s: unknown, costed by its bytes (%d %s)" % (aten, n, "time" if n == 1 else "times") for aten, n in sorted(run.unknown.items())]
    return data


def _tensors(run, sizes, runs):
    makers = {t: op.aten for op in run.operators for t in op.outputs}
    return [{"name": "%s_%d" % (makers.get(index, "input"), index), "shape": sizes.shape([r.shapes[index] for r in runs]),
             "dtype": _dtype_name(run.dtypes[index])} for index in range(len(run.shapes))]


def _dtype_name(dtype):
    name = str(dtype).replace("torch.", "")
    return {"uint16": "int16", "uint32": "int32", "uint64": "int64", "complex32": "float32"}.get(name, name)


def _weights(runner, run):
    """The weights of the graph: parameters, or the parts of those that are used in parts (a packed q, k, v)."""
    used = {}
    for op in run.operators:
        for part in op.weights:
            used.setdefault(part.index, set()).add((part.offset, part.size))
    weights, index_of, unused = [], {}, []
    for index, (name, parameter) in enumerate(zip(runner.names, runner.parameters)):
        parts = sorted(used.get(index, ()))
        described = {"dtype": _dtype_name(parameter.dtype), "trainable": parameter.requires_grad}
        if index not in used:
            unused.append(name)
        if len(parts) > 1 and parts[0][0] == 0 and all(a[0] + a[1] == b[0] for a, b in zip(parts, parts[1:])) \
                and sum(parts[-1]) == parameter.numel() and all(size * parameter.shape[0] % parameter.numel() == 0 for _, size in parts):
            for number, (offset, size) in enumerate(parts):
                index_of[(index, offset, size)] = len(weights)
                rows = size * parameter.shape[0] // parameter.numel()
                weights.append({"name": "%s[%d]" % (name, number), "shape": [rows] + list(parameter.shape[1:]), **described})
        else:
            for part in parts + [(0, parameter.numel())]:
                index_of[(index,) + part] = len(weights)
            weights.append({"name": name, "shape": list(parameter.shape), **described})
    if unused:
        runner.warnings.append("%d parameters are never used by the forward pass: %s" % (len(unused), ", ".join(unused[:5]) + (", …" if len(unused) > 5 else "")))
    return weights, lambda part: index_of[part.key()]


def _joined_losses(operators):
    """log_softmax and nll_loss of one cross entropy become one operator."""
    makers = {op.outputs[0]: op for op in operators if op.aten == "_log_softmax"}
    joined = []
    for op in operators:
        maker = makers.get(op.inputs[0]) if op.kind == "loss" and op.inputs else None
        if maker is not None and maker in joined:
            joined.remove(maker)
            op.inputs = maker.inputs + [t for t in op.inputs if t not in maker.outputs]
            op.outputs = op.outputs + maker.outputs
            op.saves = list(dict.fromkeys(maker.saves + op.saves))
            op.aten = "cross_entropy"
        joined.append(op)
    return joined
