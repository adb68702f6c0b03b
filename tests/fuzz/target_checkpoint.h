/* The run that target checkpoint resumes. */
#ifndef FUZZ_TARGET_CHECKPOINT_H
#define FUZZ_TARGET_CHECKPOINT_H

#include "fuzz.h"

#include <detent/experimental/io.h>

typedef struct fuzz_run_state {
    dt_module *m;
    dt_optimizer *optimizer;
    dt_dataset *d;
    dt_loader *loader;
    dt_named_count count;
    dt_named_value value;
    dt_training_state state;
} fuzz_run_state;

/* An mlp with AdamW and a loader of digits, as if a run had begun. */
void fuzz_run_open(dt_ctx *ctx, fuzz_run_state *r);
void fuzz_run_close(fuzz_run_state *r);

#endif
