#!/usr/bin/env python3
"""Times a converted model in detent and its exports in other runtimes, with one thread.

    speed.py MODEL SHAPE DETENT LIBRARY     networks: SHAPE of an example, such as 1,28,28
    speed.py MODEL tokens:N DETENT LIBRARY  language models: N tokens, then one more

MODEL is a converted model's file, DETENT the program, LIBRARY libdetent.so. Networks run in
onnxruntime, OpenVINO and LiteRT, with 1 and 64 examples at a time (LiteRT: 1); language models in
transformers, from a folder of compressed-tensors. Prints milliseconds, the fastest of a second.
A runtime that is not here, or does not take the model, is left out with a line.
"""
import ctypes as c
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np  # noqa: E402: after the number of threads

POINTER = c.c_void_p


def clock(work, seconds=1.0):
    work()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


class Detent:
    def __init__(self, library, model):
        self.lib = lib = c.CDLL(library)
        lib.dt_error.restype = c.c_char_p
        lib.dt_forward.restype = POINTER
        self.ctx, self.tape, self.model = POINTER(), POINTER(), POINTER()
        self.check(lib.dt_ctx_create(c.byref(self.ctx), None))
        self.check(lib.dt_tape_create(self.ctx, c.byref(self.tape)))
        self.check(lib.dt_model_load(self.ctx, str(model).encode(), c.byref(self.model), None))
        lib.dt_train(self.model, c.c_bool(False))
        lib.dt_no_grad(self.tape, c.c_bool(True))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.dt_error(self.ctx).decode())

    def network(self, x):
        dims, tensor = (c.c_int64 * x.ndim)(*x.shape), POINTER()
        self.check(self.lib.dt_tensor_from(self.ctx, 0, x.ndim, dims,
                                           x.ctypes.data_as(POINTER), c.byref(tensor)))

        def work():
            if self.lib.dt_forward(self.tape, self.model, tensor) is None:
                raise RuntimeError(self.lib.dt_error(self.ctx).decode())
            self.lib.dt_tape_reset(self.tape)

        return work

    def decoder(self, ids):
        decoder, logits = POINTER(), POINTER()
        self.check(self.lib.dt_decoder_create(self.model, None, c.byref(decoder)))
        ids = (c.c_int32 * len(ids))(*ids)

        def feed(n, keep):
            self.check(self.lib.dt_decoder_rewind(decoder, c.c_int64(keep)))
            self.check(self.lib.dt_decoder_feed(decoder, ids, c.c_int64(n), c.byref(logits)))

        return lambda: feed(len(ids), 0), lambda: feed(1, len(ids))


def export(detent, model, form, to, *more):
    done = subprocess.run([detent, "export", str(model), "--format", form, "-o", str(to),
                           "--quiet", *more], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return str(to)


def onnxruntime(detent, model, folder, x):
    import onnxruntime as ort

    for name, more in (("plain", []), ("nbits", ["--ops", "nbits"])):
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        path = export(detent, model, "onnx", folder / f"{name}.onnx", *more)
        s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        feeds = {s.get_inputs()[0].name: x.reshape(fit(x, s.get_inputs()[0].shape))}
        yield f"onnxruntime {name}", lambda s=s, feeds=feeds: s.run(None, feeds)


def openvino(detent, model, folder, x):
    import openvino as ov

    path = export(detent, model, "onnx", folder / "openvino.onnx")
    core = ov.Core()
    ready = core.compile_model(core.read_model(path), "CPU", {
        "INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"})
    shape = ready.inputs[0].get_partial_shape()
    shape = [-1, *[shape[i].get_length() for i in range(1, shape.rank.get_length())]]
    x = x.reshape(fit(x, shape))
    yield "OpenVINO", lambda: ready([x])


def litert(detent, model, folder, x):
    from tflite_run import channels_last, litert as interpreter

    if len(x) > 1:
        return
    path = export(detent, model, "tflite", folder / "model.tflite")
    shape, kind, invoke = interpreter(path, "xnnpack")
    x = np.ascontiguousarray(channels_last(x, shape).astype(kind))
    yield "LiteRT", lambda: invoke(x)


def fit(x, shape):
    """An mlp reads an image as a row."""
    return [len(x), *shape[1:]]


def networks(model, shape, detent, library):
    own = Detent(library, model)
    for batch in (1, 64):
        x = np.random.default_rng(1).random((batch, *shape), np.float32)
        print(f"{batch:3d} detent {clock(own.network(x)):.3f}")
        with tempfile.TemporaryDirectory() as folder:
            for runtime in (onnxruntime, openvino, litert):
                try:
                    for name, work in runtime(detent, model, pathlib.Path(folder), x):
                        print(f"{batch:3d} {name} {clock(work):.3f}")
                except (ImportError, RuntimeError) as why:
                    print(f"    {runtime.__name__}: {why}")


def language(model, tokens, detent, library):
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    ids = [1 + i % 7 for i in range(tokens)]
    all_at_once, one_more = Detent(library, model).decoder(ids)
    print(f"detent: {tokens} tokens {clock(all_at_once):.3f}, one more {clock(one_more):.3f}")
    with tempfile.TemporaryDirectory() as folder:
        path = export(detent, model, "compressed-tensors", pathlib.Path(folder) / "m")
        m = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        with torch.inference_mode():
            x, one = torch.tensor([ids]), torch.tensor([[1]])
            first = clock(lambda: m(x, use_cache=True))
            past = m(x, use_cache=True).past_key_values

            def step():
                m(one, past_key_values=past, use_cache=True)
                past.crop(-1)

            print(f"transformers: {tokens} tokens {first:.3f}, one more {clock(step):.3f}")


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    model, shape, detent, library = sys.argv[1:]
    try:
        if shape.startswith("tokens:"):
            language(model, int(shape[7:]), detent, library)
        else:
            networks(model, [int(n) for n in shape.split(",")], detent, library)
    except (ImportError, OSError, RuntimeError, ValueError) as why:
        sys.exit(f"speed.py: {why}")


if __name__ == "__main__":
    main()
