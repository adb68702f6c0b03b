#!/bin/sh
# documents.sh SOURCE DETENT [PAGE ...]: what README.md, CONTRIBUTING.md and docs/*.md print works;
# with PAGEs, such as docs/run.md, only their blocks are tried.
#
# Every code block of README.md and docs/*.md is tried, page by page, in the order of the page and
# in a scratch folder of its own with a copy of configs/ and `detent` on the PATH:
#
#   commands   a fence ```sh, or an indented block with a line that begins with a known program
#   ```yaml    `detent config validate`, with the blocks run, model and data that it lacks
#   ```json    parses
#   ```c       compiles inside a function, with every public header
#   ```python  python3 runs it
#
# A fence ```text, and any other indented block, is an illustration. A block that cannot be tried so
# has a comment in front of it, which a reader of the rendered page does not see:
#
#   <!-- not run: why -->     not run: takes hours, is run by another test, is a test itself
#   <!-- if: command -->      not run where this fails: a program or a module of Python is not here;
#                             scripts/check-exports --only pages installs modules
#   <!-- before: commands --> run first: makes the files that the block names
#   <!-- shortened: words --> words behind each `detent train`, `detent quantize` and `detent-bench`
#                             of the block
#   <!-- where: S=1 DIR=x --> values of words that stand for any: S and DIR
#   <!-- beside: block -->    of YAML: a block of the recipe that the fragment belongs to
#   <!-- given: text -->      of C the parameters that the snippet takes for granted, of Python code
#   <!-- fails -->            the commands are examples of what is refused; each must fail
#
# For `before` two commands make small data: `make-text FILE [LETTERS]`, and `make-mnist FOLDER`,
# whose pictures show no digits.
#
# Besides: README links every page, every relative link has its file and heading, what a page names
# of the source (functions, types, constants, files) and of recipes (keys) is there, and no line is
# longer than 100 columns, tables apart; the same of the README.md of folders.
set -eu
detent=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$1"
source=$PWD
shift 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

complain() {
    printf '%s\n' "$*"
    failed=$((failed + 1))
}

pages="README.md CONTRIBUTING.md $(find packages src -name README.md | sort | tr '\n' ' ')"
for page in docs/*.md; do
    pages="$pages $page"
    [ "$page" = docs/plan.md ] || # the state of a long piece of work, for a while
        grep -q "($page[)#]" README.md || complain "README.md does not link $page"
done

# ---- links and lines ---------------------------------------------------------------------------

# The anchor of each heading, as GitHub makes it.
anchors() {
    awk '/^ *```/ { fence = !fence } !fence && /^#+ / {
        sub(/^#+ /, ""); $0 = tolower($0)
        gsub(/[^a-z0-9_ \-\200-\377]/, ""); gsub(/ /, "-"); print }' "$1"
}

# shellcheck disable=SC2086 # a list of words
for page in $pages; do
    folder=$(dirname "$page")
    for link in $(awk '/^ *```/ { fence = !fence } fence || /^    / { next } { print }' "$page" |
        grep -o '](\([^)]*\))' | sed 's/^](//; s/)$//' | grep -v '^https*:' || true); do
        file=${link%%#*}
        target=$page
        [ -z "$file" ] || target=$folder/$file
        [ -e "$target" ] || { complain "$page: no file $link"; continue; }
        case $link in
            *#*) anchors "$target" | grep -qxF -- "${link#*#}" ||
                complain "$page: no heading $link" ;;
        esac
    done
    case $page in docs/ops.md | docs/recipe.md) continue ;; esac # made by the program
    LC_ALL=C awk -v page="$page" '/^\|/ { next } {
        line = $0; gsub(/[\200-\277]/, "", line)
        if (length(line) > 100) { printf "%s:%d: %d columns\n", page, NR, length(line); n++ }
    } END { exit n > 0 }' "$page" || failed=$((failed + 1))
done

# ---- names -------------------------------------------------------------------------------------

find src include tests bench examples -name golden -prune -o -type f -name '*.[chi]*' \
    -exec cat {} + > "$scratch/text"
# shellcheck disable=SC2086 # a list of words
for name in $(grep -ohE '\b(dt|DT)_[A-Za-z0-9_]*[A-Za-z0-9]' $pages | sort -u); do
    grep -qF -- "$name" "$scratch/text" || complain "no $name, but a page names it"
done
# shellcheck disable=SC2086
for name in $(grep -ohE '\b(src|tests|include|examples|configs|scripts)/[A-Za-z0-9_./]*\.[a-z]+' \
    $pages | sort -u); do
    [ -e "$name" ] || complain "no file $name, but a page names it"
done

# Keys of recipes, as docs/recipe.md lists them: N stands for a place in a list. A line "keys of
# [`qat.weight`]" stands for the keys of that place.
awk -F '`' '
    /^## `/ { block = $2 }
    /^- `/ && block != "" {
        key[++n] = block "." $2
        for (i = 4; $(i - 1) == ", "; i += 2) key[++n] = block "." $i
        if ($3 ~ /^: keys of \[$/) { from[++aliases] = $4 "."; to[aliases] = key[n] "." }
    }
    END {
        for (round = 1; round <= 2; round++) for (a = 1; a <= aliases; a++) {
            last = n
            for (i = 1; i <= last; i++) if (index(key[i], from[a]) == 1)
                key[++n] = to[a] substr(key[i], length(from[a]) + 1)
        }
        for (i = 1; i <= n; i++) print key[i]
    }' docs/recipe.md | sed 's/\.N\b//g' | sort -u > "$scratch/keys"
# shellcheck disable=SC2046,SC2086 # lists of words
for key in $(grep -ohE '`(train|qat|convert|quantize|cluster)\.[a-z_0-9.]+`' \
    $(printf '%s\n' $pages | grep -vE 'plan|recipe') | tr -d '`' | grep -vE '\.(h|bin)$' |
    sed -E 's/\.[0-9]+//g' | sort -u); do
    grep -qE "^$(printf '%s' "$key" | sed 's/\./\\./g')(\.|$)" "$scratch/keys" ||
        complain "no key $key, but a page names it"
done

# ---- blocks ------------------------------------------------------------------------------------

# One page to files: NNN.sh, .yaml, .json, .c, and beside each NNN.line, .skip, .before, .with,
# .given, .fails.
extract() { # page folder
    LC_ALL=C awk -v to="$2" '
    function start() { n++; name = sprintf("%s/%03d", to, n) }
    function put(kind, text) {
        printf "%d\n", first > (name ".line")
        printf "%s", text > (name "." kind)
        for (key in mark) printf "%s\n", mark[key] > (name "." key)
        close(name ".line"); close(name "." kind)
        for (key in mark) { close(name "." key); delete mark[key] }
    }
    function forget() { for (key in mark) delete mark[key] }
    function finish_indented() {
        if (indented != "" && runs) { start(); put("sh", indented) }
        if (indented != "") forget()
        indented = ""; runs = 0; blanks = ""
    }
    /^ *```/ {
        if (fence == "") {
            finish_indented()
            match($0, /^ */); inset = RLENGTH
            fence = substr($0, inset + 4); if (fence == "") fence = "none"
            first = NR; text = ""
        } else {
            if (fence != "text") { start(); put(fence, text) } else forget()
            fence = ""
        }
        blank = 0; next
    }
    fence != "" { text = text substr($0, inset + 1) "\n"; next }
    /^<!-- [a-z ]*(:.*)?-->$/ {
        finish_indented()
        line = $0; sub(/^<!-- /, "", line); sub(/ *-->$/, "", line)
        key = line; sub(/:.*/, "", key); sub(/^[^:]*:? */, "", line)
        if (key == "not run") line = key ": " line
        if (key == "not run") key = "skip"
        if (key == "shortened") key = "with"
        if (key !~ /^(skip|if|before|with|where|given|beside|fails)$/) next
        if (key in mark) line = mark[key] "\n" line
        mark[key] = line
        next
    }
    /^ *$/ { if (indented != "") blanks = blanks "\n"; blank = 1; next }
    /^    / && (indented != "" || blank) {
        if (indented == "") first = NR
        line = substr($0, 5)
        if (line ~ /^ *(detent|cmake|cp|mkdir|cc|scripts\/|build\/|printf|export|python3) / ||
            line ~ /^ *(detent-bench|mpirun|srun|llama-cli) / ||
            line ~ /^ *(scripts|build)\/[a-z\/-]+( |$)/) runs = 1
        indented = indented blanks line "\n"; blanks = ""; next
    }
    { finish_indented(); forget(); blank = 0 }
    END { finish_indented() }' "$1"
}

# Adds the words of `shortened` to each command that trains, quantizes or measures, in front of a
# comment.
lengthen() { # words, script on stdin
    awk -v words="$1" '/^ *(mpirun -n [0-9]+ )?detent( (train|quantize)|-bench)( |$)/ {
        at = match($0, /( +#| *\\$)/); tail = ""
        if (at > 0) { tail = substr($0, at); $0 = substr($0, 1, at - 1) }
        $0 = $0 " " words tail } { print }'
}

# Replaces whole words NAME by VALUE.
put_values() { # "NAME=VALUE ...", text on stdin
    script=
    for value in $1; do script="$script;s|\\b${value%%=*}\\b|${value#*=}|g"; done
    sed "${script#;}"
}

run_commands() { # block
    { echo 'set -eu'
      [ ! -e "$1.before" ] || cat "$1.before"
      cp "$1.sh" "$1.whole"
      [ ! -e "$1.where" ] || put_values "$(cat "$1.where")" < "$1.sh" > "$1.whole"
      if [ -e "$1.with" ]; then
          lengthen "$(tr '\n' ' ' < "$1.with")" < "$1.whole"
      else
          cat "$1.whole"
      fi
    } > "$1.run"
    (cd "$folder" && OMP_NUM_THREADS=1 sh "$1.run" > "$1.log" 2>&1 < /dev/null)
}

# Succeeds if each line of the block fails.
run_refusals() {
    while IFS= read -r line; do
        case $line in '' | '#'*) continue ;; esac
        ! (cd "$folder" && sh -c "$line" >> "$1.log" 2>&1 < /dev/null) || return 1
    done < "$1.sh"
}

# Validates YAML. To a fragment the blocks are added that every recipe needs, or those of `beside`.
check_yaml() {
    {
        cat "$1.yaml"
        if [ -e "$1.beside" ]; then
            grep -vx nothing "$1.beside" || true
        else
            for need in 'run: {dir: run}' 'model: {family: mlp, sizes: [784, 10]}' \
                'data: {format: digits}'; do
                grep -q "^${need%%:*}:" "$1.yaml" || printf '%s\n' "$need"
            done
        fi
    } > "$1.whole.yaml"
    [ ! -e "$1.before" ] || (cd "$folder" && sh -eu "$1.before") > "$1.log" 2>&1
    (cd "$folder" && "$detent" config validate "$1.whole.yaml" --leave-files) > "$1.log" 2>&1
}

check_c() {
    given=void
    [ ! -e "$1.given" ] || given=$(cat "$1.given")
    {
        echo '#include <detent/experimental/all.h>'
        printf 'void snippet(%s);\nvoid snippet(%s)\n{\n' \
            "$given" "$given"
        cat "$1.c"
        echo '}'
    } > "$1.snippet.c"
    "${CC:-cc}" -std=c17 -fsyntax-only -Wall -Wextra -Wno-unused -Iinclude "$1.snippet.c" \
        > "$1.log" 2>&1
}

json=$scratch/json
cat > "$json.c" <<'C'
#include <jansson.h>
int main(int argc, char **argv) /* FILE: JSON values, one after the other */
{
    FILE *file = argc < 2 ? NULL : fopen(argv[1], "r");
    int bad = file == NULL, c;
    while (!bad && (c = fscanf(file, " ") == EOF ? EOF : fgetc(file)) != EOF) {
        json_error_t e;
        ungetc(c, file);
        json_t *j = json_loadf(file, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &e);
        if (j == NULL) printf("line %d: %s\n", e.line, e.text);
        bad = j == NULL;
        json_decref(j);
    }
    return bad;
}
C
# shellcheck disable=SC2046 # lists of words
"${CC:-cc}" "$json.c" -o "$json" $(pkg-config --cflags --libs jansson)

run_python() {
    { [ ! -e "$1.before" ] || (cd "$folder" && sh -eu "$1.before"); } > "$1.log" 2>&1 &&
        { [ ! -e "$1.given" ] || cat "$1.given"; cat "$1.python"; } > "$1.whole.py" &&
        (cd "$folder" && python3 "$1.whole.py") >> "$1.log" 2>&1 < /dev/null
}

try() { # block
    for kind in sh yaml json c python; do
        [ -e "$1.$kind" ] || continue
        case $kind in
            sh) if [ -e "$1.fails" ]; then run_refusals "$1"; else run_commands "$1"; fi ;;
            yaml) check_yaml "$1" ;;
            json) "$json" "$1.json" > "$1.log" 2>&1 ;;
            c) check_c "$1" ;;
            python) run_python "$1" ;;
        esac
        return
    done
    echo 'a block of no known kind wants a marker, or the fence ```text' > "$1.log"
    return 1
}

SOURCE=$source
PATH=$(dirname "$detent"):$scratch/bin:$PATH
export PATH SOURCE
mkdir "$scratch/bin"
cat > "$scratch/bin/make-text" <<'END'
#!/bin/sh
set -eu
mkdir -p "$(dirname "$1")"
{ echo ROMEO:; tr -dc "${2-A-Z:a-z \n}" < "$SOURCE/docs/recipe.md" | head -c 20000; } > "$1"
END
cat > "$scratch/bin/make-mnist" <<'END'
#!/bin/sh
set -eu
numbers() { # of 4 bytes, the largest first
    for i in "$@"; do
        printf "\\000\\000\\$(printf %03o $((i / 256)))\\$(printf %03o $((i % 256)))"
    done
}
mkdir -p "$1"
for part in train:128 t10k:16; do
    n=${part#*:}
    { numbers 2051 "$n" 28 28; cat "$SOURCE"/docs/*.md | head -c "$((n * 784))"; } |
        gzip > "$1/${part%:*}-images-idx3-ubyte.gz"
    { numbers 2049 "$n"; for i in $(seq "$n"); do printf "\\00$((i % 8))"; done; } |
        gzip > "$1/${part%:*}-labels-idx1-ubyte.gz"
done
END
chmod +x "$scratch/bin/"*
tried=0
skipped=0
[ $# -gt 0 ] || set -- README.md docs/*.md
for page in "$@"; do
    name=$(basename "$page" .md)
    folder=$scratch/$name
    mkdir -p "$folder" "$scratch/$name.blocks"
    cp -r configs "$folder"
    extract "$page" "$scratch/$name.blocks"
    for line in "$scratch/$name.blocks"/*.line; do
        [ -e "$line" ] || continue
        block=${line%.line}
        if [ -e "$block.skip" ]; then
            printf '%s:%s: %s\n' "$page" "$(cat "$line")" "$(cat "$block.skip")"
            skipped=$((skipped + 1))
            continue
        fi
        if [ -e "$block.if" ] && ! (cd "$folder" && sh "$block.if" > "$block.log" 2>&1); then
            printf '%s:%s: not here: %s\n' "$page" "$(cat "$line")" "$(cat "$block.if")"
            skipped=$((skipped + 1))
            continue
        fi
        tried=$((tried + 1))
        try "$block" && continue
        complain "$page:$(cat "$line"): this block fails:"
        tail -n 12 "$block.log"
    done
done
printf '%d blocks tried, %d not run, %d complaints\n' "$tried" "$skipped" "$failed"
[ "$source" = "$PWD" ] && [ "$failed" -eq 0 ]
