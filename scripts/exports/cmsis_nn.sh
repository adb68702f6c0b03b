#!/bin/sh
# cmsis_nn.sh EXPORT: compiles a C export of a model of integers with CMSIS-NN, and runs its
# self-test on Cortex-M0, M4 and M55 in an emulator: the codes must equal detent's.
#
# CMSIS-NN (Apache 2.0) is no part of detent. Its source is $CMSIS_NN, or is fetched to
# build/exports/cmsis-nn at the commit below. A line for each processor, then what an
# inference costs on the M4; status 1 after a difference.
set -eu
commit=99f736a63036613032f9b70de36b493bcd7802d4
export=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
# shellcheck disable=SC2034 # of functions.sh
files=$PWD/scripts/exports
work=$PWD/build/exports/cmsis
. scripts/exports/functions.sh
nn=${CMSIS_NN-$PWD/build/exports/cmsis-nn}
if [ ! -d "$nn/Include" ]; then
    git clone --quiet https://github.com/ARM-software/CMSIS-NN "$nn"
    git -C "$nn" checkout --quiet "$commit"
fi
mkdir -p "$work"
cd "$work"
status=0
: > run.log

# The library for each processor: all but the kernels of floats.
library() { # name flags
    [ ! -e "$1.a" ] || return 0
    mkdir -p "$1"
    for part in BasicMath Convolution FullyConnected NNSupport Pooling Softmax Transpose; do
        for file in "$nn/Source/${part}Functions"/*.c; do
            case $file in *f16* | *f32* | *flt*) continue ;; esac
            # shellcheck disable=SC2086 # a list of words
            arm-none-eabi-gcc -O2 -mthumb $2 -w -I"$nn/Include" -ffunction-sections \
                -c "$file" -o "$1/$(basename "$file" .c).o"
        done
    done
    arm-none-eabi-ar rcs "$1.a" "$1"/*.o
}

name=$(basename "$export"/*.h .h)
capital=$(printf %s "$name" | tr '[:lower:]' '[:upper:]')
for processor in M0 M4 M55; do
    line=$(lines targets | grep "^Cortex-$processor " | tail -n 1)
    compiler=$(field 3 "$line")
    flags=$(field 4 "$line")
    board=$(field 5 "$line")
    lacking=$(missing board "$compiler" '')
    if [ -n "$lacking" ]; then
        echo "Cortex-$processor: skipped: no $lacking"
        continue
    fi
    library "$processor" "$flags"
    strict=-w libraries="$processor.a -Wl,--gc-sections --specs=nosys.specs"
    if compile board "$compiler" \
        "$flags -I$nn/Include -D${capital}_USE_CMSIS_NN -ffunction-sections" "$board" \
        "$export" selftest '' > "$processor.log" 2>&1 && run board "$board" > run.log 2>&1; then
        echo "Cortex-$processor: the codes of detent, by CMSIS-NN"
    else
        echo "Cortex-$processor: DIFFERENT: $(tail -n 1 "$processor.log") $(tr '\n' ' ' < run.log)"
        status=1
    fi
done

# What an inference costs on a Cortex-M4; code is that of the export, without CMSIS-NN's.
figures() { # title options
    # shellcheck disable=SC2046,SC2183 # five numbers
    printf '%-12s %8s %9s %8s %6s %13s\n' "$1" $(board_figures "$export" "$2")
}
if [ -z "$(missing board arm-none-eabi-gcc '')" ]; then
    printf '%-12s %8s %9s %8s %6s %13s\n' Cortex-M4 code constants arena stack instructions
    figures plain ''
    # shellcheck disable=SC2034
    strict=-w libraries='M4.a -Wl,--gc-sections --specs=nosys.specs'
    figures CMSIS-NN "-I$nn/Include -D${capital}_USE_CMSIS_NN -ffunction-sections"
fi
exit $status
