"""Fields of dataclasses and parameters of functions, with their annotations, from sources that are read and not imported."""
import ast
import os
import types
import typing

MOST_BASES = 20  # classes above a class


class Sources:
    """Modules below several folders."""

    def __init__(self, *roots):
        self.roots, self.trees, self.packages = roots, {}, set()

    def tree(self, module):
        if module not in self.trees:
            self.trees[module] = None
            for root in self.roots:
                path = os.path.join(root, *module.split("."))
                for file in (path + ".py", os.path.join(path, "__init__.py")):
                    if os.path.isfile(file) and self.trees[module] is None:
                        with open(file) as text:
                            self.trees[module] = ast.parse(text.read())
                        if file.endswith("__init__.py"):
                            self.packages.add(module)
        return self.trees[module]

    def find(self, module, name, depth=0):
        """The module and statement of a class or function that is known there by this name; (None, None) where there is none."""
        tree = self.tree(module)
        if tree is None or depth > MOST_BASES:
            return None, None
        for node in ast.walk(tree):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                return module, node
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    parts = module.split(".") + ([""] if module in self.packages else [])
                    folder = parts[:-node.level] if node.level else []
                    return self.find(".".join(folder + ([node.module] if node.module else [])), alias.name, depth + 1)
        return None, None

    def fields(self, module, name, depth=0):
        """Annotations of a class's fields by name, those of its bases too."""
        where, node = self.find(module, name)
        if node is None or depth > MOST_BASES:
            return {}
        found = {}
        for base in reversed(node.bases):
            if isinstance(base, ast.Name):
                found.update(self.fields(where, base.id, depth + 1))
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = annotation(statement.annotation)
        return found

    def parameters(self, module, name):
        """Annotations of what a class is made of: the parameters of its __init__."""
        _, node = self.find(module, name)
        for statement in node.body if node else []:
            if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
                every = statement.args.args[1:] + statement.args.kwonlyargs
                return {each.arg: annotation(each.annotation) if each.annotation else typing.Any for each in every}
        return {}


class _Named(type):
    def __getattr__(cls, name):
        return cls


class Unknown(metaclass=_Named):
    """A class that annotations name and that is not loaded here, with all that it has."""


class _Names(dict):
    def __missing__(self, name):
        return Unknown


def annotation(node):
    """A type; classes of the frameworks are Unknown."""
    names = _Names({key: getattr(typing, key) for key in typing.__all__})
    names.update({each.__name__: each for each in (int, float, str, bool, list, dict, tuple)})
    text = ast.unparse(node)
    try:
        return eval(text, {"__builtins__": {}}, names)  # of a framework's own source, with nothing in reach
    except Exception:  # torch.dtype and the like
        return Unknown


def conforms(value, kind):
    """Whether a value is of an annotated type. Functions are told by name; of an unknown class nothing is."""
    if kind is typing.Any:
        return True
    if kind is None or kind is type(None):
        return value is None
    origin, inside = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, each) for each in inside)
    if origin is typing.Literal:
        return value in inside
    if origin is list or kind is list:
        return isinstance(value, list) and all(conforms(each, inside[0]) for each in value if inside)
    if origin is dict or kind is dict:
        return isinstance(value, dict)
    if kind is typing.Callable or origin is not None and "Callable" in str(kind):
        return isinstance(value, str)
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else False


def hydra_value(text):
    """A value as Hydra's grammar has it: null, switches, numbers, words, quoted words, lists, dictionaries."""
    value, rest = _hydra(text)
    if rest:
        raise ValueError("what follows a value: %s" % rest)
    return value


def _hydra(text):
    if text[:1] == "[":
        return _several(text[1:], "]", [])
    if text[:1] == "{":
        return _several(text[1:], "}", {})
    if text[:1] in "'\"" and text:
        end = text.index(text[0], 1)
        return text[1:end], text[end + 1:]
    end = next((i for i, c in enumerate(text) if c in ",]}"), len(text))
    word, rest = text[:end], text[end:]
    if word in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[word], rest
    for number in (int, float):
        try:
            return number(word), rest
        except ValueError:
            pass
    return word, rest


def _several(text, close, made):
    while text[:1] != close:
        if not text:
            raise ValueError("no " + close)
        if isinstance(made, dict):
            key, _, text = text.partition(":")
            made[key], text = _hydra(text)
        else:
            value, text = _hydra(text)
            made.append(value)
        text = text[1:] if text[:1] == "," else text
    return made, text[1:]
