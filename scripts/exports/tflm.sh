#!/bin/sh
# tflm.sh RUN [reference|cmsis_nn]: what TensorFlow Lite Micro's interpreter costs on a Cortex-M4 in
# an emulator for a run of a network of integers, with its reference kernels or CMSIS-NN's; and
# whether it computes the codes of the same network as C. Requires Debian's
# libstdc++-arm-none-eabi-newlib, gcc-arm-none-eabi and qemu-system-arm.
#
# Its sources (Apache 2.0) are no part of detent. They are $TFLM: folders tflm, flatbuffers,
# gemmlowp and ruy, and for cmsis_nn also cmsis-nn; or are fetched to build/exports/tflm at the
# commits below. Prints flash (code and tables of the interpreter, then the model's file), the
# interpreter's arena, stack and instructions of an inference; status 1 after a difference.
set -eu
run=$(cd "$1" && pwd)
kernels=${2-reference}
cd "$(dirname "$0")/../.."
files=$PWD/scripts/exports
. scripts/exports/functions.sh
detent=${DETENT-$PWD/build/release/detent}
sources=${TFLM-$PWD/build/exports/tflm}
work=$PWD/build/exports/tflm-$kernels
fetch() { # folder address commit
    [ ! -d "$sources/$1" ] || return 0
    git clone --quiet "https://github.com/$2" "$sources/$1"
    git -C "$sources/$1" checkout --quiet "$3"
}
fetch tflm tensorflow/tflite-micro 90b983c2b3f1480642e040bbd2ddb37b998f3424
fetch flatbuffers google/flatbuffers v25.9.23
fetch gemmlowp google/gemmlowp 719139ce755a0f31cbf1c37f7f98adcc7fc9f425
fetch ruy google/ruy d37128311b445e758136b8602d1bbd2a755e115d
[ "$kernels" = reference ] ||
    fetch cmsis-nn ARM-software/CMSIS-NN 99f736a63036613032f9b70de36b493bcd7802d4
line=$(lines targets | grep '^Cortex-M4 ')
board=$(field 5 "$line")
processor="$(field 4 "$line") -mthumb"
mkdir -p "$work/objects"
options="$processor -std=c++17 -fno-exceptions -fno-rtti -fno-threadsafe-statics
    -ffunction-sections -fdata-sections -DTF_LITE_STATIC_MEMORY -DTF_LITE_STRIP_ERROR_STRINGS
    -DNDEBUG -w -I$sources/tflm -I$sources/flatbuffers/include -I$sources/gemmlowp -I$sources/ruy"
[ "$kernels" = reference ] || options="$options -DCMSIS_NN -I$sources/cmsis-nn"

# The interpreter and the kernels of the networks that detent writes.
list() {
    cd "$sources/tflm"
    for name in compiler/mlir/lite/core/api/error_reporter compiler/mlir/lite/schema/schema_utils \
        lite/core/api/flatbuffer_conversions lite/core/api/tensor_utils lite/core/c/common \
        lite/array lite/kernels/kernel_util lite/kernels/internal/common \
        lite/kernels/internal/quantization_util lite/kernels/internal/portable_tensor_utils \
        lite/kernels/internal/tensor_ctypes lite/kernels/internal/tensor_utils \
        lite/kernels/internal/reference/portable_tensor_utils; do
        [ ! -e "tensorflow/$name.cc" ] || echo "tensorflow/$name.cc"
    done
    for file in tensorflow/lite/micro/*.cc tensorflow/lite/micro/*_allocator/*.cc \
        tensorflow/lite/micro/memory_planner/*.cc tensorflow/lite/micro/tflite_bridge/*.cc; do
        case $file in
            *_test.cc | *test_help* | *recording* | *non_persistent* | *fake_* | *mock_*) ;;
            *) echo "$file" ;;
        esac
    done
    for name in conv depthwise_conv fully_connected pooling softmax add pad mul transpose; do
        echo "tensorflow/lite/micro/kernels/${name}_common.cc"
        file=tensorflow/lite/micro/kernels/$kernels/$name.cc
        [ -e "$file" ] || file=tensorflow/lite/micro/kernels/$name.cc
        echo "$file"
    done
    for name in reshape reshape_common kernel_util; do
        echo "tensorflow/lite/micro/kernels/$name.cc"
    done
    [ "$kernels" = reference ] || for part in BasicMath Convolution FullyConnected NNSupport \
        Pooling Softmax; do
        for file in "$sources/cmsis-nn/Source/${part}Functions"/*.c; do
            case $file in *f16* | *f32* | *flt*) ;; *) echo "$file" ;; esac
        done
    done
}

build() {
    list | while read -r file; do
        object=$work/objects/$(echo "${file#"$sources"/}" | tr / _).o
        [ -e "$object" ] || echo "$file $object"
    done | (cd "$sources/tflm" && xargs -r -n 2 -P "$(nproc)" sh -c '
        case $1 in
            *.c) arm-none-eabi-gcc -O2 '"$processor -w -I$sources/cmsis-nn/Include"' \
                -ffunction-sections -c "$1" -o "$2" ;;
            *) arm-none-eabi-g++ '"$(echo $options)"' -c "$1" -o "$2" ;;
        esac' sh)
    arm-none-eabi-ar rcs "$work/interpreter.a" "$work"/objects/*.o
}

link() { # program objects...
    program=$1
    shift
    memory=$(lines boards | grep "^$board ")
    symbols=
    number=2
    for key in boot flash flash_size ram ram_size; do
        symbols="$symbols -Wl,--defsym=$key=$(field $number "$memory")"
        number=$((number + 1))
    done
    # shellcheck disable=SC2086 # lists of words
    arm-none-eabi-g++ $processor "$@" interpreter.a -nostartfiles -T "$files/cortex_m.ld" $symbols \
        -Wl,--defsym=end=bss_end --specs=nosys.specs -Wl,--gc-sections -o "$program"
}

build
cd "$work"
rm -rf c
"$detent" export "$run" --format c --name model -o c > export.log 2>&1
"$detent" export "$run" --format tflite -o model.tflite >> export.log 2>&1
od -An -v -tx1 model.tflite | sed 's/ \([0-9a-f][0-9a-f]\)/0x\1,/g' > model_bytes.inc
# shellcheck disable=SC2086
arm-none-eabi-g++ $options -I. -c "$files/tflm_model.cc" -o tflm_model.o
for object in tflm_run host_cortex_m; do
    # shellcheck disable=SC2086
    arm-none-eabi-gcc -std=c11 $processor -Wall -Wextra -Werror -Ic -I"$files" -DNAME=model \
        '-DHEADER="model.h"' -DINPUTS=MODEL_INPUTS -DOUTPUTS=MODEL_OUTPUTS -DELEMENT=int8_t \
        -DARENA_BYTES=MODEL_ARENA_BYTES -DTICK="$(field 7 "$(lines boards | grep "^$board ")")" \
        -c "$files/$object.c" -o $object.o
done
# shellcheck disable=SC2086
arm-none-eabi-gcc -std=c99 $processor -Ic -c c/model.c -o model.o
link program tflm_run.o host_cortex_m.o model.o tflm_model.o 2> link.log || {
    cat link.log >&2
    exit 1
}
status=0
run board "$board" counting > run.log || status=1
own=0
for object in tflm_run.o host_cortex_m.o model.o; do
    own=$((own + $(section $object '^[.](text|rodata|data)')))
done
file=$(wc -c < model.tflite)
all=$(section program '^[.](text|data|ARM)')
printf '%-10s %9s %9s %8s %6s %13s %s\n' kernels code model arena stack instructions 'equal codes'
printf '%-10s %9s %9s %8s %6s %13s %s\n' "$kernels" $((all - own - file)) "$file" \
    "$(value arena run.log)" "$(value stack run.log)" "$(value time run.log)" \
    "$(value equal run.log) of $(value of run.log)"
exit $status
