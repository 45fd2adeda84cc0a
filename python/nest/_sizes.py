"""How the extents of a trace grow with batch and sequence: the module runs at several sizes, and each extent is written as
coefficient * batch^p * sequence^q.
"""
import math

import torch

from ._errors import InputError, TraceError
from ._recorder import convert, tensors_in


class Sizes:
    """The sizes a module is run at, and the powers that follow."""

    def __init__(self, args, kwargs, batch_dim, sequence_dim):
        self.args, self.kwargs, self.warnings = args, kwargs, []
        named = {**dict(enumerate(args)), **kwargs}
        self.dims = {}  # id of an input -> (its batch dimensions, its sequence dimensions)
        tensors = [(key, t) for key, value in named.items() for t in tensors_in(value)]
        if not tensors:
            raise InputError("example_inputs: no tensors in it")
        self.batch, batch_dims = _extent(tensors, batch_dim, "batch_dim")
        sequence, sequence_dims = _sequence(tensors, sequence_dim)
        self.sequence = sequence
        for key, tensor in tensors:
            along = sequence_dims.get(id(tensor), [])
            self.dims[id(tensor)] = ([d for d in batch_dims.get(id(tensor), []) if d not in along], along)
        self.start = max(2, self.batch) if self.batch else 1
        self.factors = [1.0, 1.0]  # of batch and sequence in the second and third run
        self.fixed_batch = None

    def _at(self, batch_factor, sequence_factor):
        def change(tensor):
            batch_dims, sequence_dims = self.dims[id(tensor)]
            shape = list(tensor.shape)
            for dim in batch_dims:
                shape[dim] = int(shape[dim] * batch_factor * self.start / self.batch)
            for dim in sequence_dims:
                shape[dim] = int(shape[dim] * sequence_factor)
            return _resized(tensor, shape)

        return convert(self.args, change), convert(self.kwargs, change)

    def run_all(self, runner):
        """The runs at (b, s), (2b, s) and (b, 2s); a size that the module refuses is left out, with a warning."""
        first = self._first(runner)
        runs = [first, self._second(runner, first), self._third(runner, first)]
        self.batch = self.start
        if self.factors[1] == 1.0:
            self.sequence = 1
        return [run if run is not None else first for run in runs]

    def _first(self, runner):
        try:
            return runner(*self._at(1, 1))
        except TraceError:
            if self.batch == 0 or self.start == self.batch:
                raise
            self.start = self.batch  # perhaps it takes one sample only
            return runner(*self._at(1, 1))

    def _second(self, runner, first):
        if not self.batch:
            self.start = 1
            return None
        for factor in (2, 1.5, 0.5):
            run, reason = self._try(runner, first, factor, 1)
            if run is not None:
                self.factors[0] = factor
                return run
        self.fixed_batch = self.start
        self.warnings.append("the module takes batch %d only (%s): extents equal to it are taken for the batch" % (self.start, reason))
        return None

    def _third(self, runner, first):
        if not self.sequence:
            return None
        for factor in (2, 0.5):
            run, reason = self._try(runner, first, 1, factor)
            if run is not None:
                self.factors[1] = factor
                return run
        self.warnings.append("the module takes one sequence length only, %d (%s): sequence is 1, and only the batch can change" % (self.sequence, reason))
        return None

    def _try(self, runner, first, batch_factor, sequence_factor):
        """The run at another size, or why there is none."""
        if batch_factor * self.start != int(batch_factor * self.start) or any(
                t.shape[d] * sequence_factor != int(t.shape[d] * sequence_factor) for t in tensors_in((self.args, self.kwargs)) for d in self.dims[id(t)][1]):
            return None, "its half is no whole number"
        try:
            run = runner(*self._at(batch_factor, sequence_factor))
        except TraceError as error:
            return None, str(error)
        return (run, "") if first.alike(run) else (None, "other operators run at another size")

    def shape(self, shapes):
        """[[coefficient, power of batch, power of sequence], ...] from a tensor's shapes in the three runs."""
        result = []
        for base, other_batch, other_sequence in zip(*shapes):
            p = self._power(base, other_batch, self.factors[0])
            q = self._power(base, other_sequence, self.factors[1])
            if self.fixed_batch and base == self.fixed_batch and not result:
                p = 1
            coefficient = base / (self.batch**p * (self.sequence**q if q else 1))
            result.append([int(coefficient) if coefficient == int(coefficient) else coefficient, p, q])
        return result

    def _power(self, base, other, factor):
        if factor == 1 or base == other or base <= 0 or other <= 0:
            return 0
        power = math.log(other / base) / math.log(factor)
        if abs(power - round(power)) < 1e-9 and 0 < power < 5:
            return int(round(power))
        text = "some extents are no power of batch or sequence (a token or a border added to a length): they are exact at the traced size and grow in proportion"
        if text not in self.warnings:
            self.warnings.append(text)
        return min(4, max(0 if power < 0 else 1, int(round(power))))


def _resized(tensor, shape):
    """A tensor of another shape: tokens and masks keep values like the example's, everything else is shape alone."""
    if tensor.device.type == "meta" or tensor.is_floating_point():
        return torch.empty(shape, dtype=tensor.dtype, device="meta")
    for dim, extent in enumerate(shape):
        tensor = tensor.index_select(dim, torch.arange(extent, device=tensor.device) % max(1, tensor.shape[dim]))
    return tensor


def _extent(tensors, dim, what):
    """The batch: the extent of the first tensor that has the dimension, and the dimensions of all that share it."""
    if dim is None:
        return 0, {}
    found, dims = 0, {}
    for key, tensor in tensors:
        d = dim.get(key) if isinstance(dim, dict) else dim
        if d is None or tensor.dim() <= d:
            continue
        found = found or tensor.shape[d]
        if tensor.shape[d] == found or isinstance(dim, dict):
            dims[id(tensor)] = [d]
    if not found:
        raise InputError("%s: %r is no dimension of any input (%s)" % (what, dim, ", ".join(str(tuple(t.shape)) for _, t in tensors)))
    return found, dims


def _sequence(tensors, dim):
    """The sequence: tokens say what it is; other inputs of that extent follow."""
    if dim is None:
        return 0, {}
    if isinstance(dim, dict):
        return _extent(tensors, dim, "sequence_dim")
    tokens = [t for _, t in tensors if not t.is_floating_point() and t.dim() > dim and t.dim() >= 2]
    length = tokens[0].shape[dim] if tokens else next((t.shape[dim] for _, t in tensors if t.dim() == 3 and t.dim() > dim), 0)
    dims = {}
    for _, tensor in tensors:
        along = []
        if tensor.dim() == 4 and tensor.shape[-1] == tensor.shape[-2] == length and tensor.shape[dim] != length:
            along = [2, 3]  # a mask
        elif tensor.dim() > dim and (tensor.shape[dim] == length or any(tensor is t for t in tokens)):
            along = [dim]
        if along:
            dims[id(tensor)] = along
    return length, dims
