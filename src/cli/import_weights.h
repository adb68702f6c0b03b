/* Weights of other programs for the network of a recipe, for `import`. */
#ifndef IMPORT_WEIGHTS_H
#define IMPORT_WEIGHTS_H

#include "cli/cli.h"
#include "cli/import_check.h"

typedef struct import_weights {
    const char *from, *to; /* the file of weights, and the model to write; NULL: none is written */
    import_check check;    /* inputs NULL: nothing is compared */
    const char *network;   /* the recipe */
    bool quiet;            /* no line of progress */
    const char *map;       /* NULL: names and layout are the network's */
} import_weights;

/* Imports, prints what was done and writes the model. Returns the exit status, after a message. */
int import_weights_run(const cli_args *args, dt_ctx *ctx, const import_weights *w);

#endif
