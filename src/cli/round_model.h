/* Post-training quantization of a model, for `quantize` and `convert`. */
#ifndef CLI_ROUND_MODEL_H
#define CLI_ROUND_MODEL_H

#include "cli/print/rounded.h"

typedef struct round_model {
    const char *model;
    bool converts; /* by the recipe's `convert`; else by its `quantize` */
    rounded_view view;
} round_model;

/* Rounds the model and prints the report. SIGINT and SIGTERM save the partial result and stop.
 * Returns the exit status. */
int round_model_run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, const round_model *r);

#endif
