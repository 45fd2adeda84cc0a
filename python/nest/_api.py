"""The functions of the package: each is a subcommand of the program, and its options are the program's."""
import json
import os

from . import _program
from ._errors import InputError, NoPlanFits
from ._plan import SCHEMAS, Comparison, Plan, as_plan, record


def _job(folder, model, cluster, devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile):
    return _program.options(
        model=None if model is None else folder.model(model),
        cluster=None if cluster is None else folder.document(cluster, "cluster", "cluster.yaml"),
        devices=devices, global_batch=global_batch, seq=seq, encoder_seq=encoder_seq,
        stack=None if stack is None else folder.document(stack, "stack", "stack.yaml"),
        precision=precision, optimizer=optimizer,
        profile=None if profile is None else folder.document(profile, "profile", "profile.json"))


def plan(model=None, cluster=None, *, devices=None, global_batch=None, seq=None, encoder_seq=None, stack=None, precision=None,
         optimizer=None, profile=None, micro_batch=None, set=None, target=None, objective=None, max_devices=None, top=1, threads=None,
         time_limit=None, why=False):
    """The fastest plan that fits, and the proof.

    model        a preset's name, a path (config.json, a folder, model.onnx, a saved graph), a Graph from nest.trace, or a
                 Hugging Face configuration as a dictionary or object; llama3-70b where left out
    cluster      a preset's name, a path of a YAML file, or its content as a dictionary; dgx-h100 where left out
    devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile   as the options of `nest plan`
    set          admits only some values: {"tp": 8, "pp": range(1, 17), "zero": [0, 1]} or ["tp=8", "pp=1..16"]
    top          how many plans: the others are the plan's `alternatives`
    why          also look for what overruling each decision costs: the plan's `why_not`

    Raises InputError, NoPlanFits, or LimitReached; Ctrl-C ends the search.
    """
    with _program.folder() as folder:
        arguments = ["plan"] + _job(folder, model, cluster, devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile)
        arguments += _program.options(micro_batch=_sizes(micro_batch), set=_program.settings(set), target=target, objective=objective,
                                      max_devices=max_devices, top=top, threads=threads, time_limit=time_limit, no_why=not why)
        out = _program.run(arguments + ["--json"], (_program.OK, _program.NO_PLAN))
        answer = json.loads(out)
        if answer["schema"] not in SCHEMAS:
            raise NoPlanFits(answer["text"])
        return Plan(answer, [Plan(other) for other in answer.get("alternatives", [])], answer.get("why_not", []))


def evaluate(plan=None, strategy=None, cluster=None, *, devices=None, global_batch=None, seq=None, encoder_seq=None, stack=None,
             precision=None, optimizer=None, profile=None):
    """The price of one given plan: a Plan (or its path) alone; or a model, a cluster and a strategy ("tp=8,pp=4" or a dictionary).

    The result's `fits` says whether it fits in memory.
    """
    with _program.folder() as folder:
        if isinstance(plan, Plan) or (isinstance(plan, dict) and plan.get("schema") in SCHEMAS):
            given = dict(strategy=strategy, cluster=cluster, devices=devices, global_batch=global_batch, seq=seq, encoder_seq=encoder_seq,
                         stack=stack, precision=precision, optimizer=optimizer)
            names = [name for name, value in given.items() if value is not None]
            if names:
                raise InputError("%s: a plan says that itself; give a model and a strategy to price another one" % ", ".join(names))
            arguments = ["eval", folder.write("plan.json", as_plan(plan).to_json())] + _profile(folder, profile)
        elif strategy is None and isinstance(plan, (str, os.PathLike)) and os.path.isfile(plan):
            arguments = ["eval", os.fspath(plan)] + _job(folder, *[None] * 9, profile)
        else:
            arguments = ["eval"] + _job(folder, plan, cluster, devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile)
            arguments += _program.options(strategy=_program.strategy(strategy))
        return Plan(json.loads(_program.run(arguments + ["--json"], (_program.OK, _program.NO_PLAN))))


def compare(model=None, cluster=None, *, planners=None, devices=None, global_batch=None, seq=None, encoder_seq=None, stack=None,
            precision=None, optimizer=None, profile=None, micro_batch=None, set=None, max_devices=None, seed=None, threads=None,
            time_limit=None, simulate=False):
    """What other planners would have done, under one cost model."""
    with _program.folder() as folder:
        arguments = ["compare"] + _job(folder, model, cluster, devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile)
        arguments += _program.options(planners=_sizes(planners), micro_batch=_sizes(micro_batch), set=_program.settings(set),
                                      max_devices=max_devices, seed=seed, threads=threads, time_limit=time_limit, simulate=simulate)
        if simulate:
            _find_simulator()
        return Comparison(json.loads(_program.run(arguments + ["--json"], (_program.OK, _program.NO_PLAN, _program.LIMIT))))


def check(plan):
    """The independent judge: `sound`, and `violations` where it is not."""
    with _program.folder() as folder:
        out = _program.run(["check", folder.write("plan.json", as_plan(plan).to_json()), "--json"], (_program.OK, _program.INPUT))
        if not out:  # no plan at all
            _program.run(["check", folder.write("plan.json", as_plan(plan).to_json())])
        return record(json.loads(out))


def simulate(plan, *, steps=1, trace=None, profile=None, time_limit=None):
    """Executes the plan on the simulated network (needs SimGrid): `simulated.iteration_s` beside `predicted.iteration_s`."""
    _find_simulator()
    with _program.folder() as folder:
        arguments = ["simulate", folder.write("plan.json", as_plan(plan).to_json())] + _profile(folder, profile)
        arguments += _program.options(steps=steps, trace=None if trace is None else os.fspath(trace), time_limit=time_limit)
        return record(json.loads(_program.run(arguments + ["--json"])))


def export(plan, to, *, format=None, output=None, ranks=None, no_model=False, per_host=None, cores_per_device=None, profile=None):
    """The plan in the words of a framework, as text: to "megatron", "nemo", "deepspeed", "torchtitan" or "rankfile".

    "chakra" writes execution traces for network simulators, one file for each rank (of `ranks`, "0,8-15"), to the folder
    `output`; the text is the program's about them.
    """
    with _program.folder() as folder:
        arguments = ["export", folder.write("plan.json", as_plan(plan).to_json())] + _profile(folder, profile)
        arguments += _program.options(to=to, format=format, ranks=ranks, no_model=no_model, per_host=per_host,
                                      cores_per_device=cores_per_device)
        if to == "chakra":
            return _program.run(arguments + ([] if output is None else ["--output", os.fspath(output)]))
        place = os.fspath(output) if output is not None else folder.place("exported")
        _program.run(arguments + ["--output", place])
        with open(place, encoding="utf-8") as file:
            return file.read()


def show(name=None, *, devices=None, seq=None, micro_batch=None, kernels=None, attention=None, recompute=None, dropout=False, tp=None,
         sp=False, cp=None, ep=None, etp=None):
    """What nest knows about a model, a device or a cluster; everything that has a name where none is given."""
    with _program.folder() as folder:
        arguments = ["show"] + ([] if name is None else [folder.model(name)])
        arguments += _program.options(devices=devices, seq=seq, micro_batch=micro_batch, stack=kernels, attention=attention,
                                      recompute=recompute, dropout=dropout, tp=tp, sp=sp, cp=cp, ep=ep, etp=etp)
        return record(json.loads(_program.run(arguments + ["--json"])))


def _profile(folder, profile):
    return _job(folder, *[None] * 9, profile)


def _sizes(value):
    return ",".join(str(item) for item in value) if isinstance(value, (list, tuple)) else value


def _find_simulator():
    """nest-simulate lies beside the program: in the folder that `make python` builds in."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "nest-simulate")
    if "NEST_SIMULATE" not in os.environ and os.access(beside, os.X_OK):
        os.environ["NEST_SIMULATE"] = os.path.normpath(beside)
