"""The schemas are schemas, presets and outputs keep to them, and they refuse what the readers refuse."""
import copy
import glob
import json
import os
import tempfile
import unittest
import warnings

import jsonschema
import yaml

from program import SOURCE, answer, run

FOLDER = os.path.join(SOURCE, "data", "schemas") + os.sep


def load(path):
    with open(path) as file:
        return json.load(file) if path.endswith(".json") else yaml.safe_load(file)


SCHEMAS = {os.path.basename(path): load(path) for path in glob.glob(FOLDER + "*.schema.json")}


def validator(name):
    """Of the schema called `name`; references are to files beside it."""
    file = name + ".schema.json"
    if file not in SCHEMAS:
        raise AssertionError("there is no data/schemas/%s for an output of this kind" % file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resolver = jsonschema.RefResolver("file://" + FOLDER + file, SCHEMAS[file],
                                          store={"file://" + FOLDER + other: text for other, text in SCHEMAS.items()})
        return jsonschema.Draft202012Validator(SCHEMAS[file], resolver=resolver)


def complaints(document, name=None):
    name = name or document["schema"][len("nest."):].split("/")[0]
    return ["%s: %s (data/schemas/%s.schema.json)" % ("/".join(map(str, e.absolute_path)), e.message[:300], name)
            for e in validator(name).iter_errors(document)]


class Schemas(unittest.TestCase):
    def test_are_schemas_and_ship(self):
        code, listed = answer("schema")
        self.assertEqual(code, 0)
        self.assertEqual(sorted(entry["name"] + ".schema.json" for entry in listed["schemas"]), sorted(SCHEMAS))
        for file, schema in SCHEMAS.items():
            jsonschema.Draft202012Validator.check_schema(schema)
        code, out, _ = run("schema", "plan")
        self.assertEqual((code, json.loads(out)), (0, SCHEMAS["plan.schema.json"]))
        self.assertEqual(run("schema", "plam")[0], 2)

    def test_presets(self):
        for kind in ("cluster", "device", "stack"):
            files = glob.glob(os.path.join(SOURCE, "data", kind + "s", "*.yaml"))
            self.assertGreater(len(files), 5)
            for file in files:
                self.assertEqual(complaints(load(file), kind), [], file)

    def test_studies(self):
        good = load(os.path.join(SOURCE, "examples", "study.yaml"))
        self.assertEqual(complaints(good, "study"), [])
        axes = {"devices": {"from": 8, "to": 64, "times": 2}, "cluster.node.bandwidth": ["450GB/s", "900GB/s"], "set.tp": [1, "1..8"], "memory": "141GiB"}
        self.assertEqual(complaints({"model": "llama3-8b", "axes": axes, "zip": ["devices"], "where": ["devices > 8"]}, "study"), [])
        for wrong in ({}, {"axes": {}}, {"axes": {"devises": [8]}}, {"axes": {"devices": [0]}}, {"axes": {"devices": []}}, {"axes": {"judge": ["luck"]}},
                      {"axes": {"devices": {"from": 8, "to": 64}}}, {"axes": {"devices": [8]}, "study": "sqlite_x"}, {"axes": {"devices": [8]}, "price": -1},
                      {"axes": {"devices": [8]}, "devices": [8, 16]}, {"axes": {"tie": [101]}}, {"axes": {"devices": [8]}, "colour": "red"}):
            self.assertNotEqual(complaints(wrong, "study"), [], wrong)
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                json.dump(wrong, file)
                file.flush()
                code, _, said = run("sweep", file.name, "--db", file.name + ".sqlite")
                self.assertEqual(code, 2, (wrong, said))

    def test_plan_files_of_all_editions(self):
        for file in glob.glob(os.path.join(SOURCE, "tests", "door", "first_edition", "*.json")):
            plan = load(file)
            self.assertEqual(plan["schema"], "nest.plan/1")
            self.assertEqual(complaints(plan), [], file)

    def test_answers(self):
        calls = [("show",), ("show", "models"), ("show", "devices"), ("show", "clusters"), ("show", "stacks"), ("show", "llama3-8b"),
                 ("show", "h100"), ("show", "dgx-h100"), ("schema",), ("completion", "bash"), ("man",), ("man", "plan"), ("plan", "--nonsense"),
                 ("plan", "--model", "llama3-8b", "--devices", "16", "--top", "2", "--sensitivity", "--judge", "formula"), ("plan", "--model", "llama3-405b", "--devices", "8"),
                 ("plan", "--model", "llama3-8b", "--devices", "16", "--deadline", "400d", "--tokens", "1T", "--price", "2"),
                 ("plan", "--model", "llama3-8b", "--devices", "8", "--budget", "1K", "--tokens", "1T", "--price", "2"),
                 ("plan", "--model", "llama3-8b", "--devices", "8", "--largest", "layers", "--judge", "formula"),
                 ("plan", "--model", "llama3-405b", "--devices", "8", "--largest", "batch", "--offload", "never"),
                 ("eval", "--model", "deepseek-v3", "--devices", "256", "--strategy", "ep=32,pp=8,tp=1", "--tokens", "1T", "--price", "2"),
                 ("compare", "--model", "llama3-8b", "--devices", "8", "--planners", "nest,manual"),
                 ("compare", "--model", "llama3-8b", "--devices", "8,12,16", "--strategy", "best", "--strategy", "tp=8", "--strategy", "dp=8")]
        for call in calls:
            self.assertEqual(complaints(answer(*call)[1]), [], call)

    def test_answers_about_a_plan_and_files(self):
        def here(*path):
            return os.path.join(SOURCE, *path)

        with tempfile.TemporaryDirectory() as folder:
            plan = os.path.join(folder, "plan.json")
            self.assertEqual(run("plan", "--model", "llama3-8b", "--devices", "16", "--no-why", "-o", plan)[0], 0)
            self.assertEqual(complaints(load(plan), "plan"), [])
            study, first = here("tools", "dist", "study.yaml"), os.path.join(folder, "a.sqlite")
            calls = {"check": ("check", plan), "simulation": ("simulate", plan), "export": ("export", plan, "--to", "megatron"),
                     "calibration": ("calibrate", here("data", "measurements", "h200.json"), "--device", "h200"),
                     "import": ("import", here("examples", "topology.conf"), "--device", "h100", "--devices-per-node", "8",
                                "--bandwidth", "leaf=400Gbps", "--bandwidth", "spine=400Gbps"),
                     "why": ("eval", "--from", here("examples", "train.sh")), "sweep": ("sweep", study, "--db", first)}
            for name, call in calls.items():
                code, said = answer(*call)
                self.assertEqual((code, said["schema"].split("/")[0]), (0, "nest." + name), (call, said.get("error")))
                self.assertEqual(complaints(said), [], call)
            traces = os.path.join(folder, "traces")
            self.assertEqual(run("export", plan, "--to", "chakra", "-o", traces, "--ranks", "0,1")[0], 0)
            ranks = json.loads(run("export", plan, "--to", "rankfile", "--format", "json")[1])
            for document, name in ((load(os.path.join(traces, "ranks.json")), "chakra"), (ranks, "ranks"),
                                   (load(here("data", "measurements", "h200.json")), "measurements")):
                self.assertEqual((document["schema"], complaints(document)), ("nest.%s/1" % name, []))

    def test_plan_files_of_older_editions_open(self):
        with tempfile.TemporaryDirectory() as folder:
            second = answer("eval", "--model", "llama3-8b", "--devices", "16", "--strategy", "tp=2,pp=2")[1]
            second["schema"] = "nest.plan/2"  # without experts the editions say the same, but for this
            del second["strategy"]["edp"]
            path = os.path.join(folder, "second.json")
            with open(path, "w") as file:
                json.dump(second, file)
            for file in [path] + glob.glob(os.path.join(SOURCE, "tests", "door", "first_edition", "*.json")):
                calls = [("eval", file), ("check", file), ("simulate", file)]
                if "torus" not in file:  # which has no hosts
                    calls.append(("export", file, "--to", "rankfile"))
                for call in calls:
                    code, out, err = run(*call)
                    self.assertIn(code, (0, 3), (call, err))
                    self.assertTrue(out, call)

    def test_every_output_of_the_programs_tests(self):
        folder = os.environ.get("NEST_JSON_OUTPUTS", "")
        files = glob.glob(os.path.join(folder, "*.json"))
        if not files:
            self.skipTest("the tests of the program have not run: no outputs in " + folder)
        for file in files:
            self.assertEqual(complaints(load(file)), [], file)

    def test_refuse_what_the_readers_refuse(self):
        plan = answer("eval", "--model", "llama3-8b", "--devices", "16", "--strategy", "tp=2,pp=2")[1]
        self.assertEqual(complaints(plan), [])

        def changed(*path, **given):
            other = copy.deepcopy(plan)
            place = other
            for key in path:
                place = place[key]
            place.update(given)
            return other

        for wrong in (changed(strategy=None), changed(nonsense=1), changed("strategy", tp=0), changed("strategy", schedule="zigzag"),
                      changed("run", precision="bf17"), changed("stages", 0, layers=[0]), changed("cluster", "description", levels=[]),
                      changed("stack", attention="none at all"), changed("prediction", iteration_s=-1), changed(schema="nest.plan/9")):
            self.assertNotEqual(complaints(wrong, "plan"), [])


if __name__ == "__main__":
    unittest.main()
