#!/bin/sh
# exports.sh SOURCE DETENT: an export of format c passes its self-test on each processor of
# scripts/exports/targets whose compiler and emulator are installed. Prints the others; 77: none is.
# Compares what it costs on a Cortex-M4 with the table of docs/device.md.
set -eu
files=$1/scripts/exports
. "$files/functions.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

"$2" train "$1/configs/digits-mlp.yaml" run.dir=run model.sizes='[784,256,128,10]' train.steps=12 \
    train.schedule.warmup_steps=0 qat.start_step=4 data.train_count=200 data.test_count=50 \
    --quiet > train.log 2>&1 || { cat train.log; exit 1; }
"$2" export run/model.safetensors --format c --name model -o c > export.log 2>&1 ||
    { cat export.log; exit 1; }

failed=0
passed=0
lines targets > targets
while IFS= read -r line <&3; do
    target=$(field 1 "$line")
    kind=$(field 2 "$line")
    compiler=$(field 3 "$line")
    emulator=$(field 5 "$line")
    lacking=$(missing "$kind" "$compiler" "$emulator")
    if [ -n "$lacking" ]; then
        echo "$target: skipped: no $lacking"
    elif compile "$kind" "$compiler" "$(field 4 "$line")" "$emulator" "$scratch/c" selftest '' \
        > log 2>&1 && run "$kind" "$emulator" > log; then
        echo "$target: the bits of training"
        passed=$((passed + 1))
    else
        echo "$target: failed"
        tail -n 5 log
        failed=$((failed + 1))
    fi
done 3< targets
if [ -z "$(missing board arm-none-eabi-gcc '')" ]; then
    title=$(field 5 "$(lines models | head -n 1)")
    # shellcheck disable=SC2086 # five numbers
    if figures=$(board_figures "$scratch/c" '') &&
        check_figures "$1/docs/device.md" "$title" DSP $figures; then
        echo "docs/device.md, $title: as measured"
        passed=$((passed + 1))
    else
        echo "docs/device.md, $title: not as measured"
        failed=$((failed + 1))
    fi
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
