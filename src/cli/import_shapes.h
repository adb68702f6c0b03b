/* The option --shape of detent import. */
#ifndef IMPORT_SHAPES_H
#define IMPORT_SHAPES_H

#include "cli/cli.h"

#include <detent/experimental/io.h>

#define CLI_MOST_SHAPES DT_MAX_IN

typedef struct import_shapes {
    char *text; /* malloc'ed; has the names */
    dt_onnx_shape shape[CLI_MOST_SHAPES];
    int n;
} import_shapes;

/* Reads "NAME:1x3x48x320,OTHER:1x4"; without "NAME:" of a model with one input, "?" for a dimension
 * that stays open. A usage error, if it is none. The caller frees `text` in any case. */
int import_shapes_read(const cli_args *args, const char *option, import_shapes *out);

#endif
