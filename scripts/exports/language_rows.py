#!/usr/bin/env python3
"""Rows of scripts/check-exports: a language model in llama.cpp and transformers, beside detent's
outputs.

    language_rows.py FOLDER DETENT PROGRAM    in llama.cpp; PROGRAM is llama_run.c, built
    language_rows.py FOLDER DETENT -          in transformers

FOLDER has model.safetensors, and of scripts/exports/examples.py x.npy and outputs.safetensors.
Prints a line each, `target | text`; a line begins with `!` where a difference is above BOUNDS: of
logits the root of the mean square over that of detent's, of loss the difference, and of the tokens'
logits the median.

int8 inputs have detent's arithmetic in transformers, in another order of sums. Where that flips a
code, later tokens see it, too. How much that is, transformers says itself: the same model runs in
double. Where it differs from itself by more than the bounds, its own difference is the bound: of
logits twice as much, of loss four deviations of the mean."""
import json
import pathlib
import subprocess
import sys

import numpy as np

# Bounds of the differences of logits, of the loss, and of the median. gelu: the other program has a
# table in f16; erf: it computes Pythia's gelu by tanh. blocks: blocks, or floats in place of int8
# inputs, are other arithmetic; trained: blocks that were trained are the same, but codes can flip.
BOUNDS = {"F32": (1e-5, 1e-6, 1e-6), "gelu": (1e-3, 1e-5, 1e-3), "codes": (1e-3, 1e-5, 1e-6),
          "trained": (5e-3, 1e-4, 1e-6), "blocks": (0.03, 2e-3, 0.03), "erf": (1e-3, 1e-4, 1e-3)}


def header(path):
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    return raw, start, json.loads(raw[8:start])


def outputs(folder):
    raw, start, about = header(folder / "outputs.safetensors")
    begin, end = about["output"]["data_offsets"]
    return np.frombuffer(raw[start + begin:start + end], "<f4").reshape(about["output"]["shape"])


def losses(logits, ids):
    y = logits[:, :-1].astype(np.float64)
    y -= y.max(-1, keepdims=True)
    of = np.take_along_axis(y, ids[:, 1:, None].astype(np.int64), 2)[..., 0]
    return np.log(np.exp(y).sum(-1)) - of


def compare(target, kind, got, want, ids, itself=None):
    """`itself`: the logits of the same runtime in double, or None."""
    tokens = np.mean((got - want) ** 2, -1) / np.mean(want ** 2)
    found = (np.sqrt(tokens.mean()), abs(float(np.mean(losses(got, ids) - losses(want, ids)))),
             np.sqrt(np.median(tokens)))
    bounds, note = BOUNDS[kind], ""
    if itself is not None:
        apart = np.sqrt(np.mean((got - itself) ** 2) / np.mean(want ** 2))
        of_loss = losses(got, ids) - losses(itself, ids)
        deviation = float(of_loss.std() / np.sqrt(of_loss.size))
        bounds = (max(bounds[0], 2 * apart), max(bounds[1], 4 * deviation), bounds[2])
        note = f"; itself in double: logits {apart:.1e}, loss {abs(of_loss.mean()):.1e}"
    bad = not all(x <= bound for x, bound in zip(found, bounds))
    print(f"{'! ' if bad else ''}{target} | logits {found[0]:.1e}, loss {found[1]:.1e}, "
          f"median {found[2]:.1e}{note}")


def run(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or "failed").splitlines()[-1])
    return done.stdout


def export(folder, detent, form, to, *options):
    subprocess.run(["rm", "-rf", to], check=True)
    done = subprocess.run([detent, "export", folder / "model.safetensors", "--format", form, "-o",
                           to, "--quiet", *options], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1].strip()


# ---- llama.cpp ---------------------------------------------------------------------------------

def tensors(path):
    """Name to type and bytes of the tensors in a GGUF file."""
    raw, at = path.read_bytes(), 4

    def number(n):
        nonlocal at
        at += n
        return int.from_bytes(raw[at - n:at], "little")

    def text():
        nonlocal at
        n = number(8)
        at += n
        return raw[at - n:at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            of, n = number(4), number(8)
            for _ in range(n):
                skip(of)
        else:
            at += [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8][kind]

    number(4)
    count, keys = number(8), number(8)
    for _ in range(keys):
        text()
        skip(number(4))
    infos = {}
    for _ in range(count):
        name = text()
        n = int(np.prod([number(8) for _ in range(number(4))]))
        kind, offset = number(4), number(8)
        infos[name] = kind, offset, {0: 4 * n, 1: 2 * n, 2: n // 32 * 18, 8: n // 32 * 34}[kind]
    data = (at + 31) // 32 * 32
    return {n: (k, raw[data + o:data + o + b]) for n, (k, o, b) in infos.items()}


def greedy(folder, detent, program, model, ids):
    prompt = ids[0, :8].astype("<i4")
    prompt.tofile(folder / "prompt.bin")
    there = run(program, "greedy", model, folder / "prompt.bin", 32).strip().split(",")
    # in float, as F32 computes it
    here = run(detent, "sample", folder / "hf", "--prompt-ids", ",".join(map(str, prompt)),
               "--temperature", "0", "--max-tokens", "32", "--print-ids")
    here = here.replace(",", " ").split()[-32:]
    same = there == here
    print(f"{'' if same else '! '}llama.cpp greedy | {'equal ids' if same else (there, here)}")


def characters(folder, program, model, detent):
    text = folder / "text.txt"
    text.write_bytes(bytes(range(32, 127)) + "\n\tä€ end\\".encode() * 20)
    run(program, "text", model, text, folder / "there.bin")
    same = np.array_equal(np.fromfile(folder / "there.bin", "<i4"),
                          np.frombuffer(text.read_bytes(), np.uint8))
    print(f"{'' if same else '! '}llama.cpp tokens | {'equal ids' if same else 'DIFFERENT'}")


def requantized(folder, program, model, f32):
    """llama-quantize's Q4_0 of the values, beside what was trained."""
    other = folder / "requantized.gguf"
    run(program, "quantize", f32, other, "q4_0")
    ours, theirs = tensors(model), tensors(other)
    q4 = [n for n, (kind, _) in ours.items() if kind == 2]
    same = sum(ours[n] == theirs[n] for n in q4)
    bad = "! " if same < len(q4) else ""
    print(f"{bad}llama-quantize | {same} of {len(q4)} Q4_0 tensors equal")


def in_llama_cpp(folder, detent, program):
    want, ids = outputs(folder), np.load(folder / "x.npy")
    about = header(folder / "model.safetensors")[2]["__metadata__"]
    family = "gpt" in json.loads(about["detent.model"])
    gelu = family or '"gelu_tanh"' in about["detent.model"]
    floats = all("input" not in q for q in json.loads(about["detent.quant"]).values())
    blocks = any(q["input"]["scheme"]["granularity"] == "group"
                 for q in json.loads(about["detent.quant"]).values() if "input" in q)
    ids.astype("<i4").tofile(folder / "ids.i32")
    export(folder, detent, "hf", folder / "hf")
    for kind in ("f32", "trained"):
        model = folder / f"{kind}.gguf"
        why = export(folder, detent, "gguf", model, "--type", kind)
        if why is not None:
            print(f"llama.cpp {kind} | not held: {why}")
            continue
        run(program, "logits", model, folder / "ids.i32", ids.shape[1], folder / "there.bin")
        got = np.fromfile(folder / "there.bin", "<f4").reshape(want.shape)
        exact = "erf" if '"gelu_erf":true' in about["detent.model"] else "gelu" if gelu else "F32"
        bound = "blocks" if kind == "trained" or not floats else exact
        if kind == "trained" and blocks:
            bound = "trained"
        compare(f"llama.cpp {kind}", bound, got, want, ids)
    f32, trained = folder / "f32.gguf", folder / "trained.gguf"
    characters(folder, program, f32, detent)
    if not family:
        greedy(folder, detent, program, f32, ids)
    schemes = {q["weight"]["scheme"]["scheme"] for q in json.loads(about["detent.quant"]).values()}
    if schemes == {"q4_0"}:
        requantized(folder, program, trained, f32)


# ---- transformers ------------------------------------------------------------------------------

def logits_of(model, ids):
    import torch
    with torch.no_grad():
        return model(torch.from_numpy(ids.astype(np.int64))).logits.numpy()


def in_transformers(folder, detent):
    import torch
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(1)
    want, ids = outputs(folder), np.load(folder / "x.npy")
    about = header(folder / "model.safetensors")[2]["__metadata__"]
    floats = all("input" not in q for q in json.loads(about["detent.quant"]).values())
    itself = None
    for form in ("compressed-tensors", "torchao", "hf"):
        to = folder / form
        why = export(folder, detent, form, to)
        if why is not None:
            print(f"{form} | not held: {why}")
            continue
        model = AutoModelForCausalLM.from_pretrained(to, dtype=torch.float32).eval()
        got = logits_of(model, ids)
        other = form == "hf" or '"experts"' in about["detent.model"]  # inputs of experts: floats
        bound = "F32" if floats else "blocks" if other else "codes"
        if bound == "codes" and itself is None and form == "compressed-tensors":
            itself = logits_of(model.double(), ids)
        compare(f"transformers {form}", bound, got, want, ids, itself if bound == "codes" else None)


if __name__ == "__main__":
    where = pathlib.Path(sys.argv[1])
    if sys.argv[3] == "-":
        in_transformers(where, sys.argv[2])
    else:
        in_llama_cpp(where, sys.argv[2], sys.argv[3])
