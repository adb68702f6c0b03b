/* Parts of `detent import`. */
#ifndef CLI_IMPORT_PARTS_H
#define CLI_IMPORT_PARTS_H

#include "cli/cli.h"

#include <detent/experimental/io.h>

/* ---- the option --shape (import_shapes.c) ---------------------------------------------------- */

#define CLI_MOST_SHAPES DT_MAX_IN

typedef struct import_shapes {
    char *text; /* malloc'ed memory of the names */
    dt_onnx_shape shape[CLI_MOST_SHAPES];
    int n;
} import_shapes;

/* Reads "NAME:1x3x48x320,OTHER:1x4". A model with one input needs no "NAME:"; "?" is a dimension
 * that stays open. Anything else is a usage error. The caller frees `text` in any case. */
int import_shapes_read(const cli_args *args, const char *option, import_shapes *out);

/* ---- comparison with another program's results (import_check.c) ------------------------------ */

enum { IMPORT_ONNX, IMPORT_TFLITE, IMPORT_WEIGHTS };

typedef struct import_check {
    /* expected NULL: `inputs` has the expected results, too */
    const char *from, *inputs, *expected;
    int kind;                       /* the kind of file that was imported */
    const char *tolerance;          /* the option's value; NULL: the default */
    const dt_onnx_options *options; /* of an ONNX file */
} import_check;

/* Prints how far each output, and each value inside the network for which the file has an expected
 * result, is from the expected one. Returns CLI_FAILED if an output is too far, else CLI_DONE; or
 * the status after a message. */
int import_check_run(const cli_args *args, dt_ctx *ctx, const import_check *c, dt_module *m);

/* ---- weights of other programs for the network of a recipe (import_weights.c) ---------------- */

typedef struct import_weights {
    const char *from, *to; /* the file of weights, and the model to write; to NULL: none */
    import_check check;    /* inputs NULL: nothing is compared */
    const char *network;   /* the recipe */
    bool quiet;            /* prints no progress */
    const char *map;       /* NULL: names and layout are the network's */
} import_weights;

/* Imports, prints what was done and writes the model. Returns the exit status. */
int import_weights_run(const cli_args *args, dt_ctx *ctx, const import_weights *w);

#endif
