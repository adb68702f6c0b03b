/* A range of a dimension. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    (void)n_in;
    (void)n_out;
    out[0] = dt_slice(t, in[0], dt_module_state(m));
}

const dt_module_type dt__nn_slice = { .name = "slice", .forward = forward };

dt_status dt_slice_create(dt_ctx *ctx, const dt_slice_options *options, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, options);
    DT__NEED(ctx, out);
    DT__TRY(dt_module_create(ctx, &dt__nn_slice, sizeof *options, out));
    *(dt_slice_options *)dt_module_state(*out) = *options;
    return DT_OK;
}

/* ---- in recipes ----------------------------------------------------------------------------- */

#define AT(field) .offset = offsetof(dt_slice_layer, field)

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("slice", dt_slice_layer),
    { "dim", DT_KEY_INT, AT(dim), .least = -DT_MAX_RANK, .most = DT_MAX_RANK - 1, .fallback = "1",
      .text = "dimension; 0 is the batch, 1 the channels, -1 the last" },
    { "start", DT_KEY_INT, AT(start), .fallback = "0",
      .text = "first index; below 0: counted from the end" },
    { "stop", DT_KEY_INT, AT(stop), .fallback = "0",
      .text = "index behind the last; below 0: counted from the end; 0: up to the end" },
    { "step", DT_KEY_INT, AT(step), .least = 1, .most = DT_NO_LIMIT, .fallback = "1",
      .text = "distance of the indices" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    const dt_slice_layer *o = options;
    const dt_slice_options slice = {
        .dims = { 1, { o->dim } },
        .starts = { 1, { o->start } },
        .stops = { 1, { o->stop == 0 ? INT64_MAX : o->stop } },
        .steps = { 1, { o->step } },
    };
    (void)in;
    (void)n_in;
    return dt_slice_create(ctx, &slice, out);
}

DT__LAYER_TYPE(slice, "a range of a dimension", dt_slice_layer, layer_keys, 1, 1,
               .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    const dt_slice_options o = {
        .dims = { 1, { 1 } }, .starts = { 1, { 1 } }, .stops = { 1, { 4 } }, .steps = { 1, { 2 } }
    };
    return dt_slice_create(ctx, &o, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 5 }, .given = true, .values = { 1, 2, 3, 4, 5 } } }, .n_y = 2,
      .y = { 2, 4 } },
    { "a batch", make, .in = { { { 2, 4, 3 } } } },
    { "no such dimension", make, .in = { { { 4 } } }, .fails = DT_ERR_ARG, .says = "slice" },
};
DT__LAYER_CASES(slice, cases)
