/* The common part of the layers batch_norm1d and batch_norm2d: everything but the op. */
#ifndef DT__NN_BATCH_NORM_LAYERS_H
#define DT__NN_BATCH_NORM_LAYERS_H

#include "nn/module.h"

#include <detent/ops.h>

typedef dt_tensor *dt__batch_norm_op(dt_tape *t, dt_tensor *x,
                                     const dt_batch_norm_operands *operands,
                                     const dt_batch_norm_options *options);

typedef struct dt__batch_norm_layer {
    dt__batch_norm_op *op;
    double momentum, eps;
} dt__batch_norm_layer;

bool dt__is_batch_norm(const dt_module *m);
/* dt_module_type.fusion and .forward of both types. If the norm is folded into the convolution
 * before it, it divides its input by the fold's factor while it uses batch statistics; with running
 * statistics it returns its input. */
extern const dt_fusion dt__batch_norm_fusion;
void dt__batch_norm_run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                        int n_out);
dt_status dt__batch_norm_create(dt_ctx *ctx, const dt_module_type *type, int64_t channels,
                                const dt__batch_norm_layer *layer, dt_module **out);

#endif
