/* Elementwise operators. y[i] = f(a[i], b[i], c[i]), broadcast Formulas: docs/Operators.md. */
#include "io/onnx/interpret/interpret.h"

#include <math.h>
#include <string.h>

/* ---- formulas of reals; a and b, or x and attributes ----------------------------------------- */

static double real_add(double a, double b) { return a + b; }
static double real_sub(double a, double b) { return a - b; }
static double real_mul(double a, double b) { return a * b; }
static double real_div(double a, double b) { return a / b; }
static double real_min(double a, double b) { return isnan(a) || a < b ? a : b; }
static double real_max(double a, double b) { return isnan(a) || a > b ? a : b; }
/* ONNX leaves the sign of zero undefined for Max: return the less likely one, on which no file may
 * rely. */
static double real_larger(double a, double b) { return a == 0 && b == 0 ? -0.0 : real_max(a, b); }
static double real_prelu(double x, double slope) { return x < 0 ? x * slope : x; }

static double real_neg(double x, double b) { return (void)b, -x; }
static double real_abs(double x, double b) { return (void)b, fabs(x); }
static double real_sign(double x, double b) { return (void)b, x > 0 ? 1 : x < 0 ? -1 : x; }
static double real_sqrt(double x, double b) { return (void)b, sqrt(x); }
static double real_reciprocal(double x, double b) { return (void)b, 1 / x; }
static double real_exp(double x, double b) { return (void)b, exp(x); }
static double real_log(double x, double b) { return (void)b, log(x); }
static double real_sin(double x, double b) { return (void)b, sin(x); }
static double real_cos(double x, double b) { return (void)b, cos(x); }
static double real_tanh(double x, double b) { return (void)b, tanh(x); }
static double real_sigmoid(double x, double b) { return (void)b, 1 / (1 + exp(-x)); }
static double real_erf(double x, double b) { return (void)b, erf(x); }
static double real_floor(double x, double b) { return (void)b, floor(x); }
static double real_ceil(double x, double b) { return (void)b, ceil(x); }
static double real_round(double x, double b) { return (void)b, rint(x); } /* half to even */
static double real_relu(double x, double b) { return (void)b, x < 0 ? 0 : x; }
static double real_softplus(double x, double b)
{
    return (void)b, fmax(x, 0) + log1p(exp(-fabs(x)));
}
static double real_leaky(double x, double alpha) { return x < 0 ? alpha * x : x; }
static double real_elu(double x, double alpha) { return x < 0 ? alpha * expm1(x) : x; }
static double real_hard_sigmoid(double x, double alpha, double beta)
{
    return real_max(0, real_min(1, alpha * x + beta));
}
static double real_hard_swish(double x, double b)
{
    return (void)b, x * real_hard_sigmoid(x, 1.0 / 6, 0.5);
}

/* ---- of integers, which wrap ----------------------------------------------------------------- */

static int64_t whole_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t whole_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t whole_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t whole_div(int64_t a, int64_t b) { return b == -1 ? whole_sub(0, a) : a / b; }
static int64_t whole_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t whole_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t whole_neg(int64_t a, int64_t b) { return (void)b, whole_sub(0, a); }
static int64_t whole_abs(int64_t a, int64_t b) { return (void)b, a < 0 ? whole_sub(0, a) : a; }
static int64_t whole_sign(int64_t a, int64_t b) { return (void)b, (a > 0) - (a < 0); }
static int64_t whole_relu(int64_t a, int64_t b) { return (void)b, a < 0 ? 0 : a; }
static int64_t whole_prelu(int64_t x, int64_t slope) { return x < 0 ? whole_mul(x, slope) : x; }
/* Mod has the sign of the divisor, as in Python; with fmod = 1 that of the dividend. */
static int64_t whole_fmod(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static int64_t whole_mod(int64_t a, int64_t b)
{
    const int64_t r = whole_fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static int64_t whole_and(int64_t a, int64_t b) { return a & b; }
static int64_t whole_or(int64_t a, int64_t b) { return a | b; }
static int64_t whole_xor(int64_t a, int64_t b) { return a ^ b; }

/* ---- one and two operands -------------------------------------------------------------------- */

static dt_status row_real(const dt__verify_row *r)
{
    double a[DT__VERIFY_CHUNK], b[DT__VERIFY_CHUNK];
    const dt__verify_operator *op = r->c->op;
    dt__verify_load_real(r->x[0], r->from[0], r->step[0], r->n, a);
    if (r->x[1] != NULL) dt__verify_load_real(r->x[1], r->from[1], r->step[1], r->n, b);
    for (int64_t i = 0; i < r->n; i++) {
        a[i] = op->real(a[i], r->x[1] != NULL ? b[i] : *(const double *)r->user);
    }
    dt__verify_store_real(r->y, r->to, r->n, a);
    return DT_OK;
}

static dt_status row_whole(const dt__verify_row *r)
{
    int64_t a[DT__VERIFY_CHUNK], b[DT__VERIFY_CHUNK] = { 0 };
    int64_t (*f)(int64_t, int64_t) = r->c->op->whole;
    const bool divides = f == whole_div || f == whole_mod;
    if (f == whole_mod && dt__onnx_int_of(r->c->node, "fmod", 0) != 0) f = whole_fmod;
    dt__verify_load_whole(r->x[0], r->from[0], r->step[0], r->n, a);
    if (r->x[1] != NULL) dt__verify_load_whole(r->x[1], r->from[1], r->step[1], r->n, b);
    for (int64_t i = 0; i < r->n; i++) {
        if (divides && b[i] == 0) return dt__verify_refuse(r->c, "a division of integers by 0");
        a[i] = f(a[i], b[i]);
    }
    dt__verify_store_whole(r->y, r->to, r->n, a);
    return DT_OK;
}

static dt__verify_row_function *row_of(const dt__verify_value *x)
{
    return dt__verify_is_real(x->type) ? row_real : row_whole;
}

static dt_status unary(dt__verify_call *c)
{
    const double alpha = dt__onnx_real_attribute(c->node, "alpha", c->op->alpha);
    dt__verify_row row = { .c = c, .x = { c->in[0] }, .user = &alpha };
    DT__TRY(dt__verify_make_like(c, 0, c->in[0], &row.y));
    return dt__verify_rows(&row, row_of(c->in[0]));
}

static dt_status binary(dt__verify_call *c)
{
    int rank;
    int64_t dims[DT_MAX_RANK];
    dt__verify_row row = { .c = c, .x = { c->in[0], c->in[1] } };
    DT__TRY(dt__verify_broadcast(c, c->in, 2, &rank, dims));
    DT__TRY(dt__verify_make(c, 0, c->in[0]->type, rank, dims, &row.y));
    return dt__verify_rows(&row, row_of(c->in[0]));
}

/* For any number of operands, which are combined one by one. */
static dt_status fold(dt__verify_call *c)
{
    static const double unused = -0.0; /* x + -0 is x, also for x = -0 */
    static const dt__verify_operator same = { .real = real_add, .whole = whole_add };
    int rank;
    int64_t dims[DT_MAX_RANK];
    dt__verify_value *y;
    DT__TRY(dt__verify_broadcast(c, c->in, c->n_in, &rank, dims));
    DT__TRY(dt__verify_make(c, 0, c->in[0]->type, rank, dims, &y));
    dt__verify_call copy = *c;
    copy.op = &same;
    dt__verify_row row = { .c = &copy, .x = { c->in[0] }, .y = y, .user = &unused };
    DT__TRY(dt__verify_rows(&row, row_of(y)));
    for (int64_t i = 1; i < c->n_in; i++) {
        if (c->in[i] == NULL) return dt__verify_refuse(c, "input %lld is missing", (long long)i);
        row = (dt__verify_row){ .c = c, .x = { y, c->in[i] }, .y = y };
        DT__TRY(dt__verify_work(c, (double)y->count, 1, 1));
        DT__TRY(dt__verify_rows(&row, row_of(y)));
    }
    return DT_OK;
}

static dt_status hard_sigmoid(dt__verify_call *c)
{
    const double alpha = dt__onnx_real_attribute(c->node, "alpha", c->op->alpha);
    const double beta = dt__onnx_real_attribute(c->node, "beta", c->op->beta);
    dt__verify_value *y;
    DT__TRY(dt__verify_make_like(c, 0, c->in[0], &y));
    for (int64_t i = 0; i < y->count; i++) {
        const double x = real_hard_sigmoid(dt__verify_real_at(c->in[0], i), alpha, beta);
        dt__verify_store_real(y, i, 1, &x);
    }
    return DT_OK;
}

/*     gelu(x) = x/2 (1 + erf(x / sqrt(2)))
 *     approximate "tanh": x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
static dt_status gelu(dt__verify_call *c)
{
    static const char *const kinds[] = { "none", "tanh", NULL };
    int kind;
    dt__verify_value *y;
    DT__TRY(dt__verify_choice(c, "approximate", kinds, &kind));
    DT__TRY(dt__verify_make_like(c, 0, c->in[0], &y));
    for (int64_t i = 0; i < y->count; i++) {
        const double x = dt__verify_real_at(c->in[0], i);
        const double inner = kind == 0 ? erf(x * 0.70710678118654752440)
                                       : tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
        const double g = 0.5 * x * (1 + inner);
        dt__verify_store_real(y, i, 1, &g);
    }
    return DT_OK;
}

/* The exponent may have another type than the base. */
static dt_status power(dt__verify_call *c)
{
    int rank;
    int64_t dims[DT_MAX_RANK], from[2][DT_MAX_RANK];
    dt__verify_value *y;
    if ((DT__VERIFY_NUMBERS >> c->in[1]->type & 1) == 0) {
        return dt__verify_refuse(c, "the exponent is not a number");
    }
    DT__TRY(dt__verify_broadcast(c, c->in, 2, &rank, dims));
    DT__TRY(dt__verify_make(c, 0, c->in[0]->type, rank, dims, &y));
    dt__verify_walk w = { .rank = rank };
    memcpy(w.dims, dims, sizeof w.dims);
    for (int k = 0; k < 2; k++) {
        DT__TRY(dt__verify_spread(c, c->in[k], rank, dims, from[k]));
        memcpy(w.stride[k], from[k], sizeof w.stride[k]);
    }
    for (int64_t i = 0; i < y->count; i++, dt__verify_step(&w)) {
        double p = pow(dt__verify_real_at(c->in[0], w.offset[0]),
                       dt__verify_real_at(c->in[1], w.offset[1]));
        const bool inside = p >= -0x1p31 && p < 0x1p31;
        if (!dt__verify_is_real(y->type) && !inside) {
            return dt__verify_refuse(c, "a power of integers outside of 32 bits");
        }
        dt__verify_store_real(y, i, 1, &p);
    }
    return DT_OK;
}

/* ---- comparisons, logic ---------------------------------------------------------------------- */

static double is_equal(double a, double b) { return a == b; }
static double is_less(double a, double b) { return a < b; }
static double is_less_or_equal(double a, double b) { return a <= b; }
static double is_greater(double a, double b) { return a > b; }
static double is_greater_or_equal(double a, double b) { return a >= b; }
static int64_t whole_equal(int64_t a, int64_t b) { return a == b; }
static int64_t whole_less(int64_t a, int64_t b) { return a < b; }
static int64_t whole_less_or_equal(int64_t a, int64_t b) { return a <= b; }
static int64_t whole_greater(int64_t a, int64_t b) { return a > b; }
static int64_t whole_greater_or_equal(int64_t a, int64_t b) { return a >= b; }

static dt_status compare(dt__verify_call *c)
{
    int rank;
    int64_t dims[DT_MAX_RANK];
    dt__verify_row row = { .c = c, .x = { c->in[0], c->in[1] } };
    DT__TRY(dt__verify_broadcast(c, c->in, 2, &rank, dims));
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_BOOL, rank, dims, &row.y));
    return dt__verify_rows(&row, row_of(c->in[0]));
}

static dt_status negate(dt__verify_call *c)
{
    dt__verify_value *y;
    DT__TRY(dt__verify_make_like(c, 0, c->in[0], &y));
    for (int64_t i = 0; i < y->count; i++) {
        ((uint8_t *)y->data)[i] = ((const uint8_t *)c->in[0]->data)[i] == 0;
    }
    return DT_OK;
}

static dt_status is_nan(dt__verify_call *c)
{
    dt__verify_value *y;
    const dt__verify_value *x = c->in[0];
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_BOOL, x->rank, x->dims, &y));
    for (int64_t i = 0; i < y->count; i++) {
        ((uint8_t *)y->data)[i] = (uint8_t)(isnan(dt__verify_real_at(x, i)) ? 1 : 0);
    }
    return DT_OK;
}

/* ---- choices --------------------------------------------------------------------------------- */

static dt_status row_where(const dt__verify_row *r)
{
    double a[DT__VERIFY_CHUNK], b[DT__VERIFY_CHUNK];
    int64_t is[DT__VERIFY_CHUNK], m[DT__VERIFY_CHUNK], n[DT__VERIFY_CHUNK];
    dt__verify_load_whole(r->x[0], r->from[0], r->step[0], r->n, is);
    if (dt__verify_is_real(r->y->type)) {
        dt__verify_load_real(r->x[1], r->from[1], r->step[1], r->n, a);
        dt__verify_load_real(r->x[2], r->from[2], r->step[2], r->n, b);
        for (int64_t i = 0; i < r->n; i++) a[i] = is[i] != 0 ? a[i] : b[i];
        dt__verify_store_real(r->y, r->to, r->n, a);
        return DT_OK;
    }
    dt__verify_load_whole(r->x[1], r->from[1], r->step[1], r->n, m);
    dt__verify_load_whole(r->x[2], r->from[2], r->step[2], r->n, n);
    for (int64_t i = 0; i < r->n; i++) m[i] = is[i] != 0 ? m[i] : n[i];
    dt__verify_store_whole(r->y, r->to, r->n, m);
    return DT_OK;
}

static dt_status where(dt__verify_call *c)
{
    int rank;
    int64_t dims[DT_MAX_RANK];
    dt__verify_row row = { .c = c, .x = { c->in[0], c->in[1], c->in[2] } };
    if (c->in[1]->type != c->in[2]->type) {
        return dt__verify_refuse(c, "values of two types, %s and %s; expected one type",
                                 dt__verify_type_name(c->in[1]->type),
                                 dt__verify_type_name(c->in[2]->type));
    }
    DT__TRY(dt__verify_broadcast(c, c->in, 3, &rank, dims));
    DT__TRY(dt__verify_make(c, 0, c->in[1]->type, rank, dims, &row.y));
    return dt__verify_rows(&row, row_where);
}

/* y = min(max(x, low), high): if low > high, high. NaN stays. */
static dt_status clip(dt__verify_call *c)
{
    const dt__verify_value *bound[2] = { dt__verify_in(c, 1), dt__verify_in(c, 2) };
    dt__verify_value *y;
    DT__TRY(dt__verify_make_like(c, 0, c->in[0], &y));
    memcpy(y->data, c->in[0]->data, (size_t)y->count * dt__verify_size(y->type));
    for (int k = 0; k < 2; k++) {
        if (bound[k] == NULL) continue;
        if (bound[k]->count != 1) return dt__verify_refuse(c, "a bound is not one number");
        const dt__verify_operator op = { .real = k == 0 ? real_max : real_min,
                                         .whole = k == 0 ? whole_max : whole_min };
        dt__verify_value number = *bound[k];
        number.rank = 0;
        dt__verify_call copy = *c;
        copy.op = &op;
        dt__verify_row row = { .c = &copy, .x = { y, &number }, .y = y };
        DT__TRY(dt__verify_rows(&row, row_of(y)));
    }
    return DT_OK;
}

#define UNARY(called, set, f, g)                                                                   \
    {                                                                                              \
        called, unary, 1, 1, 1, 1, DT__VERIFY_##set, NULL, f, g, 0, 0                              \
    }
#define BINARY(called, set, f, g)                                                                  \
    {                                                                                              \
        called, binary, 2, 2, 1, 2, DT__VERIFY_##set, NULL, f, g, 0, 0                             \
    }
#define FOLD(called, set, f, g)                                                                    \
    {                                                                                              \
        called, fold, 1, 0, 1, -1, DT__VERIFY_##set, NULL, f, g, 0, 0                              \
    }
#define COMPARE(called, set, f, g)                                                                 \
    {                                                                                              \
        called, compare, 2, 2, 1, 2, DT__VERIFY_##set, NULL, f, g, 0, 0                            \
    }

const dt__verify_operator dt__verify_elementwise[] = {
    UNARY("Neg", SIGNED, real_neg, whole_neg),
    UNARY("Abs", NUMBERS, real_abs, whole_abs),
    UNARY("Sign", NUMBERS, real_sign, whole_sign),
    UNARY("Relu", SIGNED, real_relu, whole_relu),
    UNARY("Sqrt", FLOATS, real_sqrt, NULL),
    UNARY("Reciprocal", FLOATS, real_reciprocal, NULL),
    UNARY("Exp", FLOATS, real_exp, NULL),
    UNARY("Log", FLOATS, real_log, NULL),
    UNARY("Sin", FLOATS, real_sin, NULL),
    UNARY("Cos", FLOATS, real_cos, NULL),
    UNARY("Tanh", FLOATS, real_tanh, NULL),
    UNARY("Sigmoid", FLOATS, real_sigmoid, NULL),
    UNARY("Erf", FLOATS, real_erf, NULL),
    UNARY("Floor", FLOATS, real_floor, NULL),
    UNARY("Ceil", FLOATS, real_ceil, NULL),
    UNARY("Round", FLOATS, real_round, NULL),
    UNARY("Softplus", FLOATS, real_softplus, NULL),
    UNARY("HardSwish", FLOATS, real_hard_swish, NULL),
    { "LeakyRelu", unary, 1, 1, 1, 1, DT__VERIFY_FLOATS, "alpha ", real_leaky, NULL, 0.01f, 0 },
    { "Elu", unary, 1, 1, 1, 1, DT__VERIFY_FLOATS, "alpha ", real_elu, NULL, 1, 0 },
    { "HardSigmoid", hard_sigmoid, 1, 1, 1, 1, DT__VERIFY_FLOATS, "alpha beta ", NULL, NULL, 0.2f,
      0.5 },
    { "Gelu", gelu, 1, 1, 1, 1, DT__VERIFY_FLOATS, "approximate ", NULL, NULL, 0, 0 },
    BINARY("Add", NUMBERS, real_add, whole_add),
    BINARY("Sub", NUMBERS, real_sub, whole_sub),
    BINARY("Mul", NUMBERS, real_mul, whole_mul),
    BINARY("Div", NUMBERS, real_div, whole_div),
    BINARY("PRelu", NUMBERS, real_prelu, whole_prelu),
    { "Mod", binary, 2, 2, 1, 2, DT__VERIFY_INDICES | DT__VERIFY_BYTES, "fmod ", NULL, whole_mod, 0,
      0 },
    { "Pow", power, 2, 2, 1, 1, DT__VERIFY_FLOATS | DT__VERIFY_INDICES, NULL, NULL, NULL, 0, 0 },
    FOLD("Min", NUMBERS, real_min, whole_min),
    FOLD("Max", NUMBERS, real_larger, whole_max),
    FOLD("Sum", FLOATS, real_add, whole_add),
    COMPARE("Equal", PLAIN, is_equal, whole_equal),
    COMPARE("Less", NUMBERS, is_less, whole_less),
    COMPARE("LessOrEqual", NUMBERS, is_less_or_equal, whole_less_or_equal),
    COMPARE("Greater", NUMBERS, is_greater, whole_greater),
    COMPARE("GreaterOrEqual", NUMBERS, is_greater_or_equal, whole_greater_or_equal),
    COMPARE("And", BIT(BOOL), NULL, whole_and),
    COMPARE("Or", BIT(BOOL), NULL, whole_or),
    COMPARE("Xor", BIT(BOOL), NULL, whole_xor),
    { "Not", negate, 1, 1, 1, 1, DT__VERIFY_BIT(BOOL), NULL, NULL, NULL, 0, 0 },
    { "IsNaN", is_nan, 1, 1, 1, 1, DT__VERIFY_FLOATS, NULL, NULL, NULL, 0, 0 },
    { "Where", where, 3, 3, 1, 1, DT__VERIFY_BIT(BOOL), NULL, NULL, NULL, 0, 0 },
    { "Clip", clip, 1, 3, 1, 3, DT__VERIFY_NUMBERS, NULL, NULL, NULL, 0, 0 },
    { .name = NULL },
};
