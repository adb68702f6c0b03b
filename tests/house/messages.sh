#!/bin/sh
# messages.sh SOURCE: what the program's texts name exists: keys of recipes (docs/recipe.md, which
# suite `pages` compares with the tables of keys), commands and options of the program, and pages.
# Names of other programs' options and of other files' keys are below.
set -eu
cd "$1"
texts=$(mktemp)
trap 'rm -f "$texts"' EXIT

# A line for each string literal of src but the texts of format c and detent-bench: FILE:LINE:TEXT.
find src -name '*.[ch]' -o -name '*.inc' | grep -v '/texts/\|^src/bench/' | sort | xargs awk '
{
    rest = $0
    while (match(rest, /"([^"\\]|\\.)*"/)) {
        text = substr(rest, RSTART + 1, RLENGTH - 2)
        if (text != "") printf "%s:%d:%s\n", FILENAME, FNR, text
        rest = substr(rest, RSTART + RLENGTH)
    }
}' > "$texts"

awk -v pages="$(ls docs README.md | tr '\n' ' ')" '
function know(path, at) { # a key, and the blocks that it is in
    for (at = length(path); at > 0; at--) {
        if (substr(path, at, 1) == ".") known[substr(path, 1, at - 1)] = 1
    }
    known[path] = 1
}
function is_known(path, at) { # by itself, or as a key of the block that has the keys of another
    if (path in known) return 1
    for (at = length(path); at > 0; at--) {
        if (substr(path, at, 1) != "." || !(substr(path, 1, at - 1) in like)) continue
        return (like[substr(path, 1, at - 1)] substr(path, at)) in known
    }
    return 0
}
function complain(what) { printf "%s: %s\n", place, what; failed++ }
BEGIN {
    n = split("run model data train qat adapters convert cluster quantize", s, " ")
    for (i = 1; i <= n; i++) section[s[i]] = 1
    n = split("--plugin --help --version --verbose --h --merge --build --test-dir", s, " ")
    for (i = 1; i <= n; i++) option[s[i]] = 1
    option["--ignore-eos"] = 1 # of llama.cpp
    known["model.eval"] = 1    # Python
    n = split(pages, s, " ")
    for (i = 1; i <= n; i++) page["docs/" s[i]] = 1
}
FILENAME == "docs/recipe.md" {
    if ($0 ~ /^## `/) { split($0, s, "`"); block = s[2] }
    if ($0 ~ /^- `/ && block in section) {
        split($0, s, "`")
        gsub(/\.N/, "", s[2])
        know(block "." s[2])
        for (i = 4; s[i - 1] == ", "; i += 2) know(block "." s[i])
        if ($0 ~ /`: keys of \[`/) {
            gsub(/\.N/, "", s[4])
            like[block "." s[2]] = s[4]
        }
    }
    next
}
FILENAME ~ /^src\/cli\/main.c|^src\/cli\/commands/ { # tables of options and of commands
    rest = $0
    while (match(rest, /"--[a-z-]+"/)) {
        option[substr(rest, RSTART + 1, RLENGTH - 2)] = 1
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (match($0, /\{ "[a-z]+",/)) command[substr($0, RSTART + 3, RLENGTH - 5)] = 1
    next
}
{
    split($0, s, ":")
    place = s[1] ":" s[2]
    text = substr($0, length(place) + 2)
    foreign = place ~ /src\/(io\/hf|io\/gguf|data\/text\/tokenizer|data\/text\/model_tokens)/
    rest = text
    while (!foreign && match(rest, /[a-z_.\/]+\.[a-z_.]+/)) {
        path = substr(rest, RSTART, RLENGTH)
        after = substr(rest, RSTART + RLENGTH, 1)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/\.+$/, "", path)
        split(path, s, ".")
        if (!(s[1] in section) || path !~ /\./ || after ~ /[0-9]/) continue
        if (path ~ /\.(safetensors|onnx|tflite|json|jsonl|yaml|c|h|npz|csv|bin|txt)$/) continue
        names++
        if (!is_known(path)) complain("no key of a recipe: " path)
    }
    rest = text
    while (match(rest, /(^|[ (`'\''])--[a-z][a-z-]*/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        sub(/^[^-]/, "", name)
        names++
        if (!(name in option)) complain("no option of the program: " name)
    }
    rest = text
    while (match(rest, /[`'\'']detent [a-z]+/)) {
        name = substr(rest, RSTART + 8, RLENGTH - 8)
        rest = substr(rest, RSTART + RLENGTH)
        names++
        if (!(name in command)) complain("no command of the program: " name)
    }
    rest = text
    while (match(rest, /docs\/[a-z-]+\.md/)) {
        name = substr(rest, RSTART, RLENGTH)
        rest = substr(rest, RSTART + RLENGTH)
        names++
        if (!(name in page)) complain("no page: " name)
    }
}
END {
    printf "%d names in texts, %d of what is not there\n", names, failed
    exit failed > 0 || names < 500
}' docs/recipe.md src/cli/main.c src/cli/commands/*.c "$texts"
