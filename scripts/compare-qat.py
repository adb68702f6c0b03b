"""Trains the same networks in torchao, Brevitas and detent; see scripts/compare-qat.

Float weights are trained by detent. Each tool then starts from them, without a norm's help from
outside: AdamW without weight decay, a cosine from the same rate, but where `best` has another, the
same batches in the same order (detent's, whose shuffle is computed here once more). Weights have a
scale for each output channel, inputs 8 bits for each row or sample (torchao, detent) or a learned
range (Brevitas).
"""

import argparse
import csv
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
import wave

import numpy as np

EPOCHS, BATCH, RATE = 6, 64, 2e-3  # of float weights, which have three times as many epochs
FLOAT, TERNARY = 32, 1.58  # among numbers of bits
MASK = (1 << 64) - 1

CONV = "norm: batch, activation: relu"
NETWORKS = {
    "mlp": ("mnist1d", [40], f"""
    - {{linear: l1, out: 128, activation: relu}}
    - {{linear: l2, out: 64, activation: relu}}
    - {{linear: head, out: 10}}"""),
    "cnn": ("mnist1d", [1, 40], f"""
    - {{conv1d: c1, out: 24, kernel: 5, stride: 2, padding: 2, {CONV}}}
    - {{conv1d: c2, out: 32, kernel: 3, stride: 2, padding: 1, {CONV}}}
    - {{conv1d: c3, out: 32, kernel: 3, stride: 1, padding: 1, {CONV}}}
    - global_avg_pool1d
    - flatten
    - {{linear: head, out: 10}}"""),
    "gru": ("mnist1d", [10, 4], """
    - {gru: memory, hidden: 48, last: true}
    - {linear: head, out: 10}"""),
    "dscnn": ("sounds", [1, 32, 16], f"""
    - {{conv2d: stem, out: 24, kernel: [8, 4], stride: 2, padding: [3, 1], {CONV}}}
    - {{conv2d: dw1, groups: 24, out: 24, padding: 1, {CONV}}}
    - {{conv2d: pw1, out: 32, kernel: 1, {CONV}}}
    - {{conv2d: dw2, groups: 32, out: 32, padding: 1, {CONV}}}
    - {{conv2d: pw2, out: 32, kernel: 1, {CONV}}}
    - global_avg_pool2d
    - flatten
    - {{linear: head, out: 10}}"""),
}


# ---- data ----------------------------------------------------------------------------------------

def mnist1d():
    from mnist1d.data import get_dataset_args, make_dataset
    d = make_dataset(get_dataset_args())
    x, y = d["x"].astype(np.float32), d["y"].astype(np.int64)
    tx, ty = d["x_test"].astype(np.float32), d["y_test"].astype(np.int64)
    return (x - x.mean()) / x.std(), y, (tx - x.mean()) / x.std(), ty


def features(path):
    """32 frames of 16 bands: logarithms of the energies of a spoken digit at 8 kHz."""
    with wave.open(path) as w:
        x = np.frombuffer(w.readframes(w.getnframes()), np.int16).astype(np.float64) / 32768
    x = np.pad(x[:8000], (0, max(0, 8000 - len(x))))
    frames = np.stack([x[i * 240:i * 240 + 512] for i in range(32) if i * 240 + 512 <= 8000] +
                      [np.zeros(512)] * 32)[:32] * np.hanning(512)
    power = np.abs(np.fft.rfft(frames)) ** 2
    top = 2595 * np.log10(1 + 4000 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, 18) / 2595) - 1) / 4000 * 256
    k = np.arange(257)
    bands = [np.clip(np.minimum((k - a) / (b - a), (c - k) / (c - b)), 0, None)
             for a, b, c in zip(edges, edges[1:], edges[2:])]
    return np.log(power @ np.array(bands).T + 1e-6)


def sounds(folder):
    names = sorted(n for n in os.listdir(folder) if n.endswith(".wav"))
    x = np.stack([features(os.path.join(folder, n)) for n in names]).astype(np.float32)
    y = np.array([int(n[0]) for n in names])
    test = np.array([int(n.split("_")[2].split(".")[0]) < 5 for n in names])  # the published split
    x = ((x - x[~test].mean()) / x[~test].std())[:, None]
    return x[~test], y[~test], x[test], y[test]


# ---- detent's shuffle ----------------------------------------------------------------------------

def mix(z):
    z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
    return z ^ (z >> 31)


def philox(key, counter):
    a, b, c, d = counter & 0xffffffff, counter >> 32, 0, 0
    low, high = key & 0xffffffff, key >> 32
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ low, q & 0xffffffff, (p >> 32) ^ d ^ high, p & 0xffffffff
        low, high = (low + 0x9E3779B9) & 0xffffffff, (high + 0xBB67AE85) & 0xffffffff
    return a, b, c, d


def order(seed, epoch, n):
    golden = 0x9e3779b97f4a7c15
    shuffle = 3  # DT__FOR_SHUFFLE
    key = mix((mix((seed + golden) & MASK) + golden * (shuffle + 1)) & MASK)
    w = philox(key, epoch)
    key, v, at = w[0] << 32 | w[1], list(range(n)), 0
    for last in range(n - 1, 0, -1):
        w = philox(key, at)  # of 2^64 numbers, so few are unfair that none is met
        at += 1
        place = (w[0] << 32 | w[1]) % (last + 1)
        v[last], v[place] = v[place], v[last]
    return np.array(v)


# ---- detent --------------------------------------------------------------------------------------

class Detent:
    def __init__(self, o, network, data, seed):
        self.program, self.seed, self.o, work = o.program, seed, o, o.work
        self.folder = os.path.join(work, f"{network}-{seed}")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.network, self.steps = network, math.ceil(len(data[1]) / BATCH)
        for name, x, y in (("train", *data[:2]), ("test", *data[2:])):
            np.savez(os.path.join(self.folder, name + ".npz"), x=x, y=y)
        with open(os.path.join(self.folder, "recipe.yaml"), "w") as f:
            f.write(f"""run: {{dir: none, seed: {seed}}}
model:
  family: layers
  input: {NETWORKS[network][1]}
  layers:{NETWORKS[network][2]}
data: {{format: tensors, dir: {os.path.abspath(self.folder)}, train: {{x: "train.npz:x",
       y: "train.npz:y"}}, test: {{x: "test.npz:x", y: "test.npz:y"}}}}
train:
  epochs: {EPOCHS}
  batch_size: {BATCH}
  float_baseline: false
  optimizer: {{name: adamw, lr: {RATE}, weight_decay: 0}}
  schedule: {{name: cosine}}
""")

    def run(self, name, settings):
        folder = os.path.join(self.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        command = [self.program, "train", os.path.join(self.folder, "recipe.yaml"),
                   f"run.dir={folder}", "--quiet", "--json", *settings]
        with open(os.path.join(self.folder, "said"), "w+") as said:
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as child:
                text = child.stdout.read()
                _, status, used = os.wait4(child.pid, 0)
                child.returncode = status
            said.seek(0)
            if status != 0:
                sys.exit(f"{' '.join(command)}\n{said.read()}")
        return folder, json.loads(text), used

    def float_weights(self):
        folder, summary, _ = self.run("float", ["~train.float_baseline",
                                                f"train.epochs={3 * EPOCHS}"])
        return os.path.join(folder, "float.safetensors"), summary["float"]["accuracy"]

    def qat(self, weights, bits, activations, settings):
        common = [f"model.init={weights}", f"train.epochs={self.o.epochs}",
                  f"train.optimizer.lr={self.o.rate * RATE}"]
        if bits == FLOAT:
            common.append("~train.float_baseline")
        else:
            preset = "int8-dynamic-int4-weight" if activations else "int4-weight"
            width = "scheme=ternary" if bits == TERNARY else f"bits={bits}"
            common += [f"qat.preset={preset}", f"qat.weight.{width}", *settings]
        _, _, short = self.run("short", common + ["train.epochs=1"])
        _, summary, used = self.run("qat", common)
        converted = summary["float" if bits == FLOAT else "converted"]
        seconds = used.ru_utime + used.ru_stime - short.ru_utime - short.ru_stime
        return dict(accuracy=converted["accuracy"],
                    ms=1e3 * seconds / (self.steps * (self.o.epochs - 1)), mb=used.ru_maxrss / 1024,
                    same="yes" if converted.get("same_bits_as_qat") else "")


# ---- PyTorch -------------------------------------------------------------------------------------

def network_of(name, linear, conv1d, conv2d):
    """The network of NETWORKS[name] in PyTorch, of the given kinds of layers."""
    import torch
    from torch import nn

    class Gru(nn.Module):
        def __init__(self):
            super().__init__()
            self.x, self.h = linear(4, 144), linear(48, 144)

        def forward(self, x):
            h = x.new_zeros(x.shape[0], 48)
            ix = self.x(x)
            for i in range(x.shape[1]):
                ir, iz, inn = ix[:, i].chunk(3, 1)
                hr, hz, hn = self.h(h).chunk(3, 1)
                r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
                h = (1 - z) * torch.tanh(inn + r * hn) + z * h
            return h

    def block(conv, norm, channels):
        return [conv, norm(channels), nn.ReLU()]

    if name == "mlp":
        return nn.Sequential(linear(40, 128), nn.ReLU(), linear(128, 64), nn.ReLU(), linear(64, 10))
    if name == "gru":
        return nn.Sequential(Gru(), linear(48, 10))
    if name == "cnn":
        n = nn.BatchNorm1d
        return nn.Sequential(*block(conv1d(1, 24, 5, stride=2, padding=2, bias=False), n, 24),
                             *block(conv1d(24, 32, 3, stride=2, padding=1, bias=False), n, 32),
                             *block(conv1d(32, 32, 3, padding=1, bias=False), n, 32),
                             nn.AdaptiveAvgPool1d(1), nn.Flatten(), linear(32, 10))
    n = nn.BatchNorm2d
    return nn.Sequential(*block(conv2d(1, 24, (8, 4), stride=2, padding=(3, 1), bias=False), n, 24),
                         *block(conv2d(24, 24, 3, padding=1, groups=24, bias=False), n, 24),
                         *block(conv2d(24, 32, 1, bias=False), n, 32),
                         *block(conv2d(32, 32, 3, padding=1, groups=32, bias=False), n, 32),
                         *block(conv2d(32, 32, 1, bias=False), n, 32),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(32, 10))


def load(module, path, network):
    """Puts detent's float weights into the network: its tensors have the same order."""
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
    layers = {"mlp": ["l1", "l2", "head"], "cnn": ["c1", "c2", "c3", "head"],
              "gru": ["memory", "head"], "dscnn": ["stem", "dw1", "pw1", "dw2", "pw2", "head"]}
    todo = {k: v for k, v in own.items() if v.dtype.is_floating_point and "quant" not in k}
    taken = set()
    for layer in layers[network]:
        of_layer = {k: v for k, v in theirs.items() if k.split(".")[0] == layer}
        for k in sorted(of_layer, key=lambda k: rank(k)):
            name = next(n for n, v in todo.items()
                        if n not in taken and v.shape == of_layer[k].shape and last(n) == last(k))
            taken.add(name)
            own[name].copy_(of_layer[k])
    if len(taken) != len(theirs) or any(n not in taken for n in todo):
        sys.exit(f"{network}: the weights do not fit: {sorted(theirs)} {sorted(set(todo) - taken)}")


def last(name):
    return name.split(".")[-1]


def rank(name):
    """weight before bias, of the layer before the norm; of a GRU the input's before the state's."""
    places = ["weight", "bias", "running_mean", "running_var"]
    return ("norm" in name, ".hh" in name or "hidden" in name, places.index(last(name)))


def train(module, data, plan):
    """plan: the learning rate at first, and the order of the examples in each epoch."""
    import torch
    rate, orders = plan
    x, y = torch.tensor(data[0]), torch.tensor(data[1])
    optimizer = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0)
    total, at = len(orders) * math.ceil(len(y) / BATCH), 0
    module.train()
    began = time.process_time()
    for in_epoch in orders:
        for i in range(0, len(y), BATCH):
            rows = in_epoch[i:i + BATCH]
            for g in optimizer.param_groups:
                g["lr"] = rate * 0.5 * (1 + math.cos(math.pi * at / total))
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(module(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            at += 1
    return 1e3 * (time.process_time() - began) / total


def answers(module, data):
    import torch
    module.eval()
    with torch.no_grad():
        return module(torch.tensor(data[2]))


def accuracy(y, data):
    return float((y.argmax(1).numpy() == data[3]).mean())


def with_pytorch(network, weights, data, plan):
    from torch import nn
    module = network_of(network, nn.Linear, nn.Conv1d, nn.Conv2d)
    load(module, weights, network)
    return dict(ms=train(module, data, plan), accuracy=accuracy(answers(module, data), data),
                same="")


def with_torchao(network, weights, data, plan, bits, activations):
    import torch
    from torch import nn
    from torch.nn.utils import parametrize
    from torchao.quantization import (Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig,
                                      quantize_)
    from torchao.quantization.granularity import PerAxis
    from torchao.quantization.qat import IntxFakeQuantizeConfig, IntxFakeQuantizer, QATConfig
    dtype = getattr(torch, f"int{bits}")
    base = (Int8DynamicActivationIntxWeightConfig(weight_dtype=dtype,
                                                  weight_granularity=PerAxis(0))
            if activations else IntxWeightOnlyConfig(weight_dtype=dtype, granularity=PerAxis(0)))

    class Rows(nn.Module):
        """torchao quantizes linear layers; of convolutions here the weight's rows, and samples."""

        def __init__(self, config):
            super().__init__()
            self.quantizer = IntxFakeQuantizer(config)

        def forward(self, x):
            return self.quantizer(x.flatten(1)).reshape(x.shape)

    module = network_of(network, nn.Linear, nn.Conv1d, nn.Conv2d)
    load(module, weights, network)
    quantize_(module, QATConfig(base, step="prepare"))
    convs = [m for m in module.modules() if isinstance(m, (nn.Conv1d, nn.Conv2d))]
    for m in convs:
        parametrize.register_parametrization(
            m, "weight", Rows(IntxFakeQuantizeConfig(dtype, "per_channel")))
        if activations:
            rows = Rows(IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False))
            m.register_forward_pre_hook(lambda _, a, rows=rows: (rows(a[0]),))
    ms = train(module, data, plan)
    trained = answers(module, data)
    same = "no convolutions"
    if not convs:
        quantize_(module, QATConfig(base, step="convert"))
        converted = answers(module, data)
        equal = bool((converted == trained).all())
        same = "yes" if equal else f"to {float((converted - trained).abs().max()):.0e}"
        trained = converted
    return dict(accuracy=accuracy(trained, data), ms=ms, same=same)


def with_brevitas(network, weights, data, plan, bits, activations, learned):
    import functools

    import brevitas.nn as qnn
    import torch
    from brevitas.inject.enum import ScalingImplType
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat
    ternary = bits == TERNARY
    quant = Int8WeightPerChannelFloat.let(bit_width=2 if ternary else bits, narrow_range=ternary)
    if learned:
        quant = quant.let(scaling_impl_type=ScalingImplType.PARAMETER_FROM_STATS)
    keys = dict(weight_quant=quant, input_quant=Int8ActPerTensorFloat if activations else None)

    def linear(a, b):
        return qnn.QuantLinear(a, b, bias=True, **keys)

    conv1d = functools.partial(qnn.QuantConv1d, **keys)
    conv2d = functools.partial(qnn.QuantConv2d, **keys)
    module = network_of(network, linear, conv1d, conv2d)
    load(module, weights, network)
    for m in module.modules():  # learned scales begin with the float weights'
        if hasattr(m, "weight_quant") and hasattr(m.weight_quant, "init_tensor_quant"):
            m.weight_quant.init_tensor_quant()
    ms = train(module, data, plan)
    y = answers(module, data)
    return dict(accuracy=accuracy(getattr(y, "value", y), data), ms=ms, same="by its exports alone")


def in_child(call, *arguments):
    """The result of a call in a process of its own, with the most memory that it held. Modules are
    imported before the first, once."""
    import brevitas.nn
    import torch
    import torchao.quantization.qat
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            torch.set_num_threads(1)
            torch.manual_seed(0)
            result = call(*arguments)
            result["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        except BaseException as e:  # to be told by the parent
            result = dict(error=f"{type(e).__name__}: {e}")
        os.write(write, json.dumps(result).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as f:
        text = f.read()
    os.waitpid(pid, 0)
    result = json.loads(text)
    if "error" in result:
        sys.exit(f"{call.__name__}{arguments[0]}: {result['error']}")
    return result


# ---- the table -----------------------------------------------------------------------------------

# Rows of detent, and of which numbers of bits they are.
DETENT = {
    "detent": (["qat.weight.granularity=channel"], (8, 4, 3, 2, TERNARY)),
    "detent, learned scales": (["qat.weight.range=learned"], (8, 4, 3, 2, TERNARY)),
    "detent, asymmetric": (["qat.weight.granularity=channel", "qat.weight.scheme=asymmetric"],
                           (4, 3, 2)),
    "detent, half levels": (["qat.weight.range=learned", "qat.weight.scheme=half_levels"], (2,)),
    "detent, `best`": (["qat.recipe=best", "qat.weight.granularity=channel"], (4, 3, 2, TERNARY)),
}
TOOLS = ("detent", "pytorch", "torchao", "brevitas")


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("program")
    p.add_argument("work")
    p.add_argument("--sounds")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--networks", default="mlp,cnn,gru,dscnn")
    p.add_argument("--bits", default="8,4,3,2,ternary")
    p.add_argument("--activations", default="no,yes", help="of 8 bits: no, yes, or both")
    p.add_argument("--tools", default=",".join(TOOLS))
    p.add_argument("--epochs", type=int, default=EPOCHS)
    p.add_argument("--rate", type=float, default=1, help="factor on the learning rate, of all")
    p.add_argument("--detent", action="append", default=[],
                   help="NAME: key=value ...: a further row")
    p.add_argument("--show", action="store_true",
                   help="print the table of all rows of WORK/rows.csv, of each the last, instead")
    o = p.parse_args()
    o.bits = [TERNARY if b == "ternary" else int(b) for b in o.bits.split(",")]
    o.activations = [a == "yes" for a in o.activations.split(",")]
    o.tools = o.tools.split(",")
    for row in o.detent:
        name, _, keys = row.partition(":")
        DETENT[name] = (keys.split(), o.bits)
    return o


class Rows:
    """Results by row and seed, kept in a file from which a later call shows them. Names say what
    is not as usual."""

    def __init__(self, o):
        self.path, self.found = os.path.join(o.work, "rows.csv"), {}
        self.unusual = (f", {o.epochs} epochs" if o.epochs != EPOCHS else "") + (
            f", rate × {o.rate:g}" if o.rate != 1 else "")

    def read(self):
        with open(self.path) as f:
            for network, bits, activations, name, seed, accuracy, ms, mb, same in csv.reader(f):
                key = network, float(bits), activations == "True", name
                self.found.setdefault(key, {})[int(seed)] = dict(
                    accuracy=float(accuracy), ms=float(ms), mb=float(mb), same=same)

    def keep(self, key, seed, r):
        key = *key[:3], key[3] + self.unusual
        self.found.setdefault(key, {})[seed] = r
        with open(self.path, "a") as f:
            csv.writer(f).writerow([*key, seed, r["accuracy"], r["ms"], r["mb"], r["same"]])
        print(*key, seed, f"{100 * r['accuracy']:.2f} % {r['ms']:.2f} ms", r["same"],
              file=sys.stderr, flush=True)


def compare(o, rows, network, data, seed):
    detent = Detent(o, network, data, seed)
    weights, floats = detent.float_weights()
    plan = o.rate * RATE, [order(seed, e, len(data[1])) for e in range(o.epochs)]
    of_float = network, FLOAT, False
    rows.keep((*of_float, "the start"), seed, dict(accuracy=floats, ms=0, mb=0, same=""))
    if "detent" in o.tools:
        rows.keep((*of_float, "detent"), seed, detent.qat(weights, FLOAT, False, []))
    if "pytorch" in o.tools:
        rows.keep((*of_float, "PyTorch"), seed,
                  in_child(with_pytorch, network, weights, data, plan))
    for activations in o.activations:
        for bits in o.bits:
            of = network, bits, activations
            for name, (keys, widths) in DETENT.items():
                if "detent" in o.tools and bits in widths:
                    rows.keep((*of, name), seed, detent.qat(weights, bits, activations, keys))
            given = network, weights, data, plan, bits, activations
            if "torchao" in o.tools and bits != TERNARY:
                rows.keep((*of, "torchao"), seed, in_child(with_torchao, *given))
            for name in ("Brevitas", "Brevitas, learned scales"):
                if "brevitas" in o.tools:
                    rows.keep((*of, name), seed,
                              in_child(with_brevitas, *given, name != "Brevitas"))


def main():
    o = arguments()
    rows = Rows(o)
    data_of = {}
    for network in () if o.show else o.networks.split(","):
        kind, shape, _ = NETWORKS[network]
        if kind == "sounds" and o.sounds is None:
            print(f"{network}: left out; --sounds names the folder of its sounds", file=sys.stderr)
            continue
        if kind not in data_of:
            data_of[kind] = sounds(o.sounds) if kind == "sounds" else mnist1d()
        d = data_of[kind]
        data = (d[0].reshape(-1, *shape), d[1], d[2].reshape(-1, *shape), d[3])
        for seed in range(1, o.seeds + 1):
            compare(o, rows, network, data, seed)
    if o.show:
        rows.read()
    show(rows.found)


def width_of(bits, activations):
    name = "float" if bits == FLOAT else "ternary" if bits == TERNARY else f"w{bits:.0f}"
    return name + ("a8" if activations else "")


def show(found):
    print("| network | bits | tool | median accuracy (least to most) | ms a step | MB "
          "| converted = trained |")
    print("|---|---|---|---|---|---|---|")
    order_of = {name: i for i, name in enumerate(NETWORKS)}
    for key in sorted(found, key=lambda k: (order_of[k[0]], k[2], -k[1])):
        network, bits, activations, name = key
        rows = list(found[key].values())
        a = [100 * r["accuracy"] for r in rows]
        ms = statistics.median(r["ms"] for r in rows)
        mb = statistics.median(r["mb"] for r in rows)
        cost = "| | " if name.startswith("the start") else f"| {ms:.2f} | {mb:.1f}"
        print(f"| {network} | {width_of(bits, activations)} | {name} "
              f"| {statistics.median(a):.1f} ({min(a):.1f} to {max(a):.1f}) "
              f"{cost} | {rows[0]['same']} |")


main()
