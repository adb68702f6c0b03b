/* Reductions along axes, and operators along one axis that sort or sum. Sums of floats are computed
 * in double in the order of elements, and rounded once. */
#include "io/onnx/interpret/interpret.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reductions ------------------------------------------------------------------------------ */

static double real_sum(double a, double x) { return a + x; }
static double real_product(double a, double x) { return a * x; }
static double real_squares(double a, double x) { return a + x * x; }
static double real_absolutes(double a, double x) { return a + fabs(x); }
static double real_least(double a, double x) { return isnan(a) || a < x ? a : x; }
static double real_largest(double a, double x) { return isnan(a) || a > x ? a : x; }
static int64_t whole_sum(int64_t a, int64_t x) { return (int64_t)((uint64_t)a + (uint64_t)x); }
static int64_t whole_product(int64_t a, int64_t x) { return (int64_t)((uint64_t)a * (uint64_t)x); }
static int64_t whole_squares(int64_t a, int64_t x) { return whole_sum(a, whole_product(x, x)); }
static int64_t whole_absolutes(int64_t a, int64_t x)
{
    return whole_sum(a, x < 0 ? whole_product(x, -1) : x);
}
static int64_t whole_least(int64_t a, int64_t x) { return a < x ? a : x; }
static int64_t whole_largest(int64_t a, int64_t x) { return a > x ? a : x; }

/* The axes of a reduction, the extents with 1 for each of them, and the result's extents. */
typedef struct reduction {
    bool axis[DT_MAX_RANK];
    int64_t kept[DT_MAX_RANK], dims[DT_MAX_RANK];
    int rank;
    double length; /* number of elements per result */
} reduction;

static dt_status plan(const dt__verify_call *c, reduction *r)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list axes;
    DT__TRY(dt__verify_input_list(c, 1, &axes));
    DT__TRY(dt__verify_axes(c, &axes, x->rank, r->axis));
    const bool all = axes.n <= 0 && dt__onnx_int_of(c->node, "noop_with_empty_axes", 0) == 0;
    const bool keep = dt__onnx_int_of(c->node, "keepdims", 1) != 0;
    r->rank = 0;
    r->length = 1;
    for (int d = 0; d < x->rank; d++) {
        if (all) r->axis[d] = true;
        r->kept[d] = r->axis[d] ? 1 : x->dims[d];
        if (r->axis[d]) r->length *= (double)x->dims[d];
        if (keep || !r->axis[d]) r->dims[r->rank++] = r->kept[d];
    }
    return DT_OK;
}

/* Iterates over x; the first offset is that of the result's element. */
static dt__verify_walk walk_of(const dt__verify_value *x, const reduction *r)
{
    dt__verify_walk w = { .rank = x->rank };
    int64_t step = 1;
    for (int d = x->rank; d-- > 0; step *= r->kept[d]) {
        w.dims[d] = x->dims[d];
        w.stride[0][d] = r->axis[d] ? 0 : step;
    }
    return w;
}

static dt_status reduce_reals(dt__verify_call *c, const reduction *r, dt__verify_value *y)
{
    double *sum;
    const dt__verify_value *x = c->in[0];
    DT__TRY(dt__verify_scratch(c, y->count, sizeof *sum, (void **)&sum));
    for (int64_t i = 0; i < y->count; i++) sum[i] = c->op->alpha;
    dt__verify_walk w = walk_of(x, r);
    for (int64_t i = 0; i < x->count; i++, dt__verify_step(&w)) {
        double *to = &sum[w.offset[0]];
        *to = c->op->real(*to, dt__verify_real_at(x, i));
    }
    const bool mean = strcmp(c->op->name, "ReduceMean") == 0;
    const bool root = strcmp(c->op->name, "ReduceL2") == 0;
    for (int64_t i = 0; i < y->count; i++) {
        if (mean) sum[i] /= r->length;
        if (root) sum[i] = sqrt(sum[i]);
    }
    dt__verify_store_real(y, 0, y->count, sum);
    return DT_OK;
}

static dt_status reduce_wholes(dt__verify_call *c, const reduction *r, dt__verify_value *y)
{
    int64_t *sum;
    const dt__verify_value *x = c->in[0];
    const int64_t bits = 8 * (int64_t)dt__verify_size(x->type);
    const bool is_signed = x->type != DT__VERIFY_U8;
    const int64_t largest = (int64_t)(UINT64_MAX >> (64 - bits + is_signed));
    const int64_t first = c->op->whole == whole_least     ? largest
                          : c->op->whole == whole_largest ? (is_signed ? -largest - 1 : 0)
                                                          : (int64_t)c->op->alpha;
    DT__TRY(dt__verify_scratch(c, y->count, sizeof *sum, (void **)&sum));
    for (int64_t i = 0; i < y->count; i++) sum[i] = first;
    dt__verify_walk w = walk_of(x, r);
    for (int64_t i = 0; i < x->count; i++, dt__verify_step(&w)) {
        int64_t *to = &sum[w.offset[0]];
        *to = c->op->whole(*to, dt__verify_whole_at(x, i));
    }
    dt__verify_store_whole(y, 0, y->count, sum);
    return DT_OK;
}

static dt_status reduce(dt__verify_call *c)
{
    reduction r;
    dt__verify_value *y;
    const dt__verify_value *x = c->in[0];
    DT__TRY(plan(c, &r));
    DT__TRY(dt__verify_make(c, 0, x->type, r.rank, r.dims, &y));
    DT__TRY(dt__verify_work(c, (double)x->count, 1, 1));
    return dt__verify_is_real(x->type) ? reduce_reals(c, &r, y) : reduce_wholes(c, &r, y);
}

/* ---- along one axis -------------------------------------------------------------------------- */

/* Element k along an axis of row i: outer[i] + k * step. */
typedef struct axis_rows {
    int64_t n, length, step;
} axis_rows;

static axis_rows rows_along(const dt__verify_value *x, int axis)
{
    axis_rows r = { 1, x->dims[axis], 1 };
    for (int d = 0; d < x->rank; d++) {
        if (d != axis) r.n *= x->dims[d];
        if (d > axis) r.step *= x->dims[d];
    }
    return r;
}

static int64_t row_start(const axis_rows *r, int64_t i)
{
    return i / r->step * r->step * r->length + i % r->step;
}

static dt_status cumulative_sum(dt__verify_call *c)
{
    int axis;
    int64_t given;
    dt__verify_value *y;
    const dt__verify_value *x = c->in[0];
    DT__TRY(dt__verify_input_int(c, 1, &given));
    DT__TRY(dt__verify_axis(c, given, x->rank, &axis));
    DT__TRY(dt__verify_make_like(c, 0, x, &y));
    const bool before = dt__onnx_int_of(c->node, "exclusive", 0) != 0;
    const bool back = dt__onnx_int_of(c->node, "reverse", 0) != 0;
    const axis_rows r = rows_along(x, axis);
    for (int64_t i = 0; i < r.n && r.length > 0; i++) {
        double sum = 0;
        int64_t whole = 0;
        for (int64_t k = 0; k < r.length; k++) {
            const int64_t at = row_start(&r, i) + (back ? r.length - 1 - k : k) * r.step;
            const double old = sum;
            const int64_t old_whole = whole;
            sum += dt__verify_real_at(x, at);
            whole = whole_sum(whole, dt__verify_whole_at(x, at));
            if (dt__verify_is_real(x->type)) {
                dt__verify_store_real(y, at, 1, before ? &old : &sum);
            } else {
                dt__verify_store_whole(y, at, 1, before ? &old_whole : &whole);
            }
        }
    }
    return DT_OK;
}

/* An element with its index, for sorting; `sign` -1: descending. */
typedef struct place {
    double key;
    int64_t whole, at;
} place;

static int by_key(const void *a, const void *b)
{
    const place *p = a, *q = b;
    if (p->key != q->key && !(isnan(p->key) && isnan(q->key))) {
        if (isnan(p->key)) return 1;
        if (isnan(q->key)) return -1;
        return p->key < q->key ? -1 : 1;
    }
    if (p->whole != q->whole) return p->whole < q->whole ? -1 : 1;
    return (p->at > q->at) - (p->at < q->at);
}

/* Sorts the elements of row i into `to`. */
static void sort_row(const dt__verify_value *x, const axis_rows *r, int64_t i, bool largest,
                     place *to)
{
    for (int64_t k = 0; k < r->length; k++) {
        const int64_t at = row_start(r, i) + k * r->step;
        to[k] = (place){ .at = k };
        if (dt__verify_is_real(x->type)) to[k].key = dt__verify_real_at(x, at);
        else to[k].whole = dt__verify_whole_at(x, at);
        if (largest) to[k] = (place){ -to[k].key, ~to[k].whole, k };
    }
    qsort(to, (size_t)r->length, sizeof *to, by_key);
}

static dt_status top_k(dt__verify_call *c)
{
    int axis;
    int64_t k, dims[DT_MAX_RANK];
    dt__verify_value *y = NULL, *index = NULL;
    const dt__verify_value *x = c->in[0];
    place *row;
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", -1), x->rank, &axis));
    DT__TRY(dt__verify_input_int(c, 1, &k));
    if (k < 0 || k > x->dims[axis]) {
        return dt__verify_refuse(c, "the %lld largest of %lld elements; expected at most all",
                                 (long long)k, (long long)x->dims[axis]);
    }
    memcpy(dims, x->dims, sizeof dims);
    dims[axis] = k;
    DT__TRY(dt__verify_make(c, 0, x->type, x->rank, dims, &y));
    if (c->n_out > 1 && c->out[1] != NULL) {
        DT__TRY(dt__verify_make(c, 1, DT__VERIFY_I64, x->rank, dims, &index));
    }
    const axis_rows r = rows_along(x, axis), to = rows_along(y, axis);
    DT__TRY(dt__verify_scratch(c, r.length, sizeof *row, (void **)&row));
    DT__TRY(dt__verify_work(c, (double)x->count, 1, 1));
    const size_t size = dt__verify_size(x->type);
    for (int64_t i = 0; i < r.n && k > 0; i++) {
        sort_row(x, &r, i, dt__onnx_int_of(c->node, "largest", 1) != 0, row);
        for (int64_t j = 0; j < k; j++) {
            const int64_t from = row_start(&r, i) + row[j].at * r.step;
            const int64_t at = row_start(&to, i) + j * to.step;
            memcpy((char *)y->data + (size_t)at * size, (char *)x->data + (size_t)from * size,
                   size);
            if (index != NULL) ((int64_t *)index->data)[at] = row[j].at;
        }
    }
    return DT_OK;
}

/* The index of the largest (least) element; of equal ones the first or the last. */
static dt_status arg_extreme(dt__verify_call *c)
{
    int axis, rank = 0;
    int64_t dims[DT_MAX_RANK];
    dt__verify_value *y;
    const dt__verify_value *x = c->in[0];
    const bool largest = strcmp(c->op->name, "ArgMax") == 0;
    const bool late = dt__onnx_int_of(c->node, "select_last_index", 0) != 0;
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", 0), x->rank, &axis));
    if (x->dims[axis] == 0) return dt__verify_refuse(c, "no elements along axis %d", axis);
    for (int d = 0; d < x->rank; d++) {
        if (d != axis) dims[rank++] = x->dims[d];
        else if (dt__onnx_int_of(c->node, "keepdims", 1) != 0) dims[rank++] = 1;
    }
    DT__TRY(dt__verify_make(c, 0, DT__VERIFY_I64, rank, dims, &y));
    DT__TRY(dt__verify_work(c, (double)x->count, 1, 1));
    const axis_rows r = rows_along(x, axis);
    for (int64_t i = 0; i < r.n; i++) {
        int64_t best = 0;
        for (int64_t k = 1; k < r.length; k++) {
            const double a = dt__verify_real_at(x, row_start(&r, i) + k * r.step);
            const double b = dt__verify_real_at(x, row_start(&r, i) + best * r.step);
            if ((largest ? a > b : a < b) || (late && a == b)) best = k;
        }
        ((int64_t *)y->data)[i] = best;
    }
    return DT_OK;
}

/* alpha: the result for no elements. */
#define REDUCE(called, set, f, g, first)                                                           \
    {                                                                                              \
        called, reduce, 1, 2, 1, 1, DT__VERIFY_##set, "keepdims noop_with_empty_axes ", f, g,      \
            first, 0                                                                               \
    }

const dt__verify_operator dt__verify_reductions[] = {
    REDUCE("ReduceSum", SIGNED, real_sum, whole_sum, 0),
    REDUCE("ReduceMean", FLOATS, real_sum, whole_sum, 0),
    REDUCE("ReduceProd", SIGNED, real_product, whole_product, 1),
    REDUCE("ReduceSumSquare", SIGNED, real_squares, whole_squares, 0),
    REDUCE("ReduceL1", SIGNED, real_absolutes, whole_absolutes, 0),
    REDUCE("ReduceL2", FLOATS, real_squares, whole_squares, 0),
    REDUCE("ReduceMin", NUMBERS, real_least, whole_least, (double)INFINITY),
    REDUCE("ReduceMax", NUMBERS, real_largest, whole_largest, -(double)INFINITY),
    { "CumSum", cumulative_sum, 2, 2, 1, 1, DT__VERIFY_FLOATS | DT__VERIFY_INDICES,
      "exclusive reverse ", NULL, NULL, 0, 0 },
    { "TopK", top_k, 2, 2, 2, 1, DT__VERIFY_NUMBERS, "axis largest sorted ", NULL, NULL, 0, 0 },
    { "ArgMax", arg_extreme, 1, 1, 1, 1, DT__VERIFY_NUMBERS, "axis keepdims select_last_index ",
      NULL, NULL, 0, 0 },
    { "ArgMin", arg_extreme, 1, 1, 1, 1, DT__VERIFY_NUMBERS, "axis keepdims select_last_index ",
      NULL, NULL, 0, 0 },
    { .name = NULL },
};
