#!/bin/sh
# headers.sh SOURCE: each public header compiles alone, and twice, as C17 and as C++17, and those of
# the stable part without the rest.
set -eu
cd "$1"
failed=0
count=0
strict='-fsyntax-only -Wall -Wextra -Wpedantic -Werror -Iinclude'

compile() { # language standard compiler header
    # shellcheck disable=SC2086 # a list of words
    printf '#include <detent/%s>\n#include <detent/%s>\n' "$4" "$4" |
        "$3" $strict -x "$1" -std="$2" - || { echo "$4: not alone as $2"; failed=$((failed + 1)); }
}

for path in include/detent/*.h include/detent/experimental/*.h; do
    header=${path#include/detent/}
    count=$((count + 1))
    compile c c17 "${CC:-cc}" "$header"
    compile c++ c++17 "${CXX:-c++}" "$header"
    case $header in experimental/*) continue ;; esac
    strict="$strict -DDETENT_STABLE_ONLY"
    compile c c17 "${CC:-cc}" "$header"
    strict=${strict% *}
done
echo "$count headers, $failed failures"
[ "$failed" -eq 0 ]
