/* The integers of device layers: device_layer.h, numerics §8. */
#include "ops/device_layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void dt__device_clamps(int activation, dt__coding_range y, int *least, int *most)
{
    *least = -128;
    *most = 127;
    if (activation != DT_ACT_RELU && activation != DT_ACT_RELU6) return;
    if (y.zero > *least) *least = y.zero; /* q(0) */
    const float six = roundf(6.0f / y.scale) + (float)y.zero;
    if (activation == DT_ACT_RELU6 && six < 127) *most = (int)six;
}

static dt_status allocate(dt_ctx *ctx, const dt__codes *w, dt__device_layer *l)
{
    const int64_t n = dt__max_i64(1, w->rows);
    *l = (dt__device_layer){ .rows = w->rows, .columns = w->columns };
    l->codes = dt__alloc_array(ctx, n, (size_t)dt__max_i64(1, w->columns));
    l->scale = dt__alloc_array(ctx, n, sizeof *l->scale);
    l->bias = dt__alloc_array(ctx, n, sizeof *l->bias);
    l->offset = dt__alloc_array(ctx, n, sizeof *l->offset);
    l->by = dt__alloc_array(ctx, n, sizeof *l->by);
    const bool all = l->codes != NULL && l->scale != NULL && l->bias != NULL && l->offset != NULL &&
                     l->by != NULL;
    return all ? DT_OK : DT_ERR_NOMEM;
}

void dt__device_layer_free(dt_ctx *ctx, dt__device_layer *l)
{
    dt__release(ctx, l->codes);
    dt__release(ctx, l->scale);
    dt__release(ctx, l->bias);
    dt__release(ctx, l->offset);
    dt__release(ctx, l->by);
}

/* The real factor of an output. */
static double factor_of(const dt__device_operands *in, const dt__device_layer *l, int64_t o)
{
    const float x = in->x.scale, w = l->scale[o], y = in->y.scale;
    const float product = x * w;
    if (in->one_scale) return (double)product / (double)y;
    return (double)x * (double)w / (double)y;
}

static dt_status refuse(char *why, dt_status s, int64_t o, const char *what)
{
    snprintf(why, DT__DEVICE_WHY, "output %lld: %s", (long long)o, what);
    return s;
}

/* Bias, sums and multiplier of an output, all of which must fit. */
static dt_status make_row(const dt__device_operands *in, dt__device_layer *l, int64_t o, char *why)
{
    const int8_t *codes = l->codes + o * l->columns;
    const int64_t below = in->x.zero + 128, above = 127 - in->x.zero;
    int64_t sum = 0, magnitude = 0;
    for (int64_t k = 0; k < l->columns; k++) sum += codes[k];
    for (int64_t k = 0; k < l->columns; k++) magnitude += codes[k] < 0 ? -codes[k] : codes[k];
    const float unit = in->x.scale * l->scale[o];
    const float bias = in->bias == NULL ? 0 : roundf(in->bias[o] * (1 / unit));
    if (!(unit >= 0x1p-126f) || !(fabsf(bias) < 0x1p31f)) {
        return refuse(why, DT_ERR_NUMERIC, o,
                      "its bias does not fit int32 in units of the "
                      "scales of x and weight");
    }
    l->bias[o] = (int32_t)bias;
    const double real = factor_of(in, l, o);
    if (!(real < 0x1p31)) {
        return refuse(why, DT_ERR_NUMERIC, o, "the scale of the result is too small");
    }
    l->by[o] = dt__multiplier_of(real);
    const int64_t most = magnitude * (below > above ? below : above) + llabs((int64_t)l->bias[o]);
    if (most > INT32_MAX >> (l->by[o].shift > 0 ? l->by[o].shift : 0)) {
        return refuse(why, DT_ERR_NUMERIC, o, "its sum could leave int32");
    }
    l->offset[o] = (int32_t)(uint32_t)((int64_t)l->bias[o] - sum * below);
    return DT_OK;
}

dt_status dt__device_layer_make(dt_ctx *ctx, const dt__device_operands *in, dt__device_layer *l,
                                char why[DT__DEVICE_WHY])
{
    const dt__codes *w = in->w;
    snprintf(why, DT__DEVICE_WHY, "out of memory");
    DT__TRY(allocate(ctx, w, l));
    if (w->groups != 1 || w->zero != NULL || w->order != NULL || w->layout.pieces > 1) {
        return refuse(why, DT_ERR_UNSUPPORTED, 0,
                      "the weight has groups, zero points, or rows of more than 32768");
    }
    const dt__code_matrix to = { l->codes, l->columns, l->scale, 1 };
    dt__panel_unpack(&w->layout, w->panels, &to);
    for (int64_t o = 1; in->one_scale && o < l->rows; o++) {
        if (l->scale[o] == l->scale[0]) continue;
        return refuse(why, DT_ERR_UNSUPPORTED, o,
                      "its scale is not that of output 0, and the "
                      "weight is said to have one");
    }
    dt__device_clamps(in->activation, in->y, &l->least, &l->most);
    for (int64_t o = 0; o < l->rows; o++) DT__TRY(make_row(in, l, o, why));
    return DT_OK;
}

/* ---- elementwise ---------------------------------------------------------------------------- */

bool dt__device_add_make(float a, float b, float y, dt__device_add *out)
{
    const double twice = 2 * (double)(a > b ? a : b), last = twice / (0x1p20 * (double)y);
    if (!(last < 1)) return false;
    *out = (dt__device_add){ dt__multiplier_of((double)a / twice),
                             dt__multiplier_of((double)b / twice), dt__multiplier_of(last) };
    return true;
}

bool dt__device_mul_make(float a, float b, float y, dt__multiplier *by)
{
    const double real = (double)a * (double)b / (double)y;
    if (!(real < 0x1p31)) return false;
    *by = dt__multiplier_of(real);
    return by->shift <= 0 || (int64_t)255 * 255 << by->shift <= INT32_MAX;
}

bool dt__device_softmax_make(double scale, dt__device_softmax *out)
{
    const double real = scale * 0x1p26;
    *out = (dt__device_softmax){ .by = dt__multiplier_of(real < 0x1p31 - 1 ? real : 0x1p31 - 1) };
    if (out->by.shift < 0 || out->by.m == 0) return false;
    out->least = (int32_t) - (((int64_t)31 << 26) >> out->by.shift);
    return true;
}
