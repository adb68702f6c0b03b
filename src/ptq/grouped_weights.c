/* Grouped weights, [experts][out][in]: an expert is a linear weight whose inputs are the rows
 * that are routed to it. Sums, scales, orders, zeros and factors are computed for each expert in
 * turn; the results are concatenated.
 *
 * An expert with fewer rows than least_rows (0: its columns) is rounded to nearest, within its
 * method's bounds: so few rows do not span all directions, and errors could grow in the others. */
#include "autograd/op.h"
#include "core/clock.h"
#include "core/tensor.h"
#include "kernels/kernels.h"
#include "ptq/layer.h"
#include "ptq/routes.h"
#include "qat/schemes/scheme.h"

#include <math.h>
#include <string.h>

/* ---- statistics ----------------------------------------------------------------------------- */

/* The statistics of expert e, created when its first row is added. */
static dt_status expert_of(dt_statistics *s, int64_t e, dt_statistics **out)
{
    const dt_weight_op linear = { .kind = DT_WEIGHT_LINEAR };
    if (s->expert[e] == NULL) {
        DT__TRY(
            dt_statistics_create(s->ctx, &linear, 2, s->layer.dims + 1, s->differ, &s->expert[e]));
        s->expert[e]->cluster = s->cluster;
    }
    *out = s->expert[e];
    return DT_OK;
}

/* Gathers the rows of x by expert. Errors: NUMERIC (an element that is not finite), NOMEM. */
static dt_status gather(const dt_statistics *s, const dt_tensor *x, const dt__expert_rows *by,
                        dt_tensor **out)
{
    const int64_t width = s->layer.columns, n = by->first[s->layer.groups];
    int64_t bad = -1;
    DT__TRY(dt__tensor_create_raw(s->ctx, DT_F32, 2, (const int64_t[]){ n, width }, out));
    float *to = dt__values_mut(*out);
    const float *from = dt__values(x);
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + i * width, from + by->row[i] * width, (size_t)width * sizeof *to);
    }
    dt__kernels_of(s->ctx, DT_F32)->first_nonfinite(n * width, to, &bad);
    if (bad < 0) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_NUMERIC, "statistics: row %lld, column %lld of the inputs is %g",
                   (long long)by->row[bad / width], (long long)(bad % width), (double)to[bad]);
}

static dt_status check_inputs(const dt_statistics *s, const dt_tensor *x)
{
    char text[160];
    if (x->kind != NULL || x->storage == NULL || !dt_is_contiguous(x)) {
        return dt_fail(s->ctx, DT_ERR_ARG,
                       "statistics: inputs must be dense and contiguous "
                       "(dt_tensor_contiguous)");
    }
    if (x->dtype != DT_F32) {
        return dt_fail(s->ctx, DT_ERR_DTYPE, "statistics: inputs must be f32, not %s",
                       dt_dtype_name(x->dtype));
    }
    if (x->rank > 0 && x->dims[x->rank - 1] == s->layer.columns) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_SHAPE, "grouped_linear: x is %s, weight takes rows of %lld",
                   dt__dims_text(x->rank, x->dims, text, sizeof text), (long long)s->layer.columns);
}

static dt_status check(const dt_statistics *s, const dt_tensor *xq, const dt_tensor *x)
{
    if (s->expert == NULL) {
        return dt_fail(s->ctx, DT_ERR_ARG, "statistics: only grouped weights have routes");
    }
    if ((x != NULL) != s->differ) {
        return dt_fail(s->ctx, DT_ERR_ARG, "statistics: the float model's inputs were %s",
                       s->differ ? "announced, and are missing" : "not announced");
    }
    DT__TRY(check_inputs(s, xq));
    if (x == NULL) return DT_OK;
    DT__TRY(check_inputs(s, x));
    if (dt__same_dims(x, xq)) return DT_OK;
    return dt_fail(s->ctx, DT_ERR_SHAPE,
                   "statistics: the float model's inputs are of another shape");
}

/* *out = the gathered rows of expert e. */
static dt_status rows_of(const dt__expert_rows *by, int64_t e, dt_tensor *all, dt_tensor **out)
{
    *out = NULL;
    if (all == NULL) return DT_OK;
    return dt_tensor_narrow(all, 0, by->first[e], by->first[e + 1] - by->first[e], out);
}

static dt_status add_expert(dt_statistics *s, int64_t e, const dt__expert_rows *by,
                            dt_tensor *const all[2])
{
    dt_statistics *expert;
    dt_tensor *xq = NULL, *x = NULL;
    if (by->first[e] == by->first[e + 1]) return DT_OK;
    DT__TRY(expert_of(s, e, &expert));
    dt_status status = rows_of(by, e, all[0], &xq);
    if (status == DT_OK) status = rows_of(by, e, all[1], &x);
    if (status == DT_OK) status = dt_statistics_add(expert, xq, x);
    DT__TENSORS_FREE(xq, x);
    return status;
}

dt_status dt_statistics_add_routed(dt_statistics *s, const dt_tensor *xq, const dt_tensor *x,
                                   const dt_routes *routes)
{
    DT__NEED(dt_ctx_of(xq), s);
    dt_tensor *all[2] = { NULL };
    dt__expert_rows by;
    DT__TRY(check(s, xq, x));
    dt_status status = dt__expert_rows_of(s->ctx, routes, s->layer.groups, dt__rows(xq), &by);
    if (status == DT_OK) status = gather(s, xq, &by, &all[0]);
    if (status == DT_OK && x != NULL) status = gather(s, x, &by, &all[1]);
    for (int64_t e = 0; e < s->layer.groups && status == DT_OK; e++) {
        status = add_expert(s, e, &by, all);
    }
    if (status == DT_OK) s->samples += by.first[s->layer.groups];
    DT__TENSORS_FREE(all[0], all[1]);
    dt__expert_rows_free(s->ctx, &by);
    return status;
}

/* ---- rounding ------------------------------------------------------------------------------- */

/* A grouped weight while its experts are rounded. */
typedef struct experts {
    dt_ctx *ctx;
    const dt_round_work *work;
    dt__work_shape shape;
    const dt__method *method;
    dt_rounded *out;
    dt_round_report report; /* errors are squared until all experts are done */
    int64_t nearest;        /* experts whose matrix had no factor, or too few rows */
} experts;

static dt_status check_work(experts *m)
{
    const dt_round_work *w = m->work;
    const char *name = w->name == NULL ? "a weight" : w->name;
    const dt_statistics *s = w->statistics;
    DT__TRY(dt__work_shape_of(m->ctx, name, w->op, w->weight->rank, w->weight->dims, &m->shape));
    if (s == NULL || (s->expert != NULL && s->layer.groups == m->shape.groups &&
                      s->layer.dims[1] == m->shape.rows && s->layer.columns == m->shape.columns)) {
        return DT_OK;
    }
    return dt_fail(m->ctx, DT_ERR_STATE, "round %s: statistics of a weight of another shape", name);
}

/* A view of one expert of a contiguous weight; dt__round_one refuses other weights. */
static dt_status take_expert(const experts *m, int64_t e, dt_tensor **out)
{
    DT__TRY(dt__view(m->ctx, m->work->weight, out));
    dt_tensor *w = *out;
    w->rank = 2;
    w->dims[0] = m->shape.rows;
    w->dims[1] = m->shape.columns;
    w->count = m->shape.rows * m->shape.columns;
    w->offset += e * w->count;
    dt__contiguous_strides(w->rank, w->dims, w->strides);
    return DT_OK;
}

/* Allocates the result for all experts in the format of the first. */
static dt_status make_result(experts *m, const dt_rounded *first)
{
    const int64_t n = m->shape.groups;
    dt_rounded *r = m->out = dt__alloc_zero(m->ctx, sizeof *r);
    if (r == NULL) return DT_ERR_NOMEM;
    *r =
        (dt_rounded){ .rows = n * first->rows, .columns = first->columns, .groups = first->groups };
    const int64_t scales = r->rows * r->groups;
    r->codes = dt__alloc_array(m->ctx, r->rows * r->columns, 1);
    r->scale = dt__alloc_array(m->ctx, scales, sizeof *r->scale);
    if (r->codes == NULL || r->scale == NULL) return DT_ERR_NOMEM;
    if (first->zero_point != NULL) {
        r->zero_point = dt__alloc_array(m->ctx, scales, 1);
        if (r->zero_point == NULL) return DT_ERR_NOMEM;
    }
    if (first->group_of == NULL) return DT_OK;
    r->group_of = dt__alloc_array(m->ctx, n * r->columns, sizeof *r->group_of);
    return r->group_of == NULL ? DT_ERR_NOMEM : DT_OK;
}

static void put(void *to, const void *from, int64_t at, int64_t n, size_t each)
{
    if (to != NULL && n > 0) memcpy((char *)to + (size_t)at * each, from, (size_t)n * each);
}

static dt_status take_codes(experts *m, int64_t e, const dt_rounded *of)
{
    const int64_t codes = of->rows * of->columns, scales = of->rows * of->groups;
    if (m->out == NULL) DT__TRY(make_result(m, of));
    put(m->out->codes, of->codes, e * codes, codes, 1);
    put(m->out->scale, of->scale, e * scales, scales, sizeof *of->scale);
    put(m->out->zero_point, of->zero_point, e * scales, scales, 1);
    put(m->out->group_of, of->group_of, e * of->columns, of->columns, sizeof *of->group_of);
    return DT_OK;
}

static void count(experts *m, int64_t e, bool unseen, const dt_round_report *r)
{
    dt_round_report *all = &m->report;
    dt_ints *list = &all->unseen_experts;
    all->samples += r->samples;
    all->dead += r->dead;
    all->zeros_kept += r->zeros_kept;
    all->kept_nearest += r->kept_nearest;
    all->changed += r->changed;
    all->loss += r->loss;
    all->error += r->error * r->error;
    all->nearest_error += r->nearest_error * r->nearest_error;
    all->damping = fmax(all->damping, r->damping);
    all->damping_share = fmax(all->damping_share, r->damping_share);
    all->accumulator_bits = dt__max_i64(all->accumulator_bits, r->accumulator_bits);
    all->sum_bits = dt__max_i64(all->sum_bits, r->sum_bits);
    all->prepare_seconds += r->prepare_seconds;
    all->compare_seconds += r->compare_seconds;
    all->fallback |= r->fallback;
    all->unseen += unseen;
    if (unseen && list->n < DT_MAX_LIST) list->v[list->n++] = e;
    m->nearest += r->fallback || unseen;
}

/* The statistics of expert e if they have enough rows, else NULL. */
static dt_statistics *enough(const experts *m, int64_t e)
{
    const dt_statistics *s = m->work->statistics;
    const dt_rounding_options *o = m->work->options;
    const int64_t given = o == NULL ? 0 : o->rounding.least_rows;
    const int64_t least = given > 0 ? given : m->shape.columns;
    if (s == NULL || s->expert[e] == NULL || s->expert[e]->samples < least) return NULL;
    return s->expert[e];
}

static dt_status round_expert(experts *m, int64_t e, dt_tensor *weight, const char *name)
{
    const dt_weight_op linear = { .kind = DT_WEIGHT_LINEAR };
    const int64_t rows = e * m->shape.rows;
    const int64_t scales = m->out == NULL ? 0 : rows * m->out->groups;
    dt_round_work w = *m->work;
    dt_rounded *codes = NULL;
    dt_round_report report;
    w.name = name;
    w.weight = weight;
    w.op = &linear;
    w.statistics = enough(m, e);
    if (w.scale != NULL) w.scale += scales;
    if (w.zero_point != NULL) w.zero_point += scales;
    const bool unseen =
        w.statistics == NULL && m->work->statistics != NULL && dt__needs_data(m->method);
    dt_status s = dt__round_one(m->ctx, &w, unseen, &codes, &report);
    if (s == DT_OK) s = take_codes(m, e, codes);
    if (s == DT_OK) count(m, e, unseen, &report);
    dt_rounded_free(m->ctx, codes);
    return s;
}

static dt_status round_all(experts *m)
{
    const dt_round_work *w = m->work;
    DT__TRY(check_work(m));
    m->report = (dt_round_report){ .method = m->method == NULL ? NULL : m->method->name,
                                   .rows = m->shape.groups * m->shape.rows,
                                   .columns = m->shape.columns,
                                   .groups = m->shape.groups };
    for (int64_t e = 0; e < m->shape.groups; e++) {
        dt_tensor *weight = NULL;
        char *name = dt__format_string(m->ctx, "%s.%lld", w->name == NULL ? "a weight" : w->name,
                                       (long long)e);
        dt_status s = name == NULL ? DT_ERR_NOMEM : take_expert(m, e, &weight);
        if (s == DT_OK) s = round_expert(m, e, weight, name);
        dt_tensor_free(weight);
        dt__release(m->ctx, name);
        if (s != DT_OK) return s;
        if (w->statistics == NULL) continue;
        dt_statistics_free(w->statistics->expert[e]); /* consumed */
        w->statistics->expert[e] = NULL;
    }
    m->report.error = sqrt(m->report.error);
    m->report.nearest_error = sqrt(m->report.nearest_error);
    if (m->nearest == m->shape.groups) {
        m->report.method = dt__method_of(DT_ROUND_NEAREST)->name;
    }
    return DT_OK;
}

dt_status dt__round_experts(dt_ctx *ctx, const dt_round_work *work, dt_rounded **out,
                            dt_round_report *report)
{
    const double start = dt__seconds();
    experts m = { .ctx = ctx, .work = work };
    m.method = dt__method_of(work->options == NULL ? DT_ROUND_NEAREST : work->options->rounder);
    const dt_status s = round_all(&m);
    if (s != DT_OK) {
        dt_rounded_free(ctx, m.out);
        return s;
    }
    m.report.seconds = dt__seconds() - start;
    if (report != NULL) *report = m.report;
    *out = m.out;
    return DT_OK;
}
