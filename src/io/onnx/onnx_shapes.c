/* Nodes that arrange elements: Reshape, Transpose, Concat, Slice and others. */
#include "io/onnx/onnx.h"

#include <float.h>
#include <math.h>
#include <string.h>

dt_status dt__onnx_identity(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    dt__onnx_same(g, 0, &x);
    return DT_OK;
}

/* Each element of a constant in another type, as n where it depends on the batch size, or where
 * floats would not hold it. */
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
            return dt__onnx_refuse(g, "a number that the type does not hold");
        }
        if (f != NULL) f[i] = (float)y.value;
        else n[i] = y;
    }
    return DT_OK;
}

/* A computed value stays a float: a type of fewer bits would round it. */
static dt_status cast(dt__onnx *g, int64_t to)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    const bool wide = to == DT__ONNX_FLOAT || to == DT__ONNX_DOUBLE;
    if (x.kind == DT__ONNX_COMPUTED && (to == DT__ONNX_F16 || to == DT__ONNX_BF16)) {
        return dt__onnx_refuse(g,
                               "to %s, which rounds; values are computed in float: export the "
                               "model in float32",
                               to == DT__ONNX_F16 ? "float16" : "bfloat16");
    }
    if (!wide && (x.kind == DT__ONNX_COMPUTED ||
                  (to != DT__ONNX_I32 && to != DT__ONNX_I64 && to != DT__ONNX_BOOL &&
                   to != DT__ONNX_F16 && to != DT__ONNX_BF16))) {
        return dt__onnx_refuse(g, "to the data type %lld", (long long)to);
    }
    if (x.kind != DT__ONNX_COMPUTED && x.type != to) return cast_constant(g, &x, (int)to);
    dt__onnx_same(g, 0, &x);
    return DT_OK;
}

dt_status dt__onnx_cast(dt__onnx *g) { return cast(g, dt__onnx_int(g, "to", 0)); }

dt_status dt__onnx_cast_like(dt__onnx *g)
{
    const dt__onnx_value *like = dt__onnx_in(g, 1);
    return cast(g, like->kind == DT__ONNX_COMPUTED ? DT__ONNX_FLOAT : like->type);
}

dt_status dt__onnx_shape(dt__onnx *g)
{
    const dt__onnx_value x = *dt__onnx_in(g, 0);
    int64_t start = dt__onnx_int(g, "start", 0), end = dt__onnx_int(g, "end", x.rank);
    dt__onnx_number *n;
    if (start < 0) start += x.rank;
    if (end < 0) end += x.rank;
    start = dt__max_i64(0, dt__min_i64(start, x.rank));
    end = dt__max_i64(start, dt__min_i64(end, x.rank));
    const int64_t count = end - start;
    DT__TRY(dt__onnx_constant(g, dt__onnx_out(g, 0), 1, &count, NULL, &n));
    for (int64_t i = 0; i < count; i++) {
        const int at = (int)(start + i);
        if (x.kind == DT__ONNX_COMPUTED) n[i] = dt__onnx_extent(g, &x, at);
        else n[i].value = (double)x.dims[at];
    }
    return DT_OK;
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* Whether a shape's first number keeps the batch: the symbol, -1, a copy, the batch size that the
 * file fixes, or 1 where the other numbers are fixed too, so that only one example fits. */
static bool keeps_batch(const dt__onnx *g, const dt__onnx_value *to)
{
    const dt__onnx_number n = dt__onnx_number_at(to, 0);
    if (n.batch) return n.value == 1;
    bool open = false;
    for (int64_t i = 1; i < to->count; i++) open |= dt__onnx_number_at(to, i).value == -1;
    const bool copies = n.value == 0 && dt__onnx_int(g, "allowzero", 0) == 0;
    const bool one = n.value == 1 && g->batch == 0 && !open;
    return n.value == -1 || copies || one || (g->batch > 0 && n.value == (double)g->batch);
}

/* The shape of one example that `to` asks for, from that of x. */
static dt_status resolve(dt__onnx *g, const dt_shape *x, const dt__onnx_value *to, dt_shape *out)
{
    int64_t count, known = 1;
    int open = -1;
    if (to->count < 1 || to->count > DT_MAX_RANK || !keeps_batch(g, to)) {
        return dt__onnx_refuse(g, "the first dimension of its result is not the batch");
    }
    out->rank = (int)to->count - 1;
    for (int i = 0; i < out->rank; i++) {
        const dt__onnx_number n = dt__onnx_number_at(to, i + 1);
        const bool copies = n.value == 0 && i < x->rank && dt__onnx_int(g, "allowzero", 0) == 0;
        out->dims[i] = copies ? x->dims[i] : (int64_t)n.value;
        if (n.batch) return dt__onnx_refuse(g, "its result has the batch twice");
        if (out->dims[i] == -1 && open < 0) open = i;
        else if (out->dims[i] < 1 || __builtin_mul_overflow(known, out->dims[i], &known)) known = 0;
    }
    if (!dt__product(x->rank, x->dims, &count) || known == 0 || count % known != 0 ||
        (open < 0 && count != known)) {
        return dt__onnx_refuse(g, "the new shape does not fit examples of %lld elements",
                               (long long)count);
    }
    if (open >= 0) out->dims[open] = count / known;
    return DT_OK;
}

/* The batch is dimension `at` of v, and of its result; the dimensions before it stay. *out: `to`
 * with the batch first. */
static dt_status move_batch(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *to, int at,
                            dt__onnx_value *out)
{
    dt__onnx_number *n;
    DT__TRY(dt__onnx_constant(g, out, 1, &to->count, NULL, &n));
    for (int i = 0; i < to->count; i++) {
        const dt__onnx_number own = dt__onnx_number_at(to, i);
        const bool copies = i < v->rank && own.value == 0 && dt__onnx_int(g, "allowzero", 0) == 0;
        n[i < at ? i + 1 : i == at ? 0 : i] = copies ? dt__onnx_extent(g, v, i) : own;
        if (i >= at || copies) continue;
        if (own.batch || own.value != dt__onnx_extent(g, v, i).value) {
            return dt__onnx_refuse(g, "changes dimensions before the batch, which is number %d",
                                   at);
        }
    }
    return to->count > at ? DT_OK : dt__onnx_refuse(g, "its result has no batch");
}

dt_status dt__onnx_reshape(dt__onnx *g)
{
    dt__onnx_layer *x;
    dt_shape shape = { .rank = 0 };
    const dt__onnx_value *v = dt__onnx_in(g, 0), *to = dt__onnx_in(g, 1);
    dt__onnx_value first = { .name = to->name };
    int order[DT_MAX_RANK], at = 0;
    if (to->kind != DT__ONNX_CONSTANT) return dt__onnx_refuse(g, "to a computed shape");
    if (v->kind != DT__ONNX_COMPUTED) return dt__onnx_refuse(g, "of a constant");
    while (v->axis[at] != 0) at++;
    if (at > 0) {
        DT__TRY(move_batch(g, v, to, at, &first));
        for (int i = 0; i < v->rank; i++) order[i < at ? i + 1 : i == at ? 0 : i] = v->axis[i];
        DT__TRY(dt__onnx_permuted(g, dt__onnx_maker(g, v), order, &x));
    } else {
        DT__TRY(dt__onnx_plain(g, v, &x));
    }
    DT__TRY(resolve(g, &x->shape, at > 0 ? &first : to, &shape));
    DT__TRY(dt__onnx_reshaped(g, x, &shape, &x));
    dt__onnx_result(g, 0, x);
    dt__onnx_value *out = dt__onnx_out(g, 0);
    for (int i = 0; i <= at && at > 0; i++) out->axis[i] = i < at ? i + 1 : 0;
    if (at > 0) out->plain = -1;
    return DT_OK;
}

dt_status dt__onnx_flatten(dt__onnx *g)
{
    dt__onnx_layer *x;
    int axis;
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", 1), x->shape.rank + 1, &axis));
    if (axis != 1) return dt__onnx_refuse(g, "from axis %d; 1 is known", axis);
    if (x->shape.rank != 1) DT__TRY(dt__onnx_simple(g, "flatten", x, &x));
    dt__onnx_result(g, 0, x);
    return DT_OK;
}

/* ---- dimensions of extent 1 ------------------------------------------------------------------ */

/* v without dimension i of its own, which has extent 1. */
static dt_status drop(dt__onnx *g, dt__onnx_value *v, int i)
{
    dt__onnx_layer *l = dt__onnx_maker(g, v);
    const int axis = v->axis[i];
    const dt__onnx_number extent = dt__onnx_extent(g, v, i);
    if (extent.batch || extent.value != 1) {
        return dt__onnx_refuse(g, "of dimension %d, whose extent is not 1", i);
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
    return DT_OK;
}

/* v with a dimension of extent 1 before its dimension i. */
static dt_status insert(dt__onnx *g, dt__onnx_value *v, int i)
{
    dt__onnx_layer *l = dt__onnx_maker(g, v);
    if (v->rank >= DT_MAX_RANK) return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    const int axis = i > 0 && v->axis[i - 1] == i - 1 ? i : v->rank;
    dt_shape shape = l->shape;
    for (int k = shape.rank++; k > axis - 1; k--) shape.dims[k] = shape.dims[k - 1];
    shape.dims[axis - 1] = 1;
    DT__TRY(dt__onnx_reshaped(g, l, &shape, &l));
    v->layer = l->index;
    v->plain = -1;
    for (int k = 0; k < v->rank; k++) v->axis[k] += v->axis[k] >= axis;
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
    if (axes.n == 0 && g->batch == 1) return dt__onnx_refuse(g, "of a batch of 1, without axes");
    for (int i = 0; i < v.rank; i++) {
        const dt__onnx_number n = dt__onnx_extent(g, &v, i);
        gone[i] = axes.n == 0 && !n.batch && n.value == 1;
    }
    for (int i = 0; i < axes.n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.v[i], v.rank, gone, &axis));
    }
    for (int i = v.rank - 1; i >= 0; i--) {
        if (gone[i]) DT__TRY(drop(g, &v, i));
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
        if (added[i]) DT__TRY(insert(g, &v, i));
    }
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

dt_status dt__onnx_transpose(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt__onnx_value out = *v;
    bool seen[DT_MAX_RANK] = { false };
    dt_ints perm;
    DT__TRY(dt__onnx_list(g, "perm", &perm));
    if (perm.n > v->rank)
        return dt__onnx_refuse(g, "perm is not a permutation of %d dimensions", v->rank);
    for (int i = 0; i < v->rank; i++) {
        const int64_t from = perm.n == 0 ? v->rank - 1 - i : i < perm.n ? perm.v[i] : -1;
        if (from < 0 || from >= v->rank || seen[from]) {
            return dt__onnx_refuse(g, "perm is not a permutation of %d dimensions", v->rank);
        }
        seen[from] = true;
        out.axis[i] = v->axis[from];
    }
    bool plain = true;
    for (int i = 0; i < out.rank; i++) plain &= out.axis[i] == i;
    out.plain = plain ? out.layer : -1;
    dt__onnx_same(g, 0, &out);
    return DT_OK;
}

/* ---- joining and cutting --------------------------------------------------------------------- */

/* A layer reads at most DT_MAX_IN others, so longer lists are joined step by step. */
dt_status dt__onnx_concat(dt__onnx *g)
{
    dt__onnx_layer *l = NULL, *x = NULL;
    int axis;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", 1), dt__onnx_in(g, 0)->rank, &axis));
    if (axis == 0) return dt__onnx_refuse(g, "along the batch");
    for (size_t i = 0; i < g->node->n_input; i++) {
        if (dt__onnx_in(g, (int)i) == NULL) return dt__onnx_refuse(g, "an input is absent");
        DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, (int)i), &x));
        if (l != NULL && l->n_from == DT_MAX_IN) {
            dt__onnx_layer *full = l;
            DT__TRY(dt__onnx_add(g, full));
            l = NULL;
            DT__TRY(dt__onnx_new(g, "concat", &l));
            dt__onnx_read_from(l, full);
        }
        if (l == NULL) DT__TRY(dt__onnx_new(g, "concat", &l));
        ((dt_concat_layer *)l->options)->dim = axis;
        dt__onnx_read_from(l, x);
    }
    if (l->n_from > 1) DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l->n_from > 1 ? l : x);
    return DT_OK;
}

/* Cuts a range out of dimension i of v. */
static dt_status cut(dt__onnx *g, dt__onnx_value *v, int i, const int64_t range[3])
{
    dt__onnx_layer *l = dt__onnx_maker(g, v);
    const bool whole = range[0] == 0 && range[1] >= INT32_MAX && range[2] == 1;
    if (v->axis[i] == 0 && whole) return DT_OK;
    if (v->axis[i] == 0) return dt__onnx_refuse(g, "of the batch");
    if (range[1] == 0) return dt__onnx_refuse(g, "whose result is empty");
    if (range[2] < 1) return dt__onnx_refuse(g, "with steps below 1");
    DT__TRY(dt__onnx_sliced(g, l, v->axis[i], range, &l));
    if (l->index != v->layer) v->plain = -1;
    v->layer = l->index;
    return DT_OK;
}

dt_status dt__onnx_slice(dt__onnx *g)
{
    dt__onnx_value v = *dt__onnx_in(g, 0);
    dt_ints starts, ends, axes, steps = { .n = 0 };
    bool seen[DT_MAX_RANK] = { false };
    int axis;
    DT__TRY(dt__onnx_list_or_in(g, "starts", 1, &starts));
    DT__TRY(dt__onnx_list_or_in(g, "ends", 2, &ends));
    DT__TRY(dt__onnx_list_or_in(g, "axes", 3, &axes));
    if (dt__onnx_in(g, 4) != NULL) {
        DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 4), "steps", &steps));
    }
    DT__TRY(dt__onnx_check_cuts(g, &starts, &ends, &axes, &steps));
    for (int i = 0; i < starts.n; i++) {
        const int64_t range[3] = { starts.v[i], ends.v[i], steps.n > 0 ? steps.v[i] : 1 };
        DT__TRY(dt__onnx_new_axis(g, axes.n == 0 ? i : axes.v[i], v.rank, seen, &axis));
        DT__TRY(cut(g, &v, axis, range));
    }
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

dt_status dt__onnx_split(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt_ints sizes;
    int axis;
    int64_t first = 0;
    const int64_t n = (int64_t)g->node->n_output;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", 0), v->rank, &axis));
    DT__TRY(dt__onnx_list_or_in(g, "split", 1, &sizes));
    const int64_t extent = (int64_t)dt__onnx_extent(g, v, axis).value;
    if (v->axis[axis] == 0) return dt__onnx_refuse(g, "of the batch");
    if (sizes.n != 0 && sizes.n != n) {
        return dt__onnx_refuse(g, "into %lld, with %d sizes", (long long)n, sizes.n);
    }
    if (dt__onnx_int(g, "num_outputs", n) != n) {
        return dt__onnx_refuse(g, "num_outputs is %lld, but it has %lld outputs",
                               (long long)dt__onnx_int(g, "num_outputs", n), (long long)n);
    }
    if (sizes.n == 0 && g->file->opset < 18 && extent % n != 0) {
        return dt__onnx_refuse(g, "of %lld into %lld equal parts", (long long)extent, (long long)n);
    }
    for (int i = 0; i < n && first <= extent; i++) {
        const int64_t size = sizes.n > 0 ? sizes.v[i] : (extent + n - 1) / n;
        const int64_t end = size < 0 || size > extent - first ? extent : first + size;
        const int64_t range[3] = { first, end, 1 };
        dt__onnx_value part = *v;
        if (end == first) return dt__onnx_refuse(g, "a part is empty");
        if (sizes.n > 0 && end - first != size) return dt__onnx_refuse(g, "the sizes do not fit");
        if (dt__onnx_out(g, i) != NULL) DT__TRY(cut(g, &part, axis, range));
        dt__onnx_same(g, i, &part);
        first = end;
    }
    return first == extent ? DT_OK : dt__onnx_refuse(g, "the sizes do not fit");
}

/* One index, or indices at equal distances. */
dt_status dt__onnx_gather(dt__onnx *g)
{
    const dt__onnx_value *at = dt__onnx_in(g, 1);
    dt__onnx_value v = *dt__onnx_in(g, 0);
    dt_ints index;
    int axis;
    if (v.kind != DT__ONNX_COMPUTED) return dt__onnx_refuse(g, "with computed indices");
    DT__TRY(dt__onnx_ints_of(g, at, "indices", &index));
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", 0), v.rank, &axis));
    const int64_t extent = (int64_t)dt__onnx_extent(g, &v, axis).value;
    const int64_t step = index.n > 1 ? index.v[1] - index.v[0] : 1;
    for (int i = 0; i < index.n; i++) {
        const bool inside = index.v[i] >= -extent && index.v[i] < extent;
        if (inside && index.v[i] < 0 && index.n == 1) index.v[i] += extent;
        if (inside && index.v[i] == index.v[0] + i * step && index.v[i] >= 0) continue;
        return dt__onnx_refuse(g, "indices that are not at equal distances, or outside");
    }
    if (index.n == 0 || at->rank > 1) return dt__onnx_refuse(g, "no list of indices");
    const int64_t range[3] = { index.v[0], index.v[index.n - 1] + 1, step };
    DT__TRY(cut(g, &v, axis, range));
    if (at->rank == 0) DT__TRY(drop(g, &v, axis));
    dt__onnx_same(g, 0, &v);
    return DT_OK;
}

/* ---- padding and resizing -------------------------------------------------------------------- */

/* Mode, value, pads and axes of the node. */
static dt_status read_pad(dt__onnx *g, dt_pad_options *o, dt_ints *pads, dt_ints *axes)
{
    static const char *const names[] = { "constant", "reflect", "edge", "wrap" };
    int mode = 0;
    while (mode < 3 && !dt__onnx_says(g, "mode", names[mode], "constant")) mode++;
    o->mode = mode;
    o->value = dt__onnx_real(g, "value", 0);
    axes->n = 0;
    DT__TRY(dt__onnx_list_or_in(g, "pads", 1, pads));
    if (dt__onnx_in(g, 2) != NULL) {
        DT__TRY(dt__onnx_real_of(g, dt__onnx_in(g, 2), "the value", &o->value));
    }
    if (dt__onnx_in(g, 3) != NULL) {
        DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 3), "axes", axes));
    }
    if (fabs(o->value) <= (double)FLT_MAX) return DT_OK;
    return dt__onnx_refuse(g, "by %g, which is not finite", o->value);
}

dt_status dt__onnx_pad(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0), x = *v;
    dt_ints pads, axes;
    dt__onnx_layer *l;
    int axis;
    bool seen[DT_MAX_RANK] = { false };
    DT__TRY(dt__onnx_new(g, "pad", &l));
    dt_pad_options *o = &((dt_pad_layer *)l->options)->pad;
    DT__TRY(read_pad(g, o, &pads, &axes));
    const int n = axes.n > 0 ? axes.n : v->rank, rank = v->rank - 1;
    if (pads.n != 2 * n) return dt__onnx_refuse(g, "%d pads for %d dimensions", pads.n, n);
    o->pads.n = 2 * rank;
    for (int i = 0; i < n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.n > 0 ? axes.v[i] : i, v->rank, seen, &axis));
        const int at = rank - v->axis[axis];
        if (pads.v[i] < 0 || pads.v[n + i] < 0) return dt__onnx_refuse(g, "with pads below 0");
        if (v->axis[axis] == 0 && (pads.v[i] != 0 || pads.v[n + i] != 0)) {
            return dt__onnx_refuse(g, "of the batch");
        }
        if (v->axis[axis] == 0) continue;
        o->pads.v[2 * at] = pads.v[i];
        o->pads.v[2 * at + 1] = pads.v[n + i];
    }
    while (o->pads.n > 2 && o->pads.v[o->pads.n - 1] == 0 && o->pads.v[o->pads.n - 2] == 0) {
        o->pads.n -= 2;
    }
    dt__onnx_read_from(l, dt__onnx_maker(g, v));
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_same(g, 0, &x);
    dt__onnx_value *out = dt__onnx_out(g, 0);
    out->layer = l->index;
    out->plain = -1;
    return DT_OK;
}

/* Factors of all dimensions, from scales or sizes. */
static dt_status factors_of(dt__onnx *g, const dt__onnx_value *v, double factor[DT_MAX_RANK])
{
    const bool old = strcmp(g->node->op_type, "Upsample") == 0 || g->file->opset < 11;
    const dt__onnx_value *scales = dt__onnx_in(g, old ? 1 : 2), *sizes = dt__onnx_in(g, 3);
    if (scales != NULL && scales->kind == DT__ONNX_CONSTANT && scales->count == 0) scales = NULL;
    if (sizes != NULL && sizes->kind == DT__ONNX_CONSTANT && sizes->count == 0) sizes = NULL;
    if (scales != NULL && sizes != NULL) return dt__onnx_refuse(g, "with scales and sizes");
    const dt__onnx_value *given = sizes != NULL ? sizes : scales;
    if (given == NULL || given->kind != DT__ONNX_CONSTANT || given->count != v->rank) {
        return dt__onnx_refuse(g, "requires a constant factor or size for each dimension");
    }
    for (int i = 0; i < v->rank; i++) {
        const dt__onnx_number n = dt__onnx_number_at(given, i), own = dt__onnx_extent(g, v, i);
        factor[i] = sizes == NULL ? n.value : own.batch ? 1 : n.value / own.value;
    }
    return DT_OK;
}

/* Whether each element is repeated, by an integer factor. */
static bool repeats(const dt__onnx *g)
{
    const char *way = "coordinate_transformation_mode", *first = "half_pixel";
    if (!dt__onnx_says(g, "mode", "nearest", "nearest")) return false;
    if (strcmp(g->node->op_type, "Upsample") == 0 || g->file->opset < 11) return true;
    const char *rounding = "round_prefer_floor";
    const bool down = dt__onnx_says(g, "nearest_mode", "floor", rounding);
    if (dt__onnx_says(g, way, "asymmetric", first)) return down;
    const bool half = dt__onnx_says(g, way, "half_pixel", first) ||
                      dt__onnx_says(g, way, "pytorch_half_pixel", first);
    return half && (dt__onnx_says(g, "nearest_mode", rounding, rounding) ||
                    dt__onnx_says(g, "nearest_mode", "round_prefer_ceil", rounding));
}

dt_status dt__onnx_resize(dt__onnx *g)
{
    double factor[DT_MAX_RANK] = { 1 };
    dt__onnx_layer *x, *l;
    dt__onnx_value v = *dt__onnx_in(g, 0);
    DT__TRY(factors_of(g, &v, factor));
    DT__TRY(dt__onnx_plain(g, dt__onnx_in(g, 0), &x));
    bool known = repeats(g) && v.rank >= 3 && v.rank <= 4 && factor[0] == 1 && factor[1] == 1;
    for (int i = 2; i < v.rank; i++) known &= factor[i] == factor[2];
    known = known && factor[2] >= 1 && factor[2] <= 1024 && factor[2] == floor(factor[2]);
    if (!known) {
        return dt__onnx_refuse(g,
                               "by nearest neighbour with one integer factor is known, no other");
    }
    DT__TRY(dt__onnx_new(g, "upsample_nearest", &l));
    ((dt_upsample_layer *)l->options)->factor = (int64_t)factor[2];
    dt__onnx_read_from(l, x);
    DT__TRY(dt__onnx_add(g, l));
    dt__onnx_result(g, 0, l);
    return DT_OK;
}
