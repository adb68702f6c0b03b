/* Quantize, image and gradient of a whole tensor, row by row, by any rule (formulas: scheme.h and
 * kernels/codes.c). A row is taken a few groups at a time, so that its values are in cache when
 * codes follow the range. Rows are shared among threads; no result depends on how. */
#include "kernels/kernels.h"
#include "qat/scheme.h"

#include <math.h>
#include <string.h>

#define GROUPS 64 /* of a row at a time: a multiple of 8, so that masks begin at a byte */

typedef struct job {
    const dt__kernels *kernels;
    const dt_quant *q;
    const dt__scheme *scheme;
    const dt__cut *cut;
    const float *x;
    dt__quantized *out;
} job;

/* Whether threads are worth their start. */
static bool is_shared(const dt__cut *c) { return c->rows > 1 && c->rows * c->columns > DT__CHUNK; }

/* What went wrong first, as an index of an element or of a block; NONE. */
#define NONE INT64_MAX
typedef struct outcome {
    int64_t bad_element, bad_block, clipped;
} outcome;

/* Some groups of a row. */
typedef struct part {
    int64_t row, group, start, n; /* first group, first column, columns */
    const float *x;
    int8_t *codes;
    uint8_t *mask;
    const float *lo, *hi; /* of each group */
} part;

static part part_of(const job *j, int64_t row, int64_t group)
{
    const dt__cut *c = j->cut;
    const int64_t start = group * c->group;
    part p = { .row = row, .group = group, .start = start };
    p.n = dt__min_i64(GROUPS * c->group, c->columns - start);
    p.x = j->x + row * c->columns + start;
    p.codes = j->out->codes + row * j->out->ld + start;
    if (j->out->mask != NULL) p.mask = j->out->mask + row * dt__mask_bytes(c) + start / 8;
    return p;
}

static dt__code_row code_row(const dt_quant *q, const dt__cut *c, const dt__quantized *out,
                             const part *p)
{
    const int64_t at = c->whole ? 0 : p->row * c->groups + p->group;
    return (dt__code_row){ .n = p->n,
                           .group = c->group,
                           .scale = out->scale + at,
                           .zero = out->zero == NULL ? NULL : out->zero + at,
                           .qmin = q == NULL ? 0 : dt__qmin(q),
                           .qmax = q == NULL ? 0 : dt__qmax(q),
                           .bias = out->biased ? 128 : 0 };
}

static bool set_scale(const job *j, int64_t block, float lo, float hi)
{
    int zero = 0;
    const bool ok = dt__choose_scale(j->q, lo, hi, &j->out->scale[block], &zero);
    if (j->out->zero != NULL) j->out->zero[block] = (int8_t)zero;
    return ok;
}

/* Codes by scales that stand. */
static void given_part(const job *j, const part *p, outcome *o)
{
    const dt__code_row r = code_row(j->q, j->cut, j->out, p);
    o->clipped += j->kernels->encode(&r, p->x, p->codes, p->mask);
}

/* Scales by a rule that has a formula over lo and hi; then codes by the common one. */
static void common_part(const job *j, const part *p, outcome *o)
{
    const int64_t groups = dt__ceil_div(p->n, j->cut->group);
    const int64_t first = p->row * j->cut->groups + p->group;
    for (int64_t g = 0; g < groups; g++) {
        if (set_scale(j, first + g, p->lo[g], p->hi[g])) continue;
        o->bad_block = dt__min_i64(o->bad_block, first + g);
    }
    if (o->bad_block == NONE) given_part(j, p, o);
}

static int count_bits(uint32_t bits)
{
    int n = 0;
    for (; bits != 0; bits &= bits - 1) n++;
    return n;
}

/* Scales and codes by a rule with a function of its own. */
static void block_part(const job *j, const part *p, outcome *o)
{
    const dt__cut *c = j->cut;
    if (p->mask != NULL) memset(p->mask, 0xff, (size_t)dt__ceil_div(p->n, 8));
    int64_t block = p->row * c->groups + p->group;
    for (int64_t k = 0; k < p->n; k += c->group, block++) {
        const int n = (int)dt__min_i64(c->group, p->n - k);
        const uint32_t clipped = j->scheme->block(n, p->x + k, j->out->scale + block, p->codes + k);
        if (!isfinite(j->out->scale[block])) o->bad_block = dt__min_i64(o->bad_block, block);
        o->clipped += count_bits(clipped);
        for (int i = 0; p->mask != NULL && i < n; i++) {
            uint8_t *byte = &p->mask[(k + i) / 8];
            if ((clipped >> i & 1) != 0) *byte = (uint8_t)(*byte & ~(1u << ((k + i) % 8)));
        }
        if (j->out->zero != NULL) j->out->zero[block] = 0;
    }
}

typedef void each_part(const job *j, const part *p, outcome *o);

static outcome over_row(const job *j, int64_t row, each_part *each)
{
    float lo[GROUPS], hi[GROUPS];
    const dt__cut *c = j->cut;
    outcome o = { NONE, NONE, 0 };
    for (int64_t group = 0; group < c->groups; group += GROUPS) {
        part p = part_of(j, row, group);
        p.lo = lo;
        p.hi = hi;
        const int64_t bad = j->kernels->range(p.n, c->group, p.x, lo, hi);
        if (bad >= 0) {
            o.bad_element = row * c->columns + p.start + bad;
            break;
        }
        each(j, &p, &o);
    }
    return o;
}

static outcome over_rows(const job *j, each_part *each)
{
    const int64_t rows = j->cut->rows;
    const bool shared = is_shared(j->cut);
    int64_t bad_element = NONE, bad_block = NONE, clipped = 0;
#pragma omp parallel for reduction(min : bad_element, bad_block) reduction(+ : clipped) if (shared)
    for (int64_t row = 0; row < rows; row++) {
        const outcome o = over_row(j, row, each);
        bad_element = dt__min_i64(bad_element, o.bad_element);
        bad_block = dt__min_i64(bad_block, o.bad_block);
        clipped += o.clipped;
    }
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
            "or a code's image, is not finite",
            name == NULL ? "a tensor" : name, (long long)(o->bad_block / groups),
            (long long)(o->bad_block % groups));
    }
    j->out->clipped = o->clipped;
    return DT_OK;
}

/* ---- ranges --------------------------------------------------------------------------------- */

/* One range of everything; returns the first element that is not finite, or NONE. */
static int64_t whole_range(const dt__kernels *kernels, const dt__cut *c, const float *x, float *lo,
                           float *hi)
{
    float least = 0, most = 0;
    int64_t bad = NONE;
    const bool shared = is_shared(c);
#pragma omp parallel for reduction(min : least, bad) reduction(max : most) if (shared)
    for (int64_t row = 0; row < c->rows; row++) {
        float low = 0, high = 0;
        const int64_t at = kernels->range(c->columns, c->group, x + row * c->columns, &low, &high);
        if (at >= 0) {
            bad = dt__min_i64(bad, row * c->columns + at);
            continue;
        }
        least = low < least ? low : least;
        most = high > most ? high : most;
    }
    *lo = least;
    *hi = most;
    return bad;
}

/* ---- the whole tensor ----------------------------------------------------------------------- */

static job job_of(dt_ctx *ctx, const dt_quant *q, const dt__cut *cut, const float *x,
                  dt__quantized *out)
{
    return (job){ dt__kernels_of(ctx, DT_F32), q, dt__scheme_of(q->rule), cut, x, out };
}

/* One scale for everything: the range of all rows first. */
static outcome quantize_whole(const job *j)
{
    float lo, hi;
    outcome o = { NONE, NONE, 0 };
    o.bad_element = whole_range(j->kernels, j->cut, j->x, &lo, &hi);
    if (o.bad_element != NONE) return o;
    if (!set_scale(j, 0, lo, hi)) {
        o.bad_block = 0;
        return o;
    }
    return over_rows(j, given_part);
}

dt_status dt__quantize(dt_ctx *ctx, const dt_quant *q, const dt__cut *cut, const float *x,
                       dt__quantized *out, const char *name)
{
    const job j = job_of(ctx, q, cut, x, out);
    const int threads = dt__threads_enter(ctx);
    const outcome o = cut->whole
                          ? quantize_whole(&j)
                          : over_rows(&j, j.scheme->block != NULL ? block_part : common_part);
    dt__threads_leave(threads);
    return report(ctx, &j, &o, name);
}

dt_status dt__quantize_given(dt_ctx *ctx, const dt_quant *q, const dt__cut *cut, const float *x,
                             dt__quantized *out, const char *name)
{
    const job j = job_of(ctx, q, cut, x, out);
    const int threads = dt__threads_enter(ctx);
    const outcome o = over_rows(&j, given_part);
    dt__threads_leave(threads);
    return report(ctx, &j, &o, name);
}

void dt__dequantize(dt_ctx *ctx, const dt__cut *c, const dt__quantized *in, float *y)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    const int threads = dt__threads_enter(ctx);
    const bool shared = is_shared(c);
#pragma omp parallel for if (shared)
    for (int64_t row = 0; row < c->rows; row++) {
        const part p = { .row = row, .n = c->columns };
        const dt__code_row r = code_row(NULL, c, in, &p);
        kernels->decode(&r, in->codes + row * in->ld, y + row * c->columns);
    }
    dt__threads_leave(threads);
}

void dt__pass_gradient(dt_ctx *ctx, const dt__cut *c, const uint8_t *mask, const float *dy,
                       float *dx)
{
    const dt__kernels *kernels = dt__kernels_of(ctx, DT_F32);
    const int threads = dt__threads_enter(ctx);
    const bool shared = is_shared(c);
#pragma omp parallel for if (shared)
    for (int64_t row = 0; row < c->rows; row++) {
        const int64_t at = row * c->columns;
        kernels->pass(c->columns, mask + row * dt__mask_bytes(c), dy + at, dx + at);
    }
    dt__threads_leave(threads);
}
