"""Fine-tuning beside transformers and peft: peak memory and CPU time a token.

    python3 bench/finetune/folders.py llama-1b /tmp/llama-1b
    python3 bench/finetune/measure.py /tmp/llama-1b --detent build/release/detent \\
        --rows packed,packed-float --peers peers/bin/python

Rows (LoRA on all linear layers but the head, the same batches, context and rank):

    lora          float weights, adapters merged in each pass
    lora-qat      the same with fake quantization of the merged weight (int8 inputs, int4 weights)
    packed        int4 weights packed while they are read, int8 inputs   (model.pack: true)
    packed-float  the same with float inputs                             (preset int4-weight)

Each row is a short run and a longer one in turn; time is the difference of their CPU seconds, the
median of --repeat. Peak memory is the largest resident set (ru_maxrss) of the longer run, from
reading the folder to the files at its end. With --export: what `detent export --format
compressed-tensors`, or, without QAT, `hf`, of the result takes. numpy is needed, and for --peers a
Python that has the packages of peers.py.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

ROWS = {
    "lora": [],
    "lora-qat": ["qat={start_step: 0}"],
    "packed": ["model.pack=true"],
    "packed-float": ["model.pack={preset: int4-weight}"],
}
GIB = 1 << 20  # of ru_maxrss, which counts KiB


def run(command, log):
    """CPU seconds, wall seconds and peak memory of one child."""
    begin = time.monotonic()
    with open(log, "w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {child.returncode}\n{open(log).read()[-2000:]}")
    return used.ru_utime + used.ru_stime, time.monotonic() - begin, used.ru_maxrss / GIB


def train(o, row, steps, work):
    folder = work / f"run-{row}"
    shutil.rmtree(folder, ignore_errors=True)
    recipe = work / "recipe.yaml"
    recipe.write_text(f"""run: {{dir: {folder}, seed: 1, threads: {o.threads}, report: false}}
model: {{family: llama, init: {o.folder}}}
data: {{format: tokens, train: [{o.folder}/ids.u32.bin], test: [{work}/held.u32.bin],
        context: {o.context}}}
train: {{batch_size: {o.batch}, eval_batch_size: 1, optimizer: {{name: adamw, lr: 1e-4}},
         checkpoint: {{keep: 1}}}}
adapters: {{rank: {o.rank}}}
""")
    command = [o.detent, "train", str(recipe), f"train.steps={steps}", "--quiet", *ROWS[row]]
    return folder, run(command, work / f"{row}.log")


def export(o, row, folder, work):
    out = work / "exported"
    shutil.rmtree(out, ignore_errors=True)
    source, form = folder, "compressed-tensors"
    if row.startswith("packed"):
        source = work / "merged.safetensors"
        first = run([o.detent, "merge", str(folder), "-o", str(source)], work / "merge.log")
    elif row == "lora":
        source, form = work / "merged.safetensors", "hf"
        first = run([o.detent, "merge", str(folder), "-o", str(source)], work / "merge.log")
    else:
        first = (0, 0, 0)
    then = run([o.detent, "export", str(source), "--format", form, "-o", str(out)],
               work / "export.log")
    shutil.rmtree(out, ignore_errors=True)
    return {"merge_gib": first[2], "export_gib": then[2], "seconds": first[1] + then[1]}


def peer(o, dtype, work):
    log = work / f"peer-{dtype}.log"
    command = [o.peers, str(pathlib.Path(__file__).with_name("peers.py")), str(o.folder)]
    for name in ("rank", "batch", "context", "threads", "updates"):
        command += [f"--{name}", str(getattr(o, name))]
    run(command + ["--dtype", dtype], log)
    return json.loads(log.read_text().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--detent", default="build/release/detent")
    parser.add_argument("--rows", default="packed")
    parser.add_argument("--peers", help="a Python with torch, transformers and peft")
    parser.add_argument("--dtypes", default="float32", help="of the peers")
    for name, value in (("rank", 16), ("batch", 1), ("context", 256), ("updates", 2),
                        ("threads", 1), ("repeat", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--export", action="store_true", help="also merge and export the result")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/finetune"))
    o = parser.parse_args()
    o.folder = o.folder.resolve()
    o.work.mkdir(parents=True, exist_ok=True)
    held = (o.folder / "ids.u32.bin").read_bytes()[-4 * (o.context + 1):]
    (o.work / "held.u32.bin").write_bytes(held)
    rows, peers = {}, {}
    for _ in range(o.repeat):
        for row in o.rows.split(","):
            _, short = train(o, row, 1, o.work)
            folder, long = train(o, row, 1 + o.updates, o.work)
            rows.setdefault(row, []).append((short, long))
            rows[row, "folder"] = folder
        for dtype in o.dtypes.split(",") if o.peers else []:
            peers.setdefault(dtype, []).append(peer(o, dtype, o.work))
    tokens = o.updates * o.batch * o.context
    for row in o.rows.split(","):
        ms = [1e3 * (long[0] - short[0]) / tokens for short, long in rows[row]]
        out = {"row": row, "cpu_ms_per_token": statistics.median(ms),
               "peak_gib": max(long[2] for _, long in rows[row]),
               "load_seconds": min(short[1] for short, _ in rows[row])}
        print(json.dumps(out), flush=True)
        if o.export:
            out = {"row": row} | export(o, row, rows[row, "folder"], o.work)
            print(json.dumps(out), flush=True)
    for dtype, all_of in peers.items():
        middle = statistics.median(p["cpu_ms_per_token"] for p in all_of)
        print(json.dumps(all_of[0] | {"cpu_ms_per_token": middle}))


main()
