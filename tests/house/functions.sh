#!/bin/sh
# functions.sh SOURCE: how long functions are, from the line that names one to its closing brace.
# They are found by the style: the opening brace is alone in column 0, or the function is one line.
set -eu
cd "$1"
lengths=$(mktemp)
trap 'rm -f "$lengths"' EXIT
find src -name '*.[ch]' -o -name '*.inc' | sort | xargs awk '
FNR == 1 { inside = 0; first = 0 }
inside { if (/^}/) { print FNR - first + 1, FILENAME ":" first, name; inside = first = 0 } next }
/^[A-Za-z_].*\(/ && !first {
    first = FNR
    name = $0
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
}
/^\{[ \t]*$/ { if (!first) first = FNR; inside = 1; next }
first && /^[A-Za-z_ ].*\).*\{.*\}$/ && !/=.*\{/ {
    print 1 + FNR - first, FILENAME ":" first, name
    first = 0
    next
}
/;[ \t]*(\/\*.*)?$/ || /^[ \t]*$/ || /^#/ || /^}/ { first = 0 }
' | sort -rn > "$lengths"

awk '
{ length_of[NR] = $1; if ($1 > 35) over35++; if ($1 > 60) over60++; if ($1 > 120) over120++ }
$1 > 60 || NR <= 5 { line[++shown] = sprintf("%6d  %-40s %s", $1, $3, $2) }
function at(share) { i = int(NR * (1 - share)) + 1; return length_of[i > NR ? NR : i] }
END {
    if (NR == 0) { print "no functions found"; exit 1 }
    print "functions    p50    p90   over 35   over 60   maximum"
    printf "%9d %6d %6d %7.1f %% %7.1f %% %9d\n", NR, at(0.5), at(0.9), 100 * over35 / NR,
        100 * over60 / NR, length_of[1]
    print "the longest, and all above 60:"
    for (i = 1; i <= shown; i++) print line[i]
    if (over120) print over120 " above 120 lines"
    exit over120 > 0
}' "$lengths"
