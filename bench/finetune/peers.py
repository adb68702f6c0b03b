"""LoRA updates of a folder by transformers and peft on a CPU: seconds a token, peak memory.

    python3 peers.py FOLDER --rank 16 --batch 1 --context 256 --updates 3 --dtype float32

Adapters on all linear layers but the head, AdamW, as bench/finetune/measure.py trains them. Prints
one object. Packages: torch, transformers, peft.
"""
import argparse
import json
import resource
import time

import numpy
import torch
import peft
import transformers

LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    for name, value in (("rank", 16), ("batch", 1), ("context", 256), ("updates", 3),
                        ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        o.folder, dtype=getattr(torch, o.dtype), low_cpu_mem_usage=True)
    model = peft.get_peft_model(
        model, peft.LoraConfig(r=o.rank, lora_alpha=o.rank, target_modules=LAYERS))
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    ids = numpy.fromfile(f"{o.folder}/ids.u32.bin", "<u4").astype(numpy.int64)
    seconds, tokens = [], o.batch * o.context
    for i in range(o.updates + 1):
        at = i * tokens
        x = torch.from_numpy(ids[at:at + tokens].reshape(o.batch, o.context))
        begin = time.process_time()
        optimizer.zero_grad()
        loss = model(input_ids=x, labels=x).loss
        loss.backward()
        optimizer.step()
        seconds.append(time.process_time() - begin)
    median = sorted(seconds[1:])[(len(seconds) - 1) // 2]
    print(json.dumps({
        "source": f"transformers {transformers.__version__}, peft {peft.__version__}",
        "dtype": o.dtype, "trained": sum(p.numel() for p in trained),
        "cpu_ms_per_token": 1e3 * median / tokens, "loss": float(loss),
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }))


main()
