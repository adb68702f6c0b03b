#!/bin/sh
# doxygen.sh SOURCE [TO]: Doxygen reads the public headers without a warning: every function, type
# of function, enumeration, constant and macro has a comment, and none has markup that it misreads.
# A struct and its fields may go without one where their names say it. With TO the pages are kept
# there. Skipped (77) without doxygen.
set -eu
command -v doxygen > /dev/null || { echo 'no doxygen'; exit 77; }
cd "$1"
source=$PWD
to=${2-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -n "$to" ] || to=$work/pages
mkdir -p "$to"

# Comments of the headers are plain C. For Doxygen a block becomes a comment of what follows it, one
# behind code a comment of that; a ruler "---- topic ----" and the head of a file stay as they are.
cat > "$work/filter" <<'END'
#!/bin/sh
exec awk '
    /^ *(\/\*|\*| \*)/ { gsub(/</, "\\<") }
    NR == 1 && /^\/\* [a-z_]*\.h:/ { sub(/^\/\* /, "/** @file\n * "); print; next }
    /^ *\/\* ----/ { print; next }
    /^ *\/\*/ { sub(/\/\*/, "/**"); print; next }
    /[^ ].* \/\* / { sub(/\/\* /, "/**< "); print; next }
    { print }' "$1"
END
chmod +x "$work/filter"
cat > "$work/doxyfile" <<END
PROJECT_NAME = detent
INPUT = $source/include/detent
INPUT_FILTER = $work/filter
FILTER_SOURCE_FILES = NO
STRIP_FROM_PATH = $source/include
OUTPUT_DIRECTORY = $to
OPTIMIZE_OUTPUT_FOR_C = YES
JAVADOC_AUTOBRIEF = YES
AUTOLINK_SUPPORT = YES
TYPEDEF_HIDES_STRUCT = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = DT_API= "DT_PRINTF(a,b)="
EXCLUDE_SYMBOLS = DT_API DT_PRINTF
DISTRIBUTE_GROUP_DOC = YES
GENERATE_LATEX = NO
GENERATE_HTML = YES
HAVE_DOT = NO
QUIET = YES
WARNINGS = YES
WARN_IF_UNDOCUMENTED = YES
WARN_IF_DOC_ERROR = YES
WARN_NO_PARAMDOC = NO
WARN_LOGFILE = $work/warnings
END
doxygen "$work/doxyfile" > /dev/null
grep -v -e 'warning: Compound .* is not documented' \
    -e 'warning: Member .* (variable) of \(struct\|union\) .* is not documented' \
    "$work/warnings" > "$work/left" || true
warnings=$(wc -l < "$work/left")
sed "s|$source/||" "$work/left"
echo "$warnings warnings"
[ "$warnings" -eq 0 ]
