"""python -m nest.trace: a configuration is built by transformers and traced. A stand-in for transformers serves here."""
import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest

import torch

import nest
import nest.trace
from nest import _from_config


class Tiny(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(config.hidden_size, config.hidden_size) for _ in range(config.num_hidden_layers))
        self.head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids):
        x = self.table(input_ids)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return {"logits": self.head(x)}


def stand_in():
    library = types.ModuleType("transformers")
    library.__version__ = "0"

    def for_model(model_type, **keys):
        if model_type != "tiny":
            raise ValueError(model_type)
        return types.SimpleNamespace(model_type=model_type, **keys)

    def refuse(config, **_):
        raise ValueError("Unrecognized configuration class")

    library.AutoConfig = types.SimpleNamespace(for_model=for_model)
    library.AutoModelForCausalLM = types.SimpleNamespace(from_config=refuse)
    library.AutoModelForMaskedLM = types.SimpleNamespace(from_config=lambda config, **_: Tiny(config))
    return library


CONFIG = {"model_type": "tiny", "vocab_size": 101, "hidden_size": 24, "num_hidden_layers": 3, "max_position_embeddings": 64}
PARAMETERS = 2 * 101 * 24 + 3 * (24 * 24 + 24)


class FromConfig(unittest.TestCase):
    def setUp(self):
        self.before = sys.modules.get("transformers")
        sys.modules["transformers"] = stand_in()
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "config.json")
        self.write(CONFIG)

    def tearDown(self):
        self.folder.cleanup()
        if self.before is None:
            del sys.modules["transformers"]
        else:
            sys.modules["transformers"] = self.before

    def write(self, config):
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(config, file)

    def run_main(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = nest.trace.main(list(arguments))
        return code, said.getvalue()

    def parameters(self, graph):
        return sum(torch.Size(weight["shape"]).numel() for weight in graph.data["weights"])

    def test_a_file_is_built_and_traced(self):
        graph = nest.from_config(self.path)
        self.assertEqual(self.parameters(graph), PARAMETERS)
        self.assertEqual(graph.data["sequence"], 64)
        self.assertEqual(graph.data["name"], os.path.basename(self.folder.name))

    def test_the_command_writes_the_graph(self):
        output = os.path.join(self.folder.name, "graph.json")
        code, said = self.run_main(self.path, "-o", output, "--seq", "16", "--name", "mine")
        self.assertEqual(code, 0, said)
        with open(output, encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual((written["schema"], written["name"], written["sequence"]), ("nest.graph/1", "mine", 16))

    def test_the_module_stays_the_function(self):
        with nest.meta():
            model = Tiny(types.SimpleNamespace(**CONFIG))
        self.assertEqual(self.parameters(nest.trace(model, torch.zeros(1, 8, dtype=torch.long))), PARAMETERS)

    def test_what_is_unknown_is_said(self):
        self.write(dict(CONFIG, model_type="huge"))
        code, said = self.run_main(self.path, "-o", "never.json")
        self.assertEqual(code, 2)
        self.assertIn("model_type: 'huge' is unknown to transformers 0", said)
        with self.assertRaisesRegex(nest.InputError, "kind: 'casual'; one of causal, seq2seq, masked, image-text"):
            nest.from_config(CONFIG, kind="casual")
        with self.assertRaisesRegex(nest.TraceError, "builds no model of this configuration: causal: Unrecognized"):
            nest.from_config(CONFIG, kind="causal")

    def test_every_kind_names_a_class(self):
        self.assertTrue(all(name.startswith("AutoModelFor") for name in _from_config.KINDS.values()))


if __name__ == "__main__":
    unittest.main()
