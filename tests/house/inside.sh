#!/bin/sh
# inside.sh SOURCE: a project takes detent in by add_subdirectory and by FetchContent, without an
# installation. It gets the library only, and its own settings do not change. With
# DETENT_TESTS=all the project is built, with the shared and the static library, and runs; otherwise
# it is configured, and its program compiled.
set -eu
source=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "$1"; exit 1; }

for how in add fetch; do
    echo "$how:"
    build=$work/$how
    cmake -S "$source/tests/house/inside" -B "$build" -G Ninja -DDETENT="$source" -DHOW="$how" \
        -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_C_FLAGS='-O0' > "$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
    targets=$(ninja -C "$build" -t targets all)
    ! echo "$targets" | grep -qE 'detent-test|detent_bench|/examples/|/src/cli/' ||
        fail 'the project would build programs of detent'
    grep -q '^CMAKE_BUILD_TYPE:STRING=$' "$build/CMakeCache.txt" ||
        fail 'detent chose the type of build'
    ! grep -q 'libdetent' "$build/cmake_install.cmake" || fail 'detent would be installed'
    object=$(echo "$targets" | sed -n 's/^\(CMakeFiles\/inside-detent.dir\/.*main\.c\.o\):.*/\1/p')
    ninja -C "$build" "$object" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    [ "${DETENT_TESTS-}" = all ] || continue
    cmake --build "$build" > "$work/log" 2>&1 || { tail -n 20 "$work/log"; exit 1; }
    "$build/inside-detent"
    "$build/inside-static"
    break # the other way adds the same targets
done
