"""Examples for the check of an exported model.

    examples.py inputs FOLDER COUNT SHAPE    FOLDER/x.npy, y.npy and examples.yaml, a recipe with
                                             which `detent eval` runs a model on them
    examples.py join FOLDER                  x.npy and outputs.safetensors as examples.bin

Inputs are noise of several sizes, a row of zeros, one of a constant, and rows with few large
values, so that ranges of every kind are met."""
import json
import pathlib
import sys

import numpy


def inputs(folder, count, shape):
    random = numpy.random.default_rng(1)
    x = random.standard_normal((count, *shape), dtype=numpy.float32)
    if count > 3:
        x[1] = 0
        x[2] = numpy.abs(x[2]) * numpy.float32(1e-3) + 1
        x[3] *= random.random(x[3].shape, dtype=numpy.float32) < 0.02
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", numpy.zeros(count, numpy.int64))
    (folder / "examples.yaml").write_text(
        "run: {dir: none}\nmodel: {family: mlp, sizes: [1, 1]}\n"
        f"data: {{format: tensors, dir: {json.dumps(str(folder))}, train: {{x: x.npy, y: y.npy}},\n"
        "    test: {x: x.npy, y: y.npy}}\n")


def tensor(path, name):
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    about = json.loads(raw[8:start])[name]
    begin, end = about["data_offsets"]
    return numpy.frombuffer(raw[start + begin:start + end], "<f4").reshape(about["shape"])


def join(folder):
    x = numpy.load(folder / "x.npy")
    y = tensor(folder / "outputs.safetensors", "output")
    x, y = x.reshape(len(x), -1), y.reshape(len(x), -1)
    (folder / "examples.bin").write_bytes(
        numpy.concatenate([x.astype("<f4"), y.astype("<f4")], axis=1).tobytes())
    print(x.shape[1], y.shape[1])


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "inputs":
        inputs(folder, int(sys.argv[3]), [int(n) for n in sys.argv[4].split(",")])
    else:
        join(folder)
