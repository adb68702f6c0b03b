#!/usr/bin/env python3
"""Runs an ONNX file of `detent export` in onnxruntime and compares its outputs with detent's.

    onnx_check.py FILE.onnx INPUTS.safetensors OUTPUTS.safetensors [--bound B] [--reference]
                  [--quick] [--time]

INPUTS and OUTPUTS hold one tensor for each input and output of the graph, of the same name, or in
the same order where names differ. The file is checked by onnx.checker (shapes too), then run at all
four levels of optimization, each with 1 and 2 threads, and with --reference by onnx's
ReferenceEvaluator. Prints a line a run: outputs with equal bits of how many, and the largest error
over the largest magnitude. Exit status 0: every run has equal bits, or with --bound every error is
at most B; 1: some is not.

Without VNNI, as on older processors:
    qemu-x86_64 -cpu Haswell-noTSX VENV/bin/python onnx_check.py ...

Versions: onnxruntime 1.32.0, onnx 1.23.2, numpy 2.4.6 (pip).
"""
import argparse
import json
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort

LEVELS = [
    ("none", ort.GraphOptimizationLevel.ORT_DISABLE_ALL),
    ("basic", ort.GraphOptimizationLevel.ORT_ENABLE_BASIC),
    ("extended", ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED),
    ("all", ort.GraphOptimizationLevel.ORT_ENABLE_ALL),
]
KINDS = {"F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "u1", "I8": "i1"}
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def tensors(path):
    """The tensors of a safetensors file by name, without its package."""
    with open(path, "rb") as f:
        raw = f.read()
    size = int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8 : 8 + size])
    head.pop("__metadata__", None)
    out = {}
    for name, t in head.items():
        begin, end = t["data_offsets"]
        data = raw[8 + size + begin : 8 + size + end]
        out[name] = np.frombuffer(data, KINDS[t["dtype"]]).reshape(t["shape"])
    return out


def by_name(ports, given, what):
    """{name of the port: array}: by name, else in the order of the file."""
    if all(port.name in given for port in ports):
        return {port.name: given[port.name] for port in ports}
    if len(ports) != len(given):
        sys.exit(f"{what}: the graph has {[p.name for p in ports]}, the file {list(given)}")
    return {port.name: array for port, array in zip(ports, given.values())}


def session(path, level, threads):
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def compare(got, want):
    """Equal bits, all outputs, and the largest error over the largest magnitude."""
    equal = total = 0
    worst = 0.0
    for name, w in want.items():
        g = np.asarray(got[name])
        if g.shape != w.shape:
            g = g.reshape(w.shape)
        if w.dtype == np.float32:
            equal += int(np.sum(g.view(np.int32) == w.view(np.int32)))
            error = np.abs(g.astype(np.float64) - w.astype(np.float64))
            if w.size:
                worst = max(worst, float(error.max() / max(np.abs(w).max(), 1e-30)))
        else:
            equal += int(np.sum(g == w))
            worst = max(worst, float(np.any(g != w)))
        total += w.size
    return equal, total, worst


def clock(run, seconds=0.5):
    """The fastest of many runs in milliseconds: other programs may be running."""
    run()
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


class Report:
    def __init__(self, bound):
        self.bound, self.ok = bound, True

    def line(self, title, got, want, note=""):
        equal, total, worst = compare(got, want)
        good = equal == total if self.bound is None else worst <= self.bound
        self.ok = self.ok and good
        verdict = "" if good else "  FAILED"
        print(f"{title:34s} bits equal {equal} of {total}, max error {worst:.2g}{note}{verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("inputs")
    parser.add_argument("outputs")
    parser.add_argument("--bound", type=float)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--time", action="store_true")
    args = parser.parse_args()

    onnx.checker.check_model(args.file, full_check=True)
    report = Report(args.bound)
    first = session(args.file, LEVELS[3][1], 1)
    given = by_name(first.get_inputs(), tensors(args.inputs), args.inputs)
    feeds = {p.name: given[p.name].astype(TYPES[p.type]) for p in first.get_inputs()}
    want = by_name(first.get_outputs(), tensors(args.outputs), args.outputs)
    for level, number in LEVELS[3:] if args.quick else LEVELS:
        for threads in (1,) if args.quick else (1, 2):
            s = session(args.file, number, threads)
            got = dict(zip((o.name for o in s.get_outputs()), s.run(None, feeds)))
            note = f", {clock(lambda: s.run(None, feeds)):.3f} ms" if args.time else ""
            report.line(f"onnxruntime {level}, {threads} threads", got, want, note)
    if args.reference:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(args.file)
        got = dict(zip(evaluator.output_names, evaluator.run(None, feeds)))
        report.line("onnx ReferenceEvaluator", got, want)
    sys.exit(0 if report.ok else 1)


if __name__ == "__main__":
    main()
