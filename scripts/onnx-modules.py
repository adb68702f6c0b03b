"""Every module of torch.nn that has no random state through both exporters of torch.onnx, imported
and compared with PyTorch: equal, refused with a reason, or wrong, which fails.

    python3 scripts/onnx-modules.py DETENT [--all | --forms old17,new18] [NAME ...]

The modules are those that torch.nn has, less LEFT_OUT; one that is in neither table fails, too.
Without --all the newer exporter runs its first and its newest version of the operators alone.
Networks of several modules come first. Needs torch, onnx, onnxscript, onnxruntime."""
import argparse
import collections
import inspect
import logging
import os
import re
import sys
import tempfile
import warnings

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples",
                                "python"))
from from_torch import NotImported, from_torch  # noqa: E402  (after its folder is known)

OLD = list(range(13, 21))  # versions that the exporter of TorchScript writes
NEW = list(range(18, 26))  # those of the exporter of torch.export

LEFT_OUT = [
    (r".*Loss(2d)?|AdaptiveLogSoftmaxWithLoss", "losses"),
    (r"Lazy.*", "take their sizes from the first batch"),
    (r"Module|Sequential|ModuleList|ModuleDict|ParameterList|ParameterDict|Container|DataParallel"
     r"|RNNBase|RNNCellBase", "hold other modules"),
    (r"FractionalMaxPool[23]d", "random in evaluation, too"),
    (r"SyncBatchNorm", "of several processes"),
]

# What import refuses, and why; of whole names of cases.
REFUSED = [
    (r"Conv3d|ConvTranspose3d", "no layer has three spatial dimensions"),
    (r"Embedding(Bag)?", "its input has integers; a model of layers reads floats"),
    (r"LocalResponseNorm", "the older exporter writes a branch (If)"),
    (r"(GRU|LSTM|RNN)(Cell)?(, .*)?", "without the forms of docs/program.md"),
]

LINE, IMAGE, BLOCK = (2, 4, 9), (2, 4, 8, 8), (2, 4, 4, 4, 4)
OF_RANK = {"1d": LINE, "2d": IMAGE, "3d": BLOCK}


def tokens(*shape):
    """A batch of identifiers below 10."""
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % 10


def each(name, *arguments, shape=None, **options):
    """A module of one, two or three extents, each with its input."""
    return {name + rank: [(arguments, options, [shape or of])] for rank, of in OF_RANK.items()}


def plain(names, arguments=(), shape=IMAGE):
    return {name: [(arguments, {}, [shape])] for name in names.split()}


# Name of a module: its cases, each (arguments, options, inputs: shapes or tensors).
MODULES = {
    **plain("CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity LeakyReLU "
            "LogSigmoid Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink "
            "Softsign Tanh Tanhshrink Softmax2d Flatten"),
    "GELU": [((), {}, [IMAGE]), ((), {"approximate": "tanh"}, [IMAGE])],
    "PReLU": [((), {}, [IMAGE]), ((4,), {}, [IMAGE])],
    "Threshold": [((0.1, 0.0), {}, [IMAGE])],
    "GLU": [((1,), {}, [IMAGE])],
    "Softmax": [((1,), {}, [(2, 5)]), ((-1,), {}, [LINE])],
    "LogSoftmax": [((1,), {}, [(2, 5)]), ((-1,), {}, [LINE])],
    "Softmin": [((1,), {}, [(2, 5)])],
    "Linear": [((5, 3), {}, [(2, 5)]), ((9, 3), {"bias": False}, [LINE])],
    "Bilinear": [((5, 3, 4), {}, [(2, 5), (2, 3)])],
    "Embedding": [((10, 4), {}, [tokens(2, 5)])],
    "EmbeddingBag": [((10, 4), {"mode": "sum"}, [tokens(2, 5)])],
    "Dropout": [((), {}, [IMAGE])], "AlphaDropout": [((), {}, [IMAGE])],
    "FeatureAlphaDropout": [((), {}, [IMAGE])],
    **each("Dropout"), **each("AdaptiveAvgPool", 2), **each("AdaptiveMaxPool", 2),
    **each("AvgPool", 2), **each("MaxPool", 2), **each("LPPool", 2, 2),
    **each("Conv", 4, 6, 3, padding=1), **each("ConvTranspose", 4, 6, 3, stride=2),
    **each("BatchNorm", 4), **each("InstanceNorm", 4, affine=True),
    **each("CircularPad", 1), **each("ConstantPad", 1, 0.5), **each("ReflectionPad", 1),
    **each("ReplicationPad", 1), **each("ZeroPad", 1),
    "AdaptiveAvgPool2d": [((1,), {}, [IMAGE]), ((2,), {}, [IMAGE])],
    "AvgPool2d": [((2,), {}, [IMAGE]), ((3, 2, 1), {}, [IMAGE]),
                  ((3, 2, 1), {"count_include_pad": False}, [IMAGE]),
                  ((3, 2), {"ceil_mode": True}, [IMAGE])],
    "MaxPool2d": [((2,), {}, [IMAGE]), ((3, 2, 1), {}, [IMAGE]),
                  ((3, 2), {"ceil_mode": True}, [IMAGE]), ((2, 1, 0, 2), {}, [IMAGE])],
    "Conv2d": [((4, 6, 3), {}, [IMAGE]), ((4, 6, 3, 2, 1), {"groups": 2}, [IMAGE]),
               ((4, 4, 3), {"groups": 4, "dilation": 2}, [IMAGE]),
               ((4, 6, 3), {"padding": "same", "bias": False}, [IMAGE]),
               ((4, 6, 3), {"padding": 1, "padding_mode": "reflect"}, [IMAGE])],
    "MaxUnpool1d": [], "MaxUnpool2d": [], "MaxUnpool3d": [],  # read indices of a MaxPool
    "GroupNorm": [((2, 4), {}, [IMAGE])],
    "LayerNorm": [((9,), {}, [LINE]), (([4, 9],), {}, [LINE])],
    "RMSNorm": [((9,), {}, [LINE])],
    "LocalResponseNorm": [((2,), {}, [IMAGE])], "CrossMapLRN2d": [((2,), {}, [IMAGE])],
    "CosineSimilarity": [((), {}, [(2, 5), (2, 5)])],
    "PairwiseDistance": [((), {}, [(2, 5), (2, 5)])],
    "ChannelShuffle": [((2,), {}, [IMAGE])], "PixelShuffle": [((2,), {}, [IMAGE])],
    "PixelUnshuffle": [((2,), {}, [IMAGE])],
    "Unflatten": [((1, (2, 2)), {}, [IMAGE])],
    "Fold": [(((5, 5), (2, 2)), {}, [(2, 12, 16)])], "Unfold": [((3,), {}, [IMAGE])],
    "Upsample": [((), {"scale_factor": 2}, [IMAGE]),
                 ((), {"scale_factor": 2, "mode": "bilinear"}, [IMAGE])],
    "UpsamplingBilinear2d": [((), {"scale_factor": 2}, [IMAGE])],
    "UpsamplingNearest2d": [((), {"scale_factor": 2}, [IMAGE])],
    "GRU": [((5, 4), {"batch_first": True}, [(2, 6, 5)]),
            ((5, 4, 2), {"batch_first": True, "bidirectional": True}, [(2, 6, 5)])],
    "LSTM": [((5, 4), {"batch_first": True}, [(2, 6, 5)]),
             ((5, 4, 2), {"batch_first": True, "bidirectional": True}, [(2, 6, 5)])],
    "RNN": [((5, 4), {"batch_first": True}, [(2, 6, 5)])],
    "GRUCell": [((5, 4), {}, [(2, 5), (2, 4)])], "RNNCell": [((5, 4), {}, [(2, 5), (2, 4)])],
    "LSTMCell": [((5, 4), {}, [(2, 5)])],
    "MultiheadAttention": [((8, 2), {"batch_first": True}, [(2, 5, 8)] * 3)],
    "TransformerEncoderLayer": [((8, 2, 16), {"batch_first": True}, [(2, 5, 8)])],
    "TransformerDecoderLayer": [((8, 2, 16), {"batch_first": True}, [(2, 5, 8)] * 2)],
    "TransformerEncoder": [((nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
                            {"enable_nested_tensor": False}, [(2, 5, 8)])],
    "TransformerDecoder": [((nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2), {},
                            [(2, 5, 8)] * 2)],
    "Transformer": [((8, 2, 1, 1, 16), {"batch_first": True}, [(2, 5, 8)] * 2)],
}


class Residual(nn.Module):
    """x + f(x), behind a ReLU."""

    def __init__(self, *layers):
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, x):
        return torch.relu(x + self.body(x))


class First(nn.Module):
    """The first result of several: the sequence without the state, whose batch is second."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *x):
        return self.layer(*x)[0]


class Last(nn.Module):
    """The last step of a recurrent module's results."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0][:, -1]


def unit(n_in, n_out, kernel=3, act=nn.ReLU, **options):
    return [nn.Conv2d(n_in, n_out, kernel, bias=False, **options), nn.BatchNorm2d(n_out), act()]


def networks():
    """Small networks of usual kinds: a name, the network, its input."""
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    yield "mlp", nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), (2, 8)
    yield "cnn", nn.Sequential(*unit(4, 8, padding=1), nn.MaxPool2d(2), *unit(8, 8), *pool,
                               nn.Linear(8, 5)), IMAGE
    yield "residual", nn.Sequential(Residual(*unit(4, 4, padding=1), nn.Conv2d(4, 4, 1)), *pool,
                                    nn.Linear(4, 5)), IMAGE
    yield "mobile", nn.Sequential(*unit(4, 8, 1, nn.Hardswish), *unit(8, 8, 3, nn.ReLU6, groups=8,
                                                                      padding=1), *pool), IMAGE
    yield "silu, group norm", nn.Sequential(nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8),
                                            nn.SiLU()), IMAGE
    yield "unet step", nn.Sequential(nn.Conv2d(4, 8, 2, 2), nn.GELU(),
                                     nn.ConvTranspose2d(8, 4, 2, 2)), IMAGE
    yield "sound", nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.ReLU(),
                                 nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 2)), LINE
    yield "gru", Last(nn.GRU(5, 4, batch_first=True)), (2, 6, 5)
    yield "lstm", nn.Sequential(Last(nn.LSTM(5, 4, batch_first=True)), nn.Linear(4, 2)), (2, 6, 5)
    yield "mixer", nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8),
                                 nn.Softmax(-1)), (2, 6, 8)
    yield "autoencoder", nn.Sequential(nn.Flatten(), nn.Linear(36, 6), nn.Tanh(), nn.Linear(6, 36),
                                       nn.Unflatten(1, (4, 9))), LINE
    yield "upsampling", nn.Sequential(*unit(4, 4), nn.Upsample(scale_factor=2),
                                      nn.PixelShuffle(2)), IMAGE


class Changed(nn.Module):
    """Exported, it computes something else."""

    def forward(self, x):
        return x * (1.05 if torch.onnx.is_in_onnx_export() or torch.compiler.is_exporting() else 1)


def shows_changes(detent):
    """Whether the tables of from_torch say where an exported network has changed."""
    module = nn.Sequential(*unit(4, 4), Residual(nn.Conv2d(4, 4, 1), Changed()), nn.Conv2d(4, 2, 1))
    stir(module)
    for dynamo in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.safetensors")
            try:
                from_torch(module, torch.randn(IMAGE), path, dynamo=dynamo, detent=detent)
                return False
            except NotImported as stopped:
                first = re.search(r"the first that differs .*: '(.*)', of layer (.*)",
                                  str(stopped))
                if stopped.stage != "compare" or first is None or "Mul" not in first[2] or \
                        "so the exported file is not" not in str(stopped) or os.path.exists(path):
                    return False
    return True


def names_of_torch():
    """All modules of torch.nn, less those left out."""
    found = [name for name, of in vars(nn).items()
             if inspect.isclass(of) and issubclass(of, nn.Module)]
    return sorted(name for name in found
                  if not any(re.fullmatch(pattern, name) for pattern, _ in LEFT_OUT))


def stir(module):
    """Statistics of norms as training leaves them."""
    for part in module.modules():
        if getattr(part, "running_var", None) is not None:
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)


def attempt(detent, module, inputs, dynamo, opset):
    """"equal", "exporter", "refused" or "wrong", and why."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.safetensors")
        try:
            from_torch(module, inputs, path, dynamo=dynamo, opset=opset, detent=detent)
            return "equal", ""
        except NotImported as stopped:
            kind = {"export": "exporter", "import": "refused", "compare": "wrong"}[stopped.stage]
            lines = [line for line in str(stopped).splitlines() if "there will be" not in line]
            return kind, "\n".join(lines) if kind == "wrong" else lines[-1]


def make(name, case):
    arguments, options, inputs = case
    torch.manual_seed(1)
    module = getattr(nn, name)(*arguments, **options)
    stir(module)
    given = tuple(x if isinstance(x, torch.Tensor) else torch.randn(x) for x in inputs)
    return module, given


def forms(every, named):
    """Exporters and versions that are tried."""
    if named:
        return [(form[:3] == "new", int(form[3:])) for form in named.split(",")]
    new = NEW if every else [NEW[0], NEW[-1]]
    return [(False, opset) for opset in OLD] + [(True, opset) for opset in new]


def main(detent, *words):
    options = argparse.ArgumentParser()
    options.add_argument("--all", action="store_true")
    options.add_argument("--forms", default="")
    options.add_argument("names", nargs="*")
    given = options.parse_args(words)
    every, wanted = given.all, given.names
    counts = collections.defaultdict(collections.Counter)
    reasons = {}
    missing = [name for name in names_of_torch() if name not in MODULES]
    cases = [] if wanted else [(name, net, (torch.randn(shape),))
                               for name, net, shape in networks()]
    for name in wanted or [n for n in names_of_torch() if n in MODULES]:
        made = [make(name, case) for case in MODULES[name]]
        cases += [(name, *of) for of in made]
        if name in ("GRU", "LSTM", "RNN", "MultiheadAttention"):
            cases += [(f"{name}, first result", First(module), x) for module, x in made]
    for name, module, inputs in cases:
        row = []
        for dynamo, opset in forms(every, given.forms):
            kind, why = attempt(detent, module, inputs, dynamo, opset)
            counts[(dynamo, opset)][kind] += 1
            row.append({"exporter": "x"}.get(kind, kind[0]))
            if kind != "equal":
                reasons.setdefault((name, why), []).append(("new " if dynamo else "old ")
                                                           + str(opset))
        print(f"{name:26} {''.join(row)}", flush=True)
    print("\ne equal, r refused by import, w wrong, x refused by the exporter; a letter a form, in "
          "this order:")
    print(f"{'exporter':9} {'opset':>5} {'equal':>6} {'refused':>8} {'wrong':>6} "
          f"{'not exported':>13}")
    for (dynamo, opset), c in sorted(counts.items()):
        print(f"{'new' if dynamo else 'old':9} {opset:5} {c['equal']:6} {c['refused']:8} "
              f"{c['wrong']:6} {c['exporter']:13}")
    for (name, why), at in reasons.items():
        print(f"\n{name} ({', '.join(at)}):\n  {why}")
        if any(re.fullmatch(pattern, name) for pattern, _ in REFUSED):
            print("  expected: " + next(of for p, of in REFUSED if re.fullmatch(p, name)))
    for name in missing:
        print(f"torch.nn.{name} is in no table of this script")
    wrong = sum(c["wrong"] for c in counts.values())
    shown = wanted or shows_changes(detent)
    if not shown:
        print("a changed network: the tables do not say where it parts")
    return 1 if wrong or missing or not shown else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    sys.stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the old exporter prints graphs that it refuses to stdout
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    sys.exit(status)
