/* Products with a matrix. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>

/* A linear layer with the matrix w [out, in]. */
static dt_status linear(dt__onnx *g, const dt__onnx_value *w, bool bias, dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, "linear", out));
    dt_linear_layer *o = (*out)->options;
    o->out = w->dims[0];
    o->has_bias = true;
    o->bias = bias;
    (*out)->input = dt__onnx_in(g, 0)->codes;
    (*out)->codes = w->codes;
    return dt__onnx_weigh(g, *out, "weight", w);
}

/* Whether b is the transpose of a matrix (and was not reshaped since), without codes. */
static bool is_turned(const dt__onnx_value *b)
{
    const dt__onnx_value *t = b->turned;
    return t != NULL && b->codes == NULL && t->codes == NULL && t->dims[0] == b->dims[1] &&
           t->dims[1] == b->dims[0];
}

/* *w = the constant matrix b, transposed unless it is `transposed` already. */
static dt_status matrix_of(dt__onnx *g, const dt__onnx_value *b, bool transposed, dt__onnx_value *w)
{
    static const int swapped[] = { 1, 0 };
    if (b->kind != DT__ONNX_CONSTANT) {
        return dt__onnx_refuse(g, "both its matrices are computed; expected a constant one");
    }
    if (b->rank != 2)
        return dt__onnx_refuse(g, "its weight has %d dimensions; expected 2", b->rank);
    *w = !transposed && is_turned(b) ? *b->turned : *b;
    return transposed || is_turned(b) ? DT_OK : dt__onnx_transposed(g, b, swapped, w);
}

/* Adds a linear layer that reads v along its last dimension. */
static dt_status multiply(dt__onnx *g, dt__onnx_layer *l, const dt__onnx_value *v)
{
    dt__onnx_value x = *v;
    DT__TRY(dt__onnx_ordered(g, &x));
    if (x.axis[x.rank - 1] == 0)
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    DT__TRY(dt__onnx_add_on(g, l, dt__onnx_maker(g, &x)));
    dt__onnx_keep(g, 0, &x, l);
    return DT_OK;
}

/* ---- MatMul ---------------------------------------------------------------------------------- */

static bool is_vector(const dt__onnx *g, const dt__onnx_value *v)
{
    return v->rank - (v->kind == DT__ONNX_CONSTANT ? 0 : g->front) == 1;
}

/* Makes a vector a matrix with one row, or with one column. */
static dt_status grow(dt__onnx *g, dt__onnx_value *v, bool row)
{
    if (v->kind != DT__ONNX_CONSTANT) return dt__onnx_inserted(g, v, row ? g->front : v->rank);
    v->dims[1] = row ? v->dims[0] : 1;
    if (row) v->dims[0] = 1;
    v->rank = 2;
    v->turned = NULL;
    return DT_OK;
}

bool dt__onnx_is_linear(dt__onnx *g)
{
    const dt__onnx_value *a = dt__onnx_in(g, 0), *b = dt__onnx_in(g, 1);
    return a->kind == DT__ONNX_COMPUTED && b->kind == DT__ONNX_CONSTANT && b->rank <= 2;
}

/* A vector on the left is a row, one on the right a column; the result lacks that dimension. */
dt_status dt__onnx_matmul(dt__onnx *g)
{
    dt__onnx_value w, y, a = *dt__onnx_in(g, 0), b = *dt__onnx_in(g, 1);
    dt__onnx_layer *l;
    const bool row = is_vector(g, &a), column = is_vector(g, &b), is_linear = dt__onnx_is_linear(g);
    if (row) DT__TRY(grow(g, &a, true));
    if (column) DT__TRY(grow(g, &b, false));
    if (is_linear) {
        DT__TRY(matrix_of(g, &b, false, &w));
        DT__TRY(linear(g, &w, false, &l));
        DT__TRY(multiply(g, l, &a));
        y = *dt__onnx_out(g, 0);
    } else {
        const dt__onnx_value *const v[] = { &a, &b };
        DT__TRY(dt__onnx_apply(g, &(dt__onnx_form){ "matmul", false }, v, 2, &y));
    }
    if (row) DT__TRY(dt__onnx_dropped(g, &y, y.rank - 2));
    if (column) DT__TRY(dt__onnx_dropped(g, &y, y.rank - 1));
    return dt__onnx_finish(g, DT_OK, &y);
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

/* Products that are folded into weights must not all be subnormal or infinite. Beside a normal
 * number, smaller ones need fewer bits. */
static dt_status keeps_bits(dt__onnx *g, const float *v, int64_t n, const char *factor)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(v[i]));
    if (largest == 0 || (largest >= FLT_MIN && largest <= FLT_MAX)) return DT_OK;
    return dt__onnx_refuse(g, "%s times the weights is beyond the range of floats", factor);
}

/* c times a factor, as n numbers, one per output. */
static dt_status outputs_of(dt__onnx *g, const dt__onnx_value *c, int64_t n, double factor,
                            float **out)
{
    const float *data;
    DT__TRY(dt__onnx_floats_of(g, c, "C", &data));
    *out = dt__onnx_memory(g, n, sizeof **out);
    if (*out == NULL) return DT_ERR_NOMEM;
    const bool row = c->count == n && (c->rank == 1 || c->dims[c->rank - 1] == n);
    if (!row && c->count != 1)
        return dt__onnx_refuse(g, "C must be a row of %lld numbers", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        (*out)[i] = (float)((double)data[c->count == 1 ? 0 : i] * factor);
    }
    return keeps_bits(g, *out, n, "beta");
}

static dt_status scale(dt__onnx *g, dt__onnx_value *w, double factor)
{
    float *to;
    const float *from;
    const dt__onnx_value own = *w;
    if (factor == 1) return DT_OK;
    DT__TRY(dt__onnx_floats_of(g, &own, "B", &from));
    DT__TRY(dt__onnx_constant(g, w, own.rank, own.dims, &to, NULL));
    w->initializer = own.initializer;
    for (int64_t i = 0; i < w->count; i++) to[i] = (float)((double)from[i] * factor);
    return keeps_bits(g, to, w->count, "alpha");
}

dt_status dt__onnx_gemm(dt__onnx *g)
{
    dt__onnx_value w;
    dt__onnx_layer *l;
    const dt__onnx_value *c = dt__onnx_in(g, 2), *x = dt__onnx_in(g, 0);
    float *bias;
    DT__TRY(matrix_of(g, dt__onnx_in(g, 1), dt__onnx_int_of(g->node, "transB", 0) != 0, &w));
    DT__TRY(scale(g, &w, dt__onnx_real_attribute(g->node, "alpha", 1)));
    if (x->kind != DT__ONNX_COMPUTED || x->rank - g->front != 2) {
        return dt__onnx_refuse(g, "none of its matrices is computed; expected one");
    }
    DT__TRY(linear(g, &w, c != NULL, &l));
    if (c != NULL) {
        DT__TRY(outputs_of(g, c, w.dims[0], dt__onnx_real_attribute(g->node, "beta", 1), &bias));
        DT__TRY(dt__onnx_weigh_floats(g, l, "bias", bias, w.dims[0]));
        DT__TRY(dt__onnx_hint(g, l, c->initializer, false));
    }
    return multiply(g, l, x);
}
