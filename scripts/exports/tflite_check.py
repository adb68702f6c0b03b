#!/usr/bin/env python3
"""Runs .tflite files of `detent-test export_tflite` in LiteRT and TFLite Micro.

    DETENT_EXPORTS=FOLDER detent-test export_tflite
    tflite_check.py FOLDER

A line a file: the largest difference from detent's outputs over the largest of them, in LiteRT; of
a network of integers how many output bytes TFLite Micro computes as detent does. Exit status 1: a
difference above BOUND, or a byte that differs. NAME.skip in the folder leaves a file out.
"""
import json
import pathlib
import sys

import numpy as np

from tflite_run import channels_first, channels_last, run

BOUND = 0.05  # a code that flips, in a network of few


def tensor(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    head = {k: v for k, v in json.loads(raw[8:8 + size]).items() if k != "__metadata__"}
    (about,) = head.values()
    begin, end = about["data_offsets"]
    return np.frombuffer(raw[8 + size + begin:8 + size + end], "<f4").reshape(about["shape"])


def integers(path, x, y):
    """Bytes of TFLite Micro that differ from detent's, of how many."""
    from tflite_micro.python.tflite_micro import runtime

    i = runtime.Interpreter.from_file(str(path), arena_size=1 << 22)
    given, result = i.get_input_details(0), i.get_output_details(0)
    scale, zero = (given["quantization_parameters"][k][0] for k in ("scales", "zero_points"))
    x = channels_last(x, given["shape"])
    steps = (x / np.float32(scale)).astype(np.float64)  # the nearest, halves away from zero
    codes = np.clip(np.copysign(np.floor(np.abs(steps) + 0.5), steps) + zero, -128, 127)
    scale, zero = (result["quantization_parameters"][k][0] for k in ("scales", "zero_points"))
    different = total = 0
    for example, want in zip(codes.astype(np.int8), y):
        i.set_input(example[None], 0)
        i.invoke()
        got = (i.get_output(0).astype(np.int32) - zero).astype(np.float32) * np.float32(scale)
        got = channels_first(got, (1, *want.shape))
        different += int(np.sum(got[0] != want))
        total += want.size
    return different, total


def main():
    folder = pathlib.Path(sys.argv[1])
    failed = 0
    for path in sorted(folder.glob("*.tflite")):
        x, y = (tensor(path.with_suffix(f".{k}.safetensors")) for k in ("in", "out"))
        if path.name.startswith("integers"):
            different, total = integers(path, x, y)
            failed += different > 0
            print(f"{path.stem:12} TFLite Micro {total - different} of {total} bytes equal")
            continue
        y_lite = channels_first(run(path, x, "xnnpack"), y.shape)
        apart = float(np.abs(y_lite - y).max() / max(np.abs(y).max(), 1e-30))
        failed += not apart <= BOUND
        print(f"{path.stem:12} LiteRT {apart:.2g}" + ("" if apart <= BOUND else "  FAILED"))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
