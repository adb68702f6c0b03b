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

typedef void run(const dt__qgemm_range *range);

/* Multiplies rows m0 ... m0 + rows - 1 with panels first ... end - 1, numbered through all
 * products. */
static void run_panels(const dt__qgemm *g, int64_t m0, int64_t rows, const int64_t panel[2],
                       run *run)
{
    int64_t first = panel[0], end = panel[1];
    rows = dt__min_i64(rows, g->m - m0);
    for (; g != NULL && end > 0 && rows > 0; g = g->next) {
        const int64_t n = g->layout->panels, stop = dt__min_i64(end, n);
        if (first < stop) run(&(dt__qgemm_range){ g, m0, (int)rows, first, stop });
        first = dt__max_i64(0, first - n);
        end -= n;
    }
}

/* Few rows are bound by memory: each thread reads one range of panels. */
static void run_few(const dt__qgemm *g, int64_t panels, int threads, run *run)
{
    const int64_t shares = dt__min_i64(threads, panels);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < shares; i++) {
        const int64_t panel[] = { panels * i / shares, panels * (i + 1) / shares };
        run_panels(g, 0, g->m, panel, run);
    }
}

void dt__qgemm_share(const dt__qgemm *g, int most, run *run)
{
    const totals w = totals_of(g);
    const bool alone = g->alone || w.products <= WORTH_SHARING / (g->m + 4);
    const int threads = alone ? 1 : omp_get_max_threads();
    if (g->m < FEWEST) {
        run_few(g, w.panels, threads, run);
        return;
    }
    const int64_t chunks = chunks_of(g->m, w.panels, most, threads);
    const int64_t rows = dt__round_up(dt__ceil_div(g->m, chunks), 8), parts = chunks * w.panels;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < parts; i++) {
        const int64_t panel = i / chunks;
        run_panels(g, i % chunks * rows, rows, (const int64_t[]){ panel, panel + 1 }, run);
    }
}
