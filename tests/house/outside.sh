#!/bin/sh
# outside.sh SOURCE BUILD: a program outside the tree is built against an installed copy, through
# find_package and through pkg-config, with the shared and with the static library, and runs.
set -eu
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
program=$1/tests/house/outside
cmake --install "$2" --prefix "$prefix/usr" > /dev/null
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name detent.pc)")
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH

for kind in shared static; do
    echo "find_package, $kind:"
    cmake -S "$program" -B "$prefix/$kind" -DKIND="$kind" -DCMAKE_PREFIX_PATH="$prefix/usr" \
        -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_C_FLAGS="${CFLAGS:-}" > "$prefix/log" &&
        cmake --build "$prefix/$kind" >> "$prefix/log" || { cat "$prefix/log"; exit 1; }
    "$prefix/$kind/outside"
done

# shellcheck disable=SC2046,SC2086 # lists of words
build() { "${CC:-cc}" ${CFLAGS:-} "$program/main.c" -o "$prefix/outside" "$@"; }
echo 'pkg-config, shared:'
# shellcheck disable=SC2046
build $(pkg-config --cflags --libs detent)
LD_LIBRARY_PATH=$LD_LIBRARY_PATH "$prefix/outside"
echo 'pkg-config, static:'
# shellcheck disable=SC2046
build $(pkg-config --static --cflags --libs detent | sed 's/-ldetent/-l:libdetent.a/')
"$prefix/outside"
