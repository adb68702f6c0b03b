#!/bin/sh
# Estimates the set neon-dot by llvm-mca, which simulates a processor's pipelines without caches:
# cycles, and multiply-adds per cycle (= GMAC/s per GHz), of the inner loops of the integer product;
# then the cycles for the end of a group with six rows and 16 outputs, and the multiply-adds per
# cycle of a product of many rows with both, in groups of 32 and 128.
#
#   bench/mca.sh [PROCESSOR ...]      default: cortex-a76 neoverse-n1
#
# Needs Debian's gcc-aarch64-linux-gnu and llvm-19; older ones lack Neoverse N1's pipelines.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- cortex-a76 neoverse-n1
for program in aarch64-linux-gnu-gcc llvm-mca-19; do
    command -v $program > /dev/null || { echo "$program is missing" >&2; exit 1; }
done
scripts/foreign-root
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

aarch64-linux-gnu-gcc --sysroot="$PWD/build/aarch64-root" -O3 -std=c17 -fPIC -fopenmp-simd \
    -ffp-contract=off -fno-math-errno -fno-trapping-math \
    -march=armv8.2-a+dotprod -D_POSIX_C_SOURCE=200809L -DDETENT_SIMD=1 -DNDEBUG \
    -Isrc -Iinclude -S -o "$work/all.s" src/kernels/arm/qgemm_neon_dot.c

# The shortest block of a function, from a label to the next, that has an instruction at least COUNT
# times; kind `loop`: only blocks that end with a branch to their own label. Printed without
# directives and branches.
block() { # function, kind, instruction, count
    awk -v name="$1" -v kind="$2" -v wanted="$3" -v least="$4" '
    function keep() {
        if (count >= least && (best == 0 || lines < best)) { found = text; best = lines }
    }
    function next_block() {
        if (inside && kind == "any") keep()
        text = ""; count = lines = 0
    }
    $0 == name ":" { inside = 1; next }
    $1 == ".size" { next_block(); inside = 0 }
    !inside || /^[#\/]/ { next }
    /^\.L[0-9]+:/ { next_block(); label = substr($1, 1, length($1) - 1); next }
    /^\t(\.|cb|tb)/ { next }
    /^\tb(\.[a-z]+|[a-z][a-z])?\t/ { if (kind == "loop" && $2 == label) keep(); next }
    { text = text $0 "\n"; lines++ }
    $1 == wanted { count++ }
    END { printf "%s", found }
    ' "$work/all.s"
}

cycles() { # processor; the block is on stdin
    llvm-mca-19 -mtriple=aarch64-linux-gnu -mcpu="$1" -iterations=1000 |
        awk '/^Total Cycles:/ { print $3 / 1000 }'
}

for processor; do
    for tile in UNPACKED_4 UNPACKED_6 NIBBLES_1 NIBBLES_2 NIBBLES_4 BYTES_1 BYTES_2 BYTES_4; do
        block "tile_DT__$tile" loop udot 8 > "$work/loop.s"
        dots=$(grep -c udot "$work/loop.s") || { echo "$tile has no loop of udot" >&2; exit 1; }
        all=$(cycles "$processor" < "$work/loop.s")
        echo "$processor $tile $dots $all" | # 16 multiply-adds are one udot
            awk '{ printf "%-12s %-11s %3d udot %7.2f cycles %5.1f multiply-adds a cycle\n", $1, $2,
                $3, $4, 16 * $3 / $4 }'
        [ "$tile" != UNPACKED_6 ] || many=$all
    done
    block tile_DT__UNPACKED_6 any scvtf 24 > "$work/ending.s"
    [ -s "$work/ending.s" ] || { echo "no block of UNPACKED_6 ends a group" >&2; exit 1; }
    ending=$(cycles "$processor" < "$work/ending.s")
    echo "$processor $many $ending" |
        awk '{ printf "%-12s a group ends in %.0f cycles: %.1f multiply-adds a cycle in groups" \
            " of 32, %.1f of 128\n", $1, $3, 4 * 768 / (4 * $2 + $3), 16 * 768 / (16 * $2 + $3) }'
done
