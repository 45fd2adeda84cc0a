"""Profiles: what is asked for, measured on the CPU, and used by the planner."""
import contextlib
import io
import json
import os
import tempfile
import unittest

import models
import nest
import torch
from nest import profile

torch.backends.mkldnn.enabled = False  # its bf16 kernels need instructions that not every machine has

TINY = dict(model_type="llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=256, tie_word_embeddings=False)
BLOCK = 64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64


def quiet(arguments):
    err = io.StringIO()
    with contextlib.redirect_stderr(err):
        return profile.main(arguments), err.getvalue()


class Measuring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.config = os.path.join(cls.folder.name, "tiny.json")
        with open(cls.config, "w") as file:
            json.dump(TINY, file)
        cls.path = os.path.join(cls.folder.name, "profile.json")
        cls.code, cls.err = quiet(["--model", cls.config, "--seq", "32", "--tp", "1,2", "--micro-batch", "1,2", "--device", "cpu",
                                   "--device-name", "h100", "-o", cls.path])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def read(self):
        with open(self.path) as file:
            return json.load(file)

    def test_a_profile_is_measured(self):
        self.assertEqual(self.code, 0, self.err)
        found = self.read()
        self.assertEqual((found["schema"], found["device"], found["stack"]), ("nest.profile/1", "h100", "pytorch"))
        self.assertEqual([(l["layer"], l["micro_batch"], l["parameters"]) for l in found["layers"]], [("block", 1, BLOCK), ("block", 2, BLOCK)])
        self.assertTrue(all(l["forward_s"] > 0 and l["backward_s"] > 0 and l["saved_bytes"] > 0 for l in found["layers"]))
        shapes = {(o["m"], o["n"], o["k"]) for o in found["operators"] if o["operator"] == "matmul"}
        self.assertIn((32, 256, 64), shapes)  # gate and up of one sequence
        self.assertIn((32, 128, 64), shapes)  # half of them
        self.assertIn("left out: layer embedding", self.err)

    def test_the_planner_takes_it(self):
        plain = nest.evaluate(self.config, "tp=1", devices=1, global_batch=1, seq=32, stack="pytorch")
        ours = nest.evaluate(self.config, "tp=1", devices=1, global_batch=1, seq=32, stack="pytorch", profile=self.path)
        block = self.read()["layers"][0]
        self.assertNotEqual(ours.prediction.iteration_s, plain.prediction.iteration_s)
        self.assertGreaterEqual(ours.prediction.iteration_s, 2 * (block["forward_s"] + block["backward_s"]))

    def test_a_plan_remembers_what_it_was_priced_with(self):
        plan = nest.plan(self.config, devices=1, global_batch=1, seq=32, stack="pytorch", profile=self.path)
        self.assertEqual(nest.evaluate(plan).prediction, plan.prediction)
        self.assertEqual(nest.evaluate(plan.to_dict(), profile=self.path).prediction, plan.prediction)
        self.assertEqual(nest.evaluate(plan.to_dict()).prediction, plan.prediction)
        self.assertEqual(plan.profile["layers"], self.read()["layers"])
        self.assertNotEqual(nest.evaluate(dict(plan.to_dict(), profile=None)).prediction, plan.prediction)
        self.assertTrue(nest.check(plan).sound)

    def test_others_are_refused(self):
        found = self.read()
        job = dict(devices=1, global_batch=1, seq=32)

        def refused(text, changed, **options):
            with self.assertRaises(nest.InputError) as caught:
                nest.evaluate(self.config, "tp=1", profile=changed, **{**job, "stack": "pytorch", **options})
            self.assertIn(text, str(caught.exception))

        refused("profile.json: device: measured on a100-80, but this run uses h100", dict(found, device="a100-80"))
        refused("profile.json: stack: measured on pytorch, but this run uses megatron-core", found, stack="megatron-core")
        stale = json.loads(json.dumps(found))
        stale["layers"][0]["parameters"] += 1
        refused("was measured with %d parameters; here it has %d. Measure again" % (BLOCK + 1, BLOCK), stale)

    def test_the_work_can_be_done_elsewhere(self):
        work, there = (os.path.join(self.folder.name, name) for name in ("work.json", "there.json"))
        self.assertEqual(quiet(["--model", self.config, "--seq", "32", "--tp", "1,2", "--micro-batch", "1,2", "--list", work])[0], 0)
        self.assertEqual(quiet(["--work", work, "--device", "cpu", "--device-name", "h100", "-o", there])[0], 0)
        names = lambda found: [{k: v for k, v in o.items() if not k.endswith("_s")} for o in found["operators"]]
        with open(there) as file:
            self.assertEqual(names(json.load(file)), names(self.read()))

    def test_bad_work_is_refused(self):
        self.assertEqual(quiet(["--work", self.config, "-o", self.path + "x"]), (2, 'nest.profile: %s: schema: None; this version reads nest.profile-work/1\n' % self.config))
        code, err = quiet(["--model", "lama3-8b", "-o", self.path + "x"])
        self.assertEqual(code, 2)
        self.assertIn("did you mean", err)


class Modules(unittest.TestCase):
    def test_layers_of_a_module_of_ones_own(self):
        module = models.Llama(256, 64, 2, 4, 2, 128)
        graph = nest.trace(module, torch.zeros(2, 32, dtype=torch.long), name="mine")
        found = profile.measure_module(module, torch.zeros(2, 32, dtype=torch.long), {"block": "layers.0"}, name="mine", sequence=32,
                                       device="cpu", device_name="h100")
        self.assertEqual(found["layers"][0]["parameters"], BLOCK)
        self.assertIn("block", [layer.name for layer in nest.show(graph).layers])
        plan = nest.evaluate(graph, "mbs=2", devices=1, global_batch=2, seq=32, stack="pytorch", profile=found)
        self.assertGreaterEqual(plan.prediction.iteration_s, 2 * (found["layers"][0]["forward_s"] + found["layers"][0]["backward_s"]))


if __name__ == "__main__":
    unittest.main()
