#!/bin/sh
# names.sh SOURCE: a name belongs to one folder of src/. conv.c and conv.h may stand side by side,
# not in two folders; so a name says which file is meant, in an editor and in a debugger.
set -eu
cd "$1"
find src -name '*.[ch]' -o -name '*.inc' | sort | awk -F/ '
{
    name = $NF
    sub(/\.[a-z]+$/, "", name)
    folder = $0
    sub(/\/[^\/]*$/, "", folder)
    files++
    if (!(name in home)) home[name] = folder
    else if (home[name] != folder) {
        printf "%s: %s has files of that name, too\n", $0, home[name]
        failed++
    }
}
END {
    printf "%d files, %d names that repeat\n", files, failed
    exit failed > 0
}'
