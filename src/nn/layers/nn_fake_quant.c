/* Rounds values to int8 codes of one fixed scale and zero point, and back:
 *     v = clamp(x / scale, -128 - z, 127 - z)      y = ((v + 1.5 2^23) - 1.5 2^23) * scale
 * The sum rounds v to the nearest integer, halves to even. In f64 nothing is rounded. Gradients are
 * those of the ops: dx = dy where nothing was clamped, else 0. Imported models use this layer where
 * their files quantize between layers; inputs of layers with weights are quantized by
 * dt_prepare. */
#include "nn/lists/layer_cases.h"
#include "nn/lists/layer_type.h"
#include "nn/module.h"

#define ROUNDS 0x1.8p23 /* floats of this size have no fraction */

typedef struct fake_quant {
    double scale;
    int64_t zero_point;
} fake_quant;

DT__FORWARD(forward)
{
    const fake_quant *s = dt_module_state(m);
    const double zero = (double)s->zero_point;
    dt_tensor *scale = dt_number(t, x, s->scale), *rounds = dt_number(t, x, ROUNDS);
    dt_tensor *v = dt_div(t, x, scale);
    v = dt__then(t, v, dt_clamp(t, v, -128 - zero, 127 - zero));
    v = dt__then(t, v, dt_add(t, v, rounds));
    v = dt__then(t, v, dt_sub(t, v, rounds));
    return dt__then(t, v, dt_mul(t, v, scale));
}

const dt_module_type dt__nn_fake_quant = { .name = "fake_quant", .forward = forward };

dt_status dt_fake_quant_create(dt_ctx *ctx, double scale, int64_t zero_point, dt_module **out)
{
    DT__NEED2(ctx, ctx, out);
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
    DT__TRY(dt_module_create(ctx, &dt__nn_fake_quant, sizeof(fake_quant), out));
    *(fake_quant *)dt_module_state(*out) = (fake_quant){ (double)(float)scale, zero_point };
    return DT_OK;
}

static const dt_key layer_keys[] = {
    DT__LAYER_HEAD("fake_quant", dt_fake_quant_layer),
    { "scale", DT_KEY_REAL, offsetof(dt_fake_quant_layer, scale), .least = 0x1p-126,
      .most = 0x1p120, .fallback = "1", .text = "value of one step of the codes" },
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
      .n_y = 5, .y = { 1, 0.5, -0.5, -14, 113.5 }, .rough = true },
    { "a batch", make_fine, .in = { { { 3, 4 } } } },
    { "a scale of 0", make_zero, .fails = DT_ERR_ARG, .says = "fake_quant: scale is 0" },
    { "a zero point that is not a code", make_far, .fails = DT_ERR_ARG,
      .says = "zero_point is 128" },
};
DT__LAYER_CASES(fake_quant, cases)
