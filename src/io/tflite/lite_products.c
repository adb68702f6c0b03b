/* Products of TFLite with weights: FULLY_CONNECTED, CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV.
 *
 * Floats with integer weights are quantized dynamically, per row or per example: the range lo...hi
 * contains 0, scale (hi - lo) / 255, zero point clamp(round(-128 - lo / scale)). Sums are integers,
 * times the weight's scale of the row or block, and the input's scale. int8 follows TFLite Micro: a
 * multiplier and a shift per channel. */
#include "io/tflite/lite.h"

#include <math.h>
#include <string.h>

enum { X, WEIGHT, BIAS };

/* Operands of a product: x as numbers (codes less their zero point), and what converts a sum to a
 * result. */
typedef struct product {
    dt__vlite_call *c;
    const dt__vlite_tensor *x, *w, *bias; /* bias NULL: none */
    int64_t channels;                     /* of the result */
    /* x of one example or row, or its codes less zero point */
    double *u;
    double scale; /* of dynamically quantized x; else 1 */
    double steps; /* work per result */
    bool dynamic, coded;
    int activation;
    dt__vlite_factor *factor; /* int8: of each channel */
    int32_t least, most;
} product;

static double scale_at(const dt__vlite_tensor *w, int64_t channel)
{
    return (double)w->scale[w->scales > 1 ? channel : 0];
}

static dt_status make_factors(product *p, bool linear)
{
    const dt__vlite_tensor *x = p->x, *w = p->w, *y = p->c->y;
    p->factor = dt__vlite_memory(p->c->v, p->channels, sizeof *p->factor);
    if (p->factor == NULL) return DT_ERR_NOMEM;
    for (int64_t o = 0; o < p->channels; o++) {
        const float single = x->scale[0] * w->scale[0];
        const double both =
            linear && w->scales == 1 ? (double)single : (double)x->scale[0] * scale_at(w, o);
        if (!(both < 256 * (double)y->scale[0])) {
            return dt__vlite_refuse(p->c, "the factor of a channel is not below 256, which XNNPACK "
                                          "does not take");
        }
        p->factor[o] = dt__vlite_factor_of(both / (double)y->scale[0]);
    }
    dt__vlite_clamps(p->activation, y, &p->least, &p->most);
    return DT_OK;
}

/* Checks types and scales; `axis` is the weight's dimension of output channels. */
static dt_status begin(product *p, dt__vlite_call *c, int x, int axis)
{
    const dt__vlite_tensor *w = c->in[WEIGHT], *in = c->in[x];
    *p = (product){ .c = c, .x = in, .w = w, .scale = 1, .channels = w->dims[axis] };
    p->bias = c->n_in > x + (x == X ? 2 : 1) ? c->in[x == X ? BIAS : 3] : NULL;
    p->coded = in->q != NULL;
    p->dynamic = !p->coded && w->q != NULL;
    if (p->bias != NULL && (p->bias->count != p->channels ||
                            (p->coded ? p->bias->type != DT__VLITE_I32 : p->bias->f == NULL))) {
        return dt__vlite_refuse(c, "its bias does not fit its weight");
    }
    if (p->coded && (!dt__vlite_is_coded(in) || !dt__vlite_is_coded(c->y) || w->q == NULL)) {
        return dt__vlite_refuse(c, "its integers have no scales");
    }
    if (!p->coded && c->y->f == NULL) return dt__vlite_refuse(c, "its result is not a float");
    if (!p->dynamic && !p->coded) return DT_OK;
    const bool blocks = w->block > 0;
    if (w->type == DT__VLITE_I32 || (!blocks && w->scales == 0) || (blocks && p->coded)) {
        return dt__vlite_refuse(c, "its weight has no scales");
    }
    if (!blocks && w->scales > 1 && (w->axis != axis || w->scales != p->channels)) {
        return dt__vlite_refuse(c, "the scales of its weight belong to another dimension");
    }
    for (int64_t i = 0; i < w->scales; i++) {
        if (w->zero[i] != 0) return dt__vlite_refuse(c, "its weight has a zero point");
    }
    return DT_OK;
}

/* Loads n numbers of x from index `from` on. */
static void load(product *p, int64_t from, int64_t n)
{
    if (p->coded) {
        for (int64_t i = 0; i < n; i++) p->u[i] = p->x->q[from + i] - p->x->zero[0];
        return;
    }
    const float *x = p->x->f + from;
    float lo = 0, hi = 0;
    for (int64_t i = 0; i < n; i++) {
        p->u[i] = (double)x[i];
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    if (!p->dynamic) return;
    const float s = fmaxf((hi - lo) / 255.0f, 0x1p-23f);
    const float z = fminf(fmaxf(-128 - rintf(lo / s), -128), 127), inverse = 1 / s;
    for (int64_t i = 0; i < n; i++) {
        p->u[i] = (double)rintf(fminf(fmaxf(x[i] * inverse, -128 - z), 127 - z));
    }
    p->scale = (double)s;
}

/* Stores result i of a channel, given its sum; for dynamic codes `sum` includes the weight's
 * scale. */
static void store(const product *p, int64_t i, int64_t channel, double sum)
{
    dt__vlite_tensor *y = p->c->y;
    dt__vlite_did(p->c, p->steps);
    if (p->coded) {
        const int64_t acc = (int64_t)sum + (p->bias == NULL ? 0 : p->bias->q[channel]);
        const int64_t v = (int64_t)dt__vlite_requantize(acc, p->factor[channel]) + y->zero[0];
        y->q[i] = (int32_t)(v < p->least ? p->least : v > p->most ? p->most : v);
        return;
    }
    const double v = sum * p->scale + (p->bias == NULL ? 0 : (double)p->bias->f[channel]);
    y->f[i] = (float)dt__vlite_activated(p->activation, v);
}

static double weight_at(const product *p, int64_t i)
{
    return p->w->q != NULL ? (double)p->w->q[i] : (double)p->w->f[i];
}

static double channel_scale(const product *p, int64_t channel)
{
    return p->dynamic ? scale_at(p->w, channel) : 1;
}

/* ---- FULLY_CONNECTED ------------------------------------------------------------------------- */

static double row_sum(const product *p, int64_t row, int64_t columns, const float *scale)
{
    const dt__vlite_tensor *w = p->w;
    double sum = 0;
    if (w->block == 0) {
        for (int64_t k = 0; k < columns; k++) sum += p->u[k] * weight_at(p, row * columns + k);
        return sum * channel_scale(p, row);
    }
    const int64_t groups = columns / w->block;
    for (int64_t g = 0; g < groups; g++) {
        double part = 0;
        for (int64_t k = g * w->block; k < (g + 1) * w->block; k++) {
            part += p->u[k] * weight_at(p, row * columns + k);
        }
        sum += part * (double)scale[row * groups + g];
    }
    return sum;
}

dt_status dt__vlite_linear(dt__vlite_call *c)
{
    product p;
    const dt__vlite_tensor *x = c->in[X], *w = c->in[WEIGHT];
    if (w->rank != 2 || x->rank < 1) return dt__vlite_refuse(c, "its weight is not a matrix");
    const int64_t columns = w->dims[1], n = w->dims[0];
    DT__TRY(begin(&p, c, X, 0));
    p.activation = (int)c->op->option[0];
    if (columns == 0 || x->dims[x->rank - 1] != columns) {
        return dt__vlite_refuse(c, "its input does not fit its weight");
    }
    int64_t dims[DT__VLITE_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[x->rank - 1] = n;
    DT__TRY(dt__vlite_wants(c, x->rank, dims));
    const dt__vlite_tensor *scales = w->block == 0 ? NULL : dt__vlite_tensor_at(c, w->block_scales);
    if (scales != NULL && (scales->f == NULL || columns % w->block != 0 ||
                           scales->count != n * (columns / w->block))) {
        return dt__vlite_refuse(c, "the scales of its blocks do not fit");
    }
    if (p.coded) DT__TRY(make_factors(&p, true));
    p.u = dt__vlite_memory(c->v, columns, sizeof *p.u);
    if (p.u == NULL) return DT_ERR_NOMEM;
    p.steps = (double)columns;
    DT__TRY(dt__vlite_work(c, (double)x->count * (double)n));
    for (int64_t i = 0; i < x->count / columns; i++) {
        load(&p, i * columns, columns);
        for (int64_t o = 0; o < n; o++) {
            store(&p, i * n + o, o, row_sum(&p, o, columns, scales == NULL ? NULL : scales->f));
        }
    }
    return DT_OK;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

typedef struct window {
    int64_t kernel[2], stride[2], dilation[2], lead[2], in[2], out[2];
} window;

/* SAME: half of the padding, rounded down, is in front; VALID: none. False: the extents differ from
 * the file's. */
static bool place(window *w, bool same)
{
    bool fits = true;
    for (int d = 0; d < 2; d++) {
        if (w->stride[d] <= 0 || w->dilation[d] <= 0 || w->kernel[d] <= 0) return false;
        const int64_t reach = (w->kernel[d] - 1) * w->dilation[d] + 1;
        const int64_t out = same               ? dt__ceil_div(w->in[d], w->stride[d])
                            : w->in[d] < reach ? 0
                                               : (w->in[d] - reach) / w->stride[d] + 1;
        const int64_t all = (w->out[d] - 1) * w->stride[d] + reach - w->in[d];
        w->lead[d] = same && all > 0 ? all / 2 : 0;
        fits = fits && out == w->out[d];
    }
    return fits;
}

/* The sum for one result of channel `o`; the weight has `in` channels. */
static double conv_sum(const product *p, const window *w, const int64_t at[2], int64_t o, bool deep)
{
    const int64_t all = p->x->dims[3], in = deep ? 1 : p->w->dims[3];
    const int64_t first = deep ? o / (p->channels / all) : o / (p->channels / (all / in)) * in;
    double sum = 0;
    for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
        const int64_t r = at[0] * w->stride[0] - w->lead[0] + k / w->kernel[1] * w->dilation[0];
        const int64_t s = at[1] * w->stride[1] - w->lead[1] + k % w->kernel[1] * w->dilation[1];
        if (r < 0 || s < 0 || r >= w->in[0] || s >= w->in[1]) continue;
        const double *u = p->u + (r * w->in[1] + s) * all + first;
        for (int64_t i = 0; i < in; i++) {
            const int64_t tap =
                deep ? k * p->channels + o : (o * w->kernel[0] * w->kernel[1] + k) * in + i;
            sum += u[i] * weight_at(p, tap);
        }
    }
    return sum * channel_scale(p, o);
}

dt_status dt__vlite_conv(dt__vlite_call *c)
{
    product p;
    const bool deep = c->op->code == DT__VLITE_DEPTHWISE_CONV_2D;
    const dt__vlite_tensor *x = c->in[X], *w = c->in[WEIGHT], *y = c->y;
    const int64_t *option = c->op->option;
    if (x->rank != 4 || w->rank != 4 || y->rank != 4) {
        return dt__vlite_refuse(c, "its images have no 4 dimensions");
    }
    const int64_t dims[] = { x->dims[0], y->dims[1], y->dims[2], y->dims[3] };
    DT__TRY(dt__vlite_wants(c, 4, dims));
    DT__TRY(begin(&p, c, X, deep ? 3 : 0));
    const int behind = deep ? 1 : 0;
    window v = { .kernel = { w->dims[1], w->dims[2] },
                 .stride = { option[2], option[1] },
                 .dilation = { option[5 + behind], option[4 + behind] },
                 .in = { x->dims[1], x->dims[2] },
                 .out = { y->dims[1], y->dims[2] } };
    p.activation = (int)option[3 + behind];
    const int64_t in = x->dims[3];
    const bool fits = deep ? w->dims[0] == 1 && in > 0 && p.channels % in == 0
                           : w->dims[3] > 0 && in % w->dims[3] == 0 && in > 0 &&
                                 p.channels % (in / w->dims[3]) == 0;
    if (!fits || !place(&v, option[0] == 0) || y->dims[3] != p.channels) {
        return dt__vlite_refuse(c, "its result is declared with other extents");
    }
    if (p.coded) DT__TRY(make_factors(&p, false));
    const int64_t example = x->dims[1] * x->dims[2] * in;
    p.u = dt__vlite_memory(c->v, example, sizeof *p.u);
    if (p.u == NULL) return DT_ERR_NOMEM;
    p.steps = (double)w->count / (double)p.channels;
    DT__TRY(dt__vlite_work(c, (double)y->count * p.steps));
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t o = i % p.channels, pixel = i / p.channels % (v.out[0] * v.out[1]);
        const int64_t n = i / p.channels / (v.out[0] * v.out[1]);
        if (pixel == 0 && o == 0) load(&p, n * example, example);
        const int64_t at[] = { pixel / v.out[1], pixel % v.out[1] };
        store(&p, i, o, conv_sum(&p, &v, at, o, deep));
    }
    return DT_OK;
}

/* ---- TRANSPOSE_CONV -------------------------------------------------------------------------- */

/* The sum for one result: over pixels r with r * stride + tap - lead = at. */
static double spread_sum(const product *p, const window *w, const int64_t at[2], int64_t o)
{
    const int64_t in = p->w->dims[3];
    double sum = 0;
    for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
        const int64_t r = at[0] + w->lead[0] - k / w->kernel[1];
        const int64_t s = at[1] + w->lead[1] - k % w->kernel[1];
        if (r < 0 || s < 0 || r % w->stride[0] != 0 || s % w->stride[1] != 0) continue;
        if (r / w->stride[0] >= w->in[0] || s / w->stride[1] >= w->in[1]) continue;
        const double *u = p->u + (r / w->stride[0] * w->in[1] + s / w->stride[1]) * in;
        for (int64_t i = 0; i < in; i++) {
            sum += u[i] * weight_at(p, (o * w->kernel[0] * w->kernel[1] + k) * in + i);
        }
    }
    return sum * channel_scale(p, o);
}

dt_status dt__vlite_transposed(dt__vlite_call *c)
{
    product p;
    int n;
    int64_t dims[2 * DT__VLITE_RANK];
    const dt__vlite_tensor *w = c->in[1], *x = c->in[2], *y = c->y;
    const int64_t *option = c->op->option;
    DT__TRY(dt__vlite_list(c, 0, &n, dims));
    if (n != 4 || x->rank != 4 || w->rank != 4) {
        return dt__vlite_refuse(c, "its images have no 4 dimensions");
    }
    DT__TRY(dt__vlite_wants(c, n, dims));
    DT__TRY(begin(&p, c, 2, 0));
    p.activation = (int)option[3];
    window v = { .kernel = { w->dims[1], w->dims[2] },
                 .stride = { option[2], option[1] },
                 .in = { x->dims[1], x->dims[2] },
                 .out = { y->dims[1], y->dims[2] } };
    window back = v; /* the convolution from y to x */
    for (int d = 0; d < 2; d++) {
        back.dilation[d] = 1;
        back.in[d] = v.out[d];
        back.out[d] = v.in[d];
    }
    if (!place(&back, option[0] == 0) || x->dims[3] != w->dims[3] || y->dims[3] != w->dims[0] ||
        y->dims[0] != x->dims[0] || p.channels == 0) {
        return dt__vlite_refuse(c, "its result is declared with other extents");
    }
    memcpy(v.lead, back.lead, sizeof v.lead);
    if (p.coded) DT__TRY(make_factors(&p, false));
    const int64_t example = x->dims[1] * x->dims[2] * x->dims[3];
    p.u = dt__vlite_memory(c->v, example, sizeof *p.u);
    if (p.u == NULL) return DT_ERR_NOMEM;
    p.steps = (double)w->count / (double)p.channels;
    DT__TRY(dt__vlite_work(c, (double)y->count * p.steps));
    for (int64_t i = 0; i < y->count; i++) {
        const int64_t o = i % p.channels, pixel = i / p.channels % (v.out[0] * v.out[1]);
        const int64_t image = i / p.channels / (v.out[0] * v.out[1]);
        if (pixel == 0 && o == 0) load(&p, image * example, example);
        const int64_t at[] = { pixel / v.out[1], pixel % v.out[1] };
        store(&p, i, o, spread_sum(&p, &v, at, o));
    }
    return DT_OK;
}
