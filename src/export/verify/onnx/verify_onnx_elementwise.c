/* Operators of one element of each operand.      y[i] = f(a[i], b[i], c[i]), broadcast
 * Formulas: docs/Operators.md. */
#include "export/verify/onnx/verify_onnx.h"

#include <math.h>
#include <string.h>

/* ---- formulas of reals; a and b, or x and attributes ----------------------------------------- */

static double real_add(double a, double b) { return a + b; }
static double real_sub(double a, double b) { return a - b; }
static double real_mul(double a, double b) { return a * b; }
static double real_div(double a, double b) { return a / b; }
static double real_min(double a, double b) { return isnan(a) || a < b ? a : b; }
static double real_max(double a, double b) { return isnan(a) || a > b ? a : b; }
/* Operator Max leaves the sign of zero open: this takes the one that a file may not rely on. */
static double real_larger(double a, double b) { return a == 0 && b == 0 ? -0.0 : real_max(a, b); }
static double real_prelu(double x, double slope) { return x < 0 ? x * slope : x; }

static double real_neg(double x, double b) { return (void)b, -x; }
static double real_abs(double x, double b) { return (void)b, fabs(x); }
static double real_sqrt(double x, double b) { return (void)b, sqrt(x); }
static double real_exp(double x, double b) { return (void)b, exp(x); }
static double real_log(double x, double b) { return (void)b, log(x); }
static double real_tanh(double x, double b) { return (void)b, tanh(x); }
static double real_sigmoid(double x, double b) { return (void)b, 1 / (1 + exp(-x)); }
static double real_erf(double x, double b) { return (void)b, erf(x); }
static double real_round(double x, double b) { return (void)b, rint(x); } /* half to even */
static double real_relu(double x, double b) { return (void)b, x < 0 ? 0 : x; }
static double real_leaky(double x, double alpha) { return x < 0 ? alpha * x : x; }
/* ---- of integers, which wrap ----------------------------------------------------------------- */

static int64_t whole_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t whole_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t whole_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t whole_div(int64_t a, int64_t b) { return b == -1 ? whole_sub(0, a) : a / b; }
static int64_t whole_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t whole_max(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t whole_neg(int64_t a, int64_t b) { return (void)b, whole_sub(0, a); }
static int64_t whole_abs(int64_t a, int64_t b) { return (void)b, a < 0 ? whole_sub(0, a) : a; }
static int64_t whole_relu(int64_t a, int64_t b) { return (void)b, a < 0 ? 0 : a; }
static int64_t whole_prelu(int64_t x, int64_t slope) { return x < 0 ? whole_mul(x, slope) : x; }
/* The sign of the divisor, as in Python; fmod = 1: that of the dividend. */
static int64_t whole_fmod(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
static int64_t whole_mod(int64_t a, int64_t b)
{
    const int64_t r = whole_fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
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
    if (f == whole_mod && dt__verify_int(r->c, "fmod", 0) != 0) f = whole_fmod;
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
    const double alpha = dt__verify_real(c, "alpha", c->op->alpha);
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

/* Of any number of operands, one after the other. */
static dt_status fold(dt__verify_call *c)
{
    static const double unused = -0.0; /* x + -0 is x, also of -0 */
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

/* ---- comparisons, logic ---------------------------------------------------------------------- */

static double is_equal(double a, double b) { return a == b; }
static double is_less(double a, double b) { return a < b; }
static double is_less_or_equal(double a, double b) { return a <= b; }
static int64_t whole_equal(int64_t a, int64_t b) { return a == b; }
static int64_t whole_less(int64_t a, int64_t b) { return a < b; }
static int64_t whole_less_or_equal(int64_t a, int64_t b) { return a <= b; }
static dt_status compare(dt__verify_call *c)
{
    int rank;
    int64_t dims[DT_MAX_RANK];
    dt__verify_row row = { .c = c, .x = { c->in[0], c->in[1] } };
    DT__TRY(dt__verify_broadcast(c, c->in, 2, &rank, dims));
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_BOOL, rank, dims, &row.y));
    return dt__verify_rows(&row, row_of(c->in[0]));
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
        return dt__verify_refuse(c, "values of two types, %s and %s",
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
    UNARY("Relu", SIGNED, real_relu, whole_relu),
    UNARY("Sqrt", FLOATS, real_sqrt, NULL),
    UNARY("Exp", FLOATS, real_exp, NULL),
    UNARY("Log", FLOATS, real_log, NULL),
    UNARY("Tanh", FLOATS, real_tanh, NULL),
    UNARY("Sigmoid", FLOATS, real_sigmoid, NULL),
    UNARY("Erf", FLOATS, real_erf, NULL),
    UNARY("Round", FLOATS, real_round, NULL),
    { "LeakyRelu", unary, 1, 1, 1, 1, DT__VERIFY_FLOATS, "alpha ", real_leaky, NULL, 0.01f, 0 },
    BINARY("Add", NUMBERS, real_add, whole_add),
    BINARY("Sub", NUMBERS, real_sub, whole_sub),
    BINARY("Mul", NUMBERS, real_mul, whole_mul),
    BINARY("Div", NUMBERS, real_div, whole_div),
    BINARY("PRelu", NUMBERS, real_prelu, whole_prelu),
    FOLD("Min", NUMBERS, real_min, whole_min),
    FOLD("Max", NUMBERS, real_larger, whole_max),
    COMPARE("Equal", PLAIN, is_equal, whole_equal),
    COMPARE("Less", NUMBERS, is_less, whole_less),
    COMPARE("LessOrEqual", NUMBERS, is_less_or_equal, whole_less_or_equal),
    { "Where", where, 3, 3, 1, 1, DT__VERIFY_BIT(BOOL), NULL, NULL, NULL, 0, 0 },
    { "Clip", clip, 1, 3, 1, 3, DT__VERIFY_NUMBERS, NULL, NULL, NULL, 0, 0 },
    { .name = NULL },
};
