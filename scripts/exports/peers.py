#!/usr/bin/env python3
"""A model of detent by other programs that write C, for scripts/check-exports.

    peers.py FOLDER DETENT

FOLDER has model.safetensors, and of scripts/exports/examples.py x.npy and outputs.safetensors. Each
program gets the model as ONNX in the form that it reads, or, emlearn, its matrices. What it writes
becomes FOLDER/peers/NAME-FORM/model.{h,c}, with the functions of an export of detent around it, so
that one program measures all. Prints a line each: `name | form | error`, the largest difference of
outputs over the largest output, of examples on this processor; or `- name | form | why not`.

emlearn and emx-onnx-cgen are of requirements-peers.txt. onnx2c is in no package: it takes part if
it is installed.
"""
import ctypes
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from onnx_rows import inputs, metadata, schemes
from onnx_check import compare, tensors

HEADER = """#define MODEL_INPUTS {inputs}
#define MODEL_OUTPUTS {outputs}
#define MODEL_ARENA_BYTES 8 /* their memory is static, or on the stack */
int model_run(const float *x, float *y, void *arena);
"""
SOURCE = """#include "model.h"
{code}
int model_run(const float *x, float *y, void *arena)
{{
    (void)arena;
    {call}
    return 0;
}}
"""


def one_example(file, to):
    """The graph with a batch of one, and constants folded, as these programs want it."""
    graph = onnx.load(file)
    for port in (*graph.graph.input, *graph.graph.output):
        port.type.tensor_type.shape.dim[0].dim_value = 1
    del graph.graph.value_info[:]
    onnx.save(graph, to)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(to)
    options.log_severity_level = 3
    ort.InferenceSession(str(to), options, providers=["CPUExecutionProvider"])


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["it failed"]
        raise RuntimeError(lines[-1][:90])
    return done.stdout


def by_emx(graph, folder):
    """On the stack, as a board has no heap."""
    command = pathlib.Path(sys.executable).parent / "emx-onnx-cgen"
    run([command, "compile", "--model-name", "peer", "--large-temp-threshold", "0",
         "--large-weight-threshold", "0", graph, folder / "peer.c"])
    return '#include "peer.c"', "peer((void *)x, (void *)y);"


def by_onnx2c(graph, folder):
    if shutil.which("onnx2c") is None:
        raise RuntimeError("skipped: no onnx2c")
    (folder / "peer.c").write_text(run(["onnx2c", graph]))
    return '#include "peer.c"', "entry((void *)x, (void *)y);"


def by_emlearn(graph, folder):
    """Matrices and biases of a float mlp."""
    from emlearn import net

    graph = onnx.load(graph).graph
    if any(node.op_type not in ("MatMul", "Gemm", "Add", "Relu", "Identity")
           for node in graph.node):
        raise RuntimeError("it has layers of floats alone, and no convolutions")
    arrays = [numpy_helper.to_array(a) for a in graph.initializer]
    weights = [a for a in arrays if a.ndim == 2]
    biases = [a for a in arrays if a.ndim == 1]
    width = graph.input[0].type.tensor_type.shape.dim[1].dim_value
    ordered = []
    for bias in biases:  # find the order: each matrix reads the outputs of the previous
        (at,) = [i for i, w in enumerate(weights) if width in w.shape and bias.size in w.shape]
        w = weights.pop(at)
        ordered.append(w if w.shape == (width, bias.size) else w.T)
        width = bias.size
    relus = ["relu"] * (len(biases) - 1) + ["identity"]
    text = net.c_generate_net_loadable(relus, ordered, biases, prefix="peer")
    (folder / "peer.c").write_text(text)
    (folder / "include").mkdir()
    for header in pathlib.Path(net.__file__).parent.glob("*.h"):
        shutil.copy(header, folder / "include")
    call = (f"(void)eml_net_infer(&peer, x, MODEL_INPUTS);\n    for (int i = 0; i < {width}; i++) "
            f"y[i] = peer.activations{1 + len(biases) % 2}[i];")
    return '#include "peer.c"', call


PEERS = {"emx-onnx-cgen": by_emx, "onnx2c": by_onnx2c, "emlearn": by_emlearn}


def error_of(folder, x, want):
    """On this processor, by a shared library."""
    library = folder / "model.so"
    run(["gcc", "-O2", "-w", "-shared", "-fPIC", f"-I{folder / 'include'}",
         folder / "model.c", "-lm", "-o",
         library])
    model_run = ctypes.CDLL(str(library)).model_run
    got = np.zeros_like(want)
    for one, y in zip(np.ascontiguousarray(x, np.float32), got):
        model_run(one.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), None)
    return compare({"output": got}, {"output": want})[2]


def write(folder, code, call, sizes):
    (folder / "model.h").write_text(HEADER.format(inputs=sizes[0], outputs=sizes[1]))
    (folder / "model.c").write_text(SOURCE.format(code=code, call=call))
    (folder / "model_test.c").write_text('#include "model.h"\n')


def forms(about):
    ranges = schemes(about)[1]
    if ranges == {"static"}:
        yield "qdq"
    yield "plain"


def rows(folder, detent):
    about = metadata(folder)
    want = tensors(folder / "outputs.safetensors")["output"]
    x = inputs(folder, about)
    sizes = x[0].size, want[0].size
    for form in forms(about):
        graph = folder / f"peers-{form}.onnx"
        run([detent, "export", folder / "model.safetensors", "--format", "onnx", "--ops", form,
             "-o", graph])
        one_example(graph, graph)
        for name, make in PEERS.items():
            place = folder / "peers" / f"{name}-{form}"
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            try:
                write(place, *make(graph, place), sizes)
                yield f"{name} | {form} | {error_of(place, x, want):.2g}"
            except Exception as problem:  # any problem is a row of the table
                yield f"- {name} | {form} | {str(problem).splitlines()[0]}"


if __name__ == "__main__":
    for row in rows(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]):
        print(row, flush=True)
