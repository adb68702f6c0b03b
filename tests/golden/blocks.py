#!/usr/bin/env python3
"""Makes tests/golden/blocks.safetensors: products of activations in blocks (docs/numerics.md,
sections 1 and 2), by numpy in float, and compares them with other runtimes.

    tests/golden/blocks.py                   writes the file
    tests/golden/blocks.py --check [LIB]     compares the file with onnxruntime (MatMulNBits, level
                                             4), OpenVINO and ggml, of those that are there; LIB is
                                             the folder of llama.cpp's libraries

numpy rounds quotients and products of floats correctly; fmaf is computed by fractions and rounded
once, so that the values are the formulas' own. Tensors of case C:

    C.x [rows, in], C.w [out, in] ([experts, out, in]), C.bias, C.index [rows, k] of experts
    C.qx, C.sx         codes and scales of x [rows, in], [rows, blocks]
    C.qw, C.sw         the same of w
    C.y                the product, f32; of `table` the rows C.index of the dequantized w

The metadata have `cases`, and of each its scheme, bits and scale_dtype: `symmetric 4 f32`."""
import ctypes
import glob
import json
import os
import sys
from fractions import Fraction

import numpy as np

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "blocks.safetensors")
GROUP = 32
F = np.float32

# name: scheme of the weight, bits, dtype of scales, rows, out, in
CASES = {
    "linear": ("symmetric", 4, "f32", 7, 20, 100),
    "q4_0": ("q4_0", 4, "f16", 7, 33, 96),
    "bits2": ("symmetric", 2, "f32", 7, 20, 64),
    "bits8": ("symmetric", 8, "f16", 7, 20, 96),
    "long": ("symmetric", 4, "f32", 2, 3, 1024),
    "experts": ("q4_0", 4, "f16", 7, 10, 64),
    "table": ("q4_0", 4, "f16", 0, 9, 64),
}
EXPERTS = 3


def fma(a, b, c):
    """The float nearest to a b + c, of two the even one."""
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = F(float(exact))
    around = [np.nextafter(near, F(-np.inf)), near, np.nextafter(near, F(np.inf))]
    return min(around, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))


def even(value):
    """A float rounded to a whole number, halves to the even one; Python's round of a fraction."""
    return round(Fraction(float(value)))


def stored(scale, dtype):
    return F(np.float16(scale)) if dtype == "f16" else F(scale)


def q8_0(x, dtype):
    a = np.abs(x).max()
    inverse, scale = F(127) / a, stored(a / F(127), dtype)
    if scale == 0 or not np.isfinite(inverse):
        return [0] * len(x), F(0)
    return [even(v * inverse) for v in x], scale


def q4_0(w, _bits, _dtype):
    d = w[np.argmax(np.abs(w))] * F(-0.125)
    codes = [min(15, int(v * (F(1) / d) + F(8.5))) - 8 for v in w]
    return codes, F(np.float16(d))


def symmetric(w, bits, dtype):
    least, most = -2 ** (bits - 1), 2 ** (bits - 1) - 1
    scale = stored(np.abs(w).max() / F((most - least) / 2), dtype)
    return [even(min(max(v * (F(1) / scale), F(least)), F(most))) for v in w], scale


def rows_of(x, quantize):
    """Codes and scales of each block of each row."""
    codes = np.zeros(x.shape, np.int8)
    scales = np.zeros((len(x), -(-x.shape[1] // GROUP)), F)
    for r, row in enumerate(x):
        for b in range(scales.shape[1]):
            part = slice(b * GROUP, (b + 1) * GROUP)
            codes[r, part], scales[r, b] = quantize(row[part])
    return codes, scales


def multiply(qx, sx, qw, sw, bias):
    """One row of x by one row of w."""
    acc = F(0)
    for b, (a, s) in enumerate(zip(sx, sw)):
        part = slice(b * GROUP, (b + 1) * GROUP)
        total = int(np.dot(qx[part].astype(np.int64), qw[part].astype(np.int64)))
        acc = fma(F(total), s * a, acc)
    return acc if bias is None else acc + bias


def inputs(random, rows, columns):
    """Noise; zeros; ties; a block too small to divide by; a block that f16 has not; an outlier."""
    x = random.standard_normal((rows, columns)).astype(F)
    x[1] = 0
    if rows > 2:
        x[2] = random.integers(-254, 255, columns) / 2
        x[2, ::GROUP] = 127
        x[3, :GROUP] *= F(2.0 ** -140)
        x[4, :GROUP] *= F(1e-9)
        x[5, 40] = 1e4
        x[6] *= 100
    return x


def make():
    tensors, about = {}, {"cases": ",".join(CASES)}
    for name, (scheme, bits, dtype, rows, out, columns) in CASES.items():
        random = np.random.default_rng(sum(map(ord, name)))
        many = EXPERTS if name == "experts" else 1
        w = random.standard_normal((many * out, columns)).astype(F)
        w *= random.random((many * out, 1), dtype=F) + F(0.05)
        maker = q4_0 if scheme == "q4_0" else symmetric
        qw, sw = rows_of(w, lambda part: maker(part, bits, dtype))
        case = {"w": w, "qw": qw, "sw": sw}
        if name == "table":
            index = np.array([3, 0, 8, 3], np.int32)
            case["index"] = index
            case["y"] = np.array([[F(q) * sw[i, c // GROUP] for c, q in enumerate(qw[i])]
                                  for i in index], F)
        else:
            x = inputs(random, rows, columns)
            case["x"] = x
            case["qx"], case["sx"] = qx, sx = rows_of(x, lambda part: q8_0(part, dtype))
            bias = random.standard_normal(out).astype(F) if many == 1 else None
            if many == 1:
                case["bias"] = bias
                case["y"] = np.array([[multiply(qx[r], sx[r], qw[n], sw[n], bias[n])
                                       for n in range(out)] for r in range(rows)], F)
            else:
                case["index"] = index = random.integers(0, EXPERTS, (rows, 2)).astype(np.int32)
                case["y"] = np.array([[[multiply(qx[r], sx[r], qw[e * out + n], sw[e * out + n],
                                                 None) for n in range(out)]
                                       for e in index[r]] for r in range(rows)], F)
                for key in ("w", "qw", "sw"):
                    case[key] = case[key].reshape(EXPERTS, out, -1)
        about[name] = f"{scheme} {bits} {dtype}"
        tensors.update({f"{name}.{key}": value for key, value in case.items()})
    return tensors, about


# ---- the file ---------------------------------------------------------------------------------

DTYPES = {"F32": "<f4", "I8": "i1", "I32": "<i4"}


def save(tensors, about):
    head, at = {"__metadata__": about}, 0
    for name, x in tensors.items():
        dtype = next(k for k, v in DTYPES.items() if np.dtype(v) == x.dtype)
        head[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(PATH, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for x in tensors.values():
            f.write(np.ascontiguousarray(x).tobytes())


def load():
    with open(PATH, "rb") as f:
        raw = f.read()
    start = 8 + int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:start])
    about = head.pop("__metadata__")
    return {n: np.frombuffer(raw[start + t["data_offsets"][0]:start + t["data_offsets"][1]],
                             DTYPES[t["dtype"]]).reshape(t["shape"])
            for n, t in head.items()}, about


# ---- other runtimes ---------------------------------------------------------------------------

def say(program, name, got, want):
    want = want.reshape(got.shape).astype(np.float64)
    size = np.sqrt(np.mean(want ** 2, -1, keepdims=True)) + 1e-300
    error = np.abs(got - want) / size
    equal = int(np.sum(got.astype(F).view(np.uint32) == want.astype(F).view(np.uint32)))
    print(f"{program:24s} {name:8s} {equal} of {got.size} bits equal, "
          f"{error.max():.1e} of a row's root mean square")


def nbits(t, name, bits, level):
    """A graph of one MatMulNBits."""
    from onnx import TensorProto, helper, numpy_helper
    out, columns = t(name, "w").shape
    blocks = t(name, "sw").shape[1]
    codes = np.full((out, blocks * GROUP), 1 << (bits - 1), np.uint8)
    codes[:, :columns] = t(name, "qw").astype(np.int16) + (1 << (bits - 1))
    parts = codes.reshape(out, blocks, -1, 8 // bits)
    packed = sum(parts[..., i] << (bits * i) for i in range(8 // bits)).astype(np.uint8)
    node = helper.make_node("MatMulNBits", ["x", "B", "s"], ["m"], domain="com.microsoft",
                            K=columns, N=out, bits=bits, block_size=GROUP, accuracy_level=level)
    known = [("B", packed), ("s", t(name, "sw").reshape(-1)), ("b", t(name, "bias"))]
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["m", "b"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, columns])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, out])],
        [numpy_helper.from_array(v, n) for n, v in known])
    return helper.make_model(graph, ir_version=10, opset_imports=[
        helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


def in_onnxruntime(t):
    import onnxruntime as ort
    for name in ("linear", "q4_0", "bits2", "bits8", "long"):
        model = nbits(t, name, CASES[name][1], 4).SerializeToString()
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        say(f"onnxruntime {ort.__version__}", name, session.run(None, {"x": t(name, "x")})[0],
            t(name, "y"))


def in_openvino(t):
    import openvino
    core = openvino.Core()
    for name in ("linear", "q4_0", "long"):
        model = core.read_model(nbits(t, name, 4, 4).SerializeToString())
        run = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32",
                                                "DYNAMIC_QUANTIZATION_GROUP_SIZE": "32"})
        say(f"openvino {openvino.__version__[:8]}", name, run([t(name, "x")])[0], t(name, "y"))


class Params(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("memory", ctypes.c_void_p), ("no_data", ctypes.c_bool)]


def blocks_of(codes, scales, bits):
    """Q4_0 or Q8_0."""
    codes = codes.reshape(-1, GROUP)
    d = scales.reshape(-1, 1).astype(np.float16).view(np.uint8)
    if bits == 8:
        return np.concatenate([d, codes.view(np.uint8)], 1)
    up = (codes.astype(np.int16) + 8).astype(np.uint8)
    return np.concatenate([d, up[:, :16] | up[:, 16:] << 4], 1)


def in_ggml(t, folder):
    base, cpu = (ctypes.CDLL(glob.glob(os.path.join(folder, f"libggml-{part}.so"))[0],
                             ctypes.RTLD_GLOBAL) for part in ("base", "cpu"))
    p = ctypes.c_void_p
    base.ggml_init.argtypes, base.ggml_init.restype = [Params], p
    for name in ("new_tensor_2d", "new_tensor_3d", "mul_mat", "mul_mat_id", "get_rows", "get_data",
                 "new_graph"):
        getattr(base, "ggml_" + name).restype = p
    c = p(base.ggml_init(Params(1 << 26, None, False)))

    def tensor(kind, data, *extents):
        n = [ctypes.c_int64(e) for e in extents]
        make_it = base.ggml_new_tensor_2d if len(n) == 2 else base.ggml_new_tensor_3d
        x = p(make_it(c, kind, *n))
        data = np.ascontiguousarray(data)
        ctypes.memmove(p(base.ggml_get_data(x)), data.ctypes.data_as(p), data.nbytes)
        return x

    for name in ("q4_0", "bits8", "experts", "table"):
        bits, w, y = CASES[name][1], t(name, "w"), t(name, "y")
        weight = tensor(8 if bits == 8 else 2, blocks_of(t(name, "qw"), t(name, "sw"), bits),
                        *w.shape[::-1])
        if name == "table":
            ids = t(name, "index")
            result = p(base.ggml_get_rows(c, weight, tensor(26, ids, len(ids), 1)))
        elif name == "experts":
            x, ids = t(name, "x"), t(name, "index")
            given = tensor(0, x, x.shape[1], 1, len(x))
            result = p(base.ggml_mul_mat_id(c, weight, given, tensor(26, ids, *ids.shape[::-1])))
        else:
            x = t(name, "x")
            result = p(base.ggml_mul_mat(c, weight, tensor(0, x, *x.shape[::-1])))
        graph = p(base.ggml_new_graph(c))
        base.ggml_build_forward_expand(graph, result)
        assert cpu.ggml_graph_compute_with_ctx(c, graph, 1) == 0
        got = np.frombuffer(ctypes.string_at(p(base.ggml_get_data(result)), y.nbytes), "<f4")
        got = got.reshape(y.shape)
        say("ggml", name, got + t(name, "bias") if name in ("q4_0", "bits8") else got, y)


def check(folder):
    tensors, _ = load()

    def t(name, key):
        return tensors[f"{name}.{key}"]

    for run in (in_onnxruntime, in_openvino):
        try:
            run(t)
        except ImportError as lacking:
            print(f"skipped: {lacking}")
    if folder is None:
        print("skipped: ggml, without the folder of its libraries")
    else:
        in_ggml(t, folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2] if len(sys.argv) > 2 else None)
    else:
        with np.errstate(all="ignore"):  # blocks of zeros, and smaller than f16 has
            save(*make())
