/* dt_round: from a weight's work matrices to codes. Checks settings and shapes, gathers rows, and
 * finds orders and scales of all groups. Then it prepares each group (its factor) and rounds its
 * rows in blocks. docs/rounding.md has the formulas. */
#include "core/clock.h"
#include "core/tensor.h"
#include "kernels/products/blas_library.h"
#include "kernels/kernels.h"
#include "kernels/convolution/row_map.h"
#include "ptq/bounds.h"
#include "ptq/layer.h"
#include "ptq/rounding_cost.h"
#include "qat/schemes/scheme.h"

#include <math.h>

/* ---- checks --------------------------------------------------------------------------------- */

static dt_status check_weight(const dt__layer *l)
{
    const dt_tensor *w = l->work->weight;
    if (w->kind != NULL || w->storage == NULL || !dt_is_contiguous(w)) {
        return dt_fail(l->ctx, DT_ERR_STATE,
                       "round %s: the weight must be a plain contiguous tensor; of a prepared one "
                       "that is dt_inner",
                       l->name);
    }
    if (w->dtype == DT_F32) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_DTYPE, "round %s: the weight is %s; it must be f32", l->name,
                   dt_dtype_name(w->dtype));
}

static dt_status check_moments(const dt__layer *l, const dt__moments *m)
{
    const int64_t count = m->size * m->size, packed = m->size * (m->size + 1) / 2;
    const dt__kernels *kernels = dt__kernels_of(l->ctx, DT_F64);
    int64_t bad[3] = { -1, -1, -1 };
    dt__team *const threads = dt__threads_enter(l->ctx);
    kernels->first_nonfinite(count, m->h, &bad[0]);
    if (m->g != NULL) kernels->first_nonfinite(count, m->g, &bad[1]);
    if (m->c != NULL) kernels->first_nonfinite(packed, m->c, &bad[2]);
    dt__threads_leave(threads);
    if (bad[0] < 0 && bad[1] < 0 && bad[2] < 0) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_NUMERIC,
                   "round %s: a sum over its inputs is not finite: they are too large", l->name);
}

static dt_status check_statistics(const dt__layer *l)
{
    dt_statistics *s = l->work->statistics;
    if (s == NULL) {
        if (l->unseen || !dt__needs_data(l->method)) return DT_OK;
        return dt_fail(l->ctx, DT_ERR_ARG, "round %s: %s requires statistics of its inputs",
                       l->name, l->method->name);
    }
    if (s->layer.groups != l->shape.groups || s->moments[0].size != l->shape.columns) {
        return dt_fail(
            l->ctx, DT_ERR_STATE,
            "round %s: statistics of %lld groups of %lld columns; the weight has %lld of "
            "%lld",
            l->name, (long long)s->layer.groups, (long long)s->moments[0].size,
            (long long)l->shape.groups, (long long)l->shape.columns);
    }
    DT__TRY(dt__blas_load(l->ctx));
    const dt__moments *moments = dt__statistics_moments(s);
    l->report->samples = moments[0].n;
    if (moments[0].n < 1) {
        return dt_fail(l->ctx, DT_ERR_STATE, "round %s: its statistics have seen no sample",
                       l->name);
    }
    for (int64_t g = 0; g < s->layer.groups; g++) DT__TRY(check_moments(l, &moments[g]));
    return DT_OK;
}

static dt_status check_scales(const dt__layer *l)
{
    if (l->quant->range != DT_RANGE_LEARNED || l->work->scale != NULL) return DT_OK;
    return dt_fail(l->ctx, DT_ERR_ARG, "round %s: a learned range comes with its scales", l->name);
}

static dt_status check(dt__layer *l)
{
    const dt_tensor *w = l->work->weight;
    DT__TRY(dt__rounding_check(l->ctx, l->options, l->quant));
    DT__TRY(check_weight(l));
    const dt_weight_op linear = { .kind = DT_WEIGHT_LINEAR };
    const dt_weight_op *op = l->work->op == NULL ? &linear : l->work->op;
    DT__TRY(dt__work_shape_of(l->ctx, l->name, op, w->rank, w->dims, &l->shape));
    if (l->shape.columns > INT32_MAX) {
        return dt_fail(l->ctx, DT_ERR_SHAPE, "round %s: rows of %lld columns are too long", l->name,
                       (long long)l->shape.columns);
    }
    DT__TRY(check_scales(l));
    return check_statistics(l);
}

/* ---- memory --------------------------------------------------------------------------------- */

static dt_status make_result(dt__layer *l)
{
    const int64_t columns = l->shape.columns, row = dt__max_i64(columns, 1);
    const bool grouped = l->quant->granularity == DT_PER_GROUP;
    dt_rounded *r = l->out = dt__alloc_zero(l->ctx, sizeof *r);
    if (r == NULL) return DT_ERR_NOMEM;
    l->rows = l->shape.groups * l->shape.rows;
    l->group = grouped ? dt__min_i64(l->quant->group_size, row) : row;
    *r = (dt_rounded){ .rows = l->rows,
                       .columns = columns,
                       .groups = dt__ceil_div(columns, l->group) };
    r->codes = dt__alloc_array(l->ctx, l->rows * columns, 1);
    r->scale = dt__alloc_array(l->ctx, l->rows * r->groups, sizeof *r->scale);
    if (r->codes == NULL || r->scale == NULL) return DT_ERR_NOMEM;
    if (!dt__has_zero(l->quant)) return DT_OK;
    r->zero_point = dt__alloc_array(l->ctx, l->rows * r->groups, 1);
    return r->zero_point == NULL ? DT_ERR_NOMEM : DT_OK;
}

static dt_status make_room(dt__layer *l)
{
    const int64_t columns = l->shape.groups * l->shape.columns;
    DT__TRY(make_result(l));
    l->order = dt__alloc_array(l->ctx, columns, sizeof *l->order);
    l->group_of = dt__alloc_array(l->ctx, columns, sizeof *l->group_of);
    l->dead = dt__alloc_array(l->ctx, columns, sizeof *l->dead);
    l->mean = dt__alloc_array(l->ctx, l->shape.groups, sizeof *l->mean);
    l->inverse = dt__alloc_array(l->ctx, l->rows * l->out->groups, sizeof *l->inverse);
    if (l->order == NULL || l->group_of == NULL || l->dead == NULL || l->mean == NULL ||
        l->inverse == NULL) {
        return DT_ERR_NOMEM;
    }
    l->weight = dt__values(l->work->weight);
    if (l->work->op == NULL || !dt__is_transposed(l->work->op)) return DT_OK;
    dt__row_map map;
    dt__row_map_of(l->shape.groups, l->work->weight->rank, l->work->weight->dims, &map);
    l->gathered = dt__alloc_array(l->ctx, l->rows * l->shape.columns, sizeof *l->gathered);
    if (l->gathered == NULL) return DT_ERR_NOMEM;
    dt__rows_gather(&map, l->weight, l->gathered);
    l->weight = l->gathered;
    return DT_OK;
}

/* Frees everything but the result. */
static void free_room(dt__layer *l)
{
    dt__release(l->ctx, l->order);
    if (l->out == NULL || l->out->group_of != l->group_of) dt__release(l->ctx, l->group_of);
    DT__RELEASE(l->ctx, l->dead, l->mean, l->inverse, l->gathered);
}

void dt_rounded_free(dt_ctx *ctx, dt_rounded *r)
{
    if (ctx == NULL) return;
    if (r == NULL) return;
    DT__RELEASE(ctx, r->codes, r->scale, r->zero_point, r->group_of, r);
}

/* ---- rounding ------------------------------------------------------------------------------- */

/* Zeros are kept where at least one element in 20 is 0. */
static void count_zeros(dt__layer *l)
{
    const int64_t count = l->rows * l->shape.columns;
    int64_t zeros = 0;
    if (!l->options->rounding.keep_zeros || !dt__has_code_zero(l->quant)) return;
    for (int64_t i = 0; i < count; i++) zeros += l->weight[i] == 0;
    l->keep_zeros = zeros > 0 && zeros >= count / 20 + (count % 20 > 0);
    l->report->zeros_kept = l->keep_zeros ? zeros : 0;
}

static dt__matrix matrix_of(dt__layer *l, int64_t g)
{
    const int64_t columns = l->shape.columns, row = g * l->shape.rows, scale = row * l->out->groups;
    int8_t *zero = l->out->zero_point;
    dt_statistics *s = l->work->statistics;
    return (dt__matrix){
        .ctx = l->ctx,
        .rows = l->shape.rows,
        .columns = columns,
        .weight = l->weight + row * columns,
        .quant = l->quant,
        .options = l->options,
        .moments = s == NULL ? NULL : &s->moments[g],
        .order = l->order + g * columns,
        .dead = l->dead + g * columns,
        .keep_zeros = l->keep_zeros,
        .grid = { .qmin = dt__qmin(l->quant),
                  .qmax = dt__qmax(l->quant),
                  .half_up = dt__coding_of(l->quant).half_up,
                  .levels = dt__levels_of(l->quant),
                  .group = l->group,
                  .groups = l->out->groups,
                  .group_of = l->group_of + g * columns,
                  .scale = l->out->scale + scale,
                  .inverse = l->inverse + scale,
                  .zero = zero == NULL ? NULL : zero + scale },
        .mean = l->mean[g],
    };
}

/* Reports the bits that worst-case inputs need in a tile and in the sum of the tiles. */
static void report_worst(dt__layer *l, const dt__matrix *m, const dt__bounds *b,
                         const int8_t *codes)
{
    const int64_t bits = dt__extremes_bits(dt__extremes_of(m, b, codes));
    const int64_t held = l->method->bounded ? l->options->accumulator.bits : bits;
    dt_round_report *r = l->report;
    r->accumulator_bits = dt__max_i64(r->accumulator_bits, bits);
    r->sum_bits = dt__max_i64(r->sum_bits, dt__sum_bits(held, b->tiles.count));
}

static dt_status prepare(dt__layer *l, dt__matrix *m)
{
    const dt__rounder *rounder = l->method->rounder;
    const double start = dt__seconds();
    const dt_status s = rounder->prepare == NULL ? DT_OK : rounder->prepare(m);
    l->report->prepare_seconds += dt__seconds() - start;
    if (rounder->prepare != NULL) {
        dt__did_work(l->ctx, DT__FACTOR, dt__factor_cost(m->columns));
    }
    return s;
}

static dt_status round_group(dt__layer *l, int64_t g)
{
    dt__matrix m = matrix_of(l, g);
    dt__bounds bounds;
    int8_t *codes = l->out->codes + g * m.rows * m.columns;
    dt_status s = dt__bounds_create(&m, l->method->bounded, &bounds);
    if (l->method->bounded) m.bounds = &bounds;
    m.fallback = l->unseen;
    if (s == DT_OK && !l->unseen) s = prepare(l, &m);
    if (s == DT_OK) s = dt__round_matrix(l, &m, codes);
    dt__did_work(l->ctx, DT__ROUND, dt__codes_cost(l->method, m.rows, m.columns));
    if (s == DT_OK) report_worst(l, &m, &bounds, codes);
    dt__bounds_free(l->ctx, &bounds);
    dt__release(l->ctx, m.factor);
    l->fallbacks += m.fallback;
    l->report->damping = fmax(l->report->damping, m.damping);
    l->report->damping_share = fmax(l->report->damping_share, m.damping_share);
    return s;
}

static dt_status round_layer(dt__layer *l)
{
    DT__TRY(check(l));
    DT__TRY(make_room(l));
    *l->report = (dt_round_report){ .method = l->method->name,
                                    .rows = l->rows,
                                    .columns = l->shape.columns,
                                    .groups = l->shape.groups,
                                    .samples = l->report->samples };
    DT__TRY(dt__layer_order(l));
    DT__TRY(dt__layer_scales(l));
    count_zeros(l);
    for (int64_t g = 0; g < l->shape.groups; g++) DT__TRY(round_group(l, g));
    l->report->error = sqrt(l->report->error);
    l->report->nearest_error = sqrt(l->report->nearest_error);
    if (l->options->rounding.order == DT_ORDER_GROUP) l->out->group_of = l->group_of;
    l->report->fallback = l->fallbacks > 0 && !l->unseen;
    if (l->fallbacks == l->shape.groups) l->report->method = dt__method_of(DT_ROUND_NEAREST)->name;
    return DT_OK;
}

dt_status dt__round_one(dt_ctx *ctx, const dt_round_work *work, bool unseen, dt_rounded **out,
                        dt_round_report *report)
{
    const double start = dt__seconds();
    dt_round_report own = { .rows = 0 };
    dt_rounding_options options = work->options == NULL ? dt_rounding_defaults() : *work->options;
    dt__layer l = { .ctx = ctx, .work = work, .quant = work->quant, .report = &own };
    l.unseen = unseen;
    l.name = work->name == NULL ? "a weight" : work->name;
    if (options.accumulator.input.n == 0) options.accumulator.input = (dt_ints){ 2, { 0, 255 } };
    l.options = &options;
    l.method = dt__method_of(l.options->rounder);
    DT__TRY(dt__kernels_open(ctx));
    const dt_status s = round_layer(&l);
    free_room(&l);
    if (s != DT_OK) {
        dt_rounded_free(ctx, l.out);
        return s;
    }
    own.seconds = dt__seconds() - start;
    if (report != NULL) *report = own;
    *out = l.out;
    return DT_OK;
}

dt_status dt_round(dt_ctx *ctx, const dt_round_work *work, dt_rounded **out,
                   dt_round_report *report)
{
    DT__NEED4(ctx, ctx, work, work->weight, out);
    if (work->op != NULL && work->op->kind == DT_WEIGHT_GROUPED_LINEAR) {
        return dt__round_experts(ctx, work, out, report);
    }
    return dt__round_one(ctx, work, false, out, report);
}
