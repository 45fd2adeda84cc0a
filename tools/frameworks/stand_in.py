"""Stands in for modules that are not installed (torch, triton …), so that a framework's own parsers can be imported without them.

Whatever is asked of such a module is a class that can be called, subclassed and used as a decorator, and does nothing.
"""
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
import typing


class _Meta(type(typing.Protocol)):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Meta(name, (Anything,), {"__module__": cls.__module__})
        setattr(cls, name, made)
        return made

    def __call__(cls, *args, **kwargs):
        if cls in _Meta.made:
            return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Anything.__new__(cls)
        return super().__call__(*args, **kwargs)

    made = set()  # by nobody's class statement: what was asked of a module

    def __new__(mcs, name, bases, space):
        cls = super().__new__(mcs, name, bases, space)
        if "__qualname__" not in space:
            mcs.made.add(cls)
        return cls

    def __or__(cls, other):
        return cls

    def __ror__(cls, other):
        return cls

    def __getitem__(cls, item):
        return cls

    def __iter__(cls):
        return iter(())

    def __mul__(cls, other):
        return 1

    def __lt__(cls, other):
        return False

    __rmul__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__
    __gt__ = __le__ = __ge__ = __lt__


class Anything(metaclass=_Meta):
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(type(self), name)

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Operator:
    """What torch.library.custom_op makes: a function that others are registered with."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __getattr__(self, name):
        return lambda *args, **kwargs: args[0] if args and callable(args[0]) else (lambda function: function)


def custom_op(*args, **kwargs):
    return Operator


class _Module(types.ModuleType):
    def __getattr__(self, name):
        if name == "__version__":
            return "2.9.0"
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Meta(name, (Anything,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = _Module(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


def _packaging():
    """packaging, where it is not installed: versions that compare."""
    import re
    package, module = types.ModuleType("packaging"), types.ModuleType("packaging.version")

    class Version:
        def __init__(self, text):
            self.key = tuple(int(part) for part in re.findall(r"\d+", str(text))[:3])
            self.major, self.minor, self.micro = (self.key + (0, 0, 0))[:3]
            self.release = self.key

        __lt__ = lambda self, other: self.key < other.key
        __le__ = lambda self, other: self.key <= other.key
        __gt__ = lambda self, other: self.key > other.key
        __ge__ = lambda self, other: self.key >= other.key
        __eq__ = lambda self, other: self.key == other.key
        __hash__ = lambda self: hash(self.key)

    module.Version, module.parse, package.version, package.__path__ = Version, Version, module, []
    sys.modules["packaging"], sys.modules["packaging.version"] = package, module


def install(*names):
    """From here on modules of these names can be imported."""
    if not hasattr(typing, "override"):  # Python 3.12
        typing.override = lambda function: function
    try:
        import packaging.version  # noqa: F401
    except ImportError:
        _packaging()
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: "2.9.0" if name in names else version(name)
    sys.meta_path.append(Finder(set(names)))
