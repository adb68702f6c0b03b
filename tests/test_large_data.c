/* Data larger than memory: a shard reads only its own examples, mapped arrays use no memory, and
 * where data do not fit the message says what to do. */
#include "data/dataset.h"
#include "ranks.h"
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what a shard reads ---------------------------------------------------------------------- */

enum { EXAMPLES = 50, BATCH = 12, SHARDS = 4 };

/* Which examples were filled, and expected. */
static bool filled[EXAMPLES], expected[EXAMPLES];
static const dt__data_kind *arrays;

static void note(const dt__batch *b, bool *of)
{
    for (int64_t i = 0; i < b->n; i++) of[dt__batch_example(b, i)] = true;
}

static void fill(const dt__batch *b)
{
    note(b, filled);
    arrays->fill(b);
}

static void expect(const dt__batch *b) { note(b, expected); }

/* A dataset whose example i is the number i, and which records what is read. */
static dt_dataset *make_noted(dt_ctx *ctx, dt__data_kind *noted)
{
    static float x[EXAMPLES];
    static int32_t y[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) x[i] = (float)i;
    const dt_arrays all = { .count = EXAMPLES,
                            .rank = 1,
                            .dims = { 1 },
                            .x_dtype = DT_ARRAY_F32,
                            .x = x,
                            .y_dtype = DT_ARRAY_I32,
                            .y = y };
    dt_dataset *d;
    TEST_OK(ctx, dt_dataset_from_arrays(ctx, &all, &d));
    arrays = d->kind;
    *noted = *arrays;
    noted->fill = fill;
    noted->expect = expect;
    d->kind = noted;
    return d;
}

/* All batches of an epoch by shards: each announces only its own examples, which are those of the
 * batch in order. */
START_TEST(a_shard_reads_its_examples_alone)
{
    dt_ctx *ctx = sample_context(1);
    dt__data_kind noted;
    dt_dataset *d = make_noted(ctx, &noted);
    const dt_loader_options o = { .batch_size = BATCH, .shuffle = true, .seed = 5 };
    dt_loader *whole, *part;
    dt_tensor *x, *target, *y;
    TEST_OK(ctx, dt_loader_create(d, &o, &whole));
    TEST_OK(ctx, dt_loader_create(d, &o, &part));
    memset(expected, 0, sizeof expected);
    for (int64_t i = 0; i < dt_loader_batches(whole); i++) {
        bool before[EXAMPLES];
        memcpy(before, expected, sizeof before);
        TEST_OK(ctx, dt_loader_next(whole, &y, &target));
        const float *in_order = dt_data(y);
        memset(filled, 0, sizeof filled);
        memset(expected, 0, sizeof expected);
        TEST_OK(ctx, dt_loader_seek(part, (dt_position){ .batch = i }));
        TEST_OK(ctx, dt__loader_next_shard(part, _i, SHARDS, &x, &target));
        const int64_t n = dt_dim(y, 0), first = dt__ceil_div(_i * n, SHARDS);
        const int64_t own = dt__ceil_div((_i + 1) * n, SHARDS) - first;
        int64_t read = 0;
        for (int k = 0; k < EXAMPLES; k++) read += filled[k];
        ck_assert_int_eq(read, own);
        for (int64_t k = 0; k < own; k++) {
            const float value = ((const float *)dt_data(x))[k];
            ck_assert(value == in_order[first + k]);
            ck_assert(filled[(int)value]);
        }
        for (int k = 0; k < EXAMPLES && i > 0; k++) ck_assert(before[k] == filled[k]);
    }
    dt_loader_free(whole);
    dt_loader_free(part);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* A rank that reads every second batch announces only those. */
START_TEST(a_rank_is_told_of_its_next_batch)
{
    dt_ctx *ctx = sample_context(1);
    dt__data_kind noted;
    dt_dataset *d = make_noted(ctx, &noted);
    const dt_loader_options o = { .batch_size = BATCH };
    dt_loader *l;
    dt_tensor *x, *target;
    TEST_OK(ctx, dt_loader_create(d, &o, &l));
    dt__loader_apart(l, 2);
    for (int64_t i = 0; i < dt_loader_batches(l); i += 2) {
        memset(expected, 0, sizeof expected);
        TEST_OK(ctx, dt_loader_seek(l, (dt_position){ .batch = i }));
        TEST_OK(ctx, dt_loader_next(l, &x, &target));
        for (int64_t k = 0; k < EXAMPLES; k++) {
            ck_assert_int_eq(expected[k], k / BATCH == i + 2);
        }
    }
    dt_loader_free(l);
    dt_dataset_free(d);
    dt_ctx_free(ctx);
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

#ifndef TEST_SANITIZED
/* Megabytes of data, and what a process may allocate; MPI and threads' stacks count. */
static int64_t megabytes(void) { return test_all() ? 3000 : 300; }
#define MOST 280

/* Writes x.npy, f32 [n, 4096], most of it a hole, and labels. */
static void write_arrays(const char *folder)
{
    const int64_t n = megabytes() * 1000000 / (4096 * 4);
    char *said;
    const int status = test_shell(
        &said,
        "cd %s && begin() { printf '\\223NUMPY\\001\\000\\166\\000%%-117s\\n' \"$1\"; } && "
        "begin \"{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, 4096), }\" >x.npy && "
        "truncate -s $((128 + %lld * 16384)) x.npy && "
        "begin \"{'descr': '|u1', 'fortran_order': False, 'shape': (%lld,), }\" >y.npy && "
        "yes ab | tr -d '\\n' | tr ab '\\000\\001' | head -c %lld >>y.npy 2>&1",
        folder, (long long)n, (long long)n, (long long)n, (long long)n);
    ck_assert_msg(status == 0, "%s", said);
    free(said);
}
#endif

START_TEST(mapped_arrays_need_no_memory)
{
#ifdef TEST_SANITIZED
    test_skip("a sanitizer's memory is not the program's");
#else
    static const char recipe[] =
        "run: {dir: run, threads: 1, report: false}\n"
        "model: {family: mlp, sizes: [4096, 8, 2]}\n"
        "data: {format: tensors, dir: ., train: {x: x.npy, y: y.npy}}\n"
        "train: {steps: 6, batch_size: 64, shards: 2, eval_batch_size: 64}\n"
        "qat: {start_step: 3}\n";
    char folder[TEST_PATH], path[TEST_PATH], *said;
    const launcher *found[LAUNCHERS];
    test_folder(folder);
    test_join(path, folder, "r.yaml");
    test_write_text(path, recipe);
    write_arrays(folder);
    const int status = test_shell(
        &said, "cd %s && ulimit -d %d && " RANKS_PROGRAM " train r.yaml run.dir=alone 2>&1", folder,
        MOST * 1000);
    ck_assert_msg(status == 0, "status %d: %s", status, said);
    free(said);
    if (ranks_launchers(found) == 0) return;
    const int of_ranks = test_shell(&said,
                                    "cd %s && ulimit -d %d && %s -n 2 " RANKS_PROGRAM
                                    " train r.yaml run.dir=two 2>&1 && cmp alone/model.safetensors "
                                    "two/model.safetensors",
                                    folder, MOST * 1000, found[0]->command);
    ck_assert_msg(of_ranks == 0, "status %d: %s", of_ranks, said);
    free(said);
#endif
}
END_TEST

START_TEST(too_large_a_text_says_what_to_do)
{
#ifdef TEST_SANITIZED
    test_skip("a sanitizer's memory is not the program's");
#else
    char folder[TEST_PATH], *said;
    test_folder(folder);
    const int status =
        test_shell(&said,
                   "cd %s && truncate -s 200M text && ulimit -d 100000 && " RANKS_PROGRAM
                   " train " RANKS_RECIPES "shakespeare-char-gpt.yaml run.dir=run data.dir=. "
                   "data.train=[text] data.tokenizer=bytes model.vocab=256 2>&1",
                   folder);
    ck_assert_msg(status == 1, "status %d: %s", status, said);
    ck_assert_msg(strstr(said, "do not fit into memory; 'detent tokenize' writes ids") != NULL,
                  "%s", said);
    free(said);
#endif
}
END_TEST

Suite *test_large_data_suite(void)
{
    Suite *s = suite_create("large_data");
    TCase *c = tcase_create("shards");
    tcase_add_loop_test(c, a_shard_reads_its_examples_alone, 0, SHARDS);
    tcase_add_test(c, a_rank_is_told_of_its_next_batch);
    suite_add_tcase(s, c);
    c = tcase_create("memory");
    tcase_set_timeout(c, 600);
    tcase_add_test(c, mapped_arrays_need_no_memory);
    tcase_add_test(c, too_large_a_text_says_what_to_do);
    suite_add_tcase(s, c);
    return s;
}
