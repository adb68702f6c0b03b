/* Shared by emitters of TFLite: options, values and their layouts. */
#include "export/tflite/tflite_put_model.h"

#include "core/tensor.h"

#include <math.h>
#include <string.h>

int dt__lite_batch_of(const dt_trace_value *v)
{
    for (int i = 0; i < v->rank; i++) {
        if (v->extent[i].batch != 0) return i;
    }
    return -1;
}

const dt_trace_value *dt__lite_operand(const dt__lite_model *m, const dt_trace_call *c, int i)
{
    return dt_trace_value_at(m->trace, c->in[i].value);
}

const dt_trace_value *dt__lite_result_of(const dt__lite_model *m, const dt_trace_call *c)
{
    return dt_trace_value_at(m->trace, c->out[0]);
}

const float *dt__lite_data(const dt__lite_model *m, const dt_trace_call *c, int i)
{
    if (!dt__trace_has(c, i) || c->in[i].quant != NULL) return NULL;
    const dt_tensor *x = dt__lite_operand(m, c, i)->tensor;
    return x == NULL || x->dtype != DT_F32 ? NULL : dt__values(x);
}

dt__lite_shape dt__lite_plain_shape(const dt_trace_value *v)
{
    dt__lite_shape s = { .rank = v->rank };
    for (int i = 0; i < v->rank; i++) s.dims[i] = dt_extent_at(v->extent[i], 1, 1);
    return s;
}

static dt__lite_shape last_of(const dt__lite_shape *s)
{
    if (s->rank == 3) return (dt__lite_shape){ 4, { s->dims[0], 1, s->dims[2], s->dims[1] } };
    return (dt__lite_shape){ 4, { s->dims[0], s->dims[2], s->dims[3], s->dims[1] } };
}

dt__lite_shape dt__lite_last_shape(const dt_trace_value *v)
{
    const dt__lite_shape s = dt__lite_plain_shape(v);
    return last_of(&s);
}

int dt__lite_last_axis(int rank, int d)
{
    if (d < 0) d += rank;
    return d == 0 ? 0 : d == 1 ? 3 : rank == 3 ? 2 : d - 1;
}

static int64_t same(const void *user, int64_t i)
{
    (void)user;
    return i;
}

/* Expands a constant that is stored as one row per dimension of the batch to all rows of one
 * example; the state [h; c] of an LSTM has two. */
static const void *repeated(dt__lite_model *m, const dt_trace_value *v, int64_t count)
{
    const dt_tensor *x = v->tensor;
    const int d = dt__lite_batch_of(v);
    const size_t each = dt_dtype_size(x->dtype);
    int64_t inner = 1;
    for (int i = d + 1; i < x->rank; i++) inner *= x->dims[i];
    char *to = dt__lite_memory(&m->p, count, each);
    const char *from = dt__values(x);
    const int64_t rows = v->extent[d].size;
    for (int64_t i = 0; i < count && to != NULL; i++) {
        const int64_t own = i / (inner * rows) * inner + i % inner;
        memcpy(to + (size_t)i * each, from + (size_t)own * each, each);
    }
    return to;
}

/* A parameter or constant in its own shape. If it depends on the batch, all rows are equal, and one
 * example's are stored. */
static int constant_of(dt__lite_model *m, const dt_trace_value *v)
{
    const dt_tensor *x = v->tensor;
    const int64_t count = dt_trace_count(v, 1, 1);
    dt__lite_array a = { .name = *v->name == 0 ? NULL : v->name,
                         .type = x->dtype == DT_F32 ? DT__LITE_FLOAT32 : DT__LITE_INT32,
                         .shape = dt__lite_plain_shape(v),
                         .data = count == x->count ? dt__values(x) : repeated(m, v, count),
                         .bytes = (size_t)count * dt_dtype_size(x->dtype),
                         .lent = true };
    return a.data == NULL ? -1 : dt__lite_constant(&m->p, &a);
}

/* The dequantized weight, for an op that reads it as a tensor. */
static int dequantized_of(dt__lite_model *m, const dt_trace_call *c, int i)
{
    dt__lite_weight w;
    int y = -1;
    const dt_trace_value *v = dt__lite_operand(m, c, i);
    if (dt__lite_weight_of(m, c, i, false, &w) == DT_OK) {
        y = dt__lite_put_weight(
            m, &w, &(dt__lite_order){ .shape = dt__lite_plain_shape(v), .from = same });
    }
    dt__lite_weight_free(m, &w);
    return y;
}

static int last_from_plain(dt__lite_model *m, int x, const dt_trace_value *v)
{
    static const int64_t images[] = { 0, 2, 3, 1 }, rows[] = { 0, 2, 1 };
    const dt__lite_shape to = dt__lite_last_shape(v);
    const bool moves = to.dims[3] > 1 && to.dims[1] * to.dims[2] > 1;
    if (moves) x = dt__lite_transposed(m, x, v->rank, v->rank == 4 ? images : rows);
    return moves && v->rank == 4 ? x : dt__lite_reshaped(m, x, &to, dt__lite_batch_of(v));
}

static int plain_from_last(dt__lite_model *m, int x, const dt_trace_value *v)
{
    static const int64_t images[] = { 0, 3, 1, 2 }, rows[] = { 0, 2, 1 };
    const dt__lite_shape to = dt__lite_plain_shape(v), from = last_of(&to);
    const bool moves = from.dims[3] > 1 && from.dims[1] * from.dims[2] > 1;
    if (!moves) return dt__lite_reshaped(m, x, &to, dt__lite_batch_of(v));
    if (v->rank == 4) return dt__lite_transposed(m, x, 4, images);
    const dt__lite_shape three = { 3, { to.dims[0], to.dims[2], to.dims[1] } };
    return dt__lite_transposed(m, dt__lite_reshaped(m, x, &three, 0), 3, rows);
}

static int plain_from_flat(dt__lite_model *m, int x, int64_t channels, const dt_trace_value *v)
{
    const dt__lite_shape to = dt__lite_plain_shape(v);
    const dt__lite_shape three = { 3, { to.dims[0], to.dims[1] / channels, channels } };
    x = dt__lite_reshaped(m, x, &three, 0);
    x = dt__lite_transposed(m, x, 3, (const int64_t[]){ 0, 2, 1 });
    return dt__lite_reshaped(m, x, &to, 0);
}

/* The value of an operand; adds a constant to the graph first. */
static dt__lite_value *value_of(dt__lite_model *m, const dt_trace_call *c, int i)
{
    const dt_trace_value *v = dt__lite_operand(m, c, i);
    dt__lite_value *at = &m->value[c->in[i].value];
    if (v->tensor != NULL && dt__lite_batch_of(v) >= 0) m->p.batched = false;
    if (at->tensor >= 0 || v->tensor == NULL) return at;
    at->tensor = c->in[i].quant != NULL ? dequantized_of(m, c, i) : constant_of(m, v);
    return at;
}

dt__lite_value dt__lite_as_is(dt__lite_model *m, const dt_trace_call *c, int i)
{
    return *value_of(m, c, i);
}

bool dt__lite_is_last(const dt__lite_model *m, const dt_trace_call *c, int i)
{
    return dt__trace_has(c, i) && m->value[c->in[i].value].layout == DT__LITE_LAST;
}

int dt__lite_plain(dt__lite_model *m, const dt_trace_call *c, int i)
{
    if (!dt__trace_has(c, i)) return -1;
    dt__lite_value *v = value_of(m, c, i);
    if (v->layout == DT__LITE_PLAIN) return v->tensor;
    if (v->plain >= 0) return v->plain;
    const dt_trace_value *of = dt__lite_operand(m, c, i);
    v->plain = v->layout == DT__LITE_LAST ? plain_from_last(m, v->tensor, of)
                                          : plain_from_flat(m, v->tensor, v->channels, of);
    return v->plain;
}

int dt__lite_rows(dt__lite_model *m, const dt_trace_call *c, int i)
{
    const bool batched = m->p.batched;
    const int x = dt__lite_plain(m, c, i);
    if (dt__trace_has(c, i) && dt__lite_operand(m, c, i)->tensor != NULL) m->p.batched = batched;
    return x;
}

int dt__lite_constant_codes(dt__lite_model *m, const dt_trace_value *v, int rank, bool last)
{
    const dt_tensor *x = v->tensor;
    dt__lite_shape s = { .rank = rank };
    for (int d = 0; d < rank; d++) {
        const int own = d - (rank - x->rank);
        s.dims[d] = own < 0 ? 1 : x->dims[own];
    }
    int8_t *codes = dt__lite_memory(&m->p, x->count, 1);
    const float *from = dt__values(x);
    const int64_t channels = last ? s.dims[1] : 1;
    const int64_t pixels = x->count / dt__max_i64(1, s.dims[0] * channels);
    for (int64_t i = 0; i < x->count && codes != NULL; i++) {
        const int64_t n = i / (channels * pixels), c = i / pixels % channels, k = i % pixels;
        const float code = roundf(from[i] / v->scale) + (float)v->zero_point;
        codes[last ? (n * pixels + k) * channels + c : i] = (int8_t)code;
    }
    if (dt__lite_batch_of(v) >= 0) m->p.batched = false;
    if (codes == NULL) return -1;
    float *scale = dt__lite_memory(&m->p, 1, sizeof *scale);
    if (scale == NULL) return -1;
    *scale = v->scale;
    const int tensor =
        dt__lite_constant(&m->p, &(dt__lite_array){ .name = v->name,
                                                    .type = DT__LITE_INT8,
                                                    .shape = last ? last_of(&s) : s,
                                                    .data = codes,
                                                    .bytes = (size_t)x->count,
                                                    .lent = true,
                                                    .scales = { .n = 1, .scale = scale } });
    dt__lite_coded(m, tensor, v);
    return tensor;
}

/* A constant that broadcasts to an image, aligned at the last dimension of the trace. */
static int last_constant(dt__lite_model *m, const dt_trace_value *v, int rank)
{
    const dt_tensor *x = v->tensor;
    dt__lite_shape s = { .rank = rank };
    for (int d = 0; d < rank; d++) {
        const int own = d - (rank - x->rank);
        s.dims[d] = own < 0 ? 1 : x->dims[own];
    }
    const dt__lite_shape to = last_of(&s);
    float *data = dt__lite_memory(&m->p, x->count, sizeof *data);
    const float *from = dt__values(x);
    const int64_t channels = s.dims[1], pixels = x->count / dt__max_i64(1, s.dims[0] * channels);
    for (int64_t i = 0; i < x->count && data != NULL; i++) {
        const int64_t n = i / (channels * pixels), c = i / pixels % channels, k = i % pixels;
        data[(n * pixels + k) * channels + c] = from[i];
    }
    if (dt__lite_batch_of(v) >= 0) m->p.batched = false;
    return data == NULL ? -1
                        : dt__lite_constant(&m->p, &(dt__lite_array){ .name = v->name,
                                                                      .type = DT__LITE_FLOAT32,
                                                                      .shape = to,
                                                                      .data = data,
                                                                      .bytes = (size_t)x->count * 4,
                                                                      .lent = true });
}

int dt__lite_last(dt__lite_model *m, const dt_trace_call *c, int i)
{
    if (!dt__trace_has(c, i)) return -1;
    const dt_trace_value *of = dt__lite_operand(m, c, i);
    if (of->tensor != NULL && c->in[i].quant == NULL) {
        return last_constant(m, of, dt__lite_result_of(m, c)->rank);
    }
    dt__lite_value *v = value_of(m, c, i);
    if (v->layout == DT__LITE_LAST) return v->tensor;
    if (v->last < 0) v->last = last_from_plain(m, dt__lite_plain(m, c, i), of);
    return v->last;
}

void dt__lite_out_as(dt__lite_model *m, const dt_trace_call *c, dt__lite_value v)
{
    v.plain = v.last = -1;
    if (c->out[0] >= 0) m->value[c->out[0]] = v;
}

void dt__lite_out(dt__lite_model *m, const dt_trace_call *c, int i, int tensor,
                  dt__lite_layout layout)
{
    if (i >= c->n_out || c->out[i] < 0) return;
    m->value[c->out[i]] =
        (dt__lite_value){ .tensor = tensor, .layout = layout, .plain = -1, .last = -1 };
}
