"""nest.verify without a GPU: orders, slices, what autograd keeps, what is caught, and messages."""
import contextlib
import io
import json
import os
import tempfile
import unittest
from unittest import mock

import nest
import torch
from nest import _verify_facts as facts
from nest import _verify_fused as fused
from nest import _verify_modules as modules
from nest import _verify_run as runs
from nest import verify

torch.backends.mkldnn.enabled = False  # its bf16 kernels need instructions that not every machine has
BASE = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, vocab_size=256,
            tie_word_embeddings=False)
LLAMA = dict(BASE, model_type="llama")
QWEN3 = dict(BASE, model_type="qwen3", head_dim=16)
MIXTURE = dict(BASE, model_type="qwen3_moe", head_dim=16, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32)
LATENT = dict(BASE, model_type="deepseek_v3", num_key_value_heads=8, q_lora_rank=32, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16,
              v_head_dim=16, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=32, n_shared_experts=1, first_k_dense_replace=1,
              n_group=1, topk_group=1)
PLAIN = dict(BASE, model_type="starcoder2", sliding_window=None, tie_word_embeddings=True)
SPLITS = [(LLAMA, "dp=8"), (LLAMA, "tp=4,sp=1,dp=2"), (LLAMA, "tp=2,dp=4"), (LLAMA, "cp=2,dp=4"), (QWEN3, "tp=2,sp=1,cp=2,dp=2"),
          (MIXTURE, "ep=4,etp=1,dp=8"), (MIXTURE, "tp=2,sp=1,ep=2,etp=2,dp=4"), (LATENT, "ep=2,etp=1,dp=8"),
          (LATENT, "tp=2,sp=1,ep=2,etp=1,dp=4"), (PLAIN, "tp=2,sp=1,dp=4")]
BOTH = [(config, strategy, habit) for config, strategy in SPLITS for habit in ("written", "fused")]


def plan_of(config, strategy, **more):
    return nest.evaluate(config, strategy, "dgx-h200", **dict(dict(devices=8, global_batch=32, seq=256), **more))


def cut_of(work):
    split = work["split"]
    return modules.Slice(tp=split["tp"], sp=split["sp"], cp=split["cp"], ep=split["ep"], etp=split["etp"], micro_batch=work["micro_batch"],
                         sequence=work["sequence"], fused=work["modules"] == "fused")


def kept_bytes(cut, chunk):
    """What autograd keeps of a chunk's forward pass, by storage: without weights, angles, and what others would send."""
    def pointers():
        others = list(cut._elsewhere.values()) + [t for r in cut._rotary.values() for t in (r.cos, r.sin)]
        return {t.storage().data_ptr() for t in list(chunk.parameters()) + others}

    seen, drops = {}, fused.Dropped._pack

    def pack(tensor):
        seen[tensor.storage().data_ptr()] = (tensor.storage().nbytes(), tensor)
        return tensor

    def pack_or_drop(self, tensor):  # these hooks replace ours where they are
        kept = drops(self, tensor)
        return pack(tensor) if kept is tensor else kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), mock.patch.object(fused.Dropped, "_pack", pack_or_drop):
        out = chunk(torch.zeros(1, requires_grad=True))
    left_out = pointers()
    total = sum(size for pointer, (size, _) in seen.items() if pointer not in left_out)
    del out
    return total


def mean_square(self, x):
    """RmsNorm for versions of PyTorch whose mean keeps its input."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).sum(-1, keepdim=True) / y.shape[-1] + 1e-6)
    return self.weight * y.to(x.dtype)


def quiet(arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = verify.main(arguments)
    return code, out.getvalue(), err.getvalue()


class Orders(unittest.TestCase):
    def test_one_forward_one_backward(self):
        order = runs.order_of("1f1b", 3, 1, 4, 1)  # the second of three stages runs one forward pass ahead
        self.assertEqual("".join("%s%d " % (kind, i) for kind, _, i in order).split(), "F0 F1 B0 F2 B1 F3 B2 B3".split())
        self.assertEqual(runs.most_in_flight(order), 2)

    def test_interleaved(self):
        order = runs.order_of("interleaved", 2, 2, 2, 0)  # 2 (2 - 1 - 0) + (2 - 1) 2 = 4 passes ahead: all of them
        self.assertEqual([("%s%d%d" % one) for one in order], ["F00", "F01", "F10", "F11", "B10", "B11", "B00", "B01"])
        order = runs.order_of("interleaved", 2, 2, 2, 1)  # two ahead
        self.assertEqual([("%s%d%d" % one) for one in order], ["F00", "F01", "F10", "B10", "F11", "B11", "B00", "B01"])

    def test_gpipe(self):
        self.assertEqual(runs.most_in_flight(runs.order_of("gpipe", 2, 1, 5, 1)), 5)

    def test_as_much_is_in_flight_as_nest_says(self):
        for strategy in ("pp=4,dp=2", "pp=4,vpp=2,dp=2", "pp=2,vpp=4,dp=4", "pp=8"):
            config = dict(LLAMA, num_hidden_layers=14 if "vpp" in strategy else 8)
            work = facts.work_list(plan_of(config, strategy, global_batch=64))
            for stage in work["stages"]:
                order = runs.order_of(work["schedule"], work["stages_in_all"], len(stage["chunks"]), work["micro_batches"], stage["index"])
                self.assertAlmostEqual(runs.most_in_flight(order) / len(stage["chunks"]), stage["predicted"]["in_flight"], msg=strategy)

    def test_short_orders_hold_as_much(self):
        for schedule, stages, chunks, count in (("1f1b", 4, 1, 64), ("interleaved", 4, 3, 64), ("interleaved", 2, 2, 6), ("1f1b", 4, 1, 2)):
            for stage in range(stages):
                whole = runs.order_of(schedule, stages, chunks, count, stage)
                short = runs.short_order(schedule, stages, chunks, count, stage)
                self.assertEqual(runs.most_in_flight(short), runs.most_in_flight(whole))
                self.assertLessEqual(len(short), len(whole))
                self.assertEqual(sorted(kind for kind, _, _ in short), ["B"] * (len(short) // 2) + ["F"] * (len(short) // 2))

    def test_split_backward_passes_are_refused(self):
        with self.assertRaisesRegex(nest.InputError, "schedule zb-h1: its backward passes are split"):
            runs.order_of("zb-h1", 2, 1, 4, 0)


class Slices(unittest.TestCase):
    def test_parameters_are_those_that_nest_counts(self):
        for config, strategy, habit in BOTH:
            work = facts.work_list(plan_of(config, strategy), habit)
            for layer in work["layers"].values():
                chunk = runs.Chunk(cut_of(work), [layer], {"kind": "none"})
                self.assertEqual(sum(p.numel() for p in chunk.parameters()), layer["parameters"], (config["model_type"], strategy, layer["name"]))

    def test_a_rank_of_four_by_hand(self):
        work = facts.work_list(plan_of(LLAMA, "tp=4,sp=1,dp=2"))
        block = next(layer for layer in work["layers"].values() if layer["kind"] == "block")
        # q and o 64 x 16, k and v 64 x 8, three of 64 x 32, two norms of 64
        self.assertEqual(block["parameters"], 2 * 64 * 16 + 2 * 64 * 8 + 3 * 64 * 32 + 2 * 64)

    def test_autograd_keeps_what_nest_predicts(self):
        for config, strategy, habit in BOTH:
            work = facts.work_list(plan_of(config, strategy), habit)
            # Of fused attention the random state; Megatron-Core's router keeps maps of all experts, these modules lists: 8 are half of a tiny stream.
            state = 1024 if habit == "written" else 0
            routed = habit == "fused" and config in (MIXTURE, LATENT)
            for layer in work["layers"].values():
                if layer["kind"] != "block":
                    continue
                cut = cut_of(work)
                with mock.patch.object(modules.RmsNorm, "forward", mean_square) if habit == "written" else contextlib.nullcontext():
                    kept = kept_bytes(cut, runs.Chunk(cut, [layer], {"kind": "none"})) + state
                self.assertAlmostEqual(kept / layer["saved_bytes"]["none"], 1, delta=0.05 if routed else 0.01,
                                       msg=(config["model_type"], strategy, layer["name"], habit))

    def test_full_recomputation_keeps_the_input(self):
        work = facts.work_list(plan_of(LLAMA, "dp=8"))
        block = next(layer for layer in work["layers"].values() if layer["kind"] == "block")
        cut = cut_of(work)
        chunk = runs.Chunk(cut, [block], {"kind": "full"})
        self.assertLessEqual(kept_bytes(cut, chunk), 256 * 64 * 2)  # the stream, where checkpoints keep it by hooks

    def test_which_blocks_run_again(self):
        self.assertEqual([runs.recomputed({"kind": "block", "count": 2}, i, 4) for i in range(4)], ["full", "full", "none", "none"])
        self.assertEqual(runs.recomputed({"kind": "modules", "modules": ["core_attention"]}, 0, 4), ["core_attention"])
        self.assertEqual(facts._recompute("core_attn+mlp", {}), {"kind": "modules", "modules": ["core_attention", "feed_forward"]})
        self.assertEqual(facts._recompute("uniform:2", {}), {"kind": "uniform", "count": 2})
        self.assertEqual(facts._recompute("moe_act+layernorm", {}, "fused")["modules"], ["moe_activation", "norm"])
        with self.assertRaisesRegex(nest.InputError, "moe_activation; written modules run again"):
            facts._recompute("moe_act", {}, "written")

    def test_shards_of_the_optimizer(self):
        work = facts.work_list(plan_of(MIXTURE, "ep=4,etp=1,dp=8,zero=1"))
        self.assertEqual(work["stages"][0]["degrees"], {"dense": 8, "expert": 2})  # two ranks hold each expert
        self.assertEqual(facts._degrees({"zero": 0}, {"dp": 8}), {"dense": 1, "expert": 1})

    def test_chunks_of_an_interleaved_stage(self):
        work = facts.work_list(plan_of(dict(LLAMA, num_hidden_layers=14), "pp=4,vpp=2,dp=2"))
        sizes = [[len(chunk) for chunk in stage["chunks"]] for stage in work["stages"]]
        self.assertTrue(all(len(one) == 2 for one in sizes))
        self.assertEqual(sum(map(sum, sizes)), 16)
        self.assertTrue(work["stages"][0]["chunks"][0][0].startswith("embedding"))
        self.assertTrue(work["stages"][-1]["chunks"][-1][-1].startswith("head"))


class Passes(unittest.TestCase):
    def test_every_weight_gets_its_gradient(self):
        for config, strategy in ((LLAMA, "tp=2,sp=1,pp=2,dp=2,recompute=none"), (LLAMA, "cp=2,pp=2,dp=2,recompute=full"),
                                 (LATENT, "tp=2,sp=1,ep=2,etp=1,dp=4,recompute=core_attn"), (MIXTURE, "tp=2,sp=1,ep=2,etp=2,dp=4,recompute=full"),
                                 (LATENT, "ep=2,etp=1,dp=8,recompute=layernorm+mlp")):
            plan = plan_of(config, strategy, seq=32)
            for work in (facts.work_list(plan, habit) for habit in ("written", "fused")):
                for entry in work["stages"]:
                    stage = runs.Stage(work, entry, cut_of(work))
                    order = runs.short_order(work["schedule"], work["stages_in_all"], len(entry["chunks"]), work["micro_batches"], entry["index"])
                    self.assertEqual(runs.run_order(stage, order), entry["predicted"]["in_flight"])
                    self.assertEqual(stage.held, {})
                    self.assertTrue(all(p.grad is not None for p in stage.parameters), (config["model_type"], strategy, work["modules"]))

    def test_main_gradients_are_wider(self):
        plan = plan_of(LLAMA, "dp=8", seq=32, stack="megatron-core")
        work = facts.work_list(plan)
        self.assertEqual(work["state"]["gradient"], 4)
        stage = runs.Stage(work, work["stages"][0], cut_of(work))
        stage.allocate_state()
        runs.run_order(stage, [("F", 0, 0), ("B", 0, 0)])
        self.assertTrue(all(p.grad is None and stage.main[id(p)].dtype == torch.float32 for p in stage.parameters))
        self.assertGreater(sum(float(g.abs().sum()) for g in stage.main.values()), 0)
        # Masters and two moments of an eighth of all parameters each.
        self.assertEqual([t.numel() for t in stage.optimizer], [sum(stage.count()) // 8, 2 * sum(stage.count()) // 8])

    def test_measured_on_the_cpu(self):
        work = facts.work_list(plan_of(LLAMA, "pp=2,dp=4", seq=32))
        found = runs.measure_stage(work, work["stages"][0], device="cpu", seconds=0.01)
        self.assertGreater(found["forward_s"], 0)
        self.assertGreater(found["backward_s"], 0)
        self.assertEqual(found["in_flight"], 2)


class Fused(unittest.TestCase):
    """Fused kernels compute what the operators that they stand for compute, and their gradients."""

    def same(self, ours, plain, *given):
        torch.manual_seed(1)
        results = []
        for function in (ours, plain):
            leaves = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in given]
            out = function(*leaves)
            (out * torch.arange(out.numel()).view(out.shape).sin()).sum().backward()
            results.append([out.detach()] + [t.grad for t in leaves if t.is_floating_point()])
        for a, b in zip(*results):
            self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-5), (a - b).abs().max())

    def test_activations(self):
        gate, up, shares = torch.randn(6, 8), torch.randn(6, 8), torch.rand(6, 1)
        self.same(fused.Gated.apply, lambda a, b: torch.nn.functional.silu(a) * b, gate, up)
        both = torch.cat((gate, up), -1)
        self.same(fused.Weighted.apply, lambda a, w: torch.nn.functional.silu(a[:, :8]) * a[:, 8:] * w, both, shares)

    def test_norm_and_rotary(self):
        x, weight = torch.randn(2, 6, 8), torch.rand(8)
        self.same(fused.root_norm, lambda a, w: a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6) * w, x, weight)
        angles = torch.randn(6, 4).repeat(1, 2)
        turned = lambda a: a * angles.cos() + torch.cat((-a[..., 4:], a[..., :4]), -1) * angles.sin()
        self.same(lambda a: fused.Rotated.apply(a, angles.cos(), angles.sin()), turned, x)

    def test_rows_of_experts(self):
        order = torch.randperm(12)
        back = order.argsort()
        self.same(lambda a: fused.Dispatched.apply(a, order, back, 2), lambda a: a[order // 2], torch.randn(6, 8))
        self.same(lambda a: fused.Combined.apply(a, order, back, 2), lambda a: a[back].view(6, 2, 8).sum(1), torch.randn(12, 8))

    def test_loss(self):
        labels = torch.randint(16, (10,))
        with mock.patch.object(fused, "ROWS", 4):
            self.same(lambda a: fused.Loss.apply(a * 1, labels), lambda a: torch.nn.functional.cross_entropy(a, labels), torch.randn(10, 16))

    def test_gradients_are_added_up(self):
        x, weight = torch.randn(6, 8, requires_grad=True), torch.nn.Parameter(torch.randn(4, 8))
        for _ in range(2):
            fused.Product.apply(x, weight).sum().backward()
        self.assertTrue(torch.allclose(weight.grad, 2 * torch.ones(4, 6) @ x.detach(), atol=1e-5))
        self.assertTrue(torch.allclose(x.grad, 2 * weight.detach().sum(0).expand(6, 8), atol=1e-5))

    def test_what_is_dropped_is_made_again_once(self):
        x, weights, made = torch.randn(4, 8, requires_grad=True), [torch.randn(8, 8, requires_grad=True) for _ in range(2)], []

        def act(given):
            made.append(1)
            return given.sin()

        with fused.Dropped() as dropped:
            y = act(x)
            dropped.add(y, lambda: act(x))
            out = sum((y @ w).sum() for w in weights)
        self.assertEqual(len(made), 1)
        out.backward()
        self.assertEqual(len(made), 2)
        self.assertTrue(torch.allclose(weights[1].grad, x.detach().sin().t() @ torch.ones(4, 8), atol=1e-5))

    def test_dropped_norms_and_activations_are_not_kept(self):
        work = facts.work_list(plan_of(MIXTURE, "ep=4,etp=1,dp=8,recompute=moe_act+layernorm"))
        block = next(layer for layer in work["layers"].values() if layer["kind"] == "block")
        kept = [kept_bytes(cut, runs.Chunk(cut, [block], treatment)) for cut, treatment in (
            (cut_of(work), {"kind": "none"}), (cut_of(work), work["stages"][0]["recompute"]))]
        # The norm before the router, 256 tokens of 64; the experts' product, 512 rows of 32: two bytes each.
        self.assertEqual(kept[0] - kept[1], 2 * (256 * 64 + 512 * 32))


class Verdicts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.plan = plan_of(LLAMA, "tp=2,sp=1,pp=2,dp=2", seq=32)
        cls.path = os.path.join(cls.folder.name, "plan.json")
        cls.plan.save(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, change):
        data = self.plan.to_dict()
        change(data)
        path = os.path.join(self.folder.name, "changed.json")
        with open(path, "w") as file:
            json.dump(data, file)
        return path

    def test_a_right_plan_is_consistent(self):
        code, out, _ = quiet([self.path, "--dry-run"])
        self.assertEqual(code, 0)
        self.assertIn("CONSISTENT", out)

    def test_a_plan_that_claims_too_little_memory_is_caught(self):
        def halve(data):
            data["stages"][0]["memory_bytes"]["total"] //= 2
            data["stages"][0]["memory_bytes"]["in_flight"] = 1

        code, out, _ = quiet([self.write(halve), "--dry-run"])
        self.assertEqual(code, 1)
        self.assertIn("stage 0: the plan's file says that 1 micro-batches are in flight, nest says 2 today", out)
        self.assertIn("stage 0: the plan's file says", out)

    def test_times_and_memory_are_judged(self):
        work = facts.work_list(self.plan)
        stage = work["stages"][0]
        predicted = stage["predicted"]
        built = verify.dry_run(work, stage)
        right = dict(built, forward_s=predicted["forward_s"] / 1.1, backward_s=predicted["backward_s"], peak_bytes=predicted["allocated_bytes"],
                     reserved_bytes=predicted["reserved_bytes"])
        off, errors = verify.judge(work, stage, right)
        self.assertEqual(off, [])
        self.assertAlmostEqual(errors["forward_s"], 10)
        off, _ = verify.judge(work, stage, dict(right, forward_s=2 * predicted["forward_s"], peak_bytes=1.2 * predicted["allocated_bytes"]))
        self.assertEqual(len(off), 2)
        self.assertRegex(off[0], r"stage 0: forward takes .* \(-50.0 %\)")
        off, _ = verify.judge(work, stage, dict(right, dense_parameters=built["dense_parameters"] + 1))
        self.assertIn("parameters, nest counts", off[0])
        text, _, _ = verify.report(work, [(stage, [0], right)])
        self.assertIn("VERIFIED: times within 15 %, memory within 5 %", text)

    def test_modules_are_those_of_the_stack(self):
        self.assertEqual(facts.work_list(self.plan)["modules"], "fused")
        self.assertEqual(facts.work_list(plan_of(LLAMA, "dp=8", stack="huggingface"))["modules"], "written")
        experts = plan_of(MIXTURE, "dp=8")
        self.assertEqual(facts.work_list(experts)["modules"], "written")
        work = facts.work_list(experts, "fused")
        stage = work["stages"][0]
        found = dict(verify.dry_run(work, stage), forward_s=1e3, backward_s=1e3, peak_bytes=stage["predicted"]["allocated_bytes"],
                     reserved_bytes=stage["predicted"]["reserved_bytes"])
        text, off, _ = verify.report(work, [(stage, [0], found)])
        self.assertEqual(off, [])
        self.assertIn("Times are not judged", text)
        with self.assertRaisesRegex(nest.InputError, "--modules: 'other' is not one of fused or written"):
            facts.work_list(experts, "other")

    def test_fused_predictions_are_the_plans_own(self):
        work = facts.work_list(plan_of(LLAMA, "tp=2,sp=1,pp=2,dp=2", seq=4096))
        for stage in work["stages"]:
            self.assertAlmostEqual(stage["predicted"]["allocated_bytes"] / stage["plan"]["allocated_bytes"], 1, delta=0.02)

    def test_equal_stages_run_once(self):
        work = facts.work_list(plan_of(dict(LLAMA, num_hidden_layers=8), "pp=4,dp=2", global_batch=4, seq=32))  # two micro-batches in all
        self.assertEqual([same for _, same in verify.different_stages(work)], [[0], [1, 2], [3]])

    def test_a_list_for_another_machine(self):
        path = os.path.join(self.folder.name, "work.json")
        self.assertEqual(quiet([self.path, "--list", path])[0], 0)
        with open(path) as file:
            self.assertEqual(json.load(file), json.loads(json.dumps(facts.work_list(self.path))))
        self.assertEqual(quiet(["--work", path, "--dry-run"])[0], 0)

    def test_what_was_measured_is_saved_as_a_profile(self):
        path = os.path.join(self.folder.name, "profile.json")
        code, out, err = quiet([self.path, "--device", "cpu", "--seconds", "0.01", "--stages", "0", "--save", path])
        self.assertEqual(code, 1, err)  # a CPU is no H200
        self.assertIn("OFF: ", out)
        with open(path) as file:
            profile = json.load(file)
        self.assertEqual(profile["stack"], self.plan.run.stack)
        again = nest.evaluate(self.plan, profile=path)
        self.assertGreater(again.prediction.iteration_s, self.plan.prediction.iteration_s)

    def test_everything_as_json(self):
        path = os.path.join(self.folder.name, "all.json")
        quiet([self.path, "--dry-run", "--json", path])
        with open(path) as file:
            self.assertEqual([stage["measured"]["in_flight"] for stage in json.load(file)[0]["stages"]], [2, 1])


class Messages(unittest.TestCase):
    def refused(self, pattern, plan, *more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            plan.save(path)
            code, _, err = quiet([path, *more])
        self.assertEqual(code, 2)
        self.assertRegex(err, pattern)

    def test_no_gpu(self):
        with mock.patch.object(torch.cuda, "is_available", return_value=False):
            self.refused("there is no GPU here", plan_of(LLAMA, "dp=8"))

    def test_another_gpu(self):
        with mock.patch.object(torch.cuda, "is_available", return_value=True), mock.patch.object(torch.cuda, "get_device_name",
                                                                                                 return_value="NVIDIA A100-SXM4-80GB"):
            self.refused("this GPU is a NVIDIA A100-SXM4-80GB; the plan is for h200", plan_of(LLAMA, "dp=8"))

    def test_a_stage_that_does_not_fit(self):
        small = mock.Mock(total_memory=1 << 20)
        with mock.patch.object(torch.cuda, "is_available", return_value=True), \
                mock.patch.object(torch.cuda, "get_device_name", return_value="NVIDIA H200"), \
                mock.patch.object(torch.cuda, "get_device_properties", return_value=small):
            self.refused(r"stage 0 needs .* GiB with fused modules and this GPU has", plan_of(LLAMA, "dp=8"))
            self.refused(r"with written modules .*; --modules fused keeps less", plan_of(MIXTURE, "dp=8"))

    def test_no_torch(self):
        with mock.patch.dict("sys.modules", {"torch": None}):
            with self.assertRaisesRegex(nest.InputError, "PyTorch is not installed here"):
                verify._device({}, None, False)

    def test_layers_that_cannot_be_built(self):
        sliding = dict(BASE, model_type="mistral", sliding_window=64)
        self.refused("operator 'repeat k, v' is not among what nest.verify builds", plan_of(sliding, "dp=8"), "--dry-run")

    def test_one_weight_for_all_projections(self):
        config = dict(model_type="gpt2", n_embd=64, n_head=8, n_layer=2, vocab_size=256, n_positions=256, activation_function="gelu")
        self.refused("one weight for queries, keys and values", plan_of(config, "dp=8"), "--dry-run", "--modules", "written")
        work = facts.work_list(plan_of(config, "tp=2,sp=1,dp=4"))
        self.assertEqual(work["modules"], "fused")
        self.assertEqual(verify.report(work, verify.run(work, dry=True))[1], [])

    def test_runs_that_cannot_be_built(self):
        self.refused("run.precision: 'fp32'", plan_of(LLAMA, "dp=8", precision="fp32"), "--dry-run")
        self.refused("run.lora", plan_of(LLAMA, "dp=8", lora="rank=4"), "--dry-run")

    def test_files(self):
        code, _, err = quiet(["/nowhere/plan.json"])
        self.assertEqual(code, 2)
        self.assertIn("/nowhere/plan.json: there is no such file", err)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.json")
            with open(path, "w") as file:
                file.write('{"schema": "nest.other/1"}')
            for arguments in ([path], ["--work", path]):
                code, _, err = quiet(arguments)
                self.assertEqual(code, 2)
                self.assertIn("schema: 'nest.other/1'", err)


if __name__ == "__main__":
    unittest.main()
