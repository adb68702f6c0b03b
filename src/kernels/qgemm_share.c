/* Divides an integer product into parts for threads. */
#include "kernels/qgemm.h"

#include <omp.h>

/* With fewer multiply-adds, counting the reading of a weight as four, waking threads costs more. */
#define WORTH_SHARING ((int64_t)1 << 20)
#define FEWEST 16 /* fewest rows of a chunk, so that unpacking a panel pays */

/* Totals of a product and its next ones. */
typedef struct totals {
    int64_t panels, products; /* multiply-adds of a row */
} totals;

static totals totals_of(const dt__qgemm *g)
{
    totals w = { 0, 0 };
    for (; g != NULL; g = g->next) {
        w.panels += g->layout->panels;
        w.products += g->layout->rows * g->layout->depth;
    }
    return w;
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

/* Multiplies rows m0 ... m0 + rows - 1 with a panel, numbered through all products. */
static void run_part(const dt__qgemm *g, int64_t panel, int64_t m0, int64_t rows,
                     void (*part)(const dt__qgemm_part *part))
{
    for (; panel >= g->layout->panels; g = g->next) panel -= g->layout->panels;
    const dt__panel_layout *l = g->layout;
    dt__qgemm_part p = { .g = g, .m0 = m0, .n0 = dt__panel_row(l, panel) };
    p.panel = (const uint8_t *)g->panels + (size_t)panel * l->panel_bytes;
    p.rows = (int)dt__min_i64(rows, g->m - m0);
    p.lanes = dt__panel_lanes(l, panel);
    if (p.rows > 0) part(&p);
}

void dt__qgemm_share(const dt__qgemm *g, int most, void (*part)(const dt__qgemm_part *part))
{
    const totals w = totals_of(g);
    const bool alone = g->alone || w.products <= WORTH_SHARING / (g->m + 4);
    const int threads = alone ? 1 : omp_get_max_threads();
    const int64_t chunks = chunks_of(g->m, w.panels, most, threads);
    const int64_t rows = dt__round_up(dt__ceil_div(g->m, chunks), 8), parts = chunks * w.panels;
    /* A product with few rows is bound by memory: each thread reads one contiguous range of
     * panels. */
    const int64_t grain = g->m < FEWEST ? dt__max_i64(1, dt__ceil_div(parts, threads)) : 1;
#pragma omp parallel for schedule(dynamic, grain) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < parts; i++) run_part(g, i / chunks, i % chunks * rows, rows, part);
}
