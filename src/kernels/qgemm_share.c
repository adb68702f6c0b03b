/* How the parts of an integer product are shared among threads. */
#include "kernels/qgemm.h"

#include <omp.h>

/* Below this many multiply-adds, counting a weight's reading as four, waking threads costs more. */
#define WORTH_SHARING ((int64_t)1 << 20)
#define FEWEST 16 /* rows that are worth unpacking a panel for */

/* What a product and those behind it have together. */
typedef struct whole {
    int64_t panels, products; /* multiply-adds of a row */
} whole;

static whole whole_of(const dt__qgemm *g)
{
    whole w = { 0, 0 };
    for (; g != NULL; g = g->next) {
        w.panels += g->layout->panels;
        w.products += g->layout->rows * g->layout->depth;
    }
    return w;
}

/* Chunks of rows: as few as `most` allows, more where the panels alone keep no thread busy. */
static int64_t chunks_of(int64_t m, int64_t panels, int64_t most, int threads)
{
    int64_t chunks = dt__ceil_div(m, most);
    const int64_t wanted = dt__ceil_div((int64_t)4 * threads, dt__max_i64(1, panels));
    if (threads > 1) chunks = dt__max_i64(chunks, dt__min_i64(wanted, m / FEWEST));
    return dt__max_i64(1, chunks);
}

/* Rows m0 ... m0 + rows - 1 against a panel, counted through all products. */
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
    const whole w = whole_of(g);
    const bool alone = g->alone || w.products <= WORTH_SHARING / (g->m + 4);
    const int threads = alone ? 1 : omp_get_max_threads();
    const int64_t chunks = chunks_of(g->m, w.panels, most, threads);
    const int64_t rows = dt__round_up(dt__ceil_div(g->m, chunks), 8), parts = chunks * w.panels;
    /* A few rows are a matter of reading: each thread reads one stretch of panels. */
    const int64_t grain = g->m < FEWEST ? dt__max_i64(1, dt__ceil_div(parts, threads)) : 1;
#pragma omp parallel for schedule(dynamic, grain) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < parts; i++) run_part(g, i / chunks, i % chunks * rows, rows, part);
}
