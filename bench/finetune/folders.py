"""Folders of the shape of Qwen2.5-0.5B and Llama-3.2-1B with random bf16 weights, and random ids.

    python3 folders.py qwen-0.5b FOLDER [--layers N]     config.json, model.safetensors, ids.u32.bin
    python3 folders.py llama-1b FOLDER

Weights are normal, of deviation 0.02; norms are 1. Only numpy is needed.
"""
import argparse
import json
import pathlib
import struct

import numpy

SHAPES = {
    "qwen-0.5b": {
        "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936,
        "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768,
        "rope_theta": 1000000.0, "rms_norm_eps": 1e-6, "hidden_act": "silu",
        "tie_word_embeddings": True, "use_sliding_window": False, "torch_dtype": "bfloat16",
    },
    "llama-1b": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256,
        "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
        "max_position_embeddings": 131072, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
        "hidden_act": "silu", "tie_word_embeddings": True, "attention_bias": False,
        "mlp_bias": False, "torch_dtype": "bfloat16",
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
    },
}


def tensors_of(config):
    width, hidden = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", width // config["num_attention_heads"])
    queries = head * config["num_attention_heads"]
    keys = head * config["num_key_value_heads"]
    yield "model.embed_tokens.weight", (config["vocab_size"], width)
    yield "model.norm.weight", (width,)
    for i in range(config["num_hidden_layers"]):
        block = f"model.layers.{i}."
        yield block + "input_layernorm.weight", (width,)
        yield block + "post_attention_layernorm.weight", (width,)
        for name, rows in (("q", queries), ("k", keys), ("v", keys)):
            yield f"{block}self_attn.{name}_proj.weight", (rows, width)
            if config["model_type"] == "qwen2":
                yield f"{block}self_attn.{name}_proj.bias", (rows,)
        yield block + "self_attn.o_proj.weight", (width, queries)
        yield block + "mlp.gate_proj.weight", (hidden, width)
        yield block + "mlp.up_proj.weight", (hidden, width)
        yield block + "mlp.down_proj.weight", (width, hidden)


def write_weights(path, config):
    """A safetensors file, written tensor by tensor."""
    draw = numpy.random.default_rng(1)
    header, at = {"__metadata__": {"format": "pt"}}, 0
    tensors = list(tensors_of(config))
    for name, shape in tensors:
        size = 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors:
            left, norm = int(numpy.prod(shape)), name.endswith("norm.weight")
            while left > 0:
                n = min(left, 1 << 24)
                values = draw.standard_normal(n, dtype=numpy.float32) * numpy.float32(0.02)
                if norm:
                    values[:] = 1
                file.write((values.view(numpy.uint32) >> 16).astype("<u2").tobytes())
                left -= n
    return at


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, help="fewer than the model has")
    parser.add_argument("--ids", type=int, default=40000, help="how many random ids")
    o = parser.parse_args()
    config = dict(SHAPES[o.shape])
    config["num_hidden_layers"] = o.layers or config["num_hidden_layers"]
    o.folder.mkdir(parents=True, exist_ok=True)
    (o.folder / "config.json").write_text(json.dumps(config, indent=1))
    size = write_weights(o.folder / "model.safetensors", config)
    ids = numpy.random.default_rng(2).integers(0, config["vocab_size"], o.ids).astype("<u4")
    (o.folder / "ids.u32.bin").write_bytes(ids.tobytes())
    print(f"{o.folder}: {size // 2:,} parameters, {size:,} bytes")


main()
