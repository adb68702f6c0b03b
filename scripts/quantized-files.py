"""Quantized files of other programs, imported and compared.

    quantized-files.py DETENT WORK [DRAWS]

ONNX: drawn networks by onnxruntime's quantize_static, as QDQ and as operators of codes, with each
combination of its options. The wanted outputs are onnxruntime's, of operators of codes those of
the same file with each of them spelled out as QuantizeLinear and DequantizeLinear around the
operator of floats: onnxruntime's kernels saturate sums of uint8 by int8 on x86 without VNNI.
Then each network by quantize_dynamic; the wanted outputs are those with the products of integers as
products of floats, which hold such sums exactly.

A row is equal (no number differs by more than 1e-6 of the largest), near (by at most a step of the
output's codes, or twice what onnxruntime's own outputs move when means are changed by 2e-7: means
of codes often lie between two codes, and there the last bit of a sum of floats decides), refused
with a reason, or wrong. Exit status 1: something is wrong, or worse than in quantized-files.txt
(listed_rows.py)."""
import collections
import itertools
import json
import os
import subprocess
import sys

import numpy as np

from listed_rows import complaints

DETENT, WORK = sys.argv[1:3]
DRAWS = int(sys.argv[3]) if len(sys.argv) > 3 else 2
counts = collections.Counter()
results = {}


def run(*arguments):
    return subprocess.run([DETENT, *arguments], capture_output=True, text=True)


def row(name, kind, what, shown):
    counts[kind, what] += 1
    results[name] = what
    if shown or what in ("wrong", "refused"):
        print(f"{name:<52} {what:<8} {shown}", flush=True)


def compare(name, kind, path, x, y, step, slack=0.0):
    """Imports the file, and compares the model's values on x with y."""
    model, inputs = os.path.join(WORK, "model.safetensors"), os.path.join(WORK, "x.npy")
    made = run("import", path, "-o", model, "--quiet")
    if made.returncode:
        return row(name, kind, "refused", " ".join(made.stderr.split()).split(": ", 2)[-1])
    np.save(inputs, np.ascontiguousarray(x))
    told = run("predict", model, inputs, "--json", "--quiet")
    if told.returncode:
        return row(name, kind, "wrong", told.stderr.strip())
    got = np.array([np.ravel(answer["values"]) for answer in json.loads(told.stdout)])
    largest = np.abs(y).max()
    off = np.abs(got - y.reshape(len(y), -1)).max()
    if off <= 1e-6 * largest:
        return row(name, kind, "equal", "")
    what = "near" if off <= max(1.001 * step, 2 * slack) else "wrong"
    return row(name, kind, what, f"{off:.3g} of {largest:.3g}, a step is {step:.3g}")


# ---- ONNX ---------------------------------------------------------------------------------------

def draw_network(random):
    """A network of layers, drawn: its nodes, initializers, and the shapes of x and y."""
    import onnx
    from onnx import helper, numpy_helper
    nodes, weights = [], []

    def weight(*shape):
        name = f"w{len(weights)}.weight"
        values = random.standard_normal(shape) * 0.4
        weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(op, inputs, **attributes):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    x, image = "x", random.random() < 0.7
    shape = [int(random.integers(1, 5)), 8, 8] if image else [int(random.integers(4, 40))]
    wanted, size = list(shape), 8
    channels = shape[0]
    for _ in range(int(random.integers(1, 4)) if image else 0):
        kind = random.choice(["conv", "depthwise", "pool", "mean", "add", "mul"])
        if kind in ("conv", "depthwise"):
            deep = kind == "depthwise"
            out = channels if deep else int(random.integers(2, 9))
            x = node("Conv", [x, weight(out, 1 if deep else channels, 3, 3), weight(out)],
                     pads=[1, 1, 1, 1], group=channels if deep else 1)
            x, channels = node("Relu", [x]) if random.random() < 0.6 else x, out
        elif kind in ("pool", "mean") and size > 2:
            op = "MaxPool" if kind == "pool" else "AveragePool"
            x, size = node(op, [x], kernel_shape=[2, 2], strides=[2, 2]), size // 2
        else:
            other = node("Conv", [x, weight(channels, channels, 1, 1), weight(channels)])
            x = node("Add" if kind != "mul" else "Mul", [other, x])
    if image:
        x = node("Flatten", [x])
        channels *= size * size
    for i in range(int(random.integers(1, 3))):
        out = int(random.integers(2, 12))
        if random.random() < 0.5:
            x = node("Gemm", [x, weight(out, channels), weight(out)], transB=1)
        else:
            x = node("Add", [node("MatMul", [x, weight(channels, out)]), weight(out)])
        channels = out
        x = node("Sigmoid", [x]) if i == 0 and random.random() < 0.2 else x
    nodes[-1].output[0] = "y"
    real = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "drawn", [helper.make_tensor_value_info("x", real, ["n", *wanted])],
        [helper.make_tensor_value_info("y", real, ["n", channels])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model, wanted


def spell_out(model):
    """The file with each operator of codes as QuantizeLinear(operator(DequantizeLinear))."""
    from onnx import helper
    nodes = []

    def node(op, inputs, output=None, attributes=(), **more):
        made = helper.make_node(op, inputs, [output or f"spelled{len(nodes)}"], **more)
        made.attribute.extend(attributes)
        nodes.append(made)
        return made.output[0]

    def value(inputs, **more):
        return node("DequantizeLinear", list(inputs), **more)

    plain = {"QLinearAdd": "Add", "QLinearMul": "Mul", "QLinearMatMul": "MatMul",
             "QLinearAveragePool": "AveragePool", "QLinearGlobalAveragePool": "GlobalAveragePool",
             "QLinearSigmoid": "Sigmoid", "QLinearConv": "Conv", "QGemm": "Gemm"}
    for n in model.graph.node:
        if n.op_type in ("MatMulInteger", "ConvInteger"):
            i = [node("Cast", [name], to=1) if name else "" for name in n.input]
            codes = [node("Sub", [i[k], i[2 + k]]) if len(i) > 2 + k else i[k] for k in range(2)]
            node(n.op_type[:-7], codes, n.output[0], n.attribute)
            continue
        if n.op_type not in plain:
            nodes.append(n)
            continue
        i, op = list(n.input), plain[n.op_type]
        kept = [a for a in n.attribute if a.name not in ("channels_last",)]
        operands, at = [value(i[:3])], 3
        if op in ("Conv", "Gemm", "MatMul", "Add", "Mul"):
            turned = any(a.name == "transB" and a.i for a in kept)
            axis = {"Conv": 0, "Gemm": 0 if turned else 1}.get(op, 1)
            operands.append(value(i[3:6], axis=axis))
            at = 6
        bias = i[8] if op == "Conv" and len(i) > 8 else i[6] if op == "Gemm" else ""
        if bias:
            scale = node("Mul", [i[1], i[4]])
            operands.append(value([bias, scale], axis=0))
        at += op == "Gemm"
        y = node(op, operands, attributes=kept)
        node("QuantizeLinear", [y, i[at], i[at + 1]], n.output[0])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def nudge(model, factor):
    """The file with each mean of a window times a factor."""
    import onnx
    from onnx import helper, numpy_helper
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    moved.graph.initializer.append(numpy_helper.from_array(np.float32(factor), "nudge"))
    del moved.graph.node[:]
    for n in model.graph.node:
        moved.graph.node.append(n)
        if n.op_type == "AveragePool":
            own = moved.graph.node[-1]
            own.output[0] += "_before"
            moved.graph.node.append(
                helper.make_node("Mul", [own.output[0], "nudge"], [n.output[0]]))
    return moved


def check_onnx(draws):
    import onnx
    import onnxruntime
    from onnxruntime import quantization as q
    random = np.random.default_rng(5)

    class Batches(q.CalibrationDataReader):
        def __init__(self, shape):
            self.left = iter([{"x": random.standard_normal((8, *shape)).astype(np.float32)}
                              for _ in range(3)])

        def get_next(self):
            return next(self.left, None)

    options = list(itertools.product(("QDQ", "QOperator"), (False, True), ("QUInt8", "QInt8"),
                                     ("QInt8", "QUInt8"), (False, True), (False, True)))
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain.log_severity_level = 3
    for draw in range(draws):
        model, shape = draw_network(random)
        source, path = os.path.join(WORK, "float.onnx"), os.path.join(WORK, "quantized.onnx")
        onnx.save(model, source)
        for form, channel, activation, weight, reduce, symmetric in options:
            name = f"network {draw}, {form} {activation} {weight}" + channel * " by channel" + \
                reduce * " reduced" + symmetric * " symmetric"
            try:
                q.quantize_static(source, path, Batches(shape), getattr(q.QuantFormat, form),
                                  per_channel=channel, reduce_range=reduce,
                                  activation_type=getattr(q.QuantType, activation),
                                  weight_type=getattr(q.QuantType, weight),
                                  extra_options={"ActivationSymmetric": symmetric})
            except (ValueError, NotImplementedError):
                continue  # onnxruntime does not support this pair of types
            x = random.standard_normal((16, *shape)).astype(np.float32)
            quantized = spell_out(onnx.load(path))
            y, low, high = (
                onnxruntime.InferenceSession(m.SerializeToString(), plain).run(None, {"x": x})[0]
                for m in (quantized, nudge(quantized, 1 - 2e-7), nudge(quantized, 1 + 2e-7)))
            slack = max(np.abs(low - y).max(), np.abs(high - y).max())
            scales = [onnx.numpy_helper.to_array(t) for t in quantized.graph.initializer
                      if t.name.startswith("y") and t.name.endswith("scale")]
            step = float(scales[0]) if scales else 0.0
            compare(name, "onnx", path, x, y, step, slack)
        for channel, weight, reduce in itertools.product((False, True), ("QInt8", "QUInt8"),
                                                         (False, True)):
            name = f"network {draw}, dynamic {weight}" + channel * " by channel" + \
                reduce * " reduced"
            q.quantize_dynamic(source, path, per_channel=channel, reduce_range=reduce,
                               weight_type=getattr(q.QuantType, weight))
            x = random.standard_normal((16, *shape)).astype(np.float32)
            spelled = spell_out(onnx.load(path)).SerializeToString()
            y = onnxruntime.InferenceSession(spelled, plain).run(None, {"x": x})[0]
            compare(name, "dynamic onnx", path, x, y, 0.0)


os.makedirs(WORK, exist_ok=True)
check_onnx(DRAWS)
for (kind, what), n in sorted(counts.items()):
    print(f"{kind}: {n} {what}")
worse = complaints(__file__, results, DRAWS == 2)
print("".join(f"{line}\n" for line in worse), end="")
sys.exit(bool(worse) or any(what == "wrong" for _, what in counts))
