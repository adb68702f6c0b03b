# Functions of scripts/check-exports and tests/exports.sh. Wants $files: the folder of this file.
# shellcheck shell=sh disable=SC2154 # variables of those scripts

# The lines of a table without comments, and the fields of one, trimmed.
lines() { grep -v -e '^#' -e '^ *$' "$files/$1"; }
field() { printf '%s\n' "$2" | cut -d '|' -f "$1" | sed 's/^ *//; s/ *$//'; }

strict='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'

# Compiles an export with one of our programs for a target, in the current folder.
compile() { # kind compiler flags board export program defines
    name=$(basename "$5"/*.h .h)
    capital=$(printf %s "$name" | tr '[:lower:]' '[:upper:]')
    defines="$7 -DNAME=$name -DHEADER=\"$name.h\" -D${capital}_NO_MAIN
        -DINPUTS=${capital}_INPUTS -DOUTPUTS=${capital}_OUTPUTS -DARENA_BYTES=${capital}_ARENA_BYTES"
    ! grep -q "${name}_standardize" "$5/$name.h" || defines="$defines -DSTANDARDIZE"
    standard=-std=c99
    plain=$2
    headers=
    link=
    case $2 in *++) standard=-std=c++17; plain=${2%++}cc; plain=${plain%gcc}gcc ;; esac
    case $1 in
        hosted) host=host_stdio ;;
        elf) host=host_riscv; headers="--specs=picolibc.specs -fno-tree-loop-distribute-patterns"; link='-nostdlib -static -lgcc' ;;
        board)
            host=host_cortex_m
            memory=$(lines boards | grep "^$4 ")
            headers=-mthumb
            link="-mthumb -nostartfiles -T $files/cortex_m.ld"
            symbol=2
            for key in boot flash flash_size ram ram_size; do
                link="$link -Wl,--defsym=$key=$(field $symbol "$memory")"
                symbol=$((symbol + 1))
            done
            defines="$defines -DTICK=$(field 7 "$memory")"
            ;;
    esac
    for object in $6 $host; do
        # shellcheck disable=SC2086 # lists of words
        "$plain" -std=c11 $3 $headers -Wall -Wextra -Werror -I"$5" -I"$files" $defines \
            -c "$files/$object.c" -o "$object.o" || return 1
    done
    for source in "$name" "${name}_test"; do
        object=model.o
        [ "$source" = "$name" ] || object=model_test.o
        # shellcheck disable=SC2086
        "$2" $standard $3 $headers $strict -I"$5" -D"${capital}_NO_MAIN" -c "$5/$source.c" \
            -o $object || return 1
    done
    # shellcheck disable=SC2086
    "$plain" $3 "$6.o" "$host.o" model.o model_test.o $link -o program
}

# Runs the program of the current folder.
run() { # kind emulator
    case $1 in
        board) timeout 600 qemu-system-arm -M "$2" -icount shift=0 -nographic -monitor none \
            -serial none -semihosting-config enable=on,target=native -kernel program 2>&1 ;;
        # shellcheck disable=SC2086 # a list of words
        *) timeout 600 $2 ./program 2>&1 ;;
    esac
}

missing() { # kind compiler emulator
    command -v "$2" > /dev/null || { echo "$2"; return; }
    emulator=${3%% *}
    [ "$1" != board ] || emulator=qemu-system-arm
    [ -z "$emulator" ] || command -v "$emulator" > /dev/null || echo "$emulator"
}

value() { sed -n "s/^$1 \([0-9]*\)$/\1/p" "$2"; }
