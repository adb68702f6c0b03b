#!/usr/bin/env python3
"""Rows of scripts/check-exports: a model as ONNX in onnxruntime, beside detent's outputs.

    onnx_rows.py FOLDER DETENT

FOLDER has model.safetensors, and of scripts/exports/examples.py x.npy and outputs.safetensors. Each
form that suits the model is exported, checked by onnx.checker, and run at all levels of
optimization with 1 and 2 threads; `plain` by onnx's ReferenceEvaluator too. Prints a line each,
`target | text`; a text is of the worst run. A line begins with `!` where bits differ although the
exporter says they do not, or values differ by more than BOUNDS.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from onnx_check import LEVELS, TYPES, compare, session, tensors

SAME = "onnxruntime computes the model's bits"
# Bounds of the largest difference over the largest output. A code that flips moves an output by
# much more than rounding does.
BOUNDS = {"rounding": 1e-6, "codes": 0.05, "float activations": 0.25, "block activations": 0.05}


def metadata(folder):
    with open(folder / "model.safetensors", "rb") as f:
        raw = f.read(int.from_bytes(f.read(8), "little"))
    about = json.loads(raw)["__metadata__"]
    return {key: json.loads(value) for key, value in about.items() if value.startswith("{")}


def inputs(folder, about):
    """The examples as the graph reads them: standardized in float, as detent does it."""
    x = np.load(folder / "x.npy")
    data = about.get("detent.data")
    if data is None or not data.get("mean"):
        return x
    extents = [1] * x.ndim
    extents[1 + data["axis"]] = -1
    mean, deviation = (np.array(data[k], np.float32) for k in ("mean", "deviation"))
    if mean.size == 1:
        return (x - mean) / deviation
    return (x - mean.reshape(extents)) / deviation.reshape(extents)


def schemes(about):
    """Bits and granularity of weights, and the ranges of activations: `blocks`, or by the key."""
    layers = about.get("detent.quant", {}).values()
    weights = {(w["scheme"]["bits"], w["scheme"]["granularity"])
               for w in (layer["weight"] for layer in layers if "weight" in layer)}
    inputs_of = [layer["input"] for layer in layers if "input" in layer]
    ranges = {"blocks" if x["scheme"]["granularity"] == "group" else
              x.get("range", {}).get("settings", {}).get("range", "dynamic") for x in inputs_of}
    return weights, ranges


def forms(about):
    """(--ops, more options, what may differ where the exporter promises no bits)."""
    weights, ranges = schemes(about)
    yield "plain", [], "codes" if ranges else "rounding"
    if "blocks" in ranges:
        yield "nbits", [], "codes"  # level 4 computes these blocks
    elif any(granularity == "group" for _, granularity in weights):
        yield "nbits", [], "float activations" if ranges else "rounding"
        yield "nbits", ["--accuracy-level", "4"], "block activations"
    if ranges == {"static"} and all(bits == 8 for bits, _ in weights):
        yield "qdq", [], "codes"
    if "detent.data" not in about:  # a language model
        yield "plain", ["--past"], "codes" if ranges else "rounding"


def export(folder, detent, ops, more):
    file = folder / f"{ops}{''.join(more)}.onnx"
    file.unlink(missing_ok=True)
    done = subprocess.run(
        [detent, "export", folder / "model.safetensors", "--format", "onnx", "--ops", ops, *more,
         "-o", file], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    onnx.checker.check_model(str(file), full_check=True)
    return file, done.stdout + done.stderr


def run(evaluate, ports, x):
    """All examples in one batch; with inputs of a past in two parts, the first without a past."""
    first, *past = ports
    x = x.astype(TYPES[first.type])
    if not isinstance(first.shape[-1], str):  # an mlp reads an image as a row
        x = x.reshape([len(x), *first.shape[1:]])
    if not past:
        return evaluate({first.name: x})[0]
    empty = {p.name: np.zeros([len(x), p.shape[1], 0, p.shape[3]], np.float32) for p in past}
    half = x.shape[1] // 2
    y, *present = evaluate({first.name: x[:, :half], **empty})
    earlier = dict(zip((p.name for p in past), present))
    return np.concatenate([y, evaluate({first.name: x[:, half:], **earlier})[0]], axis=1)


def runs(file, x, reference):
    """(what ran it, outputs)."""
    for level, number in LEVELS:
        for threads in (1, 2):
            s = session(str(file), number, threads)
            ports = s.get_inputs()
            yield "onnxruntime", run(lambda feeds, s=s: s.run(None, feeds), ports, x)
    if reference:
        evaluator = ReferenceEvaluator(str(file))
        yield "onnx reference", run(lambda feeds: evaluator.run(None, feeds), ports, x)


def rows(folder, detent):
    about = metadata(folder)
    x = inputs(folder, about)
    want = tensors(folder / "outputs.safetensors")["output"]
    for ops, more, kind in forms(about):
        title = " ".join([ops, *more]).replace("--accuracy-level", "level")
        try:
            file, said = export(folder, detent, ops, more)
            worst = {}
            for program, got in runs(file, x, ops == "plain" and not more):
                equal, total, error = compare({"output": got}, {"output": want})
                least, most, n = worst.get(program, (total, 0.0, 0))
                worst[program] = min(equal, least), max(error, most), n + 1
        except Exception as problem:  # any problem is a row of the table
            yield f"! {title} | {str(problem).splitlines()[0]}"
            continue
        for program, (equal, error, n) in worst.items():
            text = f"{equal} of {total}" + (f" in {n} runs" if n > 1 else "")
            good = equal == total
            if SAME not in said and not good:
                good = error <= BOUNDS[kind]
                text += f", near: {error:.2g}"
                text += f", {kind}" if kind.endswith("activations") else ""
            yield ("" if good else "! ") + f"{program} {title} | {text}"


if __name__ == "__main__":
    for row in rows(pathlib.Path(sys.argv[1]), sys.argv[2]):
        print(row, flush=True)
