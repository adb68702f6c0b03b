/* Quantizes and dequantizes a whole tensor, row by row, by any scheme (formulas: scheme.h and
 * quantize_rows.c), and masks its gradient. A row is processed a few groups at a time, so that
 * values are still in the cache when codes are computed after the range. Threads share the rows; no
 * result depends on how they do. */
#include "kernels/kernels.h"
#include "qat/schemes/scheme.h"

#include <math.h>

#define GROUPS 64 /* groups of a row at a time: a multiple of 8, so that masks begin at a byte */
#define TOGETHER 4096 /* elements of rows that are processed together */

typedef struct job {
    const dt__kernels *kernels;
    dt__coding coding;
    const dt__cut *cut;
    const float *x;
    dt__quantized *out; /* codes NULL: only scales are computed, and values checked */
} job;

/* The first bad element or block, as its index, or NONE. */
#define NONE INT64_MAX
typedef struct outcome {
    int64_t bad_element, bad_block, clipped;
} outcome;

/* Some groups of a row. */
typedef struct part {
    int64_t row, group, start, n; /* first group and first column; number of columns */
    const float *x;
    int8_t *codes;
    uint8_t *mask;
    const float *inverse; /* 1 / scale of each group; NULL: it is computed from the scale */
} part;

static part part_of(const job *j, int64_t row, int64_t group)
{
    const dt__cut *c = j->cut;
    const int64_t start = group * c->group;
    part p = { .row = row, .group = group, .start = start };
    p.n = dt__min_i64(GROUPS * c->group, c->columns - start);
    p.x = j->x + row * c->columns + start;
    if (j->out->codes != NULL) p.codes = j->out->codes + row * j->out->ld + start;
    if (j->out->mask != NULL) p.mask = j->out->mask + row * dt__mask_bytes(c) + start / 8;
    return p;
}

static dt__code_row code_row(const dt__cut *c, const dt__quantized *out, const part *p)
{
    const int64_t at = c->whole ? 0 : p->row * c->groups + p->group;
    return (dt__code_row){ .n = p->n,
                           .group = c->group,
                           .scale = out->scale + at,
                           .zero = out->zero == NULL ? NULL : out->zero + at,
                           .inverse = p->inverse,
                           .bias = out->biased ? 128 : 0,
                           .real = out->real };
}

static int64_t encode(const job *j, const part *p)
{
    dt__code_row r = code_row(j->cut, j->out, p);
    r.qmin = j->coding.qmin;
    r.qmax = j->coding.qmax;
    r.half_up = p->inverse != NULL && j->coding.half_up;
    r.levels = j->coding.levels;
    return j->kernels->encode(&r, p->x, p->codes, p->mask);
}

/* Rows that one call processes. */
typedef struct rows {
    int64_t row, count;
} rows;

/* Computes codes by given scales. */
static outcome given_rows(const job *j, const rows *r)
{
    outcome o = { NONE, NONE, 0 };
    for (int64_t row = r->row; row < r->row + r->count && j->out->codes != NULL; row++) {
        for (int64_t group = 0; group < j->cut->groups; group += GROUPS) {
            const part p = part_of(j, row, group);
            o.clipped += encode(j, &p);
        }
    }
    return o;
}

/* The first block whose scale would not be finite; NONE if all are. */
static int64_t refused(const job *j, const dt__blocks *b)
{
    if (j->coding.choose(j->coding.spec, b)) return NONE;
    for (int64_t i = 0; i < b->n; i++) {
        const dt__blocks one = { 1,
                                 b->lo + i,
                                 b->hi + i,
                                 b->scale + i,
                                 b->inverse + i,
                                 b->zero == NULL ? NULL : b->zero + i,
                                 b->global };
        if (!j->coding.choose(j->coding.spec, &one)) return i;
    }
    return NONE;
}

/* Computes the scales of n blocks, from block `first` on, from their ranges. */
static void choose(const job *j, int64_t first, int64_t n, const float *range, float *inverse,
                   outcome *o)
{
    const dt__blocks b = { n,
                           range,
                           range + GROUPS,
                           j->out->scale + first,
                           inverse,
                           j->out->zero == NULL ? NULL : j->out->zero + first,
                           j->coding.global };
    const int64_t block = refused(j, &b);
    if (block != NONE) o->bad_block = dt__min_i64(o->bad_block, first + block);
}

/* Writes lo of each group of a part to range[i] and hi to range[GROUPS + i]; false where an element
 * is not finite. */
static bool find_range(const job *j, const part *p, float *range, outcome *o)
{
    const dt__cut *c = j->cut;
    const int64_t bad = j->kernels->range(p->n, c->group, p->x, range, range + GROUPS);
    if (bad >= 0) {
        o->bad_element = p->row * c->columns + p->start + bad;
        return false;
    }
    dt__refine_range(&j->coding, p->n, c->group, p->x, range, range + GROUPS);
    return true;
}

/* Computes codes by given scales, and checks the values. */
static outcome checked_rows(const job *j, const rows *r)
{
    float range[2 * GROUPS];
    outcome o = { NONE, NONE, 0 };
    for (int64_t row = r->row; row < r->row + r->count; row++) {
        for (int64_t group = 0; group < j->cut->groups; group += GROUPS) {
            const part p = part_of(j, row, group);
            if (!find_range(j, &p, range, &o)) return o;
            o.clipped += encode(j, &p);
        }
    }
    return o;
}

static void encode_own(const job *j, part *p, const float *inverse, outcome *o)
{
    p->inverse = inverse;
    if (o->bad_block == NONE && p->codes != NULL) o->clipped += encode(j, p);
}

/* Computes scales by the scheme, then codes, of one row's groups. */
static outcome own_groups(const job *j, const rows *r)
{
    float range[2 * GROUPS], inverse[GROUPS];
    const dt__cut *c = j->cut;
    outcome o = { NONE, NONE, 0 };
    for (int64_t group = 0; group < c->groups; group += GROUPS) {
        part p = part_of(j, r->row, group);
        if (!find_range(j, &p, range, &o)) break;
        choose(j, r->row * c->groups + group, dt__ceil_div(p.n, c->group), range, inverse, &o);
        encode_own(j, &p, inverse, &o);
    }
    return o;
}

/* Does so for at most GROUPS rows of one group each, which fit into the cache together. */
static outcome own_rows(const job *j, const rows *r)
{
    float range[2 * GROUPS], inverse[GROUPS];
    outcome o = { NONE, NONE, 0 };
    for (int64_t i = 0; i < r->count; i++) {
        const part p = part_of(j, r->row + i, 0);
        if (!find_range(j, &p, range + i, &o)) return o;
    }
    choose(j, r->row, r->count, range, inverse, &o);
    for (int64_t i = 0; i < r->count; i++) {
        part p = part_of(j, r->row + i, 0);
        encode_own(j, &p, inverse + i, &o);
    }
    return o;
}

typedef outcome each_rows(const job *j, const rows *r);

typedef struct over_args {
    const job *j;
    each_rows *each;
    int64_t step; /* rows of an item */
    _Atomic int64_t *bad_element, *bad_block, *clipped;
} over_args;

DT__LOOP(over_share, over_args, of, item)
{
    const int64_t row = item * of->step;
    const rows r = { row, dt__min_i64(of->step, of->j->cut->rows - row) };
    const outcome o = of->each(of->j, &r);
    dt__lower(of->bad_element, o.bad_element);
    dt__lower(of->bad_block, o.bad_block);
    if (o.clipped > 0) atomic_fetch_add(of->clipped, o.clipped);
}

static outcome over_rows(const job *j, each_rows *each)
{
    const int64_t n = j->cut->rows, most = each == own_groups ? 1 : GROUPS;
    const int64_t fit = TOGETHER / dt__max_i64(j->cut->columns, 1);
    const int64_t step = dt__max_i64(1, dt__min_i64(fit, most));
    _Atomic int64_t bad_element = NONE, bad_block = NONE, clipped = 0;
    dt__parallel(dt__ceil_div(n, step), step * j->cut->columns, over_share,
                 &(over_args){ j, each, step, &bad_element, &bad_block, &clipped });
    return (outcome){ bad_element, bad_block, clipped };
}

/* ---- errors --------------------------------------------------------------------------------- */

static dt_status report_element(dt_ctx *ctx, const char *name, int64_t element, float value)
{
    return dt_fail(
        ctx, DT_ERR_NUMERIC, "quantize %s: element %lld is %s; only finite values can be quantized",
        name == NULL ? "a tensor" : name, (long long)element, isnan(value) ? "NaN" : "infinite");
}

static dt_status report(dt_ctx *ctx, const job *j, const outcome *o, const char *name)
{
    if (o->bad_element != NONE) {
        return report_element(ctx, name, o->bad_element, j->x[o->bad_element]);
    }
    if (o->bad_block != NONE) {
        const int64_t groups = j->cut->whole ? 1 : j->cut->groups;
        return dt_fail(
            ctx, DT_ERR_NUMERIC,
            "quantize %s: the values of row %lld, group %lld are too large: their scale, "
            "or a dequantized value, is not finite",
            name == NULL ? "a tensor" : name, (long long)(o->bad_block / groups),
            (long long)(o->bad_block % groups));
    }
    j->out->clipped = o->clipped;
    j->out->real = j->coding.levels == NULL ? NULL : j->coding.levels->real;
    return DT_OK;
}

/* ---- ranges --------------------------------------------------------------------------------- */

/* *x = min(*x, v). */
static void lower_to(_Atomic float *x, float v)
{
    float old = atomic_load(x);
    while (v < old && !atomic_compare_exchange_weak(x, &old, v)) {
    }
}

typedef struct range_args {
    const dt__kernels *kernels;
    const dt__cut *c;
    const float *x;
    _Atomic float *least, *less; /* the minimum, and minus the maximum */
    _Atomic int64_t *bad;
} range_args;

static void range_share(const void *args, const dt__share *share)
{
    const range_args *of = args;
    const int64_t n = of->c->columns;
    for (int64_t row = share->first; row < share->past; row++) {
        float low = 0, high = 0;
        const int64_t at = of->kernels->range(n, of->c->group, of->x + row * n, &low, &high);
        if (at >= 0) {
            dt__lower(of->bad, row * n + at);
            continue;
        }
        lower_to(of->least, low);
        lower_to(of->less, -high);
    }
}

/* Computes the range of all values; returns the first element that is not finite, or NONE. */
static int64_t whole_range(const dt__kernels *kernels, const dt__cut *c, const float *x, float *lo,
                           float *hi)
{
    _Atomic float least = 0, less = 0;
    _Atomic int64_t bad = NONE;
    dt__parallel(c->rows, c->columns, range_share,
                 &(range_args){ kernels, c, x, &least, &less, &bad });
    *lo = atomic_load(&least);
    *hi = 0 - atomic_load(&less);
    return atomic_load(&bad);
}

int64_t dt__range_of(dt_ctx *ctx, const dt__cut *cut, const float *x, float *lo, float *hi)
{
    dt__cut whole = *cut; /* each row as one group */
    whole.group = dt__max_i64(1, cut->columns);
    whole.groups = 1;
    dt__team *const threads = dt__threads_enter(ctx);
    const int64_t bad = whole_range(dt__kernels_of(ctx, DT_F32), &whole, x, lo, hi);
    dt__threads_leave(threads);
    return bad == NONE ? -1 : bad;
}

/* ---- the whole tensor ----------------------------------------------------------------------- */

static job job_of(dt_ctx *ctx, const dt_quant_spec *q, const dt__cut *cut, const float *x,
                  dt__quantized *out)
{
    job j = { dt__kernels_of(ctx, DT_F32), dt__coding_of(q), cut, x, out };
    if (out->global > 0) j.coding.global = out->global;
    return j;
}

/* One scale for the tensor: computes the range of all rows, then codes. */
static outcome quantize_whole(const job *j)
{
    float lo, hi, inverse;
    outcome o = { NONE, NONE, 0 };
    o.bad_element = whole_range(j->kernels, j->cut, j->x, &lo, &hi);
    if (o.bad_element != NONE) return o;
    const int64_t n = j->cut->rows * j->cut->columns;
    dt__refine_range(&j->coding, n, dt__max_i64(1, n), j->x, &lo, &hi);
    const dt__blocks b = { 1, &lo, &hi, j->out->scale, &inverse, j->out->zero, 0 };
    if (refused(j, &b) != NONE) {
        o.bad_block = 0;
        return o;
    }
    return over_rows(j, given_rows);
}

static outcome quantize_blocks(const job *j)
{
    return over_rows(j, j->cut->groups == 1 ? own_rows : own_groups);
}

/* Scales that depend on all blocks of a tensor: computes the scale of each block alone, adjusts all
 * of them, then computes codes. */
static outcome quantize_settled(const job *j, const dt__scheme *scheme)
{
    const int64_t experts = dt__max_i64(1, j->cut->experts), n = dt__cut_blocks(j->cut) / experts;
    dt__quantized scales = { .scale = j->out->scale, .zero = j->out->zero };
    job alone = *j;
    alone.out = &scales;
    const outcome o = quantize_blocks(&alone);
    if (o.bad_element != NONE || o.bad_block != NONE) return o;
    for (int64_t i = 0; i < experts; i++) scheme->settle(n, scales.scale + i * n);
    return over_rows(j, given_rows);
}

dt_status dt__quantize(dt_ctx *ctx, const dt_quant_spec *q, const dt__cut *cut, const float *x,
                       dt__quantized *out, const char *name)
{
    const job j = job_of(ctx, q, cut, x, out);
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    dt__team *const threads = dt__threads_enter(ctx);
    const bool settles = scheme->settle != NULL && j.coding.global == 0;
    const outcome o = cut->whole ? quantize_whole(&j)
                      : settles  ? quantize_settled(&j, scheme)
                                 : quantize_blocks(&j);
    dt__threads_leave(threads);
    return report(ctx, &j, &o, name);
}

dt_status dt__quantize_given(dt_ctx *ctx, const dt_quant_spec *q, const dt__cut *cut,
                             const float *x, dt__quantized *out, const char *name)
{
    const job j = job_of(ctx, q, cut, x, out);
    dt__team *const threads = dt__threads_enter(ctx);
    const outcome o = over_rows(&j, checked_rows);
    dt__threads_leave(threads);
    return report(ctx, &j, &o, name);
}

bool dt__one_pass(const dt_quant_spec *q)
{
    const dt__scheme *scheme = dt__scheme_of(q->scheme);
    return q->granularity != DT_PER_TENSOR && !scheme->has_zero && scheme->settle == NULL;
}

typedef struct panels_args {
    const dt__kernels *kernels;
    const dt__panel_source *s;
    _Atomic int64_t *clipped;
    atomic_bool *bad;
} panels_args;

DT__LOOP(panels_share, panels_args, of, panel)
{
    const int64_t outside = of->kernels->quantize_panel(of->s, panel);
    if (outside > 0) atomic_fetch_add(of->clipped, outside);
    else if (outside < 0) atomic_store(of->bad, true);
}

int64_t dt__quantize_panels(dt_ctx *ctx, const dt__panel_source *s)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    const dt__panel_layout *l = s->layout;
    _Atomic int64_t clipped = 0;
    atomic_bool bad = false;
    const panels_args args = { kernels, s, &clipped, &bad };
    dt__team *const threads = dt__threads_enter(ctx);
    dt__parallel(l->panels, DT__LANES * l->columns, panels_share, &args);
    dt__threads_leave(threads);
    return atomic_load(&bad) ? -1 : atomic_load(&clipped);
}

DT__EACH(dequantize, row, const dt__cut *c; const dt__quantized *in; float *y;
         const dt__kernels *kernels;)
{
    const part p = { .row = row, .n = a.c->columns };
    const dt__code_row r = code_row(a.c, a.in, &p);
    a.kernels->decode(&r, a.in->codes + row * a.in->ld, a.y + row * a.c->columns);
}

void dt__dequantize(dt_ctx *ctx, const dt__cut *c, const dt__quantized *in, float *y)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    dt__team *const threads = dt__threads_enter(ctx);
    dt__parallel(c->rows, c->columns, dequantize_share, &(dequantize_args){ c, in, y, kernels });
    dt__threads_leave(threads);
}

DT__EACH(pass_gradient, row, const dt__cut *c; const uint8_t *mask; const float *dy; float *dx;
         const dt__kernels *kernels;)
{
    const int64_t at = row * a.c->columns;
    a.kernels->pass(a.c->columns, a.mask + row * dt__mask_bytes(a.c), a.dy + at, a.dx + at);
}

void dt__pass_gradient(dt_ctx *ctx, const dt__cut *c, const uint8_t *mask, const float *dy,
                       float *dx)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    dt__team *const threads = dt__threads_enter(ctx);
    dt__parallel(c->rows, c->columns, pass_gradient_share,
                 &(pass_gradient_args){ c, mask, dy, dx, kernels });
    dt__threads_leave(threads);
}
