/* The table of a model's layers. */
#ifndef CLI_LAYER_TABLE_H
#define CLI_LAYER_TABLE_H

#include "cli/cli.h"

/* Prints layer, output shape, parameters, multiply-adds, bits a parameter and bytes, or the same as
 * a JSON list. Families whose shapes are not known have no table: prints nothing (JSON: null). */
dt_status cli_print_layers(dt_module *m, const dt_family *family, const void *options, bool json);
/* The same for the model of a recipe, prepared as its `qat` says. */
dt_status cli_print_recipe_layers(dt_ctx *ctx, dt_recipe *recipe, bool json);

#endif
