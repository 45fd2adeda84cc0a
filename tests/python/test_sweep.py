"""nest.sweep: the same table as the command line, objects instead of rows."""
import json
import os
import subprocess
import tempfile
import unittest

import nest

try:
    from nest import _core
except ImportError as error:
    raise unittest.SkipTest("nest._core is not built: %s" % error)

PROGRAM = os.environ.get("NEST_PROGRAM")
STUDY = {"study": "pairs", "model": "llama3.2-1b", "seq": 2048, "axes": {"devices": [8, 12, 16], "price": [2, 3]}, "global_batch": 16}


class Sweeps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        try:
            self.sweep = nest.sweep(STUDY, self.file("a.sqlite"), csv=self.file("a.csv"), html=self.file("a.html"), jsonl=self.file("a.jsonl"))
        except nest.InputError as error:
            if "without SQLite" in str(error):
                self.skipTest(str(error))
            raise

    def file(self, name):
        return os.path.join(self.folder.name, name)

    def test_points_are_objects_and_have_plans(self):
        self.assertTrue(self.sweep.complete)
        self.assertEqual(len(self.sweep), 6)
        self.assertEqual(self.sweep.axes, {"devices": [8, 12, 16], "price": [2, 3]})
        first = self.sweep.points[0]
        self.assertEqual((first.devices, first.price, first.outcome), (8, 2, "plan"))
        plan = self.sweep.plan(first)
        self.assertEqual(plan.expected.iteration_s, first.step_s)
        self.assertTrue(nest.check(plan).sound)
        self.assertEqual(self.sweep.points[2].outcome, "refused")
        self.assertIsNone(self.sweep.plan(2))
        # Who pays 2 an hour pays less than who pays 3.
        self.assertEqual({point.price for point in self.sweep.front}, {2})
        self.assertIn("6 of 6 points", repr(self.sweep))
        with open(self.file("a.csv")) as csv, open(self.file("a.html")) as page:
            self.assertEqual(csv.read(), self.sweep.to_csv())
            self.assertIn('id="p0"', page.read())

    def test_shards_merge(self):
        for shard in ("1/2", "2/2"):
            self.assertFalse(nest.sweep(STUDY, self.file(shard[0]), shard=shard).complete)
        merged = nest.merge_sweeps([self.file("1"), self.file("2")], self.file("all"))
        self.assertEqual((merged[0].study, merged[0].points, merged[0].points_of_study), ("pairs", 6, 6))
        again = nest.sweep(STUDY, self.file("all"), threads=1, jsonl=self.file("all.jsonl"))
        self.assertEqual(again.to_dict()["points"], self.sweep.to_dict()["points"])
        with open(self.file("all.jsonl")) as one, open(self.file("a.jsonl")) as other:
            self.assertEqual(one.read(), other.read())

    @unittest.skipUnless(PROGRAM, "NEST_PROGRAM names no program to compare with")
    def test_the_program_gives_the_same(self):
        with open(self.file("pairs.yaml"), "w") as file:
            json.dump(STUDY, file)
        done = subprocess.run([PROGRAM, "sweep", self.file("pairs.yaml"), "--db", self.file("a.sqlite"), "--json"], stdout=subprocess.PIPE,
                              universal_newlines=True)
        self.assertEqual(json.loads(done.stdout), self.sweep.to_dict())

    def test_what_is_wrong(self):
        for study, shard, wanted in ((dict(STUDY, axes={"divices": [8]}), None, "did you mean `devices`"), (STUDY, "3", "no part of a whole"),
                                     (dict(STUDY, seq=1024), None, "holds another study"), (7, None, "give a name, a path or a dictionary")):
            with self.assertRaises(nest.InputError) as caught:
                nest.sweep(study, self.file("a.sqlite"), shard=shard)
            self.assertIn(wanted, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
