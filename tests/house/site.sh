#!/bin/sh
# site.sh SOURCE: the pages become a site whose links all lead somewhere. Skipped (77) without
# pandoc, and unless every repetition is asked for: ten seconds.
set -eu
command -v pandoc > /dev/null || { echo 'no pandoc'; exit 77; }
[ "${DETENT_TESTS-}" = all ] || { echo 'with DETENT_TESTS=all'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1/scripts/site" "$work/site"
