#!/bin/sh
# documents.sh SOURCE VERSION RELEASE MAINTAINER TO: what each Debian package has in its folder of
# documents: CHANGELOG.md and a changelog of the packages, compressed, and the copyright file.
set -eu
source=$1 version=$2 release=$3 maintainer=$4 to=$5
mkdir -p "$to"
# "## 0.1.0 (2026-11-23)"
day=$(sed -n "s/^## $version (\([0-9-]*\))\$/\1/p" "$source/CHANGELOG.md")
[ -n "$day" ] || { echo "CHANGELOG.md has no heading '## $version (YEAR-MONTH-DAY)'" >&2; exit 1; }
gzip -9nc "$source/CHANGELOG.md" > "$to/changelog.gz"
gzip -9nc > "$to/changelog.Debian.gz" <<END
detent ($version-$release) unstable; urgency=medium

  * Version $version; changelog.gz says what is new.

 -- $maintainer  $(LC_ALL=C TZ=UTC date -d "$day 12:00" -R)
END
{
    cat "$source/packages/copyright"
    random123=/usr/share/doc/librandom123-dev/copyright
    [ ! -e "$random123" ] || { echo; sed '/^Format:/,/^$/d' "$random123"; }
} > "$to/copyright"
touch "$to/done"
