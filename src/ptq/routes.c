/* The routes of a grouped weight's inputs, as grouped_linear reads them. */
#include "ptq/routes.h"

#include "core/tensor.h"
#include "ops/ops_list.h"
#include "ops/routing/routing.h"

#include <string.h>

enum { OFFSETS = 3, INDEX }; /* operands of grouped_linear */

static dt_status check_dense(dt_ctx *ctx, const char *name, const dt_tensor *x)
{
    if (x == NULL || (x->kind == NULL && x->storage != NULL && dt_is_contiguous(x))) return DT_OK;
    return dt_fail(ctx, DT_ERR_STATE,
                   "routes: %s must be dense and contiguous (dt_tensor_contiguous)", name);
}

static dt_status check(dt_ctx *ctx, const dt_routes *routes, const dt__routing *r)
{
    dt_call c = { .ctx = ctx, .op = &dt__op_grouped_linear, .n_in = INDEX + 1 };
    c.in[OFFSETS] = c.arg[OFFSETS] = routes->offsets;
    c.in[INDEX] = c.arg[INDEX] = routes->index;
    DT__TRY(check_dense(ctx, "offsets", routes->offsets));
    DT__TRY(check_dense(ctx, "index", routes->index));
    return dt__want_routes(&c, OFFSETS, INDEX, r);
}

dt_status dt__expert_rows_of(dt_ctx *ctx, const dt_routes *routes, int64_t experts, int64_t rows,
                             dt__expert_rows *out)
{
    dt__routing r = dt__routing_of(experts, rows, routes->index);
    *out = (dt__expert_rows){ NULL };
    DT__TRY(check(ctx, routes, &r));
    out->first = dt__alloc(ctx, dt__routing_bytes(&r, routes->index != NULL));
    if (out->first == NULL) return DT_ERR_NOMEM;
    dt__routing_make(routes->offsets, routes->index, out->first, &r);
    out->row = dt__alloc_array(ctx, r.start[experts], sizeof *out->row);
    if (out->row == NULL) return DT_ERR_NOMEM;
    for (int64_t i = 0; i < r.start[experts]; i++)
        out->row[i] = dt__assignment_at(&r, i) / r.per_row;
    return DT_OK;
}

void dt__expert_rows_free(dt_ctx *ctx, dt__expert_rows *r)
{
    DT__RELEASE(ctx, r->first, r->row);
    *r = (dt__expert_rows){ .first = NULL };
}

/* Whether the index has an entry for each row of x. */
static bool is_for_rows(const dt_tensor *index, const dt_tensor *x)
{
    const size_t bytes = (size_t)index->rank * sizeof *index->dims;
    return index->rank == x->rank - 1 && memcmp(index->dims, x->dims, bytes) == 0;
}

/* The float model's row that belongs to row i; -1: none. */
static int64_t row_of(const dt_tensor *quantized, const dt_tensor *plain, int64_t i)
{
    const int64_t slots = plain->rank > 1 ? plain->dims[plain->rank - 1] : 1;
    const int64_t e = dt__index_at(quantized, i), first = i / slots * slots;
    for (int64_t k = first; k < first + slots; k++) {
        if (dt__index_at(plain, k) == e) return k;
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
    DT__TRY(dt_tensor_from(ctx, DT_F32, x->rank, x->dims, dt__values(x), out));
    if (!is_for_rows(plain->index, x)) return DT_OK;
    float *to = dt__values_mut(*out);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = row_of(quantized->index, plain->index, i);
        const float *row = from < 0 ? (const float *)dt__values(xq) + i * width
                                    : (const float *)dt__values(x) + from * width;
        memcpy(to + i * width, row, (size_t)width * sizeof *to);
    }
    return DT_OK;
}
