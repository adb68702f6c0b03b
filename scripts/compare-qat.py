"""Trains the same networks in torchao, Brevitas and detent; see scripts/compare-qat.

Float weights are trained by detent. Each tool then starts from them, without a norm's help from
outside: AdamW without weight decay, a cosine from the same rate, but where `best` has another, the
same batches in the same order. Weights have a scale for each output channel, inputs 8 bits for each
row or sample (torchao, detent) or a learned range (Brevitas).
"""

import argparse
import csv
import functools
import json
import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

from compare_data import Arrays, Text, mnist1d, series, sounds
from compare_networks import NETWORKS, load, model_of, network_of, rules_of

EPOCHS, RATE = 6, 2e-3  # epochs of QAT (a third of the float weights'); rate of both, times --rate
FLOAT, TERNARY = 32, 1.58  # stand for numbers of bits


# ---- detent --------------------------------------------------------------------------------------

def watched(child):
    """Status, resources and the most MB of a process. Those that wait4 tells are no less than what
    this process had when it forked."""
    peak = 0
    while True:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid != 0:
            child.returncode = os.waitstatus_to_exitcode(status)
            return status, used, peak / 1024
        with open(f"/proc/{child.pid}/status") as f:
            found = [line.split()[1] for line in f if line.startswith("VmHWM:")]
        peak = max([peak, *map(int, found)])
        time.sleep(0.01)


class Detent:
    def __init__(self, o, network, data, seed):
        self.program, self.seed, self.o, self.data = o.program, seed, o, data
        self.folder = os.path.abspath(os.path.join(o.work, f"{network}-{seed}"))
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.network = network
        with open(os.path.join(self.folder, "recipe.yaml"), "w") as f:
            f.write(f"""run: {{dir: none, seed: {seed}, report: false}}
model: {model_of(network, data)}
data: {data.recipe(self.folder)}
train:
  steps: {EPOCHS * data.updates}
  batch_size: {data.batch}
  float_baseline: false
  optimizer: {{name: adamw, lr: {RATE}, weight_decay: 0}}
  schedule: {{name: cosine}}
  {data.train_keys}
""")

    def run(self, name, settings):
        folder = os.path.join(self.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        command = [self.program, "train", os.path.join(self.folder, "recipe.yaml"),
                   f"run.dir={folder}", "--quiet", "--json", *settings]
        printed, said = (open(os.path.join(self.folder, name), "w+") for name in ("out", "said"))
        with printed, said:
            status, used, peak = watched(subprocess.Popen(command, stdout=printed, stderr=said))
            printed.seek(0)
            said.seek(0)
            if status != 0:
                sys.exit(f"{' '.join(command)}\n{said.read()}")
            text = printed.read()
        return folder, json.loads(text), (used.ru_utime + used.ru_stime, peak)

    def float_weights(self):
        folder, summary, _ = self.run("float", ["~train.float_baseline",
                                                f"train.steps={3 * EPOCHS * self.data.updates}"])
        return os.path.join(folder, "float.safetensors"), self.data.of_summary(summary["float"])

    def qat(self, weights, bits, activations, settings):
        steps = self.o.epochs * self.data.updates
        common = [f"model.init={weights}", f"train.steps={steps}",
                  f"train.optimizer.lr={self.o.rate * RATE}"]
        if bits == FLOAT:
            common.append("~train.float_baseline")
        else:
            preset = "int8-dynamic-int4-weight" if activations else "int4-weight"
            width = "scheme=ternary" if bits == TERNARY else f"bits={bits}"
            common += [f"qat.preset={preset}", f"qat.weight.{width}", *rules_of(self.network),
                       *settings]
        _, _, (short, _) = self.run("short", common + [f"train.steps={steps // 6}"])
        _, summary, (seconds, peak) = self.run("qat", common)
        converted = summary["float" if bits == FLOAT else "converted"]
        return dict(result=self.data.of_summary(converted),
                    ms=1e3 * (seconds - short) / (steps - steps // 6), mb=peak,
                    same="yes" if converted.get("same_bits_as_qat") else "")


# ---- PyTorch -------------------------------------------------------------------------------------

def train(module, data, plan):
    """plan: the learning rate at first, detent's seed, and the epochs."""
    import torch
    rate, seed, epochs = plan
    batches = [(torch.tensor(x), torch.tensor(y)) for x, y in data.batches(seed, epochs)]
    optimizer = torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0)
    module.train()
    began = time.process_time()
    for at, (x, y) in enumerate(batches):
        for g in optimizer.param_groups:
            g["lr"] = rate * 0.5 * (1 + math.cos(math.pi * at / len(batches)))
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
    return 1e3 * (time.process_time() - began) / len(batches)


def answers(module, data):
    import torch
    module.eval()
    with torch.no_grad():
        y = module(torch.tensor(data.test_x))
    return getattr(y, "value", y)


def kinds_of(**changed):
    from torch import nn
    return dict(linear=nn.Linear, conv1d=nn.Conv1d, conv2d=nn.Conv2d) | changed


def with_pytorch(network, weights, data, plan):
    module = network_of(network, data, kinds_of())
    load(module, weights, network)
    return dict(ms=train(module, data, plan), result=data.score(answers(module, data).numpy()),
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

    module = network_of(network, data, kinds_of())
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
    return dict(result=data.score(trained.numpy()), ms=ms, same=same)


def with_brevitas(network, weights, data, plan, bits, activations, learned):
    import brevitas.nn as qnn
    from brevitas.inject.enum import ScalingImplType
    from brevitas.quant import Int8ActPerTensorFloat, Int8WeightPerChannelFloat
    ternary = bits == TERNARY
    quant = Int8WeightPerChannelFloat.let(bit_width=2 if ternary else bits, narrow_range=ternary)
    if learned:
        quant = quant.let(scaling_impl_type=ScalingImplType.PARAMETER_FROM_STATS)
    keys = dict(weight_quant=quant, input_quant=Int8ActPerTensorFloat if activations else None)

    kinds = dict(linear=qnn.QuantLinear, conv1d=qnn.QuantConv1d, conv2d=qnn.QuantConv2d)
    module = network_of(network, data,
                        {kind: functools.partial(of, **keys) for kind, of in kinds.items()})
    load(module, weights, network)
    for m in module.modules():  # learned scales begin with the float weights'
        if hasattr(m, "weight_quant") and hasattr(m.weight_quant, "init_tensor_quant"):
            m.weight_quant.init_tensor_quant()
    ms = train(module, data, plan)
    return dict(result=data.score(answers(module, data).numpy()), ms=ms,
                same="by its exports alone")


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
        except BaseException as e:  # the parent process reports it
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

# Rows of detent: name, changes to the recipe, and the numbers of bits that they are trained with.
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
    p.add_argument("--sounds", help="folder of the recordings of FSDD")
    p.add_argument("--text", help="a file of ASCII, for the GPT")
    p.add_argument("--draws", action="store_true", help="of MNIST-1D another draw for each seed")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--networks", default=",".join(NETWORKS))
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
            f", rate × {o.rate:g}" if o.rate != 1 else "") + (", other draws" if o.draws else "")

    def read(self):
        with open(self.path) as f:
            for network, bits, activations, name, seed, result, ms, mb, same in csv.reader(f):
                key = network, float(bits), activations == "True", name
                self.found.setdefault(key, {})[int(seed)] = dict(
                    result=float(result), ms=float(ms), mb=float(mb), same=same)

    def keep(self, key, seed, r):
        key = *key[:3], key[3] + self.unusual
        self.found.setdefault(key, {})[seed] = r
        with open(self.path, "a") as f:
            csv.writer(f).writerow([*key, seed, r["result"], r["ms"], r["mb"], r["same"]])
        print(*key, seed, f"{r['result']:.2f} {r['ms']:.2f} ms", r["same"],
              file=sys.stderr, flush=True)


def compare(o, rows, network, data, seed):
    detent = Detent(o, network, data, seed)
    weights, floats = detent.float_weights()
    plan = o.rate * RATE, seed, o.epochs
    of_float = network, FLOAT, False
    rows.keep((*of_float, "the start"), seed, dict(result=floats, ms=0, mb=0, same=""))
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


def data_of(o, network, seed):
    """None, and a word about it: there are none."""
    kind, shape, _ = NETWORKS[network]
    sources = {"mnist1d": lambda: mnist1d(1000 + seed if o.draws else 0),
               "sounds": lambda: o.sounds and sounds(o.sounds)}
    if kind == "text":
        found = o.text and Text(o.text)
    else:
        found = sources.get(kind, lambda: series(kind))()
        if found:
            x, y, test_x, test_y = found
            found = Arrays(x.reshape(-1, *shape), y, test_x.reshape(-1, *shape), test_y)
    if not found:
        wanted = {"text": "--text", "sounds": "--sounds"}.get(kind, "the package aeon")
        print(f"{network}: left out; its data come from {wanted}", file=sys.stderr)
    return found or None


def main():
    o = arguments()
    rows = Rows(o)
    for network in () if o.show else o.networks.split(","):
        data = None
        for seed in range(1, o.seeds + 1):
            if data is None or o.draws:
                data = data_of(o, network, seed)
            if data is None:
                break
            compare(o, rows, network, data, seed)
    if o.show:
        rows.read()
    show(rows.found)


def width_of(bits, activations):
    name = "float" if bits == FLOAT else "ternary" if bits == TERNARY else f"w{bits:.0f}"
    return name + ("a8" if activations else "")


def show(found):
    print("| network | bits | tool | accuracy in % or perplexity: median (least to most) "
          "| ms a step | MB | converted = trained |")
    print("|---|---|---|---|---|---|---|")
    order_of = {name: i for i, name in enumerate(NETWORKS)}
    for key in sorted(found, key=lambda k: (order_of[k[0]], k[2], -k[1])):
        network, bits, activations, name = key
        rows = list(found[key].values())
        a, digits = [r["result"] for r in rows], 3 if NETWORKS[network][0] == "text" else 1
        of = f"{statistics.median(a):.{digits}f} ({min(a):.{digits}f} to {max(a):.{digits}f})"
        ms = statistics.median(r["ms"] for r in rows)
        mb = statistics.median(r["mb"] for r in rows)
        cost = "| | " if name.startswith("the start") else f"| {ms:.2f} | {mb:.1f}"
        print(f"| {network} | {width_of(bits, activations)} | {name} | {of} "
              f"{cost} | {rows[0]['same']} |")


main()
