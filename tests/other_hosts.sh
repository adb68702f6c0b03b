#!/bin/sh
# other_hosts.sh SOURCE BUILD: examples that need more than a C program: a plugin with an op of its
# own, loaded by dlopen, and a converted model run from Python by ctypes with the bits of
# `detent predict`. Skipped (77) where only the plugin could be tried, for lack of python3.
set -eu
source=$(cd "$1" && pwd)
build=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

"$build/examples/plugin_host" "$build/examples/squareplus.so" \
    "$source/examples/plugin_op/squareplus.yaml" "$work/run"
! "$build/examples/plugin_host" "$build/libdetent.so" x.yaml "$work/none" 2> log
grep -q 'has no detent_plugin' log
# the program lacks the family, and its message names it
! "$build/detent" inspect "$work/run/model.safetensors" --layers > log 2>&1
grep -q "squareplus" log

command -v python3 > /dev/null || { echo 'no python3'; exit 77; }
"$build/detent" import "$source/tests/onnx/cnn.onnx" -o float.safetensors --quiet 2> log ||
    { cat log; exit 1; }
"$build/detent" quantize float.safetensors -o model.safetensors --quiet > log 2>&1 ||
    { cat log; exit 1; }
python3 - <<'END'
import random, struct
shape, size = (2, 12, 10), 240
random.seed(1)
values = [struct.unpack("f", struct.pack("f", random.uniform(-1, 1)))[0] for _ in range(2 * size)]
head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(2, *shape)}, }}".ljust(117) + "\n"
with open("x.npy", "wb") as f:
    f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
    f.write(struct.pack(f"<{len(values)}f", *values))
open("x.txt", "w").write(" ".join(map(repr, values)))
END
DETENT_LIBRARY=$build/libdetent.so python3 "$source/examples/python/run_model.py" \
    model.safetensors 2,12,10 < x.txt > outputs
"$build/detent" predict model.safetensors x.npy --json > answers
python3 - <<'END'
import json, struct
bits = lambda value: struct.pack("<f", float(value))
rows = [line.split() for line in open("outputs")]
answers = [answer["values"] for answer in json.load(open("answers"))]
assert len(rows) == len(answers) == 2 and len(rows[0]) == 5, rows
for row, answer in zip(rows, answers):
    assert list(map(bits, row)) == list(map(bits, answer)), (row, answer)
print(f"python: {len(rows) * len(rows[0])} outputs with the bits of detent predict")
END
! DETENT_LIBRARY=$build/libdetent.so python3 "$source/examples/python/run_model.py" \
    model.safetensors 3,12,10 < x.txt 2> log
grep -q 'not a multiple' log
