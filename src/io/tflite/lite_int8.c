/* Operators of int8 as TFLite Micro's reference kernels compute them: a real factor is a 31-bit
 * multiplier and a shift, and both the product and the shift round (numerics.md §8). */
#include "io/tflite/lite.h"

#include <math.h>
#include <string.h>

/* ---- requantization -------------------------------------------------------------------------- */

dt__vlite_factor dt__vlite_factor_of(double real)
{
    int shift;
    if (!(real > 0) || isinf(real)) return (dt__vlite_factor){ 0, 0 };
    int64_t q = (int64_t)round(frexp(real, &shift) * 0x1p31);
    if (q == (int64_t)1 << 31) {
        q /= 2;
        shift++;
    }
    if (shift < -31 || shift > 30) return (dt__vlite_factor){ 0, 0 };
    return (dt__vlite_factor){ (int32_t)q, shift };
}

static int32_t saturated(int64_t v)
{
    return (int32_t)(v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : v);
}

/* a b / 2^31, halves up. */
static int32_t high(int32_t a, int32_t b)
{
    const int64_t v = (int64_t)a * b + ((int64_t)1 << 30);
    return saturated(v >= 0 ? v / ((int64_t)1 << 31) : -((-v + ((int64_t)1 << 31) - 1) >> 31));
}

/* v / 2^e, halves away from zero. */
static int32_t down(int32_t v, int e)
{
    const int64_t half = e == 0 ? 0 : (int64_t)1 << (e - 1), one = (int64_t)1 << e;
    return (int32_t)(v >= 0 ? (v + half) / one : -((-(int64_t)v + half) / one));
}

int32_t dt__vlite_requantize(int64_t v, dt__vlite_factor f)
{
    const int64_t up = f.shift > 0 ? v * ((int64_t)1 << f.shift) : v;
    return down(high(saturated(up), f.multiplier), f.shift < 0 ? -f.shift : 0);
}

bool dt__vlite_is_coded(const dt__vlite_tensor *x)
{
    return x->type == DT__VLITE_I8 && x->scales == 1;
}

dt_status dt__vlite_same_codes(const dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0], *y = c->y;
    if (dt__vlite_is_coded(x) && dt__vlite_is_coded(y) && x->scale[0] == y->scale[0] &&
        x->zero[0] == y->zero[0]) {
        return DT_OK;
    }
    return dt__vlite_refuse(c, "its result has another scale or zero point");
}

static int32_t code_of(float value, const dt__vlite_tensor *y)
{
    const float code = roundf(value / y->scale[0]) + (float)y->zero[0];
    return code < -128 ? -128 : code > 127 ? 127 : (int32_t)code;
}

void dt__vlite_clamps(int activation, const dt__vlite_tensor *y, int32_t *least, int32_t *most)
{
    *least = activation == 2 ? code_of(-1, y) : activation % 2 == 1 ? code_of(0, y) : -128;
    *most = activation == 3 ? code_of(6, y) : activation == 2 ? code_of(1, y) : 127;
}

/* ---- two operands ---------------------------------------------------------------------------- */

/* The index in x of the element that is broadcast to element i of y. */
static int64_t spread(const dt__vlite_tensor *x, const dt__vlite_tensor *y, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int k = 1; k <= y->rank; k++) {
        const int64_t n = y->dims[y->rank - k], own = k <= x->rank ? x->dims[x->rank - k] : 1;
        if (own != 1) at += i % n * step;
        i /= n;
        step *= own;
    }
    return at;
}

/* An error unless y has the extents to which the operands broadcast. */
static dt_status broadcasts(const dt__vlite_call *c)
{
    int rank = 0;
    int64_t dims[DT__VLITE_RANK];
    for (int i = 0; i < c->n_in; i++) rank = c->in[i]->rank > rank ? c->in[i]->rank : rank;
    for (int k = 1; k <= rank; k++) {
        int64_t n = 1;
        for (int i = 0; i < c->n_in; i++) {
            const dt__vlite_tensor *x = c->in[i];
            const int64_t own = k <= x->rank ? x->dims[x->rank - k] : 1;
            if (own != n && own != 1 && n != 1)
                return dt__vlite_refuse(c, "its operands are not broadcast to its result");
            if (own != 1) n = own;
        }
        dims[rank - k] = n;
    }
    return dt__vlite_wants(c, rank, dims);
}

static dt_status check_pair(const dt__vlite_call *c)
{
    for (int i = 0; i < 2; i++) {
        if (!dt__vlite_is_coded(c->in[i])) return dt__vlite_refuse(c, "its integers have no scale");
    }
    DT__TRY(broadcasts(c));
    return dt__vlite_is_coded(c->y) ? DT_OK : dt__vlite_refuse(c, "its result has no scale");
}

/* Refuses scales for which LiteRT's kernels, which requantize sums and products in 16 bits, would
 * overflow. */
static dt_status refuse_narrow(const dt__vlite_call *c)
{
    return dt__vlite_refuse(c, "its result's scale is too small: LiteRT's kernels have 16 bits");
}

static int32_t finish(const dt__vlite_call *c, int64_t v)
{
    int32_t least, most;
    dt__vlite_clamps((int)c->op->option[0], c->y, &least, &most);
    v += c->y->zero[0];
    return (int32_t)(v < least ? least : v > most ? most : v);
}

dt_status dt__vlite_add_int8(dt__vlite_call *c)
{
    const dt__vlite_tensor *a = c->in[0], *b = c->in[1];
    DT__TRY(check_pair(c));
    const double p = (double)a->scale[0], q = (double)b->scale[0], twice = 2 * fmax(p, q);
    if (!(twice <= 128 * (double)c->y->scale[0])) return refuse_narrow(c);
    const dt__vlite_factor of_a = dt__vlite_factor_of(p / twice);
    const dt__vlite_factor of_b = dt__vlite_factor_of(q / twice);
    const dt__vlite_factor of_y = dt__vlite_factor_of(twice / (0x1p20 * (double)c->y->scale[0]));
    for (int64_t i = 0; i < c->y->count; i++) {
        const int64_t p_at = spread(a, c->y, i), q_at = spread(b, c->y, i);
        const int64_t left = (int64_t)(a->q[p_at] - a->zero[0]) * (1 << 20);
        const int64_t right = (int64_t)(b->q[q_at] - b->zero[0]) * (1 << 20);
        const int64_t second = dt__vlite_requantize(right, of_b);
        const int64_t sum =
            dt__vlite_requantize(left, of_a) + (c->op->code == DT__VLITE_SUB ? -second : second);
        c->y->q[i] = finish(c, dt__vlite_requantize(sum, of_y));
    }
    return DT_OK;
}

dt_status dt__vlite_mul_int8(dt__vlite_call *c)
{
    const dt__vlite_tensor *a = c->in[0], *b = c->in[1];
    DT__TRY(check_pair(c));
    const double real = (double)a->scale[0] * (double)b->scale[0] / (double)c->y->scale[0];
    if (!(real <= 0.5)) return refuse_narrow(c);
    const dt__vlite_factor by = dt__vlite_factor_of(real);
    for (int64_t i = 0; i < c->y->count; i++) {
        const int64_t p = spread(a, c->y, i), q = spread(b, c->y, i);
        const int64_t product = (int64_t)(a->q[p] - a->zero[0]) * (b->q[q] - b->zero[0]);
        c->y->q[i] = finish(c, dt__vlite_requantize(product, by));
    }
    return DT_OK;
}

dt_status dt__vlite_prelu_int8(dt__vlite_call *c)
{
    const dt__vlite_tensor *a = c->in[0], *b = c->in[1];
    DT__TRY(check_pair(c));
    const float above = a->scale[0] / c->y->scale[0];
    const float below = a->scale[0] * b->scale[0] / c->y->scale[0];
    const dt__vlite_factor by[] = { dt__vlite_factor_of((double)above),
                                    dt__vlite_factor_of((double)below) };
    for (int64_t i = 0; i < c->y->count; i++) {
        const int64_t p = spread(a, c->y, i), q = spread(b, c->y, i);
        const int64_t v = a->q[p] - a->zero[0];
        const int64_t sum = v < 0 ? v * (b->q[q] - b->zero[0]) : v;
        const int64_t code = dt__vlite_requantize(sum, by[v < 0]) + c->y->zero[0];
        c->y->q[i] = (int32_t)(code < -128 ? -128 : code > 127 ? 127 : code);
    }
    return DT_OK;
}

/* MAXIMUM and MINIMUM, of codes of one scale. */
dt_status dt__vlite_limit_int8(dt__vlite_call *c)
{
    const dt__vlite_tensor *a = c->in[0], *b = c->in[1];
    DT__TRY(dt__vlite_same_codes(c));
    if (!dt__vlite_is_coded(b) || b->scale[0] != c->y->scale[0] || b->zero[0] != c->y->zero[0]) {
        return dt__vlite_refuse(c, "its operands have different scales");
    }
    DT__TRY(broadcasts(c));
    for (int64_t i = 0; i < c->y->count; i++) {
        const int32_t p = a->q[spread(a, c->y, i)], q = b->q[spread(b, c->y, i)];
        c->y->q[i] = (p > q) == (c->op->code == DT__VLITE_MAXIMUM) ? p : q;
    }
    return DT_OK;
}

/* ---- functions of one code ------------------------------------------------------------------- */

/* Functions that LiteRT computes in f32 with one rounding at the end. */
static float function_of(const dt__vlite_op *o, float x)
{
    const float cube = 0.044715f * x * x * x;
    switch (o->code) {
    case DT__VLITE_LOGISTIC: return 1 / (1 + (float)exp((double)-x));
    case DT__VLITE_TANH: return (float)tanh((double)x);
    case DT__VLITE_ELU: return x < 0 ? (float)expm1((double)x) : x;
    default: break;
    }
    if (o->option[0] == 0) return 0.5f * x * (float)erfc((double)(x * -0.707106781186547524f));
    return 0.5f * x * (1 + (float)tanh((double)(0.797884560802865356f * (x + cube))));
}

static int16_t cut16(int32_t v) { return (int16_t)(v < -32768 ? -32768 : v > 32767 ? 32767 : v); }

/* a b / 2^15, halves up. */
static int16_t mul16(int16_t a, int32_t multiplier)
{
    const int32_t half =
        multiplier >= 2147483647 - 32768 ? 32767 : (int32_t)((multiplier + 32768) / 65536);
    return cut16((int32_t)floor((double)(a * half + 16384) / 32768));
}

static int32_t hard_swish_of(const dt__vlite_tensor *x, const dt__vlite_tensor *y, int32_t code)
{
    const float fine = x->scale[0] / 128;
    const dt__vlite_factor to = dt__vlite_factor_of((double)(fine / y->scale[0]));
    const dt__vlite_factor gate = dt__vlite_factor_of((double)(fine / (3.0f / 32768)));
    const int16_t v = (int16_t)(128 * (code - x->zero[0]));
    const double shifted = ldexp((double)v, gate.shift > 0 ? gate.shift - 1 : 0);
    int16_t open = (int16_t)fmax(-32768, fmin(32767, shifted));
    open = mul16(open, gate.multiplier);
    open = gate.shift > 0 ? cut16(2 * open) : (int16_t)down(open, -gate.shift);
    open = (int16_t)((open + 32768) / 2);
    return down(open * mul16(v, to.multiplier) / 32768, -to.shift);
}

static int32_t leaky_of(const dt__vlite_call *c, int32_t code)
{
    const dt__vlite_tensor *x = c->in[0], *y = c->y;
    const int32_t v = code - x->zero[0];
    const float slope = x->scale[0] * c->op->real / y->scale[0];
    const float by = v >= 0 ? x->scale[0] / y->scale[0] : slope;
    return dt__vlite_requantize(by < 0 ? -v : v, dt__vlite_factor_of(fabs((double)by)));
}

/* RELU, RELU6: scales by one factor, and clamps between the codes of 0 and 6; codes are less the
 * zero point. */
static int32_t clamp_of(const dt__vlite_call *c, int32_t code)
{
    int32_t least, most;
    const int32_t zero = c->y->zero[0];
    const double by = (double)(c->in[0]->scale[0] / c->y->scale[0]);
    const int32_t q = dt__vlite_requantize(code - c->in[0]->zero[0], dt__vlite_factor_of(by));
    dt__vlite_clamps(c->op->code == DT__VLITE_RELU6 ? 3 : 1, c->y, &least, &most);
    return q < least - zero ? least - zero : q > most - zero ? most - zero : q;
}

dt_status dt__vlite_map_int8(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0], *y = c->y;
    const int code = c->op->code;
    const bool leaky = code == DT__VLITE_LEAKY_RELU, swish = code == DT__VLITE_HARD_SWISH;
    const bool clamp = code == DT__VLITE_RELU || code == DT__VLITE_RELU6;
    const bool known = leaky || swish || clamp || code == DT__VLITE_LOGISTIC ||
                       code == DT__VLITE_TANH || code == DT__VLITE_ELU || code == DT__VLITE_GELU;
    if (!known || !dt__vlite_is_coded(x) || !dt__vlite_is_coded(y)) {
        return dt__vlite_refuse(c, "its integers are not known here");
    }
    if (swish && !(x->scale[0] / 128 / y->scale[0] < 1)) {
        return dt__vlite_refuse(c, "its result's scale is too small");
    }
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++) {
        int32_t q;
        if (leaky || swish || clamp) {
            q = leaky   ? leaky_of(c, x->q[i])
                : swish ? hard_swish_of(x, y, x->q[i])
                        : clamp_of(c, x->q[i]);
        } else {
            const float v = x->scale[0] * (float)(x->q[i] - x->zero[0]);
            q = (int32_t)roundf(
                fmaxf(-1e6f, fminf(1e6f, function_of(c->op, v) * (1 / y->scale[0]))));
        }
        q += y->zero[0];
        y->q[i] = q < -128 ? -128 : q > 127 ? 127 : q;
    }
    return DT_OK;
}

/* ---- means ----------------------------------------------------------------------------------- */

/* Finds the reduced axes; y must have the extents of the others. */
static dt_status find_axes(const dt__vlite_call *c, bool gone[DT__VLITE_RANK])
{
    const dt__vlite_tensor *x = c->in[0];
    int64_t axes[2 * DT__VLITE_RANK], dims[DT__VLITE_RANK];
    int n, rank = 0;
    memset(gone, 0, DT__VLITE_RANK * sizeof *gone);
    DT__TRY(dt__vlite_list(c, 1, &n, axes));
    for (int i = 0; i < n; i++) {
        int axis;
        DT__TRY(dt__vlite_axis(c, axes[i], x->rank, &axis));
        gone[axis] = true;
    }
    for (int d = 0; d < x->rank; d++) {
        if (!gone[d]) dims[rank++] = x->dims[d];
        else if (c->op->option[0] != 0) dims[rank++] = 1;
    }
    return dt__vlite_wants(c, rank, dims);
}

/* The code of the mean of n codes, given the sum of codes less zero point. */
static int32_t mean_of(const dt__vlite_call *c, int64_t sum, int64_t n)
{
    dt__vlite_factor f = dt__vlite_factor_of((double)c->in[0]->scale[0] / (double)c->y->scale[0]);
    int up = 0;
    while (n / 2 >= (int64_t)1 << up) up++; /* floor(log2 n) */
    up = up < 31 + f.shift ? up : 31 + f.shift;
    f.multiplier = (int32_t)((int64_t)f.multiplier * ((int64_t)1 << up) / n);
    f.shift -= up;
    const int32_t q = dt__vlite_requantize(sum, f) + c->y->zero[0];
    return q < -128 ? -128 : q > 127 ? 127 : q;
}

dt_status dt__vlite_mean_int8(dt__vlite_call *c)
{
    bool gone[DT__VLITE_RANK];
    const dt__vlite_tensor *x = c->in[0], *y = c->y;
    if (!dt__vlite_is_coded(x) || !dt__vlite_is_coded(y)) {
        return dt__vlite_refuse(c, "its integers have no scale");
    }
    DT__TRY(find_axes(c, gone));
    DT__TRY(dt__vlite_work(c, (double)x->count));
    int64_t *sum = dt__vlite_memory(c->v, y->count, sizeof *sum);
    if (sum == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            if (!gone[d]) {
                at += rest % x->dims[d] * step;
                step *= x->dims[d];
            }
            rest /= x->dims[d];
        }
        sum[at] += x->q[i] - x->zero[0];
    }
    const int64_t n = x->count / dt__max_i64(1, y->count);
    for (int64_t i = 0; i < y->count; i++) y->q[i] = mean_of(c, sum[i], n);
    return DT_OK;
}

/* ---- from floats, and to floats -------------------------------------------------------------- */

void dt__vlite_codes_of(dt__vlite_tensor *t, const float *x)
{
    for (int64_t i = 0; i < t->count; i++) {
        const float code = roundf(x[i] / t->scale[0]) + (float)t->zero[0];
        t->q[i] = !(code > -128) ? -128 : code > 127 ? 127 : (int32_t)code;
    }
}

dt_status dt__vlite_quantize(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    if (x->f == NULL || !dt__vlite_is_coded(c->y)) {
        return dt__vlite_refuse(c, "it makes int8 of floats alone");
    }
    dt__vlite_codes_of(c->y, x->f);
    return DT_OK;
}

dt_status dt__vlite_dequantize(dt__vlite_call *c)
{
    if (dt__vlite_is_coded(c->in[0]) && c->y->f != NULL) return dt__vlite_nodes(c);
    return dt__vlite_refuse(c, "it makes floats of int8 alone");
}

/* ---- softmax --------------------------------------------------------------------------------- */

/* e^(a / 2^26), a <= 0, as a fraction of 2^31: the remainder modulo 1/4 by a Taylor polynomial of
 * degree 4 about -1/8, times e^-(2^k) for each bit of the multiple of 1/4. */
static int32_t exp_of(int32_t a)
{
    static const int32_t by[] = { 1672461947, 1302514674, 790015084, 290630308,
                                  39332535,   720401,     242 };
    if (a == 0) return INT32_MAX;
    const int32_t t = (a & 0xffffff) - (1 << 24), rest = t - a;
    const int32_t x = 32 * t + (1 << 28), x2 = high(x, x), x3 = high(x2, x);
    const int32_t x4 = down(high(x2, x2), 2);
    const int32_t tail = high(x4 + x3, 715827883) + x2;
    int32_t y = 1895147668 + high(1895147668, x + down(tail, 1));
    for (int k = 0; k < 7; k++) {
        if ((rest >> (24 + k) & 1) != 0) y = high(y, by[k]);
    }
    return y;
}

/* 1 / (1 + a / 2^31), by three steps of Newton. */
static int32_t inverse_of(int32_t a)
{
    const int32_t d = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + high(d, -1010580540);
    for (int i = 0; i < 3; i++) {
        const int32_t miss = (1 << 29) - high(d, x);
        x = saturated((int64_t)x + saturated((int64_t)high(x, miss) * 4));
    }
    return saturated((int64_t)x * 2);
}

static bool softmax_row(const dt__vlite_call *c, int64_t from, int64_t n, dt__vlite_factor f)
{
    const int32_t *x = c->in[0]->q + from;
    const double reach = 31.0 * 0x1p26 / (double)((int64_t)1 << f.shift);
    const int32_t least = (int32_t)-floor(reach);
    int32_t largest = -128;
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (int64_t i = 0; i < n; i++) {
        const int32_t d = x[i] - largest;
        const int64_t wide = (int64_t)d * ((int64_t)1 << f.shift);
        if (d >= least) sum += down(exp_of(high((int32_t)wide, f.multiplier)), 12);
    }
    if (sum <= 0 || sum >= (int64_t)1 << 28) return false;
    int zeros = 0;
    while (((uint32_t)sum << zeros & 0x80000000u) == 0) zeros++;
    const int32_t scale = inverse_of((int32_t)(((uint32_t)sum << zeros) - 0x80000000u));
    for (int64_t i = 0; i < n; i++) {
        const int32_t d = x[i] - largest;
        const int64_t wide = (int64_t)d * ((int64_t)1 << f.shift);
        const int32_t e = d < least ? 0 : exp_of(high((int32_t)wide, f.multiplier));
        const int32_t code = d < least ? -128 : down(high(scale, e), 35 - zeros) - 128;
        c->y->q[from + i] = code < -128 ? -128 : code > 127 ? 127 : code;
    }
    return true;
}

dt_status dt__vlite_softmax_int8(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0], *y = c->y;
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    if (!dt__vlite_is_coded(x) || !dt__vlite_is_coded(y) || y->scale[0] != 0x1p-8f ||
        y->zero[0] != -128) {
        return dt__vlite_refuse(c, "its result is not of scale 1/256 and zero point -128");
    }
    const double real = fmin((double)c->op->real * (double)x->scale[0] * 0x1p26, 2147483647.0);
    const dt__vlite_factor f = dt__vlite_factor_of(real);
    const int64_t n = x->rank == 0 ? 1 : x->dims[x->rank - 1];
    if (real < 1) return dt__vlite_refuse(c, "the scale of its input is too small");
    for (int64_t row = 0; n > 0 && row < x->count / n; row++) {
        if (!softmax_row(c, row * n, n, f)) return dt__vlite_refuse(c, "its sum is too large");
    }
    return DT_OK;
}
