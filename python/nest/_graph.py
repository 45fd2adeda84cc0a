"""A traced training step, as nest.graph/1 holds it."""
import json
import os
import stat
import tempfile

SIZES = {
    "float64": 8, "int64": 8, "complex64": 8, "complex128": 16, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "int16": 2,
    "uint16": 2, "uint32": 4, "uint64": 8, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "complex32": 4,
}


class Graph:
    """The operators of one training step's forward pass, for any batch and sequence.

    Made by `nest.trace`; given to `nest.plan`, `nest.evaluate` and, saved to a file, to the command line.
    """

    def __init__(self, data):
        self.data = data

    @property
    def name(self):
        return self.data["name"]

    @property
    def batch(self):
        """The batch that the trace was made with."""
        return self.data["batch"]

    @property
    def sequence(self):
        """The sequence length that the trace was made with; 1 where the model has none."""
        return self.data["sequence"]

    @property
    def warnings(self):
        return list(self.data["warnings"])

    @property
    def operators(self):
        return self.data["operators"]

    @property
    def parameters(self):
        """Number of parameters; shared ones count once."""
        return sum(_product(w["shape"]) for w in self.data["weights"])

    def shape(self, tensor, batch=None, sequence=None):
        """The extents of a tensor (by index) for another batch and sequence."""
        b, s = batch or self.batch, sequence or self.sequence
        return [c * b**p * s**q for c, p, q in self.data["tensors"][tensor]["shape"]]

    def bytes(self, tensor, batch=None, sequence=None):
        return _product(self.shape(tensor, batch, sequence)) * SIZES[self.data["tensors"][tensor]["dtype"]]

    def saved_bytes(self, batch=None, sequence=None, under=""):
        """What autograd keeps for the backward pass, by storage; of the modules under a path, or of all."""
        kept = set()
        for op in self.operators:
            if not under or op["module"] == under or op["module"].startswith(under + "."):
                kept.update(op.get("saves", ()))
        return sum(self.bytes(t, batch, sequence) for t in kept)

    def flops(self, batch=None, sequence=None):
        """Multiplications and additions of all matrix products, convolutions and attention, forward."""
        return sum(self._flops(op, batch, sequence) for op in self.operators)

    def _flops(self, op, batch, sequence):
        weights = [self.data["weights"][w]["shape"] for w in op["weights"]]
        size = lambda tensor: self.shape(tensor, batch, sequence)
        if op["op"] == "linear":
            return 2 * _product(size(op["inputs"][0])[:-1]) * _product(weights[0])
        if op["op"] == "matmul":
            return 2 * _product(size(op["outputs"][0])) * size(op["inputs"][0])[-1]
        if op["op"] == "expert_matmul":
            return 2 * _product(size(op["outputs"][0])) * weights[0][1]
        if op["op"] == "conv":
            from_, to = size(op["inputs"][0]), size(op["outputs"][0])
            pixels = from_ if op["attributes"].get("transposed") else to
            return 2 * _product(weights[0]) * pixels[0] * _product(pixels[2:])
        if op["op"] == "attention":
            q, k, v = (size(t) for t in op["inputs"][:3])
            return 2 * _product(q[:3]) * k[2] * (q[3] + v[3]) / (2 if op["attributes"].get("causal") else 1)
        if op["op"] == "moe":
            tokens = _product(size(op["inputs"][0])[:-1])
            count = op["attributes"]["experts"]
            router = sum(_product(shape) for shape in weights if len(shape) == 2 and shape[0] == count)
            experts = sum(_product(shape) for shape in weights) - router
            return 2 * tokens * (router + experts * op["attributes"]["top_k"] / count)
        return 0

    def count(self):
        """How many operators of each kind, most frequent first."""
        kinds = {}
        for op in self.operators:
            kinds[op["op"]] = kinds.get(op["op"], 0) + 1
        return dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))

    def to_json(self):
        return json.dumps(self.data, separators=(",", ":"))

    @classmethod
    def from_json(cls, text):
        return cls(json.loads(text))

    def save(self, path):
        """Writes the file that `nest plan --model` reads, whole or not at all."""
        write_whole(path, self.to_json() + "\n")

    def __repr__(self):
        kinds = ", ".join("%d %s" % (n, kind) for kind, n in list(self.count().items())[:6])
        return "<nest.Graph %s: %s parameters, %d operators (%s), traced with batch %d, sequence %d%s>" % (
            self.name, _short(self.parameters), len(self.operators), kinds, self.batch, self.sequence,
            ", %d warnings" % len(self.warnings) if self.warnings else "")


def _product(extents):
    product = 1
    for extent in extents:
        product *= extent
    return product


def _short(count):
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return "%.4g %s" % (count / size, unit)
    return str(count)


def write_whole(path, text):
    """Writes a file completely, or leaves what was there; through links, with the permissions that it had."""
    path = os.path.realpath(os.fspath(path))
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe, a terminal: nothing to replace
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o666 & ~new_file_mask()
    number, partial = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".part", dir=os.path.dirname(path))
    try:
        with open(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(partial, mode)
        os.replace(partial, path)
        partial = None
    finally:
        if partial is not None:
            os.remove(partial)


def new_file_mask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
