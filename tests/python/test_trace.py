"""Traces: parameters, FLOPs and kept bytes against PyTorch itself and against hand-computed numbers."""
import json
import subprocess
import sys
import unittest

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed (Debian: python3-torch): tracing is not tested")

import models
import nest


def ids(batch, sequence):
    return torch.zeros(batch, sequence, dtype=torch.long)


def image(batch, size=32):
    return torch.zeros(batch, 3, size, size)


def storage(tensor):
    held = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    return held.data_ptr(), held.nbytes()


def really_kept(module, args, loss=None):
    """What autograd keeps of a real run on the CPU, by storage, without weights: the oracle."""
    module.train()
    weights = {storage(p)[0] for p in module.parameters()}
    kept, held = {}, []

    def pack(tensor):
        if tensor.dim() and storage(tensor)[0] not in weights:
            kept[storage(tensor)[0]] = storage(tensor)[1]
            held.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = module(*args)
        if loss:
            loss(out)
    return sum(kept.values())


def cross_entropy(out):
    return F.cross_entropy(out.reshape(-1, out.shape[-1]).float(), torch.zeros(out.shape[0] * out.shape[1], dtype=torch.long))


def everything():
    return {
        "vision": (models.VisionTransformer(), (image(2),)),
        "speech": (models.SpeechModel(), (torch.zeros(2, 16, 64), ids(2, 64))),
        "u-net": (models.UNet(), (image(2), torch.zeros(2))),
        "two towers": (models.TwoTowers(), (image(2), ids(2, 16))),
        "experts": (models.Llama(experts=8), (ids(2, 64),)),
        "llama": (models.Llama(), (ids(2, 64),)),
        "gpt2": (models.Gpt2(), (ids(2, 64),)),
    }


class Counts(unittest.TestCase):
    def test_parameters_are_those_of_the_module(self):
        for name, (module, args) in everything().items():
            with self.subTest(name):
                graph = nest.trace(module, args, name=name)
                self.assertEqual(graph.parameters, sum(p.numel() for p in module.parameters()))
                self.assertEqual([w for w in graph.warnings if "unknown" in w], [])

    def test_shared_weights_count_once(self):
        tied = nest.trace(models.Llama(tied=True), ids(2, 64))
        untied = nest.trace(models.Llama(), ids(2, 64))
        self.assertEqual(untied.parameters - tied.parameters, 256 * 64)
        users = [op["name"] for op in tied.operators if 0 in op["weights"]]
        self.assertEqual(users, ["embed_tokens", "lm_head"])

    def test_flops_of_a_llama_are_those_on_paper(self):
        b, s, h, ffn, heads, kv, depth, vocabulary = 2, 64, 64, 128, 4, 2, 4, 256
        graph = nest.trace(models.Llama(vocabulary, h, depth, heads, kv, ffn), ids(b, s))
        products = depth * (h * h * 2 + 2 * h * h * kv // heads + 3 * h * ffn) + h * vocabulary
        attention = depth * 2 * 2 * b * s * s * h / 2  # scores and context, half of them under the mask
        self.assertEqual(graph.flops(), 2 * b * s * products + attention)

    def test_flops_of_a_convolution_are_those_on_paper(self):
        graph = nest.trace(nn.Conv2d(3, 8, 3, stride=2, padding=1, groups=1), image(2))
        self.assertEqual(graph.flops(), 2 * 2 * 16 * 16 * 8 * 3 * 9)
        graph = nest.trace(nn.ConvTranspose2d(3, 8, 2, stride=2), image(2))
        self.assertEqual(graph.flops(), 2 * 2 * 32 * 32 * 3 * 8 * 4)

    def test_experts_compute_top_k_of_them(self):
        dense, sparse = (nest.trace(models.Llama(ffn=128, experts=e, top_k=k), ids(2, 64)).flops() for e, k in ((0, 1), (8, 2)))
        tokens, depth, mlp, router = 2 * 64, 4, 3 * 64 * 128, 8 * 64
        self.assertEqual(sparse - dense, 2 * tokens * depth * (mlp + router))


class Kept(unittest.TestCase):
    """The trace never runs with data; what it says autograd keeps is what autograd keeps."""

    def check(self, module, args, loss=None, delta=8):
        graph = nest.trace(module, args, dtype=None, loss="auto" if loss else None)
        self.assertAlmostEqual(graph.saved_bytes(batch=args[0].shape[0]), really_kept(module, args, loss), delta=delta)

    def test_vision_transformer(self):
        module = models.VisionTransformer()
        for block in module.blocks:
            block.attention.fused = False  # what one kernel keeps on a GPU, the CPU of old versions does not
        self.check(module, (image(3),))

    def test_u_net(self):
        self.check(models.UNet(), (image(2), torch.zeros(2)))

    def test_gpt2_with_loss(self):
        self.check(models.Gpt2(dropout=0.0, fused=False), (ids(2, 64),), cross_entropy)

    def test_llama_with_loss(self):
        # Old versions of PyTorch keep indices of a few bytes for repeat_interleave.
        self.check(models.Llama(fused=False), (ids(2, 64),), cross_entropy, delta=512)

    def test_in_place_operators_and_buffers(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm, self.last = nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4)
                self.register_buffer("scale", torch.ones(32))

            def forward(self, x):
                y = torch.relu_(self.norm(self.first(x))) * self.scale
                out = torch.zeros(x.shape[0], 4)
                out[:, :2] = self.last(y.tanh())[:, :2]
                return out

        self.check(Odd(), (torch.randn(6, 16),))

    def test_fused_attention_keeps_no_scores(self):
        graph = nest.trace(models.Gpt2(dropout=0.0), ids(2, 64), dtype=None)
        ops = [op for op in graph.operators if op["op"] == "attention"]
        self.assertEqual(len(ops), 4)
        # q, k, v are one tensor; the output and a row of logarithms
        rows, out = 2 * 4 * 64 * 4, 2 * 64 * 64 * 4
        self.assertEqual(sum(graph.bytes(t) for t in ops[0]["saves"]), 3 * out + out + rows)

    def test_dropout_keeps_a_mask_of_bytes(self):
        graph = nest.trace(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1)), torch.zeros(4, 8), dtype="bfloat16")
        dropout = [op for op in graph.operators if op["op"] == "dropout"][0]
        self.assertEqual(sum(graph.bytes(t) for t in dropout["saves"]), 4 * 8)


class Sizes(unittest.TestCase):
    def test_extents_grow_as_the_module_says(self):
        graph = nest.trace(models.Llama(fused=False), ids(2, 64))
        scores = [op for op in graph.operators if op["op"] == "softmax"][0]
        self.assertEqual(graph.data["tensors"][scores["outputs"][0]]["shape"], [[1, 1, 0], [4, 0, 0], [1, 0, 1], [1, 0, 1]])
        head = [op for op in graph.operators if op["name"] == "lm_head"][0]
        self.assertEqual(graph.data["tensors"][head["inputs"][0]]["shape"], [[1, 1, 1], [64, 0, 0]])

    def test_another_size_is_what_a_trace_of_it_says(self):
        small, large = nest.trace(models.Llama(), ids(2, 64)), nest.trace(models.Llama(), ids(4, 256))
        self.assertEqual(small.saved_bytes(4, 256), large.saved_bytes())
        self.assertEqual(small.flops(4, 256), large.flops())

    def test_images_have_no_sequence(self):
        graph = nest.trace(models.UNet(), (image(2), torch.zeros(2)))
        self.assertEqual((graph.batch, graph.sequence, graph.warnings), (2, 1, []))

    def test_a_strided_convolution_halves(self):
        graph = nest.trace(nn.Conv1d(8, 8, 3, stride=2, padding=1), torch.zeros(2, 8, 64), sequence_dim=2)
        self.assertEqual(graph.data["tensors"][graph.data["outputs"][0]]["shape"], [[1, 1, 0], [8, 0, 0], [0.5, 0, 1]])

    def test_a_module_that_takes_one_length_says_so(self):
        graph = nest.trace(models.TwoTowers(), (image(2), ids(2, 16)))
        self.assertEqual(graph.sequence, 1)
        self.assertIn("one sequence length only, 16", graph.warnings[0])

    def test_a_longest_length_is_no_obstacle(self):
        self.assertEqual(nest.trace(models.Gpt2(positions=64), ids(2, 64)).sequence, 64)

    def test_one_sample_is_traced_as_two(self):
        self.assertEqual(nest.trace(models.Llama(), ids(1, 64)).batch, 2)

    def test_405b_within_seconds(self):
        code = ("import sys, resource; sys.path[:0] = %r; import torch, nest, models\n"
                "with nest.meta(): model = models.Llama(128256, 16384, 126, 128, 8, 53248)\n"
                "g = nest.trace(model, torch.zeros(1, 8192, dtype=torch.long)); print(g.parameters, len(g.operators) > 126 * 20,\n"
                "  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4e6)") % sys.path[:3]
        out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, universal_newlines=True, timeout=60)
        self.assertEqual(out.stdout.split(), ["405853388800", "True", "True"])


class Form(unittest.TestCase):
    def test_the_callers_module_is_untouched(self):
        module = models.Gpt2().eval()
        before = {name: p.clone() for name, p in module.named_parameters()}
        nest.trace(module, ids(2, 64))
        self.assertFalse(module.training)
        for name, p in module.named_parameters():
            self.assertTrue(torch.equal(p, before[name]))
        self.assertEqual(module(ids(1, 8)).shape, (1, 8, 256))

    def test_conv1d_of_gpt2_is_a_transposed_linear(self):
        ops = {op["name"]: op for op in nest.trace(models.Gpt2(), ids(2, 64)).operators}
        self.assertEqual(ops["h.0.c_attn"]["attributes"], {"transposed": True})
        self.assertEqual(ops["h.0.c_proj"]["attributes"], {"transposed": True})  # square: told by its strides

    def test_packed_weights_become_their_parts(self):
        module = nn.MultiheadAttention(32, 4, batch_first=True)
        class Cross(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = module
            def forward(self, x, memory):
                return self.inner(x, memory, memory)[0]
        graph = nest.trace(Cross(), (torch.zeros(2, 8, 32), torch.zeros(2, 8, 32)))
        self.assertEqual(graph.parameters, sum(p.numel() for p in module.parameters()))
        shapes = [w["shape"] for w in graph.data["weights"] if "in_proj_weight" in w["name"]]
        self.assertEqual(shapes, [[32, 32], [64, 32]])

    def test_every_operator_refers_to_what_was_made_before(self):
        for name, (module, args) in everything().items():
            with self.subTest(name):
                data = json.loads(nest.trace(module, args, name=name).to_json())
                made = set(data["inputs"])
                makers = {t for op in data["operators"] for t in op["outputs"]}
                for op in data["operators"]:
                    for tensor in op["inputs"]:
                        self.assertTrue(tensor in made or tensor not in makers, op["name"])
                    self.assertFalse(made & set(op["outputs"]), op["name"])
                    made.update(op["outputs"])
                self.assertEqual(len({op["name"] for op in data["operators"]}), len(data["operators"]))

    def test_annotations_are_written(self):
        graph = nest.trace(models.Llama(), ids(2, 64), layers=["layers.0", "layers.1"], splits={"lm_head": "vocabulary"})
        self.assertEqual(graph.data["layers"], ["layers.0", "layers.1"])
        self.assertEqual(graph.data["splits"], {"lm_head": "vocabulary"})

    def test_a_graph_survives_its_file(self):
        graph = nest.trace(models.Llama(), ids(2, 64))
        self.assertEqual(nest.Graph.from_json(graph.to_json()).data, graph.data)

    def test_fx_graphs_are_taken(self):
        module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        traced = torch.fx.symbolic_trace(module)
        self.assertEqual(nest.trace(traced, torch.zeros(2, 8)).count(), nest.trace(module, torch.zeros(2, 8)).count())

    def test_autograd_functions_and_checkpoints_run(self):
        from torch.utils.checkpoint import checkpoint

        class Checkpointed(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))
            def forward(self, x):
                return checkpoint(self.inner, x, use_reentrant=False)

        plain = Checkpointed()
        self.assertLess(nest.trace(plain, torch.zeros(4, 16)).saved_bytes(), nest.trace(plain.inner, torch.zeros(4, 16)).saved_bytes())


class Refusals(unittest.TestCase):
    def raises(self, text, call, kind=nest.TraceError):
        with self.assertRaises(kind) as caught:
            call()
        self.assertIn(text, str(caught.exception))

    def test_data_dependent_code_is_named(self):
        class Odd(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 8)
            def forward(self, x):
                y = self.inner(x)
                return y if y.sum().item() > 0 else -y
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.odd = Odd()
            def forward(self, x):
                return self.odd(x)
        self.raises("in module 'odd': aten._local_scalar_dense needs the values", lambda: nest.trace(Outer(), torch.zeros(2, 8)))

    def test_lists_of_known_values(self):
        class Listed(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 8)
            def forward(self, x, lengths):
                for _ in range(lengths.tolist()[0]):
                    x = self.inner(x)
                return x
        self.assertEqual(nest.trace(Listed(), (torch.zeros(2, 8), torch.tensor([3, 3]))).count()["linear"], 3)
        self.raises("needs the values", lambda: nest.trace(Listed(), (torch.zeros(2, 8), torch.zeros(2, dtype=torch.long, device="meta"))))

    def test_values_of_masks_are_known(self):
        class Masked(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 8)
            def forward(self, x, mask):
                return self.inner(x) if mask.all() else self.inner(x) * mask[..., None]
        full = nest.trace(Masked(), (torch.zeros(2, 6, 8), torch.ones(2, 6, dtype=torch.bool)))
        holed = nest.trace(Masked(), (torch.zeros(2, 6, 8), torch.zeros(2, 6, dtype=torch.bool)))
        self.assertEqual(len(holed.operators) - len(full.operators), 2)

    def test_experts_by_another_name_need_a_word(self):
        class Router(nn.Module):
            def __init__(self):
                super().__init__()
                self.pick, self.parts = nn.Linear(16, 4), nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
            def forward(self, x):
                chosen = self.pick(x).argmax(-1)
                out = torch.zeros_like(x)
                for index, part in enumerate(self.parts):
                    rows = (chosen == index).nonzero()
                    out[rows] = part(x[rows])
                return out
        self.raises("how many each token visits", lambda: nest.trace(Router(), torch.zeros(8, 16)), nest.InputError)
        graph = nest.trace(Router(), torch.zeros(8, 16), moe=nest.moe_leaf(Router, top_k=1))
        self.assertEqual(graph.operators[0]["attributes"], {"experts": 4, "top_k": 1, "ffn": 16, "gated": False, "activation": "gelu"})
        self.raises("no module of the model", lambda: nest.trace(models.Llama(), ids(2, 64), moe=nest.moe_leaf("nowhere")), nest.InputError)

    def test_bad_arguments(self):
        module = models.Llama()
        self.raises("splits['lm_head']: 'colum'; one of column", lambda: nest.trace(module, ids(2, 8), splits={"lm_head": "colum"}), nest.InputError)
        self.raises("no module 'layer.0'. Did you mean layers.0", lambda: nest.trace(module, ids(2, 8), layers=["layer.0"]), nest.InputError)
        self.raises("is no torch.nn.Module", lambda: nest.trace(lambda x: x, ids(2, 8)), nest.InputError)
        self.raises("dtype: 'bf17'", lambda: nest.trace(module, ids(2, 8), dtype="bf17"), nest.InputError)
        self.raises("no tensors", lambda: nest.trace(module, ()), nest.InputError)
        self.raises("in module 'lm_head'", lambda: nest.trace(nn.Sequential(), ids(2, 8)) and nest.trace(Broken(), ids(2, 8)))


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lm_head = nn.Embedding(10, 8), nn.Linear(9, 10)

    def forward(self, tokens):
        return self.lm_head(self.embedding(tokens))


if __name__ == "__main__":
    unittest.main()
