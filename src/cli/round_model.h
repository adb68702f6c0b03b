/* A trained model to integers without training: of quantize and of convert. */
#ifndef CLI_ROUND_MODEL_H
#define CLI_ROUND_MODEL_H

#include "rounded.h"

typedef struct round_model {
    const char *model;
    bool converts; /* by the recipe's `convert`, not by `quantize` */
    rounded_view view;
} round_model;

/* Rounds and prints the report. SIGINT and SIGTERM keep what is done and stop. The exit status,
 * after a message. */
int round_model_run(const cli_args *args, dt_ctx *ctx, dt_recipe *recipe, const round_model *r);

#endif
