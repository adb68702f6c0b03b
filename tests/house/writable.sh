#!/bin/sh
# writable.sh LIBRARY...: no object of the static libraries has writable data. Constants that hold
# addresses (.data.rel.ro) are made read-only by the loader and may stay. So may one pointer a
# thread, in core/threads.c: the team of its loops; and the functions of libraries that are loaded
# once in a process. Of the benchmark: the kernels that are timed (account.c), which have no
# argument that could say for whom.
set -eu
objdump -h "$@" | awk '
/file format/ { object = $1; sub(/:$/, "", object); objects++ }
object == "threads.c.o" && $2 ~ /^\.tbss/ && $3 ~ /^0*8$/ { next }
object == "account.c.o" && $2 ~ /^\.bss/ { next }
object ~ /^(onednn|blas|sound|sqlite|zstd)_library.c.o$/ && $2 ~ /^\.bss/ { next }
$2 ~ /^\.(data|bss|tdata|tbss)/ && $2 !~ /^\.data\.rel\.ro/ && $3 !~ /^0+$/ {
    printf "%s: section %s has 0x%s bytes\n", object, $2, $3
    failed++
}
END {
    printf "%d objects, %d writable sections\n", objects, failed
    exit failed > 0 || objects == 0
}'
