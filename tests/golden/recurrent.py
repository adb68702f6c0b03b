#!/usr/bin/env python3
"""Makes ops/{gru,lstm}_cell and nets/{gru,gru_reset_before,lstm,rnn}.safetensors by PyTorch.

    python3 -m venv V && V/bin/pip install torch numpy safetensors
    OMP_NUM_THREADS=1 V/bin/python tests/golden/recurrent.py

All in float64; every input is a float32 number, so that tests in f32 begin with the same values.
Names of tensors, of case N:

    cN.in.x, cN.in.h0, cN.in.c0        inputs: x [batch, time, in], states [layers d, batch, hidden]
    cN.param.weight_ih_l0, ...         PyTorch's names and shapes; where the reset gate comes before
                                       the product, weight_hh has [2 hidden, hidden], and
                                       weight_hn_l0, bias_hn_l0 are those of the last gate
    cN.out.y, cN.out.h_n, cN.out.c_n   outputs
    cN.up.<output>                     upstream gradients: loss = sum of up * out
    cN.grad.<input or parameter>       gradients of the loss

and for the cells cN.in.gi, cN.in.gh, cN.in.h (lstm: cN.in.state, [2 batch, hidden], h above c).
"""
import os

import torch
from safetensors.torch import save_file

ROOT = os.path.dirname(os.path.abspath(__file__))

#        in hidden layers both  bias  batch time states
CASES = [(3, 4, 1, False, True, 2, 5, False),
         (1, 1, 1, False, True, 3, 1, True),
         (3, 5, 2, True, True, 2, 4, True),
         (2, 3, 3, False, False, 1, 7, False),
         (2, 11, 1, True, True, 2, 25, False)]
CELLS = [(1, 1, 1.0), (3, 5, 1.0), (4, 9, 6.0)]  # rows, hidden, range of the products


def draw(generator, shape, most=1.0):
    values = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
    return (values * most).float().double()


def save(path, op, tensors, settings, cases):
    meta = {"op": op, "cases": ",".join("c%d" % i for i in range(cases)),
            "torch": torch.__version__.split("+")[0], **settings}
    contiguous = {k: v.detach().clone().contiguous() for k, v in tensors.items()}
    save_file(contiguous, os.path.join(ROOT, path), metadata=meta)


class ResetBefore(torch.nn.Module):
    """A GRU as in ONNX without linear_before_reset, which PyTorch has not:

        r, z = sigmoid(ih_rz(x) + hh(h))    n = tanh(ih_n(x) + hn(r h))    h' = (1 - z) n + z h
    """

    def __init__(self, width, hidden, layers, bias, batch_first, bidirectional):
        super().__init__()
        assert batch_first
        self.hidden, self.bias = hidden, bias
        self.ends = ["l%d%s" % (layer, end) for layer in range(layers)
                     for end in ("", "_reverse")[:1 + bidirectional]]
        for end in self.ends:
            inputs = width if end.startswith("l0") else hidden * (1 + bidirectional)
            for part, rows, columns in (("ih", 3, inputs), ("hh", 2, hidden), ("hn", 1, hidden)):
                self.add("weight_%s_%s" % (part, end), rows * hidden, columns)
                if bias:
                    self.add("bias_%s_%s" % (part, end), rows * hidden)

    def add(self, name, *shape):
        self.register_parameter(name, torch.nn.Parameter(torch.zeros(*shape)))

    def product(self, part, end, x):
        bias = getattr(self, "bias_%s_%s" % (part, end)) if self.bias else None
        return torch.nn.functional.linear(x, getattr(self, "weight_%s_%s" % (part, end)), bias)

    def one_way(self, end, x, h):
        steps = list(x.unbind(1))
        y = []
        for step in reversed(steps) if end.endswith("_reverse") else steps:
            of_x = self.product("ih", end, step)
            first, last = of_x[:, :2 * self.hidden], of_x[:, 2 * self.hidden:]
            r, z = torch.sigmoid(first + self.product("hh", end, h)).chunk(2, 1)
            n = torch.tanh(last + self.product("hn", end, r * h))
            h = (1 - z) * n + z * h
            y.append(h)
        return torch.stack(y[::-1] if end.endswith("_reverse") else y, 1), h

    def forward(self, x, start):
        if start is None:
            start = x.new_zeros(len(self.ends), len(x), self.hidden)
        ways = 1 + any(end.endswith("_reverse") for end in self.ends)
        final = []
        for i in range(0, len(self.ends), ways):
            done = [self.one_way(self.ends[i + k], x, start[i + k]) for k in range(ways)]
            x = torch.cat([y for y, _ in done], 2)
            final += [h for _, h in done]
        return x, torch.stack(final)


NETWORKS = {"gru": torch.nn.GRU, "gru_reset_before": ResetBefore, "lstm": torch.nn.LSTM,
            "rnn": torch.nn.RNN}


def network(name):
    """A whole layer. Every other case of rnn has relu in place of tanh."""
    tensors, settings = {}, {}
    states = 2 if name == "lstm" else 1
    for i, (width, hidden, layers, both, bias, batch, time, given) in enumerate(CASES):
        g = torch.Generator().manual_seed(100 + i)
        relu = name == "rnn" and i % 2 == 1
        net = NETWORKS[name](width, hidden, layers, bias=bias, batch_first=True, bidirectional=both,
                             **({"nonlinearity": "relu"} if relu else {})).double()
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(draw(g, p.shape, 0.7))
        inputs = {"x": draw(g, (batch, time, width))}
        for state in ["h0", "c0"][:states] if given else []:
            inputs[state] = draw(g, (layers * (1 + both), batch, hidden))
        for x in inputs.values():
            x.requires_grad_(True)
        start = [inputs[s] for s in ("h0", "c0") if s in inputs]
        start = None if not start else start[0] if states == 1 else tuple(start)
        y, last = net(inputs["x"], start)
        out = {"y": y, **dict(zip(("h_n", "c_n"), [last] if states == 1 else last))}
        up = {k: draw(g, v.shape) for k, v in out.items()}
        sum((up[k] * out[k]).sum() for k in out).backward()
        at = "c%d." % i
        for k, x in inputs.items():
            tensors[at + "in." + k], tensors[at + "grad." + k] = x, x.grad
        for k, p in net.named_parameters():
            tensors[at + "param." + k], tensors[at + "grad." + k] = p, p.grad
        for k in out:
            tensors[at + "out." + k], tensors[at + "up." + k] = out[k], up[k]
        for k, v in (("in", width), ("hidden", hidden), ("layers", layers),
                     ("bidirectional", both), ("bias", bias), ("relu", relu)):
            if k != "relu" or name == "rnn":
                settings[at + k] = str(v).lower()
    save("nets/%s.safetensors" % name, name, tensors, settings, len(CASES))


def cell_row(name, gi, gh, state):
    """torch.nn.GRUCell or LSTMCell on one row, whose products are gi and gh: the input is gi with
    the identity as its weight; gh is the bias of the state, whose weight is 0."""
    gates, hidden = gi.numel(), state[0].numel()
    zero = torch.zeros(gates, hidden, dtype=torch.float64)
    weights = (torch.eye(gates, dtype=torch.float64), zero, torch.zeros(gates).double(), gh)
    if name == "gru_cell":
        return torch.gru_cell(gi[None], state[0][None], *weights)
    return torch.lstm_cell(gi[None], [s[None] for s in state], *weights)


def cell(name):
    gates = 3 if name == "gru_cell" else 4
    tensors = {}
    for i, (rows, hidden, most) in enumerate(CELLS):
        g = torch.Generator().manual_seed(200 + i)
        states = gates - 2
        state = "h" if states == 1 else "state"
        x = {"gi": draw(g, (rows, gates * hidden), most), "gh": draw(g, (rows, gates * hidden)),
             state: draw(g, (states * rows, hidden))}
        for v in x.values():
            v.requires_grad_(True)
        parts = x[state].reshape(states, rows, hidden)
        out = [cell_row(name, x["gi"][r], x["gh"][r], [parts[s, r] for s in range(states)])
               for r in range(rows)]
        y = torch.cat(out) if states == 1 else torch.cat([o[s] for s in range(2) for o in out])
        up = draw(g, y.shape)
        (up * y).sum().backward()
        at = "c%d." % i
        for k, v in x.items():
            tensors[at + "in." + k], tensors[at + "grad." + k] = v, v.grad
        tensors[at + "out.y"], tensors[at + "up.y"] = y, up
    save("ops/%s.safetensors" % name, name, tensors, {}, len(CELLS))


torch.set_num_threads(1)
for which in NETWORKS:
    network(which)
for which in ("gru", "lstm"):
    cell(which + "_cell")
