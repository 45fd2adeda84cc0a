"""The compiled module: what Python gives becomes its questions and options."""
import json
import operator
import os
import reprlib

from ._errors import InputError
from ._graph import Graph

MOST_SECONDS = 1e9  # of a limit, as the command line has it
USUAL_DEVICES = 64  # planned for when nobody names a cluster or a number of devices


def core():
    """The compiled module."""
    try:
        from . import _core

        _core.require_main_interpreter()
    except ImportError as error:
        if "main interpreter" in str(error):
            raise
        raise ImportError("nest._core, the compiled part of nest, is not there (%s): build it with `make python` and put build/python on "
                          "PYTHONPATH, or `pip install --no-build-isolation .`; tracing works without it" % error) from error
    return _core


def file(path):
    """A name or a path, whatever its bytes are."""
    return core().Input(os.fsencode(path))


def json_text(given, what, indent=None):
    """A dictionary as JSON."""
    try:
        return json.dumps(given, indent=indent)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError("%s: cannot be written as JSON: %s" % (what, error)) from None


def model(given):
    """A name, a path, or the text of a graph or a configuration."""
    memory = core().Input.memory
    if isinstance(given, (str, os.PathLike)):
        return file(given)
    if isinstance(given, Graph):
        return memory("graph.json", json_text(given.data, "model"))
    if isinstance(given, dict):
        return memory("graph.json" if given.get("schema") == "nest.graph/1" else "config.json", json_text(given, "model"))
    if hasattr(given, "to_dict") and not hasattr(given, "forward"):  # a configuration of transformers
        return memory("config.json", json_text(given.to_dict(), "model"))
    if hasattr(given, "forward"):
        raise InputError("model: a module has to be traced first: nest.plan(nest.trace(module, example_inputs), ...)")
    raise InputError("model: %s; give a name, a path, a configuration (a dictionary) or a Graph" % type(given).__name__)


def document(given, what, name):
    """A name or path, or the text of a dictionary; nothing for None."""
    if given is None:
        return core().Input()
    if isinstance(given, (str, os.PathLike)):
        return file(given)
    if isinstance(given, dict):
        return core().Input.memory(name, json_text(given, what))
    raise InputError("%s: %s; give a name, a path or a dictionary" % (what, type(given).__name__))


def several(given):
    """A list of what is given: of one thing, of several, or of nothing."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def documents(given, what):
    """The same of documents; a dictionary is called by its name."""
    return [document(one, what, "%s.yaml" % (one.get("name", what) if isinstance(one, dict) else what)) for one in several(given)]


def number(name, value):
    """The value where it is a whole number that the option takes."""
    try:
        value = operator.index(value)
        core().require_number(name, value)
    except (TypeError, OverflowError):
        raise InputError("%s: %s is not a whole number that is allowed" % (name, _shown(value))) from None
    return value


def numbers(target, **given):
    """Sets those members that are given."""
    for name, value in given.items():
        if value is not None:
            setattr(target, name, number(name, value))


def words(filled, **given):
    for name, value in given.items():
        if value is not None:
            setattr(filled, name, utf8(name, value))


def utf8(name, value):
    """The value as text, where it is one: surrogates have no bytes, and what is too deep has no text."""
    try:
        text = str(value)
        text.encode()
    except RecursionError:
        raise InputError("%s: %s is no text" % (name, type(value).__name__)) from None
    except UnicodeEncodeError:
        raise InputError("%s: %s is no text that can be written as UTF-8" % (name, ascii(text))) from None
    return text


def seconds(target, time_limit):
    if time_limit is None:
        return
    if isinstance(time_limit, bool) or not isinstance(time_limit, (int, float)) or not 0 < time_limit <= MOST_SECONDS:
        raise InputError("time_limit: %s is not a positive number of seconds, at most 1e9" % _shown(time_limit))
    target.time_limit = float(time_limit)


def percent(target, **given):
    for name, value in given.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
            raise InputError("%s: %s is no number of percent in 0 … 100" % (name, _shown(value)))
        setattr(target, name, float(value))


def question(given_model, cluster, devices, global_batch, seq, encoder_seq, stack, precision, optimizer, profile, mtp_layers=None,
             routing=None, optimizer_offload=None, freeze=None, lora=None, oom_risk=None):
    asked = core().Question()
    if given_model is not None:
        asked.model = model(given_model)
    asked.cluster = document(cluster, "cluster", "cluster.yaml")
    asked.stack = document(stack, "stack", "stack.yaml")
    asked.profile = document(profile, "profile", "profile.json")
    numbers(asked, devices=devices, global_batch=global_batch, seq=seq, encoder_seq=encoder_seq, mtp_layers=mtp_layers,
            optimizer_offload=optimizer_offload)
    words(asked, precision=precision, optimizer=optimizer, routing=routing, lora=lora, oom_risk=oom_risk,
          freeze=",".join(freeze) if isinstance(freeze, (list, tuple)) else freeze)
    return asked


def demand(tokens, deadline, budget, price, objective):
    """What is to be met: numbers, or words such as "15T", "30d" and "1M"."""
    asked = core().Demand()
    for name, value in dict(tokens=tokens, deadline=deadline, budget=budget, price=price).items():
        if value is None:
            continue
        asked.set(name, _amount(name, value, "s" if name == "deadline" else ""))
    asked.set_aim("" if objective is None else utf8("objective", objective))
    return asked


def _amount(name, value, unit):
    """A text, or a number with its unit."""
    if isinstance(value, str):
        return utf8(name, value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError("%s: %s is neither a number nor a text" % (name, _shown(value)))
    try:
        return repr(float(value)) + unit
    except OverflowError:
        raise InputError("%s: %s is too large" % (name, _shown(value))) from None


def _shown(value):
    """How a value is told: cut, whatever it holds."""
    if isinstance(value, int) and value.bit_length() >= 256:
        return "a number of %d bits" % value.bit_length()
    return reprlib.repr(value)


def unit_word(name, value):
    """A text with its unit; numbers are seconds, or bytes per second."""
    return _amount(name, value, "B/s" if name == "checkpoint_bandwidth" else "s")


def settings(given):
    """["tp=8"] of {"tp": 8, "zero": [0, 1], "sp": True} or of ["tp=8"]."""
    if given is None:
        return []
    if isinstance(given, str):
        return [utf8("set", given)]
    if isinstance(given, dict):
        return ["%s=%s" % (utf8("set", key), utf8("set", _word(value))) for key, value in given.items()]
    if not isinstance(given, (list, tuple, set, frozenset)):
        raise InputError("set: %s; give a dictionary, a list or a text: {\"tp\": 8}, [\"tp=8\"]" % type(given).__name__)
    return [utf8("set", item) for item in given]


def strategy(given):
    """"tp=8,pp=4" of {"tp": 8, "pp": 4}."""
    if given is None or isinstance(given, str):
        return utf8("strategy", given or "")
    if not isinstance(given, dict):
        raise InputError("strategy: %s; give a text or a dictionary: \"tp=8,pp=4\", {\"tp\": 8, \"pp\": 4}" % type(given).__name__)
    known = {"micro_batch": "mbs", "virtual_stages": "vpp"}
    return ",".join("%s=%s" % (utf8("strategy", known.get(key, key)), utf8("strategy", _word(value))) for key, value in given.items())


def sizes(value, name="micro_batch"):
    return ",".join(utf8(name, item) for item in value) if isinstance(value, (list, tuple)) else utf8(name, value)


def _word(value):
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, range) and value.step == 1 and len(value) > 0:
        return "%d..%d" % (value.start, value.stop - 1)
    try:
        return ",".join(str(_word(item)) for item in value) if isinstance(value, (list, tuple, range)) else value
    except RecursionError:
        raise InputError("%s: is no value of a dimension" % type(value).__name__) from None
