#!/bin/sh
# symbols.sh SOURCE SHARED_LIBRARY: the shared library exports all that the public headers declare,
# and nothing else. include/stable.txt lists the functions of the headers outside of
# experimental/, one a line, sorted: scripts/check-abi compares these between releases.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names() { # headers
    sed -n -e '/^DT_API/s/.*[ *]\(dt_[a-z0-9_]*\)(.*/\1/p' \
        -e '/^extern DT_API/s/.*[ *]\(dt_[a-z0-9_]*\)[[;].*/\1/p' "$@" | LC_ALL=C sort
}
names "$1"/include/detent/*.h > "$work/stable"
names "$1"/include/detent/*.h "$1"/include/detent/experimental/*.h > "$work/promised"
nm -D --defined-only "$2" | awk '$2 ~ /[A-Z]/ && $3 !~ /^_(init|fini)$/ { print $3 }' |
    LC_ALL=C sort > "$work/exported"
failed=0
if ! diff "$1/include/stable.txt" "$work/stable"; then
    echo 'include/stable.txt and the headers in include/detent do not have the same functions'
    failed=1
fi
for name in $(comm -23 "$work/promised" "$work/exported"); do
    echo "$name is in a header and not in the library"
    failed=$((failed + 1))
done
for name in $(comm -13 "$work/promised" "$work/exported"); do
    echo "$name is exported and in no header"
    failed=$((failed + 1))
done
for name in $(uniq -d "$work/promised"); do
    echo "$name is declared twice"
    failed=$((failed + 1))
done
echo "$(wc -l < "$work/promised") public functions, $failed failures"
[ "$failed" -eq 0 ]
