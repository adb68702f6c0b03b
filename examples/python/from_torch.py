"""From a module of PyTorch to a model file of detent, compared on your own batch:

    from from_torch import from_torch
    print(from_torch(module, example_inputs, "model.safetensors"))

exports the module by torch.onnx, runs `detent import`, and compares the results with those of
PyTorch. Where they part, and onnxruntime is installed, the table says at which layer. The first
dimension of every input is the batch. Needs torch, onnx and numpy, and onnxscript for
dynamo=True."""
import os
import subprocess
import tempfile
import warnings

import numpy as np
import onnx
import torch


class NotImported(Exception):
    """`stage` is "export", "import" or "compare"; the text says what was refused, or differs."""

    def __init__(self, stage, text):
        super().__init__(f"{stage}: {text}")
        self.stage = stage


def inputs_of(example_inputs):
    """A tensor alone, or several in a tuple or list."""
    given = example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    for x in given:
        if not isinstance(x, torch.Tensor):
            raise NotImported("export", f"an input is {type(x).__name__}; expected tensors")
    return tuple(given)


def tensors_of(results):
    """The tensors of nested results, in their order."""
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, dict):
        results = list(results.values())
    return [y for part in results if part is not None for y in tensors_of(part)]


def export(module, inputs, path, n_outputs, dynamo, opset):
    """Writes an ONNX file, with any batch if the exporter finds that the module allows it."""
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = [f"y{i}" for i in range(n_outputs)]
    if dynamo:
        batch = {"dynamic_shapes": tuple({0: torch.export.Dim.AUTO} for _ in inputs)}
    else:
        batch = {"dynamic_axes": {name: {0: "batch"} for name in names + outputs}}
    error = None
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # its operators are not those of ONNX
    try:
        for more in (batch, {}):
            try:
                torch.onnx.export(module, inputs, path, input_names=names, output_names=outputs,
                                  opset_version=opset, dynamo=dynamo, verbose=False, **more)
                return
            except Exception as refused:  # exporters raise what they like
                error = error or refused
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    raise NotImported("export", str(error).strip().splitlines()[0][:300] if str(error).strip()
                      else type(error).__name__)


def values_inside(path, given):
    """What onnxruntime computes at every node of a file, by name; nothing without it."""
    try:
        import onnxruntime
    except ImportError:
        return {}
    model = onnx.load(path)
    there = {o.name for o in model.graph.output}
    inside = [o for node in model.graph.node for o in node.output if o and o not in there]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(o) for o in inside)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        results = session.run(inside, given)
    except Exception:  # a model that onnxruntime does not run is compared at its outputs alone
        return {}
    return {name: y for name, y in zip(inside, results)
            if isinstance(y, np.ndarray) and y.dtype == np.float32}


def from_torch(module, example_inputs, path, dynamo=True, opset=None, tolerance=1e-5,
               detent="detent"):
    """Writes `path`, a model file of detent that computes what `module` does in evaluation.
    Returns the lines of the comparison; raises NotImported if a step refuses, or if an output
    differs by more than `tolerance` of its largest value."""
    inputs = inputs_of(example_inputs)
    training = module.training
    module.eval()
    try:
        with tempfile.TemporaryDirectory() as folder, torch.no_grad(), \
                warnings.catch_warnings():
            warnings.simplefilter("ignore")
            file = os.path.join(folder, "model.onnx")
            outputs = tensors_of(module(*inputs))
            export(module, inputs, file, len(outputs), dynamo, opset)
            return compare(file, inputs, outputs, path, tolerance, detent)
    finally:
        module.train(training)


def array_of(x):
    return np.ascontiguousarray(x.detach().cpu().numpy())


def compare(file, inputs, outputs, path, tolerance, detent):
    """Imports an ONNX file and compares it with results of PyTorch."""
    given = {f"x{i}": array_of(x) for i, x in enumerate(inputs)}
    names = [o.name for o in onnx.load(file, load_external_data=False).graph.output]
    expected = {name: array_of(y) for name, y in zip(names, outputs)}
    folder = os.path.dirname(file)
    before, after = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
    np.savez(before, **given)
    np.savez(after, **expected)
    run = [detent, "import", file, "-o", path, "--quiet", "--check", before, "--expect", after,
           "--tolerance", str(tolerance)]
    try:
        done = subprocess.run(run, capture_output=True, text=True, check=False)
    except OSError as missing:
        raise NotImported("import", f"the program {detent} does not run: {missing}") from missing
    if done.returncode == 0:
        return done.stdout
    message = done.stderr.strip() or f"detent ended with status {done.returncode}"
    if done.returncode != 1:
        raise NotImported("import", message)
    np.savez(after, **values_inside(file, given), **expected)
    table = subprocess.run(run, capture_output=True, text=True, check=False).stdout
    raise NotImported("compare", f"{table}{message}")


if __name__ == "__main__":
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(144, 10))
    print(from_torch(net, torch.randn(3, 1, 8, 8), "from-torch.safetensors"), end="")
