/* Mixtures of experts in ONNX. Every expert multiplies every row, and Where selects the results of
 * the experts that the router chose: it takes the time of all experts, but shapes are static. */
#include "export/onnx/onnx_put_model.h"

#include <stdio.h>

enum { X, WEIGHT, BIAS, OFFSETS, INDEX };

static bool takes_router(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    (void)t;
    const dt_moe_router_options *o = c->options;
    if (o->capacity == 0) return true;
    snprintf(why, size, "a capacity of experts");
    return false;
}

/* The top_k largest values of the softmax; of equal ones the expert with the lower index. */
static void put_router(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_moe_router_options *o = c->options;
    const dt_trace_value *v = dt__put_operand(m, c, 0);
    const dt_extent rows[] = { dt_trace_value_at(m->trace, c->out[0])->extent[0],
                               v->extent[v->rank - 1] };
    dt__value logits = dt__put_reshaped(m, dt__put_in(m, c, 0), 2, rows), top[2] = { NULL, NULL };
    m->near = true;
    dt__value all = DT__PUT(p, "Softmax", logits);
    if (all != NULL) dt__put_attr_int(p, "axis", -1);
    if (DT__PUT(p, "TopK", logits, DT__PUT_I64(p, o->top_k)) != NULL) {
        dt__put_attr_int(p, "axis", -1);
        dt__put_results(p, 2, top);
    }
    dt__value w = DT__PUT(p, "GatherElements", all, top[1]);
    if (w != NULL) dt__put_attr_int(p, "axis", 1);
    if (o->normalize) {
        dt__value sum = DT__PUT(p, "ReduceSum", w, DT__PUT_I64(p, 1));
        w = DT__PUT(p, "Div", w, sum);
    }
    dt__put_out(m, c, 0, w);
    dt__put_out(m, c, 1, dt__put_cast(p, top[1], DT__PUT_INT32));
}

static bool takes_grouped(const dt_trace *t, const dt_trace_call *c, char *why, size_t size)
{
    (void)t;
    if (dt__trace_has(c, INDEX) && !dt__trace_has(c, OFFSETS)) return true;
    snprintf(why, size, "experts by offsets of rows");
    return false;
}

/* The rows of one expert in a grouped weight. */
static dt__put_weight expert_of(const dt__put_rows *r, int64_t e)
{
    dt__put_weight w = r->w;
    w.rows = r->w.rows / r->experts;
    w.codes += e * w.rows * w.columns;
    w.scale += e * w.rows * w.groups;
    if (w.zero_point != NULL) w.zero_point += e * w.rows * w.groups;
    if (w.op_groups > 1) w.order += e * w.columns;
    w.op_groups = 1;
    return w;
}

typedef struct experts {
    int64_t n, out, columns;
    dt__put_rows rows; /* of a quantized weight */
    /* in_blocks: activations of integer products are quantized in blocks */
    bool quantized, integer, in_blocks;
    dt__put_quantized x;
    dt__put_blocks blocks;
    dt__value floats;
} experts;

static dt__value bias_of(dt__put_model *m, const dt_trace_call *c, const experts *x, int64_t e)
{
    const float *bias = dt__put_data(m, c, BIAS);
    const int64_t dims[] = { x->out };
    return dt__put_tensor(&m->p, &(dt__put_array){ .type = DT__PUT_FLOAT,
                                                   .rank = 1,
                                                   .dims = dims,
                                                   .data = bias + e * x->out,
                                                   .bytes = (size_t)x->out * sizeof *bias });
}

static dt__value float_weight(dt__put_model *m, const dt_trace_call *c, const experts *x, int64_t e)
{
    if (x->quantized) {
        const dt__put_weight w = expert_of(&x->rows, e);
        return dt__put_matrix(&m->p, &w, true);
    }
    const float *data = dt__put_data(m, c, WEIGHT);
    const int64_t dims[] = { x->out, x->columns };
    const size_t bytes = (size_t)(x->out * x->columns) * sizeof *data;
    const dt__put_array a = { .type = DT__PUT_FLOAT,
                              .rank = 2,
                              .dims = dims,
                              .bytes = bytes,
                              .data = data + e * x->out * x->columns,
                              .lent = true };
    return DT__PUT_TRANSPOSE(&m->p, dt__put_tensor(&m->p, &a), 1, 0);
}

/* All rows multiplied by expert e. */
static dt__value through(dt__put_model *m, const dt_trace_call *c, const experts *x, int64_t e)
{
    dt__put *p = &m->p;
    const bool biased = dt__trace_has(c, BIAS);
    if (x->integer) {
        const dt__put_weight w = expert_of(&x->rows, e);
        const float *bias = biased ? dt__put_data(m, c, BIAS) + e * x->out : NULL;
        if (x->in_blocks) return dt__put_linear_blocks(p, &x->blocks, &w, bias);
        return dt__put_linear_codes(p, &x->x, &w, bias);
    }
    dt__value y = DT__PUT(p, "MatMul", x->floats, float_weight(m, c, x, e));
    return biased ? DT__PUT(p, "Add", y, bias_of(m, c, x, e)) : y;
}

static void put_all(dt__put_model *m, const dt_trace_call *c, experts *x)
{
    dt__put *p = &m->p;
    const dt_trace_value *v = dt_trace_value_at(m->trace, c->out[0]);
    const int64_t rows = dt_trace_count(dt__put_operand(m, c, X), 1, 1) / x->columns;
    const int64_t chosen = dt_trace_count(dt__put_operand(m, c, INDEX), 1, 1) / rows;
    dt__value index = DT__PUT(p, "Reshape", dt__put_in(m, c, INDEX), DT__PUT_I64(p, -1, chosen, 1));
    dt__value y = dt__put_f32(p, 0);
    for (int64_t e = 0; e < x->n; e++) {
        const int32_t number = (int32_t)e;
        const dt__put_array a = { .type = DT__PUT_INT32, .data = &number, .bytes = sizeof number };
        dt__value mine = through(m, c, x, e);
        mine = DT__PUT(p, "Reshape", mine, DT__PUT_I64(p, -1, 1, x->out));
        y = DT__PUT(p, "Where", DT__PUT(p, "Equal", index, dt__put_tensor(p, &a)), mine, y);
    }
    dt__put_out(m, c, 0, dt__put_reshaped(m, y, v->rank, v->extent));
}

static void put_grouped(dt__put_model *m, const dt_trace_call *c)
{
    const dt_trace_value *w = dt__put_operand(m, c, WEIGHT);
    const dt_quant_spec *of_x = c->in[X].quant;
    const bool blocks = of_x != NULL && of_x->granularity == DT_PER_GROUP;
    experts x = { .n = w->extent[0].size,
                  .out = w->extent[1].size,
                  .columns = w->extent[2].size,
                  .quantized = c->in[WEIGHT].quant != NULL,
                  .integer = dt__put_is_integer(m, c, X, WEIGHT),
                  .in_blocks = blocks };
    if (x.integer) m->integer_products++;
    else m->float_products++;
    if (!x.integer) x.floats = dt__put_in(m, c, X);
    else if (blocks) x.blocks = dt__put_activation_blocks(m, c, X);
    else x.x = dt__put_activation(m, c, X);
    if (!x.quantized || dt__put_rows_of(m, c, WEIGHT, &x.rows) == DT_OK) put_all(m, c, &x);
    if (x.quantized) dt__put_rows_free(m, &x.rows);
}

/* z[r] = sum over i of weights[r, i] y[r, i] */
static void put_combine(dt__put_model *m, const dt_trace_call *c)
{
    dt__put *p = &m->p;
    const dt_trace_value *y = dt__put_operand(m, c, 0), *w = dt__put_operand(m, c, 1);
    const dt_extent parts[] = { w->extent[0], w->extent[1], y->extent[y->rank - 1] };
    dt__value v = dt__put_reshaped(m, dt__put_in(m, c, 0), 3, parts);
    v = DT__PUT(p, "Mul", v, DT__PUT(p, "Unsqueeze", dt__put_in(m, c, 1), DT__PUT_I64(p, 2)));
    dt__value z = DT__PUT(p, "ReduceSum", v, DT__PUT_I64(p, 1));
    if (z != NULL) dt__put_attr_int(p, "keepdims", 0);
    dt__put_out(m, c, 0, z);
}

const dt__put_emitter dt__put_experts[] = {
    { "moe_router", "Softmax, TopK, GatherElements, Div", takes_router, put_router },
    { "grouped_linear", "as linear, for each expert; Where", takes_grouped, put_grouped },
    { "moe_combine", "Mul, ReduceSum", NULL, put_combine },
    { NULL, NULL, NULL, NULL },
};
