#!/usr/bin/env python3
"""blocks.py DETENT WORK: quantized values against other packages (scripts/check-blocks).

Drawn weights go through `detent quantize`; what its file means is compared, bit for bit, with what
the packages compute of the same floats. A language model is trained a few steps and exported as
GGUF: the package gguf must read the values that `--type f32` writes. Folders of compressed-tensors
are made by the package and by detent; both must decode the same weights. Activations are quantized
by the library itself, and a trained model's logits are those of transformers to rounding.
"""
import ctypes
import json
import os
import shutil
import subprocess
import sys

import gguf
import numpy as np
from safetensors.numpy import load_file, save_file

detent, work = os.path.abspath(sys.argv[1]), sys.argv[2]
root = os.getcwd()
os.makedirs(work, exist_ok=True)
os.chdir(work)
failed = 0


def run(*words):
    done = subprocess.run([detent, *words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"detent {' '.join(words)}: {done.stderr}")


def report(name, theirs, ours, of):
    """A row of the table; both are arrays of floats."""
    global failed
    different = int(np.sum(ours.view(np.uint32) != theirs.view(np.uint32)))
    failed += different > 0
    print(f"{name:44} {of:34} {ours.size:8} {different:8}")


def drawn():
    """Rows of several magnitudes, with zeros, ties, long tails and tiny values."""
    r = np.random.default_rng(1)
    w = r.standard_normal((64, 512)) * np.exp2(r.integers(-20, 8, (64, 1)))
    w[0] = 0
    w[1] = r.integers(-3, 4, 512) / 2
    w[2, 7] = 1000
    w[3] = r.standard_t(1.5, 512)
    w[4] *= 2.0**-100
    w[5, :256] = 0
    return w.astype(np.float32)


def quantized(weight, scheme):
    save_file({"w": weight}, "weights.safetensors")
    with open("blocks.yaml", "w") as f:
        f.write("quantize:\n  weight: " + json.dumps(scheme) + "\n")
    run("quantize", "weights.safetensors", "-o", "codes.safetensors", "blocks.yaml")
    return load_file("codes.safetensors")


LEVELS = {"ternary": [-1, 0, 1], "half_levels": [-3, -1, 1, 3], "binary": [-1, 1]}


def values(file, scheme, bits, columns):
    """What docs/format.md says of the codes of a file."""
    packed, scale = file["w.codes"], file["w.scale"].astype(np.float32)
    bit = [packed >> i & 2**bits - 1 for i in range(0, 8, bits)]
    code = np.stack(bit, -1).reshape(packed.shape[0], -1)[:, :columns]
    code = np.array(LEVELS[scheme], np.float32)[code]
    return code * np.repeat(scale, columns // scale.shape[1], axis=1), scale


def mean(w, group):
    """The mean of magnitudes, exact to the last bit of a float but for its ties."""
    blocks = np.abs(w.astype(np.float64)).reshape(w.shape[0], -1, group)
    return np.maximum(blocks.mean(-1).astype(np.float32), np.float32(2.0**-126))


def levels():
    """BitNet's, ParetoQ's and XNOR-Net's formulas as their authors write them in torch."""
    w = drawn()
    for group in 64, 512:
        keys = {"granularity": "group", "group_size": group}
        s = mean(w, group)
        v = w * np.repeat(np.float32(1) / s, group, axis=1)
        one = np.repeat(s, group, axis=1)
        got, _ = values(quantized(w, {"scheme": "ternary", **keys}), "ternary", 2, 512)
        report("ternary", np.clip(np.rint(v), -1, 1) * one + 0, got,
               f"BitNet b1.58, groups of {group}")
        got, _ = values(quantized(w, {"scheme": "binary", **keys}), "binary", 1, 512)
        report("binary", np.where(v < 0, -one, one), got, f"XNOR-Net, groups of {group}")
        got, s = values(quantized(w, {"scheme": "half_levels", **keys}), "half_levels", 2, 512)
        alpha = np.repeat(4 * s, group, axis=1)
        clipped = np.clip(w / alpha, -1 + 1e-7, 1 - 1e-7) * 2 - np.float32(0.5)
        theirs = (np.rint(clipped) + np.float32(0.5)) * (alpha / 2)
        report("half_levels", theirs.astype(np.float32), got, f"ParetoQ, groups of {group}")


def ggml():
    """Blocks of ggml: the package's bytes of our values, and our values of the package's bytes."""
    tq = gguf.GGMLQuantizationType
    w = drawn()
    w[4] = 0
    keys = {"scheme": "ternary", "granularity": "group", "group_size": 256, "scale_dtype": "f16"}
    got, _ = values(quantized(w, keys), "ternary", 2, 512)
    for kind in tq.TQ1_0, tq.TQ2_0:
        back = gguf.quants.dequantize(gguf.quants.quantize(got, kind), kind).reshape(got.shape)
        report("ternary", back + 0, got + 0, f"gguf, values through {kind.name}")


def reference_mx8(w, kind, up):
    """MXFP8 and MXFP6 (E3M2) as torchao computes them, of blocks of 32."""
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.constants import DTYPE_FP6_E3M2
    from torchao.prototype.mx_formats.kernels import f6_e3m2_unpacked_to_f32
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    mode = ScaleCalculationMode.RCEIL if up else ScaleCalculationMode.FLOOR
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "e3m2": DTYPE_FP6_E3M2}
    scale, data = to_mx(torch.from_numpy(w), kinds[kind], 32, mode)
    e = scale.view(torch.uint8).numpy().astype(np.int32).reshape(w.shape[0], -1)
    value = f6_e3m2_unpacked_to_f32(data) if kind == "e3m2" else data.float()
    return np.ldexp(value.reshape(w.shape).numpy(), np.repeat(e - 127, 32, axis=1))


def reals(file, kind, columns):
    """What docs/format.md says of codes that are floats: sign, exponent and mantissa."""
    mantissa, bias = {"e4m3": (3, 7), "e5m2": (2, 15), "e3m2": (2, 3)}[kind]
    code, scale = file["w.codes"].astype(np.int32), file["w.scale"]
    e, m = (code & 127) >> mantissa, code & (1 << mantissa) - 1
    size = np.ldexp(np.where(e > 0, m + (1 << mantissa), m), np.maximum(e, 1) - bias - mantissa)
    value = np.where(code > 127, -size, size).astype(np.float32)
    return value * np.repeat(scale, columns // scale.shape[1], axis=1)


def mx8():
    w = drawn()
    w[4] = 0
    for scheme, kind in (("mxfp8", "e4m3"), ("mxfp8_up", "e4m3"), ("mxfp8_e5m2", "e5m2"),
                         ("mxfp6_e3m2", "e3m2")):
        got = reals(quantized(w, {"scheme": scheme}), kind, 512)
        report(scheme, reference_mx8(w, kind, scheme == "mxfp8_up") + 0, got + 0,
               "torchao's to_mx")


def reference_mx(w, up):
    """MXFP4 as torchao computes it (torchao.prototype.mx_formats), of blocks of 32."""
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import to_mx, MXTensor
    mode = ScaleCalculationMode.RCEIL if up else ScaleCalculationMode.FLOOR
    x = torch.from_numpy(w)
    scale, data = to_mx(x, torch.float4_e2m1fn_x2, 32, mode)
    e = scale.view(torch.uint8).numpy().astype(np.int32).reshape(w.shape[0], -1)
    data = data.view(torch.uint8).numpy().reshape(w.shape[0], -1)
    code = np.stack([data & 15, data >> 4], -1).reshape(w.shape)
    half = np.array([0, .5, 1, 1.5, 2, 3, 4, 6], np.float32)
    value = np.concatenate([half, -half])[code]
    return np.ldexp(value, np.repeat(e - 127, 32, axis=1)).astype(np.float32)


def mx():
    w = drawn()
    w[4] = 0  # blocks below 2^-123, which have scales of their own
    half = np.array([0, 1, 2, 3, 4, 6, 8, 12], np.float32)
    six = np.array([*range(17), *range(18, 33, 2), *range(36, 61, 4)], np.float32)
    LEVELS["mxfp4"] = LEVELS["mxfp4_up"] = [*-half[:0:-1], *half]
    LEVELS["mxfp6"] = [*-six[:0:-1], *six]
    for scheme in "mxfp4", "mxfp4_up":
        got, _ = values(quantized(w, {"scheme": scheme}), scheme, 4, 512)
        report(scheme, reference_mx(w, scheme == "mxfp4_up") + 0, got + 0, "torchao's to_mx")
        kind = gguf.GGMLQuantizationType.MXFP4
        back = gguf.quants.dequantize(gguf.quants.quantize(got, kind), kind).reshape(got.shape)
        report(scheme, back + 0, got + 0, "gguf, values through MXFP4")
    got, s = values(quantized(w, {"scheme": "mxfp6"}), "mxfp6", 8, 512)
    a = np.abs(w.reshape(w.shape[0], -1, 32)).max(-1)
    e = np.floor(np.log2(np.where(a > 0, a, 1).astype(np.float64))) - 2
    unit = np.repeat(np.exp2(e - 3), 32, axis=1)
    v = np.clip(w / unit, -60, 60)
    step = np.maximum(1, np.exp2(np.floor(np.log2(np.maximum(np.abs(v), 1))) - 3))
    report("mxfp6", (np.clip(np.rint(v / step) * step, -60, 60) * unit).astype(np.float32) + 0,
           got + 0, "OCP MX, E2M3 in numpy")


def reference_nvfp4(w):
    """NVFP4 as compressed-tensors computes it: values, scales of blocks, and that of the tensor."""
    import torch
    from compressed_tensors.quantization import preset_name_to_scheme
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    x = torch.from_numpy(w)
    args = preset_name_to_scheme("NVFP4A16", ["Linear"]).weights
    of_tensor = generate_gparam(x.min(), x.max())
    blocks = x.reshape(x.shape[0], -1, 16)
    scale, zero = calculate_qparams(blocks.amin(-1), blocks.amax(-1), args, of_tensor)
    value = fake_quantize(x, scale, zero, args, of_tensor)
    return value.numpy(), (scale / of_tensor).numpy() / 2


def torchao_nvfp4(w):
    """The same by torchao, whose scales are E4M3 times amax / 2688."""
    import torch
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
    x = torch.from_numpy(w)
    of_tensor = per_tensor_amax_to_scale(x.abs().max())
    return NVFP4Tensor.to_nvfp4(x, per_tensor_scale=of_tensor).dequantize(torch.float32).numpy()


def nvfp4():
    half = np.array([0, 1, 2, 3, 4, 6, 8, 12], np.float32)
    LEVELS["nvfp4"] = [*-half[:0:-1], *half]
    r = np.random.default_rng(2)
    tensors = [drawn()]
    tensors += [(r.standard_normal((64, 512)) * 2.0**k).astype(np.float32)
                for k in (-90, -20, -7, 0, 40, 110)]
    tensors += [(x.view(np.uint32) & 0xffff0000).view(np.float32) for x in tensors[2:5]]
    ours = [values(quantized(x, {"scheme": "nvfp4"}), "nvfp4", 4, 512) for x in tensors]
    theirs = [reference_nvfp4(x) for x in tensors]
    for what, i in (", values", 0), (", scales", 1):
        report("nvfp4" + what, np.concatenate([x[i].ravel() for x in theirs]) + 0,
               np.concatenate([x[i].ravel() for x in ours]) + 0, "compressed-tensors")
    # of these tensors both packages' scales have the same bits: 2688 / 21 is a power of two
    even = [x * np.float32(21 / np.abs(x).max()) for x in tensors[3:5]]
    for x in even:
        x.flat[np.abs(x).argmax()] = 21
    ours = [values(quantized(x, {"scheme": "nvfp4"}), "nvfp4", 4, 512)[0] for x in even]
    report("nvfp4, largest value 21", np.concatenate([torchao_nvfp4(x) for x in even]) + 0,
           np.concatenate(ours) + 0, "torchao's NVFP4Tensor")
    theirs, ours = torchao_nvfp4(tensors[4]), values(
        quantized(tensors[4], {"scheme": "nvfp4"}), "nvfp4", 4, 512)[0]
    near = np.abs(theirs - ours) <= np.abs(ours) * 2.0**-22
    report("nvfp4, values within 2^-22", near.astype(np.float32), np.ones_like(ours),
           "torchao's NVFP4Tensor")


def folder_of(preset, name):
    """A drawn Llama in a folder as compressed-tensors writes it."""
    import torch
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import (QuantizationConfig, apply_quantization_config,
                                                 preset_name_to_scheme)
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False))
    apply_quantization_config(model, QuantizationConfig(
        config_groups={"group_0": preset_name_to_scheme(preset, ["Linear"])}, ignore=["lm_head"]))
    for layer in model.modules():
        if not hasattr(layer, "quantization_scheme"):
            continue
        args, w, of_tensor = layer.quantization_scheme.weights, layer.weight.data, None
        if hasattr(layer, "weight_global_scale"):
            of_tensor = generate_gparam(w.min(), w.max())
            layer.weight_global_scale.data = of_tensor
        blocks = w.reshape(w.shape[0], -1, args.group_size)
        scale, _ = calculate_qparams(blocks.amin(-1), blocks.amax(-1), args, of_tensor)
        layer.weight_scale.data = scale.to(layer.weight_scale.dtype)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    shutil.rmtree(name, ignore_errors=True)
    model.save_pretrained(name)
    compressor.update_config(name)


def loaded(name):
    """The weights of a folder as transformers and compressed-tensors decode it, in bf16."""
    import torch
    from transformers import AutoModelForCausalLM, CompressedTensorsConfig
    how = CompressedTensorsConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16,
                                                 quantization_config=how)
    return {k: x.float().numpy() for k, x in model.state_dict().items()
            if k.endswith("proj.weight")}


def floats_of(name):
    """The same as detent reads it, rounded to bf16."""
    shutil.rmtree("floats", ignore_errors=True)
    run("export", name, "--format", "hf", "-o", "floats")
    import torch
    file = load_file("floats/model.safetensors")
    return {k: torch.from_numpy(x.astype(np.float32)).bfloat16().float().numpy()
            for k, x in file.items() if k.endswith("proj.weight")}


def folders():
    """Folders of compressed-tensors: theirs read, and ours, from theirs and from training."""
    from safetensors import safe_open
    for preset in "NVFP4A16", "MXFP4A16", "MXFP6A16", "MXFP8A16":
        form = preset[:5].lower()
        folder_of(preset, "theirs")
        shutil.rmtree("ours", ignore_errors=True)
        run("export", "theirs", "--format", "compressed-tensors", "-o", "ours")
        both = []
        for name in "theirs", "ours":
            with safe_open(name + "/model.safetensors", "pt") as f:
                both.append([f.get_tensor(k).float().numpy().ravel() for k in sorted(f.keys())
                             if k.endswith("_scale")])
        report(form + ", scales of the files", np.concatenate(both[0]), np.concatenate(both[1]),
               "a folder of theirs, written again")
        compare_folders(form, "theirs", "compressed-tensors, its folder")
        compare_folders(form, "ours", "compressed-tensors, our folder of it")
    for scheme in "nvfp4", "mxfp4", "mxfp4_up", "mxfp4_near", "mxfp6", "mxfp8", \
            "mxfp8_up", "mxfp8_near":
        exported({"scheme": scheme}, [], "ours")
        compare_folders(scheme, "ours", "compressed-tensors, our trained model")


class Quant(ctypes.Structure):
    """dt_quant_spec of detent/qat.h."""
    _fields_ = [(name, getattr(ctypes, "c_" + kind)) for name, kind in (
        ("scheme", "int"), ("bits", "int64"), ("granularity", "int"), ("group_size", "int64"),
        ("scale_dtype", "int"), ("ste", "int"), ("is_unsigned", "bool"), ("activation", "bool"),
        ("range", "int"), ("shift", "bool"), ("save", "int"), ("observer", "int"),
        ("percentile", "double"), ("samples", "int64"), ("averaging", "double"),
        ("low", "double"), ("high", "double"), ("own", "char_p"), ("of", "void_p"),
        ("is_own", "bool"))]


# names, numbers in qat.h, bits and groups
SCHEMES = {"mxfp4": (11, 4, 32), "mxfp4_up": (12, 4, 32), "mxfp6": (13, 6, 32),
           "nvfp4": (14, 4, 16), "mxfp8": (15, 8, 32), "mxfp8_up": (16, 8, 32),
           "mxfp8_e5m2": (17, 8, 32), "mxfp6_e3m2": (18, 6, 32), "mxfp4_near": (19, 4, 32),
           "mxfp8_near": (20, 8, 32)}


def activation(x, scheme):
    """x as an input that the library quantizes with a dynamic range."""
    c = ctypes.CDLL(os.path.join(os.path.dirname(detent), "libdetent.so"))
    pointer = ctypes.c_void_p
    c.dt_fake_quant.restype = c.dt_data.restype = pointer
    c.dt_activation_quant_defaults.restype = Quant
    ctx, tape, tensor, out = pointer(), pointer(), pointer(), pointer()
    dims = (ctypes.c_int64 * 2)(*x.shape)
    quant = c.dt_activation_quant_defaults()
    quant.scheme, quant.bits, quant.group_size = SCHEMES[scheme]
    quant.granularity = 2
    assert c.dt_ctx_create(ctypes.byref(ctx), None) == 0
    assert c.dt_tape_create(ctx, ctypes.byref(tape)) == 0
    assert c.dt_tensor_from(ctx, 0, 2, dims, x.ctypes.data_as(pointer), ctypes.byref(tensor)) == 0
    y = pointer(c.dt_fake_quant(tape, tensor, ctypes.byref(quant), True))
    assert c.dt_dequantize(y, ctypes.byref(out)) == 0
    data = ctypes.cast(c.dt_data(out), ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(data, x.shape).copy()


def reference_input(x, preset):
    """x as compressed-tensors quantizes the input of a layer, of NVFP4 under a scale of 1."""
    import torch
    from compressed_tensors.quantization import preset_name_to_scheme
    from compressed_tensors.quantization.lifecycle.forward import fake_quantize
    from compressed_tensors.quantization.utils import compute_dynamic_scales_and_zp
    args = preset_name_to_scheme(preset, ["Linear"]).input_activations
    one = torch.ones(1) if preset == "NVFP4" else None
    x = torch.from_numpy(x)
    scale, zero = compute_dynamic_scales_and_zp(x, args, None, one)
    return fake_quantize(x, scale, zero, args, one).numpy()


def torchao_even(x):
    """MXFP4 whose exponent torchao rounds to even."""
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    even = ScaleCalculationMode.EVEN
    of = MXTensor.to_mx(torch.from_numpy(x), torch.float4_e2m1fn_x2, 32, even)
    return of.dequantize(torch.float32).numpy()


def activations():
    x = drawn()
    x[4] = 0  # blocks below 2^-123, which have scales of their own
    x[5, :7] = [448, 224, 7, 1.75, -448, -7, 0]
    for scheme, preset in ("mxfp4_near", "MXFP4"), ("mxfp8_near", "MXFP8"), ("nvfp4", "NVFP4"):
        report(scheme + " of activations", reference_input(x, preset) + 0,
               activation(x, scheme) + 0, "compressed-tensors")
    report("mxfp4_near of activations", torchao_even(x) + 0, activation(x, "mxfp4_near") + 0,
           "torchao's to_mx, EVEN")
    for scheme, kind in (("mxfp8", "e4m3"), ("mxfp8_up", "e4m3"), ("mxfp8_e5m2", "e5m2"),
                         ("mxfp6_e3m2", "e3m2")):
        report(scheme + " of activations", reference_mx8(x, kind, scheme == "mxfp8_up") + 0,
               activation(x, scheme) + 0, "torchao's to_mx")
    for scheme in "mxfp4", "mxfp4_up":
        report(scheme + " of activations", reference_mx(x, scheme == "mxfp4_up") + 0,
               activation(x, scheme) + 0, "torchao's to_mx")


def with_inputs(folder):
    """Our folder in f32: the weights as detent reads them, whose values folders() compares, and the
    inputs quantized by the package, as the folder's config.json and input_global_scale say."""
    import torch
    from compressed_tensors.quantization import (QuantizationConfig, QuantizationStatus,
                                                 apply_quantization_config)
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM
    shutil.rmtree("floats", ignore_errors=True)
    run("export", folder, "--format", "hf", "-o", "floats")
    model = AutoModelForCausalLM.from_pretrained("floats", dtype=torch.float32)
    with open(folder + "/config.json") as f:
        config = json.load(f)["quantization_config"]
    config.pop("quant_method")
    config["quantization_status"] = "frozen"
    apply_quantization_config(model, QuantizationConfig.model_validate(config))
    layers = 0
    for name, layer in model.named_modules():
        if not hasattr(layer, "quantization_scheme"):
            continue
        assert layer.quantization_scheme.input_activations is not None
        layer.quantization_scheme.weights = None
        layer.quantization_status = QuantizationStatus.FROZEN
        layers += 1
        if hasattr(layer, "input_global_scale"):
            with safe_open(folder + "/model.safetensors", "pt") as f:
                layer.input_global_scale.data = f.get_tensor(name + ".input_global_scale")
    assert layers > 0
    return model


def logits():
    """Both sides quantized: a trained model in ONNX, of which detent says that it has its bits,
    against our folder in transformers. The largest difference beside the largest logit."""
    global failed
    import onnxruntime
    import torch
    for preset in "nvfp4-nvfp4", "mxfp4-mxfp4", "mxfp8-mxfp8", "mxfp8-mxfp4":
        exported({}, [], "ours", preset)
        run("export", "run", "--format", "onnx", "-o", "run.onnx")
        ids = np.frombuffer(b"To be, or not to be, that is the", np.uint8).astype(np.int64)[None]
        session = onnxruntime.InferenceSession("run.onnx")
        kind = np.int32 if "int32" in session.get_inputs()[0].type else np.int64
        mine = session.run(None, {session.get_inputs()[0].name: ids.astype(kind)})[0]
        with torch.no_grad():
            theirs = with_inputs("ours")(torch.from_numpy(ids)).logits.numpy()
        gap = np.abs(theirs - mine).max() / np.abs(mine).max()
        failed += not gap < 2e-5
        print(f"{preset + ', logits':44} {'transformers, our trained model':34} {mine.size:8} "
              f"gap {gap:.1e}")


def compare_folders(what, name, of):
    theirs, ours = loaded(name), floats_of(name)
    assert sorted(theirs) == sorted(ours) and len(ours) > 0
    report(what, np.concatenate([theirs[k].ravel() + 0 for k in sorted(theirs)]),
           np.concatenate([ours[k].ravel() + 0 for k in sorted(ours)]), of)


def exported(scheme, types, folder=None, preset="int4-weight"):
    """A small Llama, trained for some steps and exported as each type; tensors by name. `folder`:
    one of compressed-tensors, too."""
    shutil.rmtree("run", ignore_errors=True)
    with open("text.txt", "w") as f:
        f.write("To be, or not to be, that is the question. " * 200)
    run("train", os.path.join(root, "configs/shakespeare-llama.yaml"), "run.dir=run",
        "model.width=256", "model.hidden=512", "model.layers=1", "model.vocab=256",
        "data.dir=.", "data.train=[text.txt]", "data.tokenizer=bytes", "train.steps=6",
        "train.schedule.warmup_steps=1", "train.float_baseline=false", "qat.start_step=2",
        "qat.preset=" + preset, "qat.rules=[]", "qat.weight=" + json.dumps(scheme))
    files = {}
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        run("export", "run", "--format", "compressed-tensors", "-o", folder)
    for kind in types:
        run("export", "run", "--format", "gguf", "--type", kind, "-o", f"{kind}.gguf")
        files[kind] = {x.name: x for x in gguf.GGUFReader(f"{kind}.gguf").tensors}
    return files


def models():
    """Files that detent writes, as gguf reads them."""
    keys = {"granularity": "group", "group_size": 256, "scale_dtype": "f16"}
    for scheme, types in (("ternary", ["tq1_0", "tq2_0"]), ("half_levels", ["trained"]),
                          ("mxfp4", ["trained"]), ("mxfp4_up", ["trained"]),
                          ("mxfp4_near", ["trained"])):
        for kind in types:
            files = exported({"scheme": scheme, **({} if "mx" in scheme else keys)}, ["f32", kind])
            pairs = [(files["f32"][n].data, gguf.quants.dequantize(x.data, x.tensor_type))
                     for n, x in files[kind].items() if len(x.shape) > 1]
            names = {x.tensor_type.name for x in files[kind].values()} - {"F32"}
            report(scheme, np.concatenate([b.ravel() + 0 for _, b in pairs]),
                   np.concatenate([a.ravel() + 0 for a, _ in pairs]),
                   "gguf, a file in " + ", ".join(sorted(names)))


if __name__ == "__main__":
    print(f"{'scheme':44} {'against':34} {'values':>8} {'differ':>8}")
    levels()
    ggml()
    mx()
    mx8()
    nvfp4()
    activations()
    logits()
    models()
    folders()
    sys.exit(failed > 0)
