"""Runs the built program."""
import json
import os
import subprocess

PROGRAM = os.environ["NEST_PROGRAM"]
SOURCE = os.environ["NEST_SOURCE"]


def run(*arguments, **more):
    """Exit code, standard output, standard error."""
    done = subprocess.run([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
                          stdin=subprocess.DEVNULL, **more)
    return done.returncode, done.stdout, done.stderr


def answer(*arguments):
    """The one JSON object that the program prints."""
    code, out, err = run(*arguments, "--json")
    try:
        return code, json.loads(out)
    except ValueError:
        raise AssertionError("%s: exit %d, no JSON: %r %r" % (arguments, code, out[:200], err[:200])) from None
