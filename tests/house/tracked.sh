#!/bin/sh
# No file is tracked that a build makes: none that .gitignore names, no object, profile or cache.
#
#   tracked.sh SOURCE
set -eu
cd "$1"
git rev-parse --git-dir > /dev/null 2>&1 || {
    echo "no git repository; skipped"
    exit 77
}
made=$({
    git ls-files --cached --ignored --exclude-standard
    git ls-files | grep -E '\.(o|a|so|gcda|gcno|gcov|pyc|profraw)$|(^|/)(CMakeFiles|build)/' || true
} | sort -u)
[ -z "$made" ] || {
    printf '%s\n' "$made" | head -20
    echo "generated files are tracked: git rm --cached"
    exit 1
}
