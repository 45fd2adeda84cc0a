"""Traced modules through the planner, beside the same models from their configurations."""
import unittest

import models
import nest
import torch


def ids(batch, sequence):
    return torch.zeros(batch, sequence, dtype=torch.long)


def image(batch, size):
    return torch.zeros(batch, 3, size, size)


def traced(build, inputs, **options):
    with nest.meta():
        module = build()
    return nest.trace(module, inputs, **options)


LLAMA = dict(model_type="llama", hidden_size=512, intermediate_size=1408, num_hidden_layers=3, num_attention_heads=8,
             num_key_value_heads=8, vocab_size=32000, tie_word_embeddings=False)
GPT2 = dict(model_type="gpt2", n_embd=512, n_layer=3, n_head=8, vocab_size=50257, n_positions=1024)
MIXTRAL = dict(model_type="mixtral", hidden_size=512, intermediate_size=1024, num_hidden_layers=3, num_attention_heads=8,
               num_key_value_heads=8, vocab_size=32000, num_local_experts=8, num_experts_per_tok=2, tie_word_embeddings=False)


class AgainstConfigurations(unittest.TestCase):
    def compare(self, config, graph, **split):
        ours = nest.show(graph, seq=1024, kernels="plain", **split)
        theirs = nest.show(config, seq=1024, kernels="plain", **split)
        self.assertEqual(ours.parameters.total, theirs.parameters.total)
        self.assertEqual(ours.flops_per_token.forward, theirs.flops_per_token.forward)
        self.assertEqual([(l.name, l["count"]) for l in ours.layers], [(l.name, l["count"]) for l in theirs.layers])
        for a, b in zip(ours.layers, theirs.layers):
            self.assertEqual(a.parameters, b.parameters, a.name)
            self.assertEqual(a.flops_forward, b.flops_forward, a.name)
        self.assertEqual(ours.layers[1].parameters_local, theirs.layers[1].parameters_local)
        return ours, theirs

    def test_llama(self):
        graph = traced(lambda: models.Llama(32000, 512, 3, 8, 8, 1408), ids(1, 1024))
        for tp in (1, 2, 8):
            self.compare(LLAMA, graph, tp=tp)
        self.compare(LLAMA, graph, tp=4, sp=True)

    def test_llama_keeps_what_hugging_faces_keeps(self):
        graph = traced(lambda: models.Llama(32000, 512, 3, 8, 8, 1408), ids(1, 1024))
        block = nest.show(LLAMA, seq=1024, kernels="huggingface").layers[1].saved_bytes.none
        ours = nest.show(graph).layers[1].saved_bytes.none
        if torch.__version__.startswith("1."):  # keeps the input of mean, newer ones its shape: the squares of both norms
            ours -= 2 * 4 * 1024 * 512
        self.assertAlmostEqual(ours / block, 1, delta=1e-3)

    def test_gpt2(self):
        graph = traced(lambda: models.Gpt2(50257, 1024, 512, 3, 8), ids(1, 1024))
        ours, _ = self.compare(GPT2, graph)
        block = nest.show(GPT2, seq=1024, kernels="plain", dropout=True).layers[1]
        self.assertAlmostEqual(ours.layers[1].saved_bytes.none / block.saved_bytes.none, 1, delta=1e-3)

    def test_experts(self):
        graph = traced(lambda: models.Llama(32000, 512, 3, 8, 8, 1024, experts=8), ids(1, 1024))
        for ep in (1, 4):
            self.compare(MIXTRAL, graph, ep=ep)

    def test_plans_are_close(self):
        graph = traced(lambda: models.Llama(128256, 4096, 32, 32, 8, 14336), ids(1, 8192))
        ours = nest.plan(graph, devices=64, global_batch=512, seq=8192)
        theirs = nest.plan("llama3-8b", devices=64, global_batch=512, seq=8192)
        self.assertTrue(nest.check(ours).sound)
        self.assertAlmostEqual(ours.prediction.iteration_s / theirs.prediction.iteration_s, 1, delta=0.35)


class ManyKinds(unittest.TestCase):
    """No module is so odd that it cannot be planned."""

    def check(self, build, inputs, **options):
        graph = traced(build, inputs)
        plan = nest.plan(graph, devices=16, global_batch=64, **options)
        self.assertTrue(plan.fits)
        # Proven by the formula, unless another plan is faster when all that could be are executed.
        self.assertTrue(plan.optimal or plan.search["execution"]["complete"])
        self.assertTrue(nest.check(plan).sound)
        self.assertEqual(plan.model.parameters, graph.parameters)
        again = nest.Plan.from_json(plan.to_json())  # holds the graph
        self.assertEqual(nest.evaluate(again).prediction, plan.prediction)
        return plan

    def test_vision_transformer(self):
        self.check(lambda: models.VisionTransformer(224, 14, 1280, 32, 16, 5120, 1000), image(2, 224))

    def test_speech(self):
        self.check(lambda: models.SpeechModel(80, 1500, 448, 1280, 32, 20, 51865), (torch.zeros(1, 80, 3000), ids(1, 448)))

    def test_u_net(self):
        self.check(lambda: models.UNet(320, 4, 1280), (image(1, 64), torch.zeros(1)))

    def test_two_towers(self):
        self.check(lambda: models.TwoTowers(224, 14, 1024, 24, 16, 49408, 77, 768), (image(1, 224), ids(1, 77)))

    def test_transformer_of_pytorch(self):
        self.check(lambda: torch.nn.Transformer(512, 8, 6, 6, 2048, batch_first=True), (torch.zeros(2, 128, 512), torch.zeros(2, 128, 512)))

    def test_a_plain_stack_of_linears(self):
        self.check(lambda: torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(8)]), torch.zeros(2, 64, 4096))


if __name__ == "__main__":
    unittest.main()
