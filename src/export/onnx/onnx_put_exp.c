/* exp, tanh, sigmoid and expm1 in ONNX, operation by operation as in kernels/exp.h, so that results
 * have the same bits: a runtime's own functions differ in the last bit. 2^n is looked up in tables.
 * Models with attention, whose results differ in the last bits anyway, use the runtime's functions,
 * which are faster. */
#include "export/onnx/onnx_put_model.h"

#include <math.h>

#define MOST 151 /* of |n| in floats, where |x| <= 104 */

static dt__value f32(dt__put_model *m, float v) { return dt__put_f32(&m->p, v); }
static dt__value f64(dt__put_model *m, double v) { return dt__put_f64(&m->p, v); }

#define ADD(a, b) DT__PUT(&m->p, "Add", a, b)
#define SUB(a, b) DT__PUT(&m->p, "Sub", a, b)
#define MUL(a, b) DT__PUT(&m->p, "Mul", a, b)
#define DIV(a, b) DT__PUT(&m->p, "Div", a, b)

/* The index of 2^n in a table that begins with 2^-first. For NaN it is `first`, as an index out of
 * range would make a runtime refuse the whole batch. */
static dt__value place_of(dt__put_model *m, dt__value n, dt__value first, dt__value zero)
{
    dt__put *p = &m->p;
    n = DT__PUT(p, "Where", DT__PUT(p, "Equal", n, n), n, zero);
    return dt__put_cast(p, ADD(n, first), DT__PUT_INT32);
}

/* Table of 2^(n / 2), rounded down, or of the remaining factor of 2^n, for n = -MOST ... MOST. */
static dt__value float_powers(dt__put_model *m, int which)
{
    float power[2 * MOST + 1];
    const int64_t dims[] = { 2 * MOST + 1 };
    if (m->powers[which] != NULL) return m->powers[which];
    for (int n = -MOST; n <= MOST; n++) {
        const int half = (n - (n < 0)) / 2; /* as n >> 1 */
        power[n + MOST] = ldexpf(1, which == 0 ? half : n - half);
    }
    return m->powers[which] = dt__put_tensor(&m->p, &(dt__put_array){ .type = DT__PUT_FLOAT,
                                                                      .rank = 1,
                                                                      .dims = dims,
                                                                      .data = power,
                                                                      .bytes = sizeof power });
}

static dt__value exp_of(dt__put_model *m, dt__value x)
{
    static const float c[] = { 0.0083631791F, 0.041666555F, 0.16666577F, 0.5F };
    dt__put *p = &m->p;
    dt__value v = DT__PUT(p, "Clip", x, f32(m, -104), f32(m, 104));
    dt__value n = DT__PUT(p, "Round", MUL(v, f32(m, 1.44269504F)));
    dt__value r = SUB(v, MUL(n, f32(m, 0x1.62e4p-1F)));
    r = SUB(r, MUL(n, f32(m, 0x1.7f7d1cp-20F)));
    dt__value y = f32(m, 0.0013926184F);
    for (int i = 0; i < DT__COUNT_OF(c); i++) y = ADD(MUL(y, r), f32(m, c[i]));
    y = ADD(ADD(MUL(y, MUL(r, r)), r), f32(m, 1));
    dt__value k = place_of(m, n, f32(m, MOST), f32(m, 0));
    y = MUL(y, DT__PUT(p, "Gather", float_powers(m, 0), k));
    return MUL(y, DT__PUT(p, "Gather", float_powers(m, 1), k));
}

dt__value dt__put_exp(dt__put_model *m, dt__value x)
{
    m->near = m->near || m->native;
    return m->native ? DT__PUT(&m->p, "Exp", x) : exp_of(m, x);
}

/* (x < 0 ? e : 1) / (1 + e), e = exp(-|x|) */
dt__value dt__put_sigmoid(dt__put_model *m, dt__value x)
{
    dt__put *p = &m->p;
    m->near = m->near || m->native;
    if (m->native) return DT__PUT(p, "Sigmoid", x);
    dt__value e = exp_of(m, DT__PUT(p, "Neg", DT__PUT(p, "Abs", x)));
    dt__value negative = DT__PUT(p, "Less", x, f32(m, 0));
    return DIV(DT__PUT(p, "Where", negative, e, f32(m, 1)), ADD(e, f32(m, 1)));
}

#define WIDE 60 /* of -n in doubles, where -40 <= x <= 89 */
#define WIDEST 130

static dt__value wide_powers(dt__put_model *m)
{
    double power[WIDE + WIDEST + 1];
    const int64_t dims[] = { WIDE + WIDEST + 1 };
    if (m->wide_powers != NULL) return m->wide_powers;
    for (int n = -WIDE; n <= WIDEST; n++) power[n + WIDE] = ldexp(1, n);
    return m->wide_powers = dt__put_tensor(&m->p, &(dt__put_array){ .type = DT__PUT_DOUBLE,
                                                                    .rank = 1,
                                                                    .dims = dims,
                                                                    .data = power,
                                                                    .bytes = sizeof power });
}

/* For e^x - 1 = 2^n (1 + r p) - 1: returns p with e^r - 1 = r p; *r; and *power = 2^n. */
static dt__value reduced(dt__put_model *m, dt__value x, dt__value *r, dt__value *power)
{
    static const double c[] = { 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1 };
    dt__put *p = &m->p;
    dt__value n = DT__PUT(p, "Round", MUL(x, f64(m, 1.4426950408889634074)));
    *r = SUB(x, MUL(n, f64(m, 0.69314718055994530942)));
    dt__value y = f64(m, 1.0 / 40320);
    for (int i = 0; i < DT__COUNT_OF(c); i++) y = ADD(MUL(y, *r), f64(m, c[i]));
    dt__value k = place_of(m, n, f64(m, WIDE), f64(m, 0));
    *power = DT__PUT(p, "Gather", wide_powers(m), k);
    return y;
}

/* sign(x) (1 - e) / (1 + e), e = e^(-2|x|); near 0 x - x^3/3 + 2 x^5/15 */
dt__value dt__put_tanh(dt__put_model *m, dt__value x)
{
    dt__put *p = &m->p;
    dt__value r, power;
    m->near = m->near || m->native;
    if (m->native) return DT__PUT(p, "Tanh", x);
    dt__value v = dt__put_cast(p, x, DT__PUT_DOUBLE), a = DT__PUT(p, "Abs", v);
    dt__value e = MUL(DT__PUT(p, "Min", a, f64(m, 20)), f64(m, -2));
    e = reduced(m, e, &r, &power);
    e = MUL(power, ADD(MUL(e, r), f64(m, 1)));
    dt__value far = DIV(SUB(f64(m, 1), e), ADD(e, f64(m, 1))), square = MUL(a, a);
    dt__value near = SUB(f64(m, 1.0 / 3), MUL(square, f64(m, 2.0 / 15)));
    near = MUL(a, SUB(f64(m, 1), MUL(square, near)));
    dt__value y = DT__PUT(p, "Where", DT__PUT(p, "Less", a, f64(m, 0.02)), near, far);
    y = DT__PUT(p, "Where", DT__PUT(p, "Less", v, f64(m, 0)), DT__PUT(p, "Neg", y), y);
    return dt__put_cast(p, y, DT__PUT_FLOAT);
}

/* 2^n (e^r - 1) + (2^n - 1), of x <= 0 */
dt__value dt__put_expm1(dt__put_model *m, dt__value x)
{
    dt__put *p = &m->p;
    dt__value r, power;
    dt__value v = DT__PUT(p, "Max", dt__put_cast(p, x, DT__PUT_DOUBLE), f64(m, -40));
    dt__value y = reduced(m, v, &r, &power);
    y = ADD(MUL(power, MUL(r, y)), SUB(power, f64(m, 1)));
    return dt__put_cast(p, y, DT__PUT_FLOAT);
}
