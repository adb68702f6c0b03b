#!/bin/sh
# lists.sh SOURCE: each family's files and its list name the same members, once.
#   src/ops/op_tanh.c  <->  DT__OP(tanh) in src/ops/ops.inc
set -eu
cd "$1"
failed=0

check() { # folder prefix list macro
    files=$(find "src/$1" -name "$2_*.c" 2>/dev/null | sed "s|.*/$2_||; s|\.c\$||" | sort)
    lines=
    if [ -f "src/$1/$3" ]; then
        lines=$(sed -n "s/^$4(\([a-z0-9_]*\)[,)].*/\1/p" "src/$1/$3" | sort)
    fi
    only() { printf '%s\n' "$1" | grep -Fxv -e "$2" | grep . || true; }
    for name in $(only "$files" "$lines"); do
        echo "src/$1/$2_$name.c is not in src/$1/$3: add $4($name)"
        failed=$((failed + 1))
    done
    for name in $(only "$lines" "$files"); do
        echo "src/$1/$3 names $name, but there is no src/$1/$2_$name.c"
        failed=$((failed + 1))
    done
    for name in $(printf '%s\n' "$lines" | uniq -d); do
        echo "src/$1/$3 names $name twice"
        failed=$((failed + 1))
    done
    echo "$4: $(printf '%s\n' "$lines" | grep -c . || true) members"
}

# A layer is made by a public function, or, as a part of families, by one of src/nn; `list` only
# holds other modules. Its cases, which detent-test layers runs, end its file.
for name in $(sed -n 's/^DT__NN(\([a-z0-9_]*\)).*/\1/p' src/nn/nn.inc 2>/dev/null); do
    if [ "$name" != list ] && ! grep -q "dt_${name}_create(" include/detent/nn.h &&
        ! cat src/nn/*.h | grep -q "dt__${name}_create("; then
        echo "include/detent/nn.h does not name dt_${name}_create, which makes the layer $name"
        failed=$((failed + 1))
    fi
    if ! grep -q "^DT__LAYER_CASES($name, " "src/nn/nn_$name.c" 2>/dev/null; then
        echo "src/nn/nn_$name.c has no cases: end it with DT__LAYER_CASES($name, cases)," \
            "as src/nn/layer_cases.h says"
        failed=$((failed + 1))
    fi
done

check ops op ops.inc DT__OP
check nn nn nn.inc DT__NN
check qat scheme schemes.inc DT__SCHEME
check ptq round rounders.inc DT__ROUNDER
check export export exporters.inc DT__EXPORTER
[ "$failed" -eq 0 ]
