"""With --json a failure is one object on standard output; the exit code and the words on standard error stay."""
import os
import tempfile
import unittest

from program import SOURCE, answer, run

PLAN = os.path.join(SOURCE, "tests", "door", "first_edition", "llama3-8b-pytorch.json")


class Errors(unittest.TestCase):
    def failure(self, code, kind, *arguments):
        got, said = answer(*arguments)
        self.assertEqual(got, code, said)
        self.assertEqual(said["schema"], "nest.error/1")
        self.assertEqual((said["error"]["kind"], said["error"]["exit"]), (kind, code))
        words = run(*arguments)
        self.assertEqual(words[0], code)
        self.assertIn(said["error"]["message"].split(";")[0].split("\n")[0][:40].strip(), " ".join(words[2].split()))
        return said["error"]

    def test_usage(self):
        error = self.failure(2, "input", "plan", "--modle", "x")
        self.assertIn("--model", error["message"])
        self.assertIn("nest plan --help", error["hint"])
        self.failure(2, "input", "nonsense")
        self.failure(2, "input", "plan", "--devices", "many")

    def test_values(self):
        self.failure(2, "input", "plan", "--model", "no-such-model")
        self.failure(2, "input", "eval", "--model", "llama3-8b", "--devices", "8", "--strategy", "tp=3")

    def test_files_have_an_excerpt(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cluster.yaml")
            with open(path, "w") as file:
                file.write("device: h100\nlevels:\n  - {name: node, group: 8, bandwidth: fast}\n")
            error = self.failure(2, "input", "show", path)
            self.assertIn("bandwidth", error["message"])
            self.assertIn("fast", error["excerpt"])

    def test_limits(self):
        self.failure(4, "limit", "plan", "--model", "llama3-70b", "--devices", "512", "--time-limit", "0.0001")

    def test_no_plan_has_an_answer_of_its_own(self):
        code, said = answer("plan", "--model", "llama3-405b", "--devices", "8")
        self.assertEqual((code, said["schema"]), (3, "nest.no-plan/1"))

    def test_old_plan_files_open(self):
        code, said = answer("eval", PLAN)
        self.assertIn(code, (0, 3))
        self.assertEqual(said["schema"], "nest.plan/3")
        self.assertGreater(said["prediction"]["iteration_s"], 0)


if __name__ == "__main__":
    unittest.main()
