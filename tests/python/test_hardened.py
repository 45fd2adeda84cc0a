"""The package under signals, threads, forks and sub-interpreters, and with arguments of every wrong kind."""
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import nest

try:
    from nest import _core  # noqa: F401
except ImportError as error:
    raise unittest.SkipTest("nest._core is not built: %s" % error)

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    interpreters = None

PATHS = "import sys; sys.path[:0] = %r\n" % [path for path in sys.path if path]


def small(**changes):
    return nest.plan("llama3-8b", devices=16, global_batch=64, judge="formula", **changes)


def python(code, timeout=60):
    return subprocess.run([sys.executable, "-c", PATHS + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                          timeout=timeout)


class Exceptions(unittest.TestCase):
    """Whatever is given: InputError, with the argument's name first."""

    def test_values_of_every_kind(self):
        circle = {}
        circle["circle"] = circle
        deep = []
        for _ in range(100_000):
            deep = [deep]
        huge = 10**400
        wrong = [object(), huge, -huge, float("nan"), float("inf"), "\udcff", b"\xff", [object()], {"a": object()}, circle, {"deep": deep}, {1, 2}, 3j]
        takes = ("model", "cluster", "stack", "profile", "devices", "global_batch", "seq", "micro_batch", "set", "target", "objective",
                 "max_devices", "top", "threads", "time_limit", "tie", "precision", "optimizer", "judge", "offload", "routing", "oom_risk",
                 "lora", "mtp_layers", "optimizer_offload")
        for name in takes:
            for value in wrong:
                arguments = dict(model="llama3.2-1b", devices=8, global_batch=16, judge="formula")
                arguments[name] = value
                with self.subTest(argument=name, value=type(value).__name__):
                    with self.assertRaises(nest.InputError) as caught:
                        nest.plan(**arguments)
                    self.assertLess(len(str(caught.exception)), 2000)
                    self.assertTrue(str(caught.exception).replace("\n", "").isprintable())

    def test_of_other_functions(self):
        plan = small()
        for call in (lambda: nest.evaluate("llama3.2-1b", 3), lambda: nest.evaluate("llama3.2-1b", ["tp=2"]), lambda: nest.evaluate("\udcff", "tp=1"),
                     lambda: nest.check({"a": object()}), lambda: nest.check({}), lambda: nest.check([]), lambda: nest.Plan.from_json(3),
                     lambda: nest.Plan.from_json([1]), lambda: nest.Plan.from_json(b"\xff"), lambda: nest.Plan.from_json("[" * 100_000),
                     lambda: nest.simulate(plan, steps=10**400), lambda: nest.simulate(plan, noise=10**400),
                     lambda: nest.simulate(plan, time_limit=float("inf")), lambda: nest.export(plan, "\udcff"), lambda: nest.export(plan, 3),
                     lambda: nest.compare("llama3.2-1b", devices=8, planners=["\udcff"]), lambda: nest.compare(strategies=[3], devices=8),
                     lambda: nest.plan("llama3.2-1b", devices=8, tokens="1T", deadline=10**400),
                     lambda: nest.plan("llama3.2-1b", devices=8, mtbf=object(), checkpoint_bandwidth="1GB/s"),
                     lambda: nest.sweep({"study": object()}, "x.sqlite"), lambda: nest.sweep(3)):
            with self.assertRaises(nest.InputError):
                call()

    def test_names_that_are_no_utf8(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(os.fsencode(folder), b"\xff\x1b.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(small().to_json())
            self.assertTrue(nest.check(os.fsdecode(path)).sound)
            self.assertTrue(nest.evaluate(os.fsdecode(path)).fits)
            os.truncate(path, 10)
            with self.assertRaises(nest.InputError) as caught:
                nest.evaluate(os.fsdecode(path))
            self.assertNotIn("\x1b", str(caught.exception))


class Files(unittest.TestCase):
    def test_links_and_permissions_stay(self):
        with tempfile.TemporaryDirectory() as folder:
            path, link = os.path.join(folder, "plan.json"), os.path.join(folder, "link.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write("old")
            os.chmod(path, 0o600)
            os.symlink(path, link)
            small().save(link)
            self.assertTrue(os.path.islink(link))
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            self.assertTrue(nest.check(path).sound)
            self.assertEqual(sorted(os.listdir(folder)), ["link.json", "plan.json"])

    def test_a_pipe_is_written_to(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "pipe")
            os.mkfifo(path)
            texts = []
            reader = threading.Thread(target=lambda: texts.append(open(path, encoding="utf-8").read()))
            reader.start()
            plan = small()
            plan.save(path)
            reader.join()
            self.assertEqual(texts, [plan.to_json() + "\n"])
            self.assertTrue(stat.S_ISFIFO(os.stat(path).st_mode))


class Signals(unittest.TestCase):
    def interrupted(self, call, after=0.5):
        """Seconds of the processor that the call goes on for after Ctrl-C: those of the clock depend on what else runs."""
        code = PATHS + ("import nest\nplan = nest.plan('llama3-8b', devices=16, global_batch=64, judge='formula')\n"
                        "print('started', flush=True)\n"
                        "try:\n  %s; print('finished')\nexcept KeyboardInterrupt: print('interrupted')\n" % call)
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True)
        child.stdout.readline()
        time.sleep(after)
        with open(f"/proc/{child.pid}/stat", encoding="utf-8") as file:
            ticks = file.read().rpartition(")")[2].split()[11:13]
        child.send_signal(signal.SIGINT)
        with child.stdout:
            self.assertEqual(child.stdout.read().strip(), "interrupted", call)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_utime + used.ru_stime - sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def test_ctrl_c_is_soon(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        table = os.path.join(folder.name, "s.sqlite")
        large = "nest.evaluate('gpt3-175b', 'pp=16,dp=8,tp=8,mbs=1', 'dgx-h100', devices=1024, global_batch=8192)"
        # Not alpa: its integer programs, of at most 10 s each, are solved by a library that does not look.
        for call in ("nest.compare('deepseek-v3', devices=4096, global_batch=8192, planners='nest,mcmc,manual,aceso,phaze,mist')",
                     "nest.compare('deepseek-v3', devices=[1024, 2048, 4096], strategies=['best'])",
                     "nest.simulate(%s, steps=31, runs=20)" % large,
                     "nest.plan('deepseek-v3', devices=4096, global_batch=8192, top=100, why=True, sensitivity=True)",
                     "nest.sweep({'study': 's', 'model': 'deepseek-v3', 'axes': {'devices': [2048, 4096]}}, %r)" % table):
            with self.subTest(call=call):
                self.assertLess(self.interrupted(call), 2)


class Processes(unittest.TestCase):
    def test_threads_plan_and_are_answered_alike(self):
        answers, questions = [], ["llama3.2-1b", "llama3-8b", "mixtral-8x7b"] * 3
        workers = [threading.Thread(target=lambda q=q: answers.append((q, nest.plan(q, devices=16, global_batch=64, judge="formula").to_json())))
                   for q in questions]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(len(answers), len(questions))
        self.assertEqual(len({(q, _timeless(text)) for q, text in answers}), 3)

    def test_children_of_a_fork_plan_too(self):
        done = python("import os, threading, nest\n"
                      "plan = lambda: nest.plan('llama3-8b', devices=16, global_batch=64, judge='formula', threads=2).strategy\n"
                      "first = plan()\n"
                      "busy = threading.Thread(target=lambda: [plan() for _ in range(10)])\n"
                      "busy.start()\n"
                      "codes = []\n"
                      "for _ in range(8):\n"
                      "  child = os.fork()\n"
                      "  if child == 0:\n"
                      "    os._exit(0 if plan() == first else 1)\n"
                      "  codes.append(os.waitpid(child, 0)[1])\n"
                      "busy.join()\n"
                      "print(codes)\n", timeout=120)
        self.assertEqual(done.stdout.strip(), str([0] * 8), done.stderr)

    @unittest.skipUnless(interpreters, "this Python has no module for sub-interpreters")
    def test_sub_interpreters_are_refused_and_do_not_hang(self):
        inside = ("import sys; sys.path[:0] = %r\n"
                  "try:\n  import nest; nest.plan('llama3-8b', devices=16, global_batch=64, judge='formula')\n"
                  "except ImportError as error: print(error)\n"
                  "else: print('planned')\n" % [path for path in sys.path if path])
        code = ("%simport _xxsubinterpreters as interpreters\n"
                "one = interpreters.create()\n"
                "interpreters.run_string(one, %r)\n"
                "interpreters.destroy(one)\n"
                "import nest; print(nest.plan('llama3-8b', devices=16, global_batch=64, judge='formula').fits)\n")
        first = python(code % ("", inside))
        self.assertIn("works in the main interpreter only", first.stdout, first.stderr)
        self.assertEqual(first.stdout.splitlines()[-1], "True", first.stderr)
        self.assertEqual(first.returncode, 0, first.stderr)
        after = python(code % ("import nest._core\n", inside))  # the main interpreter has it already
        self.assertIn("works in the main interpreter only", after.stdout, after.stderr)
        self.assertEqual(after.stdout.splitlines()[-1], "True", after.stderr)
        self.assertEqual(after.returncode, 0, after.stderr)


def _timeless(text):
    """A plan without the seconds that its search took."""
    data = nest.Plan.from_json(text).to_dict()
    data.pop("search", None)
    return str(data)


if __name__ == "__main__":
    unittest.main()
