"""Networks of scripts/compare-qat.py: what a recipe says of them, and the same in PyTorch of given
kinds of layers.
"""

import json
import sys

import numpy as np

WIDTH, HEADS, BLOCKS = 64, 4, 2  # of the GPT, whose tied embedding and head stay float everywhere


# ---- lists of layers -----------------------------------------------------------------------------

def linear(name, inputs, outputs, relu=True):
    return dict(kind="linear", name=name, inputs=inputs, outputs=outputs, relu=relu)


def conv(dims, name, inputs, outputs, kernel, **window):
    """With a batch norm and relu."""
    return dict(kind=f"conv{dims}d", name=name, inputs=inputs, outputs=outputs,
                window=dict(kernel=kernel, **window))


def mlp(*sizes):
    hidden = [linear(f"l{i + 1}", a, b) for i, (a, b) in enumerate(zip(sizes, sizes[1:-1]))]
    return [*hidden, linear("head", *sizes[-2:], relu=False)]


def pooled(*convs, classes):
    return [*convs, dict(kind="pool", dims=int(convs[0]["kind"][4])),
            linear("head", convs[-1]["outputs"], classes, relu=False)]


def signals(classes):
    return pooled(conv(1, "c1", 1, 24, 5, stride=2, padding=2),
                  conv(1, "c2", 24, 32, 3, stride=2, padding=1),
                  conv(1, "c3", 32, 32, 3, padding=1), classes=classes)


NETWORKS = {  # data, shape of an example, layers
    "mlp": ("mnist1d", [40], mlp(40, 128, 64, 10)),
    "cnn": ("mnist1d", [1, 40], signals(10)),
    "gru": ("mnist1d", [10, 4], [dict(kind="gru", name="memory", inputs=4, outputs=48),
                                 linear("head", 48, 10, relu=False)]),
    "dscnn": ("sounds", [1, 32, 16], pooled(
        conv(2, "stem", 1, 24, [8, 4], stride=2, padding=[3, 1]),
        conv(2, "dw1", 24, 24, 3, padding=1, groups=24), conv(2, "pw1", 24, 32, 1),
        conv(2, "dw2", 32, 32, 3, padding=1, groups=32), conv(2, "pw2", 32, 32, 1), classes=10)),
    "vowels": ("JapaneseVowels", [348], mlp(348, 64, 32, 9)),
    "leaves": ("OSULeaf", [1, 427], signals(6)),
    "gpt": ("text", None, None),
}


def yaml_of(layer):
    head = f"{layer['kind']}: {layer.get('name')}, "
    if layer["kind"] == "linear":
        activation = ", activation: relu" if layer["relu"] else ""
        return f"{{{head}out: {layer['outputs']}{activation}}}"
    if layer["kind"] == "gru":
        return f"{{{head}hidden: {layer['outputs']}, last: true}}"
    if layer["kind"] == "pool":
        return f"global_avg_pool{layer['dims']}d, flatten"
    window = ", ".join(f"{k}: {v}" for k, v in layer["window"].items())
    return f"{{{head}out: {layer['outputs']}, {window}, norm: batch, activation: relu}}"


def model_of(network, data):
    """`model` of a recipe."""
    _, shape, layers = NETWORKS[network]
    if layers is None:
        return (f"{{family: gpt, vocab: {data.vocab}, context: {data.context}, layers: {BLOCKS}, "
                f"heads: {HEADS}, width: {WIDTH}, bias: false}}")
    return (f"{{family: layers, input: {shape}, layers: [" +
            ", ".join(yaml_of(layer) for layer in layers) + "]}")


def rules_of(network):
    """Settings of QAT for what no tool quantizes."""
    skipped = ["tokens", "head"] if NETWORKS[network][2] is None else []
    return [f"qat.rules=[{', '.join(f'{{match: {s}, skip: true}}' for s in skipped)}]"] * bool(
        skipped)


# ---- PyTorch -------------------------------------------------------------------------------------

def network_of(name, data, kinds):
    """kinds: linear, conv1d and conv2d, as in torch.nn."""
    from torch import nn
    _, _, layers = NETWORKS[name]
    if layers is None:
        return gpt(data, kinds["linear"])
    norms = {"conv1d": nn.BatchNorm1d, "conv2d": nn.BatchNorm2d}
    pools = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d}
    modules = []
    for layer in layers:
        kind = layer["kind"]
        if kind == "linear":
            modules += [kinds["linear"](layer["inputs"], layer["outputs"], True)]
            modules += [nn.ReLU()] if layer["relu"] else []
        elif kind == "gru":
            modules += [gru(layer["inputs"], layer["outputs"], kinds["linear"])]
        elif kind == "pool":
            modules += [pools[layer["dims"]](1), nn.Flatten()]
        else:
            window = dict(layer["window"])
            modules += [kinds[kind](layer["inputs"], layer["outputs"], window.pop("kernel"),
                                    bias=False, **window), norms[kind](layer["outputs"]), nn.ReLU()]
    return nn.Sequential(*modules)


def gru(inputs, outputs, layer):
    import torch
    from torch import nn

    class Gru(nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.h = layer(inputs, 3 * outputs, True), layer(outputs, 3 * outputs, True)

        def forward(self, x):
            h = x.new_zeros(x.shape[0], outputs)
            ix = self.x(x)
            for i in range(x.shape[1]):
                ir, iz, inn = ix[:, i].chunk(3, 1)
                hr, hz, hn = self.h(h).chunk(3, 1)
                r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
                h = (1 - z) * torch.tanh(inn + r * hn) + z * h
            return h

    return Gru()


def gpt(data, layer):
    """detent's family gpt, with its names; the result is [windows, vocab, context]."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.out = (layer(WIDTH, WIDTH, False) for _ in range(4))

        def forward(self, x):
            q, k, v = (m(x).unflatten(2, (HEADS, -1)).transpose(1, 2)
                       for m in (self.q, self.k, self.v))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).flatten(2))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = layer(WIDTH, 4 * WIDTH, False), layer(4 * WIDTH, WIDTH, False)

        def forward(self, x):
            return self.down(functional.gelu(self.up(x), approximate="tanh"))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attn = nn.LayerNorm(WIDTH), Attention()
            self.norm2, self.mlp = nn.LayerNorm(WIDTH), Mlp()

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(data.vocab, WIDTH)
            self.positions = nn.Embedding(data.context, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            return functional.linear(self.norm(x), self.tokens.weight).transpose(1, 2)

    return Gpt()


def load(module, path, network):
    """Puts detent's float weights into the network: by name, or as its tensors have the same
    order."""
    import torch
    with open(path, "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        body = f.read()
    head.pop("__metadata__", None)
    theirs = {}
    for name, t in head.items():
        a, b = t["data_offsets"]
        if t["dtype"] == "F32":
            theirs[name] = torch.tensor(np.frombuffer(body[a:b], np.float32).reshape(t["shape"]))
    own = module.state_dict()
    todo = [k for k, v in own.items() if v.dtype.is_floating_point and "quant" not in k]
    taken = {}
    for name in in_order(theirs, network):
        place = next((k for k in todo if k not in taken and own[k].shape == theirs[name].shape and (
            last(k) == last(name) if NETWORKS[network][2] else k == name)), None)
        taken[place] = theirs[name]
    if set(taken) != set(todo):
        sys.exit(f"{network}: the weights do not fit: {sorted(theirs)} {sorted(todo)}")
    for place, value in taken.items():
        own[place].copy_(value)


def in_order(names, network):
    """Layer after layer."""
    layers = [layer.get("name") for layer in NETWORKS[network][2] or []]
    if not layers:
        return list(names)
    return sorted(names, key=lambda n: (layers.index(n.split(".")[0]), rank(n)))


def last(name):
    return name.split(".")[-1]


def rank(name):
    """weight before bias, of the layer before the norm; of a GRU the input's before the state's."""
    places = ["weight", "bias", "running_mean", "running_var"]
    return ("norm" in name, ".hh" in name or "hidden" in name, places.index(last(name)))
