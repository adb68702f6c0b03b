#!/usr/bin/env python3
"""Rows of scripts/check-exports: a model as ONNX in OpenVINO, beside detent's outputs.

    openvino_rows.py FOLDER DETENT

FOLDER has model.safetensors, and of scripts/exports/examples.py x.npy and outputs.safetensors. The
forms of onnx_rows.py are read by OpenVINO's own reader and run in f32 with 1 and 2 threads. Prints
a line each, `target | text`; it begins with `!` where values differ by more than BOUNDS, and with
`-` where OpenVINO does not read the file.
"""
import pathlib
import sys

import numpy as np
import openvino

from onnx_check import compare, tensors
from onnx_rows import export, forms, inputs, metadata

# Bounds of the largest difference over the largest output. OpenVINO computes doubles as floats, so
# that codes flip in the plain form; MatMulNBits always rounds activations to int8 in blocks of 32,
# the size of detent's blocks, whether or not the file says so.
BOUNDS = {"rounding": 2e-6, "codes": 0.05, "float activations": 0.25, "block activations": 0.05}
TYPES_OF = {"f32": np.float32, "i64": np.int64, "i32": np.int32}


def run(core, file, x, threads):
    model = core.compile_model(core.read_model(file), "CPU", {
        "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    port = model.inputs[0]
    x = x.astype(TYPES_OF[port.get_element_type().get_type_name()])
    shape = port.get_partial_shape()
    if not shape[shape.rank.get_length() - 1].is_dynamic:  # an mlp reads an image as a row
        x = x.reshape([len(x), *[shape[i].get_length() for i in range(1, len(shape))]])
    return model([x])[0]


def rows(folder, detent):
    about = metadata(folder)
    x = inputs(folder, about)
    want = tensors(folder / "outputs.safetensors")["output"]
    core = openvino.Core()
    for ops, more, kind in forms(about):
        title = " ".join([ops, *more]).replace("--accuracy-level", "level")
        if "--past" in more:  # OpenVINO reads it as it does the other
            continue
        if ops == "nbits" and kind == "rounding":
            kind = "block activations"
        file, _ = export(folder, detent, ops, more)
        try:
            got = [run(core, file, x, threads) for threads in (1, 2)]
        except RuntimeError as problem:
            said = [line for line in str(problem).splitlines() if line.strip()]
            yield f"- OpenVINO {title} | skipped: {said[-1].strip()[:150]}"
            continue
        found = [compare({"output": y}, {"output": want}) for y in got]
        equal, error = min(f[0] for f in found), max(f[2] for f in found)
        good = "" if error <= BOUNDS[kind] else "! "
        yield f"{good}OpenVINO {title} | {equal} of {found[0][1]}, near: {error:.2g}, {kind}"


if __name__ == "__main__":
    for row in rows(pathlib.Path(sys.argv[1]), sys.argv[2]):
        print(row, flush=True)
