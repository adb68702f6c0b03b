/* Nodes whose inputs are all constant: their result is a constant, computed at once. These are
 * shape arithmetic, in which the batch size is a symbol, and weights in another form. */
#include "io/onnx/onnx.h"

#include <math.h>
#include <string.h>

#define MOST_FILLED 65536 /* elements of a constant that a shape asks for */

/* ---- elements in another place --------------------------------------------------------------- */

/* A walk over a block of elements: extents, and distances of elements in a constant. */
typedef struct walk {
    int rank;
    int64_t dims[DT_MAX_RANK], stride[DT_MAX_RANK], first;
} walk;

static walk walk_of(const dt__onnx_value *v)
{
    walk w = { .rank = v->rank };
    int64_t step = 1;
    for (int i = v->rank - 1; i >= 0; step *= v->dims[i--]) {
        w.dims[i] = v->dims[i];
        w.stride[i] = step;
    }
    return w;
}

typedef struct target {
    float *f;
    dt__onnx_number *n;
    int64_t used;
} target;

static void put(target *to, const dt__onnx_value *v, int64_t i)
{
    if (to->f != NULL) to->f[to->used++] = (float)dt__onnx_number_at(v, i).value;
    else to->n[to->used++] = dt__onnx_number_at(v, i);
}

/* Appends the elements of a walk over v in row-major order. */
static void copy(target *to, const dt__onnx_value *v, const walk *w)
{
    int64_t count, at[DT_MAX_RANK] = { 0 }, from = w->first;
    if (!dt__product(w->rank, w->dims, &count)) return;
    for (int64_t i = 0; i < count; i++) {
        put(to, v, from);
        for (int d = w->rank - 1; d >= 0; d--) {
            from += w->stride[d];
            if (++at[d] < w->dims[d]) break;
            from -= w->dims[d] * w->stride[d];
            at[d] = 0;
        }
    }
}

/* Result i as a constant of these dimensions with the type of v. */
static dt_status make_part(dt__onnx *g, int i, const dt__onnx_value *like, const walk *w,
                           target *to)
{
    dt__onnx_value *out = dt__onnx_out(g, i);
    *to = (target){ .used = 0 };
    DT__TRY(dt__onnx_constant(g, out, w->rank, w->dims, like->f != NULL ? &to->f : NULL, &to->n));
    out->type = like->type;
    return DT_OK;
}

static dt_status make(dt__onnx *g, const dt__onnx_value *like, int rank, const int64_t *dims,
                      target *to)
{
    walk w = { .rank = rank };
    if (rank > DT_MAX_RANK) return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    if (rank > 0) memcpy(w.dims, dims, (size_t)rank * sizeof *dims);
    return make_part(g, 0, like, &w, to);
}

/* The elements of v with other dimensions. */
static dt_status with_dims(dt__onnx *g, const dt__onnx_value *v, int rank, const int64_t *dims)
{
    int64_t count;
    if (rank > DT_MAX_RANK || !dt__product(rank, dims, &count) || count != v->count) {
        return dt__onnx_refuse(g, "the shape does not fit %lld elements", (long long)v->count);
    }
    dt__onnx_same(g, 0, v);
    dt__onnx_value *out = dt__onnx_out(g, 0);
    out->codes = NULL; /* scales lie along other dimensions */
    out->spread = 0;   /* dt__onnx_keep_spread finds it */
    out->rank = rank;
    for (int i = 0; i < rank; i++) out->dims[i] = dims[i];
    return DT_OK;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

dt_status dt__onnx_fold_reshape(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt_ints to;
    int64_t known = 1;
    int open = -1;
    DT__TRY(dt__onnx_ints_of(g, dt__onnx_in(g, 1), "the shape", &to));
    for (int i = 0; i < to.n; i++) {
        if (to.v[i] == 0 && i < v->rank && dt__onnx_int(g, "allowzero", 0) == 0) {
            to.v[i] = v->dims[i];
        }
        if (to.v[i] == -1 && open >= 0) return dt__onnx_refuse(g, "-1 is twice in the shape");
        if (to.v[i] == -1) open = i;
        else if (to.v[i] < 0 || __builtin_mul_overflow(known, to.v[i], &known)) known = 0;
    }
    if (open >= 0) to.v[open] = known > 0 ? v->count / known : 0;
    return with_dims(g, v, to.n, to.v);
}

dt_status dt__onnx_fold_flatten(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    int64_t dims[2] = { 1, 1 }, axis = dt__onnx_int(g, "axis", 1);
    if (axis < 0) axis += v->rank;
    if (axis < 0 || axis > v->rank) {
        return dt__onnx_refuse(g, "axis %lld does not exist: its input has %d dimensions",
                               (long long)axis, v->rank);
    }
    for (int i = 0; i < v->rank; i++) dims[i < axis ? 0 : 1] *= v->dims[i];
    return with_dims(g, v, 2, dims);
}

dt_status dt__onnx_fold_squeeze(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    bool gone[DT_MAX_RANK] = { false };
    int64_t dims[DT_MAX_RANK];
    dt_ints axes;
    int rank = 0, axis;
    DT__TRY(dt__onnx_list_or_in(g, "axes", 1, &axes));
    for (int i = 0; i < v->rank; i++) gone[i] = axes.n == 0 && v->dims[i] == 1;
    for (int i = 0; i < axes.n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.v[i], v->rank, gone, &axis));
    }
    for (int i = 0; i < v->rank; i++) {
        if (gone[i] && v->dims[i] != 1) {
            return dt__onnx_refuse(
                g, "dimension %d does not have extent 1, so it cannot be left out", i);
        }
        if (!gone[i]) dims[rank++] = v->dims[i];
    }
    return with_dims(g, v, rank, dims);
}

dt_status dt__onnx_fold_unsqueeze(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    int64_t dims[DT_MAX_RANK];
    bool added[DT_MAX_RANK] = { false };
    dt_ints axes;
    int axis;
    DT__TRY(dt__onnx_list_or_in(g, "axes", 1, &axes));
    const int rank = v->rank + axes.n;
    if (rank > DT_MAX_RANK) return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    for (int i = 0; i < axes.n; i++) {
        DT__TRY(dt__onnx_new_axis(g, axes.v[i], rank, added, &axis));
    }
    for (int i = 0, from = 0; i < rank; i++) dims[i] = added[i] ? 1 : v->dims[from++];
    return with_dims(g, v, rank, dims);
}

dt_status dt__onnx_fold_transpose(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    int order[DT_MAX_RANK];
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
        order[i] = (int)from;
    }
    DT__TRY(dt__onnx_transposed(g, v, order, dt__onnx_out(g, 0)));
    if (v->rank == 2 && order[0] == 1) dt__onnx_out(g, 0)->turned = v;
    return DT_OK;
}

dt_status dt__onnx_fold_concat(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    int64_t dims[DT_MAX_RANK], outer = 1;
    int axis;
    target to;
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", 0), v->rank, &axis));
    memcpy(dims, v->dims, sizeof dims);
    dims[axis] = 0;
    for (size_t i = 0; i < g->node->n_input; i++) {
        const dt__onnx_value *part = dt__onnx_in(g, (int)i);
        for (int d = 0; part != NULL && d < v->rank; d++) {
            if (part->rank == v->rank && (d == axis || part->dims[d] == v->dims[d])) continue;
            return dt__onnx_refuse(g, "its constants do not fit together");
        }
        if (part != NULL) dims[axis] += part->dims[axis];
        if (part != NULL && (part->type != v->type || (part->f != NULL) != (v->f != NULL))) {
            return dt__onnx_refuse(g, "constants of several types");
        }
    }
    for (int d = 0; d < axis; d++) outer *= dims[d];
    DT__TRY(make(g, v, v->rank, dims, &to));
    for (int64_t o = 0; o < outer; o++) {
        for (size_t i = 0; i < g->node->n_input; i++) {
            const dt__onnx_value *part = dt__onnx_in(g, (int)i);
            const int64_t n = part == NULL || outer == 0 ? 0 : part->count / outer;
            for (int64_t k = 0; k < n; k++) put(&to, part, o * n + k);
        }
    }
    return DT_OK;
}

dt_status dt__onnx_fold_slice(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0);
    dt__onnx_range range[DT_MAX_RANK];
    target to;
    int n;
    walk w = walk_of(v);
    DT__TRY(dt__onnx_ranges(g, v->rank, &n, range));
    for (int i = 0; i < n; i++) {
        const int axis = range[i].axis;
        w.dims[axis] = dt__onnx_clamp(&range[i], w.dims[axis]);
        w.first += w.dims[axis] > 0 ? range[i].first * w.stride[axis] : 0;
        w.stride[axis] *= range[i].step;
    }
    DT__TRY(make(g, v, w.rank, w.dims, &to));
    copy(&to, v, &w);
    return DT_OK;
}

dt_status dt__onnx_fold_split(dt__onnx *g)
{
    const dt__onnx_value v = *dt__onnx_in(g, 0);
    int axis;
    int64_t *size;
    walk w = walk_of(&v);
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", 0), v.rank, &axis));
    DT__TRY(dt__onnx_parts(g, v.dims[axis], &size));
    for (int i = 0; (size_t)i < g->node->n_output; w.first += size[i++] * w.stride[axis]) {
        target to;
        w.dims[axis] = size[i];
        if (dt__onnx_out(g, i) == NULL) continue;
        DT__TRY(make_part(g, i, &v, &w, &to));
        copy(&to, &v, &w);
    }
    return DT_OK;
}

dt_status dt__onnx_fold_gather(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0), *at = dt__onnx_in(g, 1);
    int64_t dims[2 * DT_MAX_RANK];
    int axis, rank = 0;
    dt_ints index;
    target to;
    DT__TRY(dt__onnx_ints_of(g, at, "indices", &index));
    DT__TRY(dt__onnx_axis(g, dt__onnx_int(g, "axis", 0), v->rank, &axis));
    for (int i = 0; i < axis; i++) dims[rank++] = v->dims[i];
    for (int i = 0; i < at->rank; i++) dims[rank++] = at->dims[i];
    for (int i = axis + 1; i < v->rank; i++) dims[rank++] = v->dims[i];
    for (int i = 0; i < index.n; i++) {
        if (index.v[i] < 0) index.v[i] += v->dims[axis];
        if (index.v[i] >= 0 && index.v[i] < v->dims[axis]) continue;
        return dt__onnx_refuse(g, "an index is outside of the dimension");
    }
    DT__TRY(make(g, v, rank, dims, &to));
    walk inner = { .rank = 0 };
    const walk all = walk_of(v);
    const int64_t outer = v->count == 0 ? 0 : v->count / (all.stride[axis] * v->dims[axis]);
    inner.rank = 1;
    inner.dims[0] = all.stride[axis];
    inner.stride[0] = 1;
    for (int64_t o = 0; o < outer; o++) {
        for (int i = 0; i < index.n; i++) {
            inner.first = (o * v->dims[axis] + index.v[i]) * all.stride[axis];
            copy(&to, v, &inner);
        }
    }
    return DT_OK;
}

/* ---- filled constants ------------------------------------------------------------------------ */

/* Notes that dimension i of result 0 has extent 1 in the place of the batch, n of them. */
static void note_batch(dt__onnx *g, int i, dt__onnx_number n)
{
    dt__onnx_value *out = dt__onnx_out(g, 0);
    if (n.batch) out->spread = out->spread == 0 && n.value == 1 ? i + 1 : -1;
}

/* Result 0 with one value everywhere. A batch dimension is 1 in it, as it broadcasts. */
static dt_status fill(dt__onnx *g, const dt__onnx_value *shape, const dt__onnx_value *value)
{
    walk all = { .rank = (int)shape->count }; /* of distances 0 */
    int64_t count = 1;
    target to;
    if (shape->count > DT_MAX_RANK) {
        return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    }
    for (int64_t i = 0; i < shape->count; i++) {
        const dt__onnx_number n = dt__onnx_number_at(shape, i);
        int64_t *extent = &all.dims[i];
        *extent = n.batch ? 1 : n.value >= 0 && n.value <= MOST_FILLED ? (int64_t)n.value : -1;
        count *= *extent;
        if (*extent < 0 || count > MOST_FILLED) {
            return dt__onnx_refuse(g, "a constant of more than %d elements, or below 0",
                                   MOST_FILLED);
        }
    }
    DT__TRY(make(g, value, all.rank, all.dims, &to));
    copy(&to, value, &all);
    for (int i = 0; i < all.rank; i++) note_batch(g, i, dt__onnx_number_at(shape, i));
    return DT_OK;
}

dt_status dt__onnx_fold_filled(dt__onnx *g)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute(g, "value");
    const float zero = 0;
    dt__onnx_value value = {
        .f = &zero, .count = 1, .kind = DT__ONNX_CONSTANT, .type = DT__ONNX_FLOAT
    };
    if (a != NULL && a->t != NULL) DT__TRY(dt__onnx_decode(g, a->t, &value));
    if (value.count != 1) return dt__onnx_refuse(g, "its value must be one number");
    return fill(g, dt__onnx_in(g, 0), &value);
}

dt_status dt__onnx_fold_constant(dt__onnx *g)
{
    const DtOnnx__Attribute *a = dt__onnx_attribute(g, "value");
    dt__onnx_value *out = dt__onnx_out(g, 0);
    float *f;
    dt__onnx_number *n;
    if (g->node->n_attribute != 1) return dt__onnx_refuse(g, "it must have one attribute");
    if (a != NULL && a->t != NULL) return dt__onnx_decode(g, a->t, out);
    const DtOnnx__Attribute *real = dt__onnx_attribute(g, "value_float");
    const DtOnnx__Attribute *reals = dt__onnx_attribute(g, "value_floats");
    if (real != NULL || reals != NULL) {
        const int64_t count = real != NULL ? 1 : (int64_t)reals->n_floats;
        DT__TRY(dt__onnx_constant(g, out, real != NULL ? 0 : 1, &count, &f, &n));
        for (int64_t i = 0; i < count; i++) f[i] = real != NULL ? real->f : reals->floats[i];
        return DT_OK;
    }
    const DtOnnx__Attribute *whole = dt__onnx_attribute(g, "value_int");
    const DtOnnx__Attribute *list = dt__onnx_attribute(g, "value_ints");
    if (whole == NULL && list == NULL) return dt__onnx_refuse(g, "it has no numbers");
    const int64_t count = whole != NULL ? 1 : (int64_t)list->n_ints;
    DT__TRY(dt__onnx_constant(g, out, whole != NULL ? 0 : 1, &count, NULL, &n));
    for (int64_t i = 0; i < count; i++) {
        n[i] = (dt__onnx_number){ (double)(whole != NULL ? whole->i : list->ints[i]), false };
    }
    return DT_OK;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Extents and distances of v as it broadcasts to `rank` dimensions. */
static walk spread(const dt__onnx_value *v, int rank)
{
    walk w = { .rank = rank };
    const walk own = walk_of(v);
    for (int i = 0; i < rank; i++) {
        const int from = i - (rank - v->rank);
        w.dims[i] = from < 0 ? 1 : own.dims[from];
        w.stride[i] = from < 0 || own.dims[from] == 1 ? 0 : own.stride[from];
    }
    return w;
}

/* A constant at all places of a shape. An extent of it that is the batch's is 1, as it
 * broadcasts. */
dt_status dt__onnx_fold_expand(dt__onnx *g)
{
    const dt__onnx_value *v = dt__onnx_in(g, 0), *shape = dt__onnx_in(g, 1);
    const int rank = shape->count > v->rank ? (int)shape->count : v->rank;
    int64_t count;
    target to;
    if (rank > DT_MAX_RANK) return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    walk w = spread(v, rank);
    for (int i = 0; i < shape->count; i++) {
        const dt__onnx_number n = dt__onnx_number_at(shape, i);
        int64_t *extent = &w.dims[rank - (int)shape->count + i];
        if (!n.batch && (n.value == 1 || n.value == (double)*extent)) continue;
        if (*extent != 1 || !(n.value >= 1 && n.value <= MOST_FILLED)) {
            return dt__onnx_refuse(g,
                                   "extent %lld cannot become %g; expected the same, or 1 before",
                                   (long long)*extent, n.value);
        }
        if (!n.batch) *extent = (int64_t)n.value;
    }
    if (!dt__product(rank, w.dims, &count) || count > dt__max_i64(MOST_FILLED, v->count)) {
        return dt__onnx_refuse(g, "its result has more than %d elements", MOST_FILLED);
    }
    DT__TRY(make(g, v, rank, w.dims, &to));
    copy(&to, v, &w);
    const int more = rank - (int)shape->count;
    for (int i = more; i < rank; i++) note_batch(g, i, dt__onnx_number_at(shape, i - more));
    return DT_OK;
}

/* A dimension of extent 1 that is repeated for each example stays 1. */
dt_status dt__onnx_fold_tile(dt__onnx *g)
{
    const dt__onnx_value v = *dt__onnx_in(g, 0), times = *dt__onnx_in(g, 1);
    const walk own = walk_of(&v);
    walk w = { .rank = 2 * v.rank }; /* repeats of a dimension, and the dimension */
    int64_t dims[DT_MAX_RANK], count;
    target to;
    if (times.count != v.rank || w.rank > DT_MAX_RANK) {
        return dt__onnx_refuse(g, "%lld repeats for %d dimensions; %d are the most",
                               (long long)times.count, v.rank, DT_MAX_RANK / 2);
    }
    for (int i = 0; i < v.rank; i++) {
        const dt__onnx_number n = dt__onnx_number_at(&times, i);
        if (!(n.value >= 1 && n.value <= MOST_FILLED) || (n.batch && v.dims[i] != 1)) {
            return dt__onnx_refuse(g, "%g times is not possible", n.value);
        }
        w.dims[2 * i] = n.batch ? 1 : (int64_t)n.value;
        w.dims[2 * i + 1] = v.dims[i];
        w.stride[2 * i + 1] = own.stride[i];
        dims[i] = w.dims[2 * i] * v.dims[i];
    }
    if (!dt__product(v.rank, dims, &count) || count > dt__max_i64(MOST_FILLED, v.count)) {
        return dt__onnx_refuse(g, "its result has more than %d elements", MOST_FILLED);
    }
    DT__TRY(make(g, &v, v.rank, dims, &to));
    copy(&to, &v, &w);
    for (int i = 0; i < v.rank; i++) note_batch(g, i, dt__onnx_number_at(&times, i));
    return DT_OK;
}

/* Walks over n constants that are broadcast against each other, and the result's extents. */
static dt_status broadcast(dt__onnx *g, const dt__onnx_value *const *v, int n, walk *from,
                           int64_t *dims)
{
    int rank = 0;
    int64_t count, most = MOST_FILLED;
    for (int k = 0; k < n; k++) {
        rank = v[k]->rank > rank ? v[k]->rank : rank;
        most = dt__max_i64(most, v[k]->count);
    }
    for (int i = 0; i < rank; i++) dims[i] = 1;
    for (int k = 0; k < n; k++) {
        from[k] = spread(v[k], rank);
        for (int i = 0; i < rank; i++) {
            const int64_t x = from[k].dims[i];
            if (x != dims[i] && x != 1 && dims[i] != 1) {
                return dt__onnx_refuse(g, "the shapes of its inputs do not fit together");
            }
            if (dims[i] == 1) dims[i] = x;
        }
    }
    if (dt__product(rank, dims, &count) && count <= most) return DT_OK;
    return dt__onnx_refuse(g, "its result has more than %lld elements", (long long)most);
}

/* The next element of n walks over extents `dims`, whose places are `at`. */
static void step(walk *from, int n, const int64_t *dims, int64_t *at)
{
    for (int d = from->rank - 1; d >= 0; d--) {
        for (int k = 0; k < n; k++) from[k].first += from[k].stride[d];
        if (++at[d] < dims[d]) break;
        for (int k = 0; k < n; k++) from[k].first -= dims[d] * from[k].stride[d];
        at[d] = 0;
    }
}

dt_status dt__onnx_fold_arithmetic(dt__onnx *g)
{
    if (g->node->n_input != 2)
        return dt__onnx_refuse(g, "it has %zu constants; too many are joined", g->node->n_input);
    const dt__onnx_value *const v[2] = { dt__onnx_in(g, 0), dt__onnx_in(g, 1) };
    const dt__onnx_value *a = v[0], *b = v[1];
    bool truth;
    const char op = dt__onnx_code_of(g->node->op_type, &truth);
    const bool numbers = a->n != NULL || b->n != NULL || truth;
    const dt__onnx_value like = { .f = numbers && (op != 'P' || a->n != NULL) ? NULL : a->f,
                                  .type = truth ? DT__ONNX_BOOL : a->type };
    if (op != 'P' && a->type != b->type)
        return dt__onnx_refuse(g, "its inputs are of two types; expected one");
    walk from[2];
    int64_t dims[DT_MAX_RANK], at[DT_MAX_RANK] = { 0 };
    target to;
    DT__TRY(broadcast(g, v, 2, from, dims));
    DT__TRY(make(g, &like, from->rank, dims, &to));
    const int64_t count = dt__onnx_out(g, 0)->count;
    for (int64_t i = 0; i < count; i++) {
        const dt__onnx_number x = dt__onnx_number_at(a, from[0].first);
        const dt__onnx_number y = dt__onnx_number_at(b, from[1].first);
        dt__onnx_number z;
        if (!dt__onnx_calculate(op, &like, x, y, &z)) {
            return dt__onnx_refuse(g,
                                   "it is not read of these numbers, or of the size of the batch");
        }
        if (to.f != NULL) to.f[i] = (float)z.value;
        else to.n[i] = z;
        step(from, 2, dims, at);
    }
    return DT_OK;
}

dt_status dt__onnx_fold_where(dt__onnx *g)
{
    const dt__onnx_value *const v[3] = { dt__onnx_in(g, 0), dt__onnx_in(g, 1), dt__onnx_in(g, 2) };
    const dt__onnx_value like = { .f = v[1]->n != NULL || v[2]->n != NULL ? NULL : v[1]->f,
                                  .type = v[1]->type };
    if (v[1]->type != v[2]->type)
        return dt__onnx_refuse(g, "its inputs are of two types; expected one");
    walk from[3];
    int64_t dims[DT_MAX_RANK], at[DT_MAX_RANK] = { 0 };
    target to;
    DT__TRY(broadcast(g, v, 3, from, dims));
    DT__TRY(make(g, &like, from->rank, dims, &to));
    const int64_t count = dt__onnx_out(g, 0)->count;
    for (int64_t i = 0; i < count; i++) {
        const int chosen = dt__onnx_number_at(v[0], from[0].first).value != 0 ? 1 : 2;
        put(&to, v[chosen], from[chosen].first);
        step(from, 3, dims, at);
    }
    return DT_OK;
}

/* start, start + delta, ... before limit. */
dt_status dt__onnx_fold_range(dt__onnx *g)
{
    double end[3];
    const dt__onnx_value like = *dt__onnx_in(g, 0);
    target to;
    for (int i = 0; i < 3; i++) {
        DT__TRY(dt__onnx_real_of(g, dt__onnx_in(g, i), "an end of the range", &end[i]));
    }
    for (int i = 1; i < 3; i++) {
        if (dt__onnx_in(g, i)->type != like.type) {
            return dt__onnx_refuse(g, "its inputs are of two types; expected one");
        }
    }
    const double n = fmax(ceil((end[1] - end[0]) / end[2]), 0);
    if (!(n <= MOST_FILLED)) {
        return dt__onnx_refuse(g, "it has %g elements; %d are the most", n, MOST_FILLED);
    }
    const int64_t count = (int64_t)n;
    DT__TRY(make(g, &like, 1, &count, &to));
    for (int64_t i = 0; i < count; i++) {
        double x = end[0] + (double)i * end[2];
        if (!dt__onnx_round(like.type, &x)) return dt__onnx_refuse(g, "its integers are too large");
        if (to.f != NULL) to.f[i] = (float)x;
        else to.n[i] = (dt__onnx_number){ x, false };
    }
    return DT_OK;
}
