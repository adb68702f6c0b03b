/* Products of a grouped weight's codes with the rows that are routed to its experts.
 *
 * The work is divided into parts: some rows of one expert by some of its panels, so that both stay
 * in cache. The parts of all experts are one list that threads share. If the rows of a part are not
 * contiguous, are packed, or must be reordered to the weight's column order, they are gathered
 * first. The division changes no bit. */
#include "ops/products/grouped_gemm.h"

#include <string.h>

#define ROWS 96                          /* rows per part: CHUNK of qgemm_tile.inc */
#define PANELS 16                        /* panels per part, at most */
#define WORTH_SHARING ((int64_t)1 << 20) /* multiply-adds, as in qgemm_share.c */

/* How the rows of an expert are divided into chunks. */
typedef struct cut {
    int64_t first;        /* number of its first part in the list */
    int64_t rows, chunks; /* rows per chunk; number of chunks */
} cut;

typedef struct product {
    const dt__grouped *g;
    const dt__codes *x, *w; /* x NULL: floats */
    const int64_t *start;
    int64_t in, out;
    int64_t panels; /* panels per part */
    cut *cut;       /* [experts + 1] */
    char *room;
    float *y;
} product;

/* The workspace of a thread: gathered rows of x, and rows of y to scatter. */
typedef struct thread_room {
    void *x; /* [ROWS][stride] codes, or [DT__FGEMM_ROWS][in] floats */
    float *scale;
    int32_t *zero;
    float *y; /* [DT__FGEMM_ROWS][PANELS * DT__LANES] */
} thread_room;

typedef struct part {
    int64_t expert, place, rows; /* rows at places `place` ... place + rows - 1 of the routing */
    int64_t n0, n;               /* outputs n0 ... n0 + n - 1 of the expert */
    int thread;                  /* the thread that computes it */
} part;

bool dt__grouped_multiplies(const dt__grouped *g)
{
    const dt__codes *w = g->c->codes[g->weight];
    return dt__codes_multiply(g->c->codes[g->x], w) &&
           w->layout.expert_rows == g->c->arg[g->weight]->dims[1];
}

bool dt__grouped_is_few(const dt__grouped *g, int64_t rows)
{
    const dt__codes *w = g->c->codes[g->weight];
    const int64_t counted = g->c->tape->no_grad ? 0 : rows;
    return g->c->codes[g->x] == NULL && dt__codes_multiply_floats(counted, w) &&
           w->layout.expert_rows == g->c->arg[g->weight]->dims[1];
}

/* ---- scratch --------------------------------------------------------------------------------- */

static size_t x_bytes(const dt__grouped *g)
{
    const int64_t in = dt__columns(g->c->arg[g->x]);
    if (g->c->codes[g->x] == NULL) {
        return dt__scratch_part((size_t)(DT__FGEMM_ROWS * in) * sizeof(float));
    }
    return dt__scratch_part((size_t)(ROWS * dt__round_up(in, DT__STEP) + DT__STEP));
}

/* Scales of x: one per row, or one per block. */
static size_t scale_bytes(const dt__grouped *g)
{
    const dt__codes *x = g->c->codes[g->x];
    const int64_t blocks = x != NULL && x->blocks ? dt__max_i64(1, x->groups) : 1;
    return dt__scratch_part((size_t)(ROWS * blocks) * sizeof(float));
}

static size_t y_bytes(void) { return sizeof(float) * DT__FGEMM_ROWS * PANELS * DT__LANES; }

static size_t thread_bytes(const dt__grouped *g)
{
    return x_bytes(g) + ROWS * sizeof(int32_t) + scale_bytes(g) + y_bytes();
}

static thread_room thread_room_of(const product *p, int thread)
{
    char *room = p->room + (size_t)thread * thread_bytes(p->g);
    const size_t x = x_bytes(p->g), zero = x + scale_bytes(p->g);
    return (thread_room){ room, (float *)(void *)(room + x), (int32_t *)(void *)(room + zero),
                          (float *)(void *)(room + zero + ROWS * sizeof(int32_t)) };
}

size_t dt__grouped_codes_room(const dt__grouped *g)
{
    if (!dt__grouped_multiplies(g) && !dt__grouped_is_few(g, 0)) return 0;
    const size_t cuts = dt__scratch_part((size_t)(g->routing.experts + 1) * sizeof(cut));
    return cuts + (size_t)dt_threads(g->c->ctx) * thread_bytes(g);
}

/* ---- a part ---------------------------------------------------------------------------------- */

static int64_t row_of_x(const product *p, int64_t place)
{
    return dt__assignment_at(&p->g->routing, place) / p->g->routing.per_row;
}

/* Whether the part's rows are contiguous in x and y. */
static bool is_contiguous(const product *p, const part *t)
{
    return p->g->routing.assignment == NULL || t->rows == 1;
}

static const int32_t *order_of(const product *p, const part *t)
{
    return dt__panel_order(&p->w->layout, t->expert * p->out);
}

/* Sets the rows of x that the kernel reads: in place, or gathered. */
static void read_codes(const product *p, const part *t, thread_room *d, dt__qgemm *g)
{
    const dt__codes *x = p->x;
    const int32_t *order = order_of(p, t);
    const int64_t first = row_of_x(p, t->place);
    g->m = t->rows;
    if (is_contiguous(p, t) && !x->packed && order == NULL) {
        g->u = x->u + first * x->stride;
        g->ldu = x->stride;
        g->sx = x->scale + first;
        g->zu = x->zero_u + first;
        g->block_scale = x->blocks ? x->scale + first * x->groups : NULL;
        return;
    }
    g->u = d->x;
    g->ldu = dt__round_up(p->in, DT__STEP);
    g->sx = d->scale;
    g->zu = d->zero;
    g->block_scale = x->blocks ? d->scale : NULL;
    const int64_t scales = x->blocks ? x->groups : 1;
    for (int64_t i = 0; i < t->rows; i++) {
        const int64_t row = row_of_x(p, t->place + i);
        uint8_t *to = (uint8_t *)d->x + i * g->ldu;
        dt__codes_row(x, order, row, to);
        memset(to + p->in, 0, (size_t)(g->ldu - p->in));
        memcpy(d->scale + i * scales, x->scale + row * scales, (size_t)scales * sizeof(float));
        d->zero[i] = x->zero_u[row];
    }
}

static void read_floats(const product *p, const part *t, thread_room *d, dt__fgemm *g)
{
    const float *x = dt__data(p->g->c->arg[p->g->x]);
    const int32_t *order = order_of(p, t);
    g->m = t->rows;
    g->ldx = p->in;
    g->x = x + row_of_x(p, t->place) * p->in;
    if (is_contiguous(p, t) && order == NULL) return;
    g->x = d->x;
    for (int64_t i = 0; i < t->rows; i++) {
        const float *from = x + row_of_x(p, t->place + i) * p->in;
        float *to = (float *)d->x + i * p->in;
        if (order == NULL) memcpy(to, from, (size_t)p->in * sizeof *to);
        for (int64_t j = 0; order != NULL && j < p->in; j++) to[j] = from[order[j]];
    }
}

static float *y_of(const product *p, const part *t, int64_t place)
{
    return p->y + dt__assignment_at(&p->g->routing, place) * p->out + t->n0;
}

static void scatter(const product *p, const part *t, const float *bias, const float *from)
{
    for (int64_t i = 0; i < t->rows; i++, from += t->n) {
        float *y = y_of(p, t, t->place + i);
        for (int64_t j = 0; j < t->n; j++) y[j] = bias == NULL ? from[j] : from[j] + bias[j];
    }
}

static void run_part(const product *p, const part *t)
{
    const dt__panel_layout *whole = &p->w->layout, l = dt__panel_part(whole, t->n);
    const dt_tensor *b = p->g->c->arg[p->g->bias];
    const int64_t row = t->expert * p->out + t->n0;
    const float *bias = b == NULL ? NULL : (const float *)dt__data(b) + row;
    const void *panels =
        (const char *)p->w->panels + (size_t)dt__panel_at(whole, row).panel * whole->panel_bytes;
    const dt__kernels *k = p->w->ctx->kernels[DT_F32];
    thread_room d = thread_room_of(p, t->thread);
    const int64_t *assignment = p->g->routing.assignment;
    float *y = assignment == NULL ? y_of(p, t, t->place) : p->y + t->n0;
    if (p->x != NULL) {
        dt__qgemm g = { .layout = &l,
                        .panels = panels,
                        .bias = bias,
                        .y = y,
                        .ldy = p->out,
                        .place = assignment == NULL ? NULL : assignment + t->place,
                        .alone = true };
        read_codes(p, t, &d, &g);
        (l.nibbles ? k->qd8_qb4_gemm : k->qd8_qb8_gemm)(&g);
        return;
    }
    dt__fgemm g = { .layout = &l, .panels = panels, .y = d.y, .ldy = t->n, .alone = true };
    read_floats(p, t, &d, &g);
    (l.nibbles ? k->f32_qb4_gemm : k->f32_qb8_gemm)(&g);
    scatter(p, t, bias, d.y);
}

/* ---- all parts ------------------------------------------------------------------------------- */

static int64_t expert_panels(const product *p) { return p->w->layout.expert_panels; }

/* How many rows of an expert this product computes. */
static int64_t rows_of(const product *p, int64_t e)
{
    const int64_t rows = p->start[e + 1] - p->start[e];
    return p->x != NULL || dt__grouped_is_few(p->g, rows) ? rows : 0;
}

/* Part i of the list; its expert is found by bisection. Consecutive parts are chunks of rows for
 * the same panels. */
static part part_of(const product *p, int64_t i, int thread)
{
    int64_t low = 0, high = p->g->routing.experts;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (p->cut[middle].first <= i) low = middle;
        else high = middle;
    }
    const cut *c = &p->cut[low];
    const int64_t k = i - c->first, row = k % c->chunks * c->rows;
    part t = { .thread = thread, .expert = low, .place = p->start[low] + row };
    t.rows = dt__min_i64(c->rows, rows_of(p, low) - row);
    t.n0 = k / c->chunks * p->panels * DT__LANES;
    t.n = dt__min_i64(p->panels * DT__LANES, p->out - t.n0);
    return t;
}

/* Divides the work, with fewer panels per part if there would be less than two parts per thread.
 * Returns the number of parts. */
static int64_t cut_all(product *p, int threads)
{
    const int64_t experts = p->g->routing.experts, most = p->x != NULL ? ROWS : DT__FGEMM_ROWS;
    int64_t chunks = 0, parts = 0;
    for (int64_t e = 0; e < experts; e++) {
        const int64_t rows = rows_of(p, e), count = dt__ceil_div(rows, most);
        p->cut[e].chunks = count;
        p->cut[e].rows = count == 0 ? 0 : dt__round_up(dt__ceil_div(rows, count), 8);
        chunks += count;
    }
    p->panels = dt__ceil_div(chunks * expert_panels(p), (int64_t)2 * threads);
    p->panels = dt__max_i64(1, dt__min_i64(p->panels, PANELS));
    for (int64_t e = 0; e < experts; e++) {
        p->cut[e].first = parts;
        parts += p->cut[e].chunks * dt__ceil_div(expert_panels(p), p->panels);
    }
    return parts;
}

static int64_t products_of(const product *p)
{
    int64_t rows = 0;
    for (int64_t e = 0; e < p->g->routing.experts; e++) {
        if (rows_of(p, e) > 0) rows += rows_of(p, e) + 4; /* reading the weight costs four rows */
    }
    return rows * p->out * p->in;
}

static void product_share(const void *args, const dt__share *share)
{
    const product *p = args;
    for (int64_t i = share->first; i < share->past; i++) {
        const part t = part_of(p, i, share->thread);
        run_part(p, &t);
    }
}

void dt__grouped_codes_product(const dt__grouped *g, void *room, float *y)
{
    const int64_t experts = g->routing.experts;
    product p = { .g = g,
                  .x = g->c->codes[g->x],
                  .w = g->c->codes[g->weight],
                  .start = g->routing.start,
                  .in = g->c->arg[g->weight]->dims[2],
                  .out = g->c->arg[g->weight]->dims[1],
                  .cut = room,
                  .room = (char *)room + dt__scratch_part((size_t)(experts + 1) * sizeof(cut)),
                  .y = y };
    const int64_t products = products_of(&p);
    const int64_t parts = cut_all(&p, products > WORTH_SHARING ? dt__threads() : 1);
    if (parts > 0) {
        dt__parallel(parts, products / DT__CODE_PRODUCTS / parts, product_share, &p);
    }
}
