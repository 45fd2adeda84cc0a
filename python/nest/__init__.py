"""nest: the fastest plan that fits, for training any PyTorch model on any cluster.

    graph = nest.trace(model, example_inputs)
    plan = nest.plan(graph, "dgx-h100", devices=64, global_batch=512)

Tracing needs PyTorch and nothing else; planning needs the compiled module nest._core. Each is loaded when it is first used.
"""
from ._api import check, compare, evaluate, export, plan, show, simulate
from ._errors import InputError, LimitReached, NoPlanFits, TraceError
from ._graph import Graph
from ._plan import Candidates, Comparison, Plan
from ._sweep import Sweep, merge_sweeps, sweep

__version__ = "0.1.0"

_LAZY = {"from_config": "_from_config", "meta": "_trace", "moe_leaf": "_moe", "trace": "_trace"}

__all__ = ["Candidates", "Comparison", "Graph", "InputError", "LimitReached", "NoPlanFits", "Plan", "Sweep", "TraceError", "__version__",
           "check", "compare", "evaluate", "export", "merge_sweeps", "plan", "show", "simulate", "sweep"] + sorted(_LAZY)


def __getattr__(name):
    import importlib

    if name in _LAZY:
        return getattr(importlib.import_module("." + _LAZY[name], __name__), name)
    raise AttributeError("module 'nest' has no attribute %r" % name)


def __dir__():
    return __all__
