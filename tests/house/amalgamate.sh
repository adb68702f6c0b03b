#!/bin/sh
# amalgamate.sh SOURCE LIBRARY: scripts/amalgamate makes two files that compile without a warning
# and without another library, with threads and without; detent.h is C++ too, and detent.c has all
# that it declares. Every example that needs nothing else is built with them and with the library,
# in the folder LIBRARY, prints the same and writes the same bytes. To save time they train for few
# steps, and nothing is optimized. DETENT_TESTS=all optimizes, runs them unchanged, once more
# without threads, and lets clang warn, too.
set -eu
command -v python3 > /dev/null || { echo 'python3 is missing'; exit 77; }
source=$(cd "$1" && pwd)
library=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
# gcc needs more time to check the indentation than for all else; the sources have passed it
strict='-std=c17 -Wall -Wextra -Werror -Wno-misleading-indentation'
if "$source/scripts/amalgamate" --help 2>/dev/null; then exit 1; fi
"$source/scripts/amalgamate" "$work"
cd "$work"

shorter='s/FLOAT_STEPS = [0-9]*, QAT_STEPS = [0-9]*/FLOAT_STEPS = 2, QAT_STEPS = 2/
    s/IMAGES = [0-9]*, TESTED = [0-9]*/IMAGES = 128, TESTED = 40/'
optimized=-O0
if [ "${DETENT_TESTS-}" = all ]; then
    shorter=
    optimized=-O2
fi
others='yaml|png|jpeg|zlib|utf8proc|xxhash|Random123|dnnl|cblas|openblas|sndfile'
others="$others|sqlite3|zstd|protobuf"
if "$cc" -std=c17 -M detent.c | tr ' ' '\n' | grep -E "/[^/]*($others)[^/]*\.h|/Random123/"; then
    echo 'detent.c includes headers of other libraries'
    exit 1
fi

# shellcheck disable=SC2086 # lists of words
compile() { "$cc" $strict $optimized "$@"; }
compile -c detent.c
compile -fsyntax-only -DDETENT_NO_THREADS detent.c
echo '#include "detent.h"' > header.cc
"${CXX:-c++}" -std=c++17 -Wall -Wextra -Werror -fsyntax-only header.cc
if [ "${DETENT_TESTS-}" = all ] && command -v clang-14 > /dev/null; then
    clang-14 -std=c17 -Wall -Wextra -Werror -fsyntax-only detent.c
fi

# What detent.h declares.
nm detent.o | sed -n 's/.* [A-Z] \(dt_\)/\1/p' | sort > defined
awk '/DT_API/ { text = "" } { text = text $0 } text ~ /DT_API/ && /;/ {
    if (match(text, /dt_[a-z0-9_]+ *[(;[]/)) print substr(text, RSTART, RLENGTH - 1); text = "" }' \
    detent.h | tr -d ' ' | sort -u > declared
[ "$(grep -c . declared)" -ge 300 ] || { echo 'detent.h has hardly a function'; exit 1; }
if comm -23 declared defined | grep .; then
    echo 'detent.c lacks these functions of detent.h'
    exit 1
fi

# The headers that an example includes are those of detent.h.
is_core() {
    of_detent=$(sed -n 's|^#include <detent/\(.*\)\.h>.*|\1|p' "$1")
    [ "$of_detent" ] || return 1
    for header in $of_detent; do
        guard=DETENT_$(echo "$header" | tr '[:lower:]/' '[:upper:]_')_H
        grep -q "^#ifndef $guard" detent.h || return 1
    done
}

# Builds and runs all such examples with the object file $1.
try() {
    tried=0
    for example in "$source"/examples/*.c; do
        is_core "$example" || continue
        name=$(basename "$example" .c)
        rm -rf ours theirs
        mkdir ours theirs
        sed "$shorter" "$example" > "$name.c"
        "$cc" -std=c17 "$name.c" -I"$source/include" -L"$library" -ldetent -lm -o one
        (cd theirs && LD_LIBRARY_PATH=$library ../one > output)
        sed -i 's|^#include <detent/.*>|#include "detent.h"|' "$name.c"
        compile "$name.c" "$1" -o two -pthread -lm
        (cd ours && ../two > output)
        diff -r ours theirs || { echo "$name differs"; exit 1; }
        echo "$name: the same as with the library"
        tried=$((tried + 1))
    done
    [ "$tried" -ge 4 ] || { echo "only $tried examples were tried"; exit 1; }
}

try detent.o
if [ "${DETENT_TESTS-}" = all ]; then
    compile -DDETENT_NO_THREADS -c detent.c -o serial.o
    try serial.o
fi
