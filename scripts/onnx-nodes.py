"""Compares `detent import` with the tests of nodes that the package onnx has, and with onnxruntime
on nodes whose attributes are drawn: each node is equal (to 1e-6 of the largest value), or refused.

    python3 scripts/onnx-nodes.py DETENT FOLDER [DRAWS [SEED]]

Prints counts, and each node that is wrong. First it compares onnx_attributes.inc with the
operators of the package. Needs onnx, onnxruntime and numpy (see scripts/check-import)."""
import collections
import importlib
import math
import os
import re
import subprocess
import sys
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

write_safetensors = importlib.import_module("onnx-values").write_safetensors
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "../src/io/onnx/onnx_attributes.inc")
NEWEST, CLOSE = 28, 1e-6


# ---- the table -------------------------------------------------------------------------------

def read_table():
    """Versions [(since, least_in, most_in, most_out)] and attributes {name: row} by operator."""
    versions, attributes = collections.defaultdict(list), collections.defaultdict(dict)
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            row = re.match(r'DT__ONNX_(\w+)\((.*)\)', line)
            if not row:
                continue
            words = [w.strip().strip('"') for w in row[2].split(",")]
            if row[1] == "VERSION":
                versions[words[0]].append(tuple(int(w) for w in words[1:5]))
            else:
                attributes[words[0]][words[1]] = (words[2], int(words[3]), int(words[4]), words[5],
                                                  row[1] == "READ")
    return versions, attributes


def compare_table(versions, attributes):
    """The faults of the table: what a version of an operator has, and the table says otherwise."""
    faults = []
    for op, rows in versions.items():
        for opset in range(9, min(NEWEST, onnx.defs.onnx_opset_version()) + 1):
            since = [r for r in rows if r[0] <= opset]
            try:
                schema = onnx.defs.get_schema(op, opset, "")
            except onnx.defs.SchemaError:
                schema = None
            gone = schema is None or schema.deprecated
            if gone != (not since or since[-1][2] == -1):
                faults.append(f"{op} {opset}: whether it is there")
            if gone:
                continue
            most = [0 if m == 2**31 - 1 else m for m in (schema.max_input, schema.max_output)]
            if since and since[-1][1:] != (schema.min_input, *most):
                faults.append(f"{op} {opset}: inputs or outputs")
            wanted = {a.name: str(a.type).rsplit(".", maxsplit=1)[-1] for a in
                      schema.attributes.values()}
            wanted = {n: "SPARSE" if t == "SPARSE_TENSOR" else t for n, t in wanted.items()}
            has = {n: r[0] for n, r in attributes[op].items()
                   if r[1] <= opset and (r[2] == 0 or opset <= r[2])}
            if wanted != has:
                faults.append(f"{op} {opset}: attributes {wanted}, in the table {has}")
    return faults


# ---- one model -------------------------------------------------------------------------------

def judge(detent, folder, model, values, more=()):
    """"equal", "refused: why" or "wrong: why" of a model and its inputs and outputs by name."""
    path, out = os.path.join(folder, "node.onnx"), os.path.join(folder, "node.safetensors")
    data = os.path.join(folder, "values.safetensors")
    onnx.save(model, path)
    write_safetensors(data, values)
    run = subprocess.run([detent, "import", path, "-o", out, "--check", data, *more],
                         capture_output=True, text=True, check=False)
    text = run.stdout + run.stderr
    apart = [float(v) for v in re.findall(r"relative to the largest output: ([^ )]*)", text)]
    largest = max(apart, default=math.nan)
    if run.returncode == 0 and largest <= CLOSE:
        return "equal"
    if apart or run.returncode < 0:
        return f"wrong: {largest:.3g} of the largest value, status {run.returncode}"
    last = text.strip().splitlines()[-1] if text.strip() else ""
    # shapes that differ from the expected ones are found by the comparison, and so no refusal
    if "it does not fit the model" in last or "in the file of values" in last:
        return "wrong: " + last
    return "refused: " + last if run.returncode != 0 else "wrong: nothing was compared"


def is_real(x):
    return isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64, np.float16)


def run_onnxruntime(model, inputs):
    """The outputs of a model; None if onnxruntime refuses it."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options,
                                       providers=["CPUExecutionProvider"])
        return session.run(None, inputs)
    except Exception:
        return None


# ---- tests of the package --------------------------------------------------------------------

def constants_behind_the_first(model, inputs):
    """A copy whose inputs behind the first are initializers, and the first's value."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = [i.name for i in copy.graph.input]
    for name, value in list(zip(names, inputs))[1:]:
        if not isinstance(value, np.ndarray):
            return None
        copy.graph.initializer.append(numpy_helper.from_array(value, name))
    del copy.graph.input[1:]
    for opset in copy.opset_import:
        opset.version = min(opset.version, 21) if opset.domain in ("", "ai.onnx") else opset.version
    try:
        onnx.checker.check_model(copy)
    except Exception:  # of a newer version
        for opset, own in zip(copy.opset_import, model.opset_import):
            opset.version = own.version
    return copy


def node_tests(detent, folder):
    from onnx.backend.test.case.node import collect_testcases
    for case in collect_testcases(None):
        for inputs, outputs in case.data_sets or []:
            if not inputs or not all(is_real(x) for x in [inputs[0], *outputs]):
                continue
            model = constants_behind_the_first(case.model, inputs)
            if model is None:
                continue
            first, names = model.graph.input[0].name, [o.name for o in model.graph.output]
            result = judge(detent, folder, model, {first: inputs[0], **dict(zip(names, outputs))})
            if result.startswith("wrong"):  # some expected values have four digits
                outputs = run_onnxruntime(model, {first: inputs[0]})
                if outputs is not None:
                    result = judge(detent, folder, model,
                                   {first: inputs[0], **dict(zip(names, outputs))})
            yield case.name, result


# ---- drawn attributes ------------------------------------------------------------------------

# Operators with the shape of their first input and what follows it: shapes of floats, or arrays.
I = np.int64
SPATIAL = {"Conv": [(4, 2, 3, 3), (4,)], "ConvTranspose": [(4, 2, 3, 3), (2,)], "MaxPool": [],
           "AveragePool": [], "GlobalMaxPool": [], "GlobalAveragePool": []}
CASES = {
    **{op: ((2, 4, 7, 7), more) for op, more in SPATIAL.items() if op != "Conv"},
    "Conv": ((2, 2, 7, 7), SPATIAL["Conv"]),
    "Add": ((2, 3, 4), [(3, 4)]), "Sub": ((2, 3, 4), [(4,)]), "Mul": ((2, 3, 4), [(3, 1)]),
    "Div": ((2, 3, 4), [(4,)]), "Pow": ((2, 3), [np.array(3, np.float32)]),
    "Identity": ((2, 3), []), "Cast": ((2, 3), []), "Shape": ((2, 3), []),
    "Reshape": ((2, 3, 4), [np.array([0, 4, 3], I)]), "Flatten": ((2, 3, 4), []),
    "Squeeze": ((2, 1, 3, 1), [np.array([1, 3], I)]), "Unsqueeze": ((2, 3), [np.array([1, 3], I)]),
    "Transpose": ((2, 3, 4), []), "Concat": ((2, 3, 4), []),
    "Slice": ((2, 5, 6), [np.array([1, 0], I), np.array([4, 5], I), np.array([1, 2], I),
                          np.array([2, 1], I)]),
    "Gather": ((2, 5, 4), [np.array([0, 2], I)]), "Split": ((2, 6, 4), [np.array([4, 2], I)]),
    "Pad": ((2, 3, 4), [np.array([0, 1, 0, 0, 1, 2], I), np.array(0.5, np.float32)]),
    "Resize": ((2, 3, 4, 4), [None, np.array([1, 1, 2, 2], np.float32)]),
    "Upsample": ((2, 3, 4, 4), [np.array([1, 1, 2, 2], np.float32)]),
    "Gemm": ((2, 4), [(4, 3), (3,)]), "MatMul": ((2, 3, 4), [(4, 5)]),
    "BatchNormalization": ((2, 3, 4, 4), [(3,), (3,), (3,), np.array([1.5, 1e-4, 30], np.float32)]),
    "InstanceNormalization": ((2, 3, 4), [(3,), (3,)]),
    "LayerNormalization": ((2, 3, 4), [(4,), (4,)]), "ReduceMean": ((2, 3, 4), [np.array([2], I)]),
    "Dropout": ((2, 3), []), "Softmax": ((2, 3, 4), []), "LogSoftmax": ((2, 3, 4), []),
    "Relu": ((2, 3), []), "Sigmoid": ((2, 3), []), "Tanh": ((2, 3), []), "HardSwish": ((2, 3), []),
    "HardSigmoid": ((2, 3), []), "LeakyRelu": ((2, 3), []), "PRelu": ((2, 3, 4), [(3, 1)]),
    "Clip": ((2, 3), [np.array(-0.5, np.float32), np.array(0.25, np.float32)]),
    "Elu": ((2, 3), []), "Gelu": ((2, 3), []),
    "GRU": ((5, 2, 3), [(1, 12, 3), (1, 12, 4), (1, 24)]),
    "LSTM": ((5, 2, 3), [(1, 16, 3), (1, 16, 4), (1, 32)]),
}
NEEDED = {"MaxPool": {"kernel_shape": [3, 2]}, "AveragePool": {"kernel_shape": [3, 2]},
          "Cast": {"to": 1}, "Concat": {"axis": 1},
          "GRU": {"hidden_size": 4, "linear_before_reset": 1}, "LSTM": {"hidden_size": 4},
          "Pad": {"pads": [0, 1, 0, 0, 1, 2]},
          "Slice": {"starts": [1, 0], "ends": [4, 5], "axes": [1, 2]},
          "Unsqueeze": {"axes": [1, 3]}, "Squeeze": {"axes": [1, 3]}, "ReduceMean": {"axes": [2]},
          "Split": {"split": [4, 2]}}
TEXTS = {"auto_pad": ["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"], "mode": [
    "constant", "reflect", "edge", "wrap", "nearest", "linear", "cubic"],
    "nearest_mode": ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"],
    "coordinate_transformation_mode": ["half_pixel", "asymmetric", "align_corners",
                                       "pytorch_half_pixel", "half_pixel_symmetric"],
    "direction": ["forward", "reverse", "bidirectional"], "approximate": ["none", "tanh"],
    "keep_aspect_ratio_policy": ["stretch", "not_larger", "not_smaller"]}
MAGNITUDES = [1e-30, 1e-12, 1e-5, 0.01, 0.3, 1, 2, 1e3, 1e6, 1e15, 1e30]


def draw_value(random, op, name, kind):
    """A value of an attribute that is seldom its default."""
    if name in TEXTS:
        return str(random.choice(TEXTS[name]))
    if kind == "INT":
        return int(random.integers(-3, 4))
    if kind == "INTS":
        count = {"pads": 4, "perm": 3, "axes": int(random.integers(1, 3))}.get(name, 2)
        if name == "perm":
            return [int(i) for i in random.permutation(3)]
        return [int(i) for i in random.integers(0 if name != "axes" else -3, 4, count)]
    if kind == "FLOAT":
        return float(np.float32(random.choice(MAGNITUDES) * random.choice([-1, 1])
                                * random.uniform(0.5, 2)))
    if kind == "FLOATS":
        return [float(np.float32(random.uniform(-2, 2)))]
    if kind == "STRINGS":
        own = ["Sigmoid", "Tanh"] if op == "GRU" else ["Sigmoid", "Tanh", "Tanh"]
        return own if random.random() < 0.5 else ["Relu"] * len(own)
    return None


def draw_model(random, versions, attributes, op):
    """A model of one node, whose first input is computed."""
    shape, more = CASES[op]
    first = max(9, versions[op][0][0])
    last = min([NEWEST, onnx.defs.onnx_opset_version() - 1] + [v[0] - 1 for v in versions[op]
                                                               if v[2] == -1])
    opset = int(random.integers(first, min(last, 23) + 1))
    since = [v for v in versions[op] if v[0] <= opset][-1]
    rows = {n: r for n, r in attributes[op].items()
            if r[1] <= opset and (r[2] == 0 or opset <= r[2])}
    node = {n: v for n, v in NEEDED.get(op, {}).items() if n in rows}
    for name, row in rows.items():
        value = draw_value(random, op, name, row[0])
        if value is not None and random.random() < (0.3 if len(rows) > 2 else 0.7):
            node[name] = value
    names, initializers, scale = ["x"], [], random.choice([1e-3, 1, 100], p=[0.2, 0.6, 0.2])
    directions = 2 if node.get("direction") == "bidirectional" else 1
    for i, part in enumerate(more[:since[2] - 1] if since[2] > 0 else more):
        if part is None or (i >= since[1] and random.random() < 0.3):
            names.append("")
            continue
        if isinstance(part, tuple):
            if op in ("GRU", "LSTM"):
                part = (directions, *part[1:])
            part = random.standard_normal(part).astype(np.float32)
            if random.random() < 0.2:
                part = part * np.float32(random.choice([1e-12, 1e-5, 1e5, 1e12]))
        elif part.dtype == np.float32 and part.shape == () and random.random() < 0.7:
            part = np.float32(part) * np.float32(random.choice([1e-6, 0.5, 1, 3, 1e4, 1e9]))
            part = np.array(part, np.float32)
        names.append(f"c{i}")
        initializers.append(numpy_helper.from_array(part, names[-1]))
    while len(names) > since[1] and names[-1] == "":
        names.pop()
    outputs = ["y"] if op != "Split" else ["y", "z"]
    made = helper.make_node(op, names, outputs, **node)
    graph = helper.make_graph(
        [made], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return model, random.standard_normal(shape).astype(np.float32) * np.float32(scale), node


# Where onnxruntime itself loses bits: exp(x) - 1 of a small x.
EXACT = {"Elu": lambda x: np.where(x < 0, np.expm1(x.astype(np.float64)), x).astype(np.float32)}


def drawn_tests(detent, folder, draws, seed, versions, attributes):
    for op in CASES:
        random = np.random.default_rng([seed, *op.encode()])
        for _ in range(draws if attributes[op] or CASES[op][1] else 2):
            model, x, node = draw_model(random, versions, attributes, op)
            outputs = run_onnxruntime(model, {"x": x})
            if outputs is None or not all(is_real(y) and y.size > 0 and np.isfinite(y).all()
                                          for y in outputs):
                continue
            if op in EXACT and not node:
                outputs = [EXACT[op](x)]
            values = {"x": x, **dict(zip([o.name for o in model.graph.output], outputs))}
            opset = model.opset_import[0].version
            text = f"{op} {opset} {node} {list(model.graph.node[0].input)}"
            yield text, judge(detent, folder, model, values)


# ---- all -------------------------------------------------------------------------------------

def count(title, results, show):
    counts, whole = collections.Counter(), []
    for name, result in results:
        kind = result.split(":")[0]
        counts[kind] += 1
        whole.append((name, result))
        if kind == "wrong":
            print(f"  {name}: {result}")
    print(f"{title}: {counts['equal']} equal, {counts['wrong']} wrong, {counts['refused']} refused")
    if show:
        for name, result in whole:
            print("    ", name, result)
    return counts["wrong"]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    program, work = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    start = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    verbose = "ONNX_NODES_SHOW" in os.environ
    table = read_table()
    bad = compare_table(*table)
    print("\n".join(bad) if bad else "attributes: the table is that of the package onnx")
    wrong = count("tests of nodes", node_tests(program, work), verbose)
    wrong += count("drawn attributes", drawn_tests(program, work, n, start, *table), verbose)
    sys.exit(1 if wrong > 0 or bad else 0)
