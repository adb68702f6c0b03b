/* Operators that select indices in each dimension independently.
 *     y[i, j, ...] = x[table_0[i], table_1[j], ...]      -1 in a table: the constant `outside` */
#include "io/onnx/interpret/interpret.h"

#include <math.h>
#include <string.h>

typedef struct selection {
    int64_t *table[DT_MAX_RANK];
    int64_t dims[DT_MAX_RANK];
    const void *outside; /* element for index -1; NULL: zero */
} selection;

/* Starts with all elements of each dimension. */
static dt_status select_all(dt__verify_call *c, const dt__verify_value *x, selection *s)
{
    s->outside = NULL;
    for (int d = 0; d < x->rank; d++) {
        s->dims[d] = x->dims[d];
        s->table[d] = NULL; /* all, in order */
    }
    return dt__verify_work(c, (double)x->count, 1, 1);
}

/* Allocates a table of n elements for dimension d. */
static dt_status select_some(dt__verify_call *c, selection *s, int d, int64_t n)
{
    s->dims[d] = n;
    DT__TRY(dt__verify_work(c, (double)n, 1, 1));
    return dt__verify_scratch(c, n, sizeof(int64_t), (void **)&s->table[d]);
}

static dt_status make(dt__verify_call *c, int64_t out, const dt__verify_value *x,
                      const selection *s)
{
    int64_t stride[DT_MAX_RANK];
    dt__verify_value *y;
    dt__verify_walk w = { .rank = x->rank };
    const size_t size = dt__verify_size(x->type);
    DT__TRY(dt__verify_make(c, out, x->type, x->rank, s->dims, &y));
    dt__verify_strides(x, stride);
    memcpy(w.dims, y->dims, sizeof w.dims);
    for (int64_t i = 0; i < y->count; i++, dt__verify_step(&w)) {
        int64_t from = 0;
        bool inside = true;
        for (int d = 0; d < x->rank; d++) {
            const int64_t at = s->table[d] == NULL ? w.at[d] : s->table[d][w.at[d]];
            inside = inside && at >= 0;
            from += at * stride[d];
        }
        char *to = (char *)y->data + (size_t)i * size;
        if (inside) memcpy(to, (const char *)x->data + (size_t)from * size, size);
        else if (s->outside != NULL) memcpy(to, s->outside, size);
        else memset(to, 0, size);
    }
    return DT_OK;
}

/* ---- Slice, Split ---------------------------------------------------------------------------- */

/* start, start + step, ... before end, for n elements, as in numpy. */
static dt_status slice_axis(dt__verify_call *c, selection *s, int d, int64_t start, int64_t end,
                            int64_t step)
{
    const int64_t n = s->dims[d];
    if (step == 0 || step == INT64_MIN)
        return dt__verify_refuse(c, "a step of 0; expected another");
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    if (start < 0) start = start < -n ? low : start + n;
    if (end < 0) end = end < -n ? low : end + n;
    start = dt__max_i64(low, dt__min_i64(start, high));
    end = dt__max_i64(low, dt__min_i64(end, high));
    const int64_t distance = step > 0 ? end - start : start - end;
    const int64_t by = step > 0 ? step : -step;
    const int64_t count = distance <= 0 ? 0 : 1 + (distance - 1) / by;
    DT__TRY(select_some(c, s, d, count));
    for (int64_t i = 0; i < count; i++) s->table[d][i] = start + i * step;
    return DT_OK;
}

static dt_status slice(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list start, end, axes, step;
    selection s;
    bool seen[DT_MAX_RANK];
    DT__TRY(dt__verify_input_list(c, 1, &start));
    DT__TRY(dt__verify_input_list(c, 2, &end));
    DT__TRY(dt__verify_input_list(c, 3, &axes));
    DT__TRY(dt__verify_input_list(c, 4, &step));
    if (axes.n < 0) {
        axes.n = start.n;
        for (int i = 0; i < axes.n; i++) axes.v[i] = i;
    }
    if (end.n != start.n || axes.n != start.n || (step.n >= 0 && step.n != start.n)) {
        return dt__verify_refuse(
            c, "starts, ends, axes and steps differ in number; expected as many of each");
    }
    DT__TRY(dt__verify_axes(c, &axes, x->rank, seen));
    DT__TRY(select_all(c, x, &s));
    for (int i = 0; i < axes.n; i++) {
        const int d = (int)(axes.v[i] < 0 ? axes.v[i] + x->rank : axes.v[i]);
        DT__TRY(slice_axis(c, &s, d, start.v[i], end.v[i], step.n < 0 ? 1 : step.v[i]));
    }
    return make(c, 0, x, &s);
}

/* The extent of part k: given, or equal parts of which the last may be smaller. */
static dt_status part_size(const dt__verify_call *c, int64_t n, int64_t k, int64_t *out)
{
    const dt__verify_value *sizes = dt__verify_in(c, 1);
    const int64_t parts = dt__onnx_int_of(c->node, "num_outputs", c->n_out);
    if (sizes != NULL) {
        if (sizes->type != DT__VERIFY_I64 || sizes->count != c->n_out) {
            return dt__verify_refuse(c, "%lld sizes for %lld outputs; expected one for each",
                                     (long long)sizes->count, (long long)c->n_out);
        }
        *out = dt__verify_whole_at(sizes, k);
        return DT_OK;
    }
    if (parts != c->n_out) return dt__verify_refuse(c, "num_outputs is not their number");
    const int64_t equal = dt__ceil_div(n, parts);
    *out = dt__min_i64(equal, dt__max_i64(0, n - k * equal));
    return DT_OK;
}

static dt_status split(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    int axis;
    int64_t start = 0;
    selection s;
    DT__TRY(dt__verify_axis(c, dt__onnx_int_of(c->node, "axis", 0), x->rank, &axis));
    DT__TRY(select_all(c, x, &s));
    for (int64_t k = 0; k < c->n_out; k++) {
        int64_t n = 0;
        DT__TRY(part_size(c, x->dims[axis], k, &n));
        if (n < 0 || n > x->dims[axis] - start) {
            return dt__verify_refuse(c, "the parts do not fit %lld elements",
                                     (long long)x->dims[axis]);
        }
        if (c->out[k] != NULL) {
            DT__TRY(select_some(c, &s, axis, n));
            for (int64_t i = 0; i < n; i++) s.table[axis][i] = start + i;
            DT__TRY(make(c, k, x, &s));
        }
        start += n;
    }
    if (start == x->dims[axis]) return DT_OK;
    return dt__verify_refuse(c, "the parts have %lld of %lld elements", (long long)start,
                             (long long)x->dims[axis]);
}

/* ---- Pad, Tile ------------------------------------------------------------------------------- */

enum { CONSTANT, REFLECT, EDGE, WRAP };

/* The index in 0...n-1 for position i, which may be outside; -1: the constant. */
static int64_t padded(int64_t i, int64_t n, int mode)
{
    if (i >= 0 && i < n) return i;
    if (mode == CONSTANT) return -1;
    if (mode == EDGE) return i < 0 ? 0 : n - 1;
    const int64_t period = mode == WRAP ? n : dt__max_i64(2 * n - 2, 1);
    const int64_t at = (i % period + period) % period;
    return at < n ? at : period - at;
}

static dt_status pad(dt__verify_call *c)
{
    static const char *const modes[] = { "constant", "reflect", "edge", "wrap", NULL };
    const dt__verify_value *x = c->in[0], *value = dt__verify_in(c, 2);
    dt__verify_list pads, axes;
    selection s;
    bool seen[DT_MAX_RANK];
    int mode;
    DT__TRY(dt__verify_choice(c, "mode", modes, &mode));
    DT__TRY(dt__verify_input_list(c, 1, &pads));
    DT__TRY(dt__verify_input_list(c, 3, &axes));
    if (axes.n < 0) {
        axes.n = x->rank;
        for (int i = 0; i < axes.n; i++) axes.v[i] = i;
    }
    DT__TRY(dt__verify_axes(c, &axes, x->rank, seen));
    if (pads.n != 2 * axes.n)
        return dt__verify_refuse(c, "%d pads for %d axes; expected two for each", pads.n, axes.n);
    if (value != NULL && (value->type != x->type || value->count != 1)) {
        return dt__verify_refuse(c, "its value is not one element of the operand's type");
    }
    DT__TRY(select_all(c, x, &s));
    s.outside = value == NULL ? NULL : value->data;
    for (int i = 0; i < axes.n; i++) {
        const int d = (int)(axes.v[i] < 0 ? axes.v[i] + x->rank : axes.v[i]);
        const int64_t n = x->dims[d], before = pads.v[i];
        int64_t to;
        if (__builtin_add_overflow(n, before, &to) ||
            __builtin_add_overflow(to, pads.v[axes.n + i], &to) || to < 0 || before < INT32_MIN ||
            before > INT32_MAX || (n == 0 && mode != CONSTANT && to > 0)) {
            return dt__verify_refuse(c, "pads that do not fit %lld elements", (long long)n);
        }
        DT__TRY(select_some(c, &s, d, to));
        for (int64_t k = 0; k < to; k++) s.table[d][k] = padded(k - before, n, mode);
    }
    return make(c, 0, x, &s);
}

static dt_status tile(dt__verify_call *c)
{
    const dt__verify_value *x = c->in[0];
    dt__verify_list times;
    selection s;
    DT__TRY(dt__verify_input_list(c, 1, &times));
    if (times.n != x->rank)
        return dt__verify_refuse(c, "%d repeats; expected one for each dimension", times.n);
    DT__TRY(select_all(c, x, &s));
    for (int d = 0; d < x->rank; d++) {
        int64_t n = 0;
        if (times.v[d] < 0 || __builtin_mul_overflow(times.v[d], x->dims[d], &n)) {
            return dt__verify_refuse(c, "%lld repeats; expected 0 or more", (long long)times.v[d]);
        }
        DT__TRY(select_some(c, &s, d, n));
        for (int64_t k = 0; k < n; k++) s.table[d][k] = k % x->dims[d];
    }
    return make(c, 0, x, &s);
}

/* ---- Resize, to the nearest element ---------------------------------------------------------- */

typedef struct resizing {
    int place, nearest; /* indices of the lists below */
} resizing;

static const char *const places[] = { "half_pixel", "asymmetric", "align_corners",
                                      "pytorch_half_pixel", NULL };
static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil",
                                         NULL };

/* The input index (of n) for output index i (of `to`). */
static int64_t nearest(const resizing *r, int64_t i, int64_t n, int64_t to, double scale)
{
    const double x = (double)i;
    double at = (x + 0.5) / scale - 0.5;
    if (r->place == 1) at = x / scale;
    if (r->place == 2) at = to == 1 ? 0 : x * (double)(n - 1) / (double)(to - 1);
    if (r->place == 3 && to == 1) at = 0;
    const double down = floor(at), up = ceil(at);
    if (r->nearest == 2) at = down;
    else if (r->nearest == 3) at = up;
    else if (at - down == 0.5) at = r->nearest == 0 ? down : up;
    else at = floor(at + 0.5);
    return (int64_t)fmax(0, fmin(at, (double)(n - 1)));
}

static dt_status resize_axis(dt__verify_call *c, const resizing *r, selection *s, int d, int i)
{
    const dt__verify_value *scales = dt__verify_in(c, 2), *sizes = dt__verify_in(c, 3);
    const int64_t n = s->dims[d];
    double scale, to;
    if (sizes != NULL && sizes->count > 0) {
        to = (double)dt__verify_whole_at(sizes, i);
        scale = to / (double)n;
    } else {
        scale = dt__verify_real_at(scales, i);
        to = floor((double)n * scale);
    }
    if (!(scale > 0 && to >= 0 && to < 0x1p31)) {
        return dt__verify_refuse(
            c, "a scale of %g; expected above 0, with fewer than 2^31 elements", scale);
    }
    DT__TRY(select_some(c, s, d, (int64_t)to));
    for (int64_t k = 0; k < (int64_t)to; k++) {
        s->table[d][k] = nearest(r, k, n, (int64_t)to, scale);
    }
    return DT_OK;
}

static dt_status resize(dt__verify_call *c)
{
    static const char *const modes[] = { "nearest", NULL }, *const policies[] = { "stretch", NULL };
    const dt__verify_value *x = c->in[0];
    const dt__verify_value *scales = dt__verify_in(c, 2), *sizes = dt__verify_in(c, 3);
    dt__verify_list axes;
    bool seen[DT_MAX_RANK];
    int unused;
    resizing r;
    selection s;
    DT__TRY(dt__verify_choice(c, "mode", modes, &unused));
    DT__TRY(dt__verify_choice(c, "keep_aspect_ratio_policy", policies, &unused));
    DT__TRY(dt__verify_choice(c, "coordinate_transformation_mode", places, &r.place));
    DT__TRY(dt__verify_choice(c, "nearest_mode", roundings, &r.nearest));
    DT__TRY(dt__verify_attribute_list(c, "axes", &axes));
    if (axes.n < 0) {
        axes.n = x->rank;
        for (int i = 0; i < axes.n; i++) axes.v[i] = i;
    }
    DT__TRY(dt__verify_axes(c, &axes, x->rank, seen));
    const bool by_size = sizes != NULL && sizes->count > 0;
    const dt__verify_value *given = by_size ? sizes : scales;
    if (given == NULL || given->count != axes.n ||
        given->type != (by_size ? DT__VERIFY_I64 : DT__VERIFY_F32)) {
        return dt__verify_refuse(c, "neither scales nor sizes fit its axes");
    }
    DT__TRY(select_all(c, x, &s));
    for (int i = 0; i < axes.n; i++) {
        const int d = (int)(axes.v[i] < 0 ? axes.v[i] + x->rank : axes.v[i]);
        DT__TRY(resize_axis(c, &r, &s, d, i));
    }
    return make(c, 0, x, &s);
}

#define RESIZE                                                                                     \
    "mode keep_aspect_ratio_policy coordinate_transformation_mode nearest_mode axes "              \
    "antialias cubic_coeff_a exclude_outside extrapolation_value "

const dt__verify_operator dt__verify_selections[] = {
    { "Slice", slice, 3, 5, 1, 1, DT__VERIFY_PLAIN, NULL, NULL, NULL, 0, 0 },
    { "Split", split, 1, 2, 0, 1, DT__VERIFY_PLAIN, "axis num_outputs ", NULL, NULL, 0, 0 },
    { "Pad", pad, 2, 4, 1, 1, DT__VERIFY_PLAIN, "mode ", NULL, NULL, 0, 0 },
    { "Tile", tile, 2, 2, 1, 1, DT__VERIFY_PLAIN, NULL, NULL, NULL, 0, 0 },
    { "Resize", resize, 1, 4, 1, 1, DT__VERIFY_PLAIN, RESIZE, NULL, NULL, 0, 0 },
    { .name = NULL },
};
