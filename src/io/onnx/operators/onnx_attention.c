/* Attention: masks of minus infinity before a Softmax, triangular matrices for them, and the
 * operator
 *     y = softmax(scale q k^T + mask) v
 * whose heads are a dimension of q, k and v, or are in their last one. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- masks ----------------------------------------------------------------------------------- */

#define HIDDEN (-FLT_MAX / 2) /* e^(x + HIDDEN - max) is 0, as it is for minus infinity */

/* Refuses a mask that hides all elements of a row along dimension `axis`: softmax of that row is
 * NaN. */
static dt_status check_rows(dt__onnx *g, const dt__onnx_value *c, const float *data, int axis)
{
    int64_t inner = 1, n = 1;
    for (int i = axis < 0 ? 0 : axis + 1; i < c->rank; i++) inner *= c->dims[i];
    if (axis >= 0) n = c->dims[axis];
    for (int64_t i = 0; i < c->count; i += i % inner == inner - 1 ? 1 + (n - 1) * inner : 1) {
        bool hidden = true;
        for (int64_t k = 0; k < n; k++) hidden &= isinf(data[i + k * inner]);
        if (hidden) return dt__onnx_refuse(g, "a mask hides a whole row from Softmax");
    }
    return DT_OK;
}

/* Checks that only Softmax reads result 0, and that the mask hides no whole row of it. */
static dt_status check_readers(dt__onnx *g, const dt__onnx_value *c, const float *data, int rank)
{
    const char *name = dt__onnx_out(g, 0)->name;
    const dt__onnx_node *own = g->node;
    int64_t readers = 0;
    dt_status s = DT_OK;
    for (size_t i = 0; i < g->graph->n_node && s == DT_OK; i++) {
        const dt__onnx_node *n = g->graph->node[i];
        if (n->n_input != 1 || strcmp(n->input[0], name) != 0) continue;
        if (strcmp(n->op_type, "Softmax") != 0) continue;
        int axis = 0;
        readers++;
        g->node = n;
        s = dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", g->file->opset < 13 ? 1 : -1), rank,
                          &axis);
        g->node = own;
        if (s == DT_OK) s = check_rows(g, c, data, axis - (rank - c->rank));
    }
    if (s != DT_OK || readers == dt__onnx_out(g, 0)->uses) return s;
    return dt__onnx_refuse(g, "a mask of infinities that another node than Softmax reads");
}

/* *out = c with HIDDEN in place of minus infinity. */
static dt_status bound(dt__onnx *g, const dt__onnx_value *c, const float *data, dt__onnx_value *out)
{
    float *to;
    *out = (dt__onnx_value){ .name = c->name };
    DT__TRY(dt__onnx_constant(g, out, c->rank, c->dims, &to, NULL));
    for (int64_t i = 0; i < c->count; i++) to[i] = data[i] == -INFINITY ? HIDDEN : data[i];
    return DT_OK;
}

dt_status dt__onnx_masked(dt__onnx *g, int rank, const dt__onnx_value *c, dt__onnx_value *out)
{
    const float *data;
    bool hides = false;
    *out = *c;
    DT__TRY(dt__onnx_floats_of(g, c, "the constant", &data));
    for (int64_t i = 0; i < c->count; i++) hides |= data[i] == -INFINITY;
    if (!hides) return DT_OK;
    DT__TRY(check_readers(g, c, data, rank));
    return bound(g, c, data, out);
}

bool dt__onnx_hides(const dt__onnx_value *c)
{
    return c->kind == DT__ONNX_CONSTANT && c->count == 1 &&
           dt__onnx_number_at(c, 0).value == -INFINITY;
}

dt_status dt__onnx_hidden(dt__onnx *g)
{
    const dt__onnx_value *where = dt__onnx_in(g, 0);
    const bool first = dt__onnx_hides(dt__onnx_in(g, 1));
    dt__onnx_value mask = { .name = where->name };
    float *to;
    DT__TRY(dt__onnx_constant(g, &mask, where->rank, where->dims, &to, NULL));
    for (int64_t i = 0; i < where->count; i++) {
        to[i] = (dt__onnx_number_at(where, i).value != 0) == first ? -INFINITY : 0;
    }
    return dt__onnx_plus(g, dt__onnx_in(g, first ? 2 : 1), &mask);
}

/* ---- triangles ------------------------------------------------------------------------------- */

dt_status dt__onnx_trilu(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt__onnx_value ones = { .name = "" }, kept = ones, zero, y;
    float *one;
    if (v->kind != DT__ONNX_COMPUTED)
        return dt__onnx_refuse(
            g, "its input is a constant and k is computed; expected a computed value");
    if (v->rank - g->front < 2) {
        return dt__onnx_refuse(g, "its input has rank %d, which is not read", v->rank - g->front);
    }
    const dt__onnx_number rows = dt__onnx_extent(g, v, v->rank - 2);
    const dt__onnx_number columns = dt__onnx_extent(g, v, v->rank - 1);
    if (rows.batch || columns.batch)
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    const int64_t dims[] = { (int64_t)rows.value, (int64_t)columns.value };
    DT__TRY(dt__onnx_constant(g, &ones, 2, dims, &one, NULL));
    for (int64_t i = 0; i < ones.count; i++) one[i] = 1;
    DT__TRY(dt__onnx_run_on(g, "Trilu", (const dt__onnx_value *[]){ &ones }, 1, &kept));
    DT__TRY(dt__onnx_numeral(g, 0, &zero));
    const dt__onnx_value *const in[] = { &kept, v, &zero };
    return dt__onnx_finish(g, dt__onnx_apply(g, &(dt__onnx_form){ "where", false }, in, 3, &y), &y);
}

/* ---- the operator ---------------------------------------------------------------------------- */

static void swap_axes(dt__onnx_value *v, int i, int k)
{
    const int axis = v->axis[i];
    v->axis[i] = v->axis[k];
    v->axis[k] = axis;
    v->plain = -1;
}

/* Input i as [batch, heads, time, width]; `heads` 0: it has this shape already. */
static dt_status read_heads(dt__onnx *g, int i, int64_t heads, dt__onnx_value *out)
{
    const int64_t four = 4;
    dt__onnx_number *n;
    dt__onnx_value to = { .name = "" };
    *out = *dt__onnx_in(g, i);
    if (out->kind != DT__ONNX_COMPUTED) return dt__onnx_refuse(g, "input %d is a constant", i);
    if (out->rank - g->front != (heads > 0 ? 3 : 4) || g->front > 0) {
        return dt__onnx_refuse(g,
                               "input %d has %d dimensions; expected 4, or 3 and q_num_heads, "
                               "of which the first is the batch",
                               i, out->rank);
    }
    if (heads == 0) return DT_OK;
    const dt__onnx_number width = dt__onnx_extent(g, out, 2);
    if (width.batch || fmod(width.value, (double)heads) != 0) {
        return dt__onnx_refuse(g, "%lld heads do not divide input %d", (long long)heads, i);
    }
    DT__TRY(dt__onnx_constant(g, &to, 1, &four, NULL, &n));
    for (int k = 0; k < 2; k++) n[k] = dt__onnx_extent(g, out, k);
    n[2].value = (double)heads;
    n[3].value = width.value / (double)heads;
    DT__TRY(dt__onnx_reshape_value(g, out, &to));
    swap_axes(out, 1, 2);
    return DT_OK;
}

/* Repeats each head of v `times` times. */
static dt_status repeat_heads(dt__onnx *g, dt__onnx_value *v, int64_t times)
{
    dt__onnx_layer *l;
    const int64_t n = (int64_t)dt__onnx_extent(g, v, 1).value * times;
    if (times == 1) return DT_OK;
    int64_t *index = dt__onnx_memory(g, n, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) index[i] = i / times;
    DT__TRY(dt__onnx_taken(g, dt__onnx_maker(g, v), v->axis[1], index, n, &l));
    v->layer = l->index;
    v->plain = -1;
    return DT_OK;
}

/* The constant that is added to scores [.., rows, columns]: the node's mask and, if it is causal,
 * minus infinity above the diagonal; rank 0: none. */
static dt_status read_mask(dt__onnx *g, int64_t rows, int64_t columns, dt__onnx_value *out)
{
    const dt__onnx_value *mask = dt__onnx_in(g, 3);
    const bool causal = dt__onnx_int_of(g->node, "is_causal", 0) != 0;
    const int64_t own[] = { rows, columns };
    dt__onnx_value whole = { .name = "mask" };
    float *to;
    *out = whole;
    if (mask == NULL && !causal) return DT_OK;
    if (mask != NULL &&
        (mask->kind != DT__ONNX_CONSTANT || mask->rank < 2 || mask->dims[mask->rank - 2] != rows ||
         mask->dims[mask->rank - 1] != columns)) {
        return dt__onnx_refuse(g, "its mask must be a constant of [.., %lld, %lld]",
                               (long long)rows, (long long)columns);
    }
    DT__TRY(dt__onnx_constant(g, &whole, mask == NULL ? 2 : mask->rank,
                              mask == NULL ? own : mask->dims, &to, NULL));
    for (int64_t i = 0; i < whole.count; i++) {
        const double x = mask == NULL ? 0 : dt__onnx_number_at(mask, i).value;
        to[i] = mask != NULL && mask->type == DT__ONNX_BOOL ? (x != 0 ? 0 : -INFINITY) : (float)x;
        if (causal && i % columns > i / columns % rows) to[i] = -INFINITY;
    }
    DT__TRY(check_rows(g, &whole, to, whole.rank - 1));
    return bound(g, &whole, to, out);
}

/* softmax(scale q k^T + mask), as result 0 */
static dt_status weigh_heads(dt__onnx *g, const dt__onnx_value *q, dt__onnx_value *k)
{
    static const dt__onnx_form product = { "matmul", false };
    const dt__onnx_number width = dt__onnx_extent(g, q, 3), rows = dt__onnx_extent(g, q, 2);
    const dt__onnx_number columns = dt__onnx_extent(g, k, 2);
    const double scale = dt__onnx_real_attribute(g->node, "scale", 0);
    dt__onnx_value y, mask;
    dt__onnx_layer *l;
    if (width.batch || rows.batch || columns.batch)
        return dt__onnx_refuse(g, "it is over the batch dimension; expected others");
    swap_axes(k, 2, 3);
    const dt__onnx_value *const in[] = { q, k };
    DT__TRY(dt__onnx_apply(g, &product, in, 2, &y));
    DT__TRY(dt__onnx_scaled(g, dt__onnx_maker(g, &y), scale != 0 ? scale : 1 / sqrt(width.value), 0,
                            &l));
    dt__onnx_keep(g, 0, &y, l);
    DT__TRY(read_mask(g, (int64_t)rows.value, (int64_t)columns.value, &mask));
    y = *dt__onnx_out(g, 0);
    if (mask.rank > 0) DT__TRY(dt__onnx_plus(g, &y, &mask));
    y = *dt__onnx_out(g, 0);
    DT__TRY(dt__onnx_new(g, "softmax", &l));
    ((dt_dim_layer *)l->options)->dim = y.axis[3];
    DT__TRY(dt__onnx_add_on(g, l, dt__onnx_maker(g, &y)));
    dt__onnx_keep(g, 0, &y, l);
    return DT_OK;
}

dt_status dt__onnx_attention(dt__onnx *g)
{
    const int64_t heads = dt__onnx_int_of(g->node, "q_num_heads", 0), three = 3;
    const int64_t shared = dt__onnx_int_of(g->node, "kv_num_heads", 0);
    dt__onnx_value q, k, v, weights, y, to = { .name = "" };
    dt__onnx_number *n;
    for (int i = 1; i < 4; i++) {
        if (dt__onnx_out(g, i) != NULL)
            return dt__onnx_refuse(g, "it has %d outputs; expected 1", i + 1);
        if (dt__onnx_in(g, i + 3) != NULL)
            return dt__onnx_refuse(g, "it has past keys or lengths, which are not read");
    }
    if (heads < 0 || shared < 0 || (heads > 0) != (shared > 0)) {
        return dt__onnx_refuse(g, "q_num_heads is %lld, kv_num_heads %lld", (long long)heads,
                               (long long)shared);
    }
    DT__TRY(read_heads(g, 0, heads, &q));
    DT__TRY(read_heads(g, 1, shared, &k));
    DT__TRY(read_heads(g, 2, shared, &v));
    const double own = dt__onnx_extent(g, &q, 1).value, others = dt__onnx_extent(g, &k, 1).value;
    if (dt__onnx_batch_at(&q) != 0 || others != dt__onnx_extent(g, &v, 1).value ||
        fmod(own, others) != 0) {
        return dt__onnx_refuse(g, "it has %g heads of queries and %g of keys; expected the same",
                               own, others);
    }
    DT__TRY(repeat_heads(g, &k, (int64_t)(own / others)));
    DT__TRY(repeat_heads(g, &v, (int64_t)(own / others)));
    DT__TRY(weigh_heads(g, &q, &k));
    weights = *dt__onnx_out(g, 0);
    weights.name = "";
    const dt__onnx_value *const in[] = { &weights, &v };
    DT__TRY(dt__onnx_apply(g, &(dt__onnx_form){ "matmul", false }, in, 2, &y));
    if (heads > 0) {
        swap_axes(&y, 1, 2);
        DT__TRY(dt__onnx_constant(g, &to, 1, &three, NULL, &n));
        for (int i = 0; i < 2; i++) n[i] = dt__onnx_extent(g, &y, i);
        n[2].value = dt__onnx_extent(g, &y, 2).value * dt__onnx_extent(g, &y, 3).value;
        DT__TRY(dt__onnx_reshape_value(g, &y, &to));
    }
    return dt__onnx_finish(g, DT_OK, &y);
}
