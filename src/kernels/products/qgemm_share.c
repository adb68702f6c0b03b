/* Divides an integer product into parts for threads. */
#include "core/threads.h"
#include "kernels/products/qgemm.h"

#define FEWEST 16 /* rows per chunk, at least, so that unpacking a panel pays */

/* A product and its next ones as the items of a loop. */
typedef struct plan {
    const dt__qgemm *g;
    int64_t chunks, rows; /* if rows are many: number of chunks, and rows per chunk */
    int64_t panels;       /* panels of all products */
    int64_t together;     /* chunks that are multiplied with one panel after another */
    void (*run)(const dt__qgemm_range *range);
} plan;

/* The items of one product: pairs of panels, the last of which may be single; or, if rows are many,
 * panels. */
static int64_t items_of(const dt__qgemm *g)
{
    const int64_t panels = g->layout->panels;
    return g->m < FEWEST ? dt__ceil_div(panels, 2) : panels;
}

/* The work of multiplying `rows` rows with a panel, in the unit of dt__parallel, a hundred
 * multiply-adds. Each column and row takes 32 multiply-adds; reading the weight counts as four
 * rows. */
static int64_t work_of(const dt__qgemm *g, int64_t rows)
{
    return g->alone ? 0 : 1 + DT__LANES * g->layout->depth * (rows + 4) / 100;
}

DT__LOOP(run_pairs, plan, p, i)
{
    const dt__qgemm *g = p->g;
    int64_t pair = i;
    for (; pair >= items_of(g); g = g->next) pair -= items_of(g);
    const int64_t apart = g->layout->panels / 2;
    dt__qgemm_range r = { g, 0, (int)g->m, 2, { pair, apart + pair } };
    if (pair == apart) {
        r.panels = 1;
        r.panel[0] = g->layout->panels - 1;
    }
    p->run(&r);
}

/* The number of chunks of rows: as few as `most` allows, more if the panels are too few for all
 * threads. */
static int64_t chunks_of(int64_t m, int64_t panels, int64_t most, int threads)
{
    int64_t chunks = dt__ceil_div(m, most);
    const int64_t wanted = dt__ceil_div((int64_t)4 * threads, dt__max_i64(1, panels));
    if (threads > 1) chunks = dt__max_i64(chunks, dt__min_i64(wanted, m / FEWEST));
    return dt__max_i64(1, chunks);
}

DT__LOOP(run_chunks, plan, p, i)
{
    const dt__qgemm *g = p->g;
    const int64_t first = i / (p->panels * p->together) * p->together;
    const int64_t n = dt__min_i64(p->together, p->chunks - first), at = i - first * p->panels;
    const int64_t m0 = (first + at % n) * p->rows;
    int64_t panel = at / n;
    const int64_t rows = dt__min_i64(p->rows, g->m - m0);
    for (; panel >= g->layout->panels; g = g->next) panel -= g->layout->panels;
    if (rows > 0) p->run(&(dt__qgemm_range){ g, m0, (int)rows, 1, { panel, 0 } });
}

void dt__qgemm_share(const dt__qgemm *g, int most, int64_t near,
                     void (*run)(const dt__qgemm_range *range))
{
    int64_t items = 0;
    for (const dt__qgemm *each = g; each != NULL; each = each->next) items += items_of(each);
    plan p = { .g = g, .run = run };
    if (g->m < FEWEST) {
        dt__parallel(items, 2 * work_of(g, g->m), run_pairs, &p);
        return;
    }
    p.panels = items;
    p.chunks = chunks_of(g->m, items, most, g->alone ? 1 : dt__threads());
    p.rows = dt__round_up(dt__ceil_div(g->m, p.chunks), 8);
    p.together = dt__max_i64(1, near / dt__max_i64(1, p.rows * g->layout->depth));
    dt__parallel(items * p.chunks, work_of(g, p.rows), run_chunks, &p);
}
