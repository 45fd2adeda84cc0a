"""nest.from_config: a config.json, built with the user's transformers on meta tensors, and traced."""
import copy
import json
import os

import torch

from ._errors import InputError, TraceError
from ._trace import meta, trace

# Which of transformers' classes builds what: tried in this order where the file names no architecture.
KINDS = {"causal": "AutoModelForCausalLM", "seq2seq": "AutoModelForSeq2SeqLM", "masked": "AutoModelForMaskedLM",
         "image-text": "AutoModelForImageTextToText"}
USUAL_SEQUENCE = 2048


def from_config(config, *, seq=None, batch=1, kind=None, name=None, dtype="auto", attention=None, trust_remote_code=False):
    """Builds the model that a configuration describes, without weights, and traces it: a Graph.

    config   a path to config.json or to its folder, a dictionary, or a configuration object of transformers
    seq      tokens of a sequence to trace with; the model's longest, at most 2,048, where left out
    batch    sequences to trace with
    kind     "causal", "seq2seq", "masked" or "image-text" where the file leaves it open
    attention   transformers' attn_implementation: "sdpa", "eager"; None: the model's own choice
    trust_remote_code   run the model's own Python files that lie beside config.json

    Models of text and pictures are traced with text alone; the graph's warnings say which parameters that leaves out.
    """
    transformers = _transformers()
    if kind is not None and kind not in KINDS:
        raise InputError("kind: %r; one of %s" % (kind, ", ".join(KINDS)))
    config, source = _configuration(transformers, config, trust_remote_code)
    config = copy.deepcopy(config)
    if attention is not None:
        config._attn_implementation = attention
    model = _build(transformers, config, kind, trust_remote_code)
    if hasattr(model, "config"):
        model.config.pad_token_id = None  # else encoders look for padding among tokens, which a trace does not have
    tokens = torch.zeros(batch, seq or _usual_sequence(config), dtype=torch.long)
    inputs = {"input_ids": tokens}
    if getattr(config, "is_encoder_decoder", False) and not getattr(config, "is_decoder", False):
        inputs["decoder_input_ids"] = tokens
    return trace(model, inputs, name=name or source or getattr(config, "model_type", None), dtype=dtype)


def _transformers():
    try:
        import transformers
    except ImportError as error:
        raise InputError("transformers is not installed (%s); install the version that the model is trained with" % error) from error
    return transformers


def _configuration(transformers, given, trust_remote_code):
    """The configuration object, and what to call the model."""
    if isinstance(given, dict):
        return _from_dictionary(transformers, dict(given), "config"), None
    if not isinstance(given, (str, os.PathLike)):
        return given, None
    path = os.fspath(given)
    path = os.path.join(path, "config.json") if os.path.isdir(path) else path
    folder = os.path.dirname(os.path.abspath(path))
    name = os.path.basename(folder) if os.path.basename(path) == "config.json" else os.path.splitext(os.path.basename(path))[0]
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise InputError("%s: %s" % (path, error)) from error
    if not isinstance(data, dict):
        raise InputError("%s: expected an object" % path)
    if trust_remote_code and data.get("auto_map"):
        return transformers.AutoConfig.from_pretrained(folder, trust_remote_code=True), name
    return _from_dictionary(transformers, data, path), name


def _from_dictionary(transformers, data, path):
    model_type = data.pop("model_type", None)
    if not isinstance(model_type, str):
        raise InputError("%s: model_type: missing" % path)
    try:
        return transformers.AutoConfig.for_model(model_type, **data)
    except (ValueError, KeyError) as error:
        raise InputError("%s: model_type: %r is unknown to transformers %s; a newer one may know it, or trust_remote_code=True where "
                         "the model brings its own code" % (path, model_type, transformers.__version__)) from error


def _build(transformers, config, kind, trust_remote_code):
    named = [getattr(transformers, each, None) for each in getattr(config, "architectures", None) or []]
    builders = [each for each in named if each is not None] if kind is None else []
    wanted = [kind] if kind else list(KINDS)
    if kind is None and getattr(config, "is_encoder_decoder", False) and not getattr(config, "is_decoder", False):
        wanted = ["seq2seq"] + [each for each in wanted if each != "seq2seq"]
    refused = []
    with meta():
        for builder in builders:
            return builder(config)
        for each in wanted:
            auto = getattr(transformers, KINDS[each], None)
            if auto is None:
                continue
            try:
                return auto.from_config(config, trust_remote_code=trust_remote_code)
            except ValueError as error:  # transformers' word for "not for this configuration"
                refused.append("%s: %s" % (each, str(error).split("\n")[0][:120]))
    raise TraceError("transformers builds no model of this configuration: %s" % "; ".join(refused))


def _usual_sequence(config):
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    longest = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or USUAL_SEQUENCE
    return min(int(longest), USUAL_SEQUENCE) if isinstance(longest, int) and longest > 0 else USUAL_SEQUENCE
