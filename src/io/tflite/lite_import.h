/* A TFLite model as layers of family `layers`: tensors of the file are results of layers. Images
 * are [N, height, width, channels] in the file and [N, channels, height, width] here, so that a
 * tensor remembers which dimension of its layer's result each of its own is. */
#ifndef DT__IO_LITE_IMPORT_H
#define DT__IO_LITE_IMPORT_H

#include "io/onnx/onnx.h"
#include "io/tflite/lite_graph.h"

typedef struct dt__lite_place {
    dt__onnx_layer *layer;  /* NULL: nothing computes it, or it is refused */
    dt__onnx_layer *source; /* the layer whose result an activation behind it clamps */
    int axis[4];            /* dimension i of the tensor is axis[i] of the result */
    int64_t flat[3]; /* of rows of pixels, [height, width, channels]: in the result channels come
                      * first; {0}: as they are */
} dt__lite_place;

typedef struct dt__lite_import {
    dt__onnx *g;
    dt__vlite *v;
    dt__lite_place *place; /* of each tensor */
    int64_t moved;         /* biases that no float has */
} dt__lite_import;

/* Opens a file for reading alone, and calls `work`; what `work` puts into f->blocks is freed. */
typedef dt_status dt__lite_work(void *user, dt__vlite *v, dt__onnx_file *f);
dt_status dt__lite_open_with(dt_ctx *ctx, const char *path, dt__lite_work *work, void *user);
/* Makes constants of what DEQUANTIZE makes of constants (lite_fold.c). NOMEM. */
dt_status dt__lite_fold(dt__vlite *v);
/* Makes the layers of all operators. Errors: UNSUPPORTED, of the first that is not read; NOMEM. */
dt_status dt__lite_read_ops(dt__lite_import *m);
/* Prepares a model of int8 for devices, with the file's scales (lite_codes.c). Errors: UNSUPPORTED
 * (a tensor whose scale it cannot have), those of dt_prepare. */
dt_status dt__lite_prepare(dt__lite_import *m, dt_module *model);

#endif
