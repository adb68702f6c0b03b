/* A TFLite model as layers of family `layers`: tensors of the file are results of layers. Images
 * are [N, height, width, channels] in the file and [N, channels, height, width] here, so each
 * tensor has a map from its dimensions to those of its layer's result. */
#ifndef DT__IO_LITE_IMPORT_H
#define DT__IO_LITE_IMPORT_H

#include "io/onnx/onnx.h"
#include "io/tflite/lite_graph.h"

typedef struct dt__lite_place {
    dt__onnx_layer *layer;  /* NULL: not computed, or refused */
    dt__onnx_layer *source; /* the layer whose result a following activation clamps */
    int axis[4];            /* dimension i of the tensor is axis[i] of the result */
    /* of flattened images, [height, width, channels]: the layer's result has channels first; {0}:
     * same order */
    int64_t flat[3];
    /* between SPACE_TO_BATCH_ND and its inverse: the block extents, as the file has the blocks in
     * the batch; else 0 */
    int64_t block[2];
} dt__lite_place;

typedef struct dt__lite_import {
    dt__onnx *g;
    dt__vlite *v;
    dt__lite_place *place; /* for each tensor */
    int64_t moved;         /* number of biases that no float can represent exactly */
} dt__lite_import;

/* Opens a file for import only, and calls `work`; memory in f->blocks is freed afterwards. */
typedef dt_status dt__lite_work(void *user, dt__vlite *v, dt__onnx_file *f);
dt_status dt__lite_open_with(dt_ctx *ctx, const char *path, dt__lite_work *work, void *user);
/* Makes the results of DEQUANTIZE of constants constant (lite_fold.c). NOMEM. */
dt_status dt__lite_fold(dt__vlite *v);
/* Makes the layers of all operators. Errors: UNSUPPORTED, for the first unsupported operator;
 * NOMEM. */
dt_status dt__lite_read_ops(dt__lite_import *m);
/* Prepares an int8 model for devices, with the file's scales (lite_codes.c). Errors: UNSUPPORTED (a
 * scale that the model cannot have), those of dt_prepare. */
dt_status dt__lite_prepare(dt__lite_import *m, dt_module *model);

#endif
