/* Operators that read and write elements at places that another operand names. A place below 0
 * counts from the end; one outside is refused. */
#include "export/verify/onnx/verify_onnx.h"

#include <string.h>

static dt_status place_of(const dt__verify_call *c, int64_t given, int64_t n, int64_t *out)
{
    *out = given < 0 ? given + n : given;
    if (given >= -n && given < n) return DT_OK;
    return dt__verify_refuse(c, "place %lld of %lld elements", (long long)given, (long long)n);
}

static dt_status check_places(const dt__verify_call *c, int64_t input)
{
    if (DT__VERIFY_INDICES >> c->in[input]->type & 1) return DT_OK;
    return dt__verify_refuse(c, "input %lld is no integers", (long long)input);
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
    DT__TRY(check_places(c, 1));
    DT__TRY(dt__verify_axis(c, dt__verify_int(c, "axis", 0), x->rank, &axis));
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

/* A walk over the places of index whose offset 0 is the element of x, but along the axis. */
static dt_status walk_places(dt__verify_call *c, const dt__verify_value *x,
                             const dt__verify_value *index, int *axis, dt__verify_walk *w)
{
    int64_t stride[DT_MAX_RANK];
    DT__TRY(dt__verify_axis(c, dt__verify_int(c, "axis", 0), x->rank, axis));
    dt__verify_strides(x, stride);
    *w = (dt__verify_walk){ .rank = x->rank };
    for (int d = 0; d < x->rank; d++) {
        if (index->rank != x->rank || (d != *axis && index->dims[d] > x->dims[d])) {
            return dt__verify_refuse(c, "the places do not fit the operand's extents");
        }
        w->dims[d] = index->dims[d];
        w->stride[0][d] = d == *axis ? 0 : stride[d];
        w->stride[1][d] = d == *axis ? stride[d] : 0; /* used for its distance alone */
    }
    return DT_OK;
}

static dt_status gather_elements(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0], *index = c->in[1];
    int axis;
    dt__verify_walk w;
    dt__verify_value *y;
    DT__TRY(check_places(c, 1));
    DT__TRY(walk_places(c, x, index, &axis, &w));
    DT__TRY(dt__verify_make(c, 0, x->type, index->rank, index->dims, &y));
    for (int64_t i = 0; i < y->count; i++, dt__verify_step(&w)) {
        int64_t at = 0;
        DT__TRY(place_of(c, dt__verify_whole_at(index, i), x->dims[axis], &at));
        copy(x, w.offset[0] + at * w.stride[1][axis], y, i, 1);
    }
    return DT_OK;
}

/* Places of several dimensions: tuple i of `index` [..., n] starts block[i] of `size` elements. */
typedef struct tuples {
    int n, batch_rank;
    int64_t count, batch, size;
} tuples;

const dt__verify_operator dt__verify_gathers[] = {
    { "Gather", gather, 2, 2, 1, 1, DT__VERIFY_ANY, "axis ", NULL, NULL, 0, 0 },
    { "GatherElements", gather_elements, 2, 2, 1, 1, DT__VERIFY_PLAIN, "axis ", NULL, NULL, 0, 0 },
    { .name = NULL },
};
