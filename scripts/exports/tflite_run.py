"""Runs a .tflite file in LiteRT or TFLite Micro: run(path, x, program) gives the outputs.

Programs: "xnnpack", LiteRT's default kernels; "builtin" and "reference", its others; "micro", the
interpreter of TFLite Micro. Examples are run one by one, x[i] being an input of the file, or the
channels-first form of one.

Versions: ai-edge-litert 2.3.0, tflite_micro 0.dev20261023182759, numpy 2.4.6 (pip).
"""
import numpy as np


def channels_last(x, shape):
    """x [N, C, ...] as the file's [N, ..., C]; an mlp reads an image as a row."""
    shape = list(shape[1:])
    moved = np.moveaxis(x, 1, -1) if x.ndim > 2 else x
    if list(x.shape[1:]) == shape:
        return x
    if list(moved.shape[1:]) == shape:
        return moved
    return x.reshape([len(x), *shape])


def litert(path, kernels, threads=1):
    from ai_edge_litert import interpreter as li

    kinds = {"xnnpack": li.OpResolverType.AUTO,
             "builtin": li.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
             "reference": li.OpResolverType.BUILTIN_REF}
    i = li.Interpreter(model_path=str(path), num_threads=threads,
                       experimental_op_resolver_type=kinds[kernels])
    i.allocate_tensors()
    given, result = i.get_input_details()[0], i.get_output_details()[0]

    def invoke(x):
        i.set_tensor(given["index"], x)
        i.invoke()
        return i.get_tensor(result["index"]).copy()

    return given["shape"], given["dtype"], invoke


def micro(path):
    from tflite_micro.python.tflite_micro import runtime

    i = runtime.Interpreter.from_file(str(path), arena_size=1 << 23)

    def invoke(x):
        i.set_input(x, 0)
        i.invoke()
        return i.get_output(0)

    return i.get_input_details(0)["shape"], i.get_input_details(0)["dtype"], invoke


def run(path, x, program, threads=1):
    shape, kind, invoke = micro(path) if program == "micro" else litert(path, program, threads)
    x = channels_last(x, shape).astype(kind)
    return np.concatenate([invoke(np.ascontiguousarray(x[i:i + 1])) for i in range(len(x))])


def channels_first(y, shape):
    """Outputs in detent's order of dimensions, of that shape."""
    if y.shape == shape:
        return y
    return np.moveaxis(y, -1, 1).reshape(shape)
