"""Expert layers. Which tokens go to which expert depends on data that a trace does not have, so a whole block of experts is
one operator of the graph, with what the planner must know: how many experts there are and how many a token visits.
"""
import ast
import fnmatch
import inspect
import textwrap

import torch

from ._errors import InputError

TOP_K = ("top_k", "topk", "num_experts_per_tok", "num_experts_per_token", "k", "moe_top_k", "n_activated_experts", "num_selected_experts")
ROUTERS = ("gate", "router", "gating", "classifier", "wg")
EXPERTS = ("experts", "expert", "mlps")
ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "relu": "relu", "newgelu": "gelu", "pytorchgelutanh": "gelu", "gelutanh": "gelu"}


class moe_leaf:
    """Says that modules are blocks of experts: `where` is a class, a path or a pattern of paths ('layers.*.moe').

    experts, top_k     how many experts there are and how many each token visits; read off the module where left out
    ffn, gated, activation   of one expert; read off its weights where left out
    """

    def __init__(self, where, *, experts=None, top_k=None, ffn=None, gated=None, activation=None):
        self.where, self.experts, self.top_k = where, experts, top_k
        self.ffn, self.gated, self.activation = ffn, gated, activation

    def matches(self, path, module):
        if isinstance(self.where, str):
            return fnmatch.fnmatchcase(path, self.where) or type(module).__name__ == self.where
        return isinstance(module, self.where)


class Block:
    """A recognised block: its routed part (router and experts) and what else it contains (shared experts)."""

    def __init__(self, path, module, leaf=None):
        self.path, self.module = path, module
        self.experts_child = _experts_child(module)
        self.router_child = _router_child(module, self.experts_child)
        self.experts = (leaf and leaf.experts) or _count_experts(module, self.experts_child)
        self.top_k = (leaf and leaf.top_k) or _find_top_k(module, self.router_child)
        if not self.experts or not self.top_k:
            missing = "experts" if not self.experts else "top_k"
            raise InputError(
                "%s (%s) routes tokens to experts, but says nowhere %s: give "
                "nest.trace(..., moe=nest.moe_leaf(%r, experts=N, top_k=K))"
                % (path, type(module).__name__, "how many there are" if missing == "experts" else "how many each token visits", type(module).__name__)
            )
        routed = [child for child in (self.experts_child, self.router_child) if child is not None]
        self.shared = [(name, child) for name, child in module.named_children() if name not in routed and any(True for _ in child.parameters())]
        if not routed:
            self.shared = []
        shared = {id(p) for _, child in self.shared for p in child.parameters()}
        self.parameters = [p for p in module.parameters() if id(p) not in shared]
        self.returns = _returned(module)
        self.ffn, self.gated, self.activation = _describe_expert(module, self.experts_child, leaf)

    def attributes(self):
        return {"experts": int(self.experts), "top_k": int(self.top_k), "ffn": int(self.ffn), "gated": bool(self.gated),
                "activation": self.activation}

    def replace(self, recorder):
        """Makes the block run as one operator."""
        block = self

        def forward(hidden, *args, **kwargs):
            make = lambda: torch.empty_like(hidden)
            out = recorder.leaf("moe", "moe", [hidden] + block.parameters, make, lambda _: [], block.attributes())
            recorder.operators[-1].saves = None  # by rule
            for name, child in block.shared:
                if "gate" in name:
                    continue  # the weight of the shared expert: applied below
                extra = child(hidden)
                gates = [other for other_name, other in block.shared if "gate" in other_name]
                if gates:
                    extra = torch.sigmoid(gates[0](hidden)) * extra
                out = out + extra
            if block.returns > 1:
                tokens = hidden.numel() // hidden.shape[-1]
                return (out,) + tuple(hidden.new_empty(tokens, block.experts) for _ in range(block.returns - 1))
            return out

        self.module.forward = forward


def find_blocks(module, leaves):
    """Blocks named by the caller, and those that look like one: a list of equal experts beside a router."""
    leaves = list(leaves or [])
    blocks, used = [], set()
    for path, child in module.named_modules():
        if any(path.startswith(block.path + ".") for block in blocks):
            continue
        leaf = next((one for one in leaves if one.matches(path, child)), None)
        if leaf is not None:
            used.add(leaf)
            blocks.append(Block(path, child, leaf))
        elif _looks_like_block(child):
            blocks.append(Block(path, child))
    for leaf in leaves:
        if leaf not in used:
            raise InputError("moe_leaf(%r): no module of the model has this %s" % (leaf.where, "path or class" if isinstance(leaf.where, str) else "class"))
    return blocks


def _looks_like_block(module):
    experts = _experts_child(module)
    return experts is not None and _router_child(module, experts) is not None


def _equal_experts(child):
    if not isinstance(child, torch.nn.ModuleList) or len(child) < 2:
        return False
    shapes = [(type(one), [tuple(p.shape) for p in one.parameters()]) for one in child]
    return bool(shapes[0][1]) and all(one == shapes[0] for one in shapes)


def _stacked_experts(child):
    """Experts of one module with weights [experts, in, out]."""
    if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
        return False
    stacked = [p for p in child.parameters(recurse=False) if p.dim() == 3]
    return len(stacked) >= 2 and len({p.shape[0] for p in stacked}) == 1


def _experts_child(module):
    """The child that holds the experts: by its name, or a list of equal modules beside a router of that many outputs."""
    for name, child in module.named_children():
        named = any(word in name.lower() for word in EXPERTS) and "shared" not in name.lower()
        if named and (_equal_experts(child) or _stacked_experts(child)):
            return name
        if named and isinstance(child, torch.nn.ModuleDict) and len(child) > 1:
            return name
    for name, child in module.named_children():
        if _equal_experts(child) and any(_outputs(other) == len(child) for _, other in module.named_children()):
            return name
    return None


def _outputs(module):
    """How many values a linear router gives for each token; None for other modules."""
    if isinstance(module, torch.nn.Linear):
        return module.out_features
    weight = getattr(module, "weight", None)
    return weight.shape[0] if isinstance(weight, torch.Tensor) and weight.dim() == 2 else None


def _router_child(module, experts):
    if experts is None:
        return None
    count = _count_experts(module, experts)
    for name, child in module.named_children():
        if name == experts or "shared" in name:
            continue
        outputs = [_outputs(one) for one in child.modules()]
        if count in outputs or (any(word == name.lower() for word in ROUTERS) and count is None):
            return name
    return None


def _count_experts(module, experts):
    if experts is not None:
        child = getattr(module, experts)
        if isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict)):
            return len(child)
        stacked = [p.shape[0] for p in child.parameters(recurse=False) if p.dim() == 3]
        if stacked:
            return stacked[0]
    return getattr(module, "num_experts", None) or getattr(module, "n_experts", None)


def _find_top_k(module, router):
    places = [module] + ([getattr(module, router)] if router else []) + [getattr(module, "config", None), getattr(module, "args", None)]
    for place in places:
        for name in TOP_K:
            value = getattr(place, name, None)
            if isinstance(value, int) and value > 0:
                return value
    return None


def _describe_expert(module, experts, leaf):
    child = getattr(module, experts) if experts else module
    many = isinstance(child, (torch.nn.ModuleList, torch.nn.ModuleDict))
    one = (list(child.values()) if isinstance(child, torch.nn.ModuleDict) else list(child))[0] if many else child
    matrices = [tuple(p.shape[-2:]) for p in one.parameters() if p.dim() == (2 if many else 3)]
    sizes = sorted({n for shape in matrices for n in shape})
    hidden = min(sizes, key=lambda n: (-sum(n in shape for shape in matrices), n)) if sizes else 0
    others = [n for n in sizes if n != hidden] or sizes
    gated, ffn = len(matrices) >= 3, min(others) if others else 0
    if len(matrices) == 2 and len(others) == 2 and max(others) == 2 * min(others):
        gated = True  # gate and up in one matrix
    activation = next((ACTIVATIONS[name] for m in one.modules() for name in [_plain(m)] if name in ACTIVATIONS), "silu" if gated else "gelu")
    given = leaf or moe_leaf("")
    return (given.ffn or ffn, gated if given.gated is None else given.gated, given.activation or activation)


def _plain(module):
    return type(module).__name__.lower().replace("activation", "").replace("_", "")


def _returned(module):
    """How many values the block's forward returns, read in its source: 1 where nothing says more."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(type(module).forward)))
    except (OSError, TypeError, SyntaxError):
        return 1
    lengths = [len(node.value.elts) for node in ast.walk(tree) if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)]
    return max(lengths, default=1)
