#!/bin/sh
# symbols.sh SOURCE SHARED_LIBRARY: the shared library exports what the public headers promise, all
# of it and nothing else.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n -e '/^DT_API/s/.*[ *]\(dt_[a-z0-9_]*\)(.*/\1/p' \
    -e '/^extern DT_API/s/.*[ *]\(dt_[a-z0-9_]*\)[[;].*/\1/p' "$1"/include/detent/*.h |
    sort > "$work/promised"
nm -D --defined-only "$2" | awk '$2 ~ /[A-Z]/ && $3 !~ /^_(init|fini)$/ { print $3 }' |
    sort > "$work/exported"
failed=0
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
