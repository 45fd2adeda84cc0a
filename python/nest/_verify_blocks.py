"""Blocks of nest.verify, and their experts. The parts are those of _verify_modules."""
import torch
import torch.nn.functional as F
from torch import nn

from . import _verify_fused as fused
from ._verify_modules import ACTIVATIONS, Attention, FeedForward, Kept, Linear, Repeated, Unsupported, norm_of, run_again


class Experts(nn.Module):
    """Routed experts of one rank behind a router that is exactly balanced: rows are those that an even spread gives, whatever the data."""

    def __init__(self, cut, spec):
        super().__init__()
        self.cut, self.top_k = cut, spec["top_k"]
        self.local, width, hidden = spec["experts"] // cut.ep, spec["width"] // cut.etp, spec["hidden"]
        self.router = Linear(cut, spec["experts"], hidden, sixteen=True)
        self.up = cut.parameter(self.local, 2 * width if spec["gated"] else width, hidden)
        self.down = cut.parameter(self.local, hidden, width)
        self.gated, self.activation = spec["gated"], ACTIVATIONS[spec["activation"]]
        self.choice = self.ends = self.dropped = None

    def expert_parameters(self):
        return [self.up, self.down]

    def _chosen(self, rows, device):
        """The expert of every row of (token, choice): as many for each, in the mixed order that routing gives."""
        if self.choice is None:
            experts = (torch.arange(rows, device=device) * self.local) // rows
            self.choice = experts[torch.randperm(rows, device=device)]
            received = rows * self.cut.etp
            self.ends = torch.tensor([received * (i + 1) // self.local for i in range(self.local)], device=device, dtype=torch.int32)
        return self.choice

    def _sorted(self, rows, device):
        """What routing works out for every micro-batch: the order of rows by expert, its inverse, and where the rows of each end."""
        experts, order = torch.sort(self._chosen(rows, device))
        back = torch.empty_like(order)
        back[order] = torch.arange(rows, device=device)
        counts = torch.histc(experts.float() if device.type == "cpu" else experts.int(), bins=self.local, min=0, max=self.local - 1)
        ends = torch.cumsum(counts, 0, dtype=torch.int32)
        strangers = (experts >= self.local).unsqueeze(-1)  # rows of no expert that is here: none
        return order, back, ends if self.cut.etp == 1 else self.ends, strangers

    def _product(self, x, weight, ends):
        if x.is_cuda and hasattr(torch, "_grouped_mm"):
            return torch._grouped_mm(x, weight.transpose(-2, -1), offs=ends)
        edges = [0] + ends.tolist()
        return torch.cat([F.linear(x[a:b], weight[i]) for i, (a, b) in enumerate(zip(edges, edges[1:]))])

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        scores = self.router(flat).softmax(-1, dtype=torch.float32)
        weights = scores.topk(self.top_k, -1)[0]
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        rows = flat.shape[0] * self.top_k
        if self.cut.fused:
            return self._fused(flat, weights, rows).view_as(x)
        order, back, ends, strangers = self._sorted(rows, x.device)
        routed = flat[order // self.top_k].masked_fill_(strangers, 0)
        shares = weights.reshape(-1)[order].unsqueeze(-1)
        if self.cut.etp > 1:
            routed, shares = (Repeated.apply(y, self.cut.etp) for y in (routed, shares))
            strangers = strangers[:1]
        up = self._product(routed, self.up, ends).masked_fill(strangers, 0)
        if self.gated:
            gate, up = up.chunk(2, -1)
            up = self.activation(gate) * up
        else:
            up = self.activation(up)
        done = self._product(up, self.down, ends).masked_fill(strangers, 0) * shares
        if self.cut.etp > 1:
            done = Kept.apply(done, 0, rows, self.cut)
        done = done[back]
        return done.view(flat.shape[0], self.top_k, -1).sum(1).view_as(x)


    def _fused(self, flat, weights, rows):
        if not self.gated:
            raise Unsupported("experts without a gate: nest.verify has fused modules for gated ones; --modules written runs them")
        order, back, ends, _ = self._sorted(rows, flat.device)
        routed = fused.Dispatched.apply(flat, order, back, self.top_k)
        shares = weights.reshape(-1)[order].unsqueeze(-1)
        if self.cut.etp > 1:
            routed, shares = (Repeated.apply(y, self.cut.etp) for y in (routed, shares))
        both = self._product(routed, self.up, ends)
        done = fused.Weighted.apply(both, shares)
        if self.dropped is not None:
            self.dropped.add(done, lambda: fused._weighted_forward(both, shares))
        done = self._product(done, self.down, ends)
        if self.cut.etp > 1:
            done = Kept.apply(done, 0, rows, self.cut)
        return fused.Combined.apply(done, order, back, self.top_k)


class Mixture(nn.Module):
    """Routed experts see this rank's tokens alone; shared experts are divided as a feed-forward is, and see those of all."""

    def __init__(self, cut, spec):
        super().__init__()
        self.cut = cut
        self.experts = Experts(cut, spec)
        self.shared = None
        if spec.get("shared"):
            self.shared = FeedForward(cut, spec["hidden"], spec["shared"] // cut.tp, spec["activation"], spec["gated"])
        self.switch = Linear(cut, 1, spec["hidden"], sixteen=True) if spec.get("switch") else None

    def forward(self, x):
        y = self.experts(x)
        if self.shared is None:
            return y
        shared = self.cut.scatter(self.shared(self.cut.gather(x)))
        if self.switch is not None:
            shared = torch.sigmoid(self.switch(x)) * shared
        return y + shared


class Block(nn.Module):
    def __init__(self, cut, spec, again=()):
        super().__init__()
        self.cut, self.again = cut, frozenset(again)
        self.attention_norm, self.ffn_norm = norm_of(cut, spec["attention_norm"]), norm_of(cut, spec["ffn_norm"])
        self.after_attention, self.after_ffn = norm_of(cut, spec.get("attention_output_norm")), norm_of(cut, spec.get("ffn_output_norm"))
        self.attention = Attention(cut, spec["attention"], self.again)
        if spec.get("mixture"):
            self.ffn, self.mixed = Mixture(cut, spec["mixture"]), True
        else:
            part = spec["ffn"]
            self.ffn, self.mixed = FeedForward(cut, part["hidden"], part["width"] // cut.tp, part["activation"], part["gated"], part["up_bias"],
                                               part["down_bias"]), False

    def _feed(self, x):
        return self.ffn(x) if self.mixed else self.cut.scatter(self.ffn(self.cut.gather(x)))

    def forward(self, x):
        if not self.again & {"norm", "moe_activation"}:
            return self._forward(x, None)
        with fused.Dropped() as dropped:
            return self._forward(x, dropped)

    def _normed(self, norm, x, dropped):
        if norm is None:
            return x
        if dropped is None or "norm" not in self.again or not norm.alone:
            return norm(x)
        y = norm(x) if self.cut.fused else run_again(norm, x)
        dropped.add(y, lambda: norm(x))
        return y

    def _forward(self, x, dropped):
        if self.mixed:
            self.ffn.experts.dropped = dropped if "moe_activation" in self.again else None
        y = self.attention(self._normed(self.attention_norm, x, dropped))
        x = x + (self.after_attention(y) if self.after_attention else y)
        y = self._normed(self.ffn_norm, x, dropped)
        again = "moe" if self.mixed else "feed_forward"
        y = run_again(self._feed, y) if again in self.again else self._feed(y)
        return x + (self.after_ffn(y) if self.after_ffn else y)


def expert_parameters(module):
    """Those that other ranks hold in other numbers: the routed experts' own."""
    return [p for part in module.modules() if isinstance(part, Experts) for p in part.expert_parameters()]
