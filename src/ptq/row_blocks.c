/* Rounds a matrix in blocks of rows on threads; in a cluster each rank rounds some of the blocks. A
 * block is rounded to nearest, for comparison, and by the rounder. A row whose error is smaller
 * with nearest gets nearest's codes and scales. The results of the blocks are added up in their
 * order. */
#include "core/ranks.h"
#include "core/clock.h"
#include "core/threads.h"
#include "ptq/bounds.h"
#include "ptq/error.h"
#include "ptq/layer.h"

#include <string.h>

#define LINE 16        /* floats in a cache line */
#define LEAST 16       /* rows of a block */
#define ROUNDING 1e-10 /* relative rounding error of the error sums */

/* Saved scales of a block's rows. */
typedef struct saved_scales {
    float *scale, *inverse;
    int8_t *zero;
} saved_scales;

/* The buffers of one thread. */
typedef struct slot {
    double *work;
    void *scratch;
    int64_t *tile_sums; /* for bounds: [tiles][rows] positive sums, then negative ones */
    int8_t *codes;      /* [columns][rows], as the next two */
    int8_t *plain;      /* W rounded to nearest */
    int8_t *nearest; /* the rounder's input, rounded to nearest within its bounds; may be `plain` */
    dt__error_metric metric;
    saved_scales saved;
} slot;

/* The result of a block of rows. */
typedef struct outcome {
    double loss, error, nearest_error;
    int64_t changed, kept_nearest;
    bool bad;
    double seconds, compare_seconds;
} outcome;

typedef struct row_blocks {
    const dt__matrix *m;
    const dt__rounder *rounder;
    bool compares;    /* there are statistics: errors are measured */
    bool has_changed; /* the rounder's input differs from W, or codes are bounded */
    bool all;         /* dead columns are rounded from W: the rounder reads no data */
    bool sees_float_inputs, keeps_better, refreshes;
    bool has_diffused;     /* the sums of e^2 give the error of the codes */
    int64_t rows;          /* of a block of rows */
    dt__cluster *cluster;  /* NULL: this process rounds all blocks */
    int64_t first, blocks; /* this rank's first block; number of blocks of all ranks */
    int8_t *codes;         /* [rows][columns] of this matrix */
    slot *slots;           /* [threads] */
    outcome *outcomes;
} row_blocks;

/* ---- memory --------------------------------------------------------------------------------- */

static void free_slot(dt_ctx *ctx, slot *own)
{
    DT__RELEASE(ctx, own->work, own->scratch, own->tile_sums, own->codes);
    if (own->nearest != own->plain) dt__release(ctx, own->nearest);
    dt__release(ctx, own->plain);
    dt__error_metric_free(ctx, &own->metric);
    DT__RELEASE(ctx, own->saved.scale, own->saved.inverse, own->saved.zero);
}

static bool make_saved(const dt__matrix *m, int64_t rows, saved_scales *k)
{
    const int64_t scales = rows * m->grid.groups;
    k->scale = dt__alloc_array(m->ctx, scales, sizeof *k->scale);
    k->inverse = dt__alloc_array(m->ctx, scales, sizeof *k->inverse);
    if (m->grid.zero != NULL) k->zero = dt__alloc_array(m->ctx, scales, 1);
    return k->scale != NULL && k->inverse != NULL && (k->zero != NULL || m->grid.zero == NULL);
}

/* The number of tile sums of each sign of a block of rows. */
static int64_t tile_sums_of(const dt__matrix *m, int64_t rows)
{
    return m->bounds == NULL ? 0 : m->bounds->tiles.count * rows;
}

static dt_status make_slot(const row_blocks *p, slot *own)
{
    const dt__matrix *m = p->m;
    const size_t rows = (size_t)p->rows;
    const size_t scratch = p->rounder->scratch == NULL ? 0 : p->rounder->scratch(m, p->rows);
    own->work = dt__alloc_array(m->ctx, m->columns, rows * sizeof(double));
    own->scratch = dt__alloc(m->ctx, scratch);
    own->tile_sums = dt__alloc_array(m->ctx, 2 * tile_sums_of(m, p->rows), sizeof *own->tile_sums);
    own->codes = dt__alloc_array(m->ctx, m->columns, rows);
    if (own->work == NULL || own->scratch == NULL || own->tile_sums == NULL || own->codes == NULL) {
        return DT_ERR_NOMEM;
    }
    if (!p->compares) return DT_OK;
    own->plain = own->nearest = dt__alloc_array(m->ctx, m->columns, rows);
    if (own->plain == NULL) return DT_ERR_NOMEM;
    if (p->has_changed) own->nearest = dt__alloc_array(m->ctx, m->columns, rows);
    if (own->nearest == NULL) return DT_ERR_NOMEM;
    if (p->refreshes && !make_saved(m, p->rows, &own->saved)) return DT_ERR_NOMEM;
    return dt__error_metric_create(m, p->rows, p->sees_float_inputs, &own->metric);
}

static void free_room(row_blocks *p)
{
    for (int i = 0; p->slots != NULL && i < p->m->ctx->threads; i++) {
        free_slot(p->m->ctx, &p->slots[i]);
    }
    DT__RELEASE(p->m->ctx, p->slots, p->outcomes);
}

static dt_status make_room(row_blocks *p)
{
    dt_ctx *ctx = p->m->ctx;
    const int64_t n = dt__ceil_div(p->m->rows, p->rows);
    p->slots = dt__alloc_zero(ctx, (size_t)ctx->threads * sizeof *p->slots);
    p->outcomes = dt__alloc_array(ctx, n, sizeof *p->outcomes);
    if (p->slots == NULL || p->outcomes == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < ctx->threads; i++) DT__TRY(make_slot(p, &p->slots[i]));
    return DT_OK;
}

/* ---- a block of rows ------------------------------------------------------------------------- */

/* Transposes rows of W, which are far apart in memory, one cache line at a time. */
void dt__take_weight(const dt__row_block *s, const int32_t *order, bool all)
{
    const dt__matrix *m = s->m;
    for (int64_t from = 0; from < m->columns; from += LINE) {
        const int64_t to = dt__min_i64(from + LINE, m->columns);
        for (int64_t r = 0; r < s->rows; r++) {
            const float *w = m->weight + (s->row + r) * m->columns;
            for (int64_t j = from; j < to; j++) {
                const int64_t column = order == NULL ? j : order[j];
                const bool none = !all && m->dead[column];
                s->work[j * s->rows + r] = none ? 0 : (double)w[column];
            }
        }
    }
}

/* Transposes the block's codes [columns][rows] into codes [rows][columns]. */
static void copy_codes(const dt__row_block *s, int8_t *codes)
{
    const int64_t columns = s->m->columns;
    for (int64_t from = 0; from < columns; from += DT__ALIGNMENT) {
        const int64_t to = dt__min_i64(from + DT__ALIGNMENT, columns);
        for (int64_t r = 0; r < s->rows; r++) {
            int8_t *row = codes + r * columns;
            for (int64_t c = from; c < to; c++) row[c] = s->codes[c * s->rows + r];
        }
    }
}

/* Sets up a block of rows for a rounder. */
static void begin(dt__row_block *s, const slot *own, bool all)
{
    const int64_t sums = tile_sums_of(s->m, s->rows);
    s->positive = own->tile_sums;
    s->negative = own->tile_sums + sums;
    memset(own->tile_sums, 0, 2 * (size_t)sums * sizeof *own->tile_sums);
    s->group = -1;
    dt__take_weight(s, s->m->order, all);
}

static void save_scales(const dt__row_block *s, const saved_scales *k)
{
    const dt__code_grid *g = &s->m->grid;
    const int64_t at = s->row * g->groups, n = s->rows * g->groups;
    memcpy(k->scale, g->scale + at, (size_t)n * sizeof *k->scale);
    memcpy(k->inverse, g->inverse + at, (size_t)n * sizeof *k->inverse);
    if (k->zero != NULL) memcpy(k->zero, g->zero + at, (size_t)n);
}

/* Resets row r to nearest's codes and the scales saved with them. */
static void keep_nearest(const row_blocks *p, const dt__row_block *s, const slot *own, int64_t r)
{
    const dt__code_grid *g = &s->m->grid;
    const int64_t at = (s->row + r) * g->groups, n = g->groups, columns = s->m->columns;
    for (int64_t c = 0; c < columns; c++) {
        s->codes[c * s->rows + r] = own->nearest[c * s->rows + r];
    }
    if (!p->refreshes) return;
    memcpy(g->scale + at, own->saved.scale + r * n, (size_t)n * sizeof *g->scale);
    if (g->zero != NULL) memcpy(g->zero + at, own->saved.zero + r * n, (size_t)n);
}

/* Rounds W, and the rounder's input, to nearest; measures the error of the latter. */
static void compare_with(const row_blocks *p, dt__row_block *s, slot *own, dt__distance *nearest)
{
    dt__matrix plain = *p->m;
    dt__row_block t = *s;
    plain.bounds = NULL;
    t.m = &plain;
    t.codes = own->plain;
    begin(&t, own, true);
    dt__round_nearest.round(&t);
    if (p->has_changed) {
        t = *s;
        t.codes = own->nearest;
        begin(&t, own, p->all);
        dt__round_nearest.round(&t);
    }
    s->group = -1;
    dt__error_metric_begin(s, &own->metric);
    dt__error_metric_measure(s, own->nearest, p->sees_float_inputs, &own->metric, nearest);
    if (p->refreshes) save_scales(s, &own->saved);
}

static void select_better_rows(const row_blocks *p, dt__row_block *s, slot *own,
                               const dt__distance *nearest, outcome *out)
{
    const int64_t columns = p->m->columns;
    dt__distance now;
    s->group = -1; /* empties the cache: scales may have been refreshed */
    if (!p->has_diffused || !dt__error_metric_sum(s, s->codes, &now)) {
        dt__error_metric_measure(s, s->codes, p->sees_float_inputs, &own->metric, &now);
    }
    for (int64_t r = 0; r < s->rows; r++) {
        out->nearest_error += nearest->error[r];
        if (p->keeps_better && !(now.own[r] <= (1 + ROUNDING) * nearest->own[r])) {
            keep_nearest(p, s, own, r);
            out->kept_nearest++;
            now.error[r] = nearest->error[r];
        }
        out->error += now.error[r];
    }
    for (int64_t i = 0; i < s->rows * columns; i++) out->changed += s->codes[i] != own->plain[i];
}

static outcome run_block(const row_blocks *p, int64_t row, slot *own)
{
    const dt__matrix *m = p->m;
    const double start = dt__seconds();
    dt__distance nearest;
    outcome out = { .loss = 0 };
    dt__row_block s = { .m = m, .row = row, .rows = dt__min_i64(p->rows, m->rows - row) };
    s.codes = own->codes;
    s.work = own->work;
    s.scratch = own->scratch;
    if (p->compares) compare_with(p, &s, own, &nearest);
    s.target = own->metric.target;
    const double compared = dt__seconds();
    begin(&s, own, p->all);
    p->rounder->round(&s);
    const double rounded = dt__seconds();
    for (int64_t r = 0; r < s.rows; r++) out.loss += s.square[r] / 2;
    out.bad = s.bad;
    if (p->compares && !s.bad) select_better_rows(p, &s, own, &nearest, &out);
    copy_codes(&s, p->codes + row * m->columns);
    out.seconds = dt__seconds() - start;
    out.compare_seconds = out.seconds - (rounded - compared);
    return out;
}

/* ---- a matrix ------------------------------------------------------------------------------- */

/* `seconds`: wall time of all blocks, of which comparing with nearest gets its share. */
static dt_status add_up(dt__layer *l, const row_blocks *p, double seconds)
{
    dt_round_report *r = l->report;
    double all = 0, compare = 0;
    for (int64_t i = 0; i < p->blocks; i++) {
        const outcome *o = &p->outcomes[i];
        if (o->bad) {
            return dt_fail(l->ctx, DT_ERR_NUMERIC,
                           "round %s: a scale that was refreshed is not finite; group_scales "
                           "frozen, or more damping, may help",
                           l->name);
        }
        r->loss += o->loss;
        r->changed += o->changed;
        r->kept_nearest += o->kept_nearest;
        r->error += o->error; /* squares; the root is taken when all groups are done */
        r->nearest_error += o->nearest_error;
        all += o->seconds;
        compare += o->compare_seconds;
    }
    if (all > 0) r->compare_seconds += seconds * compare / all;
    return DT_OK;
}

/* Rows of a block: an eighth of the matrix, so that threads share a small matrix, but at least
 * LEAST for fast products. */
static int64_t rows_of_block(int64_t rows)
{
    const int64_t share = dt__round_up(dt__ceil_div(rows, 8), LEAST);
    return dt__max_i64(LEAST, dt__min_i64(share, DT__BLOCK_ROWS));
}

static bool has_dead(const dt__matrix *m)
{
    for (int64_t j = 0; j < m->columns; j++) {
        if (m->dead[j]) return true;
    }
    return false;
}

static void round_matrix_share(const void *args, const dt__share *share)
{
    const row_blocks *p = args;
    for (int64_t i = share->first; i < share->past; i++) {
        const int64_t item = p->first + i;
        p->outcomes[item] = run_block(p, item * p->rows, &p->slots[share->thread]);
    }
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* The first block of rank k. */
static int64_t first_of(const row_blocks *p, int k)
{
    return k * p->blocks / dt__cluster_ranks(p->cluster);
}

/* Exchanges results among ranks: each sends what it has for its rows, `each` bytes a row. */
static dt_status gather_rows(const row_blocks *p, dt__segment *part, void *of, size_t each)
{
    if (of == NULL) return DT_OK;
    for (int k = 0; k < dt__cluster_ranks(p->cluster); k++) {
        const int64_t row = dt__min_i64(p->m->rows, first_of(p, k) * p->rows);
        const int64_t past = dt__min_i64(p->m->rows, first_of(p, k + 1) * p->rows);
        part[k] = (dt__segment){ (char *)of + (size_t)row * each, (size_t)(past - row) * each };
    }
    return dt__cluster_gather_parts(p->cluster, "rows of codes", part, -1);
}

static dt_status gather_all(const row_blocks *p, dt__segment *part)
{
    const dt__code_grid *g = &p->m->grid;
    const size_t scales = (size_t)g->groups;
    DT__TRY(gather_rows(p, part, p->codes, (size_t)p->m->columns));
    if (p->refreshes) {
        DT__TRY(gather_rows(p, part, g->scale, scales * sizeof *g->scale));
        DT__TRY(gather_rows(p, part, g->inverse, scales * sizeof *g->inverse));
        DT__TRY(gather_rows(p, part, g->zero, scales));
    }
    for (int k = 0; k < dt__cluster_ranks(p->cluster); k++) {
        const int64_t first = first_of(p, k);
        part[k] = (dt__segment){ p->outcomes + first,
                                 (size_t)(first_of(p, k + 1) - first) * sizeof *p->outcomes };
    }
    return dt__cluster_gather_parts(p->cluster, "outcomes of rounding", part, -1);
}

static dt_status gather(const row_blocks *p)
{
    if (p->cluster == NULL) return DT_OK;
    dt__segment *part = dt__alloc_array(p->m->ctx, dt__cluster_ranks(p->cluster), sizeof *part);
    dt_status s = part == NULL ? DT_ERR_NOMEM : DT_OK;
    s = dt__cluster_meet(p->cluster, DT__MEETING, s);
    if (s == DT_OK) s = gather_all(p, part);
    dt__release(p->m->ctx, part);
    return s;
}

dt_status dt__round_matrix(dt__layer *l, dt__matrix *m, int8_t *codes)
{
    const dt_rounding *options = &l->options->rounding;
    row_blocks p = { .m = m, .codes = codes, .rows = rows_of_block(m->rows) };
    p.rounder = m->fallback ? &dt__round_nearest : l->method->rounder;
    p.compares = m->moments != NULL;
    p.all = !dt__needs_data(l->method);
    p.has_changed = m->bounds != NULL || (has_dead(m) && !p.all);
    p.sees_float_inputs = l->method->rounder->needs_float;
    p.keeps_better = options->keep_better && p.rounder != &dt__round_nearest;
    p.refreshes = options->group_scales == DT_SCALES_REFRESH;
    if (p.compares) p.cluster = l->work->statistics->cluster;
    p.blocks = dt__ceil_div(m->rows, p.rows);
    p.first = first_of(&p, dt__cluster_rank(p.cluster));
    p.has_diffused =
        p.rounder->diffuses && m->bounds == NULL && !m->keep_zeros && m->moments->g == NULL;
    dt_status s = make_room(&p);
    const double start = dt__seconds();
    dt__team *const threads = dt__threads_enter(l->ctx);
    const int64_t own = first_of(&p, dt__cluster_rank(p.cluster) + 1) - p.first;
    dt__parallel(s == DT_OK ? own : 0, DT__WORTH_A_THREAD, round_matrix_share, &p);
    dt__threads_leave(threads);
    if (s == DT_OK) s = gather(&p);
    if (s == DT_OK) s = add_up(l, &p, dt__seconds() - start);
    free_room(&p);
    return s;
}
