/* The integers of device layers: device_layer.h, numerics §8. */
#include "ops/device/device_layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LEAST_UNIT 0x1.00001p-8 /* least scale of y in those of x and weight: factors below 256 */
#define COARSER 4               /* attempts with a coarser scale */

int dt__device_code(double value, dt__coding_range r)
{
    const float code = roundf((float)value / r.scale) + (float)r.zero;
    return code < -128 ? -128 : code > 127 ? 127 : (int)code;
}

dt__coding_range dt__device_coarser(dt__coding_range r, double scale)
{
    const double steps = round((r.zero + 128) * (double)r.scale / (double)(float)scale);
    return (dt__coding_range){ (float)scale, (int)steps - 128 };
}

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
    DT__RELEASE(ctx, l->codes, l->scale, l->bias, l->offset, l->by);
}

/* The real factor of an output, which the multiplier approximates. */
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

/* ---- biases that fit ------------------------------------------------------------------------- */

double dt__bias_scale(float bias, float x_scale)
{
    const double wanted = fabs((double)bias) * 0x1p-30 / (double)x_scale;
    const double least = 0x1.000002p-126 / (double)x_scale; /* their product is rounded to f32 */
    return wanted > least ? wanted : least;
}

void dt__rescale_codes(int8_t *codes, int64_t n, double by)
{
    for (int64_t k = 0; k < n; k++) codes[k] = (int8_t)rint(codes[k] * by);
}

typedef struct output {
    const dt__device_operands *in;
    const dt__device_layer *l;
    int64_t o;
    int64_t reach; /* largest magnitude of its sum of codes, for any x */
    float bias;    /* the bias, limited as in the integers */
} output;

/* Why the integers of an output do not fit; NULL: they fit. */
static const char *bars_output(const output *of)
{
    const float unit = of->in->x.scale * of->l->scale[of->o];
    const double real = factor_of(of->in, of->l, of->o);
    const float steps = roundf(of->bias * (1 / unit));
    if (!(unit >= 0x1p-126f) || !(fabsf(steps) < 0x1p31f)) {
        return "its bias does not fit int32 in units of the scales of x and weight";
    }
    if (!(real < 0x1p31)) return "the scale of the result is too small";
    const int shift = dt__multiplier_of(real).shift;
    const int64_t most = of->reach + llabs((int64_t)steps);
    return most > INT32_MAX >> (shift > 0 ? shift : 0) ? "its sum could leave int32" : NULL;
}

static output output_of(const dt__device_operands *in, const dt__device_layer *l, int64_t o)
{
    const int64_t below = in->x.zero + 128, above = 127 - in->x.zero;
    const int8_t *codes = l->codes + o * l->columns;
    output of = { in, l, o, 0, in->bias == NULL ? 0 : in->bias[o] };
    for (int64_t k = 0; k < l->columns; k++) of.reach += codes[k] < 0 ? -codes[k] : codes[k];
    of.reach *= below > above ? below : above;
    if (bars_output(&of) == NULL) return of;
    /* beyond this limit all x give the same code, at an end of the result's range */
    const double unit = (double)in->x.scale * (double)l->scale[o];
    const double limit = 2 * (double)of.reach * unit + 512 * (double)in->y.scale;
    if (fabs((double)of.bias) > limit) of.bias = copysignf((float)limit, of.bias);
    return of;
}

/* The scale with which an output's bias has 2^30 steps; 0 if it can keep its scale. */
static double wanted_scale(const output *of, bool zeros)
{
    const bool keeps = bars_output(of) == NULL && (!zeros || of->bias == 0);
    return keeps ? 0 : dt__bias_scale(of->bias, of->in->x.scale);
}

/* Sets the scale of an output, and rescales its codes if the scale becomes larger. */
static void rescale(dt__device_layer *l, int64_t o, float scale)
{
    const bool wider = scale > l->scale[o];
    const double by = (double)l->scale[o] / (double)scale;
    if (wider) dt__rescale_codes(l->codes + o * l->columns, l->columns, by);
    l->widened += wider;
    l->scale[o] = scale;
}

/* Outputs from ... past - 1 share a scale: makes it as large as their biases require. Weights that
 * are all 0, whose scale is 1, get the scale that suits the bias. */
static void fit_biases(const dt__device_operands *in, dt__device_layer *l, int64_t from,
                       int64_t past)
{
    double most = 0;
    bool zeros = l->scale[from] == 1;
    for (int64_t k = from * l->columns; k < past * l->columns && zeros; k++) zeros = !l->codes[k];
    for (int64_t o = from; o < past; o++) {
        const output of = output_of(in, l, o);
        const double wanted = wanted_scale(&of, zeros);
        most = wanted > most ? wanted : most;
    }
    /* without a bias the result is 0 for any scale */
    if (zeros && most == 0 && (double)in->x.scale * LEAST_UNIT > (double)in->y.scale) {
        most = (double)in->y.scale / (double)in->x.scale;
    }
    if (!(most > 0) || (!zeros && most <= (double)l->scale[from])) return;
    for (int64_t o = from; o < past; o++) rescale(l, o, (float)most);
}

/* Computes bias, offset and multiplier of an output, all of which must fit. */
static dt_status make_row(const dt__device_operands *in, dt__device_layer *l, int64_t o, char *why)
{
    const int8_t *codes = l->codes + o * l->columns;
    const output of = output_of(in, l, o);
    const char *bar = bars_output(&of);
    int64_t sum = 0;
    if (bar != NULL) return refuse(why, DT_ERR_NUMERIC, o, bar);
    for (int64_t k = 0; k < l->columns; k++) sum += codes[k];
    l->bias[o] = (int32_t)roundf(of.bias * (1 / (in->x.scale * l->scale[o])));
    l->by[o] = dt__multiplier_of(factor_of(in, l, o));
    l->offset[o] = (int32_t)(uint32_t)((int64_t)l->bias[o] - sum * (in->x.zero + 128));
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
                      "its scale is not that of output 0, but the weight must have one scale");
    }
    dt__device_clamps(in->activation, in->y, &l->least, &l->most);
    const int64_t each = in->one_scale ? l->rows : 1; /* outputs that share a scale */
    for (int64_t o = 0; o < l->rows; o += each) fit_biases(in, l, o, o + each);
    for (int64_t o = 0; o < l->rows; o++) DT__TRY(make_row(in, l, o, why));
    return DT_OK;
}

/* The least scale of the result with which XNNPACK accepts every factor. */
static double factors_result(const dt__device_operands *in, const dt__device_layer *l)
{
    double most = 0;
    for (int64_t o = 0; o < l->rows; o++) {
        most = fmax(most, (double)in->x.scale * (double)l->scale[o]);
    }
    return (double)(float)(most * LEAST_UNIT);
}

/* The scale of the result with which every sum fits. Three times the largest sum plus 1024 is 2^30
 * then, so that a bias at its limit fits beside its sum, also after a left shift. */
static double sums_result(const dt__device_operands *in, const dt__device_layer *l)
{
    double most = 0;
    for (int64_t o = 0; o < l->rows; o++) {
        const output of = output_of(in, l, o);
        const double unit = (double)in->x.scale * (double)l->scale[o];
        most = fmax(most, unit * (3 * (double)of.reach + 1024) * 0x1p-30);
    }
    return most;
}

dt_status dt__device_layer_fit(dt_ctx *ctx, dt__device_operands *in, dt__device_layer *out,
                               char why[DT__DEVICE_WHY])
{
    for (int i = 0; i <= COARSER; i++) {
        const dt_status s = dt__device_layer_make(ctx, in, out, why);
        if (s != DT_OK && s != DT_ERR_NUMERIC) return s;
        double scale = s == DT_OK ? factors_result(in, out) : 0;
        if (s == DT_OK && scale <= (double)in->y.scale) return DT_OK;
        if (s == DT_ERR_NUMERIC) {
            const dt__code_matrix to = { out->codes, out->columns, out->scale, 1 };
            dt__panel_unpack(&in->w->layout, in->w->panels, &to); /* the original ones */
            scale = fmax(sums_result(in, out), factors_result(in, out));
        }
        if (!(scale > (double)in->y.scale)) return s;
        in->y = dt__device_coarser(in->y, scale);
        dt__device_layer_free(ctx, out);
        *out = (dt__device_layer){ .rows = 0 };
    }
    return refuse(why, DT_ERR_NUMERIC, 0, "the scale of the result is too small");
}

/* ---- elementwise ---------------------------------------------------------------------------- */

bool dt__device_add_make(float a, float b, float y, dt__device_add *out)
{
    const double twice = 2 * (double)(a > b ? a : b), last = twice / (0x1p20 * (double)y);
    if (!(last < 1)) return false;
    *out = (dt__device_add){ dt__multiplier_of((double)a / twice),
                             dt__multiplier_of((double)b / twice), dt__multiplier_of(last), false };
    return true;
}

double dt__device_add_scale(float a, float b)
{
    return (double)(a > b ? a : b) * 0x1.00001p-6; /* 510 * 64 + 127 < 2^15 */
}

double dt__device_mul_scale(float a, float b)
{
    return (double)a * (double)b * 0x1.00001p1; /* 255 * 255 / 2 + 127 < 2^15 */
}

bool dt__device_mul_make(float a, float b, float y, dt__multiplier *by)
{
    const double real = (double)a * (double)b / (double)y;
    if (!(real < 0x1p31)) return false;
    *by = dt__multiplier_of(real);
    return by->shift <= 0 || (int64_t)255 * 255 << by->shift <= INT32_MAX;
}

double dt__device_prelu_scale(float a, float slope)
{
    return (double)a * fmax(1, (double)slope) * 0x1p-14; /* 255 * 255 * 2^14 < 2^31 */
}

/* The factors are computed in f32, as in LiteRT. */
void dt__device_prelu_make(float a, float slope, float y, dt__device_prelu *out)
{
    *out = (dt__device_prelu){ dt__multiplier_of((double)(a / y)),
                               dt__multiplier_of((double)(a * slope / y)) };
}

dt__multiplier dt__device_mean_make(float a, float y, int64_t n)
{
    const dt__multiplier by = dt__multiplier_of((double)a / (double)y);
    int up = 0;
    while (up < 31 + by.shift && n >> (up + 1) > 0) up++;
    return (dt__multiplier){ (int32_t)(((int64_t)by.m << up) / n), by.shift - up };
}

bool dt__device_softmax_make(double scale, dt__device_softmax *out)
{
    const double real = scale * 0x1p26;
    *out = (dt__device_softmax){ .by = dt__multiplier_of(real < 0x1p31 - 1 ? real : 0x1p31 - 1) };
    if (out->by.shift < 0 || out->by.m == 0) return false;
    out->least = (int32_t) - (((int64_t)31 << 26) >> out->by.shift);
    return true;
}
