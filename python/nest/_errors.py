"""The exceptions of the package. Their text is what the command line prints."""


class InputError(ValueError):
    """Something that was given cannot be used: the message names it, the value seen and what is allowed."""


class NoPlanFits(RuntimeError):
    """No plan fits in memory, proven: the message says what binds, by how much, and what would make it fit."""


class LimitReached(RuntimeError):
    """The time limit, or Ctrl-C, came before any plan was found."""


class TraceError(InputError):
    """A module cannot be traced: the message names the module, the operator and what to do."""


def suggest(word, known, most=3):
    """' Did you mean x?' for a word that is close to known ones, else ''."""
    import difflib

    close = difflib.get_close_matches(word, list(known), most)
    return " Did you mean %s?" % " or ".join(close) if close else ""
