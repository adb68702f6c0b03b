"""Rows of onnxruntime: MatMulNBits with accuracy level 4, which quantizes activations to int8 in
the call and multiplies them with int4 weights in blocks."""

import functools

import numpy
import onnx
import onnxruntime
from onnx import helper

import measure
import work

SOURCE = "onnxruntime " + onnxruntime.__version__
BLOCKS = (32, 128)


def machine():
    return {"onnxruntime": onnxruntime.__version__}


def model(n, block):
    """y [m, n] = x [m, n] w^T, w of random codes."""
    random = numpy.random.default_rng(0)
    weights = {
        "codes": random.integers(0, 256, (n, n // block, block // 2), dtype=numpy.uint8),
        "scales": random.uniform(0.001, 0.002, n * n // block).astype(numpy.float32),
    }
    node = helper.make_node(
        "MatMulNBits",
        ["x", *weights],
        ["y"],
        domain="com.microsoft",
        K=n,
        N=n,
        bits=4,
        block_size=block,
        accuracy_level=4,
    )
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["m", n]) for name in "xy")
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph([node], "product", [x], [y], weights)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


def session(n, block, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    made = model(n, block).SerializeToString()
    return onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])


def rows(options, printer, part, threads):
    if part != "products":
        return
    random = numpy.random.default_rng(1)
    for n, all_rows in work.products(options.quick):
        for block in BLOCKS:  # one session at a time: another one's threads would spin beside it
            made = session(n, block, threads)
            for m in all_rows:
                name = work.product_name(m, n, "int4-group%d" % block, threads)
                run = functools.partial(made.run, None, {"x": random.random((m, n), numpy.float32)})
                trial = measure.Trial(name, SOURCE, "GMAC/s", run, m * n * n)
                measure.measure(options, printer, [trial])
            del made, run, trial
