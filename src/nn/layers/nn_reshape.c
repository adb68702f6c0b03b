/* The elements of each example in another shape. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct reshape {
    dt_ints dims;
} reshape;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const dt_ints *dims = &((const reshape *)dt_module_state(m))->dims;
    int64_t whole[DT_MAX_RANK] = { in[0]->rank > 0 ? in[0]->dims[0] : 1 };
    (void)n_in;
    (void)n_out;
    for (int i = 0; i < dims->n; i++) whole[1 + i] = dims->v[i];
    out[0] = dt_reshape(t, in[0], 1 + dims->n, whole);
}

const dt_module_type dt__nn_reshape = { .name = "reshape", .forward = forward };

dt_status dt_reshape_create(dt_ctx *ctx, const dt_ints *dims, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, dims);
    DT__NEED(ctx, out);
    *out = NULL;
    if (dims->n >= DT_MAX_RANK) {
        return dt_fail(ctx, DT_ERR_ARG, "reshape: %d extents; at most %d fit beside the batch",
                       dims->n, DT_MAX_RANK - 1);
    }
    DT__TRY(dt_module_create(ctx, &dt__nn_reshape, sizeof(reshape), out));
    ((reshape *)dt_module_state(*out))->dims = *dims;
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("reshape", dt_dims_layer),
    { "shape", DT_KEY_INTS, offsetof(dt_dims_layer, dims), .least = -1, .most = 1 << 30,
      .fallback = "!", .text = "of one example; one extent may be -1 and is inferred" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_reshape_create(ctx, &((const dt_dims_layer *)options)->dims, out);
}

DT__LAYER_TYPE(reshape, "the elements of each example in another shape", dt_dims_layer, layer_keys,
               1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    return dt_reshape_create(ctx, &(dt_ints){ 2, { -1, 2 } }, out);
}

static dt_status make_long(dt_ctx *ctx, dt_module **out)
{
    return dt_reshape_create(ctx, &(dt_ints){ DT_MAX_RANK, { 1, 1, 1, 1, 1, 1, 1, 1 } }, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 4 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 4,
      .y = { 1, 2, 3, 4 } },
    { "a batch", make, .in = { { { 3, 2, 4 } } } },
    { "an odd number", make, .in = { { { 2, 3 } } }, .fails = DT_ERR_SHAPE, .says = "reshape" },
    { "too many dimensions", make_long, .fails = DT_ERR_ARG, .says = "reshape: 8 extents" },
};
DT__LAYER_CASES(reshape, cases)
