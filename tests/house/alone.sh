#!/bin/sh
# alone.sh SOURCE LIBRARY OBJECT...: a library without src/cluster, whose objects are these, has
# none of their functions, trains, and refuses to be one of several ranks.
set -eu
source=$1 library=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$(dirname "$library")
nm --defined-only "$@" | awk '$2 ~ /[A-Z]/ && $3 != "dt__cluster_open" { print $3 }' | sort -u \
    > "$work/cluster"
nm "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort -u > "$work/has"
[ "$(grep -c . "$work/cluster")" -ge 10 ] || { echo 'src/cluster has hardly a function'; exit 1; }
if comm -12 "$work/cluster" "$work/has" | grep .; then
    echo 'a library without src/cluster has these functions of it'
    exit 1
fi

cat > "$work/run.c" << 'C'
#include <detent/train.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "run: {dir: run}\n"
                           "model: {family: mlp, sizes: [784, 8, 10]}\n"
                           "data: {format: digits, train_count: 64, test_count: 16}\n"
                           "train: {epochs: 1, batch_size: 16, shards: 2}\n";

int main(void)
{
    const dt_recipe_source source = { .path = "r.yaml", .text = text, .bytes = strlen(text) };
    const dt_run_control control = { .cluster = true };
    dt_ctx *ctx;
    dt_recipe *recipe;
    if (dt_ctx_create(&ctx, NULL) != DT_OK) return 1;
    dt_status s = dt_recipe_read(ctx, &source, &recipe);
    if (s == DT_OK) s = dt_run(ctx, recipe, &control, NULL);
    puts(s == DT_OK ? "trained" : dt_error(ctx));
    return s == DT_OK ? 0 : 2;
}
C
"${CC:-cc}" -std=c17 "$work/run.c" -I"$source/include" -L"$folder" -ldetent -o "$work/program"
cd "$work"
export LD_LIBRARY_PATH="$folder"
unset OMPI_COMM_WORLD_SIZE PMI_SIZE SLURM_STEP_NUM_TASKS
./program
status=0
OMPI_COMM_WORLD_SIZE=2 ./program > refused || status=$?
cat refused
[ "$status" -eq 2 ] && grep -q 'built without them (DETENT_CLUSTER)' refused
echo "$(grep -c . cluster) functions of src/cluster are not in $(basename "$library")"
