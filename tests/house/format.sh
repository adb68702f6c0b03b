#!/bin/sh
# format.sh SOURCE: C files are formatted as .clang-format says. Skipped (77) where clang-format-14
# is not installed.
set -eu
cd "$1"
if ! command -v clang-format-14 > /dev/null; then
    echo "skipped: clang-format-14 is not installed (scripts/install-packages --all)"
    exit 77
fi
find src include tests examples bench -name '*.[ch]' -exec clang-format-14 --dry-run -Werror {} +
