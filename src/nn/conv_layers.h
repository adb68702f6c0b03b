/* The common part of the four convolution layers: everything but the op. */
#ifndef DT__NN_CONV_LAYERS_H
#define DT__NN_CONV_LAYERS_H

#include "nn/module.h"

#include <detent/ops.h>

typedef dt_tensor *dt__conv_op(dt_tape *t, dt_tensor *x, dt_tensor *weight, dt_tensor *bias,
                               const dt_conv_options *options);

typedef struct dt__conv_kind {
    const dt_module_type *type;
    dt__conv_op *op;
    int axes; /* spatial dimensions: 2 or 1 */
    bool transposed;
} dt__conv_kind;

/* The state of such a layer. */
typedef struct dt__conv_state {
    const dt__conv_kind *kind;
    dt_conv_layer layer;
} dt__conv_state;

/* The state of m; NULL if m is no convolution. */
const dt__conv_state *dt__conv_state_of(const dt_module *m);

/* dt_module_type.transposed_groups of the transposed types. */
int64_t dt__conv_groups(const dt_module *m);
/* dt_module_type.forward of all four. */
void dt__conv_run(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                  int n_out);
dt_status dt__conv_create(dt_ctx *ctx, const dt__conv_kind *kind, const dt_conv_layer *layer,
                          dt_module **out);

#endif
