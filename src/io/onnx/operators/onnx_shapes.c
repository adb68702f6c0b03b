/* Nodes that change the shape or the order of dimensions, or return the shape. */
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

dt_status dt__onnx_identity(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_same(g, 0, &x);
    return DT_OK;
}

/* Converts each element of a constant; uses n if it depends on the batch size, or if floats are not
 * exact. */
static dt_status cast_constant(dt__onnx *g, const dt__onnx_value *x, int to)
{
    dt__onnx_value *out = dt__onnx_out(g, 0);
    float *f = NULL;
    dt__onnx_number *n = NULL;
    bool batch = false;
    for (int64_t i = 0; i < x->count && x->n != NULL; i++) batch |= x->n[i].batch;
    const bool floats = dt__onnx_is_real(to) && to != DT__ONNX_DOUBLE && !batch;
    DT__TRY(dt__onnx_constant(g, out, x->rank, x->dims, floats ? &f : NULL, &n));
    out->type = to;
    out->initializer = x->initializer;
    for (int64_t i = 0; i < x->count; i++) {
        dt__onnx_number y = dt__onnx_number_at(x, i);
        if (to == DT__ONNX_BOOL) y.value = y.value != 0;
        else if (!dt__onnx_is_real(to) && !y.batch) y.value = trunc(y.value);
        if ((to == DT__ONNX_BOOL && y.batch) || !dt__onnx_round(to, &y.value)) {
            return dt__onnx_refuse(g, "a number is beyond the range of its type");
        }
        if (f != NULL) f[i] = (float)y.value;
        else n[i] = y;
    }
    return DT_OK;
}

/* Whether all nodes that read the result use it as indices of rows of constants. */
static bool chooses_rows(const dt__onnx *g)
{
    const char *y = g->node->output[0];
    bool found = false;
    for (size_t k = 0; k < g->graph->n_node; k++) {
        const dt__onnx_node *n = g->graph->node[k];
        for (size_t i = 0; i < n->n_input; i++) {
            if (strcmp(n->input[i], y) != 0) continue;
            if (strcmp(n->op_type, "Gather") != 0 || i != 1) return false;
            found = true;
        }
    }
    for (size_t i = 0; i < g->graph->n_output; i++) {
        found = found && strcmp(g->graph->output[i]->name, y) != 0;
    }
    return found;
}

/* Float indices are not converted: layer embedding refuses those that are not integers. */
static dt_status cast_indices(dt__onnx *g, const dt__onnx_value *x)
{
    if (!chooses_rows(g)) {
        return dt__onnx_refuse(g, "it casts computed values to integers, which Gather alone may "
                                  "read, to choose rows of a constant");
    }
    dt__onnx_same(g, 0, x);
    dt__onnx_out(g, 0)->whole = true;
    return DT_OK;
}

/* A computed value stays float32; a Cast to a type of fewer bits would round, and is refused. */
static dt_status cast(dt__onnx *g, int64_t to)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    const bool wide = to == DT__ONNX_FLOAT || to == DT__ONNX_DOUBLE;
    if (x.kind == DT__ONNX_COMPUTED && x.integers && to == x.type) {
        dt__onnx_same(g, 0, &x); /* codes stay codes */
        return DT_OK;
    }
    if (x.kind == DT__ONNX_COMPUTED && (to == DT__ONNX_F16 || to == DT__ONNX_BF16)) {
        return dt__onnx_refuse(g,
                               "it casts to %s, which rounds; values are computed in float: export "
                               "the model in float32",
                               to == DT__ONNX_F16 ? "float16" : "bfloat16");
    }
    if (x.kind == DT__ONNX_COMPUTED && to == DT__ONNX_BOOL) return dt__onnx_truth(g, &x);
    if (x.whole && (to == DT__ONNX_I64 || to == DT__ONNX_I32)) {
        dt__onnx_same(g, 0, &x);
        return DT_OK;
    }
    if (x.kind == DT__ONNX_COMPUTED && (to == DT__ONNX_I64 || to == DT__ONNX_I32)) {
        return cast_indices(g, &x);
    }
    if (!wide && (x.kind == DT__ONNX_COMPUTED ||
                  (to != DT__ONNX_I32 && to != DT__ONNX_I64 && to != DT__ONNX_BOOL &&
                   to != DT__ONNX_F16 && to != DT__ONNX_BF16))) {
        return dt__onnx_refuse(g, "it casts to the data type %lld, which is not read",
                               (long long)to);
    }
    if (x.kind != DT__ONNX_COMPUTED && x.type != to) return cast_constant(g, &x, (int)to);
    dt__onnx_same(g, 0, &x);
    return DT_OK;
}

dt_status dt__onnx_cast(dt__onnx *g) { return cast(g, dt__onnx_int_of(g->node, "to", 0)); }

dt_status dt__onnx_cast_like(dt__onnx *g)
{
    const dt__onnx_value *like = dt__onnx_in(g, 1);
    return cast(g, like->kind == DT__ONNX_COMPUTED ? DT__ONNX_FLOAT : like->type);
}

dt_status dt__onnx_shape(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    const int rank = x.rank - g->front;
    if (x.spread < 0) return dt__onnx_refuse(g, "it changes a constant along the batch dimension");
    int64_t start = dt__onnx_int_of(g->node, "start", 0),
            end = dt__onnx_int_of(g->node, "end", rank);
    dt__onnx_number *n;
    if (start < 0) start += rank;
    if (end < 0) end += rank;
    start = dt__max_i64(0, dt__min_i64(start, rank));
    end = dt__max_i64(start, dt__min_i64(end, rank));
    const int64_t count = end - start;
    DT__TRY(dt__onnx_constant(g, dt__onnx_out(g, 0), 1, &count, NULL, &n));
    for (int64_t i = 0; i < count; i++) {
        const int at = (int)(start + i) + g->front;
        if (x.kind == DT__ONNX_COMPUTED) n[i] = dt__onnx_extent(g, &x, at);
        else n[i] = (dt__onnx_number){ (double)x.dims[at], x.spread == at + 1 };
    }
    return DT_OK;
}

dt_status dt__onnx_size(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_number *n, size = { 1, false };
    if (x.spread < 0) return dt__onnx_refuse(g, "it changes a constant along the batch dimension");
    DT__TRY(dt__onnx_constant(g, dt__onnx_out(g, 0), 0, NULL, NULL, &n));
    for (int i = g->front; i < x.rank; i++) {
        dt__onnx_number own = { 1, false };
        if (x.kind == DT__ONNX_COMPUTED) own = dt__onnx_extent(g, &x, i);
        else own = (dt__onnx_number){ (double)x.dims[i], x.spread == i + 1 };
        size.value *= own.value;
        size.batch |= own.batch;
    }
    *n = size;
    return DT_OK;
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* A shape of the file with the batch dimension in front. */
static dt_status with_batch(dt__onnx *g, const dt__onnx_value *to, dt__onnx_value *out)
{
    const int64_t count = to->count + 1;
    dt__onnx_number *n;
    *out = (dt__onnx_value){ .name = to->name };
    DT__TRY(dt__onnx_constant(g, out, 1, &count, NULL, &n));
    n[0] = (dt__onnx_number){ 1, true };
    for (int64_t i = 1; i < count; i++) n[i] = dt__onnx_number_at(to, i - 1);
    return DT_OK;
}

dt_status dt__onnx_reshape(dt__onnx *g)
{
    const dt__onnx_value *to = dt__onnx_in(g, 1);
    dt__onnx_value v = *dt__onnx_in(g, 0), whole;
    if (to->kind != DT__ONNX_CONSTANT)
        return dt__onnx_refuse(
            g, "its shape is computed; expected a constant, or the size of an input");
    if (v.kind != DT__ONNX_COMPUTED)
        return dt__onnx_refuse(g, "its input is a constant; expected a computed value");
    if (g->front > 0) {
        DT__TRY(with_batch(g, to, &whole));
        to = &whole;
    }
    return dt__onnx_finish(g, dt__onnx_reshape_value(g, &v, to), &v);
}

dt_status dt__onnx_flatten(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    const int rank = v->rank - g->front;
    const int64_t count = 2 + g->front;
    dt__onnx_value to = { .name = v->name }, own = *v;
    dt__onnx_layer *l;
    dt__onnx_number *n;
    int64_t axis = dt__onnx_int_of(g->node, "axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) {
        return dt__onnx_refuse(g, "axis %lld does not exist: its input has %d dimensions",
                               (long long)axis, rank);
    }
    if (g->front == 0 && axis == 1 && rank > 2 && v->axis[0] == 0 && !dt__onnx_is_merged(v)) {
        DT__TRY(dt__onnx_plain(g, v, &l));
        DT__TRY(dt__onnx_simple(g, "flatten", l, &l));
        dt__onnx_result(g, 0, l);
        return DT_OK;
    }
    DT__TRY(dt__onnx_constant(g, &to, 1, &count, NULL, &n));
    for (int i = 0; i < count; i++) n[i] = (dt__onnx_number){ 1, g->front > 0 && i == 0 };
    for (int i = 0; i < rank; i++) {
        const dt__onnx_number x = dt__onnx_extent(g, v, i + g->front);
        n[g->front + (i >= axis)].value *= x.value;
        n[g->front + (i >= axis)].batch |= x.batch;
    }
    return dt__onnx_finish(g, dt__onnx_reshape_value(g, &own, &to), &own);
}

/* ---- dimensions of extent 1 ------------------------------------------------------------------ */

dt_status dt__onnx_dropped(dt__onnx *g, dt__onnx_value *v, int i)
{
    dt__onnx_layer *l = dt__onnx_maker(g, v);
    const int axis = v->axis[i];
    const dt__onnx_number extent = dt__onnx_extent(g, v, i);
    if (extent.batch || extent.value != 1) {
        return dt__onnx_refuse(g, "dimension %d does not have extent 1, so it cannot be left out",
                               i);
    }
    dt_shape shape = l->shape;
    shape.rank--;
    for (int k = axis - 1; k < shape.rank; k++) shape.dims[k] = shape.dims[k + 1];
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    v->layer = l->index;
    v->plain = -1;
    v->rank--;
    for (int k = i; k < v->rank; k++) v->axis[k] = v->axis[k + 1];
    for (int k = 0; k < v->rank; k++) v->axis[k] -= v->axis[k] > axis;
    v->outer -= v->outer > axis;
    v->inner -= v->inner > axis;
    return DT_OK;
}

dt_status dt__onnx_inserted(dt__onnx *g, dt__onnx_value *v, int i)
{
    dt__onnx_layer *l = dt__onnx_maker(g, v);
    if (v->rank >= DT_MAX_RANK || l->shape.rank + 1 >= DT_MAX_RANK) {
        return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    }
    int axis = 1;
    for (int k = 0; k < i; k++) {
        axis += v->axis[k] != 0 ? 1 : (v->outer != 0) + (v->inner != 0);
    }
    dt_shape shape = l->shape;
    for (int k = shape.rank++; k > axis - 1; k--) shape.dims[k] = shape.dims[k - 1];
    shape.dims[axis - 1] = 1;
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    v->layer = l->index;
    v->plain = -1;
    for (int k = 0; k < v->rank; k++) v->axis[k] += v->axis[k] >= axis;
    v->outer += v->outer >= axis;
    v->inner += v->inner >= axis;
    for (int k = v->rank++; k > i; k--) v->axis[k] = v->axis[k - 1];
    v->axis[i] = axis;
    return DT_OK;
}

dt_status dt__onnx_squeeze(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    bool gone[DT_MAX_RANK] = { false };
    dt_ints axes;
    int axis;
    DT__TRY(dt__onnx_list_or_in(g, "axes", 1, &axes));
    if (axes.n == 0 && g->batch == 1)
        return dt__onnx_refuse(g, "it has no axes, and the batch is 1; expected axes");
    for (int i = 0; i < v.rank; i++) {
        const dt__onnx_number n = dt__onnx_extent(g, &v, i);
        gone[i] = axes.n == 0 && !n.batch && n.value == 1;
    }
    for (int i = 0; i < axes.n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.v[i], v.rank, gone, &axis));
    }
    for (int i = v.rank - 1; i >= 0; i--) {
        if (gone[i]) DT__TRY(dt__onnx_dropped(g, &v, i));
    }
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

dt_status dt__onnx_unsqueeze(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    bool added[DT_MAX_RANK] = { false };
    dt_ints axes;
    int axis;
    DT__TRY(dt__onnx_list_or_in(g, "axes", 1, &axes));
    const int rank = v.rank + axes.n;
    if (rank > DT_MAX_RANK) return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    for (int i = 0; i < axes.n; i++) {
        DT__TRY(dt__onnx_axis(g, axes.v[i], rank, &axis));
        added[axis] = true;
    }
    for (int i = 0; i < rank; i++) {
        if (added[i]) DT__TRY(dt__onnx_inserted(g, &v, i));
    }
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

/* The permutation of `rank` dimensions in attribute perm. */
static dt_status read_order(dt__onnx *g, int rank, int order[DT_MAX_RANK])
{
    bool seen[DT_MAX_RANK] = { false };
    dt_ints perm;
    DT__TRY(dt__onnx_list(g, "perm", &perm));
    if (perm.n > rank)
        return dt__onnx_refuse(g, "perm is not a permutation of %d dimensions", rank);
    for (int i = 0; i < rank; i++) {
        const int64_t from = perm.n == 0 ? rank - 1 - i : i < perm.n ? perm.v[i] : -1;
        if (from < 0 || from >= rank || seen[from]) {
            return dt__onnx_refuse(g, "perm is not a permutation of %d dimensions", rank);
        }
        seen[from] = true;
        order[i] = (int)from;
    }
    return DT_OK;
}

dt_status dt__onnx_transpose(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt__onnx_value out = *v;
    int order[DT_MAX_RANK];
    const int rank = v->rank - g->front;
    DT__TRY(read_order(g, rank, order));
    for (int i = 0; i < rank; i++) out.axis[i + g->front] = v->axis[order[i] + g->front];
    bool plain = !dt__onnx_is_merged(v);
    for (int i = 0; i < out.rank; i++) plain &= out.axis[i] == i;
    out.plain = plain ? out.layer : -1;
    dt__onnx_same(g, 0, &out);
    return DT_OK;
}

dt_status dt__onnx_fold_transpose(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    int order[DT_MAX_RANK];
    DT__TRY(read_order(g, v->rank, order));
    DT__TRY(dt__onnx_transposed(g, v, order, dt__onnx_out(g, 0)));
    if (v->rank == 2 && order[0] == 1) dt__onnx_out(g, 0)->turned = v;
    return DT_OK;
}
