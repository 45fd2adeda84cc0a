"""The program inside this process: arguments are packed, answers unpacked, exit codes become exceptions."""
import contextlib
import json
import os
import tempfile

from ._errors import InputError, LimitReached, NoPlanFits
from ._graph import Graph

OK, BUG, INPUT, NO_PLAN, LIMIT = range(5)


def core():
    """The compiled module."""
    try:
        from . import _core
    except ImportError as error:
        raise ImportError("nest._core, the compiled part of nest, is not there (%s): build it with `make python` and put build/python on "
                          "PYTHONPATH, or `pip install --no-build-isolation .`; tracing works without it" % error) from error
    return _core


def run(arguments, expected=(OK,)):
    """Standard output of the program; raises what its other exit codes mean."""
    code, out, err = core().run([str(argument) for argument in arguments])
    if code in expected:
        return out
    message = err.strip()
    if message.startswith("nest: "):
        message = message[len("nest: "):]
    message = message.split("\nTry `nest")[0]
    if code == INPUT:
        raise InputError(message)
    if code == NO_PLAN:
        raise NoPlanFits(out.strip() or message)
    if code == LIMIT:
        raise LimitReached(message)
    raise RuntimeError(message)


class Folder:
    """Files for the program: what is given in memory is written beside each other and forgotten afterwards."""

    def __init__(self, path):
        self.path = path

    def write(self, name, text):
        path = os.path.join(self.path, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return file.read()

    def place(self, name):
        return os.path.join(self.path, name)

    def model(self, model):
        """What --model takes: a name, a path, or the file of a graph or a configuration."""
        if isinstance(model, (str, os.PathLike)):
            return os.fspath(model)
        if isinstance(model, Graph):
            return self.write("graph.json", model.to_json())
        if isinstance(model, dict):
            return self.write("graph.json" if model.get("schema") == "nest.graph/1" else "config.json", json.dumps(model))
        if hasattr(model, "to_dict") and not hasattr(model, "forward"):  # a configuration of transformers
            return self.write("config.json", json.dumps(model.to_dict()))
        if hasattr(model, "forward"):
            raise InputError("model: a module has to be traced first: nest.plan(nest.trace(module, example_inputs), ...)")
        raise InputError("model: %s; give a name, a path, a configuration (a dictionary) or a Graph" % type(model).__name__)

    def document(self, value, what, name):
        """What --cluster and --profile take: a name or path, or a dictionary."""
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        if isinstance(value, dict):
            return self.write(name, json.dumps(value))
        raise InputError("%s: %s; give a name, a path or a dictionary" % (what, type(value).__name__))


@contextlib.contextmanager
def folder():
    """A folder whose name does not appear in messages."""
    with tempfile.TemporaryDirectory(prefix="nest-") as path:
        try:
            yield Folder(path)
        except (InputError, NoPlanFits, LimitReached) as error:
            if path in str(error):
                error.args = (str(error).replace(path + os.sep, ""),)
            raise


def options(**given):
    """--name value for everything that is given: True is a flag, a list is given several times."""
    arguments = []
    for name, value in given.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(flag)
        elif isinstance(value, (list, tuple)):
            for item in value:
                arguments += [flag, item]
        else:
            arguments += [flag, value]
    return arguments


def settings(given):
    """--set of {"tp": 8, "zero": [0, 1], "sp": True} or of ["tp=8"]."""
    if given is None:
        return None
    if isinstance(given, str):
        return [given]
    if isinstance(given, dict):
        return ["%s=%s" % (key, _word(value)) for key, value in given.items()]
    return list(given)


def strategy(given):
    """--strategy of {"tp": 8, "pp": 4} or of "tp=8,pp=4"."""
    if given is None or isinstance(given, str):
        return given
    known = {"micro_batch": "mbs", "virtual_stages": "vpp"}
    return ",".join("%s=%s" % (known.get(key, key), _word(value)) for key, value in dict(given).items())


def _word(value):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, range) and value.step == 1 and len(value) > 0:
        return "%d..%d" % (value.start, value.stop - 1)
    return ",".join(str(_word(item)) for item in value) if isinstance(value, (list, tuple, range)) else value
