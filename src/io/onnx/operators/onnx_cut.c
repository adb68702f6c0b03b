/* Joins, slices and repeats values: Concat, Slice, Split, Gather, Tile, Expand. */
#include "io/onnx/onnx.h"

/* Repeats a constant along a dimension that is merged with the batch of `like`; axis 0: none. */
static dt_status fill_merged(dt__onnx *g, const dt__onnx_value *like, int axis, dt__onnx_layer **l)
{
    if (axis == 0 || (*l)->shape.dims[axis - 1] != 1) return DT_OK;
    const int64_t n = dt__onnx_maker(g, like)->shape.dims[axis - 1];
    int64_t *first = dt__onnx_memory(g, n, sizeof *first); /* n zeros */
    return first == NULL ? DT_ERR_NOMEM : dt__onnx_taken(g, *l, axis, first, n, l);
}

/* The operands of a Concat as layers with the order of dimensions of *like. */
static dt_status read_parts(dt__onnx *g, dt__onnx_value *like, dt__onnx_layer **part)
{
    const int n = (int)g->node->n_input;
    bool first = true;
    for (int i = 0; i < n; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, i);
        if (v == NULL) return dt__onnx_refuse(g, "an input is absent");
        if (v->kind != DT__ONNX_COMPUTED) continue;
        dt__onnx_value x = *v;
        DT__TRY(dt__onnx_ordered(g, &x));
        part[i] = dt__onnx_maker(g, &x);
        if (!first && !dt__onnx_alike(like, &x)) {
            return dt__onnx_refuse(
                g, "the batches of its inputs are dimensions %d and %d; expected the same",
                dt__onnx_batch_at(like), dt__onnx_batch_at(&x));
        }
        *like = x;
        first = false;
    }
    for (int i = 0; i < n; i++) {
        const dt__onnx_value *v = dt__onnx_in(g, i);
        dt__onnx_value own = { .name = v->name };
        if (v->kind == DT__ONNX_COMPUTED) continue;
        if (v->rank + g->front != like->rank) {
            return dt__onnx_refuse(g, "its constant has rank %d, too much beside the batch",
                                   v->rank);
        }
        DT__TRY(dt__onnx_arranged(g, like, v, &own));
        DT__TRY(dt__onnx_given(g, dt__onnx_maker(g, like), &own, &part[i]));
        DT__TRY(fill_merged(g, like, like->outer, &part[i]));
        DT__TRY(fill_merged(g, like, like->inner, &part[i]));
    }
    return DT_OK;
}

/* A layer reads at most DT_MAX_IN others, so longer lists are joined step by step. */
dt_status dt__onnx_concat(dt__onnx *g)
{
    dt__onnx_layer *l = NULL;
    dt__onnx_value like;
    const int64_t n = (int64_t)g->node->n_input;
    dt__onnx_layer **part = dt__onnx_memory(g, n, sizeof *part);
    int axis;
    if (part == NULL) return DT_ERR_NOMEM;
    DT__TRY(read_parts(g, &like, part));
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", 1), like.rank, &axis));
    if (like.axis[axis] == 0)
        return dt__onnx_refuse(g, "it is along the batch dimension; expected another");
    for (int64_t i = 0; i < n && n > 1; i++) {
        if (l == NULL || l->n_from == DT_MAX_IN) {
            const dt__onnx_layer *full = l;
            if (l != NULL) DT__TRY(dt__onnx_add(g, l));
            DT__TRY(dt__onnx_new(g, "concat", &l));
            if (full != NULL) dt__onnx_read_from(l, full);
        }
        ((dt_concat_layer *)l->options)->dim = like.axis[axis];
        dt__onnx_read_from(l, part[i]);
    }
    if (n > 1) DT__TRY(dt__onnx_add(g, l));
    dt__onnx_keep(g, 0, &like, n > 1 ? l : part[0]);
    return DT_OK;
}

/* Sets v's layer to l, which differs in the extent of one dimension only. */
static void replace(dt__onnx_value *v, const dt__onnx_layer *l)
{
    if (l->index != v->layer) v->plain = -1;
    v->layer = l->index;
}

/* Selects elements in descending order. */
static dt_status cut_back(dt__onnx *g, dt__onnx_value *v, const dt__onnx_range *r, int64_t count)
{
    dt__onnx_layer *l;
    int64_t *index = dt__onnx_memory(g, count, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < count; k++) index[k] = r->first + k * r->step;
    DT__TRY(dt__onnx_taken(g, dt__onnx_maker(g, v), v->axis[r->axis], index, count, &l));
    replace(v, l);
    return DT_OK;
}

/* Slices v. Of the batch only the whole range is allowed. */
static dt_status cut(dt__onnx *g, dt__onnx_value *v, dt__onnx_range r)
{
    dt__onnx_layer *l;
    const int64_t n = (int64_t)dt__onnx_extent(g, v, r.axis).value;
    const int64_t all = g->batch > 0 ? n * g->batch : INT32_MAX;
    if (v->axis[r.axis] == 0) {
        const bool whole = r.first == 0 && r.end >= all && r.step == 1;
        return whole ? DT_OK
                     : dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
    }
    const int64_t count = dt__onnx_clamp(&r, n);
    if (count == 0) return dt__onnx_refuse(g, "its result would be empty");
    if (r.step < 0) return cut_back(g, v, &r, count);
    const int64_t range[3] = { r.first, r.end, r.step };
    DT__TRY(dt__onnx_sliced(g, dt__onnx_maker(g, v), v->axis[r.axis], range, &l));
    replace(v, l);
    return DT_OK;
}

dt_status dt__onnx_slice(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    dt__onnx_range range[DT_MAX_RANK];
    int n;
    DT__TRY(dt__onnx_ranges(g, v.rank, &n, range));
    for (int i = 0; i < n; i++) DT__TRY(cut(g, &v, range[i]));
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

static dt_status parts_of(dt__onnx *g, int64_t extent, int64_t **out)
{
    const int64_t n = (int64_t)g->node->n_output, each = (extent + n - 1) / n;
    int64_t left = extent, *size = *out = dt__onnx_memory(g, n, sizeof *size);
    dt_ints sizes;
    if (size == NULL) return DT_ERR_NOMEM;
    DT__TRY(dt__onnx_list_or_in(g, "split", 1, &sizes));
    if (sizes.n != 0 && sizes.n != n) {
        return dt__onnx_refuse(g, "it has %lld outputs and %d sizes; expected a size for each",
                               (long long)n, sizes.n);
    }
    if (dt__onnx_int_of(g->node, "num_outputs", n) != n) {
        return dt__onnx_refuse(g, "num_outputs is %lld, but it has %lld outputs",
                               (long long)dt__onnx_int_of(g->node, "num_outputs", n), (long long)n);
    }
    if (sizes.n == 0 && g->file->opset < 18 && extent % n != 0) {
        return dt__onnx_refuse(g, "%lld elements cannot be cut into %lld equal parts",
                               (long long)extent, (long long)n);
    }
    for (int i = 0; i < n; left -= size[i++]) {
        size[i] = sizes.n > 0 ? sizes.v[i] : dt__min_i64(each, left);
        if (size[i] == 0)
            return dt__onnx_refuse(g, "one of its parts is empty; expected 1 element or more");
        if (size[i] < 0 || size[i] > left) return dt__onnx_refuse(g, "the sizes do not fit");
    }
    return left == 0 ? DT_OK : dt__onnx_refuse(g, "the sizes do not fit");
}

dt_status dt__onnx_split(dt__onnx *g)
{
    const dt__onnx_value v = *dt__onnx_in(g, 0);
    dt__onnx_range r = { .step = 1 };
    int64_t *size;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", 0), v.rank, &r.axis));
    if (v.axis[r.axis] == 0)
        return dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
    DT__TRY(parts_of(g, (int64_t)dt__onnx_extent(g, &v, r.axis).value, &size));
    for (int i = 0; (size_t)i < g->node->n_output; r.first = r.end, i++) {
        dt__onnx_value part = v;
        r.end += size[i];
        if (dt__onnx_out(g, i) != NULL) DT__TRY(cut(g, &part, r));
        dt__onnx_same(g, i, &part);
    }
    return DT_OK;
}

/* Constant indices along a dimension, counted from its front. */
static dt_status indices_of(dt__onnx *g, const dt__onnx_value *at, int64_t extent, int64_t **out)
{
    int64_t *index = *out = dt__onnx_memory(g, at->count, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < at->count; i++) {
        const dt__onnx_number n = dt__onnx_number_at(at, i);
        if (n.batch || !(n.value >= (double)-extent && n.value < (double)extent)) {
            return dt__onnx_refuse(g, "index %lld is not one of %lld elements", (long long)i,
                                   (long long)extent);
        }
        index[i] = (int64_t)n.value;
        if (index[i] < 0) index[i] += extent;
    }
    return DT_OK;
}

/* Rows of a constant table, selected by an input of integers. */
static dt_status rows_of_table(dt__onnx *g, const dt__onnx_value *table, const dt__onnx_value *at)
{
    dt__onnx_layer *l, *from;
    if (table->rank != 2 || dt__onnx_int_of(g->node, "axis", 0) != 0) {
        return dt__onnx_refuse(g, "its constant must be [rows, width], of which it takes rows");
    }
    if (table->dims[0] > 1 << 24) {
        return dt__onnx_refuse(g, "its table has more rows than floats can name: %d", 1 << 24);
    }
    DT__TRY(dt__onnx_plain(g, at, &from));
    DT__TRY(dt__onnx_new(g, "embedding", &l));
    dt_embedding_layer *o = l->options;
    o->count = table->dims[0];
    o->width = table->dims[1];
    DT__TRY(dt__onnx_weigh(g, l, "weight", table));
    dt__onnx_read_from(l, from);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* Indices of rank 1 keep the rank; others replace the dimension by their own dimensions. */
dt_status dt__onnx_gather(dt__onnx *g)
{
    const dt__onnx_value *at = dt__onnx_in(g, 1);
    dt__onnx_value v = *dt__onnx_in(g, 0);
    dt__onnx_layer *l;
    int64_t *index;
    int axis;
    if (v.kind != DT__ONNX_COMPUTED && at->whole) return rows_of_table(g, dt__onnx_in(g, 0), at);
    if (v.kind != DT__ONNX_COMPUTED)
        return dt__onnx_refuse(g, "its indices are computed; expected constants");
    if (at->kind != DT__ONNX_CONSTANT)
        return dt__onnx_refuse(g, "its indices are computed; expected constants");
    DT__TRY(dt__onnx_axis(g, dt__onnx_int_of(g->node, "axis", 0), v.rank, &axis));
    if (v.axis[axis] == 0)
        return dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
    DT__TRY(indices_of(g, at, (int64_t)dt__onnx_extent(g, &v, axis).value, &index));
    if (at->rank > 1) {
        DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &l));
        v.layer = v.plain = l->index;
        for (int i = 0; i < v.rank; i++) v.axis[i] = i;
    }
    DT__TRY(dt__onnx_taken(g, dt__onnx_maker(g, &v), v.axis[axis], index, at->count, &l));
    replace(&v, l);
    if (at->rank == 0) DT__TRY(dt__onnx_dropped(g, &v, axis));
    dt__onnx_same(g, 0, &v);
    if (at->rank <= 1) return DT_OK;
    dt_shape shape = { .rank = 0 };
    if (l->shape.rank + at->rank > DT_MAX_RANK) {
        return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    }
    for (int i = 1; i <= l->shape.rank; i++) {
        for (int k = 0; k < at->rank && i == axis; k++) shape.dims[shape.rank++] = at->dims[k];
        if (i != axis) shape.dims[shape.rank++] = l->shape.dims[i - 1];
    }
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}

/* ---- repeating ------------------------------------------------------------------------------- */

dt_status dt__onnx_repeated(dt__onnx *g, dt__onnx_value *v, int i, int64_t times)
{
    dt__onnx_layer *l;
    int64_t count;
    if (times == 1) return DT_OK;
    if (v->axis[i] == 0)
        return dt__onnx_refuse(g, "it changes the batch dimension, which must stay");
    const int64_t extent = (int64_t)dt__onnx_extent(g, v, i).value;
    if (times < 1 || __builtin_mul_overflow(extent, times, &count) || count > INT32_MAX) {
        return dt__onnx_refuse(g, "%lld times is not possible", (long long)times);
    }
    int64_t *index = dt__onnx_memory(g, count, sizeof *index);
    if (index == NULL) return DT_ERR_NOMEM;
    for (int64_t k = 0; k < count; k++) index[k] = k % extent;
    DT__TRY(dt__onnx_taken(g, dt__onnx_maker(g, v), v->axis[i], index, count, &l));
    replace(v, l);
    return DT_OK;
}

dt_status dt__onnx_tile(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    dt_ints times;
    DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 1), "repeats", &times));
    if (times.n != v.rank - g->front) {
        return dt__onnx_refuse(g, "%d repeats for %d dimensions", times.n, v.rank - g->front);
    }
    for (int i = 0; i < times.n; i++) DT__TRY(dt__onnx_repeated(g, &v, i + g->front, times.v[i]));
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

/* Repeats dimensions of extent 1; adds missing ones in front. */
dt_status dt__onnx_expand(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    const dt__onnx_value *to = dt__onnx_in(g, 1);
    if (v.kind != DT__ONNX_COMPUTED || to->kind != DT__ONNX_CONSTANT) {
        return dt__onnx_refuse(
            g, "its shape is computed; expected a constant, or the size of an input");
    }
    if (to->count + g->front > DT_MAX_RANK) {
        return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    }
    const int rank = (int)to->count + g->front;
    while (v.rank < rank) DT__TRY(dt__onnx_inserted(g, &v, g->front));
    for (int i = 0; i < to->count; i++) {
        const int at = v.rank - (int)to->count + i;
        const dt__onnx_number n = dt__onnx_number_at(to, i), own = dt__onnx_extent(g, &v, at);
        if (n.batch == own.batch && n.value == own.value) continue;
        if (!n.batch && (n.value == 1 || (own.batch && n.value == own.value * (double)g->batch)))
            continue;
        if (n.batch || own.batch || own.value != 1) {
            return dt__onnx_refuse(g, "its shape does not fit dimension %d of its input", i);
        }
        DT__TRY(dt__onnx_repeated(g, &v, at, (int64_t)n.value));
    }
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}
