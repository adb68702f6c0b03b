#!/bin/sh
# layers.sh SOURCE: a folder of src/ includes itself and lower rows of the table of layers, nothing
# else; the program sees public headers and its own folder; public headers follow the same rows. A
# subfolder of a layer includes what its README.md names. A folder has a README.md and at most 40
# files beside it. In higher layers than ops dt__data is refused, since it ignores strides.
set -eu
cd "$1"
failed=0
for folder in $(find src -mindepth 1 -type d ! -path 'src/export/c/texts*' ! -path '*/html'); do
    [ -f "$folder/README.md" ] || { echo "$folder has no README.md"; failed=1; }
    n=$(find "$folder" -maxdepth 1 -type f ! -name README.md | wc -l)
    [ "$n" -le 40 ] || { echo "$folder has $n files: at most 40"; failed=1; }
done
find src include -name '*.[ch]' -o -name '*.inc' | sort | xargs awk '
BEGIN {
    split("core 0 kernels 1 data 2 autograd 2 ops 3 nn 4 optim 5 qat 5 ptq 6 io 6 " \
        "export 7 report 7 train 8 bench 8 cluster 9 sweep 9 cli 10", a)
    for (i = 1; i in a; i += 2) rank[a[i]] = a[i + 1]
    # The row of a public header is the lowest layer that includes it: ops.h declares what an op is,
    # which autograd needs.
    split("detent 0 keys 0 columns 1 data 1 text 1 ops 2 device 2 nn 4 layers 4 optim 5 qat 5 " \
        "figures 5 ptq 6 io 6 tables 1 report 7 export 7 train 8 machine 8 plugin 8 " \
        "sweep 9 all 9", a)
    for (i = 1; i in a; i += 2) public[a[i]] = a[i + 1]
}
# Subfolders of its layer that README.md of a folder allows; blanks around each.
function allowed(folder,    line, text, open) {
    if (folder in rooms) return rooms[folder]
    while ((getline line < (folder "/README.md")) > 0) {
        if (line ~ /^Includes of its layer:/) open = 1
        if (open) text = text " " line
    }
    gsub(/[`,.]/, " ", text)
    return rooms[folder] = text " "
}
function bad(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; failed++ }
FNR == 1 {
    files++
    split(FILENAME, part, "/")
    own = part[1] == "src" ? part[2] : part[3] == "experimental" ? part[4] : part[3]
    experimental = part[3] == "experimental"
    room = FILENAME
    sub(/\/[^\/]*$/, "", room)
    if (part[1] == "include") sub(/\.h$/, "", own)
    known = part[1] == "src" ? own in rank : own in public
    table_row = part[1] == "src" ? rank[own] : public[own]
    if (!known) bad("\"" own "\" has no row in the table of layers")
}
# The elements in memory order are also those of a permuted view: cache_codes.c uses its strides.
known && part[1] == "src" && table_row > rank["ops"] && FILENAME != "src/nn/cache/cache_codes.c" &&
    /[^_a-z]dt__data(_mut)?\(/ { bad("dt__data is for ops; dt__values refuses views out of order") }
!known || !/^[ \t]*#[ \t]*include/ { next }
match($0, /<detent\/[a-z0-9_\/]+\.h>/) {
    other = substr($0, RSTART + 8, RLENGTH - 11)
    if (sub(/^experimental\//, "", other) && part[1] == "include" && !experimental && other != own)
        bad(own ".h is stable and includes a header that is not")
    if (!(other in public)) bad("<detent/" other ".h> has no row in the table of layers")
    else if (part[1] == "src" && public[other] > table_row)
        bad(own " includes detent/" other ".h, a higher layer")
    else if (part[1] == "include" && public[other] > table_row)
        bad(own ".h includes " other ".h, a higher layer")
    next
}
match($0, /"[^"]*"/) && !/\.pb-c\.h"/ {
    target = substr($0, RSTART + 1, RLENGTH - 2)
    if (part[1] == "include") { bad("a public header includes \"" target "\""); next }
    slash = index(target, "/")
    other = slash ? substr(target, 1, slash - 1) : ""
    if (other == own) {
        sub(/\/[^\/]*$/, "", target)
        if (room != "src/" own && "src/" target != room && !index(allowed(room), " " target " "))
            bad(room "/README.md does not allow " target)
        next
    }
    if (own == "cli") {
        bad("the program includes \"" target "\": not of <detent/...>, cli")
        next
    }
    if (!(other in rank)) bad("\"" target "\" does not name a layer; write \"layer/file.h\"")
    else if (rank[other] >= table_row)
        bad(own " includes \"" target "\", which is not a lower layer")
}
END {
    printf "%d files, %d includes that break the layers\n", files, failed
    exit failed > 0
}' && [ "$failed" -eq 0 ]
