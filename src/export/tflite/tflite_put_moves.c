/* Ops that move elements, in TFLite: exact. Images keep channels last. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The dimension in the file for dimension `dim` of operand 0; `last`: it is read with channels
 * last. */
static int axis_of(const dt__lite_model *m, const dt_trace_call *c, int64_t dim, bool last)
{
    const int rank = dt__lite_operand(m, c, 0)->rank, d = dt__trace_axis(dim, rank);
    return last ? dt__lite_last_axis(rank, d) : d;
}

static int operand(dt__lite_model *m, const dt_trace_call *c, int i, bool last)
{
    return last ? dt__lite_last(m, c, i) : dt__lite_plain(m, c, i);
}

/* Whether a reshape flattens [N, C, ...] of an image: elements keep the file's order. */
static bool flattens(const dt__lite_model *m, const dt_trace_call *c)
{
    const dt_trace_value *x = dt__lite_operand(m, c, 0), *y = dt__lite_result_of(m, c);
    return dt__lite_is_last(m, c, 0) && y->rank == 2 && x->extent[0].size == y->extent[0].size &&
           x->extent[0].batch == y->extent[0].batch;
}

static void put_reshape(dt__lite_model *m, const dt_trace_call *c)
{
    const dt_trace_value *y = dt__lite_result_of(m, c);
    const dt__lite_shape to = dt__lite_plain_shape(y);
    if (!flattens(m, c)) {
        const int x = dt__lite_plain(m, c, 0);
        dt__lite_out(m, c, 0, dt__lite_reshaped(m, x, &to, dt__lite_batch_of(y)), DT__LITE_PLAIN);
        return;
    }
    dt__lite_value v = dt__lite_as_is(m, c, 0);
    const dt__lite_shape from = dt__lite_shape_of(&m->p, v.tensor);
    v.channels = from.dims[3];
    v.layout = v.channels > 1 && v.channels < to.dims[1] ? DT__LITE_FLAT : DT__LITE_PLAIN;
    v.tensor = dt__lite_reshaped(m, v.tensor, &to, dt__lite_batch_of(y));
    dt__lite_out_as(m, c, v);
}

static void put_transpose(dt__lite_model *m, const dt_trace_call *c)
{
    const int rank = dt__lite_operand(m, c, 0)->rank;
    const int a = dt__trace_axis(dt__trace_integer(c, "dim0"), rank);
    const int b = dt__trace_axis(dt__trace_integer(c, "dim1"), rank);
    int64_t order[DT_MAX_RANK];
    for (int i = 0; i < rank; i++) order[i] = i;
    order[a] = b;
    order[b] = a;
    const int y = dt__lite_transposed(m, dt__lite_plain(m, c, 0), rank, order);
    dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
}

static void put_permute(dt__lite_model *m, const dt_trace_call *c)
{
    const int rank = dt__lite_operand(m, c, 0)->rank;
    const dt_ints *dims = dt__trace_list(c, "dims");
    int64_t order[DT_MAX_RANK];
    for (int i = 0; i < rank; i++) order[i] = dt__trace_axis(dims->v[i], rank);
    const int y = dt__lite_transposed(m, dt__lite_plain(m, c, 0), rank, order);
    dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
}

/* A bound of a slice, counted as in Python, for one example. */
static int64_t bound(const dt_trace_call *c, size_t list, int i, int64_t n)
{
    const size_t at = list + offsetof(dt_ints, v) + (size_t)i * sizeof(int64_t);
    int64_t v = dt_extent_at(dt_trace_option(c, at), 1, 1);
    if (v < 0) v += n;
    return dt__min_i64(dt__max_i64(v, 0), n);
}

/* Whether a slice selects parts *first ... *stop - 1 of a first dimension that consists of several
 * parts of the batch's length, such as steps and halves of states in recurrent networks. */
static bool takes_parts(const dt_trace_call *c, const dt_trace_value *from, int64_t *first,
                        int64_t *stop)
{
    const dt_slice_options *o = c->options;
    const size_t at = offsetof(dt_ints, v);
    if (from->rank == 0 || from->rank >= DT__LITE_RANK || from->extent[0].batch == 0 ||
        from->extent[0].size < 2 || o->dims.n != 1 ||
        dt__trace_axis(o->dims.v[0], from->rank) != 0 || (o->steps.n > 0 && o->steps.v[0] != 1)) {
        return false;
    }
    const dt_extent a = dt_trace_option(c, offsetof(dt_slice_options, starts) + at);
    const dt_extent b = dt_trace_option(c, offsetof(dt_slice_options, stops) + at);
    *first = a.size;
    *stop = b.size;
    return (a.batch == 1 || a.size == 0) && a.size >= 0 && b.batch == 1 && a.size < b.size &&
           b.size <= from->extent[0].size;
}

/* Reshapes x [k * batch, ...] to [k, batch, ...], where the parts can be selected for any batch. */
static int put_parts(dt__lite_model *m, int x, int64_t k, int64_t first, int64_t stop)
{
    dt__lite_shape part = dt__lite_shape_of(&m->p, x), whole = part;
    whole.rank++;
    memmove(whole.dims + 2, part.dims + 1, (size_t)dt__max_i64(0, part.rank - 1) * sizeof(int64_t));
    whole.dims[0] = k;
    whole.dims[1] = 1;
    x = dt__lite_reshaped(m, x, &whole, 1);
    dt__lite_slice s = dt__lite_whole(m, x);
    s.start[0] = first;
    s.stop[0] = stop;
    part.dims[0] = stop - first;
    return dt__lite_reshaped(m, dt__lite_sliced(m, x, &s), &part, 0);
}

static void put_slice(dt__lite_model *m, const dt_trace_call *c)
{
    const dt_slice_options *o = c->options;
    int64_t first, stop;
    const bool parts = takes_parts(c, dt__lite_operand(m, c, 0), &first, &stop);
    if (parts && !dt__lite_is_last(m, c, 0)) {
        const int64_t k = dt__lite_operand(m, c, 0)->extent[0].size;
        const int y = put_parts(m, dt__lite_plain(m, c, 0), k, first, stop);
        dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
        return;
    }
    const bool last = dt__lite_is_last(m, c, 0);
    const dt_trace_value *from = dt__lite_operand(m, c, 0);
    const int x = operand(m, c, 0, last);
    dt__lite_slice s = dt__lite_whole(m, x);
    for (int i = 0; i < o->dims.n; i++) {
        const int d = axis_of(m, c, o->dims.v[i], last);
        const int64_t n = s.stop[d];
        s.start[d] = bound(c, offsetof(dt_slice_options, starts), i, n);
        s.stop[d] = bound(c, offsetof(dt_slice_options, stops), i, n);
        s.step[d] = o->steps.n == 0 ? 1 : o->steps.v[i];
        const bool whole = s.start[d] == 0 && s.stop[d] == n && s.step[d] == 1;
        if (dt__trace_axis(o->dims.v[i], from->rank) == dt__lite_batch_of(from) && !whole)
            m->p.batched = false;
    }
    const int y = dt__lite_sliced(m, x, &s);
    dt__lite_out(m, c, 0, y, last ? DT__LITE_LAST : DT__LITE_PLAIN);
}

static void put_concat(dt__lite_model *m, const dt_trace_call *c)
{
    int in[DT_MAX_IN];
    bool last = false;
    for (int i = 0; i < c->n_in; i++) last = last || dt__lite_is_last(m, c, i);
    for (int i = 0; i < c->n_in; i++) in[i] = operand(m, c, i, last);
    const int axis = axis_of(m, c, dt__trace_integer(c, "dim"), last);
    const int y = dt__lite_joined(m, in, c->n_in, axis);
    dt__lite_out(m, c, 0, y, last ? DT__LITE_LAST : DT__LITE_PLAIN);
}

static bool takes_pad(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt_pad_options *o = c->options;
    (void)t;
    if (o->mode != DT_PAD_CONSTANT && o->mode != DT_PAD_REFLECT) {
        snprintf(why, size, "it repeats elements; the format pads with a constant, or reflects");
        return false;
    }
    for (int i = 0; i < o->pads.n; i++) {
        if (o->pads.v[i] >= 0) continue;
        snprintf(why, size, "its padding is negative");
        return false;
    }
    return true;
}

static void put_pad(dt__lite_model *m, const dt_trace_call *c)
{
    const dt_pad_options *o = c->options;
    const bool last = dt__lite_is_last(m, c, 0);
    const int rank = dt__lite_operand(m, c, 0)->rank, x = operand(m, c, 0, last);
    int64_t before[DT__LITE_RANK] = { 0 }, after[DT__LITE_RANK] = { 0 }, pads[2 * DT__LITE_RANK];
    for (int i = 0; i < o->pads.n; i++) {
        const int d = axis_of(m, c, rank - 1 - i / 2, last);
        if (i % 2 == 0) before[d] = o->pads.v[i];
        else after[d] = o->pads.v[i];
    }
    int y = x;
    if (o->mode == DT_PAD_CONSTANT) {
        y = dt__lite_padded(m, x, before, after, (float)o->value);
    } else {
        dt__lite_shape s = dt__lite_shape_of(&m->p, x);
        for (int d = 0; d < s.rank; d++) {
            s.dims[d] += before[d] + after[d];
            pads[2 * d] = before[d];
            pads[2 * d + 1] = after[d];
        }
        y = DT__LITE(&m->p, MIRROR_PAD, &s, x, dt__lite_ints(&m->p, s.rank, 2, pads));
        dt__lite_option(&m->p, 0, DT__FLAT_BYTE, 0);
    }
    dt__lite_out(m, c, 0, y, last ? DT__LITE_LAST : DT__LITE_PLAIN);
}

static void put_embedding(dt__lite_model *m, const dt_trace_call *c)
{
    const dt__lite_shape s = dt__lite_plain_shape(dt__lite_result_of(m, c));
    const int table = dt__lite_plain(m, c, 0);
    int index = dt__lite_plain(m, c, 1);
    if (index >= 0 && m->p.tensor[index].type == DT__LITE_FLOAT32) {
        const dt__lite_shape own = m->p.tensor[index].shape;
        index = DT__LITE(&m->p, CAST, &own, index);
        dt__lite_option(&m->p, 0, DT__FLAT_BYTE, DT__LITE_FLOAT32);
        dt__lite_option(&m->p, 1, DT__FLAT_BYTE, DT__LITE_INT32);
        if (index >= 0) m->p.tensor[index].type = DT__LITE_INT32;
    }
    const int y = DT__LITE(&m->p, GATHER, &s, table, index);
    dt__lite_option(&m->p, 0, DT__FLAT_INT, 0);
    dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
}

const dt__lite_emitter dt__lite_moves[] = {
    { "reshape", "RESHAPE", false, NULL, put_reshape },
    { "flatten", "RESHAPE", false, NULL, put_reshape },
    { "transpose", "TRANSPOSE", false, NULL, put_transpose },
    { "permute", "TRANSPOSE", false, NULL, put_permute },
    { "slice", "STRIDED_SLICE", false, NULL, put_slice },
    { "concat", "CONCATENATION", false, NULL, put_concat },
    { "pad", "PAD, PADV2, MIRROR_PAD", false, takes_pad, put_pad },
    { "embedding", "GATHER, CAST", false, NULL, put_embedding },
    { NULL, NULL, false, NULL, NULL },
};
