"""python -m nest.trace config.json -o graph.json: the model of a configuration as a graph that nest plans.

The model is built by the transformers that is installed, on meta tensors: no weights, no GPU. `nest.trace(module, inputs)` is the
function of the same name for modules in memory.
"""
import argparse
import sys
import types

from ._errors import InputError


class _Module(types.ModuleType):
    """Importing nest.trace as a module leaves nest.trace(…) what it was."""

    def __call__(self, *args, **kwargs):
        from ._trace import trace

        return trace(*args, **kwargs)


if __name__ != "__main__":
    sys.modules[__name__].__class__ = _Module


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m nest.trace", description="Traces the model that a Hugging Face configuration describes.")
    parser.add_argument("config", help="config.json, or the folder that holds it")
    parser.add_argument("-o", "--output", required=True, help="the graph to write")
    parser.add_argument("--seq", type=int, help="tokens of a sequence to trace with")
    parser.add_argument("--batch", type=int, default=1, help="sequences to trace with")
    parser.add_argument("--kind", help="causal, seq2seq, masked or image-text, where the file leaves it open")
    parser.add_argument("--name", help="what to call the model")
    parser.add_argument("--attention", help="transformers' attn_implementation: sdpa or eager")
    parser.add_argument("--trust-remote-code", action="store_true", help="run the model's own Python files beside config.json")
    args = parser.parse_args(arguments)
    for option in ("seq", "batch"):
        value = getattr(args, option)
        if value is not None and value < 1:
            parser.error("--%s: %d; 1 or more" % (option, value))
    try:
        from ._from_config import from_config

        graph = from_config(args.config, seq=args.seq, batch=args.batch, kind=args.kind, name=args.name, attention=args.attention,
                            trust_remote_code=args.trust_remote_code)
        graph.save(args.output)
    except ImportError as error:
        print("nest.trace: %s; tracing needs PyTorch" % error, file=sys.stderr)
        return 2
    except (InputError, OSError) as error:
        print("nest.trace: %s" % error, file=sys.stderr)
        return 2
    print("%s -> %s" % (graph, args.output), file=sys.stderr)
    for warning in graph.warnings:
        print("note: %s" % warning, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
