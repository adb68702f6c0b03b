/* The batch dimension of values. Layers have the batch first; in the file it may be any dimension,
 * or be merged with others: with heads to a dimension [batch * heads]. Such a dimension of a value
 * is outer * batch * inner, where outer and inner are dimensions of the layer's result, or 1. */
#include "io/onnx/onnx.h"

#include <string.h>

bool dt__onnx_is_merged(const dt__onnx_value *v) { return v->outer != 0 || v->inner != 0; }

int dt__onnx_batch_at(const dt__onnx_value *v)
{
    int at = 0;
    while (at < v->rank - 1 && v->axis[at] != 0) at++;
    return at;
}

void dt__onnx_put_batch_at(dt__onnx_value *v, int at)
{
    for (int i = 0; i < v->rank; i++) v->axis[i] = i < at ? i + 1 : i == at ? 0 : i;
    v->outer = v->inner = 0;
}

bool dt__onnx_alike(const dt__onnx_value *a, const dt__onnx_value *b)
{
    bool same = a->rank == b->rank && a->outer == b->outer && a->inner == b->inner;
    for (int i = 0; same && i < a->rank; i++) same = a->axis[i] == b->axis[i];
    return same;
}

/* order[i]: the dimension of the layer's result that is i-th in the value; returns their number. */
static int order_of(const dt__onnx_value *v, int order[DT_MAX_RANK])
{
    int n = 0;
    for (int i = 0; i < v->rank; i++) {
        if (v->axis[i] == 0 && v->outer != 0) order[n++] = v->outer;
        order[n++] = v->axis[i];
        if (v->axis[i] == 0 && v->inner != 0) order[n++] = v->inner;
    }
    return n;
}

/* Sets the dimensions of v to those of its layer: the batch, then the others in the order of v. */
static void number(dt__onnx_value *v)
{
    int next = 1;
    for (int i = 0; i < v->rank; i++) {
        if (v->axis[i] != 0) {
            v->axis[i] = next++;
        } else {
            if (v->outer != 0) v->outer = next++;
            if (v->inner != 0) v->inner = next++;
        }
    }
}

/* Whether two values are the same layer's result with the same order of dimensions. */
static bool is_same(const dt__onnx_value *a, const dt__onnx_value *b)
{
    return a->kind == b->kind && a->layer == b->layer && dt__onnx_alike(a, b);
}

dt_status dt__onnx_ordered(dt__onnx *g, dt__onnx_value *v)
{
    dt__onnx_value *own = dt__onnx_find(g, v->name);
    dt__onnx_layer *l;
    int order[DT_MAX_RANK], to[DT_MAX_RANK] = { 0 }, n = 1;
    if (v->kind != DT__ONNX_COMPUTED) {
        return dt__onnx_refuse(g, "its input '%.60s' is a constant; expected a computed value",
                               v->name);
    }
    const int all = order_of(v, order);
    for (int i = 0; i < all; i++) {
        if (order[i] != 0) to[n++] = order[i];
    }
    if (v->plain >= 0) l = g->layer[v->plain];
    else DT__TRY(dt__onnx_permuted(g, dt__onnx_maker(g, v), to, &l));
    if (own != NULL && is_same(own, v)) own->plain = l->index;
    number(v);
    v->layer = v->plain = l->index;
    return DT_OK;
}

dt_status dt__onnx_plain(dt__onnx *g, const dt__onnx_value *v, dt__onnx_layer **out)
{
    dt__onnx_value x = *v;
    if (v->kind == DT__ONNX_COMPUTED && (v->axis[0] != 0 || dt__onnx_is_merged(v))) {
        return dt__onnx_refuse(
            g, "reads a value whose dimension %d is the batch%s; it must be the first%s",
            dt__onnx_batch_at(v), dt__onnx_is_merged(v) ? ", merged with others" : "",
            dt__onnx_is_merged(v) ? ", and alone" : "");
    }
    DT__TRY(dt__onnx_ordered(g, &x));
    *out = dt__onnx_maker(g, &x);
    return DT_OK;
}

void dt__onnx_keep(dt__onnx *g, int i, const dt__onnx_value *v, const dt__onnx_layer *l)
{
    dt__onnx_value x = *v;
    if (x.layer != l->index) x.plain = -1;
    x.layer = l->index;
    x.codes = NULL; /* codes of the value before the permutation */
    x.integers = x.rounded = false;
    dt__onnx_same(g, i, &x);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Whether dimension `axis` of a layer is merged with the value's batch. */
static bool is_part(const dt__onnx_value *v, int axis)
{
    return axis == 0 || axis == v->outer || axis == v->inner;
}

static int64_t extent_at(const dt__onnx *g, const dt__onnx_value *v, int axis)
{
    return axis == 0 ? 1 : dt__onnx_maker(g, v)->shape.dims[axis - 1];
}

/* Removes the batch from a constant that was written for the file's fixed batch size: its dimension
 * `at` is outer * batch * inner, and its elements must be the same for each example. */
static dt_status one_of_all(dt__onnx *g, const dt__onnx_value *like, const dt__onnx_value *c,
                            int at, dt__onnx_value *out)
{
    const int64_t n = extent_at(g, like, like->outer), inner = extent_at(g, like, like->inner);
    int64_t dims[DT_MAX_RANK], before = n, behind = inner;
    const float *from;
    float *to;
    memcpy(dims, c->dims, sizeof dims);
    dims[at] = n * inner;
    if (g->batch < 1 || c->dims[at] != n * inner * g->batch) {
        return dt__onnx_refuse(
            g, "its constant has %lld elements along the batch dimension; expected 1",
            (long long)c->dims[at]);
    }
    for (int i = 0; i < at; i++) before *= dims[i];
    for (int i = at + 1; i < c->rank; i++) behind *= dims[i];
    DT__TRY(dt__onnx_floats_of(g, c, "the constant", &from));
    *out = (dt__onnx_value){ .name = c->name };
    DT__TRY(dt__onnx_constant(g, out, c->rank, dims, &to, NULL));
    const size_t bytes = (size_t)behind * sizeof *to;
    for (int64_t i = 0; i < before; i++, to += behind) {
        const float *first = from + i * g->batch * behind;
        memcpy(to, first, bytes);
        for (int64_t b = 1; b < g->batch; b++) {
            if (memcmp(first, first + b * behind, bytes) == 0) continue;
            return dt__onnx_refuse(
                g, "its constant differs along the batch dimension; expected one for all examples");
        }
    }
    return DT_OK;
}

dt_status dt__onnx_arranged(dt__onnx *g, const dt__onnx_value *like, const dt__onnx_value *c,
                            dt__onnx_value *out)
{
    dt__onnx_value whole = *c;
    const int more = like->rank - c->rank, at = dt__onnx_batch_at(like) - more;
    int order[DT_MAX_RANK], from[DT_MAX_RANK];
    if (more < 0)
        return dt__onnx_refuse(g, "its constant has rank %d, too much beside the batch", c->rank);
    const bool all = at >= 0 && c->dims[at] != 1;
    if (all) DT__TRY(one_of_all(g, like, c, at, &whole));
    whole.rank = order_of(like, from);
    for (int i = 0, own = -more; i < whole.rank; i++) {
        const bool merged = is_part(like, from[i]);
        order[from[i]] = i;
        if (merged) whole.dims[i] = all ? extent_at(g, like, from[i]) : 1;
        else whole.dims[i] = own < 0 ? 1 : c->dims[own];
        own += !merged || i + 1 == whole.rank || !is_part(like, from[i + 1]);
    }
    DT__TRY(dt__onnx_transposed(g, &whole, order, out));
    out->rank--;
    memmove(out->dims, out->dims + 1, (size_t)out->rank * sizeof out->dims[0]);
    return DT_OK;
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* Number of elements of an example before and behind the batch, in the order of a value. */
typedef struct halves {
    int64_t before, behind;
} halves;

static halves halves_of(const dt__onnx *g, const dt__onnx_value *v)
{
    const dt_shape *shape = &dt__onnx_maker(g, v)->shape;
    halves h = { 1, 1 };
    int order[DT_MAX_RANK] = { 0 };
    int64_t *side = &h.before;
    const int n = order_of(v, order);
    for (int i = 0; i < n; i++) {
        if (order[i] == 0) side = &h.behind;
        else *side *= shape->dims[order[i] - 1];
    }
    return h;
}

/* A new shape; dimension `batch` contains the batch, between outer and inner elements. */
typedef struct target {
    int rank, batch;
    int64_t dims[DT_MAX_RANK], outer, inner;
} target;

/* Whether dimension i of the new shape can contain the batch; if so, sets t. */
static bool splits_at(const halves *h, target *t, int i)
{
    int64_t before = 1, behind = 1;
    for (int k = 0; k < t->rank; k++) {
        int64_t *side = k < i ? &before : &behind;
        if (k != i && (t->dims[k] < 1 || __builtin_mul_overflow(*side, t->dims[k], side))) {
            return false;
        }
    }
    if (h->before % before != 0 || h->behind % behind != 0) return false;
    t->outer = h->before / before;
    t->inner = h->behind / behind;
    t->batch = i;
    return true;
}

/* A batch of 1 may become the only dimension of extent 1: programs write a transposition as a
 * reshape if no element moves. */
static bool move_batch(const halves *h, target *t)
{
    int64_t count = 1;
    int ones = 0, at = 0;
    for (int i = 0; i < t->rank; i++) {
        if (t->dims[i] < 1 || __builtin_mul_overflow(count, t->dims[i], &count)) return false;
        if (t->dims[i] == 1) at = i;
        ones += t->dims[i] == 1;
    }
    if (ones != 1 || count != h->before * h->behind) return false;
    t->batch = at;
    t->outer = t->inner = 1;
    return true;
}

enum { ALONE = 4 };

/* Finds the dimension of a shape that is the batch (`batch` elements), or contains it. With a batch
 * of 1 there may be several: preferred is a dimension that is the batch alone, then the position it
 * had before, then one with inner = 1. */
static bool find_batch(const halves *h, const dt__onnx_value *v, int64_t batch, target *t)
{
    target found = *t;
    int best = -1;
    for (int i = 0; i < t->rank; i++) {
        target own = *t;
        if (!splits_at(h, &own, i) || own.outer * own.inner * batch != t->dims[i]) continue;
        const bool there = i == dt__onnx_batch_at(v), alone = own.outer * own.inner == 1;
        const int rank =
            ALONE * alone + 2 * (there && (alone || t->rank == v->rank)) + (own.inner == 1);
        if (rank <= best) continue;
        best = rank;
        found = own;
    }
    *t = found;
    return best >= ALONE || (batch == 1 && move_batch(h, t)) || best >= 0;
}

static dt_status misfit(dt__onnx *g, const halves *h)
{
    return dt__onnx_refuse(g,
                           "the new shape does not fit examples of %lld elements, of which %lld "
                           "are before the batch",
                           (long long)(h->before * h->behind), (long long)h->before);
}

/* The shape that `to` specifies: its numbers contain the batch size, or -1 stands for it, or the
 * file has a fixed batch size. */
static dt_status resolve(dt__onnx *g, const dt__onnx_value *v, const dt__onnx_value *to, target *t)
{
    const halves h = halves_of(g, v);
    const bool zeros = dt__onnx_int_of(g->node, "allowzero", 0) != 0;
    const int64_t count = h.before * h.behind, batch = g->batch > 0 ? g->batch : 1;
    int64_t known = 1;
    int open = -1, at = -1;
    *t = (target){ .rank = (int)to->count, .outer = 1, .inner = 1 };
    if (to->count < 1 || to->count > DT_MAX_RANK) return misfit(g, &h);
    for (int i = 0; i < t->rank; i++) {
        dt__onnx_number n = dt__onnx_number_at(to, i);
        if (n.value == 0 && !zeros && i < v->rank) n = dt__onnx_extent(g, v, i);
        if (!(n.value >= -1 && n.value < 0x1p53)) return misfit(g, &h);
        if (n.batch && at >= 0) return dt__onnx_refuse(g, "its result has the batch twice");
        if (n.batch) at = i;
        t->dims[i] = (int64_t)n.value;
        if (n.value == -1 && open < 0) open = i;
        else if (n.value < 1 || __builtin_mul_overflow(known, t->dims[i], &known)) known = 0;
    }
    if (known == 0) return misfit(g, &h);
    if (at < 0 && open >= 0 && g->batch == 0) at = open;
    const int64_t all = at < 0 ? count * batch : count;
    if (open >= 0) t->dims[open] = all % known == 0 ? all / known : -1;
    if (at < 0) return find_batch(&h, v, batch, t) ? DT_OK : misfit(g, &h);
    return splits_at(&h, t, at) && t->outer * t->inner == t->dims[at] ? DT_OK : misfit(g, &h);
}

dt_status dt__onnx_reshape_value(dt__onnx *g, dt__onnx_value *v, const dt__onnx_value *to)
{
    dt__onnx_layer *l;
    target t;
    dt_shape shape = { .rank = 0 };
    DT__TRY(resolve(g, v, to, &t));
    if (t.rank + (t.outer != 1) + (t.inner != 1) > DT_MAX_RANK) {
        return dt__onnx_refuse(g, "more than %d dimensions", DT_MAX_RANK);
    }
    DT__TRY(dt__onnx_ordered(g, v));
    for (int i = 0; i < t.rank; i++) {
        v->axis[i] = i != t.batch;
        if (i != t.batch) shape.dims[shape.rank++] = t.dims[i];
        else if (t.outer != 1) shape.dims[shape.rank++] = t.outer;
        if (i == t.batch && t.inner != 1) shape.dims[shape.rank++] = t.inner;
    }
    v->rank = t.rank;
    v->outer = t.outer != 1;
    v->inner = t.inner != 1;
    number(v);
    DT__TRY(dt__onnx_reshaped(g, dt__onnx_maker(g, v), &shape, &l));
    v->layer = v->plain = l->index;
    return DT_OK;
}
