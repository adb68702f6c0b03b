/* Ops that move elements, in ONNX: exact. */
#include "export/onnx/onnx_put_model.h"

#include <stddef.h>

static void put_reshape(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *y = dt_trace_value_at(m->trace, c->out[0]);
    dt__put_out(m, c, 0, dt__put_reshaped(m, dt__put_in(m, c, 0), y->rank, y->extent));
}

static void put_transpose(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *x = dt__put_operand(m, c, 0);
    const int a = dt__put_dim(x, dt__trace_integer(c, "dim0"));
    const int b = dt__put_dim(x, dt__trace_integer(c, "dim1"));
    int64_t order[DT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) order[i] = i;
    order[a] = b;
    order[b] = a;
    dt__put_out(m, c, 0, dt__put_transposed(&m->p, dt__put_in(m, c, 0), x->rank, order));
}

static void put_permute(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *x = dt__put_operand(m, c, 0);
    const dt_ints *dims = dt__trace_list(c, "dims");
    int64_t order[DT_MAX_RANK];
    for (int i = 0; i < x->rank; i++) order[i] = dt__put_dim(x, dims->v[i]);
    dt__put_out(m, c, 0, dt__put_transposed(&m->p, dt__put_in(m, c, 0), x->rank, order));
}

/* Extents from a list in the options, joined to int64 [n]. */
static dt__value joined(dt__put_model *m, const dt_trace_call *c, size_t list, int n)
{
    dt_extent e[DT_MAX_RANK]; /* each dimension is sliced at most once */
    for (int i = 0; i < n; i++) {
        e[i] = dt_trace_option(c, list + offsetof(dt_ints, v) + (size_t)i * sizeof(int64_t));
    }
    return dt__put_extents(m, n, e);
}

static void put_slice(dt__put_model *m, const dt_trace_call *c)
{
    const dt_slice_options *o = c->options;
    const int n = o->dims.n;
    dt__value x = dt__put_in(m, c, 0);
    dt__value starts = joined(m, c, offsetof(dt_slice_options, starts), n);
    dt__value stops = joined(m, c, offsetof(dt_slice_options, stops), n);
    dt__value axes = dt__put_i64s(&m->p, n, o->dims.v);
    if (n == 0) {
        dt__put_out(m, c, 0, DT__PUT(&m->p, "Identity", x));
        return;
    }
    dt__value y = o->steps.n == 0 ? DT__PUT(&m->p, "Slice", x, starts, stops, axes)
                                  : DT__PUT(&m->p, "Slice", x, starts, stops, axes,
                                            dt__put_i64s(&m->p, n, o->steps.v));
    dt__put_out(m, c, 0, y);
}

static void put_concat(dt__put_model *m, const dt_trace_call *c)
{
    dt__value in[DT_MAX_IN];
    for (int i = 0; i < c->n_in; i++) in[i] = dt__put_in(m, c, i);
    dt__value y = dt__put_node(&m->p, "Concat", in, c->n_in);
    const int dim = dt__put_dim(dt__put_operand(m, c, 0), dt__trace_integer(c, "dim"));
    if (y != NULL) dt__put_attr_int(&m->p, "axis", dim);
    dt__put_out(m, c, 0, y);
}

static void put_pad(dt__put_model *m, const dt_trace_call *c)
{
    static const char *const modes[] = { "constant", "reflect", "edge", "wrap" };
    const dt_pad_options *o = c->options;
    const int rank = dt__put_operand(m, c, 0)->rank;
    int64_t pads[2 * DT_MAX_RANK] = { 0 };
    for (int i = 0; i < o->pads.n; i++) {
        const int d = rank - 1 - i / 2;
        pads[i % 2 * rank + d] = o->pads.v[i];
    }
    dt__value x = dt__put_in(m, c, 0), at = dt__put_i64s(&m->p, 2 * rank, pads);
    dt__value y = o->mode == DT_PAD_CONSTANT
                      ? DT__PUT(&m->p, "Pad", x, at, dt__put_f32(&m->p, (float)o->value))
                      : DT__PUT(&m->p, "Pad", x, at);
    if (y != NULL) dt__put_attr_text(&m->p, "mode", modes[o->mode]);
    dt__put_out(m, c, 0, y);
}

/* Pixel i of n is pixel floor(i in / n) of the input, by indices for each dimension. */
static void put_upsample(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *x = dt__put_operand(m, c, 0);
    const dt_trace_value *y = dt_trace_value_at(m->trace, c->out[0]);
    dt__value v = dt__put_in(m, c, 0);
    for (int d = 2; d < x->rank; d++) {
        const int64_t in = x->extent[d].size, n = y->extent[d].size;
        int64_t *index = dt__put_memory(&m->p, n, sizeof *index);
        if (index == NULL) return;
        for (int64_t i = 0; i < n; i++) index[i] = i * in / n;
        if (n == in) continue;
        v = DT__PUT(&m->p, "Gather", v, dt__put_i64s(&m->p, n, index));
        if (v != NULL) dt__put_attr_int(&m->p, "axis", d);
    }
    dt__put_out(m, c, 0, v);
}

const dt__put_emitter dt__put_shapes[] = {
    { "reshape", "Reshape", NULL, put_reshape },
    { "flatten", "Reshape", NULL, put_reshape },
    { "transpose", "Transpose", NULL, put_transpose },
    { "permute", "Transpose", NULL, put_permute },
    { "slice", "Slice", NULL, put_slice },
    { "concat", "Concat", NULL, put_concat },
    { "pad", "Pad", NULL, put_pad },
    { "upsample_nearest", "Gather", NULL, put_upsample },
    { "upsample_nearest1d", "Gather", NULL, put_upsample },
    { NULL, NULL, NULL, NULL },
};
