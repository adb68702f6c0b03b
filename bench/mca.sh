#!/bin/sh
# Estimates the inner loops of the set neon-dot by llvm-mca, which simulates a processor's pipelines
# without caches: cycles of an iteration, and multiply-adds a cycle, which is GMAC/s a GHz.
#
#   bench/mca.sh [PROCESSOR ...]      default: cortex-a76 neoverse-n1
#
# Needs Debian's gcc-aarch64-linux-gnu and llvm-19; older ones of llvm simulate a Cortex-A76 as an
# A57.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- cortex-a76 neoverse-n1
for program in aarch64-linux-gnu-gcc llvm-mca-19; do
    command -v $program > /dev/null || { echo "$program is missing" >&2; exit 1; }
done
scripts/aarch64-root
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

aarch64-linux-gnu-gcc --sysroot="$PWD/build/aarch64-root" -O3 -std=c17 -fPIC -fopenmp \
    -ffp-contract=off -fno-math-errno -fno-trapping-math \
    -march=armv8.2-a+dotprod -D_POSIX_C_SOURCE=200809L -DDETENT_SIMD=1 -DNDEBUG \
    -Isrc -Iinclude -S -o "$work/all.s" src/kernels/arm/qgemm_neon_dot.c

# The loops of a function that have no label inside and a udot, without directives.
loop() { # function
    awk -v name="$1" '
    $0 == name ":" { inside = 1; next }
    $1 == ".size" { inside = 0 }
    !inside || /^[#\/]/ { next }
    /^\.L[0-9]+:/ { label = substr($1, 1, length($1) - 1); text = ""; dots = 0; next }
    /^\t\./ { next }
    { text = text $0 "\n" }
    $1 == "udot" { dots++ }
    /^\tb\.?[a-z]*\t/ && $2 == label && dots > 0 { printf "%s", text; exit }
    ' "$work/all.s"
}

# 16 multiply-adds are one udot
estimate() { # processor, function
    loop "$2" > "$work/loop.s"
    dots=$(grep -c udot "$work/loop.s") || { echo "$2 has no loop of udot" >&2; exit 1; }
    llvm-mca-19 -mtriple=aarch64-linux-gnu -mcpu="$1" -iterations=1000 "$work/loop.s" |
        awk -v processor="$1" -v name="$2" -v dots="$dots" '
        /^Total Cycles:/ { cycles = $3 / 1000 }
        END {
            sub(/tile_DT__/, "", name)
            printf "%-12s %-11s %4d udot %7.2f cycles %6.1f multiply-adds a cycle\n", processor,
                name, dots, cycles, 16 * dots / cycles
        }'
}

for processor; do
    for form in UNPACKED NIBBLES BYTES; do
        for rows in 1 2 4 6; do
            case $form$rows in
                UNPACKED[12] | NIBBLES6 | BYTES6) continue ;; # not used with so many rows
            esac
            estimate "$processor" "tile_DT__${form}_$rows"
        done
    done
done
