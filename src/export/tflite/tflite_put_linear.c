/* Linear layers of TFLite: FULLY_CONNECTED, weights [outputs, inputs]. */
#include "export/tflite/tflite_put_model.h"

#include "autograd/op.h"

#include <stdio.h>

enum { X, WEIGHT, BIAS, RESIDUAL };
enum { F_ACTIVATION, F_KEEP_DIMS = 2, F_ASYMMETRIC };

/* Versions of FULLY_CONNECTED that introduced: int8; keep_num_dims; 4 bits; one scale per channel
 * with dynamic inputs; blocks. */
enum { HAS_CODES = 4, KEEPS_DIMS = 5, HAS_NIBBLES = 10, HAS_CHANNELS = 12, HAS_BLOCKS = 14 };

/* How a weight's columns correspond to inputs. */
typedef struct columns {
    int64_t own, padded;      /* columns of the weight, and in the file, where zeros follow */
    int64_t channels, pixels; /* inputs are [pixels, channels], columns [channels, pixels] */
} columns;

static int64_t from(const void *user, int64_t i)
{
    const columns *k = user;
    const int64_t row = i / k->padded, at = i % k->padded;
    if (at >= k->own) return -1;
    return row * k->own + at % k->channels * k->pixels + at / k->channels;
}

static int bias_of(dt__lite_model *m, const dt_trace_call *c, int i, int64_t n)
{
    const float *data = dt__lite_data(m, c, i);
    const dt_trace_value *v = dt__trace_has(c, i) ? dt__lite_operand(m, c, i) : NULL;
    return data == NULL ? -1 : dt__lite_floats(m, v->name, n, data);
}

/* The weight of operand i as a tensor; layers that share a weight share the tensor. */
static int weight_of(dt__lite_model *m, const dt_trace_call *c, int i, const dt__lite_weight *w,
                     const columns *k)
{
    int *kept = &m->weight[c->in[i].value];
    if (k->channels == 1 && *kept >= 0) return *kept;
    const dt__lite_order o = { .shape = { 2, { w->rows, k->padded } }, .from = from, .user = k };
    const int tensor = dt__lite_put_weight(m, w, &o);
    if (k->channels == 1) *kept = tensor;
    return tensor;
}

static int filled(dt__lite_model *m, int x, int64_t more)
{
    const int64_t none[DT__LITE_RANK] = { 0 };
    int64_t after[DT__LITE_RANK] = { 0 };
    const int last = dt__lite_shape_of(&m->p, x).rank - 1;
    if (last >= 0) after[last] = more;
    return dt__lite_padded(m, x, none, after, 0);
}

static int product(dt__lite_model *m, const dt_trace_call *c, int i, const dt__lite_weight *w)
{
    const bool coded = w->floats == NULL, blocks = coded && w->r.groups > 1;
    const dt__lite_value v = dt__lite_as_is(m, c, X);
    columns k = { w->columns, w->columns, 1, w->columns };
    int x = v.tensor;
    if (blocks) k.padded = w->r.groups * w->r.group;
    if (v.layout == DT__LITE_FLAT && k.padded == k.own && !blocks) {
        k.channels = v.channels;
        k.pixels = w->columns / v.channels;
    } else {
        x = filled(m, dt__lite_plain(m, c, X), k.padded - k.own);
    }
    const int weight = weight_of(m, c, i, w, &k), bias = bias_of(m, c, i + 1, w->rows);
    dt__lite_shape s = dt__lite_shape_of(&m->p, x);
    const bool keep = s.rank > 2;
    if (s.rank > 0) s.dims[s.rank - 1] = w->rows;
    const int y = DT__LITE(&m->p, FULLY_CONNECTED, &s, x, weight, bias);
    dt__lite_option(&m->p, F_ACTIVATION, DT__FLAT_BYTE, DT__LITE_NONE);
    dt__lite_option(&m->p, F_KEEP_DIMS, DT__FLAT_BYTE, keep);
    dt__lite_option(&m->p, F_ASYMMETRIC, DT__FLAT_BYTE, coded);
    if (keep) dt__lite_version(&m->p, KEEPS_DIMS);
    if (coded) dt__lite_version(&m->p, blocks ? HAS_BLOCKS : HAS_CHANNELS);
    if (bias >= 0 || !dt__trace_has(c, i + 1)) return y;
    return dt__lite_with(m, DT__LITE_ADD, y, dt__lite_plain(m, c, i + 1));
}

static int linear(dt__lite_model *m, const dt_trace_call *c, int i)
{
    const bool dynamic = dt__lite_is_dynamic(c, i);
    dt__lite_weight w;
    int y = -1;
    if (dynamic) m->integer_products++;
    else m->float_products++;
    if (dt__lite_weight_of(m, c, i, dynamic, &w) == DT_OK) y = product(m, c, i, &w);
    dt__lite_weight_free(m, &w);
    return y;
}

/* Fused activations do not occur, as the trace has no fused ops. */
static bool takes_linear(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    if (c->options != NULL && dt__trace_integer(c, "activation") != DT_ACT_NONE) {
        snprintf(why, size, "an activation is part of it");
        return false;
    }
    return dt__lite_takes_product(t, c, WEIGHT, why, size);
}

static void put_linear(dt__lite_model *m, const dt_trace_call *c)
{
    int y = linear(m, c, WEIGHT);
    if (dt__trace_has(c, RESIDUAL)) {
        y = dt__lite_with(m, DT__LITE_ADD, y, dt__lite_plain(m, c, RESIDUAL));
    }
    dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
}

/* int8: with 4 bits FULLY_CONNECTED supports only one scale per tensor. */
static int product_of_codes(dt__lite_model *m, const dt_trace_call *c, const dt__lite_layer *l)
{
    const dt__lite_value v = dt__lite_as_is(m, c, X);
    const int64_t n = l->w.rows, k = l->w.columns;
    columns order = { k, k, 1, k };
    int x = v.tensor;
    if (v.layout == DT__LITE_FLAT) {
        order.channels = v.channels;
        order.pixels = k / v.channels;
    } else {
        x = dt__lite_plain(m, c, X);
    }
    const dt__lite_order o = {
        .shape = { 2, { n, k } }, .from = from, .user = &order, .wide = !l->one_scale
    };
    const int weight = dt__lite_put_weight(m, &l->w, &o), bias = dt__lite_layer_bias(m, c, l);
    const dt__lite_shape s = { 2, { 1, n } };
    const int y = DT__LITE(&m->p, FULLY_CONNECTED, &s, x, weight, bias);
    dt__lite_option(&m->p, F_ACTIVATION, DT__FLAT_BYTE, dt__lite_activation(l->activation));
    dt__lite_option(&m->p, F_KEEP_DIMS, DT__FLAT_BYTE, 0);
    dt__lite_version(&m->p, l->w.r.bits <= 4 && l->one_scale ? HAS_NIBBLES : HAS_CODES);
    dt__lite_coded(m, y, dt__lite_result_of(m, c));
    return y;
}

void dt__lite_put_linear_codes(dt__lite_model *m, const dt_trace_call *c)
{
    dt__lite_layer l;
    int y = -1;
    if (dt__lite_layer_of(m, c, &l) == DT_OK) y = product_of_codes(m, c, &l);
    dt__lite_layer_free(m, &l);
    dt__lite_out(m, c, 0, y, DT__LITE_PLAIN);
}

/* An operand padded with leading extents of 1, as both operands must have the same rank. */
static int of_rank(dt__lite_model *m, const dt_trace_call *c, int i, int rank)
{
    const int x = dt__lite_plain(m, c, i);
    const dt__lite_shape own = dt__lite_shape_of(&m->p, x);
    dt__lite_shape s = { .rank = rank };
    const int more = rank - own.rank;
    for (int d = 0; d < rank; d++) s.dims[d] = d < more ? 1 : own.dims[d - more];
    return more == 0 ? x : dt__lite_reshaped(m, x, &s, -1);
}

static void put_matmul(dt__lite_model *m, const dt_trace_call *c)
{
    const dt__lite_shape s = dt__lite_plain_shape(dt__lite_result_of(m, c));
    m->float_products++;
    const int a = of_rank(m, c, 0, s.rank), b = of_rank(m, c, 1, s.rank);
    dt__lite_out(m, c, 0, DT__LITE(&m->p, BATCH_MATMUL, &s, a, b), DT__LITE_PLAIN);
}

const dt__lite_emitter dt__lite_linear[] = {
    { "linear", "FULLY_CONNECTED, ADD", false, takes_linear, put_linear },
    { "matmul", "BATCH_MATMUL", false, NULL, put_matmul },
    { NULL, NULL, false, NULL, NULL },
};
