"""The functions of the package. Each asks the C++ library (nest._core) one question."""
import json
import os
import shutil
import tempfile

from . import _core_call as call
from ._errors import InputError, LimitReached, NoPlanFits
from ._graph import new_file_mask, write_whole
from ._plan import SCHEMAS, Candidates, Comparison, Plan, as_plan, given, record


def plan(model=None, cluster=None, *, devices=None, global_batch=None, seq=None, encoder_seq=None, stack=None, precision=None,
         optimizer=None, profile=None, micro_batch=None, set=None, target=None, objective=None, max_devices=None, top=1, threads=None,
         time_limit=None, why=False, mtp_layers=None, routing=None, tie=None, optimizer_offload=None, offload=None, judge=None,
         freeze=None, lora=None, oom_risk=None, tokens=None, deadline=None, budget=None, price=None,
         mtbf=None, checkpoint_bandwidth=None, restart=None, repair=None, lost_nodes=None, sensitivity=False,
         largest=None, multiple_of=None):
    """The fastest plan that fits, and the proof; or what it takes to train on so many tokens by then, for that much.

    model        a preset's name, a path (config.json, a folder, model.onnx, a saved graph), a Graph from nest.trace, or a
                 Hugging Face configuration as a dictionary or object; llama3-70b where left out
    cluster      a preset's name, a path of a YAML file, or its content as a dictionary; dgx-h100 where left out
    devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile, mtp_layers, routing,
    optimizer_offload, offload, judge, freeze, lora, oom_risk   as the options of `nest plan`; freeze may be a list of patterns
    set          admits only some values: {"tp": 8, "pp": range(1, 17), "zero": [0, 1]} or ["tp=8", "pp=1..16"]
    top          how many plans, each of another kind: the others are the plan's `alternatives`
    tie          percent of the proven optimum within which the simplest plan is taken (0.5); 0: the fastest
    why          also look for what overruling each decision costs: the plan's `why_not`
    sensitivity  also what 10 % more of every resource would buy: the plan's `sensitivity`
    tokens, deadline, budget, price   "15T", "30d", "1M", 2.5 (or numbers; a deadline in seconds): the fewest devices that meet the deadline, at
                 most `devices`; the fastest plan that keeps to the budget alone; or what `objective` ("devices", "cost", "time") says.
                 The plan's `demand` is what was asked and how it was proven
    mtbf, checkpoint_bandwidth, restart, repair, lost_nodes   "50000h" of a device (or "6000h/node"), "2TB/s", "10min", "24h", 4: how often
                 to save state, goodput, spares and plans for fewer nodes, the plan's `failures`; objective="goodput" makes goodput most
    largest, multiple_of   "seq", "batch" or "layers": the longest sequence, the largest batch in one pass or the most layers with which some
                 plan fits; sequences are multiples of 1,024 tokens, or of what is said. The plan's `largest` says how it was proven

    Raises InputError, NoPlanFits, or LimitReached; Ctrl-C ends the search.
    """
    demanded = deadline is not None or budget is not None
    if demanded and mtbf is not None:
        raise InputError("mtbf: not together with deadline or budget; ask for the plan of so many devices")
    for name, is_given in dict(deadline=deadline is not None, budget=budget is not None, mtbf=mtbf is not None, sensitivity=sensitivity).items():
        if largest is not None and is_given:
            raise InputError("%s: not together with largest; ask one after the other" % name)
    if multiple_of is not None and largest is None:
        raise InputError("multiple_of: of what? Give largest, for example \"seq\"")
    for name, value in dict(checkpoint_bandwidth=checkpoint_bandwidth, restart=restart, repair=repair, lost_nodes=lost_nodes).items():
        if value is not None and mtbf is None:
            raise InputError("%s: needs how often devices fail; give mtbf, for example \"50000h\"" % name)
    question = call.question(model, cluster, devices if demanded else _usual(cluster, devices), global_batch, seq, encoder_seq, stack,
                             precision, optimizer, profile, mtp_layers, routing, optimizer_offload, freeze, lora, oom_risk)
    options = call.core().SearchOptions()
    _limits(options, micro_batch, set, max_devices, threads, time_limit)
    call.numbers(options, top=top)
    call.percent(options, tie=tie)
    call.words(options, target=target, offload=offload, judge=judge)
    options.why = bool(why)
    if largest is not None:
        call.words(options, objective=objective)
        outcome, answer = call.core().largest(question, str(largest), 0 if multiple_of is None else call.number("multiple_of", multiple_of), options)
    elif demanded:
        outcome, answer = call.core().demand(question, call.demand(tokens, deadline, budget, price, objective), options)
    elif mtbf is not None:
        given_words = dict(mtbf=mtbf, checkpoint_bandwidth=checkpoint_bandwidth, restart=restart, repair=repair)
        if objective != "goodput":
            call.words(options, objective=objective)
        outcome, answer = call.core().failures(question, {name: call.unit_word(name, value) for name, value in given_words.items()
                                                          if value is not None},
                                               0 if lost_nodes is None else call.number("lost_nodes", lost_nodes), objective == "goodput",
                                               options)
    else:
        call.words(options, objective=objective)
        outcome, answer = call.core().plan(question, options, bool(sensitivity))
    if outcome == "no_plan":
        raise NoPlanFits(answer)
    if outcome == "limit":
        raise LimitReached("stopped before any plan was found")
    answer = json.loads(answer)
    return Plan(answer, [Plan(other) for other in answer.get("alternatives", [])], answer.get("why_not", []))


def evaluate(plan=None, strategy=None, cluster=None, *, devices=None, global_batch=None, seq=None, encoder_seq=None, stack=None,
             precision=None, optimizer=None, profile=None, mtp_layers=None, routing=None, optimizer_offload=None,
             freeze=None, lora=None, oom_risk=None):
    """The price of one given plan: a Plan (or its path) alone; or a model, a cluster and a strategy ("tp=8,pp=4" or a dictionary).

    The result's `fits` says whether it fits in memory.
    """
    core = call.core()
    if isinstance(plan, Plan) or (isinstance(plan, dict) and plan.get("schema") in SCHEMAS):
        others = dict(strategy=strategy, cluster=cluster, devices=devices, global_batch=global_batch, seq=seq, encoder_seq=encoder_seq,
                      stack=stack, precision=precision, optimizer=optimizer, mtp_layers=mtp_layers, routing=routing,
                      optimizer_offload=optimizer_offload, freeze=freeze, lora=lora, oom_risk=oom_risk)
        names = [name for name, value in others.items() if value is not None]
        if names:
            raise InputError("%s: a plan says that itself; give a model and a strategy to price another one" % ", ".join(names))
        return Plan(json.loads(core.evaluate_file(given(plan), _profile(profile))))
    if strategy is None and isinstance(plan, (str, os.PathLike)) and os.path.isfile(plan):
        return Plan(json.loads(core.evaluate_file(call.file(plan), _profile(profile))))
    question = call.question(plan, cluster, devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile,
                             mtp_layers, routing, optimizer_offload, freeze, lora, oom_risk)
    return Plan(json.loads(core.evaluate_strategy(question, call.strategy(strategy))))


def compare(model=None, cluster=None, *, planners=None, devices=None, global_batch=None, seq=None, encoder_seq=None, stack=None,
            precision=None, optimizer=None, profile=None, micro_batch=None, set=None, max_devices=None, seed=None, threads=None,
            time_limit=None, simulate=False, mtp_layers=None, routing=None, optimizer_offload=None, freeze=None, lora=None, oom_risk=None,
            strategies=None, plans=None, judge=None, target=None):
    """Candidates side by side, or planners.

    Candidates: `strategies` ("tp=8,pp=4", a dictionary, or "best": what nest plans), `plans` (Plans or paths), and several clusters,
    numbers of devices or stacks, given as lists; every combination is one. The answer is a Candidates. `judge`: "simulation" or "formula".

    Without any of these, or with `planners`: what other planners would have done, under one cost model; a Comparison.
    """
    several = strategies is not None or plans is not None or any(isinstance(one, (list, tuple)) for one in (cluster, devices, stack))
    if several:
        for name, value in dict(planners=planners, seed=seed, simulate=simulate or None).items():
            if value is not None:
                raise InputError("%s: is for planners on one job; leave it out, or strategies, plans and lists" % name)
        alone = [value for value in (model, cluster, devices, stack, strategies, global_batch, seq) if value is not None]
        question = call.question(model, None, None, global_batch, seq, encoder_seq, None, precision, optimizer, profile, mtp_layers, routing,
                                 optimizer_offload, freeze, lora, oom_risk)
        options = call.core().SearchOptions()
        _limits(options, micro_batch, set, max_devices, threads, time_limit)
        call.words(options, judge=judge, target=target)
        lists = call.core().CandidateLists()
        lists.question = question
        lists.clusters = call.documents(cluster, "cluster")
        lists.devices = [call.number("devices", one) for one in call.several(_usual(cluster, devices))]
        lists.stacks = call.documents(stack, "stack")
        lists.strategies = [call.strategy(one) for one in call.several(strategies)]
        lists.plans = [call.core().Input.memory("plan-%d.json" % number, as_plan(one).to_json()) if not isinstance(one, (str, os.PathLike))
                       else call.file(one) for number, one in enumerate(call.several(plans), 1)]
        lists.only_plans = plans is not None and not alone
        answer, page = call.core().compare_candidates(lists, options)
        return Candidates(json.loads(answer), page)
    for name, value in dict(judge=judge, target=target).items():
        if value is not None:
            raise InputError("%s: is for candidates (strategies, plans, lists)" % name)
    question = call.question(model, cluster, _usual(cluster, devices), global_batch, seq, encoder_seq, stack, precision, optimizer, profile,
                             mtp_layers, routing, optimizer_offload, freeze, lora, oom_risk)
    options = call.core().CompareOptions()
    _limits(options, micro_batch, set, max_devices, threads, time_limit)
    call.numbers(options, seed=seed)
    if planners is not None:
        options.planners = call.sizes(planners, "planners").split(",")
    options.simulate = bool(simulate)
    return Comparison(json.loads(call.core().compare(question, options)))


def check(plan):
    """The independent judge: `sound`, and `violations` where it is not."""
    return record(json.loads(call.core().check(given(as_plan(plan)))))


def simulate(plan, *, engine=None, steps=1, runs=None, noise=None, seed=None, trace=None, profile=None, time_limit=None):
    """Executes the plan on the simulated network: `simulated.iteration_s` beside `predicted.iteration_s`. `engine`: "nest", or
    "simgrid" where it is installed. `runs`: executions besides in which passes have `noise` percent of noise (1), from `seed`."""
    options = call.core().SimulateOptions()
    call.words(options, engine=engine)
    if options.engine == "simgrid":
        _find_simulator()
    call.numbers(options, steps=steps, runs=runs, seed=seed)
    call.percent(options, noise=noise)
    call.seconds(options, time_limit)
    answer, written = call.core().simulate(given(as_plan(plan)), _profile(profile), options, trace is not None)
    if trace is not None:
        write_whole(trace, written)
    return record(json.loads(answer))


def export(plan, to, *, format=None, output=None, ranks=None, no_model=False, target=None, per_host=None, cores_per_device=None,
           profile=None):
    """The plan in the words of a framework, as text: to "megatron", "nemo", "deepspeed", "torchtitan", "torchtitan-main", "fsdp" or
    "rankfile".

    A rank file is of the plan that the framework `target` runs ("any": of this one as it is; else that of the stack).
    "job" writes a folder that can be submitted to Slurm (of the framework `format`; else that of the stack) to the folder `output`.
    "chakra" writes execution traces for network simulators, one file for each rank (of `ranks`, "0,8-15"), to the folder
    `output`; the text says what was written.
    """
    core = call.core()
    to = call.utf8("to", to)
    options = core.ExportOptions()
    call.words(options, format=format, ranks=ranks, target=target)
    call.numbers(options, per_host=per_host, cores_per_device=cores_per_device)
    options.model = not no_model
    asked = given(as_plan(plan)), _profile(profile), to
    if core.exports_folder(to):
        if output is None:
            raise InputError("output: is missing; %s writes a folder of files" % to)
        return "Written to %s: %s" % (os.fspath(output), _new_folder(os.fspath(output), asked, options))
    exported = core.export(*asked, options, None)
    if not exported.found:
        raise NoPlanFits("no plan that %s can run fits; it %s" % (to, "; ".join(exported.cannot)))
    if output is not None:
        write_whole(output, exported.text)
    return exported.text


def show(name=None, *, devices=None, seq=None, micro_batch=None, kernels=None, attention=None, recompute=None, dropout=False, tp=None,
         sp=False, cp=None, ep=None, etp=None):
    """What nest knows about a model, a device or a cluster; everything that has a name where none is given."""
    options = call.core().ShowOptions()
    call.numbers(options, devices=devices, seq=seq, micro_batch=micro_batch, tp=tp, cp=cp, ep=ep, etp=etp)
    call.words(options, kernels=kernels, attention=attention, recompute=recompute)
    options.dropout, options.sp = bool(dropout), bool(sp)
    return record(json.loads(call.core().show(call.core().Input() if name is None else call.model(name), options)))


def _usual(cluster, devices):
    return call.USUAL_DEVICES if cluster is None and devices is None else devices


def _limits(options, micro_batch, settings, max_devices, threads, time_limit):
    if micro_batch is not None:
        options.micro_batch = call.sizes(micro_batch)
    options.set = call.settings(settings)
    call.numbers(options, max_devices=max_devices, threads=threads)
    call.seconds(options, time_limit)


def _profile(profile):
    return call.document(profile, "profile", "profile.json")


def _new_folder(path, asked, options):
    """Exports to a folder that appears when it is complete, or not at all."""
    path = path.rstrip("/") or "/"
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise InputError("%s: is there already; the output is a folder that is new or empty" % path)
    try:
        beside = tempfile.mkdtemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(os.path.abspath(path)))
    except OSError as error:
        raise InputError("%s: cannot be written: %s" % (path, error.strerror)) from None

    def write(name, content):
        with open(os.path.join(beside, name), "wb") as file:
            file.write(content)

    try:
        exported = call.core().export(*asked, options, write)
        if not exported.found:
            raise NoPlanFits("no plan that %s can run fits; it %s" % (asked[2], "; ".join(exported.cannot)))
        os.chmod(beside, 0o777 & ~new_file_mask())
        os.rename(beside, path)
        return exported.about
    except OSError as error:
        raise InputError("%s: cannot be written: %s" % (path, error.strerror)) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _find_simulator():
    """nest-simulate lies beside the program: in the folder that `make python` builds in."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "nest-simulate")
    if "NEST_SIMULATE" not in os.environ and os.access(beside, os.X_OK):
        os.environ["NEST_SIMULATE"] = os.path.normpath(beside)
