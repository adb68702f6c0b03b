/* Cast: converts the element type. A real is truncated towards zero; an integer wraps to fewer
 * bits. A real outside the range of the integer type is undefined in the specification, and an
 * error here. */
#include "io/onnx/interpret/interpret.h"

#include <math.h>

/* Least and largest integer of a type. */
static const struct {
    double least, largest;
} range[DT__VERIFY_TYPES] = {
    [DT__VERIFY_U8] = { 0, 255 },
    [DT__VERIFY_I8] = { -128, 127 },
    [DT__VERIFY_I32] = { -0x1p31, 0x1p31 - 1 },
    [DT__VERIFY_I64] = { -0x1p63, 0x1p63 - 1024 },
    [DT__VERIFY_U4] = { 0, 15 },
    [DT__VERIFY_I4] = { -8, 7 },
    [DT__VERIFY_U2] = { 0, 3 },
    [DT__VERIFY_I2] = { -2, 1 },
};

/* Rounds v to `bits` significant bits, but no bit below 2^least, half to even. */
static double half_of(double v, int bits, int least, double limit)
{
    int exponent;
    if (v == 0 || !isfinite(v)) return v;
    frexp(v, &exponent);
    exponent = exponent - bits < least ? least : exponent - bits;
    const double rounded = ldexp(rint(ldexp(v, -exponent)), exponent);
    return fabs(rounded) >= limit ? copysign(INFINITY, v) : rounded;
}

static double real_of(dt__verify_type type, double v)
{
    if (type == DT__VERIFY_F16) return half_of(v, 11, -24, 0x1p16);
    if (type == DT__VERIFY_BF16) return half_of(v, 8, -133, 0x1p128);
    return v;
}

/* Converts a real without a fraction to the integer type. */
static dt_status whole_of(const dt__verify_row *r, double *v)
{
    const dt__verify_type type = r->y->type;
    const int open = dt__verify_open_casts(r->c);
    if (*v >= range[type].least && *v <= range[type].largest) return DT_OK;
    if (open == DT__VERIFY_OPEN_FAILS) {
        return dt__verify_refuse(r->c, "%s does not hold %.9g: ONNX leaves the result open",
                                 dt__verify_type_name(type), *v);
    }
    *v = open == DT__VERIFY_OPEN_LEAST ? range[type].least : 0;
    return DT_OK;
}

static dt_status row_of_reals(const dt__verify_row *r)
{
    double a[DT__VERIFY_CHUNK];
    const dt__verify_type type = r->y->type;
    dt__verify_load_real(r->x[0], r->from[0], r->step[0], r->n, a);
    for (int64_t i = 0; i < r->n; i++) a[i] = real_of(type, a[i]);
    for (int64_t i = 0; i < r->n && !dt__verify_is_real(type); i++) {
        if (type == DT__VERIFY_BOOL) {
            a[i] = a[i] != 0;
        } else {
            a[i] = trunc(a[i]);
            DT__TRY(whole_of(r, &a[i]));
        }
    }
    dt__verify_store_real(r->y, r->to, r->n, a);
    return DT_OK;
}

static dt_status row_of_wholes(const dt__verify_row *r)
{
    int64_t a[DT__VERIFY_CHUNK];
    dt__verify_load_whole(r->x[0], r->from[0], r->step[0], r->n, a);
    dt__verify_store_whole(r->y, r->to, r->n, a);
    return DT_OK;
}

static dt_status cast_to(dt__verify_call *c, int64_t to)
{
    const dt__verify_value *x = c->in[0];
    const dt__verify_type type = (dt__verify_type)to;
    dt__verify_row row = { .c = c, .x = { x } };
    if (to < 0 || to >= DT__VERIFY_TYPES || dt__verify_size(type) == 0) {
        return dt__verify_refuse(c, "to type %lld, which is not known here", (long long)to);
    }
    DT__TRY(dt__verify_make(c, 0, type, x->rank, x->dims, &row.y));
    return dt__verify_rows(&row, dt__verify_is_real(x->type) ? row_of_reals : row_of_wholes);
}

static dt_status cast(dt__verify_call *c) { return cast_to(c, dt__onnx_int_of(c->node, "to", 0)); }

static dt_status cast_like(dt__verify_call *c) { return cast_to(c, (int64_t)c->in[1]->type); }

const dt__verify_operator dt__verify_casts[] = {
    { "Cast", cast, 1, 1, 1, 1, DT__VERIFY_ANY, "to saturate ", NULL, NULL, 0, 0 },
    { "CastLike", cast_like, 2, 2, 1, 1, DT__VERIFY_ANY, "saturate ", NULL, NULL, 0, 0 },
    { .name = NULL },
};
