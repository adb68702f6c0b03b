#!/bin/sh
# The build refuses -ffast-math and each of its parts, wherever they are among other flags, and
# accepts flags that change no bit.
#
#   flags.sh SOURCE
set -eu
script=$1/cmake/refuse_fast_math.cmake
for flag in -ffast-math -Ofast -funsafe-math-optimizations -fassociative-math -freciprocal-math \
    -ffinite-math-only -fno-signed-zeros -fapprox-func -ffp-model=fast -mdaz-ftz; do
    for flags in "$flag" "-O2 $flag" "$flag  -g" "-g -march=native $flag -pipe"; do
        ! cmake -DFLAGS="$flags" -P "$script" > /dev/null 2>&1 || {
            echo "taken: $flags"
            exit 1
        }
    done
done
cmake -DFLAGS="-O3 -march=native -fno-trapping-math -fno-fast-math -ffp-contract=fast" -P "$script"
grep -q 'detent_refuse_fast_math(' "$1/CMakeLists.txt"
