#!/bin/sh
# columns.sh SOURCE: no line is longer than 100 columns. Of Markdown may be: tables, code, lines
# with a link, and generated pages; and the table scripts/exports/targets.
set -eu
cd "$1"
LC_ALL=C.UTF-8 # columns are characters
export LC_ALL
long=$(mktemp)
trap 'rm -f "$long"' EXIT
{
    find src include tests bench examples cmake configs CMakeLists.txt \( -name '*.[ch]' \
        -o -name '*.inc' -o -name '*.yaml' -o -name '*.sh' -o -name '*.py' -o -name '*.in' \
        -o -name CMakeLists.txt \) \
        -exec grep -EHn '^.{101}' {} + || true
    find scripts -type f ! -path scripts/exports/targets -exec grep -EHn '^.{101}' {} + || true
    find docs bench ./*.md -name '*.md' ! -name ops.md ! -name recipe.md | while read -r page; do
        sed '/^ *```/,/^ *```/s/.*//' "$page" | grep -En '^.{101}' | sed "s|^|$page:|" |
            grep -Ev '^[^:]*:[0-9]+:( *\||    |\[[^]]*\]:)|\]\(|http' || true
    done
} > "$long"
cut -c 1-140 "$long"
echo "$(wc -l < "$long") lines above 100 columns"
[ ! -s "$long" ]
