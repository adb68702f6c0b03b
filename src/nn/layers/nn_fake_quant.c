/* Values as int8 codes of one fixed scale and zero point hold them:
 *     y = (clamp(round(x / scale) + zero_point, -128, 127) - zero_point) * scale
 * halves away from zero. dx = dy where nothing was clamped, else 0. So imported models round what
 * their files round between layers; inputs of layers with weights are quantized by prepare. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

#include <detent/device.h>
#include <math.h>

typedef struct fake_quant {
    dt_tensor *scale, *wide; /* in f32, and in f64 */
    dt_tensor *zero_point;
} fake_quant;

static void forward(dt_tape *t, dt_module *m, dt_tensor *const *in, int n_in, dt_tensor **out,
                    int n_out)
{
    const fake_quant *s = dt_module_state(m);
    const bool wide = in[0] != NULL && in[0]->dtype == DT_F64;
    const dt_device_range range = { wide ? s->wide : s->scale, s->zero_point, NULL };
    dt_tensor *y = dt_device_quantize(t, in[0], &range);
    (void)n_in;
    (void)n_out;
    const bool coded = y != NULL && dt_is_coded(y); /* neither in f64 nor of shapes alone */
    out[0] = coded ? dt__then(t, y, dt_device_dequantize(t, y)) : y;
}

static void free_state(dt_module *m)
{
    const fake_quant *s = dt_module_state(m);
    dt_tensor_free(s->scale);
    dt_tensor_free(s->wide);
    dt_tensor_free(s->zero_point);
}

const dt_module_type dt__nn_fake_quant = { .name = "fake_quant",
                                           .forward = forward,
                                           .free_state = free_state };

static dt_status build(dt_module *m, double scale, int64_t zero_point)
{
    fake_quant *s = dt_module_state(m);
    const int64_t one = 1;
    DT__TRY(dt_tensor_create(m->ctx, DT_F32, 1, &one, &s->scale));
    DT__TRY(dt_tensor_create(m->ctx, DT_F64, 1, &one, &s->wide));
    DT__TRY(dt_tensor_create(m->ctx, DT_I8, 1, &one, &s->zero_point));
    *(int8_t *)dt_data_mut(s->zero_point) = (int8_t)zero_point;
    DT__TRY(dt_fill(s->scale, scale));
    return dt_fill(s->wide, (double)(float)scale);
}

dt_status dt_fake_quant_create(dt_ctx *ctx, double scale, int64_t zero_point, dt_module **out)
{
    DT__NEED(NULL, ctx);
    DT__NEED(ctx, out);
    *out = NULL;
    if (!(scale >= 0x1p-126 && scale <= 0x1p120)) {
        return dt_fail(ctx, DT_ERR_ARG,
                       "fake_quant: scale is %g; it must be a positive normal "
                       "number of at most 2^120",
                       scale);
    }
    if (zero_point < -128 || zero_point > 127) {
        return dt_fail(ctx, DT_ERR_ARG, "fake_quant: zero_point is %lld; it must be -128 to 127",
                       (long long)zero_point);
    }
    dt_module *m;
    DT__TRY(dt_module_create(ctx, &dt__nn_fake_quant, sizeof(fake_quant), &m));
    return dt__layer_done(build(m, scale, zero_point), m, out);
}

/* ---- in recipes ----------------------------------------------------------------------------- */

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("fake_quant", dt_fake_quant_layer),
    { "scale", DT_KEY_REAL, offsetof(dt_fake_quant_layer, scale), .least = 0x1p-126,
      .most = 0x1p120, .fallback = "1", .text = "what one step of the codes is" },
    { "zero_point", DT_KEY_INT, offsetof(dt_fake_quant_layer, zero_point), .least = -128,
      .most = 127, .fallback = "0", .text = "the code of 0" },
    { 0 },
};

static dt_status layer_create(dt_ctx *ctx, const void *options, const dt_shape *in, int n_in,
                              dt_module **out)
{
    const dt_fake_quant_layer *o = options;
    (void)in;
    (void)n_in;
    return dt_fake_quant_create(ctx, o->scale, o->zero_point, out);
}

DT__LAYER_TYPE(fake_quant, "values as int8 codes of one scale and zero point hold them",
               dt_fake_quant_layer, layer_keys, 1, 1, .create = layer_create);

/* ---- cases ---------------------------------------------------------------------------------- */

static dt_status make(dt_ctx *ctx, dt_module **out)
{
    return dt_fake_quant_create(ctx, 0.5, -100, out);
}
static dt_status make_fine(dt_ctx *ctx, dt_module **out)
{
    return dt_fake_quant_create(ctx, 0x1p-10, 0, out);
}
static dt_status make_zero(dt_ctx *ctx, dt_module **out)
{
    return dt_fake_quant_create(ctx, 0, 0, out);
}
static dt_status make_far(dt_ctx *ctx, dt_module **out)
{
    return dt_fake_quant_create(ctx, 1, 128, out);
}

static const dt__layer_case cases[] = {
    { "values", make, .in = { { { 5 }, .given = true, .values = { 1, 0.5, -0.5, -20, 200 } } },
      .n_y = 5, .y = { 1, 0.5, -0.5, -14, 113.5 } },
    { "a batch", make_fine, .in = { { { 3, 4 } } } },
    { "a scale of 0", make_zero, .fails = DT_ERR_ARG, .says = "fake_quant: scale is 0" },
    { "a zero point that is no code", make_far, .fails = DT_ERR_ARG, .says = "zero_point is 128" },
};
DT__LAYER_CASES(fake_quant, cases)
