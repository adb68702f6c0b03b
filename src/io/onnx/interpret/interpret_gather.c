/* Operators that read and write elements at indices that another operand holds. A negative index
 * counts from the end; one out of range is an error. */
#include "io/onnx/interpret/interpret.h"

#include <string.h>

static dt_status place_of(const dt__verify_call *c, int64_t given, int64_t n, int64_t *out)
{
    *out = given < 0 ? given + n : given;
    if (given >= -n && given < n) return DT_OK;
    return dt__verify_refuse(c, "index %lld is not one of %lld elements", (long long)given,
                             (long long)n);
}

static dt_status check_places(const dt__verify_call *c)
{
    if (DT__VERIFY_INDICES >> c->in[1]->type & 1) return DT_OK;
    return dt__verify_refuse(c, "input 1 does not have integers");
}

static void copy(const dt__verify_value *x, int64_t from, dt__verify_value *y, int64_t to,
                 int64_t n)
{
    const size_t size = dt__verify_size(x->type);
    if (n > 0) {
        memcpy((char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)from * size,
               (size_t)n * size);
    }
}

/* y[i.., j.., k..] = x[i.., index[j..], k..] */
static dt_status gather(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0], *index = c->in[1];
    int axis, rank = 0;
    int64_t dims[2 * DT_MAX_RANK], outer = 1, inner = 1;
    dt__verify_value *y;
    DT__TRY(check_places(c));
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", 0), x->rank, &axis));
    for (int d = 0; d < axis; d++) outer *= dims[rank++] = x->dims[d];
    for (int d = 0; d < index->rank; d++) dims[rank++] = index->dims[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= dims[rank++] = x->dims[d];
    DT__TRY(dt__verify_make(c, 0, x->type, rank, dims, &y));
    for (int64_t k = 0; k < index->count; k++) {
        int64_t at = 0;
        DT__TRY(place_of(c, dt__verify_whole_at(index, k), x->dims[axis], &at));
        for (int64_t i = 0; i < outer; i++) {
            copy(x, (i * x->dims[axis] + at) * inner, y, (i * index->count + k) * inner, inner);
        }
    }
    return DT_OK;
}

/* Iterates over the indices; offset 0 is the offset in x with 0 for the coordinate of the axis. */
static dt_status walk_places(dt__verify_call *c, const dt__verify_value *x,
                             const dt__verify_value *index, int *axis, dt__verify_walk *w)
{
    int64_t stride[DT_MAX_RANK];
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", 0), x->rank, axis));
    dt__verify_strides(x, stride);
    *w = (dt__verify_walk){ .rank = x->rank };
    for (int d = 0; d < x->rank; d++) {
        if (index->rank != x->rank || (d != *axis && index->dims[d] > x->dims[d])) {
            return dt__verify_refuse(c, "the places do not fit the operand's extents; expected as "
                                        "many dimensions, none longer");
        }
        w->dims[d] = index->dims[d];
        w->stride[0][d] = d == *axis ? 0 : stride[d];
        w->stride[1][d] = d == *axis ? stride[d] : 0; /* only for the stride of the axis */
    }
    return DT_OK;
}

static dt_status gather_elements(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0], *index = c->in[1];
    int axis;
    dt__verify_walk w;
    dt__verify_value *y;
    DT__TRY(check_places(c));
    DT__TRY(walk_places(c, x, index, &axis, &w));
    DT__TRY(dt__verify_make(c, 0, x->type, index->rank, index->dims, &y));
    for (int64_t i = 0; i < y->count; i++, dt__verify_step(&w)) {
        int64_t at = 0;
        DT__TRY(place_of(c, dt__verify_whole_at(index, i), x->dims[axis], &at));
        copy(x, w.offset[0] + at * w.stride[1][axis], y, i, 1);
    }
    return DT_OK;
}

static const char *const reductions[] = { "none", "add", "mul", "max", "min", NULL };

/* y[to] (=, +=, *=, max=, min=) update[i] */
static void put(dt__verify_value *y, int64_t to, const dt__verify_value *update, int64_t i, int how)
{
    if (how == 0) {
        copy(update, i, y, to, 1);
    } else if (dt__verify_is_real(y->type)) {
        const double a = dt__verify_real_at(y, to), b = dt__verify_real_at(update, i);
        const double result[] = { b, a + b, a * b, a > b ? a : b, a < b ? a : b };
        dt__verify_store_real(y, to, 1, &result[how]);
    } else {
        const int64_t a = dt__verify_whole_at(y, to), b = dt__verify_whole_at(update, i);
        const int64_t result[] = { b, (int64_t)((uint64_t)a + (uint64_t)b),
                                   (int64_t)((uint64_t)a * (uint64_t)b), a > b ? a : b,
                                   a < b ? a : b };
        dt__verify_store_whole(y, to, 1, &result[how]);
    }
}

static dt_status scatter_elements(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0], *index = c->in[1], *update = c->in[2];
    int axis, how;
    dt__verify_walk w;
    dt__verify_value *y;
    DT__TRY(check_places(c));
    DT__TRY(dt__verify_choice(c, "reduction", reductions, &how));
    DT__TRY(walk_places(c, x, index, &axis, &w));
    if (update->type != x->type || update->rank != index->rank ||
        memcmp(update->dims, index->dims, (size_t)index->rank * sizeof(int64_t)) != 0) {
        return dt__verify_refuse(c, "the updates do not fit the places; expected one for each");
    }
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    copy(x, 0, y, 0, x->count);
    for (int64_t i = 0; i < index->count; i++, dt__verify_step(&w)) {
        int64_t at = 0;
        DT__TRY(place_of(c, dt__verify_whole_at(index, i), x->dims[axis], &at));
        put(y, w.offset[0] + at * w.stride[1][axis], update, i, how);
    }
    return DT_OK;
}

/* Index tuples: tuple i of `index` [..., n] is the position block[i] of `size` elements. */
typedef struct tuples {
    int n, batch_rank;
    int64_t count, batch, size;
} tuples;

static dt_status tuples_of(const dt__verify_call *c, tuples *t)
{
    const dt__verify_value *x = c->in[0], *index = c->in[1];
    const int64_t batch_rank = dt__onnx_int_of(c->node, "batch_dims", 0);
    DT__TRY(check_places(c));
    const int64_t n = index->rank == 0 ? 0 : index->dims[index->rank - 1];
    if (batch_rank < 0 || batch_rank >= index->rank || n < 1 || n > x->rank - batch_rank) {
        return dt__verify_refuse(c, "places of %lld dimensions in %d", (long long)n, x->rank);
    }
    *t = (tuples){ .n = (int)n, .batch_rank = (int)batch_rank, .batch = 1, .size = 1 };
    for (int d = 0; d < t->batch_rank; d++) {
        if (x->dims[d] != index->dims[d]) {
            return dt__verify_refuse(c, "dimension %d of the batch differs", d);
        }
        t->batch *= x->dims[d];
    }
    for (int d = t->batch_rank + t->n; d < x->rank; d++) t->size *= x->dims[d];
    t->count = index->count / n;
    return DT_OK;
}

static dt_status block_of(const dt__verify_call *c, const tuples *t, int64_t i, int64_t *out)
{
    const dt__verify_value *x = c->in[0], *index = c->in[1];
    int64_t from = i / dt__max_i64(t->count / dt__max_i64(t->batch, 1), 1);
    for (int k = 0; k < t->n; k++) {
        int64_t at = 0;
        const int64_t extent = x->dims[t->batch_rank + k];
        DT__TRY(place_of(c, dt__verify_whole_at(index, i * t->n + k), extent, &at));
        from = from * extent + at;
    }
    *out = from * t->size;
    return DT_OK;
}

static dt_status gather_nd(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0], *index = c->in[1];
    tuples t;
    int rank = 0;
    int64_t dims[2 * DT_MAX_RANK];
    dt__verify_value *y;
    DT__TRY(tuples_of(c, &t));
    for (int d = 0; d < index->rank - 1; d++) dims[rank++] = index->dims[d];
    for (int d = t.batch_rank + t.n; d < x->rank; d++) dims[rank++] = x->dims[d];
    DT__TRY(dt__verify_make(c, 0, x->type, rank, dims, &y));
    for (int64_t i = 0; i < t.count; i++) {
        int64_t from = 0;
        DT__TRY(block_of(c, &t, i, &from));
        copy(x, from, y, i * t.size, t.size);
    }
    return DT_OK;
}

static dt_status scatter_nd(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0], *update = c->in[2];
    tuples t;
    int how;
    dt__verify_value *y;
    DT__TRY(dt__verify_choice(c, "reduction", reductions, &how));
    DT__TRY(tuples_of(c, &t));
    if (update->type != x->type || update->count != t.count * t.size) {
        return dt__verify_refuse(c, "the updates do not fit the places; expected one for each");
    }
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    copy(x, 0, y, 0, x->count);
    for (int64_t i = 0; i < t.count; i++) {
        int64_t to = 0;
        DT__TRY(block_of(c, &t, i, &to));
        for (int64_t k = 0; k < t.size; k++) put(y, to + k, update, i * t.size + k, how);
    }
    return DT_OK;
}

const dt__verify_operator dt__verify_gathers[] = {
    { "Gather", gather, 2, 2, 1, 1, DT__VERIFY_ANY, "axis ", NULL, NULL, 0, 0 },
    { "GatherElements", gather_elements, 2, 2, 1, 1, DT__VERIFY_PLAIN, "axis ", NULL, NULL, 0, 0 },
    { "GatherND", gather_nd, 2, 2, 1, 1, DT__VERIFY_PLAIN, "batch_dims ", NULL, NULL, 0, 0 },
    { "ScatterElements", scatter_elements, 3, 3, 1, 1, DT__VERIFY_PLAIN, "axis reduction ", NULL,
      NULL, 0, 0 },
    { "ScatterND", scatter_nd, 3, 3, 1, 1, DT__VERIFY_PLAIN, "reduction ", NULL, NULL, 0, 0 },
    { .name = NULL },
};
