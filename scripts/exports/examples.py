"""Examples for the check of an exported model.

    examples.py inputs FOLDER COUNT    FOLDER/x.npy, y.npy and examples.yaml, a recipe with which
                                       `detent eval` runs FOLDER/model.safetensors on them
    examples.py join FOLDER            x.npy and outputs.safetensors as examples.bin

Inputs of a language model are tokens that are drawn, as many as its context. Others are noise of
several sizes, an example of zeros, one of nearly equal numbers, and one of few large values, so
that ranges of every kind are met."""
import json
import pathlib
import sys

import numpy


def header(path):
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    return raw, start, json.loads(raw[8:start])


def targets(about, count):
    if about["target"] == "classes":
        return "classification", numpy.zeros(count, numpy.int64)
    if about["target"] in ("images", "anomaly"):  # the output has the shape of an example
        return "anomaly", numpy.zeros(count, numpy.int64)
    return "regression", None


def tokens(folder, count, about):
    """Windows of running text, one behind the other; the last target is one token more."""
    (options,) = about.values()
    length = options["context"]
    ids = numpy.random.default_rng(1).integers(0, options["vocab"], count * length + 1)
    ids.astype("<u2").tofile(folder / "ids.bin")
    numpy.save(folder / "x.npy", ids[:-1].reshape(count, length))
    (folder / "examples.yaml").write_text(
        "run: {dir: none}\n"
        f"model: {{family: gpt, vocab: {options['vocab']}, context: {length}, layers: 1, heads: 1,"
        " width: 8}\n"
        f"data: {{format: tokens, dir: {json.dumps(str(folder))}, train: [ids.bin],\n"
        f"    test: [ids.bin], context: {length}}}\n")


def inputs(folder, count):
    metadata = header(folder / "model.safetensors")[2]["__metadata__"]
    if "detent.data" not in metadata:
        return tokens(folder, count, json.loads(metadata["detent.model"]))
    about = json.loads(metadata["detent.data"])
    shape = about["input"]
    random = numpy.random.default_rng(1)
    x = random.standard_normal((count, *shape), dtype=numpy.float32)
    x[1] = 0
    x[2] = numpy.abs(x[2]) * numpy.float32(1e-3) + 1
    x[3] *= random.random(x[3].shape, dtype=numpy.float32) < 0.02
    task, y = targets(about, count)
    if y is None:  # numbers: as many as the model gives
        y = numpy.zeros((count, about.get("outputs", 1)), numpy.float32)
    numpy.save(folder / "x.npy", x)
    numpy.save(folder / "y.npy", y)
    axis = "first" if about["axis"] == 0 and len(shape) > 1 else "last"
    (folder / "examples.yaml").write_text(
        "run: {dir: none}\nmodel: {family: mlp, sizes: [1, 1]}\n"
        f"data: {{format: tensors, task: {task}, dir: {json.dumps(str(folder))},\n"
        f"    standardize: {{axis: {axis}}},\n"
        "    train: {x: x.npy, y: y.npy}, test: {x: x.npy, y: y.npy}}\n")


def tensor(path, name):
    raw, start, about = header(path)
    begin, end = about[name]["data_offsets"]
    return numpy.frombuffer(raw[start + begin:start + end], "<f4").reshape(about[name]["shape"])


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
        inputs(folder, int(sys.argv[3]))
    else:
        join(folder)
