/* The shape of a layer's result: runs its forward on a tape where ops check operands and make
 * results but compute nothing. So layers do not define their shapes a second time. */
#include "nn/lists/layers_build.h"

#include "core/tensor.h"

#define BATCH 2 /* the result must have this extent too */

static dt_status make_inputs(dt_ctx *ctx, const dt_shape *in, int n_in, dt_tensor **x)
{
    for (int i = 0; i < n_in; i++) {
        int64_t dims[DT_MAX_RANK] = { BATCH };
        for (int k = 0; k < in[i].rank; k++) dims[1 + k] = in[i].dims[k];
        DT__TRY(dt__tensor_create_shape(ctx, DT_F32, 1 + in[i].rank, dims, &x[i]));
    }
    return DT_OK;
}

static dt_status take_shape(dt_ctx *ctx, const dt_tensor *y, dt_shape *out)
{
    char text[160];
    if (y->rank < 1 || y->dims[0] != BATCH) {
        return dt_fail(ctx, DT_ERR_SHAPE,
                       "the result loses the batch dimension: %s for a batch of %d",
                       dt__dims_text(y->rank, y->dims, text, sizeof text), BATCH);
    }
    *out = (dt_shape){ .rank = y->rank - 1 };
    for (int k = 0; k < out->rank; k++) out->dims[k] = y->dims[1 + k];
    return DT_OK;
}

dt_status dt__layer_shape(dt_tape *t, dt_module *m, const dt_shape *in, int n_in, dt_shape *out)
{
    dt_tensor *x[DT_MAX_IN] = { NULL }, *y = NULL;
    dt_status s = make_inputs(m->ctx, in, n_in, x);
    if (s == DT_OK) {
        dt_train(m, false); /* evaluation draws no random numbers and changes no statistics */
        s = dt_forward_n(t, m, x, n_in, &y, 1);
        if (s == DT_OK) s = take_shape(m->ctx, y, out);
        dt_train(m, true);
    }
    dt_tape_reset(t);
    for (int i = 0; i < n_in; i++) dt_tensor_free(x[i]);
    return s;
}
