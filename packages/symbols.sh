#!/bin/sh
# symbols.sh SOURCE LIBRARY PACKAGE ABI VERSION TO: the symbols file of the library's package: each
# function that the library exports, and the version in which it appeared. Stable functions of
# earlier releases are in packages/libdetent.symbols, which a release writes anew; others are of this
# version: programs that call an experimental one need the library that they were built with. A
# stable function of an earlier release that is no longer there needs another ABI number.
set -eu
source=$1 library=$2 package=$3 abi=$4 version=$5 to=$6
known=$source/packages/libdetent.symbols
[ -e "$known" ] || known=/dev/null
mkdir -p "$(dirname "$to")"
exported=$(nm -D --defined-only "$library" | awk '$2 ~ /[A-Z]/ { print $3 }' | LC_ALL=C sort)
{
    echo "libdetent.so.$abi $package #MINVER#"
    echo '* Build-Depends-Package: libdetent-dev'
    printf '%s\n' "$exported" | awk -v version="$version" -v head="libdetent.so.$abi " '
        FILENAME != "-" { # a symbols file
            if (index($0, "libdetent.so.") == 1) same = index($0, head) == 1
            else if (same && $1 ~ /@Base$/) since[$1] = $2
            next
        }
        { name = $1 "@Base"; seen[name]
          print " " name, name in since ? since[name] : version }
        END {
            for (name in since) if (!(name in seen)) {
                print name " was in " since[name] " and is gone" > "/dev/stderr"; gone++ }
            exit gone > 0
        }' "$known" -
} > "$to.new"
mv "$to.new" "$to"
