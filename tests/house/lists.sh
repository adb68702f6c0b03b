#!/bin/sh
# lists.sh SOURCE: each family's files and its list name the same members, once.
#   src/ops/elementwise/op_tanh.c  <->  DT__OP(tanh) in src/ops/ops.inc
set -eu
cd "$1"
failed=0

check() { # folder prefix list macro
    list=$(find "src/$1" -name "$3")
    files=$(find "src/$1" -name "$2_*.c" 2>/dev/null | sed "s|.*/$2_||; s|\.c\$||" | sort)
    lines=
    if [ "$list" ]; then
        lines=$(sed -n "s/^$4(\([a-z0-9_]*\)[,)].*/\1/p" "$list" | sort)
    fi
    only() { printf '%s\n' "$1" | grep -Fxv -e "$2" | grep . || true; }
    for name in $(only "$files" "$lines"); do
        echo "$2_$name.c is not in $list: add $4($name)"
        failed=$((failed + 1))
    done
    for name in $(only "$lines" "$files"); do
        echo "$list names $name, but src/$1 has no file $2_$name.c"
        failed=$((failed + 1))
    done
    for name in $(printf '%s\n' "$lines" | uniq -d); do
        echo "$list names $name twice"
        failed=$((failed + 1))
    done
    echo "$4: $(printf '%s\n' "$lines" | grep -c . || true) members"
}

# A layer is made by a public function, or, as a part of families, by one of src/nn; `list` only
# holds other modules. Its cases, which detent-test layers runs, end its file.
for name in $(sed -n 's/^DT__NN(\([a-z0-9_]*\)).*/\1/p' src/nn/nn.inc 2>/dev/null); do
    # layers that are a function of ops, several in a file
    find src/nn -name "nn_$name.c" -exec grep -q "^DT__OP_LAYER_CASES($name, " {} + && continue
    if [ "$name" != list ] && ! grep -rq "dt_${name}_create(" include/detent &&
        ! grep -rq --include='*.h' "dt__${name}_create(" src/nn; then
        echo "no public header names dt_${name}_create, which makes the layer $name"
        failed=$((failed + 1))
    fi
    if ! find src/nn -name "nn_$name.c" -exec grep -q "^DT__LAYER_CASES($name, " {} +; then
        echo "nn_$name.c has no cases: end it with DT__LAYER_CASES($name, cases)," \
            "as src/nn/lists/layer_cases.h says"
        failed=$((failed + 1))
    fi
done

check ops op ops.inc DT__OP
check nn nn nn.inc DT__NN
check qat scheme schemes.inc DT__SCHEME
check ptq round rounders.inc DT__ROUNDER
check export export exporters.inc DT__EXPORTER
[ "$failed" -eq 0 ]
