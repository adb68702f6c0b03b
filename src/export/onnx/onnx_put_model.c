/* Shared by emitters of ONNX: operands as values, codes of weights, options, shapes. */
#include "export/onnx/onnx_put_model.h"

#include "autograd/codes.h"

#include <string.h>

/* ---- options --------------------------------------------------------------------------------- */

int dt__put_dim(const dt_trace_value *v, int64_t dim)
{
    return (int)(dim < 0 ? dim + v->rank : dim);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool is_fixed(dt_extent e) { return e.batch == 0 && e.length == 0; }

/* An extent of the first input, read at run time. */
static dt__value extent_of_input(dt__put_model *m, int64_t dim)
{
    const int64_t *inputs;
    dt_trace_inputs(m->trace, &inputs);
    dt__value shape = DT__PUT(&m->p, "Shape", m->value[inputs[0]]);
    return DT__PUT(&m->p, "Gather", shape, DT__PUT_I64(&m->p, dim));
}

dt__value dt__put_extent_of(dt__put_model *m, dt_extent e)
{
    dt__put *p = &m->p;
    if (is_fixed(e)) return DT__PUT_I64(p, e.size);
    dt__value n = NULL;
    if (e.batch != 0) {
        if (m->batch == NULL) m->batch = extent_of_input(m, 0);
        n = m->batch;
    }
    if (e.length != 0) {
        if (m->length == NULL) m->length = extent_of_input(m, 1);
        n = n == NULL ? m->length : DT__PUT(p, "Mul", n, m->length);
    }
    return e.size == 1 ? n : DT__PUT(p, "Mul", n, DT__PUT_I64(p, e.size));
}

dt__value dt__put_extents(dt__put_model *m, int rank, const dt_extent *extent)
{
    int64_t fixed[DT_MAX_RANK];
    dt__value part[DT_MAX_RANK];
    bool all = true;
    for (int i = 0; i < rank; i++) {
        fixed[i] = extent[i].size;
        all = all && is_fixed(extent[i]);
    }
    if (all) return dt__put_i64s(&m->p, rank, fixed);
    for (int i = 0; i < rank; i++) part[i] = dt__put_extent_of(m, extent[i]);
    dt__value y = dt__put_node(&m->p, "Concat", part, rank);
    if (y != NULL) dt__put_attr_int(&m->p, "axis", 0);
    return y;
}

dt__value dt__put_reshaped(dt__put_model *m, dt__value x, int rank, const dt_extent *extent)
{
    int64_t fixed[DT_MAX_RANK];
    int symbolic = 0, zeros = 0;
    for (int i = 0; i < rank; i++) {
        const bool is = is_fixed(extent[i]);
        symbolic += !is;
        zeros += is && extent[i].size == 0;
        fixed[i] = is ? extent[i].size : -1;
    }
    const bool inferred = symbolic <= 1 && zeros == 0;
    return DT__PUT(&m->p, "Reshape", x,
                   inferred ? dt__put_i64s(&m->p, rank, fixed) : dt__put_extents(m, rank, extent));
}

dt__value dt__put_past_input(const dt__put_model *m, const char *name)
{
    for (int64_t i = 0; i < m->p.inputs; i++) {
        if (strcmp(m->p.input[i]->name, name) == 0) return m->p.input[i]->name;
    }
    return NULL;
}

/* The positions of tokens, i64 [length], counted as negative numbers: of rows by a Range itself
 * onnxruntime makes a Slice, which gives fewer rows for texts beyond the table, in place of an
 * error, and one row would count for all tokens. */
static dt__value put_positions(dt__put_model *m)
{
    dt__put *p = &m->p;
    const dt_extent length = { 1, 0, 1 };
    const dt_extent none = { 0 };
    dt__value n = dt__put_extent_of(m, length);
    dt__value end = m->past == NULL ? n : DT__PUT(p, "Add", n, m->past);
    dt__value start = m->past == NULL ? DT__PUT_I64(p, 0) : DT__PUT(p, "Neg", m->past);
    dt__value scalar = dt__put_extents(m, 0, &none);
    dt__value down = DT__PUT(p, "Reshape", DT__PUT_I64(p, -1), scalar);
    end = DT__PUT(p, "Reshape", DT__PUT(p, "Neg", end), scalar);
    return DT__PUT(p, "Neg", DT__PUT(p, "Range", DT__PUT(p, "Reshape", start, scalar), end, down));
}

dt__value dt__put_transposed(dt__put *p, dt__value x, int n, const int64_t *order)
{
    dt__value y = DT__PUT(p, "Transpose", x);
    if (y != NULL) dt__put_attr_ints(p, "perm", n, order);
    return y;
}

/* ---- weights --------------------------------------------------------------------------------- */

static void take(dt__put_model *m, const dt_status s)
{
    if (m->status == DT_OK) m->status = s;
}

/* The columns of group 0 in ascending order, then those of group 1, and so on. */
static void order_columns(const dt__weight_rows *r, int32_t *order)
{
    for (int64_t j = 0; j < r->rows.op_groups; j++) {
        const int32_t *group_of = r->rows.group_of + j * r->columns;
        for (int32_t g = 0; g < r->groups; g++) {
            for (int32_t c = 0; c < r->columns; c++) {
                if (group_of[c] == g) *order++ = c;
            }
        }
    }
}

static dt_status describe(dt__put_model *m, dt__put_rows *out)
{
    const dt__weight_rows *r = &out->rows;
    out->w = (dt__put_weight){ .bits = r->bits,
                               .rows = r->n,
                               .columns = r->columns,
                               .group = r->group,
                               .groups = r->groups,
                               .op_groups = 1,
                               .codes = r->rows.codes,
                               .scale = r->rows.scale,
                               .zero_point = r->rows.zero_point,
                               .real = r->real };
    out->integer = r->integer;
    out->experts = r->experts;
    if (r->rows.op_groups == 0) return DT_OK;
    int32_t *order = dt__put_memory(&m->p, r->rows.op_groups * r->columns, sizeof *order);
    if (order == NULL) return DT_ERR_NOMEM;
    order_columns(r, order);
    out->w.order = order;
    out->w.op_groups = r->rows.op_groups;
    return DT_OK;
}

dt_status dt__put_rows_of(dt__put_model *m, const dt_trace_call *c, int i, dt__put_rows *out)
{
    const dt_trace_value *v = dt__put_operand(m, c, i);
    *out = (dt__put_rows){ .integer = false };
    dt_status s = dt__weight_rows_of(m->p.ctx, v->tensor, &c->in[i], &out->rows);
    if (s == DT_OK) s = describe(m, out);
    out->w.name = dt__put_clean(&m->p, *v->name != 0 ? v->name : c->module);
    take(m, s);
    return s;
}

void dt__put_rows_free(dt__put_model *m, dt__put_rows *r)
{
    dt__weight_rows_free(m->p.ctx, &r->rows);
    *r = (dt__put_rows){ .integer = false };
}

/* Whether the blocks of an activation coincide with the groups of a weight with `columns`
 * columns. */
static bool are_groups(const dt_quant_spec *x, const dt_quant_spec *w, int64_t columns)
{
    return w->granularity == DT_PER_GROUP && w->group_size == x->group_size &&
           dt__min_i64(x->group_size, columns) <= DT__PUT_LONGEST;
}

bool dt__put_is_integer(const dt__put_model *m, const dt_trace_call *c, int x, int w)
{
    const dt_trace_operand *a = &c->in[x], *b = &c->in[w];
    if (m->call->options->onnx_ops != DT_ONNX_PLAIN) return false;
    if (a->quant == NULL || b->quant == NULL || !a->coded || !b->coded) return false;
    const dt_tensor *weight = dt__put_operand(m, c, w)->tensor;
    const bool blocks = a->quant->granularity == DT_PER_GROUP;
    if (weight == NULL) return false;
    if (blocks && !are_groups(a->quant, b->quant, weight->dims[weight->rank - 1])) return false;
    if (!dt_is_packed(weight)) return !dt__has_zero(b->quant);
    const dt__codes *codes = ((const dt__packed *)weight->ext)->codes;
    return codes->integer && !(blocks && codes->order != NULL);
}

/* ---- operands -------------------------------------------------------------------------------- */

const dt_trace_value *dt__put_operand(const dt__put_model *m, const dt_trace_call *c, int i)
{
    return dt_trace_value_at(m->trace, c->in[i].value);
}

const float *dt__put_data(const dt__put_model *m, const dt_trace_call *c, int i)
{
    if (!dt__trace_has(c, i) || c->in[i].quant != NULL) return NULL;
    const dt_tensor *x = dt__put_operand(m, c, i)->tensor;
    return x == NULL || x->dtype != DT_F32 ? NULL : dt__values(x);
}

static dt__value of_dense(dt__put_model *m, const dt_trace_value *v)
{
    static const int types[] = {
        [DT_F32] = DT__PUT_FLOAT, [DT_F64] = DT__PUT_DOUBLE, [DT_I32] = DT__PUT_INT32,
        [DT_I64] = DT__PUT_INT64, [DT_U8] = DT__PUT_UINT8,   [DT_I8] = DT__PUT_INT8,
        [DT_BOOL] = DT__PUT_BOOL
    };
    const dt_tensor *x = v->tensor;
    const dt__put_array a = { .name = *v->name == 0 ? NULL : dt__put_clean(&m->p, v->name),
                              .type = types[x->dtype],
                              .rank = x->rank,
                              .dims = x->dims,
                              .data = dt__values(x),
                              .bytes = dt__bytes_of(x),
                              .lent = true };
    return dt__put_tensor(&m->p, &a);
}

/* A weight's dequantized values, in the weight's shape. */
static dt__value of_codes(dt__put_model *m, const dt_trace_call *c, int i)
{
    const dt_trace_value *v = dt__put_operand(m, c, i);
    dt__put_rows r;
    dt__value y = NULL;
    if (dt__put_rows_of(m, c, i, &r) == DT_OK) {
        y = dt__put_matrix(&m->p, &r.w, false);
        y = dt__put_reshaped(m, y, v->rank, v->extent);
    }
    dt__put_rows_free(m, &r);
    return y;
}

/* A parameter or constant of the trace as a value. */
static dt__value put_constant_of(dt__put_model *m, const dt_trace_value *v)
{
    dt__value y = of_dense(m, v);
    bool fixed = true;
    for (int i = 0; i < v->rank; i++) fixed = fixed && is_fixed(v->extent[i]);
    return fixed ? y : DT__PUT(&m->p, "Expand", y, dt__put_extents(m, v->rank, v->extent));
}

static dt__value value_of(dt__put_model *m, int64_t id)
{
    const dt_trace_value *v = dt_trace_value_at(m->trace, id);
    if (m->value[id] != NULL) return m->value[id];
    if (v->kind == DT_VALUE_POSITIONS) m->value[id] = put_positions(m);
    else if (v->tensor != NULL) m->value[id] = put_constant_of(m, v);
    return m->value[id];
}

dt__value dt__put_plain(dt__put_model *m, const dt_trace_call *c, int i)
{
    return value_of(m, c->in[i].value);
}

dt__put_quantized dt__put_activation(dt__put_model *m, const dt_trace_call *c, int i)
{
    const dt_trace_operand *o = &c->in[i];
    const dt_trace_value *v = dt__put_operand(m, c, i);
    const dt__put_scheme q = { .quant = o->quant,
                               .scale = o->scale == NULL ? NULL : dt__values(o->scale),
                               .zero_point =
                                   o->zero_point == NULL ? NULL : dt__values(o->zero_point),
                               .samples = o->sample,
                               .rank = v->rank };
    return dt__put_quantize(&m->p, value_of(m, o->value), &q);
}

dt__put_blocks dt__put_activation_blocks(dt__put_model *m, const dt_trace_call *c, int i)
{
    const dt_trace_value *v = dt__put_operand(m, c, i);
    const int64_t columns = v->rank == 0 ? 1 : v->extent[v->rank - 1].size;
    const dt_trace_operand *o = &c->in[i];
    const float global = o->scale == NULL ? 1 : *(const float *)dt__values(o->scale);
    return dt__put_quantize_blocks(&m->p, value_of(m, o->value),
                                   &(dt__block_quant){ o->quant, global }, columns);
}

dt__value dt__put_in(dt__put_model *m, const dt_trace_call *c, int i)
{
    if (!dt__trace_has(c, i)) return "";
    const dt_trace_operand *o = &c->in[i];
    if (o->quant == NULL) return value_of(m, o->value);
    if (o->weight) return of_codes(m, c, i);
    if (m->call->options->onnx_ops == DT_ONNX_NBITS && o->quant->granularity != DT_PER_GROUP) {
        m->changed = true;
        return value_of(m, o->value);
    }
    if (o->quant->granularity == DT_PER_GROUP) {
        const dt__put_blocks b = dt__put_activation_blocks(m, c, i);
        return dt__put_dequantize_blocks(&m->p, &b);
    }
    const dt__put_quantized q = dt__put_activation(m, c, i);
    return dt__put_dequantize(&m->p, &q);
}

void dt__put_out(dt__put_model *m, const dt_trace_call *c, int i, dt__value y)
{
    if (i < c->n_out && c->out[i] >= 0) m->value[c->out[i]] = y;
}

/* ---- totals ---------------------------------------------------------------------------------- */

void dt__put_count(dt__put_total *t, const char *module, int64_t n)
{
    size_t used = strlen(t->names);
    const size_t size = strlen(module);
    t->n += n;
    t->layers++;
    if (t->layers > 1 && used + size + sizeof ", , ..." > sizeof t->names) {
        if (t->names[used - 1] != '.') memcpy(t->names + used, ", ...", sizeof ", ...");
        return;
    }
    if (used > 0) memcpy(t->names + used, ", ", 2), used += 2;
    const size_t taken = size < sizeof t->names - 16 ? size : sizeof t->names - 16;
    memcpy(t->names + used, module, taken);
    t->names[used + taken] = 0;
}
