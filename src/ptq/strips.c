/* Strips of a matrix on threads: arguments gathered in processing order, rounded, codes kept. */
#include "ptq/bounds.h"
#include "ptq/layer.h"

#include <omp.h>
#include <string.h>

/* What one thread works in. */
typedef struct slot {
    double *work;
    void *scratch;
    int64_t *sums; /* of bounds: [tiles][rows] positive ones, then as many negative ones */
} slot;

typedef struct strips {
    dt__layer *layer;
    const dt__matrix *m;
    const dt__rounder *rounder;
    int8_t *codes; /* [rows][columns] of this matrix */
    slot *slots;   /* [threads] */
    int n;
} strips;

static void free_slots(strips *p)
{
    for (int i = 0; p->slots != NULL && i < p->n; i++) {
        dt__release(p->m->ctx, p->slots[i].work);
        dt__release(p->m->ctx, p->slots[i].scratch);
        dt__release(p->m->ctx, p->slots[i].sums);
    }
    dt__release(p->m->ctx, p->slots);
}

/* Sums of each sign that bounds keep of a strip. */
static int64_t sums_of(const dt__matrix *m, int64_t rows)
{
    return m->bounds == NULL ? 0 : m->bounds->tiles.count * rows;
}

static dt_status make_slots(strips *p)
{
    const dt__matrix *m = p->m;
    const size_t scratch = p->rounder->scratch == NULL ? 0 : p->rounder->scratch(m, DT__STRIP);
    p->n = m->ctx->threads;
    p->slots = dt__alloc_zero(m->ctx, (size_t)p->n * sizeof *p->slots);
    if (p->slots == NULL) return DT_ERR_NOMEM;
    for (int i = 0; i < p->n; i++) {
        p->slots[i].work = dt__alloc_array(m->ctx, m->columns, DT__STRIP * sizeof(double));
        p->slots[i].scratch = dt__alloc(m->ctx, scratch);
        p->slots[i].sums =
            dt__alloc_array(m->ctx, 2 * sums_of(m, DT__STRIP), sizeof *p->slots[i].sums);
        if (p->slots[i].work == NULL || p->slots[i].scratch == NULL || p->slots[i].sums == NULL) {
            return DT_ERR_NOMEM;
        }
    }
    return DT_OK;
}

static void gather(const dt__strip *s)
{
    const dt__matrix *m = s->m;
    const float *w = m->weight + s->row * m->columns;
    for (int64_t j = 0; j < m->columns; j++) {
        const int64_t column = m->order[j];
        double *to = s->work + j * s->rows;
        for (int64_t r = 0; r < s->rows; r++) {
            to[r] = m->dead[column] ? 0 : w[r * m->columns + column];
        }
    }
}

static void run_strip(const strips *p, int64_t row, const slot *own)
{
    dt__strip s = { .m = p->m, .row = row, .group = -1 };
    s.rows = dt__min_i64(DT__STRIP, p->m->rows - row);
    s.codes = p->codes + row * p->m->columns;
    s.work = own->work;
    s.scratch = own->scratch;
    const int64_t sums = sums_of(p->m, s.rows);
    s.positive = own->sums;
    s.negative = own->sums + sums;
    memset(own->sums, 0, 2 * (size_t)sums * sizeof *own->sums);
    gather(&s);
    p->rounder->round(&s);
}

dt_status dt__round_matrix(dt__layer *l, dt__matrix *m, int8_t *codes)
{
    strips p = { .layer = l, .m = m, .codes = codes };
    p.rounder = m->fallback ? &dt__round_nearest : l->method->rounder;
    const dt_status s = make_slots(&p);
    const int threads = dt__threads_enter(l->ctx);
#pragma omp parallel for schedule(dynamic) if (m->rows > DT__STRIP)
    for (int64_t row = 0; row < (s == DT_OK ? m->rows : 0); row += DT__STRIP) {
        run_strip(&p, row, &p.slots[omp_get_thread_num()]);
    }
    dt__threads_leave(threads);
    free_slots(&p);
    return s;
}
