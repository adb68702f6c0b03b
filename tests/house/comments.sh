#!/bin/sh
# comments.sh SOURCE: every public prototype has a comment right before it or on its line, and every
# function in a public header is marked DT_API.
set -eu
cd "$1"
awk '
function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; failed++ }
FNR == 1 { before = inside = 0 }
/^[ \t]*#/ { before = 0; next }
inside { # the further lines of a prototype
    if (/\/\*/) commented = 1
    if (/;/) { if (!commented) bad(name " has no comment"); inside = before = 0 }
    next
}
/^DT_API/ {
    count++
    name = match($0, /dt_[a-z0-9_]+\(/) ? substr($0, RSTART, RLENGTH - 1) : $0
    commented = before || /\/\*/
    if (/;/) { if (!commented) bad(name " has no comment"); before = 0 } else inside = 1
    next
}
/^[a-z].*[ *]dt_[a-z0-9_]+\(/ && !/^typedef/ && !/^static/ { bad("a function without DT_API: " $0) }
/^\/\* -----*/ { before = 0; next } # the title of a section explains nobody
/^typedef.*;$/ { next } # the type of a callback may stand between
{ before = /\*\/[ \t]*$/ }
END {
    printf "%d public prototypes, %d complaints\n", count, failed
    exit failed > 0 || count == 0
}' include/detent/*.h include/detent/experimental/*.h
