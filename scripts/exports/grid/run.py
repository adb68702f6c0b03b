#!/usr/bin/env python3
"""Runs the exports of detent-grid in the runtimes that they are for, and prints the grid's table.

    run.py FOLDER [--sample SEED] [--llama PROGRAM] [--jobs N]

A cell is a network, a form of a format, a runtime, and a batch size; with --sample each form and
runtime has one batch size of the list, drawn by SEED. A cell is
    equal    all values have detent's bits; zeros may differ in their sign
    near     within its bound: of floats 2e-6 of the largest output, or 8 times what noise of 1e-6
             of an example's range changes in it (of tokens 5e-6 of the largest output); where
             codes may flip, four codes of the largest output, or 4 times what noise of a code of
             the input changes; and two codes of an int8 output more. Language models: LANGUAGE
             Files of level 4 are compared with the same file whose roundings are nodes
    refused  the program wrote no file and said why; or the file is for one example alone, or not
             for these kernels, as the program said, and the runtime refuses it, too
    other    all else: a runtime that does not load the file, another number of examples, values out
             of bounds, bits that were promised and differ, detent's own interpreter (--verify) of
             another opinion than the runtime, a layer that could not be drawn. Each is printed.
Logits of GGUF files and of folders of floats are compared with those that detent computes of the
file, and of a GGUF file with activations in blocks with the model's; `read again` compares the two
where the model has no codes of activations. Where codes of tokens' activations may flip, the bound
is of the root of the mean square, and OUTLIER times as much of the largest for each value.

Behind the table are the distinct reasons of refused cells. Exit status 1: there are others. A
runtime that ends its process is an `other`, and a new process goes on behind that file.

Versions: scripts/exports/requirements.txt.
"""
import argparse
import collections
import functools
import importlib.util
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import numpy as np

MICRO_EXAMPLES = 12
SAME = "computes the model's bits"
ALONE = "for one example alone"
LITE = ("xnnpack", "builtin", "reference")
BLOCKS = "only LiteRT's XNNPACK kernels"  # in messages of the export
NO_REFERENCE = "LiteRT's reference kernels lack"
FOLDERS = ("hf", "compressed-tensors", "torchao")
# Bounds for language models in other programs. floats: over the largest logit. The rest, over the
# root of the mean square. f16: weights, and so the activations that multiply them, in f16; gelu: a
# table in f16, or tanh in place of erf; blocks: activations in blocks of int8.
LANGUAGE = {"floats": 2e-5, "f16": 2e-3, "gelu": 2e-3, "blocks": 4 / 127}
REASONS = 40
WHOLE = re.compile(r"activation: \{[^}]*granularity: tensor")
OUTLIER = 16  # single values may differ by so many times the bound of the mean


class Refused(Exception):
    """The runtime refuses what the program says it cannot."""


# ---- values -------------------------------------------------------------------------------------


def load(folder, net, what, ports, integers):
    out = []
    for i, shape in enumerate(ports):
        kind = np.int32 if integers else np.float32
        raw = np.fromfile(folder / f"{net['net']}.{what}{i}", kind)
        out.append(raw.reshape(net["batches"][-1], *shape))
    return out


def largest_of(y):
    return max((float(np.abs(v).max()) for v in y if v.size), default=0.0)


def kind_of(net, file, runtime):
    """A key of LANGUAGE, or None: codes of activations."""
    if "unread" in file and net["bits"]:
        return None  # the file leaves them out, and nothing says what it computes
    gelu = re.search(r"gelu_tanh|family: gpt", net["recipe"]) is not None
    if file["format"] == "gguf":
        kind = "floats" if file["floats"] else "blocks"
        if kind == "floats" and file["form"] == "f16":
            kind = "f16"
        elif kind == "floats" and gelu and runtime == "llama.cpp":
            kind = "gelu"
        return kind
    return "floats" if net["bits"] == 0 else None


def bound_of(net, file, y):
    """The largest difference of a cell that is near."""
    largest = largest_of(y)
    if file["format"] in ("gguf", *FOLDERS):
        return LANGUAGE["floats"] * largest
    least = max(2e-6 * largest, 1e-20)
    floats = file["floats"] and not file["changed"] and net["bits"] == 0
    if floats:  # tokens have no noise
        return max(least, 8 * net["last_bits"]) if "last_bits" in net else 5e-6 * largest
    code = 1 / (2 ** (net["bits"] or 8) - 1)  # of --accuracy-level 4 of floats
    return max(4 * code * largest, 4 * net.get("step", 0), least)


@functools.lru_cache(4)
def spelled_out(path):
    """A file of level 4 without it: the inputs of each product are rounded to int8 in blocks by
    nodes of their own, as docs/export.md says that level 4 does."""
    import onnx
    from onnx import helper, numpy_helper

    model = onnx.load(path)

    def number(graph, name, value):
        graph.initializer.append(numpy_helper.from_array(np.array(value), name))
        return name

    def rounded(graph, node, at):
        attribute = {a.name: a.i for a in node.attribute}
        k, size = attribute["K"], attribute["block_size"]
        blocks = -(-k // size)
        own = f"level4.{at}."
        const = functools.partial(number, graph)
        last = const(own + "axis", np.array([-1], np.int64))
        pad = const(own + "pad", np.array([0, 0, 0, blocks * size - k], np.int64))
        zero, most = const(own + "0", np.float32(0)), const(own + "127", np.float32(127))
        cut = const(own + "cut", np.array([0, blocks, size], np.int64))
        row = const(own + "row", np.array([-1, k], np.int64))
        join = const(own + "join", np.array([-1, blocks * size], np.int64))
        first, end = const(own + "first", np.array([0], np.int64)), const(own + "k", np.array(
            [k], np.int64))
        tiny = const(own + "tiny", np.float32(1e-38))
        steps = [("Shape", ["x"], "shape"), ("Reshape", ["x", row], "rows"),
                 ("Pad", ["rows", pad, zero], "padded"), ("Reshape", ["padded", cut], "blocks"),
                 ("Abs", ["blocks"], "size"), ("ReduceMax", ["size", last], "largest"),
                 ("Div", ["largest", most], "s"), ("Max", ["s", tiny], "scale"),
                 ("Div", ["blocks", "scale"], "v"), ("Round", ["v"], "codes"),
                 ("Mul", ["codes", "scale"], "values"), ("Reshape", ["values", join], "joined"),
                 ("Slice", ["joined", first, end, last], "whole"),
                 ("Reshape", ["whole", "shape"], "y")]
        known = {"x": node.input[0]}
        for op, names, out in steps:
            known[out] = own + out
            yield helper.make_node(op, [known.get(n, n) for n in names], [own + out])
        node.input[0] = known["y"]
        for a in node.attribute:
            a.i = 0 if a.name == "accuracy_level" else a.i

    def change(graph):
        nodes = list(graph.node)
        del graph.node[:]
        for at, node in enumerate(nodes):
            for a in node.attribute:
                if a.type == onnx.AttributeProto.GRAPH:
                    change(a.g)
            if node.op_type == "MatMulNBits":
                graph.node.extend(rounded(graph, node, f"{graph.name}{at}"))
            graph.node.append(node)

    change(model.graph)
    plain = path + ".spelled"
    onnx.save(model, plain)
    return plain


def compare(got, want):
    """Values with equal bits or of 0, of how many, and the largest difference: onnxruntime's Relu
    keeps the sign of a zero."""
    if got.shape != want.shape:
        raise ValueError(f"{list(got.shape)} values in place of {list(want.shape)}")
    got = np.ascontiguousarray(got, np.float32)
    want = np.ascontiguousarray(want, np.float32)
    apart = np.abs(got.astype(np.float64) - want)
    same = int(np.sum((got.view(np.int32) == want.view(np.int32)) | ((got == 0) & (want == 0))))
    return same, want.size, float(apart.max()) if want.size else 0.0, root_mean(apart)


def root_mean(v):
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(v, dtype=np.float64)))) if v.size else 0.0


# ---- runtimes: each gives a function of the inputs of a batch -----------------------------------


def onnxruntime(file, net, runtime, batch):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(file["file"], options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}

    def run(x):
        feeds = {p.name: v.astype(kinds[p.type]) for p, v in zip(session.get_inputs(), x)}
        return session.run(None, feeds)

    return run


def is_last(file, name):
    return re.search(rf"^{re.escape(name)}: \[.*\], channels last$", file["notes"], re.M)


def output_of(net, k):
    """The name of output k."""
    named = re.search(r"\], output: \[(.*?)\]", net["recipe"])
    return named[1].split(", ")[k] if named else "output" if k == 0 else f"output{k}"


def codes(x, detail):
    scale, zero = detail["quantization"]
    steps = (x / np.float32(scale)).astype(np.float64)  # the nearest, halves away from zero
    nearest = np.copysign(np.floor(np.abs(steps) + 0.5), steps)
    return np.clip(nearest + zero, -128, 127).astype(np.int8)


def values(q, scale, zero):
    return (q.astype(np.int32) - zero).astype(np.float32) * np.float32(scale)


def to_file(x, last):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x


def from_file(y, last):
    return np.moveaxis(y, -1, 1) if last else y


def litert(file, net, runtime, batch):
    from ai_edge_litert import interpreter as li

    kinds = {"xnnpack": li.OpResolverType.AUTO,
             "builtin": li.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
             "reference": li.OpResolverType.BUILTIN_REF}
    i = li.Interpreter(model_path=file["file"], num_threads=1,
                       experimental_op_resolver_type=kinds[runtime])
    given, results = i.get_input_details(), i.get_output_details()
    fixed = any(d["shape_signature"][0] != -1 for d in given)
    for d in given:
        if batch == d["shape"][0]:
            continue
        try:
            i.resize_tensor_input(d["index"], [batch, *d["shape"][1:]], strict=True)
        except Exception as problem:
            if fixed:
                raise Refused(ALONE) from problem
            raise
    i.allocate_tensors()
    names = [d["name"] for d in given]

    def run(x):
        own = {p["name"]: v for p, v in zip(net["inputs"], x)}
        for d, name, v in zip(given, names, x):
            v = own.get(name, v)
            v = to_file(v, is_last(file, name))
            i.set_tensor(d["index"], codes(v, d) if d["dtype"] == np.int8 else v)
        i.invoke()
        out = []
        for k, d in enumerate(results):
            y = i.get_tensor(d["index"])
            if d["dtype"] == np.int8:
                y = values(y, *d["quantization"])
            out.append(from_file(y, is_last(file, output_of(net, k))))
        return out

    run.step = max((float(d["quantization"][0]) for d in results if d["dtype"] == np.int8),
                   default=0.0)
    return run


def micro(file, net, runtime, batch):
    from tflite_micro.python.tflite_micro import runtime as tflm

    if batch != 1:
        raise Refused(ALONE)
    i = tflm.Interpreter.from_file(file["file"], arena_size=1 << 22)

    def detail(which, k):
        d = (i.get_input_details if which == "in" else i.get_output_details)(k)
        q = d["quantization_parameters"]
        return {"quantization": (q["scales"][0], q["zero_points"][0])}

    def run(x):
        rows = []
        for e in range(min(MICRO_EXAMPLES, len(x[0]))):
            for k, (v, port) in enumerate(zip(x, net["inputs"])):
                one = to_file(v[e:e + 1], is_last(file, file["names"][k]))
                i.set_input(codes(one, detail("in", k)), k)
            i.invoke()
            rows.append([from_file(values(i.get_output(k), *detail("out", k)["quantization"]),
                                   is_last(file, output_of(net, k)))
                         for k in range(len(net["outputs"]))])
        return [np.concatenate(r) for r in zip(*rows)]

    run.each = MICRO_EXAMPLES  # one by one
    return run


def llama(file, net, runtime, batch):
    program, = runtimes_of.llama

    def run(x):
        ids, out = pathlib.Path(file["file"] + ".ids"), pathlib.Path(file["file"] + ".out")
        x[0].astype("<i4").tofile(ids)
        subprocess.run([program, "logits", file["file"], ids, str(x[0].shape[1]), out, str(batch)],
                       check=True, capture_output=True)
        y = np.fromfile(out, np.float32).reshape(*x[0].shape, -1)
        return [y]

    return run


@functools.lru_cache(1)
def folder_model(path):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    # experts one by one: torch's grouped product requires rows of 16 bytes
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32,
                                                experts_implementation="eager").eval()


def transformers(file, net, runtime, batch):
    import torch

    def run(x):
        with torch.no_grad():
            ids = torch.from_numpy(x[0].astype(np.int64))
            return [folder_model(file["file"])(ids).logits.numpy()]

    return run


def has_transformers():
    return all(importlib.util.find_spec(n) for n in ("transformers", "compressed_tensors",
                                                     "torchao"))


def runtimes_of(file):
    """(name of the runtime, function)"""
    if file["format"] == "onnx":
        yield "onnxruntime", onnxruntime
    elif file["format"] == "gguf":
        if runtimes_of.llama:
            yield "llama.cpp", llama
    elif file["format"] in FOLDERS:
        if has_transformers():
            yield "transformers", transformers
    else:
        for kernels in LITE:
            yield kernels, litert
        if file.get("device"):
            yield "micro", micro


# ---- cells --------------------------------------------------------------------------------------


def names_of(file):
    """The names of a TFLite file's inputs, in its order."""
    from ai_edge_litert import interpreter as li

    return [d["name"] for d in li.Interpreter(
        model_path=file["file"],
        experimental_op_resolver_type=li.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    ).get_input_details()]


def judge(file, net, x, y, runtime, make, batch):
    """(verdict, text)"""
    if runtime in LITE[1:] and BLOCKS in file["notes"]:
        return "refused", "the export says that " + BLOCKS + " compute it"
    try:
        run = make(file, net, runtime, batch)
        n = getattr(run, "each", batch)
        got = run([v[:n] for v in x])
        want = [v[:n] for v in y]
        if file.get("form") == "nbits-4":
            plain = dict(file, file=spelled_out(file["file"]))
            want = make(plain, net, runtime, batch)([v[:n] for v in x])
        parts = [compare(g, w) for g, w in zip(got, want)]
    except Refused as why:
        return "refused", str(why)
    except Exception as problem:  # runtimes raise many types
        text = " ".join(str(problem).split())[:240]
        if runtime == "reference" and NO_REFERENCE in file["notes"]:
            return "refused", NO_REFERENCE
        return "other", text
    same, total = (sum(p[k] for p in parts) for k in (0, 1))
    apart = max(p[2] for p in parts)
    mean = root_mean(np.array([p[3] for p in parts]))
    if same == total:
        return "equal", ""
    if (file["exact"] or SAME in file["promise"]) and runtime not in LITE:
        return "other", f"promised bits: {same} of {total}, {apart:.3g} apart"
    if net["inputs"][0]["int"] and not is_float(net, file, runtime):
        return within_mean(apart, mean, coarse_bound(net, file, runtime), want)
    return within(apart, bound_of(net, file, y) + 2 * getattr(run, "step", 0.0), y)


def is_float(net, file, runtime):
    """Of tokens: whether no code may flip."""
    if file["format"] in ("gguf", *FOLDERS):
        return kind_of(net, file, runtime) == "floats"
    return file["floats"] and not file["changed"] and net["bits"] == 0


def coarse_bound(net, file, runtime):
    kind = kind_of(net, file, runtime) if file["format"] in ("gguf", *FOLDERS) else None
    return LANGUAGE[kind] if kind else 4 / (2 ** (net["bits"] or 8) - 1)


def within_mean(apart, mean, bound, want):
    size = max(root_mean(w) for w in want)
    share = apart / max(largest_of(want), 1e-30)
    text = f"{share:.2g} of the largest, {mean / max(size, 1e-30):.2g} of the "
    text += f"mean, bound {bound:.3g}"
    return ("near" if mean <= bound * size and apart <= OUTLIER * bound * largest_of(want) else
            "other"), text


def within(apart, bound, y):
    largest = largest_of(y)
    text = f"{apart / max(largest, 1e-30):.2g} of the largest {largest:.3g}, bound {bound:.3g}"
    return ("near" if apart <= bound else "other"), text


def read_again(net, file, y, own):
    """A file of floats or blocks as detent reads it, which has the model's weights."""
    same, total, apart, mean = compare(own[0], y[0])
    if same == total:
        return "equal", ""
    if file["form"] == "f16":
        return within_mean(apart, mean, LANGUAGE["f16"], y)
    return within(apart, LANGUAGE["floats"] * largest_of(y), y)


def verified(net, file, y):
    """What --verify says must be what a runtime of its definition does."""
    if "unverified" in file:
        return "other", f"--verify: {file['unverified']}"
    if "verified" not in file:
        return None
    same, total, apart = file["verified"]
    if file["exact"] and same < total:
        return "other", f"--verify: {same} of {total}"
    return None


def batches_of(net, sample, key):
    if not net.get("same", True):
        return net["batches"][-1:]  # ranges are those of the batch that was computed
    if sample is None:
        return net["batches"]
    return [random.Random(f"{sample} {key}").choice(net["batches"])]


def work(folder, lines, first, sample, report):
    """Cells of lines `first`, ... of the manifest; report(line, cell) after each line."""
    for number, (net, line) in enumerate(lines):
        if number < first:
            continue
        base = [line.get("net"), net["subject"], net["arithmetic"]]
        form = " ".join(filter(None, [line.get("format"), line.get("form")]))
        if "undrawn" in line:
            report(number, [*base, "-", "-", 0, "other", "no such network: " + line["undrawn"]])
        elif "same" in line and not line["same"]:
            whole = (WHOLE.search(net["recipe"]) is not None and "static" not in base[2] and
                     not re.search("range: (static|learned)", net["recipe"]))
            report(number, [*base, "-", "detent", 0, "refused" if whole else "other",
                            "one range for a batch: its size changes bits, by definition" if whole
                            else "batch sizes change bits"])
        elif "broken" in line:
            report(number, [*base, form, "-", 0, "other", line["broken"] + ": " + line["refused"]])
        elif "refused" in line and "format" not in line:
            report(number, [*base, "all", "-", 0, "refused", line["refused"]])
        elif "format" in line:
            cells(folder, net, line, form, base, sample, lambda c, n=number: report(n, c))
        report(number, None)


def cells(folder, net, file, form, base, sample, report):
    if "refused" in file:
        shape = dict(file, notes="", device=base[2].startswith("device"))
        for runtime, _ in runtimes_of(shape):
            for batch in batches_of(net, sample, f"{base} {form} {runtime}"):
                report([*base, form, runtime, batch, "refused", file["refused"]])
        return
    x = load(folder, net, "x", [p["shape"] for p in net["inputs"]], net["inputs"][0]["int"])
    y = load(folder, net, "y", net["outputs"], False)
    file["device"] = "TFLite Micro computes" in file["promise"]
    if file["device"]:
        file["names"] = names_of(file)
    said = verified(net, file, y)
    if said is not None:
        report([*base, form, "--verify", 0, *said])
    if "unread" in file:
        report([*base, form, "read again", 0, "refused", file["unread"].split(": ", 1)[-1]])
    elif "read" in file:
        own = load(folder, net, file["read"], net["outputs"], False)
        if net["bits"] == 0:  # otherwise the file lacks the specs of activations
            report([*base, form, "read again", 0, *read_again(net, file, y, own)])
        # static and dynamic ranges of rows are not in a GGUF file; blocks are
        y = y if file["form"] == "trained" and "block" in base[2] else own
    for runtime, make in runtimes_of(file):
        for batch in batches_of(net, sample, f"{base} {form} {runtime}"):
            report([*base, form, runtime, batch, *judge(file, net, x, y, runtime, make, batch)])


# ---- the manifest, processes, the table ---------------------------------------------------------


def manifest(folder):
    """(the network of a line, the line), in order."""
    out, heads, nets = [], {}, {}
    for path in sorted(folder.glob("*.jsonl"), key=lambda p: int(p.stem)):
        for text in path.read_text().splitlines():
            line = json.loads(text)
            number = line["net"]
            if "subject" in line:
                heads[number] = line
                continue
            if "recipe" in line:
                nets[number] = {**heads[number], **line}
            out.append((nets.get(number, heads[number]), line))
    return out


def worker(folder, part, parts, sample):
    """Prints a JSON line a cell, and the number of each line that is done."""
    lines = manifest(folder)
    own = [k for k, (net, _) in enumerate(lines) if net["net"] % parts == part]
    first = int(sys.stdin.readline())
    chosen = [lines[k] for k in own]

    def report(number, cell):
        print("cell", json.dumps([number, cell]), flush=True)

    work(folder, chosen, first, sample, report)


def supervise(arguments, part):
    """Cells of a part; a process that dies is started again behind the line at which it died."""
    first, out = 0, []
    while True:
        process = subprocess.Popen(
            [sys.executable, __file__, *arguments, "--part", str(part)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        process.stdin.write(f"{first}\n")
        process.stdin.close()
        cell = None
        for text in process.stdout:
            if not text.startswith("cell "):
                continue
            number, cell = json.loads(text[5:])
            if cell is None:
                first = number + 1
            else:
                out.append(cell)
        if process.wait() == 0:
            return out
        out.append([-1, "?", "?", f"line {first} of part {part}", "?", 0, "other",
                    f"the process ended with {process.returncode}"])
        first += 1


def table(found, say):
    count = collections.defaultdict(collections.Counter)
    for _, _, _, form, runtime, _, verdict, _ in found:
        count[form, runtime][verdict] += 1
    apart = collections.defaultdict(list)
    for *_, form, runtime, _, verdict, text in found:
        if verdict == "near":
            apart[form, runtime].append(float(text.split()[0]))
    say("| form | runtime | cells | equal | near | median, largest | refused | other |")
    say("|---|---|---|---|---|---|---|---|")
    total = collections.Counter()
    for (form, runtime), c in sorted(count.items()):
        total.update(c)
        d = sorted(apart[form, runtime]) or [0]
        far = f"{d[len(d) // 2]:.1g}, {d[-1]:.1g}" if c["near"] else ""
        say(f"| {form} | {runtime} | {sum(c.values())} | {c['equal']} | {c['near']} | {far} | "
            f"{c['refused']} | {c['other']} |")
    say(f"| sum | | {sum(total.values())} | {total['equal']} | {total['near']} | | "
        f"{total['refused']} | {total['other']} |")
    return total


def reason_of(text):
    """The first reason of a refusal, without names and numbers."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    first = lines[1] if len(lines) > 1 and lines[0].endswith(":") else lines[0]
    first = re.sub(r"^(prepare|hf|export|trace): ", "", first)
    first = re.sub(r"^\S+ in (the model|\S+) \([^)]*\): ", "", first)
    first = re.sub(r"^\w+(\.\w+)+( and \d+ more)?: ", "", first)
    first = re.sub(r"^\w+ of l\d\S*: ", "", first)
    return re.sub(r"\d+(\.\d+)?(e-?\d+)?", "N", first)


def reasons(found, say):
    count = collections.Counter()
    for *_, form, runtime, _, verdict, text in found:
        if verdict == "refused":
            count[form.split()[0], reason_of(text)] += 1
    say(f"\n{len(count)} reasons of refused cells, by format")
    for (form, reason), n in count.most_common(REASONS):
        say(f"{n:6} {form}: {reason}")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sample")
    parser.add_argument("--llama", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--part", type=int)
    args = parser.parse_args()
    runtimes_of.llama = args.llama
    if args.part is not None:
        worker(args.folder, args.part, args.jobs, args.sample)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(args.jobs) as pool:
        arguments = [a for a in sys.argv[1:]]
        if "--jobs" not in arguments:
            arguments += ["--jobs", str(args.jobs)]
        found = sum(pool.map(lambda part: supervise(arguments, part), range(args.jobs)), [])
    (args.folder / "cells.json").write_text(json.dumps(found, indent=0))
    total = table(found, print)
    reasons(found, print)
    for cell in found:
        if cell[6] == "other":
            print("other:", *cell[:6], "|", cell[7])
    print(f"{sum(total.values())} cells: {total['equal']} equal, {total['near']} near, "
          f"{total['refused']} refused, {total['other']} other")
    sys.exit(1 if total["other"] else 0)


if __name__ == "__main__":
    main()
