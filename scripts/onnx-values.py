"""Writes a safetensors file for `detent import --check`: random inputs of an ONNX model, and the
outputs that onnxruntime computes of them.

    python3 scripts/onnx-values.py MODEL.onnx VALUES.safetensors [BATCH]

Needs onnxruntime and numpy (see scripts/check-import)."""
import json
import struct
import sys

import numpy as np
import onnxruntime as ort


def write_safetensors(path, tensors):
    """Tensors of f32 under their names."""
    header, data = {}, b""
    for name, x in tensors.items():
        x = np.ascontiguousarray(x, dtype="<f4")
        header[name] = {"dtype": "F32", "shape": list(x.shape),
                        "data_offsets": [len(data), len(data) + x.nbytes]}
        data += x.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def values_of(model, batch, seed=0):
    """Inputs and outputs of a model, by name. A batch size that the file fixes stays."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(seed)
    inputs = {}
    for i in session.get_inputs():
        first = i.shape[0] if isinstance(i.shape[0], int) else batch
        inputs[i.name] = random.standard_normal([first] + i.shape[1:]).astype(np.float32)
    names = [o.name for o in session.get_outputs()]
    return {**inputs, **dict(zip(names, session.run(names, inputs)))}


if __name__ == "__main__":
    batch = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    write_safetensors(sys.argv[2], values_of(sys.argv[1], batch))
