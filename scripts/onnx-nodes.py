"""Compares `detent import` with the tests of nodes that the package onnx has, and with onnxruntime
on nodes whose attributes are drawn: each node is equal (to 1e-6 of the largest value), or refused.

    python3 scripts/onnx-nodes.py DETENT FOLDER [DRAWS [SEED]]

A test of the package is imported in several forms, on the test's own data, each through
`detent import --verify`:

    batch     its first dimension is the batch; inputs behind the first of floats are initializers
    inputs    the same, and all inputs of floats are inputs of the model
    none      its inputs have no batch dimension (--batch none), and the others are initializers
    all       the same, and all inputs of floats are inputs of the model
    turned    of GRU, LSTM and RNN, whose batch is dimension 1: with a Transpose before and behind

The version is lowered to 21 where the package's checker allows it. A test is equal if one form is
equal and none is wrong; wrong if one is wrong; else refused. Tests whose outputs are no floats are
left out. The tests of scripts/onnx-nodes.txt must be equal; ONNX_NODES_UPDATE=1 adds those that are
equal now, and takes none away.

Prints counts, and each node that is wrong. First it compares onnx_operators.inc with the
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
                     "../src/io/onnx/onnx_operators.inc")
LISTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx-nodes.txt")
NEWEST, CLOSE = 28, 1e-6
RECURRENT = ("GRU", "LSTM", "RNN")


# ---- the table -------------------------------------------------------------------------------

# what the preprocessor makes of its macros
ROWS = f"""#define DT__ONNX(op, compute, fold, ...) VERSION(op, __VA_ARGS__)
#define DT__ONNX_COMPUTED(op, compute, ...) VERSION(op, __VA_ARGS__)
#define DT__ONNX_CONSTANT(op, fold, ...) VERSION(op, __VA_ARGS__)
#define DT__ONNX_VERSION(...) VERSION(__VA_ARGS__)
#define DT__ONNX_READ(...) READ(__VA_ARGS__)
#define DT__ONNX_NEUTRAL(...) NEUTRAL(__VA_ARGS__)
#include "{TABLE}"
"""


def read_table():
    """Versions [(since, least_in, most_in, most_out)] and attributes {name: row} by operator."""
    versions, attributes = collections.defaultdict(list), collections.defaultdict(dict)
    page = subprocess.run([os.environ.get("CC", "cc"), "-E", "-P", "-x", "c", "-"], input=ROWS,
                          capture_output=True, text=True, check=True).stdout
    for row in re.finditer(r'(VERSION|READ|NEUTRAL)\(([^)]*)\)', page):
        words = [" ".join(re.findall(r'[^"\s]+', w)) for w in row[2].split(",")]
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
            # version 18 of GroupNormalization is deprecated, but files have it
            gone = schema is None or (schema.deprecated and op != "GroupNormalization")
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
    # the comparison finds shapes other than the expected ones: wrong, not refused
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

def with_inputs(model, values, computed):
    """A copy whose inputs are `computed`, by name, and the others initializers; else None."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [i for i in copy.graph.input if i.name in computed]
    for name, value in values.items():
        if name in computed:
            continue
        if not isinstance(value, np.ndarray):
            return None
        copy.graph.initializer.append(numpy_helper.from_array(value, name))
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    for opset in copy.opset_import:
        opset.version = min(opset.version, 21) if opset.domain in ("", "ai.onnx") else opset.version
    try:
        onnx.checker.check_model(copy)
    except Exception:  # a test of a newer version
        for opset, own in zip(copy.opset_import, model.opset_import):
            opset.version = own.version
    return copy


def turned(model, values, outputs):
    """The model and its values with the batch first, where it is dimension 1, or 2 of four."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph, values = copy.graph, dict(values)
    node, first = graph.node[0], graph.input[0]
    values[first.name] = np.moveaxis(values[first.name], 1, 0)
    node.input[0] += "_turned"
    graph.node.insert(0, helper.make_node("Transpose", [first.name], [node.input[0]],
                                          perm=[1, 0, 2]))
    shapes = {first.name: values[first.name].shape}
    for out in graph.output:
        at = outputs[out.name].ndim - 2
        perm = [at] + [i for i in range(outputs[out.name].ndim) if i != at]
        values[out.name] = outputs[out.name].transpose(perm)
        graph.node.append(helper.make_node("Transpose", [out.name], [out.name + "_turned"],
                                           perm=perm))
        values[out.name + "_turned"] = values.pop(out.name)
        out.name += "_turned"
        shapes[out.name] = values[out.name].shape
    for info in [first, *graph.output]:
        del info.type.tensor_type.shape.dim[:]
        for extent in shapes[info.name]:
            info.type.tensor_type.shape.dim.add().dim_value = extent
    return copy, values


def forms(case, inputs, outputs):
    """Models of a test with the values of their inputs and outputs, and options."""
    names = [i.name for i in case.model.graph.input]
    given = dict(zip(names, inputs))
    wanted = dict(zip([o.name for o in case.model.graph.output], outputs))
    real = [n for n, v in given.items() if is_real(v) and v.ndim > 0]
    if not real or len(names) != len(inputs):
        return
    for computed, more in ((real[:1], []), (real, []), (real[:1], ["--batch", "none"]),
                           (real, ["--batch", "none"])):
        if len(real) == 1 and computed is real:
            continue
        model = with_inputs(case.model, given, computed)
        if model is None:
            continue
        values = {**{n: given[n] for n in computed}, **wanted}
        yield model, values, more
        if case.model.graph.node[0].op_type in RECURRENT and computed is not real:
            if not more and len(case.model.graph.node) == 1:
                yield (*turned(model, {computed[0]: given[computed[0]]}, wanted), more)


def judge_form(detent, folder, model, values, more):
    result = judge(detent, folder, model, values, more)
    if result.startswith("wrong"):  # some expected values have four digits
        inputs = {i.name: values[i.name] for i in model.graph.input}
        outputs = run_onnxruntime(model, inputs)
        if outputs is not None:
            names = [o.name for o in model.graph.output]
            result = judge(detent, folder, model, {**inputs, **dict(zip(names, outputs))}, more)
    return result


def node_tests(detent, folder):
    from onnx.backend.test.case.node import collect_testcases
    for case in collect_testcases(None):
        for inputs, outputs in case.data_sets or []:
            if not all(is_real(x) for x in outputs):
                continue
            results = [judge_form(detent, folder, *form) for form in forms(case, inputs, outputs)]
            if results:
                order = ["wrong", "equal", "refused"]
                yield case.name, min(results, key=lambda r: order.index(r.split(":")[0]))


def compare_list(results):
    """The tests that were equal and are no longer."""
    with open(LISTED, encoding="utf-8") as file:
        listed = file.read().split()
    equal = {name for name, result in results if result == "equal"}
    if "ONNX_NODES_UPDATE" in os.environ:
        listed = sorted(equal.union(listed))
        with open(LISTED, "w", encoding="utf-8") as file:
            file.write("".join(name + "\n" for name in listed))
    return [name for name in listed if name not in equal]


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
    "Trilu": ((2, 3, 4), [np.array(1, I)]),
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
    "LRN": ((2, 5, 3, 3), []),
    "Einsum": ((2, 3, 4), [(4, 5)]),
    "RNN": ((5, 2, 3), [(1, 4, 3), (1, 4, 4), (1, 8)]),
    "GRU": ((5, 2, 3), [(1, 12, 3), (1, 12, 4), (1, 24)]),
    "LSTM": ((5, 2, 3), [(1, 16, 3), (1, 16, 4), (1, 32)]),
}
NEEDED = {"MaxPool": {"kernel_shape": [3, 2]}, "AveragePool": {"kernel_shape": [3, 2]},
          "Cast": {"to": 1}, "Concat": {"axis": 1},
          "LRN": {"size": 3}, "Einsum": {"equation": "bij,jk->bik"},
          "RNN": {"hidden_size": 4}, "GRU": {"hidden_size": 4}, "LSTM": {"hidden_size": 4},
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
    "equation": ["bij,jk->bik", "b i j , j k -> k b i", "bij,jk", "bij,jk->bk", "bij,kl->bijl"],
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
        own = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"]}.get(op, ["Sigmoid", "Tanh", "Tanh"])
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
    if directions == 2 and "activations" in node:
        node["activations"] *= 2
    for i, part in enumerate(more[:since[2] - 1] if since[2] > 0 else more):
        if part is None or (i >= since[1] and random.random() < 0.3):
            names.append("")
            continue
        if isinstance(part, tuple):
            if op in RECURRENT:
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


# Where onnxruntime itself loses bits: exp(x) - 1 for a small x.
EXACT = {"Elu": lambda x, alpha=1: np.where(
    x < 0, alpha * np.expm1(x.astype(np.float64)), x).astype(np.float32)}


def drawn_tests(detent, folder, draws, seed, versions, attributes):
    for op in CASES:
        random = np.random.default_rng([seed, *op.encode()])
        for _ in range(draws if attributes[op] or CASES[op][1] else 2):
            model, x, node = draw_model(random, versions, attributes, op)
            outputs = run_onnxruntime(model, {"x": x})
            if outputs is None or not all(is_real(y) and y.size > 0 and np.isfinite(y).all()
                                          for y in outputs):
                continue
            if op in EXACT:
                outputs = [EXACT[op](x, **node)]
            values = {"x": x, **dict(zip([o.name for o in model.graph.output], outputs))}
            opset = model.opset_import[0].version
            text = f"{op} {opset} {node} {list(model.graph.node[0].input)}"
            if op in RECURRENT and node.get("layout", 0) == 0:
                model, values = turned(model, {"x": x}, {"y": outputs[0]})
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
    return counts["wrong"], whole


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    program, work = sys.argv[1:3]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 12
    start = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    verbose = "ONNX_NODES_SHOW" in os.environ
    table = read_table()
    bad = compare_table(*table)
    print("\n".join(bad) if bad else "attributes: the table is that of the package onnx")
    wrong, tests = count("tests of nodes", node_tests(program, work), verbose)
    lost = compare_list(tests)
    for lost_name in lost:
        print(f"  {lost_name}: it was equal before (scripts/onnx-nodes.txt)")
    wrong += count("drawn attributes", drawn_tests(program, work, n, start, *table), verbose)[0]
    sys.exit(1 if wrong > 0 or bad or lost else 0)
