/* Dimensions in another order. The batch stays the first. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct permute {
    dt_ints dims;
} permute;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const dt_ints *dims = &((const permute *)dt_module_state(m))->dims;
    (void)n_in;
    (void)n_out;
    if (dims->n == in[0]->rank) {
        out[0] = dt_permute(t, in[0], dims->v);
        return;
    }
    dt_tape_fail(t, DT_ERR_SHAPE, "permute: %d dimensions in the order, but x has %d", dims->n,
                 in[0]->rank);
}

const dt_module_type dt__nn_permute = { .name = "permute", .forward = forward };

dt_status dt_permute_create(dt_ctx *ctx, const dt_ints *dims, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, dims);
    DT__NEED(ctx, out);
    *out = NULL;
    if (dims->n < 1 || dims->n > DT_MAX_RANK || dims->v[0] != 0) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "permute: an order of 1 to %d dimensions that begins with "
                       "0, the batch, must be given",
                       DT_MAX_RANK);
    }
    DT__TRY(dt_module_create(ctx, &dt__nn_permute, sizeof(permute), out));
    ((permute *)dt_module_state(*out))->dims = *dims;
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("permute", dt_dims_layer),
    { "dims", DT_KEY_INTS, offsetof(dt_dims_layer, dims), .least = 0, .most = DT_MAX_RANK - 1,
      .fallback = "!", .text = "the order, beginning with 0, the batch: [0, 2, 1]" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    (void)in;
    (void)n_in;
    return dt_permute_create(ctx, &((const dt_dims_layer *)options)->dims, out);
}

DT__LAYER_TYPE(permute, "dimensions in another order", dt_dims_layer, layer_keys, 1, 1,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    return dt_permute_create(ctx, &(dt_ints){ 3, { 0, 2, 1 } }, out);
}

static dt_status make_mixed(dt_ctx *ctx, dt_module **out)
{
    return dt_permute_create(ctx, &(dt_ints){ 2, { 1, 0 } }, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } }, .n_y = 4,
      .y = { 1, 3, 2, 4 } },
    { "a batch", make, .in = { { { 3, 2, 4 } } } },
    { "another rank", make, .in = { { { 2, 3 } } }, .fails = DT_ERR_SHAPE, .says = "permute: 3" },
    { "the batch moved", make_mixed, .fails = DT_ERR_ARG, .says = "the batch" },
};
DT__LAYER_CASES(permute, cases)
