/* Operators of TFLite on elements, alone and in pairs. */
#include "io/tflite/lite.h"

#include <math.h>

/* ---- one operand ----------------------------------------------------------------------------- */

static double neg(double x, double b) { return (void)b, -x; }
static double magnitude(double x, double b) { return (void)b, fabs(x); }
static double exponential(double x, double b) { return (void)b, exp(x); }
static double logarithm(double x, double b) { return (void)b, log(x); }
static double root(double x, double b) { return (void)b, sqrt(x); }
static double inverse_root(double x, double b) { return (void)b, 1 / sqrt(x); }
static double square(double x, double b) { return (void)b, x * x; }
static double hyperbolic(double x, double b) { return (void)b, tanh(x); }
static double logistic(double x, double b) { return (void)b, 1 / (1 + exp(-x)); }
static double relu(double x, double b) { return (void)b, dt__vlite_activated(1, x); }
static double relu6(double x, double b) { return (void)b, dt__vlite_activated(3, x); }
static double leaky(double x, double slope) { return x < 0 ? slope * x : x; }
static double elu(double x, double b) { return (void)b, x < 0 ? expm1(x) : x; }
static double hard_swish(double x, double b)
{
    return (void)b, x * dt__vlite_activated(3, x + 3) / 6;
}

static const dt__vlite_operator *row_of(const dt__vlite_call *c)
{
    const dt__vlite_operator *o = dt__vlite_maps;
    while (o->code != c->op->code) o++;
    return o;
}

static dt_status run_one(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    if (x->q != NULL) return dt__vlite_map_int8(c);
    DT__TRY(dt__vlite_floats(c));
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    const dt__vlite_operator *o = row_of(c);
    for (int64_t i = 0; i < x->count; i++) {
        c->y->f[i] = (float)o->real((double)x->f[i], (double)c->op->real);
    }
    return DT_OK;
}

static dt_status run_gelu(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    if (x->q != NULL) return dt__vlite_map_int8(c);
    DT__TRY(dt__vlite_floats(c));
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++) {
        const double v = (double)x->f[i];
        const double t = tanh(0.79788456080286536 * (v + 0.044715 * v * v * v));
        const double y = c->op->option[0] != 0 ? 0.5 * v * (1 + t)
                                               : 0.5 * v * (1 + erf(v * 0.70710678118654752));
        c->y->f[i] = (float)y;
    }
    return DT_OK;
}

/* ---- two operands ---------------------------------------------------------------------------- */

static double add(double a, double b) { return a + b; }
static double sub(double a, double b) { return a - b; }
static double mul(double a, double b) { return a * b; }
static double divide(double a, double b) { return a / b; }
static double larger(double a, double b) { return a > b ? a : b; }
static double smaller(double a, double b) { return a < b ? a : b; }
static double prelu(double x, double slope) { return x < 0 ? slope * x : x; }

/* -1: x is not broadcast to y. */
int64_t dt__vlite_spread(const dt__vlite_tensor *x, const dt__vlite_tensor *y, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int k = 1; k <= y->rank; k++) {
        const int64_t n = y->dims[y->rank - k], own = k <= x->rank ? x->dims[x->rank - k] : 1;
        if (own != n && own != 1) return -1;
        if (own != 1) at += i % n * step;
        i /= n;
        step *= own;
    }
    return x->rank > y->rank ? -1 : at;
}

/* Extents of y: the largest of all operands. */
dt_status dt__vlite_broadcasts(const dt__vlite_call *c)
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

static dt_status run_two(dt__vlite_call *c)
{
    DT__TRY(dt__vlite_floats(c));
    DT__TRY(dt__vlite_broadcasts(c));
    const dt__vlite_operator *o = row_of(c);
    const int activation = o->bytes[0] == 1 ? (int)c->op->option[0] : 0;
    for (int64_t i = 0; i < c->y->count; i++) {
        const int64_t a = dt__vlite_spread(c->in[0], c->y, i),
                      b = dt__vlite_spread(c->in[1], c->y, i);
        const double y = o->real((double)c->in[0]->f[a], (double)c->in[1]->f[b]);
        c->y->f[i] = (float)dt__vlite_activated(activation, y);
    }
    return DT_OK;
}

/* ---- bools ----------------------------------------------------------------------------------- */

static double above(double a, double b) { return a > b; }
static double not_below(double a, double b) { return a >= b; }

static dt_status run_compare(dt__vlite_call *c)
{
    dt__vlite_tensor *y = c->y;
    if (c->in[0]->f == NULL || c->in[1]->f == NULL || y->type != DT__VLITE_BOOL) {
        return dt__vlite_refuse(c, "it makes bools of floats alone");
    }
    DT__TRY(dt__vlite_broadcasts(c));
    for (int64_t i = 0; i < y->count; i++) {
        const float a = c->in[0]->f[dt__vlite_spread(c->in[0], y, i)];
        const float b = c->in[1]->f[dt__vlite_spread(c->in[1], y, i)];
        y->q[i] = row_of(c)->real((double)a, (double)b) != 0;
    }
    return DT_OK;
}

static dt_status run_select(dt__vlite_call *c)
{
    dt__vlite_tensor *y = c->y;
    const bool floats = c->in[1]->f != NULL && c->in[2]->f != NULL && y->f != NULL;
    if (c->in[0]->type != DT__VLITE_BOOL || !floats) {
        return dt__vlite_refuse(c, "it chooses between floats, by bools, alone");
    }
    DT__TRY(dt__vlite_broadcasts(c));
    for (int64_t i = 0; i < y->count; i++) {
        const dt__vlite_tensor *x =
            c->in[c->in[0]->q[dt__vlite_spread(c->in[0], y, i)] != 0 ? 1 : 2];
        y->f[i] = x->f[dt__vlite_spread(x, y, i)];
    }
    return DT_OK;
}

static dt_status run_cast(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    const bool truth = x->type == DT__VLITE_BOOL && c->y->f != NULL;
    if (!truth && (x->type != DT__VLITE_F32 || c->y->type != DT__VLITE_I32)) {
        return dt__vlite_refuse(c, "it makes floats of bools, and int32 of floats, alone");
    }
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    for (int64_t i = 0; i < x->count; i++) {
        if (truth) c->y->f[i] = x->q[i] != 0;
        else if (fabsf(x->f[i]) < 0x1p31f) c->y->q[i] = (int32_t)x->f[i];
        else return dt__vlite_refuse(c, "element %lld is no int32", (long long)i);
    }
    return DT_OK;
}

/* ---- codes ----------------------------------------------------------------------------------- */

/* MAXIMUM and MINIMUM of codes of one scale. */
static dt_status run_codes(dt__vlite_call *c)
{
    const dt__vlite_tensor *b = c->in[1];
    DT__TRY(dt__vlite_same_codes(c));
    if (!dt__vlite_is_coded(b) || b->scale[0] != c->y->scale[0] || b->zero[0] != c->y->zero[0]) {
        return dt__vlite_refuse(c, "its operands have different scales");
    }
    DT__TRY(dt__vlite_broadcasts(c));
    for (int64_t i = 0; i < c->y->count; i++) {
        const int32_t p = c->in[0]->q[dt__vlite_spread(c->in[0], c->y, i)],
                      q = b->q[dt__vlite_spread(b, c->y, i)];
        c->y->q[i] = (int32_t)row_of(c)->real((double)p, (double)q);
    }
    return DT_OK;
}

static dt_status run_limit(dt__vlite_call *c)
{
    return c->in[0]->q != NULL ? run_codes(c) : run_two(c);
}

static dt_status run_add(dt__vlite_call *c)
{
    return c->in[0]->q != NULL ? dt__vlite_add_int8(c) : run_two(c);
}

static dt_status run_mul(dt__vlite_call *c)
{
    return c->in[0]->q != NULL ? dt__vlite_mul_int8(c) : run_two(c);
}

static dt_status run_prelu(dt__vlite_call *c)
{
    return c->in[0]->q != NULL ? dt__vlite_prelu_int8(c) : run_two(c);
}

static dt_status run_quantize(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    dt__vlite_tensor *y = c->y;
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    if (x->f == NULL || !dt__vlite_is_coded(y)) {
        return dt__vlite_refuse(c, "it makes int8 of floats alone");
    }
    for (int64_t i = 0; i < x->count; i++) {
        const float code = roundf(x->f[i] / y->scale[0]) + (float)y->zero[0];
        y->q[i] = !(code > -128) ? -128 : code > 127 ? 127 : (int32_t)code;
    }
    return DT_OK;
}

static dt_status run_dequantize(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    DT__TRY(dt__vlite_wants(c, x->rank, x->dims));
    if (!dt__vlite_is_coded(x) || c->y->f == NULL) {
        return dt__vlite_refuse(c, "it makes floats of int8 alone");
    }
    for (int64_t i = 0; i < x->count; i++) {
        c->y->f[i] = (float)((double)(x->q[i] - x->zero[0]) * (double)x->scale[0]);
    }
    return DT_OK;
}

const dt__vlite_operator dt__vlite_maps[] = {
    { DT__VLITE_ROW(ADD), 2, 2, run_add, { 1 }, add },
    { DT__VLITE_ROW(DEQUANTIZE), 1, 1, run_dequantize, { 0 }, NULL },
    { DT__VLITE_ROW(LOGISTIC), 1, 1, run_one, { 0 }, logistic },
    { DT__VLITE_ROW(MUL), 2, 2, run_mul, { 1 }, mul },
    { DT__VLITE_ROW(RELU), 1, 1, run_one, { 0 }, relu },
    { DT__VLITE_ROW(RELU6), 1, 1, run_one, { 0 }, relu6 },
    { DT__VLITE_ROW(TANH), 1, 1, run_one, { 0 }, hyperbolic },
    { DT__VLITE_ROW(SUB), 2, 2, run_add, { 1 }, sub },
    { DT__VLITE_ROW(DIV), 2, 2, run_two, { 1 }, divide },
    { DT__VLITE_ROW(EXP), 1, 1, run_one, { 0 }, exponential },
    { DT__VLITE_ROW(CAST), 1, 1, run_cast, { 1, 1 }, NULL },
    { DT__VLITE_ROW(PRELU), 2, 2, run_prelu, { 0 }, prelu },
    { DT__VLITE_ROW(MAXIMUM), 2, 2, run_limit, { 0 }, larger },
    { DT__VLITE_ROW(MINIMUM), 2, 2, run_limit, { 0 }, smaller },
    { DT__VLITE_ROW(GREATER), 2, 2, run_compare, { 0 }, above },
    { DT__VLITE_ROW(GREATER_EQUAL), 2, 2, run_compare, { 0 }, not_below },
    { DT__VLITE_ROW(NEG), 1, 1, run_one, { 0 }, neg },
    { DT__VLITE_ROW(ABS), 1, 1, run_one, { 0 }, magnitude },
    { DT__VLITE_ROW(LOG), 1, 1, run_one, { 0 }, logarithm },
    { DT__VLITE_ROW(SQRT), 1, 1, run_one, { 0 }, root },
    { DT__VLITE_ROW(RSQRT), 1, 1, run_one, { 0 }, inverse_root },
    { DT__VLITE_ROW(SQUARE), 1, 1, run_one, { 0 }, square },
    { DT__VLITE_ROW(LEAKY_RELU), 1, 1, run_one, { 4 }, leaky },
    { DT__VLITE_ROW(ELU), 1, 1, run_one, { 0 }, elu },
    { DT__VLITE_ROW(QUANTIZE), 1, 1, run_quantize, { 0 }, NULL },
    { DT__VLITE_ROW(HARD_SWISH), 1, 1, run_one, { 0 }, hard_swish },
    { DT__VLITE_ROW(SELECT_V2), 3, 3, run_select, { 0 }, NULL },
    { DT__VLITE_ROW(GELU), 1, 1, run_gelu, { 1 }, NULL },
    { 0, NULL, 0, 0, NULL, { 0 }, NULL },
};
