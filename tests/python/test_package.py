"""The package over the compiled program: the same answers and the same messages as the command line."""
import ast
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import nest

try:
    from nest import _core
except ImportError as error:
    raise unittest.SkipTest("nest._core is not built: %s" % error)

PROGRAM = os.environ.get("NEST_PROGRAM")  # the command line to compare with


def small(**changes):
    return nest.plan("llama3-8b", devices=16, global_batch=64, **changes)


class Plans(unittest.TestCase):
    def test_a_plan_is_the_programs(self):
        plan = small()
        self.assertTrue(plan.optimal and plan.fits)
        self.assertEqual(plan.search.planner, "nest")
        s = plan.strategy
        self.assertLessEqual(s.tp * s.cp * s.ep * s.pp * s.dp, 16)
        self.assertEqual(plan.cluster.devices, 16)
        self.assertAlmostEqual(sum(plan.prediction.breakdown_s.values()), plan.prediction.iteration_s)

    @unittest.skipUnless(PROGRAM, "NEST_PROGRAM names no program to compare with")
    def test_answers_and_messages_are_the_command_lines(self):
        out = subprocess.run([PROGRAM, "plan", "--model", "llama3-8b", "--devices", "16", "--global-batch", "64", "--json", "--no-why"],
                             stdout=subprocess.PIPE, universal_newlines=True).stdout
        theirs, ours = json.loads(out), small().to_dict()
        for part in ("model", "cluster", "run", "strategy", "stages", "prediction"):
            self.assertEqual(ours[part], theirs[part])
        for call, arguments in ((lambda: nest.plan("lama3-8b"), ["plan", "--model", "lama3-8b"]),
                                (lambda: nest.evaluate("llama3-8b", "tp=x"), ["eval", "--model", "llama3-8b", "--strategy", "tp=x"]),
                                (lambda: nest.plan(devices=0), ["plan", "--devices", "0"]),
                                (lambda: nest.plan(cluster="dgx-h1000"), ["plan", "--cluster", "dgx-h1000"])):
            with self.assertRaises(nest.InputError) as caught:
                call()
            err = subprocess.run([PROGRAM] + arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True).stderr
            # The program writes the names of options as flags.
            self.assertEqual("nest: " + str(caught.exception), err.replace("nest: --", "nest: ").split("\nTry `nest")[0].strip())

    def test_limits_alternatives_and_reasons(self):
        plan = small(set={"tp": 2, "pp": range(1, 3), "zero": [0, 1]}, top=3, why=True)
        self.assertEqual(plan.strategy.tp, 2)
        self.assertEqual(len(plan.alternatives), 2)
        self.assertGreaterEqual(plan.alternatives[0].prediction.iteration_s, plan.search.fastest_s)
        self.assertEqual(small(set=["tp=2"], tie=0).search.get("tie"), None)
        self.assertTrue(plan.why_not)
        self.assertEqual(small(set=["tp=2"], micro_batch=[1]).strategy.tp, 2)

    def test_every_whole_number_is_taken(self):
        self.assertEqual(small(optimizer_offload=50).run.optimizer_offload, 50)
        self.assertEqual(nest.plan("llama3.2-1b", devices=8, largest="seq", multiple_of=4096).largest["value"] % 4096, 0)
        with self.assertRaisesRegex(nest.InputError, "optimizer.offload"):
            small(optimizer_offload=101)
        with self.assertRaisesRegex(nest.InputError, "multiple.of"):
            nest.plan("llama3.2-1b", devices=8, largest="seq", multiple_of=0)

    def test_a_plan_survives_its_file(self):
        plan = small()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            plan.save(path)
            again = nest.Plan.load(path)
            self.assertEqual(os.listdir(folder), ["plan.json"])
            self.assertEqual(again, plan)
            self.assertEqual(nest.evaluate(path).prediction, plan.prediction)
        self.assertEqual(nest.Plan.from_json(plan.to_json()), plan)
        self.assertEqual(nest.evaluate(again).prediction, plan.prediction)
        self.assertTrue(nest.check(plan).sound)

    def test_a_broken_plan_is_judged_so(self):
        data = small().to_dict()
        data["strategy"]["dp"] *= 2
        verdict = nest.check(data)
        self.assertFalse(verdict.sound)
        self.assertTrue(verdict.violations)

    def test_strategies_are_priced(self):
        plan = nest.evaluate("llama3-70b", {"tp": 8, "sp": True, "pp": 4, "micro_batch": 1}, devices=64)
        self.assertEqual((plan.strategy.tp, plan.strategy.pp, plan.strategy.dp), (8, 4, 2))
        self.assertTrue(plan.fits)
        self.assertFalse(nest.evaluate("llama3-70b", "tp=1", devices=8).fits)

    def test_configurations_and_clusters_in_memory(self):
        config = dict(model_type="llama", hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=8, vocab_size=32000)
        cluster = dict(name="mine", device="h100", levels=[dict(name="node", group=4, bandwidth="450GB/s", latency="3us")])
        plan = nest.plan(config, cluster, global_batch=16, seq=1024)
        self.assertEqual((plan.cluster.name, plan.cluster.devices, plan.run.seq), ("mine", 4, 1024))
        with self.assertRaises(nest.InputError) as caught:
            nest.plan(dict(config, hidden_size=-1))
        self.assertTrue(str(caught.exception).startswith("config.json: hidden_size"), str(caught.exception))

    def test_plans_and_alternatives_stand_alone(self):
        config = dict(model_type="llama", hidden_size=1024, intermediate_size=4096, num_hidden_layers=4, num_attention_heads=8, vocab_size=32000)
        device = dict(name="h100", peak=dict(bf16="100TFLOPS"), memory="12GiB", memory_bandwidth="500GB/s")
        cluster = dict(name="dgx-h100", device=device, levels=[dict(name="node", group=8, bandwidth="450GB/s", latency="3us")])
        stack = dict(name="megatron-core", like="megatron-core", optimizer_bytes=7, data_overlap="none")
        profile = dict(schema="nest.profile/1", device="h100", stack="megatron-core",
                       operators=[dict(operator="matmul", m=1024, n=1024, k=4096, forward_s=0.001, backward_s=0.002)])
        best = nest.plan(config, cluster, global_batch=16, seq=1024, stack=stack, profile=profile, top=3)
        self.assertEqual(len(best.alternatives), 2)
        for plan in [best] + best.alternatives:
            again = nest.Plan.from_json(plan.to_json())
            self.assertEqual((again.stack.optimizer_bytes, again.cluster.description.device.memory), (7, "12GiB"))
            priced = nest.evaluate(again)
            self.assertEqual((priced.prediction, priced.stages, priced.evaluation), (plan.prediction, plan.stages, plan.evaluation))
            self.assertTrue(nest.check(again).sound)
            self.assertEqual(nest.export(again, "rankfile"), nest.export(plan, "rankfile"))

    def test_unknown_words_in_plans_are_refused(self):
        data = small().to_dict()
        data["run"]["optimizer"] = "lion"
        for call in (nest.evaluate, nest.check):
            with self.assertRaises(nest.InputError) as caught:
                call(data)
            self.assertIn("run.optimizer: `lion` is not known; allowed are adam, sgd, muon and adam8bit", str(caught.exception))

    def test_messages_name_the_arguments(self):
        for call, start in ((lambda: small(stack="megatorn-core"), "stack: `megatorn-core`"), (lambda: small(top=0), 'top: "0" is not a whole number'),
                            (lambda: nest.plan(devices="many"), "devices: 'many' is not a whole number"), (lambda: small(set={"tp": "x"}), "set: "),
                            (lambda: small(micro_batch="x"), "micro_batch: "), (lambda: small(time_limit=-1), "time_limit: -1"),
                            (lambda: small(tie=-1), "tie: -1 is no number of percent"), (lambda: small(tie="x"), "tie: 'x' is no number of percent"),
                            (lambda: small(precision="fp7"), 'precision: "fp7"'), (lambda: small(objective="money"), 'objective: "money"'),
                            (lambda: nest.compare(planners="apla"), "planners: `apla`"), (lambda: nest.show("h100", tp=2), "tp: is for models only"),
                            (lambda: nest.export(small(), "megatron", format="x"), "format: `x`"), (lambda: nest.simulate(small(), steps=0), 'steps: "0"')):
            with self.assertRaises(nest.InputError) as caught:
                call()
            self.assertTrue(str(caught.exception).startswith(start), str(caught.exception))

    def test_no_files_on_the_way(self):
        with tempfile.TemporaryDirectory() as folder:
            before, tempfile.tempdir = tempfile.tempdir, os.path.join(folder, "nowhere")
            try:
                plan = small(stack={"like": "megatron-core"}, top=2)
                self.assertTrue(nest.check(plan).sound and nest.evaluate(plan).fits and plan.text and plan.to_html())
                self.assertTrue(nest.export(plan, "megatron"))
            finally:
                tempfile.tempdir = before

    def test_no_plan_says_what_would_fit(self):
        with self.assertRaises(nest.NoPlanFits) as caught:
            nest.plan("llama3-405b", devices=8)
        self.assertIn("What would make it fit", str(caught.exception))
        self.assertIn("lacks", str(caught.exception))

    def test_deadlines_and_budgets(self):
        job = dict(devices=16, global_batch=64, seq=4096, tokens="100B")
        plan = nest.plan("llama3-8b", deadline="40d", **job)
        self.assertTrue(plan.demand.proven)
        self.assertLess(plan.demand.met_by.devices, 16)
        self.assertLessEqual(plan.demand.met_by.time_s, 40 * 86400)
        self.assertEqual(nest.plan("llama3-8b", deadline=40 * 86400, **job).demand, plan.demand)
        cheapest = nest.plan("llama3-8b", deadline="40d", price=2, objective="cost", **job)
        self.assertLessEqual(cheapest.demand.met_by.cost, 2 / 3600 * plan.demand.met_by.devices * plan.demand.met_by.time_s * 1.005)
        with self.assertRaises(nest.NoPlanFits) as caught:
            nest.plan("llama3-8b", deadline="1d", **job)
        self.assertIn("cannot be had from 16 x h100", str(caught.exception))
        with self.assertRaisesRegex(nest.InputError, "deadline: how many tokens"):
            nest.plan("llama3-8b", deadline="40d", devices=16)
        with self.assertRaisesRegex(nest.InputError, "budget: what a device-hour costs is missing; give price"):
            nest.plan("llama3-8b", budget="1M", **job)
        self.assertIsNone(nest.plan("llama3-8b", devices=8).demand)

    def test_ranges_are_taken_as_they_count(self):
        for limit, words in ((range(1, 5), "tp=1..4"), (range(2, 9, 2), "tp=2,4,6,8"), ([1, 2], "tp=1,2"), (8, "tp=8")):
            self.assertEqual(nest._core_call.settings({"tp": limit}), [words])

    def test_exports(self):
        plan = small()
        self.assertIn("--tensor-model-parallel-size", nest.export(plan, "megatron"))
        with self.assertRaises(nest.InputError):
            nest.export(plan, "nothing")

    def test_exports_traces(self):
        with tempfile.TemporaryDirectory() as folder:
            text = nest.export(small(), "chakra", output=os.path.join(folder, "traces"), ranks="0,8")
            self.assertIn("trace.8.et", os.listdir(os.path.join(folder, "traces")))
            self.assertTrue(text)
        with self.assertRaises(nest.InputError) as caught:
            nest.export(small(), "chakra")
        self.assertIn("output: is missing", str(caught.exception))

    def test_profiles_go_with_plans(self):
        free = nest.evaluate("llama3-8b", "tp=2,mbs=1", devices=16, global_batch=64)
        parameters = [layer for layer in nest.show("llama3-8b").layers if layer.name == "block"][0].parameters
        slow = {"schema": "nest.profile/1", "device": "h100", "stack": free.run.stack, "layers": [
            {"model": "llama3-8b", "layer": "block", "tp": 2, "sp": False, "micro_batch": 1, "sequence": 8192, "parameters": parameters,
             "forward_s": 0.1, "backward_s": 0.2}]}
        plan = nest.evaluate(free, profile=slow)
        self.assertGreater(plan.prediction.iteration_s, 10 * free.prediction.iteration_s)
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("plan.json", "profile.json")]
            plan.save(paths[0])
            with open(paths[1], "w") as file:
                json.dump(slow, file)
            exported = _core.export(_core.Input(paths[0]), _core.Input(paths[1]), "torchtitan", _core.ExportOptions(), None)
            self.assertAlmostEqual(json.loads(exported.json())["asked_iteration_s"], plan.prediction.iteration_s)
            for call in (lambda: nest.export(paths[0], "megatron", profile=paths[1] + "x"), lambda: nest.simulate(plan, profile=paths[1] + "x")):
                with self.assertRaises(nest.InputError) as caught:
                    call()
                self.assertIn("profile.jsonx", str(caught.exception))
        self.assertAlmostEqual(nest.simulate(plan).predicted.iteration_s, plan.prediction.iteration_s)

    def test_shows(self):
        self.assertEqual(nest.show("llama3-8b").parameters.total, 8030261248)
        self.assertIn("llama3-8b", [m.name for m in nest.show("models").models])
        core = [op for op in nest.show("llama3-8b", tp=4, seq=4096).layers[1].operators if op.kind == "attention"][0].attention
        self.assertEqual((core.heads, core.queries, core["keys"], core.qk_dim, core.causal), (8, 4096, 4096, 128, True))

    def test_compares(self):
        both = nest.compare("llama3-8b", devices=8, global_batch=64, planners=["nest", "manual"])
        self.assertLessEqual(both["nest"].prediction.iteration_s, both["manual"].prediction.iteration_s * (1 + 1e-9))
        self.assertIn("<table>", both._repr_html_())

    def test_compares_candidates(self):
        three = nest.compare("llama3-8b", devices=[8, 16], global_batch=64, strategies=["best", {"tp": 8, "sp": True}])
        self.assertEqual([one.label for one in three], ["A", "B", "C", "D"])
        self.assertEqual((len(three), three.judge), (4, "simulation"))
        self.assertEqual(three["16, tp=8,sp=1"].plan.strategy.tp, 8)
        self.assertEqual(three.fastest.times_fastest, 1)
        self.assertIn("Candidates side by side", three.to_html())
        self.assertIn("A  8, best", repr(three))
        plans = [three.plan("A"), three.plan("B")]
        again = nest.compare(plans=plans)
        self.assertEqual([one.name for one in again], ["plan-1", "plan-2"])
        self.assertAlmostEqual(again["A"].step_s, three["A"].step_s)
        for call, said in ((lambda: nest.compare(plans=plans, planners="nest"), "planners: is for planners"),
                           (lambda: nest.compare(judge="formula"), "judge: is for candidates"),
                           (lambda: nest.compare(strategies=["tp=8,qq=2"]), "qq")):
            with self.assertRaises(nest.InputError) as caught:
                call()
            self.assertIn(said, str(caught.exception))

    def test_sensitivity(self):
        plan = nest.plan("llama3-8b", devices=8, global_batch=32, seq=4096, judge="formula", sensitivity=True)
        self.assertEqual(plan.sensitivity.binding, "flops")
        self.assertGreater(plan.sensitivity.together.saves, 0.05)
        self.assertIsNone(nest.plan("llama3-8b", devices=8, global_batch=32, seq=4096, judge="formula").sensitivity)

    def test_execution_judges(self):
        plan = nest.plan("llama3-8b", devices=8, global_batch=32, seq=4096)
        self.assertGreater(plan.search.execution.simulated_s, 0)
        self.assertNotIn("execution", nest.plan("llama3-8b", devices=8, global_batch=32, seq=4096, judge="formula").search)
        with self.assertRaises(nest.InputError):
            nest.plan("llama3-8b", devices=8, judge="simulatoin")

    def test_simulates(self):
        plan = small()
        result = nest.simulate(plan)
        self.assertEqual(result.engine, "nest")
        self.assertAlmostEqual(result.simulated.iteration_s / result.predicted.iteration_s, 1, delta=0.3)
        noisy = nest.simulate(plan, runs=3, noise=2, seed=4).noise
        self.assertEqual((noisy.percent, noisy.seed, len(noisy.iteration_s)), (2, 4, 3))
        for wrong in (dict(runs=0), dict(runs=1, noise=30), dict(runs=1, noise="much")):
            with self.assertRaises(nest.InputError):
                nest.simulate(plan, **wrong)
        with self.assertRaises(nest.InputError) as caught:
            nest.simulate(plan, engine="simgird")
        self.assertIn("engine", str(caught.exception))
        try:
            judged = nest.simulate(plan, engine="simgrid")
        except RuntimeError as error:
            self.assertIn("libsimgrid-dev", str(error))
            self.skipTest("SimGrid is not installed")
        self.assertAlmostEqual(judged.simulated.iteration_s, result.simulated.iteration_s, delta=1e-9 * result.simulated.iteration_s)

    def test_shown_to_people(self):
        plan = small()
        self.assertIn("llama3-8b on 16 x h100", repr(plan))
        self.assertIn("where the time goes", str(plan))
        page = plan._repr_html_()
        self.assertTrue(page.startswith("<iframe") and len(page) < 1 << 20)
        with self.assertRaises(AttributeError) as caught:
            plan.strategy.tensor
        self.assertIn("there is tp, sp", str(caught.exception))

    def test_wrong_kinds_of_arguments(self):
        for call in (lambda: nest.plan(3), lambda: nest.check(3), lambda: nest.plan(cluster=3), lambda: nest.check("/nowhere.json"),
                     lambda: nest.Plan.from_json("{"), lambda: nest.Plan.from_json("[1]"), lambda: nest.evaluate(small(), "tp=2"),
                     lambda: nest.evaluate(small(), devices=8)):
            with self.assertRaises(nest.InputError):
                call()


class Version(unittest.TestCase):
    def test_package_and_program_are_of_one_version(self):
        self.assertEqual(_core.version(), nest.__version__)


class Threads(unittest.TestCase):
    def test_others_run_while_a_plan_is_sought(self):
        results = []
        workers = [threading.Thread(target=lambda: results.append(small().strategy)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(len(results), 4)
        self.assertTrue(all(one == results[0] for one in results))

    def test_ctrl_c_ends_a_search(self):
        code = ("import sys; sys.path[:0] = %r\nimport nest\nprint('started', flush=True)\n"
                "try:\n  nest.plan('deepseek-v3', devices=65536, threads=1, top=1000); print('finished')\n"
                "except KeyboardInterrupt: print('interrupted')") % [p for p in sys.path if p]
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True)
        child.stdout.readline()
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        start = time.time()
        out, _ = child.communicate(timeout=30)
        self.assertEqual(out.strip(), "interrupted")
        self.assertLess(time.time() - start, 20)


class Stubs(unittest.TestCase):
    """The types say what the package has: names, arguments, and which may be left out."""

    def stub(self):
        path = os.path.join(os.path.dirname(nest.__file__), "__init__.pyi")
        with open(path) as file:
            return ast.parse(file.read())

    @staticmethod
    def described(arguments):
        names = [a.arg for a in arguments.args], [a.arg for a in arguments.kwonlyargs]
        return names, len(arguments.defaults), sum(d is not None for d in arguments.kw_defaults)

    def check(self, name, stub, function):
        source = ast.parse("def f%s: ..." % _plain(inspect.signature(function)))
        self.assertEqual(self.described(stub.args), self.described(source.body[0].args), name)

    def test_stub_and_package_agree(self):
        tree = self.stub()
        stubs = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        public = set(nest.__all__) - {"__version__"}
        self.assertEqual(public - set(stubs), set())
        for name in sorted(public):
            if name in ("trace", "meta", "moe_leaf") and not _torch():
                continue
            if isinstance(stubs[name], ast.FunctionDef):
                self.check(name, stubs[name], inspect.unwrap(getattr(nest, name)))
                continue
            actual = getattr(nest, name)
            for member in stubs[name].body:
                if isinstance(member, ast.FunctionDef):
                    found = inspect.getattr_static(actual, member.name)
                    if any(isinstance(d, ast.Name) and d.id == "property" for d in member.decorator_list):
                        self.assertIsInstance(found, property, "%s.%s" % (name, member.name))
                    else:
                        self.check("%s.%s" % (name, member.name), member, getattr(found, "__func__", found))

    @unittest.skipUnless(shutil.which("mypy"), "mypy is not installed")
    def test_mypy_reads_the_stub(self):
        with tempfile.TemporaryDirectory() as folder:
            sample = os.path.join(folder, "sample.py")
            with open(sample, "w") as file:
                file.write("import nest\nplan: nest.Plan = nest.plan('llama3-8b', devices=8)\nseconds: float = plan.prediction.iteration_s\n"
                           "text: str = nest.export(plan, 'megatron')\n")
            package = os.path.dirname(os.path.dirname(os.path.abspath(nest.__file__)))
            done = subprocess.run(["mypy", "--strict", "--cache-dir", os.path.join(folder, "cache"), sample], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, universal_newlines=True, env=dict(os.environ, MYPYPATH=package))
            self.assertEqual(done.returncode, 0, done.stdout)


def _plain(signature):
    """The signature with every default written as ..."""
    parts = [p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else _Dots()) for p in signature.parameters.values()]
    return signature.replace(parameters=parts, return_annotation=signature.empty)


class _Dots:
    def __repr__(self):
        return "..."


def _torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


if __name__ == "__main__":
    unittest.main()
