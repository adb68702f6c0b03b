# Functions of scripts/check-exports and tests/exports.sh. $files must be the folder of this file.
# shellcheck shell=sh disable=SC2154 # variables of those scripts

# lines: those of a table without comments, each that ends in \ joined with the next. field: a field
# of a line, trimmed.
lines() { sed -e :a -e '/\\$/N; s/\\\n *//; ta' "$files/$1" | grep -v -e '^#' -e '^ *$'; }
field() { printf '%s\n' "$2" | cut -d '|' -f "$1" | sed 's/^ *//; s/ *$//'; }

strict='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
libraries= # that a program is linked with

# Whether an export is a language model.
speaks() { grep -q '_next(void \*state' "$1"/*.h; }

# The last extent of an input or output of a model of integers, if it has several; else 1.
channels() { # INPUTS|OUTPUTS header
    last=$(sed -n "s/.*_$1 .*, \([0-9]*\)\] .*/\1/p" "$2" | grep -v '^$' | head -n 1)
    echo "${last:-1}"
}

# Compiles an export with one of our programs for a target, in the current folder.
compile() { # kind compiler flags board export program defines
    name=$(basename "$5"/*.h .h)
    capital=$(printf %s "$name" | tr '[:lower:]' '[:upper:]')
    defines="$7 -DNAME=$name -DHEADER=\"$name.h\" -D${capital}_NO_MAIN
        -DINPUTS=${capital}_INPUTS -DOUTPUTS=${capital}_OUTPUTS -DVOCAB=${capital}_VOCAB
        -DCONTEXT=${capital}_CONTEXT"
    ! grep -q "${name}_standardize" "$5/$name.h" || defines="$defines -DSTANDARDIZE"
    if grep -q '_run(const int8_t' "$5/$name.h"; then
        defines="$defines -DELEMENT=int8_t -DCHANNELS=$(channels INPUTS "$5/$name.h")
            -DOUTPUT_CHANNELS=$(channels OUTPUTS "$5/$name.h")
            -DINPUT_SCALE=${capital}_INPUT_SCALE -DINPUT_ZERO=${capital}_INPUT_ZERO
            -DOUTPUT_SCALE=${capital}_OUTPUT_SCALE -DOUTPUT_ZERO=${capital}_OUTPUT_ZERO"
    fi
    if speaks "$5"; then
        defines="$defines -DLANGUAGE -DARENA_BYTES=${capital}_STATE_BYTES"
    else
        defines="$defines -DARENA_BYTES=${capital}_ARENA_BYTES"
    fi
    standard=-std=c99
    plain=$2
    headers=
    link=
    case $2 in *++) standard=-std=c++17; plain=${2%++}cc; plain=${plain%gcc}gcc ;; esac
    case $1 in
        hosted) host=host_stdio ;;
        elf)
            host=host_riscv
            headers="--specs=picolibc.specs -fno-tree-loop-distribute-patterns"
            link='-nostdlib -static -lgcc'
            ;;
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
    "$plain" $3 "$6.o" "$host.o" model.o model_test.o $link $libraries -o program
}

# Runs the program of the current folder. `counting`: a nanosecond of a board's time is an
# instruction, which makes the emulator a third slower.
run() { # kind emulator [counting]
    # shellcheck disable=SC2086 # a list of words
    case $1 in
        board) timeout 600 qemu-system-arm -M "$2" ${3:+-icount shift=0} -nographic -monitor none \
            -serial none -semihosting-config enable=on,target=native -kernel program 2>&1 ;;
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

# Bytes of sections of an object whose names match.
section() { # object regex
    arm-none-eabi-size -A "$1" | awk -v name="$2" '$1 ~ name { n += $2 } END { print n + 0 }'
}

# Prints what an inference costs on a Cortex-M4, in the current folder: code, constants, arena,
# stack and instructions. To check the counter, a loop of 3,000,000 instructions is counted too.
board_figures() { # export options-of-model
    line=$(lines targets | grep '^Cortex-M4 ')
    board=$(field 5 "$line")
    compile board "$(field 3 "$line")" "$(field 4 "$line") $2" "$board" "$1" measure -DSPEND=0 \
        > measure.log 2>&1 && run board "$board" counting > board.log || return 1
    loop=$(value loop board.log)
    if [ "$loop" -le 2999000 ] || [ "$loop" -ge 3001000 ]; then
        echo "the counter says $loop of a loop of 3000000 instructions" >> measure.log
        return 1
    fi
    echo "$(section model.o '^[.]text')" "$(section model.o '^[.]rodata')" \
        "$(value arena board.log)" "$(value stack board.log)" "$(value time board.log)"
}

# board_figures for another program's C in the form of an export (peers.py). In place of the arena:
# its .data and .bss; the initial values of .data are also in flash.
peer_figures() { # folder
    figures=$(CPATH=$1/include && export CPATH &&
        strict=-w libraries='-lm --specs=nosys.specs' && board_figures "$1" '') || return 1
    # shellcheck disable=SC2086 # five numbers
    set -- $figures
    data=$(section model.o '^[.]data')
    echo "$1" "$(($2 + data))" "$((data + $(section model.o '^[.]bss')))" "$4" "$5"
}

# Compares with the table of a page: constants and arena equal; code, stack and instructions, which
# depend on the compiler's version and a little on the weights, within 3 %. Prints what differs.
check_figures() { # page title loops code constants arena stack instructions
    awk -F '|' -v title="$2" -v loops="$3" -v figures="$4 $5 $6 $7 $8" '
    function trimmed(s) { gsub(/^ +| +$|,/, "", s); return s }
    function near(a, b) { return a - b <= 0.03 * b && b - a <= 0.03 * b }
    /^\|/ {
        name = $2; gsub(/^ +| +$/, "", name)
        if (name != "the same") last = name
        way = trimmed($3)
        if (last != title || way != loops && way != "") next
        found = 1
        split(figures, got, " ")
        for (i = 1; i <= 5; i++) {
            said = trimmed($(i + 3)) + 0
            exact = i == 2 || i == 3
            if (exact ? said != got[i] : !near(said, got[i])) {
                printf "the page says %d, not %d; ", said, got[i]
                wrong = 1
            }
        }
    }
    END {
        if (!found) printf "the page has no row of %s, %s", title, loops
        exit wrong || !found
    }' "$1"
}
