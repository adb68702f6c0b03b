/* Routing: assignments sorted by expert with a counting sort, which is stable. */
#include "ops/routing/routing.h"

#include <string.h>

dt__routing dt__routing_of(int64_t experts, int64_t rows, const dt_tensor *index)
{
    dt__routing r = { .experts = experts, .assignments = rows, .per_row = 1 };
    if (index == NULL || index->rank != 2 || index->dims[0] != rows) return r;
    r.split = true;
    r.per_row = index->dims[1];
    r.assignments = index->count;
    return r;
}

static dt_status want_integers(const dt_call *c, int i)
{
    const dt_dtype d = c->in[i]->dtype;
    if (d == DT_I32 || d == DT_I64) return DT_OK;
    return dt_refuse(c, DT_ERR_DTYPE, "%s must be i32 or i64, not %s", c->op->in_name[i],
                     dt_dtype_name(d));
}

static dt_status check_offsets(const dt_call *c, int i, const dt__routing *r)
{
    const dt_tensor *offsets = c->arg[i];
    DT__TRY(want_integers(c, i));
    DT__TRY(dt__want_dims(c, i, 1, &(int64_t){ r->experts + 1 }));
    for (int64_t k = 0, before = 0; k < offsets->count; k++) {
        const int64_t v = dt__index_at(offsets, k);
        if (k == 0 && v != 0) {
            return dt_refuse(c, DT_ERR_ARG, "offsets[0] is %lld, the first must be 0",
                             (long long)v);
        }
        if (v < before) {
            return dt_refuse(c, DT_ERR_ARG, "offsets[%lld] is %lld, below %lld: they must ascend",
                             (long long)k, (long long)v, (long long)before);
        }
        if (v > r->assignments) {
            return dt_refuse(c, DT_ERR_ARG, "offsets[%lld] is %lld, but x has %lld rows",
                             (long long)k, (long long)v, (long long)r->assignments);
        }
        before = v;
    }
    return DT_OK;
}

static dt_status check_index(const dt_call *c, int i, const dt__routing *r)
{
    const dt_tensor *index = c->arg[i];
    DT__TRY(want_integers(c, i));
    if (index->count != r->assignments) {
        return dt_refuse(c, DT_ERR_SHAPE,
                         "index must have %lld elements, one for a row of x, or "
                         "be [%lld, k]",
                         (long long)r->assignments, (long long)r->assignments);
    }
    for (int64_t k = 0; k < index->count; k++) {
        const int64_t v = dt__index_at(index, k);
        if (v >= -1 && v < r->experts) continue;
        return dt_refuse(c, DT_ERR_ARG,
                         "index[%lld] is %lld; an expert is 0...%lld, and -1 is none", (long long)k,
                         (long long)v, (long long)r->experts - 1);
    }
    return DT_OK;
}

dt_status dt__want_routes(const dt_call *c, int offsets, int index, const dt__routing *r)
{
    if ((c->in[offsets] == NULL) == (c->in[index] == NULL)) {
        return dt_refuse(c, DT_ERR_ARG, "%s given; expected one of them",
                         c->in[index] == NULL ? "neither offsets nor index is"
                                              : "both offsets and index are");
    }
    return c->in[index] != NULL ? check_index(c, index, r) : check_offsets(c, offsets, r);
}

size_t dt__routing_bytes(const dt__routing *r, bool indexed)
{
    return (size_t)(r->experts + 1 + (indexed ? r->assignments : 0)) * sizeof(int64_t);
}

/* Counting sort. start[e] is first the count of expert e - 1, then the next free place of expert e,
 * and finally the first place of expert e. */
static void sort(const dt_tensor *index, dt__routing *r)
{
    memset(r->start, 0, (size_t)(r->experts + 1) * sizeof r->start[0]);
    for (int64_t k = 0; k < r->assignments; k++) r->start[dt__index_at(index, k) + 1]++;
    r->start[0] = 0; /* it held the count of assignments without an expert */
    for (int64_t e = 0; e < r->experts; e++) r->start[e + 1] += r->start[e];
    for (int64_t k = 0; k < r->assignments; k++) {
        const int64_t e = dt__index_at(index, k);
        if (e >= 0) r->assignment[r->start[e]++] = k;
    }
    for (int64_t e = r->experts; e > 0; e--) r->start[e] = r->start[e - 1];
    r->start[0] = 0;
}

void dt__routing_make(const dt_tensor *offsets, const dt_tensor *index, void *room, dt__routing *r)
{
    r->start = room;
    r->assignment = NULL;
    if (index != NULL) {
        r->assignment = r->start + r->experts + 1;
        sort(index, r);
        return;
    }
    for (int64_t e = 0; e <= r->experts; e++) r->start[e] = dt__index_at(offsets, e);
}
