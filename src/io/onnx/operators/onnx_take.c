/* Layers that several node readers make: weighted sums along a dimension, selections by constant
 * indices, constants, and images of one example. */
#include "io/onnx/onnx.h"

#include <string.h>

#define MOST_WEIGHTS ((int64_t)1 << 22) /* of a node's matrix */

dt_status dt__onnx_mixed(dt__onnx *g, dt__onnx_layer *from, int dim, int64_t rows,
                         const float *weight, dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    DT__TRY(dt__onnx_new(g, "mix", &l));
    dt_mix_layer *o = l->options;
    o->dim = dim;
    o->out = rows;
    DT__TRY(dt__onnx_weigh_floats(g, l, "weight", weight, rows * from->shape.dims[dim - 1]));
    dt__onnx_read_from(l, from);
    *out = l;
    return dt__onnx_add(g, l);
}

/* The number of indices from `at` on with a constant positive step, which one slice can select. */
static int64_t run_of(const int64_t *index, int64_t at, int64_t n)
{
    int64_t end = at + 1;
    if (end == n || index[end] <= index[at]) return 1;
    const int64_t step = index[end] - index[at];
    while (end < n && index[end] - index[end - 1] == step) end++;
    return end - at;
}

static dt_status join_parts(dt__onnx *g, dt__onnx_layer *from, int dim, const int64_t *index,
                            int64_t n, dt__onnx_layer **out)
{
    dt__onnx_layer *part[DT_MAX_IN];
    int parts = 0;
    for (int64_t at = 0, run; at < n; at += run) {
        run = run_of(index, at, n);
        const int64_t step = run > 1 ? index[at + 1] - index[at] : 1;
        const int64_t range[3] = { index[at], index[at + run - 1] + 1, step };
        DT__TRY(dt__onnx_sliced(g, from, dim, range, &part[parts++]));
    }
    *out = part[0];
    if (parts == 1) return DT_OK;
    DT__TRY(dt__onnx_new(g, "concat", out));
    ((dt_concat_layer *)(*out)->options)->dim = dim;
    for (int i = 0; i < parts; i++) dt__onnx_read_from(*out, part[i]);
    return dt__onnx_add(g, *out);
}

dt_status dt__onnx_taken(dt__onnx *g, dt__onnx_layer *from, int dim, const int64_t *index,
                         int64_t n, dt__onnx_layer **out)
{
    const int64_t extent = from->shape.dims[dim - 1];
    /* repeating one element is a product with a column of ones */
    int parts = extent == 1 ? DT_MAX_IN + 1 : 0;
    int64_t count;
    if (n < 1) return dt__onnx_refuse(g, "its result would be empty");
    *out = from;
    if (extent == 1 && n == 1) return DT_OK;
    for (int64_t at = 0; parts <= DT_MAX_IN && at < n; at += run_of(index, at, n)) parts++;
    if (parts <= DT_MAX_IN) return join_parts(g, from, dim, index, n, out);
    if (__builtin_mul_overflow(extent, n, &count) || count > MOST_WEIGHTS) {
        return dt__onnx_refuse(g, "%lld of %lld elements in an order of their own are too many",
                               (long long)n, (long long)extent);
    }
    float *weight = dt__onnx_memory(g, count, sizeof *weight);
    if (weight == NULL) return DT_ERR_NOMEM;
    memset(weight, 0, (size_t)count * sizeof *weight);
    for (int64_t i = 0; i < n; i++) weight[i * extent + index[i]] = 1;
    return dt__onnx_mixed(g, from, dim, n, weight, out);
}

dt_status dt__onnx_padded(dt__onnx *g, dt__onnx_layer *from, int dim, int64_t before, int64_t after,
                          double value, dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    *out = from;
    if (before == 0 && after == 0) return DT_OK;
    DT__TRY(dt__onnx_new(g, "pad", &l));
    dt_pad_options *o = &((dt_pad_layer *)l->options)->pad;
    const int at = from->shape.rank - dim; /* pads are listed from the last dimension on */
    o->value = value;
    o->pads.n = 2 * (at + 1);
    for (int i = 0; i < o->pads.n; i++) o->pads.v[i] = 0;
    o->pads.v[2 * at] = before;
    o->pads.v[2 * at + 1] = after;
    dt__onnx_read_from(l, from);
    *out = l;
    return dt__onnx_add(g, l);
}

/* Zeros that depend on no value: pads one element with them, and drops the element. */
static dt_status zeros(dt__onnx *g, dt__onnx_layer *like, int64_t n, dt__onnx_layer **out)
{
    dt_shape flat = { 1, { 1 } };
    const int64_t first[3] = { 0, 1, 1 }, behind[3] = { 1, n + 1, 1 };
    for (int i = 0; i < like->shape.rank; i++) flat.dims[0] *= like->shape.dims[i];
    DT__TRY(dt__onnx_reshaped(g, like, &flat, out));
    DT__TRY(dt__onnx_sliced(g, *out, 1, first, out));
    DT__TRY(dt__onnx_padded(g, *out, 1, 0, n, 0, out));
    return dt__onnx_sliced(g, *out, 1, behind, out);
}

dt_status dt__onnx_given(dt__onnx *g, dt__onnx_layer *like, const dt__onnx_value *c,
                         dt__onnx_layer **out)
{
    dt__onnx_layer *l;
    dt_shape shape = { .rank = c->rank };
    if (c->count < 1 || c->rank >= DT_MAX_RANK) {
        return dt__onnx_refuse(g, "its input '%.60s' is a constant; expected a computed value",
                               c->name);
    }
    memcpy(shape.dims, c->dims, (size_t)c->rank * sizeof c->dims[0]);
    DT__TRY(zeros(g, like, c->count, &l));
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    dt__onnx_layer *from = l;
    DT__TRY(dt__onnx_new(g, "affine", &l));
    dt_affine_options *o = &((dt_affine_layer *)l->options)->affine;
    o->scale = false;
    o->shape = (dt_ints){ 1, { 1 } };
    if (shape.rank > 0) o->shape.n = shape.rank;
    for (int i = 0; i < shape.rank; i++) o->shape.v[i] = shape.dims[i];
    o->trained = c->count > 1 && c->initializer != NULL;
    DT__TRY(dt__onnx_weigh(g, l, "bias", c));
    dt__onnx_read_from(l, from);
    *out = l;
    return dt__onnx_add(g, l);
}

dt_status dt__onnx_image(dt__onnx *g, int i, dt__onnx_layer **out)
{
    dt_shape shape;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, i), out));
    if (g->front == 0) return DT_OK;
    shape = (*out)->shape;
    if (shape.rank < 2 || shape.dims[0] != 1) {
        return dt__onnx_refuse(g,
                               "it reads a batch, and the file is read without one (--batch none)");
    }
    shape.rank--;
    memmove(shape.dims, shape.dims + 1, (size_t)shape.rank * sizeof shape.dims[0]);
    return dt__onnx_reshaped(g, *out, &shape, out);
}

dt_status dt__onnx_image_result(dt__onnx *g, int i, dt__onnx_layer *l)
{
    if (g->front > 0) {
        dt_shape shape = { l->shape.rank + 1, { 1 } };
        memcpy(shape.dims + 1, l->shape.dims, (size_t)l->shape.rank * sizeof shape.dims[0]);
        DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    }
    dt__onnx_result(g, i, l);
    return DT_OK;
}
