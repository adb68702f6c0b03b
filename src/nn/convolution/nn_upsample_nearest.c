/* Nearest-neighbour upsampling of images [N, C, H, W], or of signals [N, C, L], by an integer
 * factor. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

typedef struct upsample {
    int64_t factor;
} upsample;

DT__FORWARD(forward)
{
    const upsample *s = dt_module_state(m);
    if (x->rank == 3) return dt_upsample_nearest1d(t, x, dt__times_i64(x->dims[2], s->factor));
    const bool is_image = x->rank == 4; /* the op refuses ranks other than 3 and 4 */
    const int64_t height = is_image ? x->dims[2] : 1, width = is_image ? x->dims[3] : 1;
    return dt_upsample_nearest(t, x, dt__times_i64(height, s->factor),
                               dt__times_i64(width, s->factor));
}

const dt_module_type dt__nn_upsample_nearest = { .name = "upsample_nearest", .forward = forward };

dt_status dt_upsample_nearest_create(dt_ctx *ctx, int64_t factor, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
    *out = NULL;
    DT__TRY(dt__want_extent(ctx, "upsample_nearest", "the factor", factor));
    DT__TRY(dt_module_create(ctx, &dt__nn_upsample_nearest, sizeof(upsample), out));
    ((upsample *)dt_module_state(*out))->factor = factor;
    return DT_OK;
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("upsample_nearest", dt_upsample_layer),
    { "factor", DT_KEY_INT, offsetof(dt_upsample_layer, factor), .least = 1, .most = 1 << 10,
      .fallback = "2", .text = "how often each pixel is repeated along each dimension" },
    { 0 },
};

DT__LAYER_CREATE(dt_upsample_layer, dt_upsample_nearest_create(ctx, o->factor, out))

DT__LAYER_TYPE(upsample_nearest, "images or signals enlarged by repeating pixels",
               dt_upsample_layer, layer_keys, 1, 1, .create = layer_create);

DT__MAKE(make, dt_upsample_nearest_create(ctx, 2, out))
DT__MAKE(make_none, dt_upsample_nearest_create(ctx, 0, out))

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 1, 1, 1, 2 }, .given = true, .values = { 1, 2 } } }, .n_y = 8,
      .y = { 1, 1, 2, 2, 1, 1, 2, 2 } },
    { "several images", make, .in = { { { 2, 3, 2, 3 } } } },
    { "a signal", make, .in = { { { 1, 2, 2 }, .given = true, .values = { 1, 2, 3, 4 } } },
      .n_y = 8, .y = { 1, 1, 2, 2, 3, 3, 4, 4 } },
    { "no factor", make_none, .fails = DT_ERR_ARG, .says = "upsample_nearest: the factor" },
    { "no image", make, .in = { { { 3, 2 } } }, .fails = DT_ERR_SHAPE, .says = "upsample" },
};
DT__LAYER_CASES(upsample_nearest, cases)
