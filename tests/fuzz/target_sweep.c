/* The description of a sweep over a small recipe. */
#include "fuzz.h"

#include <detent/experimental/sweep.h>

#include <string.h>

static const char recipe[] = "run: {dir: r}\nmodel: {family: mlp, sizes: [784, 8, 10]}\n"
                             "data: {format: digits, train_count: 16, test_count: 4}\n"
                             "qat: {start_step: 4}\n";

static void run(const uint8_t *data, size_t n)
{
    dt_ctx *ctx = fuzz_ctx(DT_CPU_PLAIN);
    dt_sweep *sweep = NULL;
    const dt_sweep_source source = { .recipe = { .path = "r.yaml",
                                                 .text = recipe,
                                                 .bytes = sizeof recipe - 1,
                                                 .leave_files = true },
                                     .path = "s.yaml",
                                     .text = (const char *)data,
                                     .bytes = n };
    const dt_status s = dt_sweep_read(ctx, &source, &sweep);
    if (s == DT_OK) {
        for (int i = 0; i < dt_sweep_key_count(sweep); i++) {
            fuzz_touch(dt_sweep_key_at(sweep, i), strlen(dt_sweep_key_at(sweep, i)));
        }
        for (int64_t i = 0; i < dt_sweep_row_count(sweep); i++) {
            const dt_sweep_row *row = dt_sweep_row_at(sweep, i);
            for (int k = 0; k < dt_sweep_key_count(sweep); k++) {
                fuzz_touch(row->value[k], strlen(row->value[k]));
            }
        }
    } else {
        fuzz_refused(ctx, sweep != NULL && s != DT_ERR_CONFIG);
        FUZZ_HOLDS(sweep == NULL || dt_sweep_error_count(sweep) > 0, "no error in the list");
    }
    dt_sweep_free(sweep);
    fuzz_end(ctx);
}

static void seeds(const fuzz_seeds *s)
{
    fuzz_seed_text(s, "grid", "keys: {train.optimizer.lr: [1e-3, 4e-3], run.seed: [1, 2, 3]}\n");
    fuzz_seed_text(s, "random",
                   "method: random\nruns: 3\nseed: 4\nkeys:\n"
                   "  train.optimizer.lr: {from: 1e-4, to: 1e-2, scale: log}\n"
                   "  qat.preset: [int8-dynamic-int4-weight, int4-weight]\n");
    fuzz_seed_text(s, "halving",
                   "method: halving\nruns: 4\nrungs: 2\nreduce: 2\nmetric: loss\n"
                   "keys: {train.batch_size: {from: 8, to: 32}}\n");
    fuzz_seed_text(s, "one", "keys: {run.seed: [1]}\n");
}

const fuzz_target fuzz_target_sweep = { "sweep", "the description of a sweep", run, seeds };
