/* Language models in ONNX: quantized embedding tables, rotary position embeddings by tables of
 * cosines and sines, attention as products with a mask. With `past`, keys and values of earlier
 * tokens are inputs, [batch, heads, past, width], and those of all tokens outputs. */
#include "export/onnx/onnx_put_model.h"

#include "kernels/exp.h"
#include "ops/attention/rotary_frequency.h"

#include <math.h>
#include <stdio.h>

/* ---- embedding ------------------------------------------------------------------------------- */

static dt__value rows_at(dt__put *p, dt__value table, dt__value index)
{
    dt__value y = DT__PUT(p, "Gather", table, index);
    if (y != NULL) dt__put_attr_int(p, "axis", 0);
    return y;
}

/* One number per group of a row of the table, [rows, groups, 1]. */
static dt__value table_of(dt__put *p, const dt__put_weight *w, const float *scale,
                          const int8_t *zero)
{
    const int64_t dims[] = { w->rows, w->groups, 1 }, n = w->rows * w->groups;
    if (zero == NULL) {
        return dt__put_tensor(p, &(dt__put_array){ .name = w->name,
                                                   .type = DT__PUT_FLOAT,
                                                   .rank = 3,
                                                   .dims = dims,
                                                   .data = scale,
                                                   .bytes = (size_t)n * sizeof *scale });
    }
    return dt__put_tensor(p, &(dt__put_array){ .name = w->name,
                                               .type = DT__PUT_INT8,
                                               .rank = 3,
                                               .dims = dims,
                                               .data = zero,
                                               .bytes = (size_t)n });
}

/* Selected rows of codes, dequantized: the table stays quantized in memory. Only for rows of whole
 * groups. */
static dt__value rows_of_codes(dt__put *p, const dt__put_weight *w, dt__value index)
{
    const int64_t dims[] = { w->rows, w->groups, w->group };
    const dt__put_codes codes = { w->name, w->bits, 3, dims, w->codes };
    dt__value y = rows_at(p, dt__put_codes_as(p, &codes, DT__PUT_INT8), index);
    y = dt__put_cast(p, y, DT__PUT_FLOAT);
    if (w->zero_point != NULL) {
        dt__value zero = rows_at(p, table_of(p, w, NULL, w->zero_point), index);
        y = DT__PUT(p, "Sub", y, dt__put_cast(p, zero, DT__PUT_FLOAT));
    }
    return DT__PUT(p, "Mul", y, rows_at(p, table_of(p, w, w->scale, NULL), index));
}

static void put_embedding(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *v = dt_trace_value_at(m->trace, c->out[0]);
    dt__value index = dt__put_in(m, c, 1), y = NULL;
    dt__put_rows r;
    if (dt_trace_value_at(m->trace, c->in[1].value)->dtype == DT_F32) {
        index = dt__put_cast(&m->p, index, DT__PUT_INT64);
    }
    if (c->in[0].quant == NULL) {
        dt__put_out(m, c, 0, rows_at(&m->p, dt__put_in(m, c, 0), index));
        return;
    }
    if (dt__put_rows_of(m, c, 0, &r) == DT_OK) {
        const bool whole =
            r.w.order == NULL && r.w.real == NULL && r.w.columns == r.w.groups * r.w.group;
        if (whole) y = dt__put_reshaped(m, rows_of_codes(&m->p, &r.w, index), v->rank, v->extent);
        else y = rows_at(&m->p, dt__put_matrix(&m->p, &r.w, false), index);
    }
    dt__put_rows_free(m, &r);
    dt__put_out(m, c, 0, y);
}

/* ---- rotary ---------------------------------------------------------------------------------- */

static bool takes_rotary(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    const dt_rotary_options *o = c->options;
    const int64_t context = dt_trace_context(t);
    if (context > 0 && (o->scaling != DT_ROPE_LONGROPE || context <= o->original_context)) {
        return true;
    }
    if (context > 0) {
        snprintf(why, size,
                 "longrope takes other divisors in texts of more than %lld tokens, and the model's "
                 "context is %lld",
                 (long long)o->original_context, (long long)context);
    } else {
        snprintf(why, size, "the model's context is not known, which the tables of angles need");
    }
    return false;
}

/* Table of cosines or sines, [context, 1, pairs]. */
static dt__value angles(dt__put_model *m, const dt_trace_call *c, int64_t pairs, bool sine)
{
    const int64_t context = dt_trace_context(m->trace), n = context * pairs;
    float *table = dt__put_memory(&m->p, n, sizeof *table);
    if (table == NULL) return NULL;
    const double amplitude = dt__rotary_amplitude(c->options);
    for (int64_t j = 0; j < pairs; j++) {
        const double frequency = dt__rotary_frequency(c->options, j, pairs);
        for (int64_t i = 0; i < context; i++) {
            double s, k;
            dt__sin_cos((double)i * frequency, &s, &k);
            table[i * pairs + j] = (float)(amplitude * (sine ? s : k));
        }
    }
    const int64_t dims[] = { context, 1, pairs };
    return dt__put_tensor(&m->p, &(dt__put_array){ .type = DT__PUT_FLOAT,
                                                   .rank = 3,
                                                   .dims = dims,
                                                   .data = table,
                                                   .lent = true,
                                                   .bytes = (size_t)n * sizeof *table });
}

/* Elements from, from + step, ... below `to` along the last dimension. */
static dt__value part(dt__put *p, dt__value x, int64_t from, int64_t to, int64_t step)
{
    return DT__PUT(p, "Slice", x, DT__PUT_I64(p, from), DT__PUT_I64(p, to), DT__PUT_I64(p, -1),
                   DT__PUT_I64(p, step));
}

static dt__value joined(dt__put *p, dt__value a, dt__value b, int64_t axis)
{
    dt__value y = DT__PUT(p, "Concat", a, b);
    if (y != NULL) dt__put_attr_int(p, "axis", axis);
    return y;
}

/* Joins both elements of the pairs in the order of the layout. */
static dt__value paired(dt__put_model *m, dt__value u, dt__value v, bool interleaved,
                        const dt_extent *extent)
{
    dt__put *p = &m->p;
    if (!interleaved) return joined(p, u, v, -1);
    dt__value last = DT__PUT_I64(p, -1);
    u = DT__PUT(p, "Unsqueeze", u, last);
    v = DT__PUT(p, "Unsqueeze", v, last);
    return dt__put_reshaped(m, joined(p, u, v, -1), 4, extent);
}

static void put_rotary(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_rotary_options *o = c->options;
    const dt_trace_value *xv = dt__put_operand(m, c, 0);
    const int64_t width = xv->extent[3].size;
    const int64_t turning = o->rotary_dim > 0 ? o->rotary_dim : width, pairs = turning / 2;
    const bool mixed = o->pairing == DT_ROTARY_INTERLEAVED;
    dt__value x = dt__put_in(m, c, 0), position = dt__put_in(m, c, 1);
    dt__value cosine = rows_at(p, angles(m, c, pairs, false), position);
    dt__value sine = rows_at(p, angles(m, c, pairs, true), position);
    dt__value u = mixed ? part(p, x, 0, turning, 2) : part(p, x, 0, pairs, 1);
    dt__value v = mixed ? part(p, x, 1, turning, 2) : part(p, x, pairs, turning, 1);
    dt__value first = DT__PUT(p, "Sub", DT__PUT(p, "Mul", u, cosine), DT__PUT(p, "Mul", v, sine));
    dt__value second = DT__PUT(p, "Add", DT__PUT(p, "Mul", u, sine), DT__PUT(p, "Mul", v, cosine));
    dt_extent extent[4] = { xv->extent[0], xv->extent[1], xv->extent[2], { turning, 0, 0 } };
    dt__value y = paired(m, first, second, mixed, extent);
    if (turning < width) y = joined(p, y, part(p, x, turning, width, 1), -1);
    dt__put_out(m, c, 0, y);
}

/* ---- attention ------------------------------------------------------------------------------- */

enum { Q, K, V, MASK, DOCUMENT };

static bool takes_attention(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    (void)t;
    if (!dt__trace_has(c, MASK) && !dt__trace_has(c, DOCUMENT)) return true;
    snprintf(why, size, "a mask of keys, or documents");
    return false;
}

/* Keys or values after those of earlier tokens, [batch, heads, tokens, width]. */
static dt__value with_past(dt__put_model *m, const dt_trace_call *c, int i, dt__value x)
{
    if (!m->call->options->past) return x;
    char name[80];
    const char *what = i == K ? "key" : "value";
    const dt_trace_value *v = dt__put_operand(m, c, i);
    snprintf(name, sizeof name, "past_key_values.%lld.%s", (long long)m->layers, what);
    dt__value past = dt__put_past_input(m, name);
    dt__value y = joined(&m->p, past, x, 2);
    snprintf(name, sizeof name, "present.%lld.%s", (long long)m->layers, what);
    dt__put_output(&m->p,
                   &(dt__put_port){ .name = name,
                                    .type = DT__PUT_FLOAT,
                                    .rank = 4,
                                    .dim = { { "batch", 0 },
                                             { NULL, v->extent[2].size },
                                             { "total_length", 0 },
                                             { NULL, v->extent[3].size } } },
                   y);
    return y;
}

/* x, or -infinity where `mask` is false. */
static dt__value masked(dt__put *p, dt__value mask, dt__value x)
{
    return DT__PUT(p, "Where", mask, x, dt__put_f32(p, -INFINITY));
}

/* Masks the scores [..., queries, keys]: of Tq queries and Tk keys, query r has position p = r + Tk
 * - Tq, and attends to keys s with s <= p and s > p - window. */
static dt__value put_mask(dt__put_model *m, const dt_trace_call *c, dt__value keys,
                          dt__value scores)
{
    const int64_t window = ((const dt_attention_options *)c->options)->window;
    dt__put *p = &m->p;
    const dt_extent none = { 0 };
    const dt_extent queries = dt__put_operand(m, c, Q)->extent[1];
    dt__value scalar = dt__put_extents(m, 0, &none);
    dt__value n = DT__PUT(p, "Gather", DT__PUT(p, "Shape", keys), DT__PUT_I64(p, 2));
    dt__value start = DT__PUT(p, "Sub", n, dt__put_extent_of(m, queries));
    dt__value zero = DT__PUT(p, "Reshape", DT__PUT_I64(p, 0), scalar);
    dt__value one = DT__PUT(p, "Reshape", DT__PUT_I64(p, 1), scalar);
    n = DT__PUT(p, "Reshape", n, scalar);
    dt__value key = DT__PUT(p, "Range", zero, n, one);
    dt__value query = DT__PUT(p, "Range", DT__PUT(p, "Reshape", start, scalar), n, one);
    query = DT__PUT(p, "Unsqueeze", query, DT__PUT_I64(p, 1));
    scores = masked(p, DT__PUT(p, "LessOrEqual", key, query), scores);
    if (window == 0) return scores;
    query = DT__PUT(p, "Sub", query, DT__PUT_I64(p, window - 1));
    return masked(p, DT__PUT(p, "LessOrEqual", query, key), scores);
}

static void put_attention(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_attention_options *o = c->options;
    const dt_extent *q = dt__put_operand(m, c, Q)->extent, *k = dt__put_operand(m, c, K)->extent;
    const double scale = o->scale != 0 ? o->scale : 1 / sqrt((double)q[3].size);
    const int64_t heads = q[2].size, kv = k[2].size;
    const dt_extent by_kv[] = { q[0], { kv, 0, 0 }, { heads / kv, 0, 0 }, q[1], q[3] };
    const dt_extent flat[] = { q[0], { heads, 0, 0 }, q[1], q[3] };
    m->near = true;
    m->float_products++;
    dt__value queries = DT__PUT_TRANSPOSE(p, dt__put_in(m, c, Q), 0, 2, 1, 3);
    dt__value keys = DT__PUT_TRANSPOSE(p, dt__put_in(m, c, K), 0, 2, 1, 3);
    dt__value values = DT__PUT_TRANSPOSE(p, dt__put_in(m, c, V), 0, 2, 1, 3);
    keys = with_past(m, c, K, keys);
    values = with_past(m, c, V, values);
    queries = dt__put_reshaped(m, queries, 5, by_kv);
    dt__value of_groups = DT__PUT(p, "Unsqueeze", keys, DT__PUT_I64(p, 2));
    values = DT__PUT(p, "Unsqueeze", values, DT__PUT_I64(p, 2));
    dt__value s = DT__PUT(p, "MatMul", queries, DT__PUT_TRANSPOSE(p, of_groups, 0, 1, 2, 4, 3));
    s = DT__PUT(p, "Mul", s, dt__put_f32(p, (float)scale));
    if (o->causal) s = put_mask(m, c, keys, s);
    s = DT__PUT(p, "Softmax", s);
    if (s != NULL) dt__put_attr_int(p, "axis", -1);
    dt__value y = dt__put_reshaped(m, DT__PUT(p, "MatMul", s, values), 4, flat);
    dt__put_out(m, c, 0, DT__PUT_TRANSPOSE(p, y, 0, 2, 1, 3));
    m->layers++;
}

const dt__put_emitter dt__put_language[] = {
    { "embedding", "Gather, Cast, Mul", NULL, put_embedding },
    { "rotary", "Gather, Slice, Mul, Sub, Add, Concat", takes_rotary, put_rotary },
    { "attention", "MatMul, Mul, Where, Softmax, Concat", takes_attention, put_attention },
    { NULL, NULL, NULL, NULL },
};
