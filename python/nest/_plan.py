"""Plans and comparisons as objects."""
import html
import json
import os

from . import _core_call as call
from ._errors import InputError
from ._graph import write_whole


SCHEMAS = ("nest.plan/3", "nest.plan/2", "nest.plan/1")  # what this version reads; it writes the first


class Record(dict):
    """A JSON object whose members are attributes too; those called like a method of dictionaries only by [name]."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError("there is no %r here; there is %s" % (name, ", ".join(self))) from None

    def __dir__(self):
        return list(super().__dir__()) + list(self)


def record(value):
    if isinstance(value, dict):
        return Record((key, record(item)) for key, item in value.items())
    return [record(item) for item in value] if isinstance(value, list) else value


class Plan:
    """A plan, with what it is for and what it costs (nest.plan/3; docs/formats.md names its members)."""

    _OWN = ("schema", "model", "cluster", "stack", "profile", "run", "strategy", "stages", "prediction", "executed", "search",
            "evaluation")

    def __init__(self, data, alternatives=(), why_not=()):
        self._data = {key: value for key, value in data.items() if key in self._OWN}
        self._evaluation = data.get("evaluation")
        self.sensitivity = record(data.get("sensitivity"))  # what more of every resource would buy, where that was asked for
        self._text = None
        self.alternatives = list(alternatives)
        self.why_not = [record(why) for why in why_not]
        self.failures = record(data.get("failures"))  # what they make of the plan; None where nobody asked
        self.demand = record(data.get("demand"))  # what the plan had to meet, and what that took; None where nothing was
        self.pools = record(data.get("pools"))  # where the cluster's file names pools: each of them planned alone
        self.largest = record(data.get("largest"))  # where the largest that fits was asked for: of what, and the searches that prove it

    model = property(lambda self: record(self._data["model"]), doc="name, title, family, parameters, config")
    cluster = property(lambda self: record(self._data["cluster"]), doc="name, device, devices, description")
    stack = property(lambda self: record(self._data.get("stack")), doc="every fact about the software; None for a preset named by run.stack")
    profile = property(lambda self: record(self._data.get("profile")), doc="the measurements that it was priced with, or None")
    run = property(lambda self: record(self._data["run"]), doc="global_batch, seq, precision, stack, optimizer")
    strategy = property(lambda self: record(self._data["strategy"]), doc="tp, sp, cp, ep, etp, pp, dp, edp, micro_batch, schedule, …")
    stages = property(lambda self: record(self._data["stages"]), doc="layers, devices, zero, recompute, time_s, memory_bytes of each")
    prediction = property(lambda self: record(self._data.get("prediction", {})), doc="by the formula: iteration_s, mfu, peak_memory_bytes, breakdown_s, …")
    executed = property(lambda self: record(self._data.get("executed")), doc="the same where execution on the simulated network takes another time; None where not")
    expected = property(lambda self: self.executed or self.prediction, doc="what to expect: executed, or prediction")
    search = property(lambda self: record(self._data.get("search")), doc="what the search proved; None for a plan that was not searched for")

    @property
    def evaluation(self):
        """Everything else that pricing tells: whether it fits, which layers were measured, …"""
        if self._evaluation is None:
            self._evaluation = json.loads(call.core().evaluate_file(given(self), call.core().Input()))["evaluation"]
        return record(self._evaluation)

    @property
    def fits(self):
        return self.evaluation["fits"]

    @property
    def optimal(self):
        """Whether it is proven that no plan of the search space is faster."""
        return bool(self.search) and self.search.optimal

    @property
    def text(self):
        """What `nest eval` prints."""
        if self._text is None:
            self._text = call.core().plan_text(given(self))
        return self._text

    def to_dict(self):
        return json.loads(self.to_json())

    def to_json(self):
        return json.dumps(self._data, indent=2)

    def save(self, path):
        """Writes the file that every subcommand reads, whole or not at all."""
        write_whole(path, self.to_json() + "\n")

    @classmethod
    def from_json(cls, text):
        try:
            data = json.loads(text) if isinstance(text, (str, bytes)) else dict(text)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError("a plan is a JSON object: %s" % error) from None
        if not isinstance(data, dict):
            raise InputError("a plan is a JSON object, not %s" % type(data).__name__)
        return cls(data)

    @classmethod
    def load(cls, path):
        with open(path, "rb") as file:
            return cls.from_json(file.read())

    def to_html(self):
        """The report with drawings: one page that needs nothing else."""
        return call.core().plan_html(given(self))

    def _repr_html_(self):
        return '<iframe srcdoc="%s" style="width:100%%;height:640px;border:0"></iframe>' % html.escape(self.to_html(), quote=True)

    def __str__(self):
        return self.text

    def __repr__(self):
        return "<nest.Plan %s on %d x %s: %s; %s>" % (self.model.name, self.cluster.devices, self.cluster.device, words(self.strategy),
                                                       _costs(self.expected))

    def __eq__(self, other):
        return isinstance(other, Plan) and self._data == other._data

    __hash__ = None


class Comparison:
    """Planners side by side, under one cost model (nest.compare/1)."""

    def __init__(self, data):
        self._data = data

    planners = property(lambda self: record(self._data["planners"]), doc="planner, strategy, prediction, search of each")

    def __getitem__(self, planner):
        for one in self.planners:
            if one["planner"] == planner:
                return one
        raise KeyError(planner)

    def to_dict(self):
        return json.loads(json.dumps(self._data))

    def _rows(self):
        for one in self.planners:
            if one.get("prediction"):
                yield one["planner"], words(one["strategy"]), "%.4g s" % one["prediction"]["iteration_s"]
            else:
                yield one["planner"], one.get("note") or "", "no plan"

    def __repr__(self):
        return "\n".join("%-8s %12s  %s" % (planner, seconds, strategy) for planner, strategy, seconds in self._rows())

    def _repr_html_(self):
        cells = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(cell) for cell in row) for row in self._rows())
        return "<table><tr><th>planner</th><th>strategy</th><th>step</th></tr>%s</table>" % cells


class Candidates:
    """Strategies, plans, clusters, sizes and stacks side by side, judged alike (nest.candidates/1)."""

    def __init__(self, data, page=""):
        self._data, self._page = data, page

    candidates = property(lambda self: record(self._data["candidates"]), doc="label, name, outcome, step_s, probability_slower, … of each")
    judge = property(lambda self: self._data["judge"])

    @property
    def fastest(self):
        """The candidate that is fastest; None where none fits."""
        return self[self._data["fastest"]] if self._data["fastest"] else None

    def __getitem__(self, label):
        """By its letter, or by its name."""
        for one in self.candidates:
            if label in (one["label"], one["name"]):
                return one
        raise KeyError(label)

    def __len__(self):
        return len(self._data["candidates"])

    def __iter__(self):
        return iter(self.candidates)

    def plan(self, label):
        """The plan of a candidate; None where it has none."""
        data = self[label]["plan"]
        return Plan(json.loads(json.dumps(data))) if data else None

    def to_dict(self):
        return json.loads(json.dumps(self._data))

    def to_html(self):
        """The page: the candidates, then the fastest one's plan."""
        return self._page

    def _rows(self):
        for one in self.candidates:
            step = "%.4g s" % one["step_s"] if "step_s" in one else one["outcome"]
            yield one["label"], one["name"], step, "%.3f" % one["times_fastest"] if "step_s" in one else ""

    def __repr__(self):
        return "\n".join("%s  %-32s %12s  %s" % row for row in self._rows())

    def _repr_html_(self):
        cells = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(cell) for cell in row) for row in self._rows())
        return "<table><tr><th></th><th>candidate</th><th>step</th><th>/ fastest</th></tr>%s</table>" % cells


def words(strategy):
    """'tp=8 sp pp=4 dp=2 mbs=1': what is not 1."""
    if isinstance(strategy, str):
        return strategy
    parts = []
    for key in ("tp", "sp", "cp", "ep", "etp", "pp"):
        usual = strategy.get("tp", 1) if key == "etp" else 1
        value = strategy.get(key, usual)
        if value is True:
            parts.append(key)
        elif value is not False and value != usual:
            parts.append("%s=%s" % (key, value))
    if strategy.get("virtual_stages", 1) > 1:
        parts.append("vpp=%d" % strategy["virtual_stages"])
    if "micro_batch_group" in strategy:
        parts.append("group=%d" % strategy["micro_batch_group"])
    return " ".join(parts + ["dp=%d" % strategy.get("dp", 1), "mbs=%d" % strategy.get("micro_batch", 1)])


def _costs(prediction):
    if not prediction:
        return "not priced"
    sure = " ± %.0f %%" % max(1, 100 * (prediction["interval_s"][1] / prediction["iteration_s"] - 1)) if "interval_s" in prediction else ""
    return "%.4g s%s per step, mfu %.1f %%, %.1f GiB" % (prediction["iteration_s"], sure, 100 * prediction["mfu"], prediction["peak_memory_bytes"] / 2**30)


def as_plan(plan):
    """A Plan from a Plan, a dictionary or a path."""
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, dict):
        return Plan(plan)
    if isinstance(plan, (str, os.PathLike)):
        try:
            return Plan.load(plan)
        except OSError as error:
            raise InputError("%s: cannot be read: %s" % (os.fspath(plan), error.strerror)) from None
    raise InputError("plan: %s; give a Plan, a path or a dictionary" % type(plan).__name__)


def given(plan):
    """A plan as the library takes it: the text of its file, in memory."""
    return call.core().Input.memory("plan.json", call.json_text(as_plan(plan)._data, "plan", 2))
