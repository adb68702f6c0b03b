/* Comparison of an imported model with another program's results, for `import`. */
#ifndef IMPORT_CHECK_H
#define IMPORT_CHECK_H

#include "cli/cli.h"

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

#endif
