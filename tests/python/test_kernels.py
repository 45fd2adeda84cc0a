"""What attention keeps on a GPU, whose kernels PyTorch chooses by masks, widths and strides; and what exported programs keep."""
import math
import unittest

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed (Debian: python3-torch): tracing is not tested")

import nest
from nest._kernels import Kernel, attention_kernel
from test_trace import really_kept

torch.backends.mkldnn.enabled = False  # its bf16 kernels need instructions that not every machine has

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 48, 16
HIDDEN = HEADS * WIDTH
HALF_TENSOR = BATCH * LENGTH * HIDDEN * 2  # bytes of one activation in 16 bits
ROWS = BATCH * HEADS * LENGTH * 4  # logarithms of sums


def fused(q, k, v, mask=None):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, mask)
    return F._scaled_dot_product_attention(q, k, v, mask, 0.0, False, False)[0]


def by_hand(q, k, v, mask):
    """PyTorch's own products, as they run where no fused kernel does."""
    factor = 1 / math.sqrt(math.sqrt(q.shape[-1]))
    scores = torch.matmul(q.float() * factor, k.float().transpose(-2, -1) * factor)
    return torch.matmul(torch.softmax(scores + mask, -1), v.float()).to(q.dtype)


class Attention(nn.Module):
    """One layer: `lay` puts the heads in memory, `mask` makes a mask of the length."""

    def __init__(self, attend=fused, lay=lambda x: x, mask=None):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))
        self.attend, self.lay, self.mask = attend, lay, mask
        self.bias = nn.Embedding(32, HEADS)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (self.lay(project(x).view(b, s, HEADS, WIDTH).transpose(1, 2)) for project in (self.q, self.k, self.v))
        mask = () if self.mask is None else (self.mask(self, s),)
        return self.o(self.attend(q, k, v, *mask).transpose(1, 2).reshape(b, s, HIDDEN))


def relative(self, length):
    """A learned bias of positions, (1, heads, length, length): its last dimension is not contiguous."""
    places = torch.arange(length)
    return self.bias((places[:, None] - places[None, :]).clamp(-16, 15) + 16).permute(2, 0, 1).unsqueeze(0)


def kept(module, length=LENGTH):
    return nest.trace(module, torch.zeros(BATCH, length, HIDDEN), loss=None).saved_bytes(batch=BATCH)


class AttentionKeeps(unittest.TestCase):
    def test_result_lies_as_the_queries(self):
        # x; q, k and v; the result, which the last product reads as it lies; rows
        self.assertEqual(kept(Attention()), 5 * HALF_TENSOR + ROWS)
        # heads before positions in memory: the last product reads a copy
        self.assertEqual(kept(Attention(lay=lambda x: x.contiguous())), 6 * HALF_TENSOR + ROWS)

    def test_positions_before_the_batch(self):
        class Swapped(nn.Module):  # as torch.nn.MultiheadAttention lays them out
            def __init__(self):
                super().__init__()
                self.q, self.k, self.v, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))

            def forward(self, x):
                s, b, _ = x.shape
                q, k, v = (f(x).view(s, b * HEADS, WIDTH).transpose(0, 1).view(b, HEADS, s, WIDTH) for f in (self.q, self.k, self.v))
                return self.o(fused(q, k, v).permute(2, 0, 1, 3).contiguous().view(s * b, HIDDEN))

        graph = nest.trace(Swapped(), torch.zeros(LENGTH, BATCH, HIDDEN), batch_dim=1, sequence_dim=None, loss=None)
        self.assertEqual(graph.saved_bytes(batch=BATCH), 5 * HALF_TENSOR + ROWS)

    def test_learned_bias_is_written_out(self):
        reference = Attention(by_hand, mask=relative).to(torch.bfloat16)
        really = really_kept(reference, (torch.zeros(BATCH, LENGTH, HIDDEN, dtype=torch.bfloat16),))
        self.assertEqual(kept(Attention(mask=relative)), really)
        # scores in fp32 are most of it
        self.assertGreater(really, BATCH * HEADS * LENGTH * LENGTH * 4)

    def test_contiguous_bias_is_kept_once(self):
        bias = LENGTH * LENGTH * HEADS * 2
        index = LENGTH * LENGTH * 8
        module = Attention(mask=lambda self, length: relative(self, length).contiguous())
        self.assertEqual(kept(module), 5 * HALF_TENSOR + ROWS + bias + index)

    def test_masks_of_booleans_are_converted(self):
        mask = lambda self, length: torch.ones(length, length, dtype=torch.bool)
        self.assertEqual(kept(Attention(mask=mask)), 5 * HALF_TENSOR + ROWS + LENGTH * LENGTH * 2)

    def test_masks_of_odd_lengths_are_padded(self):
        mask = lambda self, length: torch.zeros(length, length, dtype=torch.bfloat16)
        tensors = 5 * HALF_TENSOR * 42 // 48 + ROWS * 42 // 48
        self.assertEqual(kept(Attention(mask=mask), 42), tensors + 42 * 48 * 2)

    def test_choice_of_kernels(self):
        def chosen(width=64, value_width=None, mask=None, dtype=torch.bfloat16, dims=4):
            shape = (2, 4, 32, width)[4 - dims:]
            q = torch.empty(shape, dtype=dtype, device="meta")
            return attention_kernel(q, q, torch.empty(shape[:-1] + (value_width or width,), dtype=dtype, device="meta"), mask)

        mask = torch.empty(2, 1, 32, 32, device="meta")
        self.assertEqual(chosen(), Kernel.flash)
        self.assertEqual(chosen(width=257), Kernel.products)
        self.assertEqual(chosen(width=512), Kernel.efficient)
        self.assertEqual(chosen(width=192, value_width=128), Kernel.efficient)
        self.assertEqual(chosen(dtype=torch.float32), Kernel.efficient)
        self.assertEqual(chosen(mask=mask), Kernel.efficient)
        self.assertEqual(chosen(mask=mask.transpose(2, 3)), Kernel.products)
        self.assertEqual(chosen(width=20, mask=mask), Kernel.products)
        self.assertEqual(chosen(dims=3), Kernel.products)


class Exported(unittest.TestCase):
    def program(self):
        """What torch.export gives: a flat graph that knows where its nodes come from and asserts what it was exported with."""
        graph = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)))
        for node in list(graph.graph.nodes):
            node.meta["nn_module_stack"] = {"at": (str(node.target), nn.Linear)}
            if node.op == "call_module" and hasattr(torch.ops.aten, "_assert_tensor_metadata"):
                with graph.graph.inserting_after(node):
                    graph.graph.call_function(torch.ops.aten._assert_tensor_metadata, (node,), {"dtype": torch.float32})
        graph.recompile()
        return graph

    def test_types_stay_as_they_are(self):
        graph = nest.trace(self.program(), torch.zeros(4, 8))
        self.assertEqual({w["dtype"] for w in graph.data["weights"]}, {"float32"})
        self.assertEqual(graph.saved_bytes(batch=4), 4 * (8 + 16 + 16) * 4)
        self.assertEqual(graph.parameters, 8 * 16 + 16 + 16 * 4 + 4)

    def test_modules_become_bfloat16(self):
        graph = nest.trace(nn.Linear(8, 16), torch.zeros(4, 8))
        self.assertEqual({w["dtype"] for w in graph.data["weights"]}, {"bfloat16"})


if __name__ == "__main__":
    unittest.main()
