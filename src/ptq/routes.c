/* Routes of a grouped weight's inputs: rows are sorted by member, counted first, so that within a member
 * they keep the order in which they came. */
#include "ptq/routes.h"

#include "autograd/op.h"
#include "core/tensor.h"

#include <string.h>

/* ---- reading ------------------------------------------------------------------------------------ */

static int64_t at(const dt_tensor *x, int64_t i)
{
    return x->dtype == DT_I32 ? ((const int32_t *)dt__data(x))[i]
                              : ((const int64_t *)dt__data(x))[i];
}

static dt_status check_integers(dt_ctx *ctx, const char *name, const dt_tensor *x)
{
    if (x->dtype != DT_I32 && x->dtype != DT_I64) {
        return dt_fail(ctx, DT_ERR_DTYPE, "routes: %s is %s; i32 or i64 is wanted", name,
                       dt_dtype_name(x->dtype));
    }
    if (x->kind == NULL && x->storage != NULL && dt_is_contiguous(x)) return DT_OK;
    return dt_fail(ctx, DT_ERR_STATE, "routes: %s must be dense and contiguous", name);
}

/* Slots of a row of the inputs; 0 where the index does not go with so many rows. */
static int64_t slots_of(const dt_tensor *index, int64_t rows)
{
    if (index->count == rows) return 1;
    return index->rank == 2 && index->dims[0] == rows ? index->dims[1] : 0;
}

/* ---- sorting ------------------------------------------------------------------------------------ */

/* first[e + 1] counts the rows of member e, and then where they end. */
static dt_status count_rows(dt_ctx *ctx, const dt_tensor *index, int64_t members, int64_t *first)
{
    memset(first, 0, (size_t)(members + 1) * sizeof *first);
    for (int64_t i = 0; i < index->count; i++) {
        const int64_t e = at(index, i);
        if (e >= 0 && e < members) first[e + 1]++;
        else if (e != -1) {
            return dt_fail(ctx, DT_ERR_ARG,
                           "routes: element %lld of the index is %lld; members are 0...%lld, and "
                           "-1 is none",
                           (long long)i, (long long)e, (long long)members - 1);
        }
    }
    for (int64_t e = 0; e < members; e++) first[e + 1] += first[e];
    return DT_OK;
}

static dt_status sort_index(dt_ctx *ctx, const dt_tensor *index, int64_t members, int64_t rows,
                            dt__member_rows *out)
{
    char text[160];
    DT__TRY(check_integers(ctx, "the index", index));
    const int64_t slots = slots_of(index, rows);
    if (slots == 0 && index->count > 0) {
        return dt_fail(ctx, DT_ERR_SHAPE,
                       "routes: the index is %s; [%lld] or [%lld, k] is wanted, as there are rows",
                       dt__dims_text(index->rank, index->dims, text, sizeof text), (long long)rows,
                       (long long)rows);
    }
    DT__TRY(count_rows(ctx, index, members, out->first));
    out->row = dt__alloc_array(ctx, out->first[members], sizeof *out->row);
    int64_t *next = dt__alloc_array(ctx, members, sizeof *next);
    if (out->row == NULL || next == NULL) {
        dt__release(ctx, next);
        return DT_ERR_NOMEM;
    }
    memcpy(next, out->first, (size_t)members * sizeof *next);
    for (int64_t i = 0; i < index->count; i++) {
        const int64_t e = at(index, i);
        if (e >= 0) out->row[next[e]++] = i / slots;
    }
    dt__release(ctx, next);
    return DT_OK;
}

static dt_status take_offsets(dt_ctx *ctx, const dt_tensor *offsets, int64_t members, int64_t rows,
                              dt__member_rows *out)
{
    DT__TRY(check_integers(ctx, "offsets", offsets));
    if (offsets->count != members + 1) {
        return dt_fail(ctx, DT_ERR_SHAPE, "routes: %lld offsets; %lld members want %lld",
                       (long long)offsets->count, (long long)members, (long long)members + 1);
    }
    for (int64_t e = 0; e <= members; e++) {
        const int64_t least = e == 0 ? 0 : out->first[e - 1], most = e == 0 ? 0 : rows;
        out->first[e] = at(offsets, e);
        if (out->first[e] >= least && out->first[e] <= most) continue;
        return dt_fail(ctx, DT_ERR_ARG,
                       "routes: offset %lld is %lld; from 0 they rise to %lld rows at most",
                       (long long)e, (long long)out->first[e], (long long)rows);
    }
    out->row = dt__alloc_array(ctx, out->first[members], sizeof *out->row);
    if (out->row == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < out->first[members]; i++) out->row[i] = i;
    return DT_OK;
}

dt_status dt__member_rows_of(dt_ctx *ctx, const dt_routes *routes, int64_t members, int64_t rows,
                             dt__member_rows *out)
{
    *out = (dt__member_rows){ .first = NULL };
    if ((routes->offsets == NULL) == (routes->index == NULL)) {
        return dt_fail(ctx, DT_ERR_ARG, "routes: either offsets or an index is wanted");
    }
    out->first = dt__alloc_array(ctx, members + 1, sizeof *out->first);
    if (out->first == NULL) return DT_ERR_NOMEM;
    return routes->index != NULL ? sort_index(ctx, routes->index, members, rows, out)
                                 : take_offsets(ctx, routes->offsets, members, rows, out);
}

void dt__member_rows_free(dt_ctx *ctx, dt__member_rows *r)
{
    dt__release(ctx, r->first);
    dt__release(ctx, r->row);
    *r = (dt__member_rows){ .first = NULL };
}

/* ---- two models ----------------------------------------------------------------------------------- */

/* Whether each row of x has a place in the index. */
static bool is_for_rows(const dt_tensor *index, const dt_tensor *x)
{
    const size_t bytes = (size_t)index->rank * sizeof *index->dims;
    return index->rank == x->rank - 1 && memcmp(index->dims, x->dims, bytes) == 0;
}

/* The row of the float model that belongs to row i; -1: none. */
static int64_t row_of(const dt_tensor *quantized, const dt_tensor *plain, int64_t i)
{
    const int64_t slots = plain->rank > 1 ? plain->dims[plain->rank - 1] : 1;
    const int64_t e = at(quantized, i), first = i / slots * slots;
    for (int64_t k = first; k < first + slots; k++) {
        if (at(plain, k) == e) return k;
    }
    return -1;
}

dt_status dt__pair_rows(dt_ctx *ctx, const dt__routed_input *quantized,
                        const dt__routed_input *plain, dt_tensor **out)
{
    const dt_tensor *x = plain->x, *xq = quantized->x;
    if (!dt__same_dims(x, xq) || !dt__same_dims(plain->index, quantized->index)) {
        return dt_fail(ctx, DT_ERR_SHAPE, "the two models' inputs differ in shape");
    }
    const int64_t width = x->dims[x->rank - 1], rows = dt__rows(x);
    DT__TRY(dt_tensor_from(ctx, DT_F32, x->rank, x->dims, dt__data(x), out));
    if (!is_for_rows(plain->index, x)) return DT_OK;
    float *to = dt__data_mut(*out);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = row_of(quantized->index, plain->index, i);
        const float *row = from < 0 ? (const float *)dt__data(xq) + i * width
                                    : (const float *)dt__data(x) + from * width;
        memcpy(to + i * width, row, (size_t)width * sizeof *to);
    }
    return DT_OK;
}
