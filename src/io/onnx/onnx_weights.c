/* Products with a matrix, and means. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- products with a matrix ------------------------------------------------------------------ */

/* A linear layer with the matrix w [out, in]. */
static dt_status linear(dt__onnx *g, const dt__onnx_value *w, bool bias, dt__onnx_layer **out)
{
    DT__TRY(dt__onnx_new(g, "linear", out));
    dt_linear_layer *o = (*out)->options;
    o->out = w->dims[0];
    o->has_bias = true;
    o->bias = bias;
    return dt__onnx_weigh(g, *out, "weight", w);
}

static dt_status matrix_of(dt__onnx *g, bool transposed, dt__onnx_value *w)
{
    static const int swapped[] = { 1, 0 };
    const dt__onnx_value *b = dt__onnx_in(g, 1);
    if (b->kind != DT__ONNX_CONSTANT) {
        return dt__onnx_refuse(g, "of two computed values is not known");
    }
    if (b->rank != 2) return dt__onnx_refuse(g, "a weight of %d dimensions", b->rank);
    *w = *b;
    return transposed ? DT_OK : dt__onnx_transposed(g, b, swapped, w);
}

dt_status dt__onnx_matmul(dt__onnx *g)
{
    dt__onnx_value w;
    dt__onnx_layer *x, *l;
    DT__TRY(matrix_of(g, false, &w));
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    DT__TRY(linear(g, &w, false, &l));
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* Products that are folded into weights must not leave the range in which floats have 24 bits;
 * those beside a larger one need fewer. */
static dt_status keeps_bits(dt__onnx *g, const float *v, int64_t n, const char *factor)
{
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(v[i]));
    if (largest == 0 || (largest >= FLT_MIN && largest <= FLT_MAX)) return DT_OK;
    return dt__onnx_refuse(g, "%s times the weights is beyond the range of floats", factor);
}

/* c times a factor, as one number for each of n outputs. */
static dt_status outputs_of(dt__onnx *g, const dt__onnx_value *c, int64_t n, double factor,
                            float **out)
{
    const float *data;
    DT__TRY(dt__onnx_floats_of(g, c, "C", &data));
    *out = dt__onnx_memory(g, n, sizeof **out);
    if (*out == NULL) return DT_ERR_NOMEM;
    const bool row = c->count == n && (c->rank == 1 || c->dims[c->rank - 1] == n);
    if (!row && c->count != 1) return dt__onnx_refuse(g, "C is no row of %lld", (long long)n);
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
    dt__onnx_layer *x, *l;
    const dt__onnx_value *c = dt__onnx_in(g, 2);
    float *bias;
    DT__TRY(matrix_of(g, dt__onnx_int(g, "transB", 0) != 0, &w));
    DT__TRY(scale(g, &w, dt__onnx_real(g, "alpha", 1)));
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    if (x->shape.rank != 1) return dt__onnx_refuse(g, "of no matrix");
    DT__TRY(linear(g, &w, c != NULL, &l));
    if (c != NULL) {
        DT__TRY(outputs_of(g, c, w.dims[0], dt__onnx_real(g, "beta", 1), &bias));
        DT__TRY(dt__onnx_weigh_floats(g, l, "bias", bias, w.dims[0]));
        DT__TRY(dt__onnx_hint(g, l, c->initializer, false));
    }
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* The mean over some dimensions of a layer's result, which become 1. */
static dt_status mean(dt__onnx *g, dt__onnx_layer *x, const bool *over, dt__onnx_layer **out)
{
    const int rank = x->shape.rank;
    int order[DT_MAX_RANK] = { 0 }, n = 1;
    dt_shape flat = { .rank = 2, .dims = { 1, 1 } }, result = x->shape;
    bool spatial = rank >= 2 && rank <= 3 && !over[1];
    for (int i = 2; i <= rank; i++) spatial &= over[i];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 1; i <= rank; i++) {
            if (over[i] != (pass == 1)) continue;
            order[n++] = i;
            flat.dims[pass] *= x->shape.dims[i - 1];
            if (over[i]) result.dims[i - 1] = 1;
        }
    }
    if (spatial) {
        return dt__onnx_simple(g, rank == 3 ? "global_avg_pool2d" : "global_avg_pool1d", x, out);
    }
    DT__TRY(dt__onnx_permuted(g, x, order, &x));
    DT__TRY(dt__onnx_reshaped(g, x, &flat, &x));
    DT__TRY(dt__onnx_simple(g, "global_avg_pool1d", x, &x));
    return dt__onnx_reshaped(g, x, &result, out);
}

dt_status dt__onnx_global_average_pool(dt__onnx *g)
{
    bool over[DT_MAX_RANK] = { false };
    dt__onnx_layer *x, *l;
    DT__TRY(dt__onnx_image(g, 0, &x));
    if (x->shape.rank < 2) return dt__onnx_refuse(g, "of %d dimensions", x->shape.rank);
    for (int i = 2; i <= x->shape.rank; i++) over[i] = true;
    DT__TRY(mean(g, x, over, &l));
    return dt__onnx_image_result(g, 0, l);
}

dt_status dt__onnx_reduce_mean(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    bool over[DT_MAX_RANK] = { false }, seen[DT_MAX_RANK] = { false };
    dt__onnx_layer *l;
    dt_ints axes;
    int axis;
    DT__TRY(dt__onnx_list_or_in(g, "axes", 1, &axes));
    if (axes.n == 0) return dt__onnx_refuse(g, "over all dimensions");
    for (int i = 0; i < axes.n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.v[i], v.rank, seen, &axis));
        if (v.axis[axis] == 0) return dt__onnx_refuse(g, "over the batch");
        over[v.axis[axis]] = true;
    }
    DT__TRY(mean(g, dt__onnx_maker(g, &v), over, &l));
    v.layer = l->index;
    v.plain = -1;
    if (dt__onnx_int(g, "keepdims", 1) == 0) {
        bool gone[DT_MAX_RANK];
        dt_shape shape = { .rank = 0 };
        int rank = 0, left[DT_MAX_RANK];
        for (int i = 0; i < v.rank; i++) gone[i] = over[v.axis[i]];
        for (int i = 1, at = 1; i <= l->shape.rank; i++) {
            left[i] = at;
            if (over[i]) continue;
            shape.dims[shape.rank++] = l->shape.dims[i - 1];
            at++;
        }
        DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
        v.layer = l->index;
        for (int i = 0; i < v.rank; i++) {
            if (!gone[i]) v.axis[rank++] = v.axis[i] == 0 ? 0 : left[v.axis[i]];
        }
        v.rank = rank;
    }
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}
