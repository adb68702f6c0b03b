/* Parts of `detent import`. */
#ifndef CLI_IMPORT_PARTS_H
#define CLI_IMPORT_PARTS_H

#include "cli/cli.h"

#include <detent/experimental/io.h>

/* ---- the option --shape (import_shapes.c) ---------------------------------------------------- */

#define CLI_MOST_SHAPES DT_MAX_IN

typedef struct import_shapes {
    char *text; /* malloc'ed; has the names */
    dt_onnx_shape shape[CLI_MOST_SHAPES];
    int n;
} import_shapes;

/* Reads "NAME:1x3x48x320,OTHER:1x4"; without "NAME:" of a model with one input, "?" for a dimension
 * that stays open. A usage error, if it is none. The caller frees `text` in any case. */
int import_shapes_read(const cli_args *args, const char *option, import_shapes *out);

/* ---- comparison with another program's results (import_check.c) ------------------------------ */

enum { IMPORT_ONNX, IMPORT_TFLITE, IMPORT_WEIGHTS };

typedef struct import_check {
    const char *from, *inputs, *expected; /* expected NULL: in the file of inputs */
    int kind;                             /* what was imported */
    const char *tolerance;                /* the option's value; NULL: its default */
    const dt_onnx_options *options;       /* of an ONNX file */
} import_check;

/* Prints how far each output is from the expected one, and each value inside that the file of
 * expected results has. CLI_FAILED if an output is too far; else CLI_DONE, or the status after a
 * message. */
int import_check_run(const cli_args *args, dt_ctx *ctx, const import_check *c, dt_module *m);

/* ---- weights of other programs for the network of a recipe (import_weights.c) ---------------- */

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
