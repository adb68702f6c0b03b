"""From a module of PyTorch to a model file of detent, compared on your own batch:

    from from_torch import from_torch
    print(from_torch(module, example_inputs, "model.safetensors"))

exports the module by torch.onnx, runs `detent import`, and compares the results with those of
PyTorch. Where they part, a table compares the model with PyTorch at every module inside whose
result the exported file has, and, if onnxruntime is installed, another one with the exported file
at every node. The first dimension of every input is the batch. Needs torch, onnx and numpy, and
onnxscript for dynamo=True."""
import ast
import contextlib
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


# ---- values inside -------------------------------------------------------------------------------

@contextlib.contextmanager
def calls_of(module):
    """Notes each call of a module inside: its path, itself, its inputs, its result, and a copy of a
    result that is a tensor, which another module may change in place."""
    calls = []

    def noting(path):
        def note(part, given, result):
            copy = result.detach().clone() if isinstance(result, torch.Tensor) else None
            calls.append((path, part, given, result, copy))
        return note

    hooks = [part.register_forward_hook(noting(path))
             for path, part in module.named_modules() if path]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def scope_of(node):
    """The path of the module in which a node is: torch.export writes it beside the node, and the
    older exporter as the node's name, "/body/body.0/Conv" of body.0."""
    noted = {p.key: p.value for p in node.metadata_props}.get("pkg.torch.onnx.name_scopes")
    if noted:
        return (["", *ast.literal_eval(noted)])[-2]
    path, before = [], None
    for part in node.name.strip("/").split("/")[:-1]:
        path.append(part[len(before) + 1:] if before and part.startswith(before + ".") else part)
        before = part
    return ".".join(path)


def results_of_modules(graph):
    """The value of a file that is the result of a module, by path: the only one of the module's
    nodes that is read outside of it."""
    scopes = [scope_of(node) for node in graph.node]
    maker = {name: scope for node, scope in zip(graph.node, scopes) for name in node.output}
    read = [(name, scope) for node, scope in zip(graph.node, scopes) for name in node.input]
    read += [(output.name, "") for output in graph.output]
    leaving = {}
    for name, reader in dict.fromkeys(read):
        path = maker.get(name, "")
        while path:
            if not f"{reader}.".startswith(f"{path}."):
                leaving.setdefault(path, set()).add(name)
            path = path.rpartition(".")[0]
    return {path: names.pop() for path, names in leaving.items() if len(names) == 1}


def shapes_of(model):
    inferred = onnx.shape_inference.infer_shapes(model).graph
    return {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
            for v in [*inferred.value_info, *inferred.output]}


def fits(result, shape):
    """Whether a result can have a shape in which 0 is any number."""
    return shape is not None and result.dim() == len(shape) and \
        all(n in (0, m) for n, m in zip(shape, result.shape))


def values_of_torch(model, calls):
    """What PyTorch computed, by the names of values in the file: of modules that were called once
    and gave one tensor. An exporter may fold a norm into the layer before: then the value is the
    result of the norm. If another module has left no node, no value is that of the one before."""
    once = [path for path, *_ in calls]
    calls = [call for call in calls if once.count(call[0]) == 1
             and call[4] is not None and call[4].dtype == torch.float32]
    names, shapes = results_of_modules(model.graph), shapes_of(model)
    scopes = {scope_of(node) for node in model.graph.node}
    values, name_of = {}, {}  # copies by names; names by the results that modules hand on
    for path, part, given, result, copy in calls:
        name = names.get(path)
        if any(f"{scope}.".startswith(f"{path}.") for scope in scopes):
            name_of.pop(id(result), None)
            if name is not None and name not in values and fits(copy, shapes.get(name)):
                values[name], name_of[id(result)] = copy, name
            continue
        name = name_of.get(id(given[0])) if given else None
        if name not in values:
            continue
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            values[name], name_of[id(result)] = copy, name
        elif copy.shape != values[name].shape or not torch.equal(copy, values[name]):
            del values[name]
    return {name: array_of(copy) for name, copy in values.items()}


def values_of_file(model, given):
    """What onnxruntime computes at every node of a file, by name; nothing without it."""
    try:
        import onnxruntime
    except ImportError:
        return {}
    there = [o.name for o in model.graph.output]
    inside = [o for node in model.graph.node for o in node.output if o and o not in there]
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(o) for o in inside)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        results = session.run(there + inside, given)
    except Exception:  # a model that onnxruntime does not run is compared with PyTorch alone
        return {}
    return {name: y for name, y in zip(there + inside, results)
            if isinstance(y, np.ndarray) and y.dtype == np.float32}


# ---- the whole -----------------------------------------------------------------------------------

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
            with calls_of(module) as calls:
                outputs = tensors_of(module(*inputs))
            export(module, inputs, file, len(outputs), dynamo, opset)
            return compare(file, (inputs, outputs, calls), path, tolerance, detent)
    finally:
        module.train(training)


def array_of(x):
    return np.ascontiguousarray(x.detach().cpu().numpy())


def compare(file, computed, path, tolerance, detent):
    """Imports an ONNX file and compares it with what PyTorch computed."""
    inputs, outputs, calls = computed
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
    run[4] = os.path.join(folder, "other.safetensors")  # equal to the exported file, it is written
    raise NotImported("compare", tables(run, after, {**values_of_torch(onnx.load(file), calls),
                                                     **expected},
                                        values_of_file(onnx.load(file), given)) + message)


def tables(run, after, of_torch, of_file):
    """The model beside PyTorch and, if something ran it, beside the exported file."""
    def table(values):
        np.savez(after, **values)
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        return done.returncode, "".join(line for line in done.stdout.splitlines(True)
                                        if not line.startswith(run[4]))

    text = f"the model beside PyTorch, by modules:\n{table(of_torch)[1]}"
    if of_file:
        status, of_nodes = table(of_file)
        text += f"the model beside the exported file, which onnxruntime ran, by nodes:\n{of_nodes}"
        text += "so the exported file is not what PyTorch computed\n" if status == 0 \
            else "so the model is not what the exported file computes\n"
    return text


if __name__ == "__main__":
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(144, 10))
    print(from_torch(net, torch.randn(3, 1, 8, 8), "from-torch.safetensors"), end="")
