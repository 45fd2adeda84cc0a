"""One run of a module on meta tensors: every aten operator, the storage of every tensor, what autograd keeps.

Tensors are told apart by storage, offset, shape and stride: a view is the same memory and costs nothing, and what autograd
keeps is counted by storage, as memory is. Meta tensors have storages without memory, so this works for models of any size.
"""
import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._aten import GROUPED_PRODUCTS, KEEPS_RESULT, KIND_OF, PRODUCTS, base_name, is_pointwise, writes_argument
from ._errors import TraceError

DATA_DEPENDENT = frozenset(
    "_local_scalar_dense nonzero nonzero_static masked_select bincount _unique2 unique_dim unique_consecutive histc equal item "
    "is_nonzero".split()
)
MOST_VALUES = 1 << 22  # elements of a tensor whose values are kept beside its shape


def storage_of(tensor):
    """The storage itself; to be held while its address is used as a name."""
    if hasattr(tensor, "untyped_storage"):
        return tensor.untyped_storage()
    storage = tensor.storage()
    return getattr(storage, "_storage", storage)


def tensors_in(value, found=None):
    """All tensors of nested lists, tuples, dictionaries and model outputs, in order."""
    found = [] if found is None else found
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, dict):
        for item in value.values():
            tensors_in(item, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            tensors_in(item, found)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            tensors_in(getattr(value, name), found)
    return found


def convert(value, change):
    """The same nesting with every tensor changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(convert(item, change) for item in value)
    if type(value) is dict:
        return {key: convert(item, change) for key, item in value.items()}
    return value


class Weight:
    """A part of a parameter that an operator reads: `size` elements from `offset` on."""

    __slots__ = ("index", "offset", "size")

    def __init__(self, index, offset, size):
        self.index, self.offset, self.size = index, offset, size

    def key(self):
        return (self.index, self.offset, self.size)


class Operator:
    __slots__ = ("kind", "aten", "module", "inputs", "outputs", "weights", "saves", "attributes", "keeps")

    def __init__(self, kind, aten, module, inputs, outputs, weights, attributes=None):
        self.kind, self.aten, self.module = kind, aten, module
        self.inputs, self.outputs, self.weights = inputs, outputs, weights
        self.saves = []
        self.attributes = attributes or {}
        self.keeps = set()  # own results that autograd was seen to keep


class Recorder(TorchDispatchMode):
    """What ran, in order: `operators`, `shapes` and `dtypes` of their tensors."""

    def __init__(self, parameters):
        super().__init__()
        self.operators, self.shapes, self.dtypes, self.unknown = [], [], [], {}
        self.path = [""]
        self.paused = 0
        self._held = []  # storages, so that no address is used twice
        self._tensor_at = {}  # (storage, offset, shape, stride, dtype) -> tensor
        self._first_of = {}  # storage -> its first tensor
        self._sizes = {}  # storage -> bytes
        self._weight_at = {}  # storage -> parameter
        self._from_weight = {}  # tensor -> the parameter part it is a converted copy of
        self._numel, self._parameter_shapes = [], []
        self._values = {}  # storage -> {key: tensor with values}
        self._same = {}  # storage of a meta twin -> storage of the constant it stands for
        self._pending = []  # tensors kept since the last operator
        for index, parameter in enumerate(parameters):
            self._weight_at.setdefault(self._storage(parameter), index)
            self._numel.append(parameter.numel())
            self._parameter_shapes.append(tuple(parameter.shape))

    # --- tensors -----------------------------------------------------------------------------------------------------------

    def _storage(self, tensor):
        storage = storage_of(tensor)
        address = storage._cdata
        if address not in self._sizes:
            self._held.append(storage)
            self._sizes[address] = storage.nbytes()
        return address

    def _new(self, shape, dtype):
        self.shapes.append(tuple(shape))
        self.dtypes.append(dtype)
        return len(self.shapes) - 1

    def _key(self, tensor, storage):
        return (storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)

    def add_tensor(self, tensor):
        """A new tensor, even where its memory was seen before (results of in-place operators)."""
        storage = self._storage(tensor)
        index = self._new(tensor.shape, tensor.dtype)
        self._tensor_at[self._key(tensor, storage)] = index
        self._first_of.setdefault(storage, index)
        return index

    def find(self, tensor):
        """The tensor's index; a Weight; or None for a constant."""
        storage = self._storage(tensor)
        parameter = self._weight_at.get(storage)
        if parameter is not None:
            return self._part(tensor, parameter)
        index = self._tensor_at.get(self._key(tensor, storage))
        return self._first_of.get(storage) if index is None else index

    def _part(self, tensor, parameter):
        seen = [(n, stride) for n, stride in zip(tensor.shape, tensor.stride()) if stride > 0]
        count = 1
        for n, _ in seen:
            count *= n
        if count and sum((n - 1) * stride for n, stride in seen) + 1 == count:
            return Weight(parameter, tensor.storage_offset(), count)
        return Weight(parameter, 0, self._numel[parameter])

    # --- operators ---------------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        if base_name(func).startswith("_assert"):
            return None  # of an exported program: that a tensor lies on the device it was exported on, and the like
        args, kwargs = self._on_meta(args, kwargs)
        if not _touches_meta(args, kwargs):
            return func(*args, **kwargs)  # plain work on the host
        known = self._with_values(args, kwargs)
        if base_name(func) in DATA_DEPENDENT and known is not None:
            return self._from_values(func(*known[0], **known[1]))
        try:
            out = func(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            if base_name(func) in DATA_DEPENDENT or isinstance(error, NotImplementedError):
                raise TraceError(self.refusal(func, error)) from error
            raise
        self._learn(func, known, out)
        self._note(func, args, kwargs, out)
        return out

    def refusal(self, func, error=None):
        where = "in module %r" % self.path[-1] if self.path[-1] else "in the module"
        if error is None or base_name(func) in DATA_DEPENDENT:
            return (
                "%s: aten.%s needs the values of a tensor, which a trace does not have (data-dependent control flow). Where it routes "
                "tokens to experts, name the block: nest.trace(..., moe=nest.moe_leaf(%r, experts=N, top_k=K)); otherwise pass what it "
                "decides as an argument" % (where, base_name(func), self.path[-1] or "path.of.block")
            )
        return "%s: %s cannot run without data in PyTorch %s: %s" % (where, func, torch.__version__, str(error).splitlines()[0][:120])

    def _on_meta(self, args, kwargs):
        """Constants made on other devices join the meta tensors; nothing is ever copied from or to a real device."""
        given = tensors_in((args, kwargs))
        device = kwargs.get("device")
        if any(t.device.type == "meta" for t in given):
            if any(t.device.type != "meta" and t.dim() > 0 for t in given):
                args, kwargs = convert(tuple(args), self._as_meta), convert(dict(kwargs), self._as_meta)
            if device is not None:
                kwargs = dict(kwargs, device=torch.device("meta"))
        elif device is not None and torch.device(device).type not in ("cpu", "meta"):
            kwargs = dict(kwargs, device=torch.device("meta"))
        return args, kwargs

    # --- values ------------------------------------------------------------------------------------------------------------
    # Positions, masks and example tokens are small, and models look at them ("is this mask all ones?"). Their values are
    # computed beside their shapes, so that such questions have answers; nothing that depends on weights has values.

    def _as_meta(self, tensor):
        if tensor.device.type == "meta" or tensor.dim() == 0:
            return tensor
        self.paused += 1
        try:
            bare = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        finally:
            self.paused -= 1
        self._same[self._storage(bare)] = self._storage(tensor)
        self.give_values(bare, tensor)
        return bare

    def give_values(self, tensor, values):
        storage = self._storage(tensor)
        self._values.setdefault(storage, {})[self._key(tensor, storage)] = values

    def value_of(self, tensor):
        if tensor.device.type != "meta":
            return tensor
        storage = self._storage(tensor)
        return self._values.get(storage, {}).get(self._key(tensor, storage))

    def _with_values(self, args, kwargs):
        """The same arguments with values in them, or None where one has none."""
        given = tensors_in((args, kwargs))
        if not given and kwargs.get("device") is None or any(self.value_of(t) is None for t in given):
            return None
        args, kwargs = convert(tuple(args), self.value_of), convert(dict(kwargs), self.value_of)
        return args, (dict(kwargs, device=torch.device("cpu")) if kwargs.get("device") is not None else kwargs)

    def _from_values(self, real):
        return convert(real, self._as_meta)

    def _learn(self, func, known, out):
        results = [t for t in tensors_in(out) if t.device.type == "meta"]
        if known is not None and results and all(t.numel() <= MOST_VALUES for t in results):
            self.paused += 1
            try:
                values = tensors_in(func(*known[0], **known[1]))
            except Exception:  # a value that is not allowed: the shape is enough
                values = []
            finally:
                self.paused -= 1
            if [v.shape for v in values] == [t.shape for t in results]:
                for tensor, value in zip(results, values):
                    self.give_values(tensor, value)
                return
        if writes_argument(func):
            for tensor in results:
                self._values.pop(self._storage(tensor), None)

    def _note(self, func, args, kwargs, out):
        results = [t for t in tensors_in(out) if t.device.type == "meta" and t.numel()]
        given = [t for t in tensors_in((args, kwargs)) if t.numel()]
        if not results:
            return
        operands = [self.find(t) for t in given]
        storages = [self._storage(t) for t in given]
        known = [o for o in operands if o is not None]
        if not known:
            return  # a constant: made of nothing that is trained or fed
        in_place = writes_argument(func)
        shares = all(self._storage(t) in storages for t in results)
        name = base_name(func)
        if shares and all(self._weight_at.get(self._storage(t)) is not None for t in results):
            return  # a view of a weight, or an initialisation
        kind = KIND_OF.get(name)
        if (shares and not in_place) or (kind == "view" and not in_place):
            kind = "view"
        elif (name in PRODUCTS or name in GROUPED_PRODUCTS) and len(given) >= 2:
            self._note_product(name, given, operands, results)
            return
        elif kind is None:
            kind = "elementwise" if is_pointwise(func) else "unknown"
        self._finish(kind, name, given, operands, results, args)

    def _finish(self, kind, name, given, operands, results, args):
        inputs = [o for o in operands if isinstance(o, int)]
        weights = [o for o in operands if isinstance(o, Weight)]
        attributes = {"kind": name} if kind in ("elementwise", "reduce") else {}
        if name == "add" and len(inputs) == 2 and self.shapes[inputs[0]] == self.shapes[inputs[1]]:
            kind, attributes = "add", {}
        elif kind == "gather" and isinstance(operands[0], Weight) and given[0].dim() == 2 and results[0].shape[-1] == given[0].shape[-1]:
            kind = "embedding"
        elif kind == "conv":
            attributes = _conv_attributes(args, given)
        elif kind == "norm":
            attributes = {"kind": _norm_kind(name)}
        elif kind == "attention":
            attributes = {"causal": any(a is True for a in args), "flash": True, "heads": given[0].shape[1], "kv_heads": given[1].shape[1]}
        if kind == "unknown":
            self.unknown[name] = self.unknown.get(name, 0) + 1
        outputs = [self.add_tensor(t) for t in results]
        self.append(Operator(kind, name, self.path[-1], _distinct(inputs), outputs, weights, attributes))
        if kind == "copy" and len(weights) == 1 and not inputs:
            self._from_weight[outputs[0]] = weights[0]
        elif kind == "view" and inputs and inputs[0] in self._from_weight:
            self._from_weight.update((output, self._from_weight[inputs[0]]) for output in outputs)

    def _note_product(self, name, given, operands, results):
        """addmm(bias, a, b), mm(a, b), linear(x, w, bias), ...: with a weight it is a linear layer, without a matmul."""
        if name in ("addmm", "baddbmm", "addmv", "addbmm"):
            order = [1, 2, 0]
        else:
            order = list(range(len(given)))
        given, operands = [given[k] for k in order], [operands[k] for k in order]
        weights = [o for o in operands if isinstance(o, Weight)]
        cast = {k: self._from_weight[o] for k, o in enumerate(operands[:2]) if isinstance(o, int) and o in self._from_weight}
        of_weight = [k for k in range(2) if isinstance(operands[k], Weight) or k in cast]
        inputs = [o for k, o in enumerate(operands) if isinstance(o, int) and k not in cast]
        weights = [cast[k] for k in sorted(cast)] + weights
        kind, attributes = self._product_kind(name, given, of_weight, weights, results)
        if kind == "matmul":  # both factors are listed; what is no activation as a constant
            inputs = [o if isinstance(o, int) else self._factor(t) for o, t in zip(operands[:2], given)] + [
                o for o in operands[2:] if isinstance(o, int)]
        outputs = [self.add_tensor(t) for t in results]
        self.append(Operator(kind, name, self.path[-1], inputs, outputs, weights, attributes))

    def _product_kind(self, name, given, of_weight, weights, results):
        """linear where one factor is a whole weight matrix, or a run of its rows, and the activation comes first."""
        if name in GROUPED_PRODUCTS and of_weight == [1]:
            return "expert_matmul", {}
        if of_weight != [1]:
            return "matmul", {}
        matrix, part = given[1], weights[0]
        if name == "linear":
            matrix = matrix.t()
        parameter = self._parameter_shapes[part.index]
        if matrix.dim() == 3 and matrix.stride(0) != 0 and len(parameter) == 3:
            return "expert_matmul", {}
        inner, outer = matrix.shape[-2], matrix.shape[-1]
        if len(parameter) != 2 or part.size != inner * outer or results[0].shape[-1] != outer:
            return "matmul", {}
        if parameter[1] == inner and (inner != outer or matrix.stride(-1) != 1 or inner == 1):
            return "linear", {}
        if tuple(parameter) == (inner, outer):
            return "linear", {"transposed": True}
        return "matmul", {}

    def _factor(self, tensor):
        """A factor that is a constant, or a part of a weight that is no matrix of its own."""
        return self._new(tensor.shape, tensor.dtype) if self._storage(tensor) in self._weight_at else self.constant(tensor)

    def append(self, operator):
        previous = self.operators[-1] if self.operators else None
        for tensor in self._pending:
            if previous is not None and self._kept_by_maker(previous, tensor):
                previous.keeps.add(tensor)
                previous.saves.append(tensor)
            else:
                operator.saves.append(tensor)
        self._pending = []
        self.operators.append(operator)

    def _kept_by_maker(self, operator, tensor):
        if operator.kind == "view" or tensor not in operator.outputs or tensor in operator.keeps:
            return False
        return operator.outputs.index(tensor) > 0 or operator.aten in KEEPS_RESULT

    def finish(self):
        if self._pending and self.operators:
            self.operators[-1].saves.extend(self._pending)
        self._pending = []
        for operator in self.operators:
            operator.saves = None if operator.saves is None else _distinct(operator.saves)

    # --- what autograd keeps -----------------------------------------------------------------------------------------------

    def saved(self, tensor):
        """A tensor that autograd keeps, as the first tensor of its memory."""
        storage = self._storage(tensor)
        storage = self._same.get(storage, storage)
        if (tensor.device.type != "meta" and tensor.dim() == 0) or storage in self._weight_at or not self._sizes[storage]:
            return None
        return self._first_of[storage] if storage in self._first_of else self.constant(tensor)

    def constant(self, tensor):
        """A tensor that no operator makes: a buffer, a mask, a table of angles. Only those that matter get an index."""
        storage = self._storage(tensor)
        storage = self._same.get(storage, storage)
        index = self._first_of.get(storage)
        if index is None:
            whole = tensor.numel() * tensor.element_size() == self._sizes[storage]
            shape = tensor.shape if whole else (self._sizes[storage] // tensor.element_size(),)
            index = self._first_of[storage] = self._new(shape, tensor.dtype)
            self._tensor_at[self._key(tensor, storage)] = index
        return index

    def pack(self, tensor):
        if not self.paused:
            index = self.saved(tensor)
            if index is not None:
                self._pending.append(index)
        return tensor

    def leaf(self, kind, name, tensors, make, saves, attributes=None):
        """A function that is recorded as one operator: `make()` gives its results, `saves(results)` what it keeps."""
        operands = [self.find(t) for t in tensors]
        self.paused += 1
        try:
            out = _Leaf.apply(make, *tensors)
            kept = list(saves(out))
        finally:
            self.paused -= 1
        if all(operand is None for operand in operands):
            return out
        inputs = [o for o in operands if isinstance(o, int)]
        weights = [o for o in operands if isinstance(o, Weight)]
        outputs = [self.add_tensor(out)]
        self.append(Operator(kind, name, self.path[-1], inputs, outputs, weights, attributes))
        operator = self.operators[-1]
        for tensor in kept:
            index = self.find(tensor)
            if isinstance(index, Weight):
                continue
            if index is None and self._storage(tensor) not in self._first_of:  # its own: a mask, logsumexp
                index = self.add_tensor(tensor)
                operator.outputs.append(index)
            operator.saves.append(self._first_of[self._storage(tensor)])
        return out

    @contextlib.contextmanager
    def inside(self, path):
        self.path.append(path)
        yield
        self.path.pop()


def _touches_meta(args, kwargs):
    device = kwargs.get("device")
    return any(t.device.type == "meta" for t in tensors_in((args, kwargs))) or (device is not None and torch.device(device).type == "meta")


class _Leaf(torch.autograd.Function):
    """Connects the results of a leaf to its inputs, so that autograd goes on keeping what follows."""

    @staticmethod
    def forward(ctx, make, *tensors):
        return make()

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("a traced module has no gradients")


def _distinct(items):
    return list(dict.fromkeys(items))


def _norm_kind(name):
    for word in ("layer", "group", "batch", "rms"):
        if word in name:
            return word
    return "layer"


def _conv_attributes(args, given):
    weight = given[1]
    attributes = {"kernel": list(weight.shape[2:]), "stride": [1] * (weight.dim() - 2), "groups": 1, "transposed": False}
    if len(args) >= 9:  # convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        stride = list(args[3])
        attributes["stride"] = stride * (weight.dim() - 2) if len(stride) == 1 else stride
        attributes["transposed"], attributes["groups"] = bool(args[6]), int(args[8])
    return attributes
