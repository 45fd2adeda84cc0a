"""Studies: many questions at once, kept in a database."""
import json
import os

from . import _core_call as call
from ._errors import InputError
from ._graph import write_whole
from ._plan import Plan, record


class Sweep:
    """The results of a study. `points` are those that are stored; each has the study's axes, `outcome` and, where there is a plan,
    `step_s`, `tokens_per_s`, `mfu`, `strategy`, …"""

    def __init__(self, study, data):
        self._study = study
        self._data = data

    name = property(lambda self: self._data["study"])
    database = property(lambda self: self._data["database"])
    axes = property(lambda self: {axis["name"]: axis["values"] for axis in self._data["axes"]}, doc="values by name")
    points = property(lambda self: record(self._data["points"]))
    complete = property(lambda self: len(self._data["points"]) == self._data["points_of_study"])

    @property
    def front(self):
        """The points of which nobody that trains the same is faster for less."""
        numbers = set(self._data["front"])
        return [point for point in self.points if point["point"] in numbers]

    def plan(self, point):
        """The Plan of a point (or of its number); None where it has none."""
        number = point["point"] if isinstance(point, dict) else int(point)
        text = call.core().sweep_plan(self.name, self.database, number)
        return Plan(json.loads(text)) if text else None

    def to_dict(self):
        return self._data

    def to_csv(self):
        return call.core().sweep_report(self._study, self.database, "csv")

    def to_html(self):
        return call.core().sweep_report(self._study, self.database, "html")

    def __len__(self):
        return len(self._data["points"])

    def __iter__(self):
        return iter(self.points)

    def __repr__(self):
        return "<nest.Sweep %s: %d of %d points in %s>" % (self.name, len(self), self._data["points_of_study"], self.database)


def sweep(study, db=None, *, shard=None, threads=None, csv=None, jsonl=None, html=None):
    """Plans every point of a study that is not in the database yet, and gives all that is there.

    study   the path of a YAML file, or its content as a dictionary (docs/sweep.md)
    db      the database; the study's name with .sqlite where left out
    shard   "3/8": of eight parts the third only, counted from 0 or from 1
    csv, jsonl, html   files to write besides

    Ctrl-C ends it; what is stored is not planned again by the next call.
    """
    given = call.document(study, "study", "study.yaml")
    if db is None:
        name = study.get("study", "study") if isinstance(study, dict) else os.path.splitext(os.path.basename(os.fspath(study)))[0]
        db = "%s.sqlite" % name
    number, count = _shard(shard)
    db = os.fspath(db)
    answer = call.core().sweep(given, db, number, count, 0 if threads is None else call.number("threads", threads))
    for path, form in ((csv, "csv"), (jsonl, "jsonl"), (html, "html")):
        if path is not None:
            write_whole(path, call.core().sweep_report(given, db, form))
    return Sweep(given, json.loads(answer))


def merge_sweeps(databases, output):
    """Puts databases of one study together; what is in `output` stays. Says of every study how many points there are now."""
    names = [os.fspath(path) for path in ([databases] if isinstance(databases, (str, os.PathLike)) else databases)]
    return record(json.loads(call.core().merge_sweeps(names, os.fspath(output))))


def _shard(text):
    if text is None:
        return 0, 1
    parts = str(text).split("/")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):
        raise InputError('shard: "%s" is no part of a whole; write for example 0/4 … 3/4, or 1/4 … 4/4' % text)
    return int(parts[0]), int(parts[1])
