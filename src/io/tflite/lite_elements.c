/* Reads elementwise, reducing and rearranging operators of a TFLite file as layers. */
#include "io/tflite/lite_layers.h"

#include <math.h>
#include <string.h>

static bool same_place(const dt__lite_place *a, const dt__lite_place *b)
{
    return memcmp(a->axis, b->axis, sizeof a->axis) == 0 &&
           memcmp(a->flat, b->flat, sizeof a->flat) == 0;
}

/* The index in the layer's order of the element `at` (indices in the file's order). */
static int64_t element_of(const dt__vlite_tensor *t, const int64_t *dims, const int *axis, int rank,
                          int64_t at)
{
    int64_t index[4] = { 0 }, place = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        index[axis[d + rank - t->rank]] = at % t->dims[d];
        at /= t->dims[d];
    }
    for (int d = 1; d < rank; d++) place = place * dims[d - 1] + index[d];
    return place;
}

/* Whether x - c has the codes of x + (-c) for a constant c: the kernel rounds c, rescaled to the
 * sum's scale, with ties up. */
static bool subtracts_evenly(const dt__vlite_tensor *x, const dt__vlite_tensor *c)
{
    const double own = (double)c->scale[0];
    const dt__vlite_factor by = dt__vlite_factor_of(own / (2 * fmax((double)x->scale[0], own)));
    for (int64_t i = 0; i < c->count; i++) {
        const int64_t v = (int64_t)(c->q[i] - c->zero[0]) * (1 << 20);
        if (dt__vlite_requantize(v, by) != -dt__vlite_requantize(-v, by)) return false;
    }
    return true;
}

/* A sum, difference or product with a constant: a layer with its dequantized values. */
static dt_status with_constant(dt__lite_import *m, const dt__vlite_op *o, int at, const char *entry)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    DT__TRY(dt__lite_value_of(m, o, 1 - at, &p));
    const dt__vlite_tensor *t = dt__lite_tensor_of(m, o->in[at]);
    const dt__lite_place like = *p;
    const int rank = dt__lite_tensor_of(m, o->in[1 - at])->rank;
    if (!dt__vlite_is_coded(t) || t->rank > rank || rank > 4 ||
        (t->rank == rank && t->dims[0] != 1) || (like.flat[0] > 0 && t->count > 1)) {
        return dt__onnx_refuse(m->g, "its input %d is constant, of other dimensions", at);
    }
    const bool minus = o->code == DT__VLITE_SUB;
    const dt__vlite_tensor *x = dt__lite_tensor_of(m, o->in[1 - at]);
    if (minus && (at == 0 || !dt__vlite_is_coded(x) || !subtracts_evenly(x, t))) {
        return dt__onnx_refuse(m->g, at == 0 ? "its input 0 is constant"
                                             : "its input 1 is constant, with halves of codes");
    }
    DT__TRY(dt__onnx_new(m->g, "affine", &l));
    dt_affine_options *to = &((dt_affine_layer *)l->options)->affine;
    to->scale = strcmp(entry, "weight") == 0;
    to->bias = !to->scale;
    to->shape.n = rank - 1;
    for (int d = 1; d < rank; d++) {
        const int own = d - (rank - t->rank);
        to->shape.v[like.axis[d] - 1] = own < 0 ? 1 : t->dims[own];
    }
    float *number = dt__onnx_memory(m->g, t->count, sizeof *number);
    if (number == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < t->count; i++) {
        number[element_of(t, to->shape.v, like.axis, rank, i)] =
            t->scale[0] * (float)(minus ? t->zero[0] - t->q[i] : t->q[i] - t->zero[0]);
    }
    DT__TRY(dt__onnx_weigh_floats(m->g, l, entry, number, t->count));
    dt__onnx_read_from(l, p->layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put_activated(m, o, l, o->option[0], &like);
}

dt_status dt__lite_read_pair(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *a, *b;
    dt__onnx_layer *l;
    for (int i = 0; i < 2 && o->n_in == 2; i++) {
        const dt__vlite_tensor *t = dt__lite_tensor_of(m, o->in[i]);
        if (t == NULL || !t->constant) continue;
        return with_constant(m, o, i, o->code == DT__VLITE_MUL ? "weight" : "bias");
    }
    DT__TRY(dt__lite_value_of(m, o, 0, &a));
    DT__TRY(dt__lite_value_of(m, o, 1, &b));
    const int rank = dt__lite_tensor_of(m, o->in[0])->rank;
    if (!same_place(a, b) || rank != dt__lite_tensor_of(m, o->in[1])->rank) {
        return dt__onnx_refuse(m->g, "its inputs have other dimensions");
    }
    const dt__lite_place like = *a;
    DT__TRY(dt__onnx_new(m->g, dt__lite_shared_layer(o), &l));
    dt__onnx_read_from(l, a->layer);
    dt__onnx_read_from(l, b->layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put_activated(m, o, l, o->option[0], &like);
}

static dt_status map(dt__lite_import *m, const dt__vlite_op *o, const char *kind)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    const dt__lite_place like = *p;
    DT__TRY(dt__onnx_simple(m->g, kind, p->layer, &l));
    return dt__lite_put(m, o, l, l, &like);
}

/* An elementwise function with a scale of its own. RELU and RELU6 may become a clamp of the layer
 * before (lite_codes.c). */
dt_status dt__lite_read_map(dt__lite_import *m, const dt__vlite_op *o)
{
    return map(m, o, dt__lite_shared_layer(o));
}

dt_status dt__lite_read_gelu(dt__lite_import *m, const dt__vlite_op *o)
{
    return map(m, o, o->option[0] != 0 ? "gelu_tanh" : "gelu");
}

/* A prelu layer with n slopes. */
static dt_status sloped(dt__lite_import *m, const dt__vlite_op *o, const float *slope, int64_t n)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    const dt__lite_place like = *p;
    DT__TRY(dt__onnx_new(m->g, "prelu", &l));
    ((dt_prelu_layer *)l->options)->shared = n == 1;
    DT__TRY(dt__onnx_weigh_floats(m->g, l, "weight", slope, n));
    dt__onnx_read_from(l, p->layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put(m, o, l, l, &like);
}

/* The slope's code is 1 or -1 (lite_codes.c), so that both operators use the same factor. */
dt_status dt__lite_read_leaky(dt__lite_import *m, const dt__vlite_op *o)
{
    return sloped(m, o, &o->real, 1);
}

dt_status dt__lite_read_prelu(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    const dt__vlite_tensor *t;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    DT__TRY(dt__lite_constant_of(m, o, 1, &t));
    const int rank = dt__lite_tensor_of(m, o->in[0])->rank;
    const int64_t last = t->rank > 0 ? t->dims[t->rank - 1] : 1;
    const bool channels = rank <= 4 && p->axis[rank - 1] == 1 && p->flat[0] == 0;
    if (!dt__vlite_is_coded(t) || t->count != last || (t->count > 1 && !channels)) {
        return dt__onnx_refuse(m->g, "its slopes are not one for each channel, the last dimension");
    }
    float *slope = dt__onnx_memory(m->g, t->count, sizeof *slope);
    if (slope == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < t->count; i++) {
        slope[i] = t->scale[0] * (float)(t->q[i] - t->zero[0]);
    }
    return sloped(m, o, slope, t->count);
}

/* ---- along dimensions ------------------------------------------------------------------------ */

/* Finds the layer's dimensions that an operator reduces, as bits, and the order of the other ones
 * in the result. */
static dt_status reduced(dt__lite_import *m, const dt__vlite_op *o, unsigned *over,
                         dt__lite_place *to)
{
    dt__lite_place *p;
    const dt__vlite_tensor *axes, *x = dt__lite_tensor_of(m, o->in[0]);
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    DT__TRY(dt__lite_constant_of(m, o, 1, &axes));
    *over = 0;
    *to = *p;
    for (int64_t i = 0; axes->type == DT__VLITE_I32 && i < axes->count; i++) {
        const int32_t axis = axes->q[i] < 0 ? axes->q[i] + x->rank : axes->q[i];
        if (axis > 0 && axis < x->rank && x->rank <= 4) *over |= 1u << p->axis[axis];
        else return dt__onnx_refuse(m->g, "it is over the batch, or over dimensions it has not");
    }
    if (*over == 0 || p->flat[0] > 0) return dt__onnx_refuse(m->g, "its dimensions are not known");
    if (o->option[0] != 0) return DT_OK;
    int n = 0;
    for (int i = 0; i < x->rank; i++) {
        int before = 0;
        for (int k = 0; k < p->axis[i]; k++) before += (*over >> k & 1) == 0;
        if ((*over >> p->axis[i] & 1) == 0) to->axis[n++] = before;
    }
    return DT_OK;
}

dt_status dt__lite_read_mean(dt__lite_import *m, const dt__vlite_op *o)
{
    unsigned over;
    dt__lite_place to;
    dt__onnx_layer *l;
    DT__TRY(reduced(m, o, &over, &to));
    DT__TRY(dt__onnx_new(m->g, "mean", &l));
    dt_reduce_options *r = &((dt_reduce_layer *)l->options)->reduce;
    r->keepdim = o->option[0] != 0;
    r->dims.n = 0;
    for (int d = 1; d < 4; d++) {
        if ((over >> d & 1) != 0) r->dims.v[r->dims.n++] = d;
    }
    dt__onnx_read_from(l, m->place[o->in[0]].layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put(m, o, l, l, &to);
}

/* REDUCE_MAX over all pixels of an image, as a pool with one window. */
dt_status dt__lite_read_largest(dt__lite_import *m, const dt__vlite_op *o)
{
    unsigned over;
    dt__lite_place to;
    dt__onnx_layer *x, *l;
    DT__TRY(reduced(m, o, &over, &to));
    DT__TRY(dt__lite_image_of(m, o, 0, &x));
    if (over != 12)
        return dt__onnx_refuse(m->g, "its axes are not 1 and 2, height and width of an image");
    dt__onnx_layer *source = m->place[o->in[0]].source;
    DT__TRY(dt__onnx_new(m->g, "max_pool2d", &l));
    dt_pool_options *p = &((dt_pool_layer *)l->options)->pool;
    for (int i = 0; i < 2; i++) p->kernel[i] = p->stride[i] = x->shape.dims[1 + i];
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(m->g, l));
    const dt_shape row = { .rank = 1, .dims = { x->shape.dims[0] } };
    if (o->option[0] == 0) DT__TRY(dt__onnx_reshaped(m->g, l, &row, &l));
    return dt__lite_put(m, o, l, source, &to);
}

dt_status dt__lite_read_softmax(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    if (o->real != 1 || p->layer->shape.rank != 1 || p->flat[0] > 0) {
        return dt__onnx_refuse(m->g,
                               "its beta is %g, or it is not of a row; beta 1 of a row is read",
                               (double)o->real);
    }
    DT__TRY(dt__onnx_new(m->g, "softmax", &l));
    ((dt_dim_layer *)l->options)->dim = 1;
    dt__onnx_read_from(l, p->layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put(m, o, l, l, p);
}

/* Whether int8 and uint8 codes have the same dequantized values. */
static bool same_numbers(const dt__vlite_tensor *a, const dt__vlite_tensor *b)
{
    return a->scales == 1 && b->scales == 1 && a->scale[0] == b->scale[0] &&
           a->zero[0] - (a->type == DT__VLITE_U8) * 128 ==
               b->zero[0] - (b->type == DT__VLITE_U8) * 128;
}

/* in codes: values nearer to a tie may be rounded differently with another library's exp */
#define TIE 0x1p-13

/* Whether a float ELU between DEQUANTIZE and QUANTIZE gives the same codes as an int8 ELU, for all
 * codes and any exp. */
static bool is_table(const dt__vlite_tensor *x, const dt__vlite_tensor *y)
{
    if (!dt__vlite_is_coded(y)) return false;
    for (int q = -128; q < 128; q++) {
        const double v = (double)x->scale[0] * (q - x->zero[0]);
        const double real = (v < 0 ? expm1(v) : v) / (double)y->scale[0];
        const bool kept = real > -129 - y->zero[0] && real < 128 - y->zero[0];
        if (kept && fabs(real - floor(real) - 0.5) < TIE) return false;
    }
    return true;
}

/* The result is the input, with another type or name. */
dt_status dt__lite_read_same(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    const dt__vlite_tensor *x = dt__lite_tensor_of(m, o->in[0]);
    const dt__vlite_tensor *y = dt__lite_tensor_of(m, o->out[0]);
    const bool bytes = x->type == DT__VLITE_U8 || (y != NULL && y->type == DT__VLITE_U8);
    if (bytes && (y == NULL || !same_numbers(x, y))) {
        return dt__onnx_refuse(m->g, "its uint8 and int8 do not mean the same numbers");
    }
    const dt__vlite_tensor *codes = dt__lite_codes_behind(m, o->in[0]);
    if (codes != NULL && (y == NULL || !is_table(codes, y))) {
        return dt__onnx_refuse(m->g, "it rounds an ELU of floats, which is halfway between codes");
    }
    const dt__lite_place own = *p;
    return dt__lite_put(m, o, own.layer, own.source, &own);
}

dt_status dt__lite_read_reshape(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *p, to = dt__lite_row;
    dt__onnx_layer *l;
    dt_status s;
    if (dt__lite_read_repeat(m, o, &s)) return s;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    const dt__lite_place from = *p;
    const dt__vlite_tensor *y = dt__lite_tensor_of(m, o->out[0]);
    if (y == NULL || y->rank < 2 || y->rank > 4 || y->dims[0] != 1) {
        return dt__onnx_refuse(m->g, "its result has no batch in front, or more dimensions than 4");
    }
    const dt__vlite_tensor *x = dt__lite_tensor_of(m, o->in[0]);
    if (x->rank == y->rank && memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims) == 0) {
        return dt__lite_put(m, o, from.layer, from.source, &from);
    }
    DT__TRY(dt__lite_row_of(m, &from, to.flat, &l));
    if (y->rank == 2) return dt__lite_put(m, o, l, l == from.layer ? from.source : l, &to);
    if (to.flat[0] > 0) DT__TRY(dt__lite_file_row(m, &from, &l));
    if (y->rank == 3) {
        const dt_shape lines = { .rank = 2, .dims = { y->dims[1], y->dims[2] } };
        DT__TRY(dt__onnx_reshaped(m->g, l, &lines, &l));
        return dt__lite_put(m, o, l, from.source, &dt__lite_row);
    }
    const dt_shape pixels = { .rank = 3, .dims = { y->dims[3], y->dims[1], y->dims[2] } };
    const dt_shape flat = { .rank = 2, .dims = { y->dims[1] * y->dims[2], y->dims[3] } };
    if (flat.dims[0] > 1 && flat.dims[1] > 1) { /* the layer's order has the channels first */
        DT__TRY(dt__onnx_reshaped(m->g, l, &flat, &l));
        DT__TRY(dt__onnx_permuted(m->g, l, (const int[]){ 0, 2, 1 }, &l));
    }
    DT__TRY(dt__onnx_reshaped(m->g, l, &pixels, &l));
    return dt__lite_put(m, o, l, from.source, &dt__lite_image);
}

dt_status dt__lite_read_transpose(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    const dt__vlite_tensor *order;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    DT__TRY(dt__lite_constant_of(m, o, 1, &order));
    const dt__lite_place from = *p;
    dt__lite_place to = from;
    const int rank = dt__lite_tensor_of(m, o->in[0])->rank;
    if (order->type != DT__VLITE_I32 || order->count != rank || rank > 4 || order->q[0] != 0) {
        return dt__onnx_refuse(m->g, "its order is not that of %d dimensions, the batch first",
                               rank);
    }
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        if (order->q[i] < 0 || order->q[i] >= rank || (seen >> order->q[i] & 1) != 0) {
            return dt__onnx_refuse(m->g, "its order is none of %d dimensions", rank);
        }
        seen |= 1u << order->q[i];
        to.axis[i] = from.axis[order->q[i]];
    }
    return dt__lite_put(m, o, from.layer, from.source, &to);
}

dt_status dt__lite_read_concat(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *first, *p;
    dt__onnx_layer *l;
    DT__TRY(dt__lite_value_of(m, o, 0, &first));
    const int rank = dt__lite_tensor_of(m, o->in[0])->rank;
    int64_t axis = (int32_t)o->option[0];
    if (axis < 0) axis += rank;
    if (o->n_in > DT_MAX_IN || axis < 1 || axis >= rank || rank > 4 || first->flat[0] > 0) {
        return dt__onnx_refuse(m->g, "it has %d inputs along dimension %lld; at most %d are read",
                               o->n_in, (long long)axis, DT_MAX_IN);
    }
    DT__TRY(dt__onnx_new(m->g, "concat", &l));
    ((dt_concat_layer *)l->options)->dim = first->axis[axis];
    for (int i = 0; i < o->n_in; i++) {
        DT__TRY(dt__lite_value_of(m, o, i, &p));
        if (!same_place(p, first)) return dt__onnx_refuse(m->g, "its inputs have other dimensions");
        dt__onnx_read_from(l, p->layer);
    }
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put_activated(m, o, l, o->option[1], first);
}

/* One of the three lists of STRIDED_SLICE: one number per dimension. */
static dt_status slice_list(dt__lite_import *m, const dt__vlite_op *o, int i, int rank,
                            const int32_t **out)
{
    const dt__vlite_tensor *t;
    DT__TRY(dt__lite_constant_of(m, o, i, &t));
    *out = t->q;
    if (t->type == DT__VLITE_I32 && t->count == rank && rank <= 4) return DT_OK;
    return dt__onnx_refuse(m->g, "its places are not numbers for %d dimensions", rank);
}

dt_status dt__lite_read_slice(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    const int32_t *begin, *end, *step;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    const dt__vlite_tensor *x = dt__lite_tensor_of(m, o->in[0]);
    const dt__lite_place from = *p;
    dt__onnx_layer *l = from.layer;
    DT__TRY(slice_list(m, o, 1, x->rank, &begin));
    DT__TRY(slice_list(m, o, 2, x->rank, &end));
    DT__TRY(slice_list(m, o, 3, x->rank, &step));
    if ((o->option[2] | o->option[3] | o->option[4]) != 0 || from.flat[0] > 0) {
        return dt__onnx_refuse(m->g, "it makes, drops or guesses dimensions");
    }
    for (int d = 0; d < x->rank; d++) {
        const int64_t n = x->dims[d], first = begin[d] < 0 ? begin[d] + n : begin[d];
        const int64_t past = end[d] < 0 ? end[d] + n : dt__min_i64(end[d], n);
        const int64_t range[] = { (o->option[0] >> d & 1) != 0 ? 0 : first,
                                  (o->option[1] >> d & 1) != 0 ? n : past, step[d] };
        const bool whole = range[0] == 0 && range[1] == n && step[d] == 1;
        if (step[d] < 1 || range[0] < 0 || range[1] <= range[0] || (d == 0 && !whole)) {
            return dt__onnx_refuse(m->g,
                                   "dimension %d is cut to nothing, backwards, or is the "
                                   "batch",
                                   d);
        }
        if (!whole) DT__TRY(dt__onnx_sliced(m->g, l, from.axis[d], range, &l));
    }
    return dt__lite_put(m, o, l, l == from.layer ? from.source : l, &from);
}

/* The padding value: zero, or for PADV2 a constant. */
static dt_status padded_value(dt__lite_import *m, const dt__vlite_op *o, double *value)
{
    const dt__vlite_tensor *v;
    *value = 0;
    if (o->n_in < 3) return DT_OK;
    DT__TRY(dt__lite_constant_of(m, o, 2, &v));
    if (v->count != 1 || !dt__vlite_is_coded(v)) {
        return dt__onnx_refuse(m->g, "its padding is not a number");
    }
    *value = (double)(v->q[0] - v->zero[0]) * (double)v->scale[0];
    return DT_OK;
}

dt_status dt__lite_read_pad(dt__lite_import *m, const dt__vlite_op *o)
{
    dt__lite_place *p;
    dt__onnx_layer *l;
    const dt__vlite_tensor *pads;
    DT__TRY(dt__lite_value_of(m, o, 0, &p));
    DT__TRY(dt__lite_constant_of(m, o, 1, &pads));
    const int rank = dt__lite_tensor_of(m, o->in[0])->rank;
    const dt__lite_place from = *p;
    if (pads->type != DT__VLITE_I32 || pads->count != 2 * rank || rank > 4 || from.flat[0] > 0) {
        return dt__onnx_refuse(m->g, "its padding does not fit %d dimensions", rank);
    }
    DT__TRY(dt__onnx_new(m->g, "pad", &l));
    dt_pad_options *to = &((dt_pad_layer *)l->options)->pad;
    to->pads.n = 2 * (rank - 1);
    DT__TRY(padded_value(m, o, &to->value));
    for (int i = 0; i < rank; i++) {
        for (int k = 0; k < 2; k++) {
            const int64_t n = pads->q[2 * i + k];
            if (n < 0 || (i == 0 && n != 0)) return dt__onnx_refuse(m->g, "its padding is wrong");
            if (i > 0) to->pads.v[2 * (rank - 1 - from.axis[i]) + k] = n;
        }
    }
    dt__onnx_read_from(l, from.layer);
    DT__TRY(dt__onnx_add(m->g, l));
    return dt__lite_put(m, o, l, l, &from);
}
