/* Operators of TFLite that move elements; integers keep their scale and zero point. */
#include "io/tflite/lite.h"

/* Whether x and y have the same type, and for integers the same scale. */
static dt_status check_kind(const dt__vlite_call *c, const dt__vlite_tensor *x)
{
    const dt__vlite_tensor *y = c->y;
    if (x->type != y->type) return dt__vlite_refuse(c, "its result has another type");
    if (x->scales != y->scales ||
        (x->scales == 1 && (x->scale[0] != y->scale[0] || x->zero[0] != y->zero[0]))) {
        return dt__vlite_refuse(c, "its result has another scale or zero point");
    }
    return DT_OK;
}

/* y[to] = x[from] */
static void copy(dt__vlite_tensor *y, int64_t to, const dt__vlite_tensor *x, int64_t from)
{
    if (y->f != NULL) y->f[to] = x->f[from];
    else y->q[to] = x->q[from];
}

/* The extents in a RESHAPE's list, one of which may be -1. */
static dt_status find_shape(const dt__vlite_call *c)
{
    int n, open = -1;
    int64_t dims[2 * DT__VLITE_RANK], rest = c->in[0]->count;
    DT__TRY(dt__vlite_list(c, 1, &n, dims));
    for (int i = 0; i < n; i++) {
        if (dims[i] == -1 && open < 0) open = i;
        else if (dims[i] > 0 && rest % dims[i] == 0) rest /= dims[i];
        else if (dims[i] != 0 || c->in[0]->count != 0)
            return dt__vlite_refuse(c, "its operand has another number of elements than its shape");
    }
    if (open >= 0) dims[open] = rest;
    return dt__vlite_wants(c, n, dims);
}

dt_status dt__vlite_reshape(dt__vlite_call *c)
{
    DT__TRY(check_kind(c, c->in[0]));
    if (c->n_in > 1) DT__TRY(find_shape(c));
    if (c->in[0]->count != c->y->count)
        return dt__vlite_refuse(c, "another number of elements than its input");
    for (int64_t i = 0; i < c->y->count; i++) copy(c->y, i, c->in[0], i);
    return DT_OK;
}

/* Inputs that are lists of indices and axes are not moved. */
dt_status dt__vlite_move(dt__vlite_call *c)
{
    for (int k = 0; k < c->op->n_out; k++) {
        c->y = dt__vlite_result(c, k);
        for (int i = 0; i < c->n_in; i++) {
            if (c->in[i] == NULL) return dt__vlite_refuse(c, "input %d is missing", i);
            if (c->in[i]->type == DT__VLITE_I32 && c->y->type != DT__VLITE_I32) continue;
            DT__TRY(check_kind(c, c->in[i]));
        }
    }
    return dt__vlite_nodes(c);
}

/* LiteRT does not support negative indices. */
dt_status dt__vlite_gather(dt__vlite_call *c)
{
    int axis;
    const dt__vlite_tensor *x = c->in[0], *index = c->in[1];
    if (index->type != DT__VLITE_I32) {
        return dt__vlite_refuse(c, "its indices are not 32-bit integers");
    }
    DT__TRY(dt__vlite_axis(c, c->op->option[0], x->rank, &axis));
    for (int64_t i = 0; i < index->count; i++) {
        if (index->q[i] >= 0 && index->q[i] < x->dims[axis]) continue;
        return dt__vlite_refuse(c, "place %lld is outside of its input", (long long)index->q[i]);
    }
    return dt__vlite_move(c);
}

/* Pixel i of n is pixel floor(i in / n) of the input. */
dt_status dt__vlite_resize_nearest(dt__vlite_call *c)
{
    const dt__vlite_tensor *x = c->in[0];
    int n;
    int64_t size[2 * DT__VLITE_RANK];
    DT__TRY(check_kind(c, x));
    DT__TRY(dt__vlite_list(c, 1, &n, size));
    if (n != 2 || x->rank != 4 || c->op->option[0] != 0 || c->op->option[1] != 0) {
        return dt__vlite_refuse(c, "a form of resizing that is not read");
    }
    const int64_t dims[] = { x->dims[0], size[0], size[1], x->dims[3] };
    DT__TRY(dt__vlite_wants(c, 4, dims));
    for (int64_t i = 0; i < c->y->count; i++) {
        const int64_t o = i % dims[3], s = i / dims[3] % dims[2],
                      r = i / dims[3] / dims[2] % dims[1];
        const int64_t image = i / dims[3] / dims[2] / dims[1];
        const int64_t row = r * x->dims[1] / dims[1], column = s * x->dims[2] / dims[2];
        copy(c->y, i, x, ((image * x->dims[1] + row) * x->dims[2] + column) * dims[3] + o);
    }
    return DT_OK;
}
