/* Scales of a weight before it is rounded, by its scheme. A block is consecutive columns of a row;
 * with DT_ORDER_GROUP, consecutive in the processing order. */
#include "kernels/kernels.h"
#include "ptq/layer.h"
#include "qat/schemes/least_error.h"
#include "qat/schemes/scheme.h"

#include <math.h>

bool dt__observe_block(dt_ctx *ctx, const dt_quant_spec *q, int64_t n, const float *x,
                       const dt__block_scale *to)
{
    float lo = 0, hi = 0;
    if (dt__kernels_of(ctx, DT_F32)->range(n, n, x, &lo, &hi) >= 0) return false;
    const dt__coding coding = dt__coding_of(q);
    if (q->range == DT_RANGE_STATIC) dt__least_error(q, n, x, &lo, &hi);
    else dt__refine_range(&coding, n, n, x, &lo, &hi);
    return dt__choose_scales(q, &(dt__blocks){ 1, &lo, &hi, to->scale, to->inverse, to->zero, 0 });
}

static dt__block_scale scale_at(const dt__layer *l, int64_t i)
{
    int8_t *zero = l->out->zero_point;
    return (dt__block_scale){ l->out->scale + i, l->inverse + i, zero == NULL ? NULL : zero + i };
}

/* Computes the scales of one row; `room` is scratch for a permuted block, or NULL. */
static bool observe_row(const dt__layer *l, int64_t row, float *room)
{
    const int64_t columns = l->shape.columns, groups = l->out->groups;
    const int32_t *order = l->order + row / dt__max_i64(l->shape.rows, 1) * columns;
    const float *x = l->weight + row * columns;
    bool good = true;
    for (int64_t i = 0; i < groups; i++) {
        const int64_t first = i * l->group, n = dt__min_i64(l->group, columns - first);
        const dt__block_scale to = scale_at(l, row * groups + i);
        for (int64_t k = 0; room != NULL && k < n; k++) room[k] = x[order[first + k]];
        good &= dt__observe_block(l->ctx, l->quant, n, room != NULL ? room : x + first, &to);
    }
    return good;
}

static dt_status report_row(const dt__layer *l, int64_t row)
{
    return dt_fail(l->ctx, DT_ERR_NUMERIC,
                   "round %s: row %lld: a scale, or a dequantized value, is not finite", l->name,
                   (long long)row);
}

typedef struct observe_args {
    dt__layer *l;
    float *rooms; /* [threads][room], or NULL */
    int64_t room;
    _Atomic int64_t *bad; /* the first row whose scale is not finite */
} observe_args;

static void observe_share(const void *args, const dt__share *share)
{
    const observe_args *of = args;
    float *own = of->rooms == NULL ? NULL : of->rooms + of->room * share->thread;
    for (int64_t row = share->first; row < share->past; row++) {
        if (!observe_row(of->l, row, own)) dt__lower(of->bad, row);
    }
}

static dt_status observe_rows(dt__layer *l)
{
    const bool permuted = l->options->rounding.order == DT_ORDER_GROUP;
    const int64_t room = permuted ? l->group : 0;
    float *rooms = dt__alloc_array(l->ctx, room * l->ctx->threads, sizeof *rooms);
    _Atomic int64_t bad = INT64_MAX;
    if (rooms == NULL) return DT_ERR_NOMEM;
    const observe_args args = { l, permuted ? rooms : NULL, room, &bad };
    dt__team *const threads = dt__threads_enter(l->ctx);
    dt__parallel(l->rows, 4 * l->shape.columns, observe_share, &args);
    dt__threads_leave(threads);
    dt__release(l->ctx, rooms);
    return bad == INT64_MAX ? DT_OK : report_row(l, bad);
}

/* Computes one scale for the whole weight and copies it to every row. */
static dt_status observe_all(dt__layer *l)
{
    const dt__block_scale first = scale_at(l, 0);
    if (l->rows == 0) return DT_OK;
    dt__team *const threads = dt__threads_enter(l->ctx);
    const bool good =
        dt__observe_block(l->ctx, l->quant, l->rows * l->shape.columns, l->weight, &first);
    dt__threads_leave(threads);
    if (!good) return report_row(l, 0);
    for (int64_t row = 1; row < l->rows; row++) {
        l->out->scale[row] = *first.scale;
        l->inverse[row] = *first.inverse;
        if (first.zero != NULL) l->out->zero_point[row] = *first.zero;
    }
    return DT_OK;
}

static dt_status take_given(dt__layer *l)
{
    const int64_t groups = l->out->groups;
    for (int64_t i = 0; i < l->rows * groups; i++) {
        const float s = l->work->scale[i];
        if (!isfinite(s) || !isfinite(s * 256)) return report_row(l, i / groups);
        const dt__block_scale to = scale_at(l, i);
        *to.scale = s;
        *to.inverse = s == 0 ? 0 : 1 / s;
        if (to.zero != NULL) *to.zero = l->work->zero_point == NULL ? 0 : l->work->zero_point[i];
    }
    return DT_OK;
}

dt_status dt__layer_scales(dt__layer *l)
{
    dt__cut cut = { l->rows, l->shape.columns, l->group, l->out->groups, false, 0 };
    float lo, hi;
    const int64_t bad = dt__range_of(l->ctx, &cut, l->weight, &lo, &hi);
    if (bad >= 0) {
        return dt_fail(l->ctx, DT_ERR_NUMERIC,
                       "round %s: the weight in row %lld, column %lld is not finite", l->name,
                       (long long)(bad / l->shape.columns), (long long)(bad % l->shape.columns));
    }
    if (l->work->scale != NULL) return take_given(l);
    if (l->quant->granularity == DT_PER_TENSOR) return observe_all(l);
    DT__TRY(observe_rows(l));
    const dt__scheme *scheme = dt__scheme_of(l->quant->scheme);
    const int64_t n = scheme->settle == NULL ? 0 : l->rows * l->out->groups;
    if (n > 0) scheme->settle(n, l->out->scale);
    for (int64_t i = 0; i < n; i++) l->inverse[i] = 1 / l->out->scale[i];
    return DT_OK;
}
