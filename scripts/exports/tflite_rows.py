#!/usr/bin/env python3
"""Rows of scripts/check-exports: a model as TFLite in LiteRT, and a network of integers in TFLite
Micro, beside detent's outputs.

    tflite_rows.py FOLDER DETENT

FOLDER has model.safetensors, and of scripts/exports/examples.py x.npy and outputs.safetensors. The
file is verified by detent's own interpreter, too. Prints a line each, `target | text`; it begins
with `!` where values differ by more than BOUNDS, or a byte of a network of integers does, and with
`-` where the format cannot express the model.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np

from tflite_check import integers, tensor
from tflite_run import channels_first, run

# Bounds of the largest difference over the largest output. A code that flips moves an output by
# much more than rounding does, and a range for each pixel moves it by still more.
BOUNDS = {"floats": 2e-6, "codes": 0.05}
EXACT = "TFLite Micro computes the model's bytes"


def standardized(folder):
    """The examples as the file reads them: standardized in float, as detent does it."""
    with open(folder / "model.safetensors", "rb") as f:
        about = json.loads(f.read(int.from_bytes(f.read(8), "little")))["__metadata__"]
    x = np.load(folder / "x.npy")
    data = json.loads(about["detent.data"])
    if not data.get("mean"):
        return x
    extents = [1] * x.ndim
    extents[1 + data["axis"]] = -1
    mean, deviation = (np.array(data[k], np.float32) for k in ("mean", "deviation"))
    if mean.size == 1:
        return (x - mean) / deviation
    return (x - mean.reshape(extents)) / deviation.reshape(extents)


def export(folder, detent):
    file = folder / "model.tflite"
    file.unlink(missing_ok=True)
    done = subprocess.run(
        [detent, "export", folder / "model.safetensors", "--format", "tflite", "-o", file,
         "--verify"], capture_output=True, text=True, check=False)
    return file, done.returncode, done.stdout + done.stderr


def rows(folder, detent):
    file, status, said = export(folder, detent)
    if status != 0:
        lines = [text.strip() for text in said.strip().splitlines()]
        refused = next((i for i, text in enumerate(lines) if "cannot express" in text), None)
        line = lines[-1 if refused is None else refused + 1]
        refused = refused is not None
        yield f"{'-' if refused else '!'} LiteRT | {'skipped: ' if refused else ''}{line[:150]}"
        return
    x, want = standardized(folder), tensor(folder / "outputs.safetensors")
    if EXACT in said:
        different, total = integers(file, x, want)
        good = "" if different == 0 else "! "
        yield f"{good}TFLite Micro | {total - different} of {total}"
        return
    bound = BOUNDS["floats" if " 0 products of integers" in said else "codes"]
    for threads in (1, 2):
        got = channels_first(run(file, x, "xnnpack", threads), want.shape)
        equal = int(np.sum(got.view(np.int32) == want.view(np.int32)))
        error = float(np.abs(got - want).max() / np.abs(want).max())
        good = "" if error <= bound else "! "
        yield f"{good}LiteRT, {threads} threads | {equal} of {want.size}, near: {error:.2g}"


if __name__ == "__main__":
    for row in rows(pathlib.Path(sys.argv[1]), sys.argv[2]):
        print(row, flush=True)
