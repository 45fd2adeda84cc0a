"""The schemas are schemas, presets and outputs keep to them, and they refuse what the readers refuse."""
import copy
import glob
import json
import os
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

    def test_plan_files_of_all_editions(self):
        for file in glob.glob(os.path.join(SOURCE, "tests", "door", "first_edition", "*.json")):
            plan = load(file)
            self.assertEqual(plan["schema"], "nest.plan/1")
            self.assertEqual(complaints(plan), [], file)

    def test_answers(self):
        calls = [("show",), ("show", "models"), ("show", "devices"), ("show", "clusters"), ("show", "stacks"), ("show", "llama3-8b"),
                 ("show", "h100"), ("show", "dgx-h100"), ("schema",), ("completion", "bash"), ("plan", "--nonsense"),
                 ("plan", "--model", "llama3-8b", "--devices", "16", "--top", "2"), ("plan", "--model", "llama3-405b", "--devices", "8"),
                 ("eval", "--model", "deepseek-v3", "--devices", "256", "--strategy", "ep=32,pp=8,tp=1", "--tokens", "1T", "--price", "2"),
                 ("compare", "--model", "llama3-8b", "--devices", "8", "--planners", "nest,manual")]
        for call in calls:
            self.assertEqual(complaints(answer(*call)[1]), [], call)

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
