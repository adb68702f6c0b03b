"""Makes the ONNX files of this folder, and for each a safetensors file with inputs and the outputs
of onnxruntime. Files are made by PyTorch, or by onnx.helper as other programs write them.

    python3 tests/onnx/make.py      (needs torch, onnx, onnxruntime; see scripts/check-import)"""
import os
import sys

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
values = __import__("onnx-values")
random = np.random.default_rng(1)


def save_values(name, batch=3):
    path = os.path.join(HERE, name)
    values.write_safetensors(path + ".safetensors", values.values_of(path + ".onnx", batch))


def from_torch(name, net, *shape, opset=17, fixed=False, **options):
    """Exports a net whose batch norms have statistics of their own."""
    torch.manual_seed(0)
    net.train()
    for _ in range(3):
        net(torch.randn(8, *shape) * 2 + 1)
    net.eval()
    axes = {} if fixed else {"dynamic_axes": {"x": {0: "n"}, "y": {0: "n"}}}
    x = torch.randn(1 if fixed else 2, *shape)
    torch.onnx.export(net, x, os.path.join(HERE, name + ".onnx"), input_names=["x"],
                      output_names=["y"], opset_version=opset, dynamo=False, **axes, **options)
    save_values(name)


def from_nodes(name, nodes, inputs, outputs, weights, opset=13):
    """A file of nodes: inputs and outputs are {name: shape}, weights {name: array}."""
    def info(of):
        return [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in of.items()]
    graph = helper.make_graph(nodes, name, info(inputs), info(outputs),
                              [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, name + ".onnx"))
    save_values(name)


def floats(*shape):
    return (random.standard_normal(shape) / 2).astype(np.float32)


def node(kind, inputs, outputs, name="", **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), name=name, **attributes)


class Cnn(nn.Module):
    """Convolutions of all forms, a residual, channel shuffle, squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8),
                                  nn.ReLU6())
        self.depthwise = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=8)
        self.act = nn.Hardswish()
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.fc1, self.fc2 = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.mean = nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.act(self.depthwise(x))
        n, c, h, w = x.shape
        x = x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)
        x = self.pool(x)
        gate = self.fc2(torch.relu(self.fc1(x.mean((2, 3), keepdim=True))))
        x = self.mean(x * nn.functional.hardsigmoid(gate))
        a, b = x.chunk(2, 1)
        x = torch.cat([b, a], 1)
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class Tokens(nn.Module):
    """Layer norms, linear layers over the last dimension, gelu, layer scale, silu."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Conv1d(3, 8, 4, 4)
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.layer_scale = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.embed(x).permute(0, 2, 1)
        x = x + self.down(nn.functional.gelu(self.up(self.norm(x)))) * self.layer_scale
        x = nn.functional.silu(x).mean(1)
        return nn.functional.log_softmax(self.head(x), -1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 5, batch_first=True)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        x, _ = self.lstm(x)
        x, h = self.gru(x)
        return self.head(x[:, -1]) + self.head(h[0])


def up():
    return nn.Sequential(nn.ConvTranspose2d(2, 4, 3, 2, 1, 1), nn.PReLU(4),
                         nn.Upsample(scale_factor=2), nn.ConvTranspose2d(4, 2, 2, groups=2),
                         nn.Tanh(), nn.LeakyReLU(0.2),
                         nn.ReflectionPad2d((1, 2, 0, 1)), nn.ELU(), nn.Hardtanh(-0.5, 0.75))


def keras():
    """As programs write it that keep channels last: transposes around, padding on one side only."""
    nodes = [
        node("Transpose", "x", "t0", perm=[0, 3, 1, 2]),
        node("Conv", "t0 k0", "c0", "model/conv/Conv2D", auto_pad="SAME_UPPER", strides=[2, 2]),
        node("Add", "c0 b0", "a0", "model/conv/BiasAdd"),
        node("Transpose", "a0", "t1", perm=[0, 2, 3, 1]),
        node("BatchNormalization", "a0 s m v w", "n0", "model/norm/FusedBatchNorm", epsilon=1e-3),
        node("Relu", "n0", "r0"),
        node("Transpose", "r0", "t2", perm=[0, 2, 3, 1]),
        node("Mul", "t2 scale", "m0", "model/scale/mul"),
        node("Add", "t2 m0", "a1", "model/add/add"),
        node("Clip", "a1 zero six", "a2", "model/act/Relu6"),
        node("ReduceMean", "a2", "g", "model/pool/Mean", axes=[1, 2], keepdims=0),
        node("Shape", "g", "shape"),
        node("Slice", "shape first second at", "n"),
        node("Concat", "n rest", "to", axis=0),
        node("Reshape", "g to", "g2", "model/flatten/Reshape"),
        node("MatMul", "g2 k1", "d", "model/dense/MatMul"),
        node("Add", "d b1", "logits", "model/dense/BiasAdd"),
        node("Softmax", "logits", "y", "model/softmax/Softmax", axis=-1),
        node("Sub", "one y", "z"),
    ]
    whole = lambda *v: np.array(v, np.int64)
    weights = {"k0": floats(6, 3, 3, 3), "b0": floats(1, 6, 1, 1), "s": floats(6), "m": floats(6),
               "v": floats(6), "w": np.abs(floats(6)) + 1, "scale": floats(6), "k1": floats(6, 4),
               "zero": np.float32(0), "six": np.float32(6), "first": whole(0), "second": whole(1),
               "at": whole(0), "rest": whole(-1), "b1": floats(4), "one": np.float32(1)}
    from_nodes("keras", nodes, {"x": ["n", 9, 8, 3]}, {"y": ["n", 4], "z": ["n", 4]}, weights)


def old():
    """Version 9: attributes that are inputs today, erf, typed data, a tensor of f16 and of f64."""
    nodes = [
        node("Pad", "x", "p", pads=[0, 0, 1, 0, 0, 0, 0, 2], value=0.5),
        node("Conv", "p k", "c", "conv", pads=[1, 1, 1, 1], strides=[1, 2]),
        node("Div", "c root", "e0"), node("Erf", "e0", "e1"), node("Add", "e1 one", "e2"),
        node("Mul", "c e2", "e3"), node("Mul", "e3 half", "g"),
        node("Upsample", "g scales", "u", mode="nearest"),
        node("Slice", "u", "s", axes=[2, 3], starts=[1, -4], ends=[9, 9223372036854775807]),
        node("Squeeze", "s2", "q", axes=[2]), node("ReduceMean", "s", "s2", axes=[2]),
        node("Unsqueeze", "q", "w", axes=[2]), node("Dropout", "w", "d", ratio=0.3),
        node("Flatten", "d", "f"), node("Gemm", "f b c2", "y0", "fc", alpha=0.5, beta=2.0),
        node("Softmax", "y0", "y"),
    ]
    nodes[9], nodes[10] = nodes[10], nodes[9]
    weights = {"k": floats(4, 2, 3, 3), "root": np.float32(np.sqrt(2)), "one": np.float32(1),
               "half": np.float32(0.5), "scales": np.array([1, 1, 2, 2], np.float32),
               "b": floats(16, 3), "c2": floats(3)}
    from_nodes("old", nodes, {"x": ["n", 2, 5, 4]}, {"y": ["n", 3]}, weights, opset=9)


def two():
    """Two inputs, arithmetic between them, a split of three, a gathered row."""
    nodes = [
        node("Concat", "a b", "c", axis=1), node("Split", "c", "p q r", axis=1),
        node("Sub", "p q", "d"), node("Mul", "d r", "e"), node("Sigmoid", "e", "f"),
        node("Mul", "e f", "g"), node("Gather", "g i", "h", axis=2),
        node("Gemm", "h k", "y", "out", transB=1),
    ]
    weights = {"i": np.array(1, np.int64), "k": floats(2, 2)}
    from_nodes("two", nodes, {"a": ["n", 4, 3], "b": ["n", 2, 3]}, {"y": ["n", 2]}, weights)


def cells():
    """Every recurrent operator: relu, a reset before the product, from the end, first states that
    other nodes make, and a last c that one reads."""
    nodes = [
        node("Gather", "x first", "x0", axis=1), node("MatMul", "x0 sw", "s0"),
        node("Unsqueeze", "s0 zero", "g0"), node("Neg", "g0", "c0"),
        node("Transpose", "x", "t", perm=[1, 0, 2]),
        node("RNN", "t rw rr rb", "r0 rh", hidden_size=4, direction="bidirectional",
             activations=["Relu", "Relu"]),
        node("Transpose", "r0", "r1", perm=[0, 2, 1, 3]),
        node("Reshape", "r1 joined", "r2"),
        helper.make_node("GRU", ["r2", "gw", "gr", "gb", "", "g0"], ["u0", "uh"], hidden_size=3,
                         direction="reverse"),
        node("Squeeze", "u0 one", "u1"),
        helper.make_node("LSTM", ["u1", "lw", "lr", "lb", "", "uh", "c0"], ["v0", "", "vc"],
                         hidden_size=3),
        node("Squeeze", "v0 one", "v1"), node("ReduceMean", "v1", "v2", axes=[0], keepdims=0),
        node("Squeeze", "vc zero", "c1"), node("Add", "v2 c1", "s"),
        node("Einsum", "s e", "y", equation="bi,ji->bj"),
    ]
    weights = {
        "rw": floats(2, 4, 3), "rr": floats(2, 4, 4), "rb": floats(2, 8),
        "gw": floats(1, 9, 8), "gr": floats(1, 9, 3), "gb": floats(1, 18),
        "lw": floats(1, 12, 3), "lr": floats(1, 12, 3), "lb": floats(1, 24),
        "e": floats(2, 3), "sw": floats(3, 3), "first": np.array(0, np.int64),
        "joined": np.array([0, 0, -1], np.int64),
        "one": np.array([1], np.int64), "zero": np.array([0], np.int64),
    }
    from_nodes("cells", nodes, {"x": ["n", 5, 3]}, {"y": ["n", 2]}, weights)


def dynamic():
    """As onnxruntime's quantize_dynamic writes it, with weights of uint8."""
    def coded(name, x, weight, op, **attributes):
        return [
            node("DynamicQuantizeLinear", x, f"{name}q {name}s {name}z"),
            node(op, f"{name}q {weight} {name}z {weight}z", f"{name}i", **attributes),
            node("Cast", f"{name}i", f"{name}f", to=1),
            node("Mul", f"{name}s {weight}s", f"{name}m"),
            node("Mul", f"{name}f {name}m", f"{name}y"),
        ]
    nodes = [
        *coded("a", "x", "k", "ConvInteger", pads=[1, 1, 1, 1]), node("Add", "ay kb", "a"),
        node("Relu", "a", "r"), node("Flatten", "r", "f"),
        *coded("b", "f", "w", "MatMulInteger"), node("Add", "by wb", "y"),
    ]
    def codes(*shape):
        return random.integers(0, 256, shape).astype(np.uint8)
    weights = {
        "k": codes(4, 2, 3, 3), "ks": np.float32(0.011), "kz": np.uint8(131),
        "kb": floats(1, 4, 1, 1), "w": codes(64, 3),
        "ws": np.array([0.01, 0.02, 0.005], np.float32), "wz": np.array([128, 120, 5], np.uint8),
        "wb": floats(3),
    }
    from_nodes("dynamic", nodes, {"x": ["n", 2, 4, 4]}, {"y": ["n", 3]}, weights)


if __name__ == "__main__":
    from_torch("cnn", Cnn(), 2, 12, 10, do_constant_folding=False,
               training=torch.onnx.TrainingMode.PRESERVE)
    from_torch("folded", Cnn(), 2, 12, 10, opset=11)
    from_torch("fixed", Cnn(), 2, 12, 10, opset=18, fixed=True)
    from_torch("tokens", Tokens(), 3, 20)
    from_torch("recurrent", Recurrent(), 6, 3)
    from_torch("up", up(), 2, 3, 4)
    keras()
    old()
    two()
    cells()
    dynamic()
