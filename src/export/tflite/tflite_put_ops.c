/* Operators for several emitters of TFLite. */
#include "export/tflite/tflite_put_model.h"
#include "ops/device/device_layer.h"

#include <string.h>

/* Operators with a fused activation in option 0. */
static bool has_activation(dt__lite_operator op)
{
    return op == DT__LITE_ADD || op == DT__LITE_MUL || op == DT__LITE_SUB || op == DT__LITE_DIV;
}

int dt__lite_map(dt__lite_model *m, dt__lite_operator op, int x)
{
    const dt__lite_shape s = dt__lite_shape_of(&m->p, x);
    return dt__lite_node(&m->p, op, &x, 1, &s);
}

/* Extents of a and b, broadcast. */
static dt__lite_shape broadcast(const dt__lite_shape *a, const dt__lite_shape *b)
{
    dt__lite_shape y = a->rank >= b->rank ? *a : *b;
    for (int i = 1; i <= y.rank; i++) {
        const int64_t p = i <= a->rank ? a->dims[a->rank - i] : 1;
        const int64_t q = i <= b->rank ? b->dims[b->rank - i] : 1;
        y.dims[y.rank - i] = p == 1 ? q : p;
    }
    return y;
}

int dt__lite_with(dt__lite_model *m, dt__lite_operator op, int a, int b)
{
    const dt__lite_shape p = dt__lite_shape_of(&m->p, a), q = dt__lite_shape_of(&m->p, b);
    const dt__lite_shape s = broadcast(&p, &q);
    const int y = dt__lite_node(&m->p, op, (const int[]){ a, b }, 2, &s);
    if (has_activation(op)) dt__lite_option(&m->p, 0, DT__FLAT_BYTE, DT__LITE_NONE);
    return y;
}

int dt__lite_transposed(dt__lite_model *m, int x, int n, const int64_t *order)
{
    const dt__lite_shape from = dt__lite_shape_of(&m->p, x);
    dt__lite_shape to = { .rank = n };
    for (int i = 0; i < n; i++) to.dims[i] = from.dims[order[i]];
    return DT__LITE(&m->p, TRANSPOSE, &to, x, dt__lite_ints(&m->p, 0, n, order));
}

int dt__lite_reshaped(dt__lite_model *m, int x, const dt__lite_shape *shape, int batch)
{
    const dt__lite_shape from = dt__lite_shape_of(&m->p, x);
    dt__lite_shape to = *shape;
    if (from.rank == to.rank &&
        memcmp(from.dims, to.dims, (size_t)to.rank * sizeof to.dims[0]) == 0) {
        return x;
    }
    if (batch >= 0 && m->p.batched) to.dims[batch] = -1;
    return DT__LITE(&m->p, RESHAPE, shape, x, dt__lite_ints(&m->p, 0, to.rank, to.dims));
}

enum { S_BEGIN_MASK, S_END_MASK };

dt__lite_slice dt__lite_whole(const dt__lite_model *m, int x)
{
    const dt__lite_shape from = dt__lite_shape_of(&m->p, x);
    dt__lite_slice s = { .start = { 0 } };
    for (int i = 0; i < from.rank; i++) {
        s.stop[i] = from.dims[i];
        s.step[i] = 1;
    }
    return s;
}

int dt__lite_sliced(dt__lite_model *m, int x, const dt__lite_slice *s)
{
    const dt__lite_shape from = dt__lite_shape_of(&m->p, x);
    dt__lite_shape to = from;
    int64_t mask = 0;
    for (int i = 0; i < from.rank; i++) {
        to.dims[i] = dt__ceil_div(dt__max_i64(0, s->stop[i] - s->start[i]), s->step[i]);
        if (s->start[i] == 0 && s->stop[i] == from.dims[i]) mask |= (int64_t)1 << i;
    }
    if (memcmp(to.dims, from.dims, (size_t)from.rank * sizeof to.dims[0]) == 0) return x;
    const int y = DT__LITE(
        &m->p, STRIDED_SLICE, &to, x, dt__lite_ints(&m->p, 0, from.rank, s->start),
        dt__lite_ints(&m->p, 0, from.rank, s->stop), dt__lite_ints(&m->p, 0, from.rank, s->step));
    dt__lite_option(&m->p, S_BEGIN_MASK, DT__FLAT_INT, mask);
    dt__lite_option(&m->p, S_END_MASK, DT__FLAT_INT, mask);
    return y;
}

/* A scalar of the type of x; for codes the code of the value. */
static int constant_like(dt__lite_model *m, int x, float value)
{
    const dt__lite_tensor *of = &m->p.tensor[x];
    if (of->type != DT__LITE_INT8) return dt__lite_float(&m->p, value);
    const dt__coding_range r = { of->scales.scale[0], of->scales.zero[0] };
    const int8_t code = (int8_t)dt__device_code((double)value, r);
    return dt__lite_constant(&m->p, &(dt__lite_array){ .type = DT__LITE_INT8,
                                                       .data = &code,
                                                       .bytes = sizeof code,
                                                       .scales = of->scales });
}

int dt__lite_padded(dt__lite_model *m, int x, const int64_t *before, const int64_t *after,
                    float value)
{
    const dt__lite_shape from = dt__lite_shape_of(&m->p, x);
    dt__lite_shape to = from;
    int64_t pads[2 * DT__LITE_RANK];
    for (int i = 0; i < from.rank; i++) {
        to.dims[i] += before[i] + after[i];
        pads[2 * i] = before[i];
        pads[2 * i + 1] = after[i];
    }
    if (memcmp(to.dims, from.dims, (size_t)from.rank * sizeof to.dims[0]) == 0) return x;
    const int at = dt__lite_ints(&m->p, from.rank, 2, pads);
    if (at < 0) return -1;
    if (value == 0) return DT__LITE(&m->p, PAD, &to, x, at);
    return DT__LITE(&m->p, PADV2, &to, x, at, constant_like(m, x, value));
}

int dt__lite_joined(dt__lite_model *m, const int *x, int n, int axis)
{
    dt__lite_shape to = dt__lite_shape_of(&m->p, x[0]);
    for (int i = 1; i < n; i++) to.dims[axis] += dt__lite_shape_of(&m->p, x[i]).dims[axis];
    if (n == 1) return x[0];
    const int y = dt__lite_node(&m->p, DT__LITE_CONCATENATION, x, n, &to);
    dt__lite_option(&m->p, 0, DT__FLAT_INT, axis);
    dt__lite_option(&m->p, 1, DT__FLAT_BYTE, DT__LITE_NONE);
    return y;
}

int dt__lite_reduced(dt__lite_model *m, dt__lite_operator op, int x, const dt_ints *axes, bool keep)
{
    const dt__lite_shape from = dt__lite_shape_of(&m->p, x);
    dt__lite_shape to = { .rank = 0 };
    bool gone[DT__LITE_RANK] = { false };
    for (int i = 0; i < axes->n; i++) gone[axes->v[i]] = true;
    for (int i = 0; i < from.rank; i++) {
        if (!gone[i]) to.dims[to.rank++] = from.dims[i];
        else if (keep) to.dims[to.rank++] = 1;
    }
    const int y = dt__lite_node(
        &m->p, op, (const int[]){ x, dt__lite_ints(&m->p, 0, axes->n, axes->v) }, 2, &to);
    dt__lite_option(&m->p, 0, DT__FLAT_BYTE, keep);
    return y;
}

int dt__lite_floats(dt__lite_model *m, const char *name, int64_t n, const float *data)
{
    return dt__lite_constant(&m->p, &(dt__lite_array){ .name = name,
                                                       .type = DT__LITE_FLOAT32,
                                                       .shape = { 1, { n } },
                                                       .data = data,
                                                       .bytes = (size_t)n * sizeof *data });
}
